"""What may take long is evaluated in a process of its own, which is ended when it does.

A condition that iterates or builds values can be made to take minutes and gigabytes, and CEL lets nothing else in the
process run meanwhile; a regular expression takes time by its size times the text's. Here each has `LIMIT_S` and so much
memory. What isn't evaluated in time has no answer, and is left alone for `REST_S`, so that asking again costs nothing.

An event loop waits for none of it: see `in_loop`. The process ends with the one that started it, also when that is
killed; a fork starts its own.
"""

import atexit
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, Final, TypeVar

T = TypeVar("T")

LIMIT_S: Final = 2.0
REST_S: Final = 60.0
_START_S: Final = 30.0
# The package without what its `__init__` imports: the process needs CEL and RE2, and no server.
_COMMAND: Final = """
import sys, types
package = types.ModuleType("preaction.authority")
package.__path__ = [sys.argv[1]]
sys.modules[package.__name__] = package
from preaction.authority.expressions.evaluating import evaluate_all
evaluate_all(float(sys.argv[2]))
"""
_IN_LOOP: Final = ContextVar("preaction_in_loop", default=False)


class Patience:
    """Whether something may be evaluated, or took too long a short while ago."""

    def __init__(self) -> None:
        self._until = 0.0

    def ask(self, question: Mapping[str, Any]) -> Any:
        """The evaluator's answer; None when there is none in time."""
        if time.monotonic() < self._until:
            return None
        if _IN_LOOP.get():
            raise _MustWait
        in_time, answer = _EVALUATOR.ask(question)
        if not in_time:
            self._until = time.monotonic() + REST_S
        return answer


class _MustWait(Exception):
    """The evaluator is needed, and an event loop can't wait for it."""


async def in_loop(read: Callable[[], T]) -> T:
    """What `read`, which changes nothing, gives: from the event loop itself, or from a thread if it has to wait."""
    token = _IN_LOOP.set(True)
    try:
        return read()
    except _MustWait:
        pass
    finally:
        _IN_LOOP.reset(token)
    from anyio import to_thread  # the process itself needs no threads, and starts sooner without

    return await to_thread.run_sync(read)


def expect() -> None:
    """Something was compiled that the process is for, so a server starts it before its first request."""
    _EVALUATOR.expected = True


def start_expected() -> None:
    """Start the process, if it is expected, and don't wait until it is ready: who asks first does."""
    if _EVALUATOR.expected:
        _EVALUATOR.start()


class _Evaluator:
    """The process, started before it is needed or then, and again after it was ended. One question at a time."""

    def __init__(self) -> None:
        self.expected = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False

    def start(self) -> None:
        """Start it unless it runs. When it can't be, whoever asks tries again."""
        with self._lock, suppress(OSError):
            self._running()

    def ask(self, question: Mapping[str, Any]) -> tuple[bool, Any]:
        """False when this question had its time and no answer, else True; and the answer, None when there is none."""
        if not self._lock.acquire(timeout=2 * LIMIT_S + (0 if self._ready else _START_S)):
            return True, None  # other questions took the time
        try:
            line = self._exchange(json.dumps(question).encode() + b"\n")
            if line:
                return True, json.loads(line)
        except (OSError, ValueError):
            pass
        finally:
            self._lock.release()
        return False, None

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):
                process.communicate()

    def forget(self) -> None:
        """In a new fork: the process is the parent's, and so is whoever holds the lock."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        if process is not None and process.stdin is not None and process.stdout is not None:
            process.stdin.close()  # held open here, it would keep the process from ending with the parent
            process.stdout.close()
            process.returncode = 0  # there is no child to wait for

    def _exchange(self, question: bytes) -> bytes:
        """The answer to a question, as a line; nothing when there is none, and then the process is ended."""
        answer = b""
        try:
            process = self._running()
            if process.stdin is not None and process.stdout is not None:
                self._ready = self._ready or bool(_line(process.stdout, time.monotonic() + _START_S))
                until = time.monotonic() + LIMIT_S
                if self._ready and _sent(process.stdin, question, until):
                    answer = _line(process.stdout, until)
        finally:
            if not answer:
                self.end()
        return answer

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is not None and self._process.poll() is not None:
            self.end()
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-c", _COMMAND, str(Path(__file__).parent.parent), str(2 * LIMIT_S)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a signal for the server isn't for it; it ends when its stdin does
            )
            self._ready = False
        return self._process


def _sent(pipe: IO[bytes], question: bytes, until: float) -> bool:
    """Whether the whole question was taken in time."""
    os.set_blocking(pipe.fileno(), False)
    left = memoryview(question)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_WRITE)
        while left:
            if not selector.select(max(0.0, until - time.monotonic())):
                return False
            left = left[os.write(pipe.fileno(), left) :]
    return True


def _line(pipe: IO[bytes], until: float) -> bytes:
    """The next line, or nothing when it doesn't come in time or the process ended."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not said.endswith(b"\n"):
            if not selector.select(max(0.0, until - time.monotonic())):
                return b""
            part = os.read(pipe.fileno(), 1 << 16)
            if not part:
                return b""
            said += part
    return said


_EVALUATOR: Final = _Evaluator()
atexit.register(_EVALUATOR.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_EVALUATOR.forget)
