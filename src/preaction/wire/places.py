"""Where in a text each key and each value stands, for errors that name line and column. YAML's are in `yaml_text`.

JSON and TOML are read by the standard library, which keeps no places: these are found by a second, lenient walk over
a text that is already known to be right.
"""

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from preaction.errors import ConfigurationError, InvalidJSON
from preaction.wire.models import PackProblem
from preaction.wire.strict_json import loads

MAX_PROBLEMS: Final = 100

Path: TypeAlias = tuple[str | int, ...]


class PlacedError(ConfigurationError):
    """A text can't be right; `problems` has the line and column (from 1) of each error, up to 100."""

    def __init__(self, problems: Sequence[PackProblem], file: str = "") -> None:
        self.problems = tuple(sorted(problems, key=lambda each: (each.line, each.column))[:MAX_PROBLEMS])
        where = f"{file}:" if file else ""
        super().__init__("\n".join(f"{where}{each.line}:{each.column}: {each.detail}" for each in self.problems))


class Marks:
    """Where in a JSON or TOML text each key and each value begins; `repeated` are the keys that came twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.keys: dict[Path, int] = {}
        self.values: dict[Path, int] = {}
        self.repeated: list[tuple[str, int]] = []

    def at(self, offset: int, detail: str) -> PackProblem:
        """An error at this place in the text."""
        before = self._text[:offset]
        return PackProblem(line=before.count("\n") + 1, column=offset - before.rfind("\n"), detail=detail)

    def problem(self, path: Sequence[object], detail: str, *, key: bool = False) -> PackProblem:
        """An error at `path`, or at the nearest enclosing part that is in the text; `key` points at the name."""
        exact = tuple(part for part in path if isinstance(part, str | int))
        if key and exact in self.keys:
            return self.at(self.keys[exact], detail)
        while exact not in self.values and exact:
            exact = exact[:-1]
        return self.at(self.values.get(exact, 0), detail)


def read_json(text: str) -> tuple[Any, Marks]:
    """The data of a strict JSON text and its places, or `PlacedError`."""
    try:
        return loads(text), json_marks(text)
    except InvalidJSON as error:
        detail, line, column = place_in(str(error))
        if "repeated" in detail:
            marks = json_marks(text)
            problems = [marks.at(offset, f"the key {key[:80]!r} is repeated") for key, offset in marks.repeated]
            raise PlacedError(problems) from None
        raise PlacedError([PackProblem(line=line, column=column, detail=detail)]) from None


def place_in(message: str) -> tuple[str, int, int]:
    """A parser's message, and the place that it names at its end; the start where it names none."""
    found = re.search(r"(?s)^(.*?) \(?at line (\d+),? column (\d+)\)?$", message)
    return (found[1], int(found[2]), max(1, int(found[3]))) if found else (message, 1, 1)


def json_marks(text: str) -> Marks:
    """The places of a text that is JSON, repeated keys aside."""
    walk = _Walk(text, _JSON, json.loads)
    walk.value(())
    return walk.marks


def toml_marks(text: str) -> Marks:
    """The places of a text that is TOML."""
    walk = _Walk(text, _TOML, lambda token: tomllib.loads(f"k={token}")["k"])
    walk.marks.values[()] = 0
    counts: dict[Path, int] = {}
    table: Path = ()
    while walk.left:
        if walk.next_is("["):
            opened = walk.take()[1]
            array = walk.next_is("[") and walk.tokens[-1][1] == opened + 1
            if array:
                walk.take()
            table = _table(walk, counts, array=array, offset=opened)
        else:
            inner = walk.key(table)
            walk.take()
            walk.value(inner)
    return walk.marks


def _table(walk: "_Walk", counts: dict[Path, int], *, array: bool, offset: int) -> Path:
    """The path that a header names; a step through an array of tables goes into its last one."""
    path: Path = ()
    parts = walk.parts()
    for place, (part, at) in enumerate(parts):
        path = (*path, part)
        walk.marks.keys.setdefault(path, at)
        walk.marks.values.setdefault(path, offset)
        if array and place == len(parts) - 1:
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = (*path, counts[path] - 1)
            walk.marks.values.setdefault(path, offset)
    for _ in range(1 + array):
        walk.take()
    return path


_TEXTS: Final = (
    r'"""(?:[^\\]|\\.)*?"{3,5}'  # the quotes that close may follow quotes that don't
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
_JSON: Final = re.compile(_TEXTS + r'|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_TOML: Final = re.compile(_TEXTS + r"""|\#[^\n]*|[\[\]{}=,]|[0-9-]{10} [0-9:.]{5,}|[^\s\[\]{}=,\#"']+""", re.DOTALL)
_MARKS: Final = frozenset("[]{},=:")


class _Walk:
    """Tokens of a text from the last to the first, and what they say about places."""

    def __init__(self, text: str, token: re.Pattern[str], unquote: Callable[[str], str]) -> None:
        found = [(match[0], match.start()) for match in token.finditer(text)]
        self.tokens = [token for token in reversed(found) if not token[0].startswith("#")]
        self.marks = Marks(text)
        self._unquote = unquote

    @property
    def left(self) -> bool:
        return bool(self.tokens)

    def take(self) -> tuple[str, int]:
        return self.tokens.pop()

    def next_is(self, *texts: str) -> bool:
        return bool(self.tokens) and self.tokens[-1][0] in texts

    def value(self, path: Path) -> None:
        text, offset = self.take()
        self.marks.values[path] = offset
        if text == "[":
            index = 0
            while not self.next_is("]"):
                self.value((*path, index))
                index += 1
                self._comma()
            self.take()
        elif text == "{":
            while not self.next_is("}"):
                inner = self.key(path)
                self.take()
                self.value(inner)
                self._comma()
            self.take()

    def _comma(self) -> None:
        if self.next_is(","):
            self.take()

    def key(self, path: Path) -> Path:
        """The path under `path` of the key that comes, which in TOML may have several parts."""
        parts = self.parts()
        for part, offset in parts:
            path = (*path, part)
            if path in self.marks.keys and len(parts) == 1:
                self.marks.repeated.append((part, offset))
            self.marks.keys.setdefault(path, offset)
            self.marks.values.setdefault(path, offset)
        return path

    def parts(self) -> list[tuple[str, int]]:
        """The parts of a key, up to the separator or the end of a header."""
        found: list[tuple[str, int]] = []
        while self.tokens[-1][0] not in _MARKS:
            text, offset = self.take()
            if text[0] in "\"'":
                found.append((self._unquote(text), offset))
                continue
            for part in re.finditer(r"[^.]+", text):
                found.append((part[0], offset + part.start()))
        return found
