"""What the tool says is so, on a small package: some changes are noticed there, some not, and some are explained."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from mutation.mutants import Mutant
from mutation.survivors import Explanation, as_entry, doubtful, explanations, unexplained, useless
from mutation.trials import Outcome

RUN = Path(__file__).with_name("run.py")
EXPLAINED_HERE = RUN.with_name("survivors.toml")

CODE = """
from functools import cache


def within(number):
    return number <= 3


def shown(number):
    return number + 1


def settled(number):
    while number is None:
        pass
    return number


def unseen():
    return 1


@cache
def known(number):
    return within(number)
"""
TESTS = """
from small import known, settled, shown


def test_within():
    assert known(3) and not known(4)


def test_that_shows_nothing():
    shown(1)


def test_settled():
    assert settled(1) == 1
"""
ROOMS = """
[room]
code = ["src/small.py"]
tests = ["tests/test_small.py"]
"""
EXPLAINED = """
[[room]]
function = 'small.unseen'
before = 'return 1'
after = 'return 2'
why = "nobody calls it"

[[kind]]
function = 'small.sh*'
before = 'return number \\+ 1'
after = 'return number . \\d'
why = "nothing is shown"
"""

EXPLAINED_UNREACHED = """
[[kind]]
function = 'small.*'
before = '(?:return 1|while number is None:)'
after = '.*'
why = "no test goes there"
"""

MUTANT = Mutant("small.x_within__mutmut_1", "small.within", "return number <= 3", "return number < 3")
ENTRY = Explanation("room", MUTANT.function, MUTANT.before, MUTANT.after, "it never is 3")
TEXT = as_entry("room", "survived", MUTANT).replace('""', '"so"')
KIND = Explanation("kind", "small.*", r"(.*) <= (\d)", r"\1 < \2", "it never is the limit")


def tried(root: Path, *wanted: str, tests: str = TESTS, explained: str = EXPLAINED) -> tuple[int, list[str]]:
    for name, text in {
        "src/small.py": CODE,
        "tests/test_small.py": tests,
        "tests/mutation/rooms.toml": ROOMS,
        "tests/mutation/survivors.toml": explained,
        "pyproject.toml": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    command = [sys.executable, str(RUN), "--root", str(root), "--children", "2", *wanted]
    quick = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=quick)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_what_is_noticed_hangs_survives_and_is_reached_by_no_test_is_told_apart(tmp_path: Path) -> None:
    status, said = tried(tmp_path)
    counts = "2 killed, 1 timeout, 2 survived, 1 no tests, 0 broken: 50.0% of 6"
    assert (status, said[-1]) == (0, f"all: {counts}; 0 to explain, to kill, or to take out")


def test_a_survivor_without_an_explanation_fails_and_is_written_as_one(tmp_path: Path) -> None:
    status, said = tried(tmp_path, "small.un*", explained="")
    counts = "0 killed, 0 timeout, 0 survived, 1 no tests, 0 broken: 0.0% of 1"
    assert status == 1
    assert said[-9].startswith(f"room: {counts}, ")
    assert said[-7:] == [
        "[[room]]  # no tests",
        "function = 'small.unseen'",
        "before = 'return 1'",
        "after = 'return 2'",
        'why = ""',
        "",
        f"all: {counts}; 1 to explain, to kill, or to take out",
    ]


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        (
            TESTS + "    assert settled(1) == 2\n",
            "a test fails without a mutant: tests/test_small.py::test_settled (number 2)",
        ),
        (TESTS + "import nothing_of_this_name\n", "a test's module can't be imported without a mutant"),
        (
            "import sys\nsys.path.insert(0, '../../src')\n" + TESTS,
            "no test fails where every mutated function raises: another copy of the code is tested",
        ),
    ],
)
def test_tests_that_fail_as_it_is_or_test_another_copy_tell_nothing(tmp_path: Path, tests: str, why: str) -> None:
    status, said = tried(tmp_path, tests=tests)
    assert (status, said[-1]) == (2, f"room: {why}")


def test_an_entry_is_about_its_function_and_lines_wherever_they_stand() -> None:
    assert unexplained({MUTANT: "survived"}, [ENTRY]) == unexplained({MUTANT: "survived"}, [KIND]) == []
    for other in ("function", "before", "after"):
        moved = replace(MUTANT, **{other: "another"})
        assert unexplained({moved: "survived"}, [ENTRY, KIND]) == [moved]


def test_a_kind_is_about_its_own_change_of_a_line_and_no_other() -> None:
    for after in ("return None <= 3", "return None < 3", "return number < 4", "return number > 3"):
        other = replace(MUTANT, after=after)
        assert unexplained({other: "survived"}, [KIND]) == [other]


def test_only_what_is_killed_or_times_out_needs_no_entry_and_nothing_explains_a_trial_that_broke() -> None:
    assert [outcome for outcome in get_args(Outcome) if unexplained({MUTANT: outcome}, [])] == [
        "survived",
        "no tests",
        "broken",
    ]
    assert unexplained({MUTANT: "broken"}, [ENTRY]) == [MUTANT]


@pytest.mark.parametrize("entry", [ENTRY, KIND])
def test_an_entry_is_of_no_use_when_its_mutants_are_killed_or_gone_and_not_when_one_timed_out(
    entry: Explanation,
) -> None:
    assert useless({MUTANT: "survived"}, [entry]) == useless({MUTANT: "timeout"}, [entry]) == []
    assert useless({MUTANT: "killed"}, [entry]) == [f"survivors.toml explains what is killed: {entry}"]
    assert useless({}, [entry]) == [f"survivors.toml explains what does not exist: {entry}"]


ONCE = """
import os
from pathlib import Path

