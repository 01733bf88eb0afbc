"""The five sources that a value may come from, and what each has to hold before it counts (F5–F8).

Each reads what is claimed to stand in it, as plain JSON, and gives the value or nothing; none of them can make one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from preaction._core.call import Malformed
from preaction.preflight.record import Source, State, record_json
from preaction.preflight.values import DEEPEST, WRAPPED, Unusable, frozen

TRUSTED: Final = "user"
"""The one label that makes a segment's words, or a value that was settled earlier, the user's own."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the instruction and whose words it is: "user", or anything else, which counts as untrusted.

    `origin` says where it came from, such as the id of a mail; for records and people.
    """

    text: str
    trust: str
    origin: str | None = None


class Held(NamedTuple):
    """A value that a source holds, as plain JSON of our own, and the first source that it ever came from."""

    value: Any
    source: Source
    origin_source: Source


@dataclass(frozen=True, slots=True)
class Data:
    """What the caller hands in for the sources that are no hook: mappings by field name, and an earlier record.

    `measured_data` is only read where no hook measures.
    """

    user_answers: object = None
    pre_set_data: object = None
    measured_data: object = None
    prior_state: object = None


Claims: TypeAlias = Mapping[Source, Any]
"""By source: what is claimed to stand in it for one field, as plain JSON or `Unusable`."""

Segments: TypeAlias = tuple[Segment, ...]


def read_segments(instruction: object) -> Segments | None:
    """The labelled segments of an instruction; None where it isn't a list of them, so that nothing comes of it (F6).

    What has no label of its own is untrusted.
    """
    return tuple(map(_segment, instruction)) if isinstance(instruction, (list, tuple)) else None


def _segment(given: object) -> Segment:
    found = frozen(lambda: segment_json(given) if isinstance(given, Segment) else given, "instruction")
    part = found if isinstance(found, dict) else {"text": found}
    text, trust, origin = part.get("text"), part.get("trust"), part.get("origin")
    return Segment(
        text if isinstance(text, str) else "",
        trust if isinstance(trust, str) else "untrusted",
        origin if isinstance(origin, str) else None,
    )


def segment_json(segment: Segment) -> dict[str, Any]:
    """A segment as records have it; `origin` only where there is one."""
    found = {"text": segment.text, "trust": segment.trust}
    return found if segment.origin is None else found | {"origin": segment.origin}


def claims_of(name: str, data: Data) -> dict[Source, Any]:
    """What the data claims for the field `name`, copied now: whatever anybody changes later changes no value."""
    return {
        "user_answer": frozen(lambda: _named(data.user_answers, name), f"user_answer.{name}", deepest=DEEPEST),
        "pre_set_data": frozen(lambda: _named(data.pre_set_data, name), f"pre_set_data.{name}", deepest=WRAPPED),
        "measured_data": frozen(lambda: _named(data.measured_data, name), f"measured_data.{name}", deepest=WRAPPED),
        "prior_state": frozen(lambda: _executed_field(data.prior_state, name), f"prior_state.{name}", deepest=WRAPPED),
    }


def _named(data: object, name: str) -> object:
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise Malformed("malformed_call", f"a mapping is needed, not {type(data).__name__}")
    return data.get(name)


def _executed_field(prior_state: object, name: str) -> object:
    """The field in a record, if it is one of an executed call and has the field once (F8)."""
    if prior_state is None:
        return None
    record = record_json(prior_state) if isinstance(prior_state, State) else prior_state
    if isinstance(record, Unusable):
        return record
    if not isinstance(record, Mapping):
        raise Malformed("malformed_call", f"a record is needed, not {type(record).__name__}")
    if record.get("execution_decision") != "executed":
        return None
    found = [one for one in record.get("fields") or () if isinstance(one, Mapping) and one.get("name") == name]
    return found[0] if len(found) == 1 else None


def _answered(claim: Any, segments: Segments) -> Held | None:
    return _held(claim, "user_answer")


def _instructed(claim: Any, segments: Segments) -> Held | None:
    """A value counts with its coordinates: a span of characters in a segment that is the user's (F6)."""
    if not isinstance(claim, dict):
        return None
    index, span = claim.get("segment_index"), claim.get("span")
    if not _is_index(index) or index >= len(segments) or segments[index].trust != TRUSTED:
        return None
    if not isinstance(span, list) or len(span) != 2 or not all(map(_is_index, span)):
        return None
    (start, end), text = span, segments[index].text
    if end > len(text) or not text[start:end].strip():
        return None
    return _held(claim.get("value"), "instruction")


def _settled(claim: Any, segments: Segments) -> Held | None:
    if isinstance(claim, dict) and claim.get("trust") == TRUSTED:
        return _held(claim.get("value"), "pre_set_data")
    return None


def _measured(claim: Any, segments: Segments) -> Held | None:
    if isinstance(claim, dict) and claim.get("valid") is True:
        return _held(claim.get("value"), "measured_data")
    return None


def _carried(claim: Any, segments: Segments) -> Held | None:
    """A value of the last executed call; where it first came from stays what it was (F8)."""
    if not isinstance(claim, dict) or claim.get("status") != "known" or claim.get("masked", False) is not False:
        return None
    origin = claim.get("origin_source")
    first = next((source for source in SOURCES[:-1] if source == origin), None)
    return None if first is None else _held(claim.get("value"), "prior_state", first)


def _held(value: Any, source: Source, origin: Source | None = None) -> Held | None:
    """None is no value; 0, False, "" and [] are."""
    return None if value is None else Held(value, source, origin or source)


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


READERS: Final[Mapping[Source, Callable[[Any, Segments], Held | None]]] = {
    "user_answer": _answered,
    "instruction": _instructed,
    "pre_set_data": _settled,
    "measured_data": _measured,
    "prior_state": _carried,
}
"""In the order in which they are asked. It is an order, no ranking: the first that holds a value has decided it."""

SOURCES: Final = tuple(READERS)

Looked: TypeAlias = Held | Unusable | None
"""What came of a look-up: a value, why there can't be one, or nothing in any source."""
