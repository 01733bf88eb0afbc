"""The mutants of a room: a copy of the checkout in which mutmut has put all of them beside each function.

mutmut generates them and switches between them; what runs the tests is `trials.py`, as mutmut's own runner collects
anew for each mutant, which takes longer than the tests, and calls a run that could not begin a time-out.
"""

import ast
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import ndiff
from fnmatch import fnmatchcase
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents

COPIED = ("src", "tests", "vectors", "pyproject.toml")


@dataclass(frozen=True)
class Mutant:
    """One change of one function; `function` is its name from the package's on, lines are without their indent."""

    name: str
    function: str
    before: str
    after: str


def copied(root: Path, copy: Path) -> None:
    """Make `copy` a fresh copy of what the tests of `root` need."""
    shutil.rmtree(copy, ignore_errors=True)
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).exists():
            shutil.copy(root / name, copy / name)


def mutated(copy: Path, code: Iterable[str], patterns: Iterable[str]) -> list[Mutant]:
    """Put the mutants of the files that `code` names into the copy, where `patterns` (see `chosen`) can mean them."""
    found: list[Mutant] = []
    wanted = list(patterns) or ["*"]
    for path in sorted({path for pattern in code for path in copy.glob(pattern)}):
        module = ".".join(path.relative_to(copy / "src").with_suffix("").parts).removesuffix(".__init__")
        if not any(one.startswith(f"{module}.") or "*" in one[: len(module)] for one in wanted):
            continue
        file = mutate_file_contents(str(path), path.read_text("utf-8"))
        path.write_text(file.code, "utf-8")
        found += _read(module, file.code, file.mutant_names)
    return found


def chosen(mutants: Iterable[Mutant], patterns: Iterable[str]) -> list[Mutant]:
    """Those whose function fits a pattern such as `preaction._core.call.*`; all of them where there is no pattern."""
    wanted = list(patterns) or ["*"]
    return [mutant for mutant in mutants if any(fnmatchcase(mutant.function, pattern) for pattern in wanted)]


def _read(module: str, code: str, names: Iterable[str]) -> Iterator[Mutant]:
    lines = code.splitlines()
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    for name in names:
        mangled = name.partition("__mutmut_")[0]
        plain = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
        was, becomes = (
            [line.replace(one, plain).strip() for line in lines[functions[one].lineno - 1 : functions[one].end_lineno]]
            for one in (f"{mangled}__mutmut_orig", name)
        )
        changes = [line for line in ndiff(was, becomes) if line[0] in "-+"]
        before, after = ("\n".join(line[2:] for line in changes if line[0] == sign) for sign in "-+")
        yield Mutant(f"{module}.{name}", f"{module}.{plain}", before, after)