from small import known, shown


def first_of(name):
    try:
        Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def test_that_breaks_once():
    if not (known(3) and not known(4)):
        if first_of("broken"):
            os._exit(70)
        raise AssertionError


def test_that_fails_once():
    assert shown(1) == 2 or not first_of("failed")
"""
EXPLAINED_EACH = "".join(
    f"[[room]]\nfunction = 'small.shown'\nbefore = 'return number + 1'\nafter = '{after}'\nwhy = 'so'\n"
    for after in ("return number - 1", "return number + 2")
)


def test_what_broke_or_was_killed_though_explained_is_tried_once_more(tmp_path: Path) -> None:
    status, said = tried(tmp_path, tests=ONCE, explained=EXPLAINED_EACH + EXPLAINED_UNREACHED)
    counts = "2 killed, 0 timeout, 2 survived, 2 no tests, 0 broken: 33.3% of 6"
    assert (status, said[-1]) == (0, f"all: {counts}; 0 to explain, to kill, or to take out")


def test_only_what_would_make_the_run_fail_is_doubted() -> None:
    other = replace(MUTANT, name="small.x_within__mutmut_2", after="return number > 3")
    for outcome in get_args(Outcome):
        assert doubtful({MUTANT: outcome}, []) == ([MUTANT] if outcome == "broken" else [])
        assert doubtful({MUTANT: outcome}, [ENTRY]) == ([MUTANT] if outcome in ("broken", "killed") else [])
    assert doubtful({MUTANT: "killed", other: "killed"}, [ENTRY]) == [MUTANT]
    whole = replace(KIND, after=r"\1 [<>] \2")
    assert doubtful({MUTANT: "killed", other: "survived"}, [whole]) == []


@pytest.mark.parametrize("mutant", [MUTANT, replace(MUTANT, before="it's", after="a\nb")])
def test_a_survivor_is_written_as_the_entry_that_would_explain_it(mutant: Mutant) -> None:
    text = as_entry("room", "survived", mutant)
    (entry,) = explanations(text.replace('why = ""', 'why = "so"'))
    assert entry.covers(mutant)


@pytest.mark.parametrize("text", [TEXT.replace('"so"', '" "'), TEXT.replace("why", "because"), TEXT + "\nmore = 1"])
def test_an_entry_without_a_reason_or_with_another_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an entry has after, before, function, why, and a reason"):
        explanations(text)


def test_every_entry_of_this_repository_can_be_read() -> None:
    explanations(EXPLAINED_HERE.read_text("utf-8"))
