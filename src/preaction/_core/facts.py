"""4 · Facts: what the decision asks of the world, and what the world may answer. Nothing is fetched here.

Asks are frozen and hashable. To the authority go `Verify`, `Describe` and `VerifyOutputCheck`; what it can't or won't
answer is an answer too, `Unavailable`. To the session go `Recall`, `RecallTexts` and `Use`; it answers or raises.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from preaction._core.call import Malformed, plain
from preaction.wire.models import Decision, JobDescription, OutputCheckVerification, Verification, Wire


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


OTHER_DESCRIPTION: Final = Unavailable("the authority described another job or release than the one asked for")
_ISSUED_ID: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_:~.-]{0,199}")


def is_issued_id(text: str) -> bool:
    """G19: whether `text` can be the id of an execution or of an output check."""
    return _ISSUED_ID.fullmatch(text) is not None


class Source(Protocol):
    """Where facts come from: takes a batch of asks, gives the answers, in wire shape or as `preaction.wire.models`.

    An ask may be left out of the answers, and both methods may raise: either counts as `Unavailable`.
    `deadline_s` is the time left in seconds. A source that always returns within it says so by `keeps_deadline`, and
    is then called in the thread that asks; others are given a thread of their own.
    """

    @property
    def keeps_deadline(self) -> bool:
        """Whether `fetch` always returns within the time it is given."""
        ...

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Answer from a thread."""
        ...

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Answer from an event loop."""
        ...


# What a session remembers ---------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """The latest decision that a session recorded on one case; `decision` is None when it couldn't be read (G7)."""

    case_id: str
    decision: Decision | None


class KnownText(NamedTuple):
    """The latest output check that a session recorded for one execution, output and text."""

    check_id: str
    output: str
    release: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Recall:
    """What did the session record on the cases that one of these names names, and with `whole` on any case at all?

    `names` are folded ids (`fold`) and host names.
    """

    job: str
    names: tuple[str, ...]
    whole: bool


class Memory(NamedTuple):
    """The answer to `Recall`, at `now` by the gate's clock.

    `named` are the cases that the names name. Only for the whole session, `first` are at most two of all its cases, in
    the order of their first recording, and `releases` at most nine that its decisions name. `full` says that the
    session could not take a record, and so no longer knows everything.
    """

    now: datetime
    named: tuple[Known, ...]
    first: tuple[Known, ...]
    releases: tuple[str, ...]
    full: bool


@dataclass(frozen=True, slots=True)
class RecallTexts:
    """Which output checks did the session record for this execution and this text? Answer: a tuple of `KnownText`."""

    execution_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Use:
    """Is this use still free (G43a)? With `take`, it is taken in the same moment. Answer: `free`, `taken` or `full`."""

    tool: str
    per: Literal["decision", "case"]
    name: str
    take: bool


UseAnswer: TypeAlias = Literal["free", "taken", "full"]
SessionAsk: TypeAlias = Recall | RecallTexts | Use
AnyAsk: TypeAlias = Ask | SessionAsk

Batch: TypeAlias = tuple[AnyAsk, ...]
Answers: TypeAlias = Sequence[Any]
R = TypeVar("R")
Procedure: TypeAlias = Generator[Batch, Answers, R]
"""A computation that may need the world: yields asks, is sent the answers in the same order, returns a result."""


# Reading what the authority answered ----------------------------------------------------------------------------------

M = TypeVar("M", bound=Wire)


def verification(given: object) -> Verification | Unavailable:
    """The answer to a `Verify`, read strictly."""
    return _read(given, Verification)


def description(given: object, ask: Describe) -> JobDescription | Unavailable:
    """The answer to `ask`, read strictly and bound to it: another job or release is no answer (G25)."""
    found = _read(given, JobDescription)
    if isinstance(found, JobDescription) and (found.job, found.release) != (ask.job, ask.release):
        return OTHER_DESCRIPTION
    return found


def text_check(given: object) -> OutputCheckVerification | Unavailable:
    """The answer to a `VerifyOutputCheck`, read strictly."""
    return _read(given, OutputCheckVerification)


def _read(given: object, model: type[M]) -> M | Unavailable:
    if isinstance(given, (model, Unavailable)):
        return given
    if not isinstance(given, Mapping):
        return Unavailable("the answer was not an object")
    try:
        return model.model_validate(given if type(given) is dict else plain(given))
    except ValidationError as error:
        place = ".".join(map(str, error.errors(include_url=False, include_input=False)[0]["loc"]))
        return Unavailable(f"the answer lacked or mistyped {place!r}")
    except Malformed:
        return Unavailable("the answer was not plain JSON")
