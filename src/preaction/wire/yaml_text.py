"""YAML text → plain data and the line and column of each part of it.

Only what means the same to every reader is read: JSON's types, one document, no anchors, no aliases, no tags, no
repeated or non-string keys. `when: yes` is text and `012` is refused. Nothing is made but dict, list and scalars.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from preaction.wire.models import PackProblem
from preaction.wire.places import Path, PlacedError

MAX_CHARS: Final = 128 * 1024
MAX_DEPTH: Final = 20


class Places:
    """Where in the text each key and each value begins."""

    def __init__(self) -> None:
        self.keys: dict[Path, Node] = {}
        self.values: dict[Path, Node] = {}

    def problem(self, path: Sequence[object], detail: str, *, key: bool = False) -> PackProblem:
        """An error at `path`, or at the nearest enclosing part that is in the text; `key` points at the name."""
        exact = tuple(part for part in path if isinstance(part, str | int))
        if key and exact in self.keys:
            return _at(self.keys[exact], detail)
        while exact not in self.values and exact:
            exact = exact[:-1]
        node = self.values.get(exact)
        return PackProblem(line=1, column=1, detail=detail) if node is None else _at(node, detail)

    def problem_inside(self, path: Path, detail: str, offset: int) -> PackProblem:
        """An error `offset` characters into a text that stands on one line as it is; else at the text's start."""
        node = self.values.get(path)
        if isinstance(node, ScalarNode) and node.start_mark.line == node.end_mark.line:
            quote = 1 if node.style in ("'", '"') else 0
            if node.end_mark.column - node.start_mark.column == len(node.value) + 2 * quote:
                column = node.start_mark.column + quote + offset + 1
                return PackProblem(line=node.start_mark.line + 1, column=column, detail=detail)
        return self.problem(path, detail)


def read_yaml(text: str, what: str = "a pack", error_type: type[PlacedError] = PlacedError) -> tuple[Any, Places]:
    """The data of one YAML document and its places, or `error_type`. `what` names the document in errors."""
    if len(text) > MAX_CHARS:
        raise error_type([PackProblem(line=1, column=1, detail=f"{what} has at most {MAX_CHARS} characters")])
    try:
        text.encode("utf-8")
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        detail = str(error.problem or error.context or "not YAML")
        raise error_type([PackProblem(line=where[0], column=where[1], detail=detail)]) from None
    except (YAMLError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError) as error:
        # ruamel lets a few built-in errors through for texts that are no YAML, such as bad directives and escapes.
        detail = f"not YAML that can be read ({type(error).__name__})"
        raise error_type([PackProblem(line=1, column=1, detail=detail)]) from None
    if node is None:
        raise error_type([PackProblem(line=1, column=1, detail=f"the {what.removeprefix('a ')} is empty")])
    reader = _Reader()
    data = reader.read(node, ())
    if reader.problems:
        raise error_type(reader.problems)
    return data, reader.places


class _Reader:
    """Walks the nodes once; what can't be read becomes a problem and None."""

    def __init__(self) -> None:
        self.places = Places()
        self.problems: list[PackProblem] = []

    def read(self, node: Node, path: Path) -> Any:
        self.places.values[path] = node
        if node.anchor is not None:
            return self._refuse(node, "anchors and aliases are not read")
        if len(path) >= MAX_DEPTH:
            return self._refuse(node, f"nested deeper than {MAX_DEPTH}")
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: MappingNode, path: Path) -> Any:
        if node.tag != f"{_TAG}map":
            return self._refuse(node, f"the tag {node.tag} is not read")
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag not in _TEXT_TAGS:
                self._refuse(key, "a key must be text; quote it")
            elif key.value in found:
                self._refuse(key, f"the key {key.value[:80]!r} is repeated")
            else:
                inner = (*path, key.value)
                self.places.keys[inner] = key
                found[key.value] = self.read(value, inner)
        return found

    def _scalar(self, node: Node) -> Any:
        convert = _SCALARS.get(str(node.tag)) if isinstance(node, ScalarNode) else None
        if convert is None:
            return self._refuse(node, f"the tag {node.tag} is not read")
        try:
            return convert(node.value)
        except ValueError as error:
            return self._refuse(node, str(error))

    def _refuse(self, node: Node, detail: str) -> None:
        self.problems.append(_at(node, detail))


def _at(node: Node, detail: str) -> PackProblem:
    return PackProblem(line=node.start_mark.line + 1, column=node.start_mark.column + 1, detail=detail)


def _text(text: str) -> str:
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise ValueError("half of a surrogate pair is not text")
    return text


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false, or quote the text")
    return text == "true"


def _int(text: str) -> int:
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,15})", text):
        raise ValueError("write a whole number as in JSON, or quote the text")
    return int(text)


def _float(text: str) -> float:
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?", text):
        raise ValueError("write a number as in JSON, or quote the text")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("the number is too large")
    return value


_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = (f"{_TAG}str", f"{_TAG}timestamp")  # a date is text: YAML 1.2's core types have none
_SCALARS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(_TEXT_TAGS, _text),
    f"{_TAG}bool": _bool,
    f"{_TAG}int": _int,
    f"{_TAG}float": _float,
    f"{_TAG}null": lambda _text: None,
}
