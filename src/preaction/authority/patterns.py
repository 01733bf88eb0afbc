"""Regular expressions in linear time (RE2): no text, however made, can hang the server. Spans are in code points.

RE2 has no look-around and no back-references, and its `$` is the end of the text, not the place before a last newline.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import re2

Span: TypeAlias = tuple[int, int]

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20


class PatternError(ValueError):
    """A pattern that RE2 doesn't read."""


class Pattern:
    """One compiled pattern over texts without lone surrogates."""

    def __init__(self, source: str) -> None:
        try:
            self._compiled: Any = re2.compile(source, _OPTIONS)
        except re2.error as error:
            reason = error.args[0] if error.args else ""
            detail = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise PatternError(f"not a regular expression that RE2 reads: {detail}") from None

    def found_in(self, text: str) -> bool:
        """Whether it matches anywhere in `text`."""
        return self._compiled.search(text) is not None

    def spans(self, text: str) -> Iterator[Span]:
        """Each match from the left, none overlapping, as `[start, end)` in code points."""
        return (match.span() for match in self._compiled.finditer(text))
