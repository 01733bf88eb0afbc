"""How many requests each key may send: a token bucket for each, in this process."""

import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from preaction.authority.refusal import Refused
from preaction.errors import ConfigurationError

_RATE: Final = re.compile(r"([0-9]{1,7})/(s|min|h)", re.ASCII)
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600}
_BURST_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` requests, and at most `burst` at once."""

    per_second: float
    burst: float


def read_rate(text: str, *, share: int = 1) -> Rate:
    """The rate that a text such as `50/s`, `600/min` or `5000/h` names, divided between `share` processes.

    What one second brings may come at once, and one request always may. `ConfigurationError` for another text.
    """
    match = _RATE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ConfigurationError("a rate is a number of requests and s, min or h, such as 50/s or 600/min")
    per_second = int(match[1]) / _SECONDS[match[2]] / share
    return Rate(per_second, max(1.0, per_second * _BURST_S))


class Limits:
    """The buckets of one process; keys are known before they get here, so there are no more buckets than keys."""

    def __init__(self, rate: Rate | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, key_id: str) -> None:
        """Count one request. `Refused` with 429, and after how many seconds there is room, when it is one too many."""
        if self._rate is None:
            return
        with self._lock:
            now = self._clock()
            left, since = self._left.get(key_id, (self._rate.burst, now))
            left = min(self._rate.burst, left + max(0.0, now - since) * self._rate.per_second)
            enough = left >= 1.0
            self._left[key_id] = left - enough, now
        if not enough:
            wait = math.ceil((1.0 - left) / self._rate.per_second)
            raise Refused(429, "This key sends too many requests.", retry_after_s=wait)
