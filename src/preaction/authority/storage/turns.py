"""Turns to write: who waits longest comes next.

Python's own locks, and pools made of them, go to whichever thread happens to run, which is often the one that just gave
it back: of forty that write under load some then wait for ever.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class NoTurn(Exception):
    """Those before took too long."""


class Turns:
    """So many at a time, and the others in the order in which they came."""

    def __init__(self, places: int) -> None:
        self._guard = threading.Lock()
        self._free = places
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def turn(self, timeout_s: float) -> Iterator[None]:
        """Wait for a turn, and have it while the block runs. `NoTurn` when it doesn't come in time."""
        if not self._take(timeout_s):
            raise NoTurn
        try:
            yield
        finally:
            self._give_back()

    def _take(self, timeout_s: float) -> bool:
        with self._guard:
            if self._free:
                self._free -= 1
                return True
            mine = threading.Event()
            self._waiting.append(mine)
        if mine.wait(timeout_s):
            return True
        with self._guard:
            if mine.is_set():
                return True  # it came just now
            self._waiting.remove(mine)
            return False

    def _give_back(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()  # the place goes from hand to hand and is never free in between
            else:
                self._free += 1
