"""What a line of the report is: a name, a sentence of the contract, and a function that yields what differs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from preaction.conformance.asking import Differs, Reply

Differences: TypeAlias = Iterator[str]
Check: TypeAlias = Callable[[Any], Differences]
"""Takes a `Run`; may raise `NotChecked` or `Differs`."""
M = TypeVar("M", bound=BaseModel)


class NotChecked(Exception):
    """The line can't be checked here; the message says what it would need."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that an authority must do. `makes`: it makes decisions, output checks or revocations."""

    name: str
    rule: str
    check: Check
    makes: bool
    each_job: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a line: for one job, or for the whole authority (`job` None)."""

    line: str
    rule: str
    job: str | None
    state: Literal["holds", "differs", "not checked"]
    details: tuple[str, ...] = ()


LINES: Final[list[Line]] = []


def line(name: str, rule: str, *, makes: bool = False, each_job: bool = True) -> Callable[[Check], Check]:
    """Put a check among the lines of its module."""

    def put(check: Check) -> Check:
        LINES.append(Line(name, rule, check, makes, each_job))
        return check

    return put


def status(reply: Reply, *wanted: int) -> Differences:
    """The reply has one of these statuses."""
    if reply.status not in wanted:
        yield f"{reply.asked}: {reply.status} instead of {' or '.join(map(str, wanted))}"


def read(reply: Reply, model: type[M], wanted: int = 200) -> M:
    """An answer as a model of the wire; `Differs` names the field that is missing or of another type."""
    for difference in status(reply, wanted):
        raise Differs(difference)
    if reply.media_type != "application/json":
        raise Differs(f"{reply.asked}: the media type is {reply.media_type or 'missing'} instead of application/json")
    return part(reply.asked, reply.body, model)


def part(what: str, value: Any, model: type[M]) -> M:
    """A part of an answer as a model of the wire."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Differs(f"{what}: {place or 'the body'}: {first['msg']}") from None


def there(reply: Reply, *names: str) -> Differences:
    """The body has each of these names, spelled as the wire spells them."""
    body = reply.body if isinstance(reply.body, dict) else {}
    missing = [name for name in names if name not in body]
    if missing:
        yield f"{reply.asked}: no {', '.join(missing)}"


def same(what: str, found: Any, wanted: Any) -> Differences:
    """A value is as it has to be."""
    if found != wanted:
        yield f"{what} is {_short(found)} instead of {_short(wanted)}"


def places(reply: Reply, *pointers: str) -> Differences:
    """A 422 that names each of these places, or one inside of it."""
    yield from status(reply, 422)
    if reply.status != 422:
        return
    errors = reply.body.get("errors") if isinstance(reply.body, dict) else None
    named = [each.get("pointer") for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    for wanted in pointers:
        if not any(isinstance(each, str) and (each == wanted or each.startswith(wanted + "/")) for each in named):
            yield f"{reply.asked}: the 422 doesn't name {wanted or 'the body'}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"
