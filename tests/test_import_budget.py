"""What may be loaded before it is needed: packages by name and modules by number. How long it takes is `make bench`'s.

Counted is what a new process loads beyond the interpreter's own start.
"""

import subprocess
import sys

import pytest

COUNTED = """
import contextlib, io, sys
started = set(sys.modules)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    {}
print(*sorted(set(sys.modules) - started))
"""
GATE = """
    from preaction import create_action_gate
    rule = {"outcomes": ["billing"], "entity": {"field": "ticket"}, "fields": ["ticket"]}
    create_action_gate(job="triage", tools={"reply": rule}, verify=lambda id: None, describe=lambda job: None)
"""
HELP = """
    from preaction.cli.app import app
    app(["--help"])
"""
CORE = {"annotated_types", "cachetools", "preaction", "pydantic", "pydantic_core", "rfc8785", "typing_extensions"}
CORE |= {"typing_inspection"}  # Pydantic's
TYPER = {"annotated_doc", "markdown_it", "mdurl", "pygments", "rich", "shellingham", "typer"}
TYPER |= {"linkify_it", "uc_micro"}  # markdown_it's, where something else brings them

# what a process does → the packages that it may load, and how many modules at most, about a tenth above what they were
BUDGETS = {
    "import preaction": ("import preaction", CORE, 320),
    "create_action_gate": (GATE, CORE, 320),
    "preaction --help": (HELP, CORE | TYPER, 550),
}


@pytest.mark.parametrize(("code", "packages", "modules"), BUDGETS.values(), ids=BUDGETS)
def test_only_these_packages_are_loaded_and_not_too_many_modules(code: str, packages: set[str], modules: int) -> None:
    done = subprocess.run([sys.executable, "-c", COUNTED.format(code.strip())], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert {name for name in foreign if not name.startswith("_sysconfigdata")} <= packages
    assert "preaction.gate" in loaded
    assert len(loaded) <= modules
