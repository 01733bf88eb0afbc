"""Several processes that accept on one listener: forked, ended together, and none outlives the first one.

Nothing is restarted: when a worker ends by itself all end, and whoever started this one starts it again.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from preaction.errors import ConfigurationError

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
Work: TypeAlias = Callable[[Callable[[], None]], None]
"""What one worker does until it is told to end; it calls what it is given when it accepts connections."""


def run_workers(count: int, work: Work, on_ready: Callable[[], None]) -> None:
    """Fork `count` workers, tell when all are ready, and return when all have ended after SIGTERM or SIGINT.

    `ConfigurationError` when there is no fork here, or when one ended by itself. The caller has no threads yet, and
    closed whatever two processes can't share.
    """
    if not hasattr(os, "fork"):
        raise ConfigurationError("several workers need a system that can fork")
    team = _Team(work)
    for number in SIGNALS:
        signal.signal(number, lambda *_: team.stop())
    told = False
    try:
        for _ in range(count):
            team.start()
        if team.are_ready():
            on_ready()
            told = True
    finally:
        if not told:
            team.stop()
        failed = team.wait()
    if failed:
        raise ConfigurationError("a worker ended by itself, so all did")


class _Team:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._running: set[int] = set()
        self._told: list[int] = []
        self._alive, self._lifeline = os.pipe()
        """Closed by the end of this process, however it comes, which ends its workers."""
        self._stopping = False

    def start(self) -> None:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._run(theirs)
        os.close(theirs)
        self._running.add(pid)
        self._told.append(ours)

    def are_ready(self) -> bool:
        """Wait until every worker accepts connections; False when one ended before, or all were told to."""
        ready = all(os.read(end, 1) for end in self._told)
        if self._stopping:  # a signal that came before a worker could take it
            self.stop()
        return ready and not self._stopping

    def stop(self) -> None:
        self._stopping = True
        for pid in self._running:
            os.kill(pid, signal.SIGTERM)

    def wait(self) -> bool:
        """Wait for the end of all; True when one ended that wasn't told to, or not in order."""
        failed = False
        while self._running:
            pid, status = os.wait()
            self._running.discard(pid)
            if status != 0 or not self._stopping:
                failed = True
                self.stop()
        return failed

    def _run(self, told: int) -> NoReturn:
        """The worker: it ends here, and never returns into what its parent was doing."""
        code = 1
        try:
            os.close(self._lifeline)
            for number in SIGNALS:
                signal.signal(number, _ignore)
            threading.Thread(target=_outlive, args=(self._alive,), daemon=True).start()
            self._work(lambda: _tell(told))
            code = 0
        except KeyboardInterrupt:
            code = 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _outlive(alive: int) -> None:
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _tell(told: int) -> None:
    os.write(told, b".")


def _ignore(_number: int, _frame: Any) -> None:
    return
