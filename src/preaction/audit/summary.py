"""What a trail comes to: how many calls, which denials of which tools, what was handed on, and when.

Only counts and the latest denials are kept, so a long trail takes little memory.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from preaction.audit.record import AuditRecord
from preaction.wire.models import Escalation

LATEST: Final = 200
MOST_BARS: Final = 60
_STEPS: Final = (
    *(timedelta(minutes=n) for n in (1, 5, 15, 30)),
    *(timedelta(hours=n) for n in (1, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 7, 30, 90, 365)),
)
_EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday, at which weeks begin


@dataclass(frozen=True, slots=True)
class Bar:
    """The calls that began in `step` from `start` on."""

    start: datetime
    allowed: int
    denied: int


@dataclass(slots=True)
class UnderRules:
    """What was judged by one set of rules."""

    calls: int
    first: datetime
    last: datetime


@dataclass(slots=True)
class Summary:
    """Counts over records, in any order of time. `observed` are denials that were not binding."""

    allowed: int = 0
    denied: int = 0
    observed: int = 0
    denials: Counter[tuple[str, str]] = field(default_factory=Counter)
    tools: Counter[tuple[str, bool]] = field(default_factory=Counter)
    escalations: Counter[Escalation] = field(default_factory=Counter)
    rules: dict[str, UnderRules] = field(default_factory=dict)
    latest: deque[AuditRecord] = field(default_factory=lambda: deque(maxlen=LATEST))
    minutes: Counter[tuple[datetime, bool]] = field(default_factory=Counter)

    def add(self, records: Iterable[AuditRecord]) -> "Summary":
        """Count these records as well."""
        for record in records:
            said = record.verdict
            self.tools[record.tool, said.allow] += 1
            self.minutes[record.at.replace(second=0, microsecond=0), said.allow] += 1
            under = self.rules.setdefault(record.rules.digest, UnderRules(0, record.at, record.at))
            under.calls += 1
            under.first, under.last = min(under.first, record.at), max(under.last, record.at)
            if said.allow:
                self.allowed += 1
                continue
            self.denied += 1
            self.observed += not said.enforced
            self.denials[said.code, record.tool] += 1
            if said.escalation is not None:
                self.escalations[said.escalation] += 1
            self.latest.append(record)
        return self

    @property
    def total(self) -> int:
        """All calls."""
        return self.allowed + self.denied

    @property
    def first(self) -> datetime:
        """When the first call was judged."""
        return min(under.first for under in self.rules.values())

    @property
    def last(self) -> datetime:
        """When the last call was judged."""
        return max(under.last for under in self.rules.values())

    def timeline(self) -> tuple[timedelta, list[Bar]]:
        """The calls over time, in at most `MOST_BARS` bars of equal length, empty ones among them."""
        step = next((step for step in _STEPS if (self.last - self.first) / step < MOST_BARS - 1), None)
        step = (self.last - self.first) / (MOST_BARS - 2) if step is None else step
        start = _EPOCH + (self.first - _EPOCH) // step * step
        counts: Counter[tuple[int, bool]] = Counter()
        for (minute, allow), count in self.minutes.items():
            counts[max(0, (minute - start) // step), allow] += count
        bars = (self.last - start) // step + 1
        return step, [Bar(start + n * step, counts[n, True], counts[n, False]) for n in range(bars)]
