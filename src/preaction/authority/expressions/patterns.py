"""Regular expressions in linear time (RE2): no text, however made, can hang the server. Spans are in code points.

RE2 has no look-around and no back-references, and its `$` is the end of the text, not the place before a last newline.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

import re2

from preaction.authority.expressions.evaluator import Patience

Span: TypeAlias = tuple[int, int]

_SHORT: Final = 2_000_000
"""The size of a pattern's program times that of a text: so many steps take a tenth of a second at the worst."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20


class PatternError(ValueError):
    """A pattern that RE2 doesn't read."""


class Pattern:
    """One compiled pattern over texts without lone surrogates.

    Linear is still long for a large pattern and a large text: those two go to the `evaluator`.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._patience = Patience()
        try:
            self._compiled: Any = re2.compile(source, _OPTIONS)
        except re2.error as error:
            reason = error.args[0] if error.args else ""
            detail = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise PatternError(f"not a regular expression that RE2 reads: {detail}") from None

    def found_in(self, text: str) -> bool | None:
        """Whether it matches anywhere in `text`; None when that can't be told in time."""
        if self._is_short(text):
            return self._compiled.search(text) is not None
        found = self._asked(text, 1)
        return None if found is None else bool(found)

    def spans(self, text: str, most: int) -> Iterable[Span | None]:
        """The first `most` matches from the left, none overlapping, as `[start, end)` in code points.

        One None when they can't be told in time.
        """
        if self._is_short(text):
            return self.matches(text, most)
        found = self._asked(text, most)
        return (None,) if found is None else ((start, end) for start, end in found)

    def matches(self, text: str, most: int) -> Iterator[Span]:
        """The same, however long it takes."""
        return (match.span() for match in islice(self._compiled.finditer(text), most))

    def _is_short(self, text: str) -> bool:
        return len(text) * int(self._compiled.programsize) <= _SHORT

    def _asked(self, text: str, most: int) -> list[list[int]] | None:
        answer: list[list[int]] | None = self._patience.ask({"pattern": self.source, "text": text, "most": most})
        return answer
