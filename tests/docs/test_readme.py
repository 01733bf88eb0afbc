"""The README: its code runs and prints what stands there, its commands exist, its links lead somewhere."""

import re
from pathlib import Path

from docs.pages import READER, run_page


def test_everything_in_it_runs(repository: Path) -> None:
    run_page(repository / "README.md")


def test_one_call_denied_then_allowed_takes_less_than_40_lines(repository: Path) -> None:
    (block,) = [str(e.parsed) for e in READER.parse(repository / "README.md").examples() if "import" in str(e.parsed)]
    assert len(block.strip().splitlines()) < 40
    assert max(map(len, block.splitlines())) <= 120


def test_its_numbers_are_those_that_the_demo_is_tested_for(repository: Path) -> None:
    said = re.search(r"17 calls denied, 4 allowed", (repository / "README.md").read_text("utf-8"))
    tested = (repository / "tests/examples/test_helpdesk.py").read_text("utf-8")
    assert said is not None
    assert "17 denied, 4 allowed." in tested
