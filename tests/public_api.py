"""The public names with their signatures, as text: `make api` writes it to public_api.txt, and a test compares.

Read from the source, so that no runtime of an adapter is needed. Public is what a module of `MODULES` has in `__all__`.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe

import preaction

KEPT = Path(__file__).with_name("public_api.txt")
PACKAGE = Path(preaction.__file__).parent
ADAPTERS = sorted(path.stem for path in (PACKAGE / "adapters").glob("[a-z]*.py") if path.stem != "claude_code_hook")
MODULES = [
    "preaction",
    *(f"preaction.adapters.{name}" for name in ADAPTERS),
    "preaction.audit",
    "preaction.authority",
    "preaction.errors",
    "preaction.pipeline",
    "preaction.preflight",
    "preaction.preflight.ready",
    "preaction.stores",
    "preaction.stores.memory",
    "preaction.stores.redis",
    "preaction.stores.sqlite",
    "preaction.telemetry",
    "preaction.testing",
]
GIVEN = ["preaction.sessions.Decisions", "preaction.sessions.OutputChecks"]
"""Nobody imports them: `gate.decisions` and `gate.output_checks` are of these."""

CALLED = ("__call__", "__enter__", "__aenter__")
HEAD = "# Every public name with its signature; `make api` writes this file. A change here is one that users see."


def text() -> str:
    """All of it: module by module, its names by the alphabet, the members of each class."""
    return "\n".join([HEAD, *_lines()]) + "\n"


def names_of(module: str) -> list[str]:
    """The names in `__all__` of a module, sorted."""
    found = _found(module)
    if not isinstance(found, griffe.Module) or found.exports is None:
        raise LookupError(f"{module} has no __all__")
    return sorted(map(str, found.exports))


@cache
def _package() -> griffe.Object | griffe.Alias:
    return griffe.load("preaction", search_paths=[PACKAGE.parent], resolve_aliases=True, resolve_external=False)


def _found(path: str) -> griffe.Object:
    found = _package()
    for name in path.split(".")[1:]:
        found = found[name]
    return _target(found)


def _lines() -> Iterator[str]:
    for module in MODULES:
        yield f"\n{module}"
        for name in names_of(module):
            yield from _shown(name, _found(f"{module}.{name}"), "  ")
    for path in GIVEN:
        yield from ("", *_shown(path, _found(path), ""))


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _shown(name: str, what: griffe.Object, indent: str) -> Iterator[str]:
    match what:
        case griffe.Class():
            yield f"{indent}class {name}({', '.join(map(str, what.bases))})".removesuffix("()")
            for inner, member in sorted(what.all_members.items()):
                if _is_public(inner, _target(member)):
                    yield from _shown(inner, _target(member), indent + "  ")
        case griffe.Function():
            how = "".join(f"{label} " for label in ("async", "classmethod", "staticmethod") if label in what.labels)
            yield f"{indent}{how}def {what.signature(name=name)}"
        case griffe.Attribute():
            yield f"{indent}{name}{_typed(what)}"
        case _:
            raise TypeError(f"{what.path}: a {what.kind.value} among the public names")


def _typed(what: griffe.Attribute) -> str:
    annotation = "" if what.annotation is None else f": {what.annotation}"
    if "property" in what.labels:
        return f"{annotation} (property)"
    of_instances = "instance-attribute" in what.labels and "class-attribute" not in what.labels
    return annotation if what.value is None or of_instances else f"{annotation} = {what.value}"


def _is_public(name: str, member: griffe.Object) -> bool:
    """How an object is made is public unless its docstring sends to something else; Pydantic's settings never are."""
    if name == "__init__":
        return member.docstring is None or not member.docstring.value.startswith("Use ")
    return name in CALLED or (not name.startswith("_") and name != "model_config")


if __name__ == "__main__":
    KEPT.write_text(text(), "utf-8")
