"""4 · Facts: what the decision asks of the world, and what the world may answer.

Asks are frozen and hashable. To the authority go `Verify`, `Describe` and `VerifyOutputCheck`; what it can't or won't
answer is an answer too, `Unavailable`. Nothing is fetched here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel, ValidationError

from preaction.wire.models import JobDescription, OutputCheckVerification, Verification


@dataclass(frozen=True, slots=True)
class Verify:
    """Does the receipt of this execution still stand, and what does its replay say?"""

    execution_id: str


@dataclass(frozen=True, slots=True)
class Describe:
    """What does this job allow at this release?"""

    job: str
    release: str


@dataclass(frozen=True, slots=True)
class VerifyOutputCheck:
    """Did this output check pass, on which text, for which execution?"""

    check_id: str


Ask: TypeAlias = Verify | Describe | VerifyOutputCheck


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No usable answer. `why` is a short clause in our own words, such as `it did not answer in time`."""

    why: str


class Source(Protocol):
    """Where facts come from: takes a batch of asks, gives the answers, in wire shape or as `preaction.wire.models`.

    An ask may be left out of the answers, and both methods may raise: either counts as `Unavailable`.
    `deadline_s` is the time left in seconds. A source that always returns within it says so by `keeps_deadline`, and
    is then called in the thread that asks; others are given a thread of their own.
    """

    keeps_deadline: bool

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Answer from a thread."""
        ...

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Answer from an event loop."""
        ...
