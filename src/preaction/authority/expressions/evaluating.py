"""The process that the `evaluator` starts: it answers question after question, and is ended when one takes too long."""

import json
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from preaction.authority.expressions.conditions import Condition, Dialect
from preaction.authority.expressions.patterns import Pattern

_MEMORY: Final = 2 << 30
_KEPT: Final = 256


def evaluate_all(limit_s: float) -> None:
    """Answer from stdin to stdout, a line of JSON each, until there are no more questions.

    An answer that takes longer than `limit_s` ends the process, for whoever asked may be gone. Nothing but a signal
    that isn't handled can do that: CEL lets no other Python run.
    """
    with suppress(ImportError, ValueError, OSError):  # a system without such limits has the one in time
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _say("ready")
    for line in sys.stdin.buffer:
        _alarm(limit_s)
        _say(_evaluate(json.loads(line)))
        _alarm(0)


def _alarm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _evaluate(question: Mapping[str, Any]) -> Any:
    if "pattern" in question:
        return [list(span) for span in _pattern(question["pattern"]).matches(question["text"], question["most"])]
    return _condition(json.dumps(question["schemas"]), question["condition"]).evaluate(question["data"])


@lru_cache(_KEPT)
def _pattern(source: str) -> Pattern:
    return Pattern(source)


@lru_cache(_KEPT)
def _condition(schemas: str, source: str) -> Condition:
    return Dialect(json.loads(schemas)).compile(source)


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
