"""The public names and their signatures are those of public_api.txt."""

import difflib
from importlib import import_module
from pathlib import Path

import pytest

import public_api

RUNTIMES = "preaction.adapters."  # none of them is installed here


def test_the_public_names_are_those_kept() -> None:
    kept, now = public_api.KEPT.read_text("utf-8").splitlines(), public_api.text().splitlines()
    changes = "\n".join(difflib.unified_diff(kept, now, "kept", "now", lineterm="", n=1))
    assert not changes, f"`make api` keeps this, and CHANGELOG.md tells users:\n{changes}"


@pytest.mark.parametrize("module", [name for name in public_api.MODULES if not name.startswith(RUNTIMES)])
def test_each_public_name_is_there(module: str) -> None:
    names = import_module(module).__all__
    assert names, module
    assert [name for name in names if not hasattr(import_module(module), name)] == []


def test_what_the_api_pages_show_is_kept(repository: Path) -> None:
    pages = "".join(path.read_text("utf-8") for path in sorted((repository / "docs/api").glob("*.md")))
    shown = {line.removeprefix("::: ") for line in pages.splitlines() if line.startswith("::: ")}
    kept = {f"{module}.{name}" for module in public_api.MODULES for name in public_api.names_of(module)}
    assert len(shown) > 15
    assert shown <= kept | {*public_api.MODULES, *public_api.GIVEN}
