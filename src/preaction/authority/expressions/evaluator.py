"""What may take long is evaluated in a process of its own, which is ended when it does.

A condition that iterates or builds values can be made to take minutes and gigabytes, and CEL lets nothing else in the
process run meanwhile; a regular expression takes time by its size times the text's. Here each has `LIMIT_S` and so much
memory. What isn't evaluated in time has no answer, and is left alone for `REST_S`, so that asking again costs nothing.
"""

import atexit
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

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
evaluate_all()
"""


class Patience:
    """Whether something may be evaluated, or took too long a short while ago."""

    def __init__(self) -> None:
        self._until = 0.0

    def ask(self, question: Mapping[str, Any]) -> Any:
        """The evaluator's answer; None when there is none in time."""
        if time.monotonic() < self._until:
            return None
        answered, answer = _EVALUATOR.ask(question)
        if not answered:
            self._until = time.monotonic() + REST_S
        return answer


class _Evaluator:
    """The process, started when it is first needed and again after it was ended. One question at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, question: Mapping[str, Any]) -> tuple[bool, Any]:
        """Whether there is an answer, and it."""
        if not self._lock.acquire(timeout=2 * LIMIT_S):
            return False, None
        try:
            process = self._running()
            if process is None or process.stdin is None:
                return False, None
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            line = _line(process, LIMIT_S)
            if not line:
                self.end()
                return False, None
            return True, json.loads(line)
        except (OSError, ValueError):
            self.end()
            return False, None
        finally:
            self._lock.release()

    def end(self) -> None:
        """End the process; after a fork it is the parent's, and left alone."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            with suppress(OSError):
                process.communicate()

    def _running(self) -> "subprocess.Popen[bytes] | None":
        if self._process is not None and (self._owner != os.getpid() or self._process.poll() is not None):
            self.end()
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-c", _COMMAND, str(Path(__file__).parent.parent)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a signal for the server isn't for it; it ends when its stdin does
            )
            self._owner = os.getpid()
            if not _line(self._process, _START_S):
                self.end()
        return self._process


def _line(process: "subprocess.Popen[bytes]", seconds: float) -> bytes:
    """The next line, or nothing when it doesn't come in time or the process ended."""
    if process.stdout is None:
        return b""
    until, said = time.monotonic() + seconds, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not said.endswith(b"\n"):
            if not selector.select(max(0.0, until - time.monotonic())):
                return b""
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            said += part
    return said


_EVALUATOR: Final = _Evaluator()
atexit.register(_EVALUATOR.end)
