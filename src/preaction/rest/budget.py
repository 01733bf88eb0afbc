"""The time that is left for one exchange, known to whoever waits on a socket.

HTTP libraries bound each wait, not their sum, so a peer that sends one byte at a time is waited for without end. The
budget of the running exchange is therefore a context variable, which our network backend reads before every wait.
"""

from contextvars import ContextVar, Token
from time import monotonic
from types import TracebackType
from typing import Final


class Budget:
    """An absolute end (of `time.monotonic()`), and whether a byte of an answer has come before it.

    Entered, it is the budget of all that this thread or task does on a socket.
    """

    __slots__ = ("_token", "ends", "heard")
    _token: "Token[Budget]"

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.heard = False

    def left(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.ends - monotonic())

    def __enter__(self) -> "Budget":
        self._token = CURRENT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        CURRENT.reset(self._token)


CURRENT: Final[ContextVar[Budget]] = ContextVar("preaction.rest.budget")
