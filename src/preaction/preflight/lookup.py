"""The look-up: a field's value out of the first of five sources that holds one, or unknown. It stands alone.

Nothing here makes a value. A source that fails ends the look-up: what it would have said isn't known, and a lower
source may say something else (F5).
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from preaction._core.denied import quote
from preaction.calling import Asking, Call, arun, run
from preaction.errors import MisuseError
from preaction.options import read_clock
from preaction.preflight.record import FieldRecord, Source, State, time_text
from preaction.preflight.source import READERS, Claims, Data, Held, Looked, Segments, claims_of, read_segments
from preaction.preflight.values import WRAPPED, Unusable, frozen, log, words

Hook: TypeAlias = Callable[..., Any]
Instruction: TypeAlias = Any
"""A list of `Segment`, or of mappings with `text`, `trust` and `origin`. All else is taken, and gives no value."""


async def lookup_field(
    name: str,
    *,
    instruction: Instruction = None,
    user_answers: Mapping[str, Any] | None = None,
    pre_set_data: Mapping[str, Any] | None = None,
    measured_data: Mapping[str, Any] | None = None,
    prior_state: State | Mapping[str, Any] | None = None,
    extract_from_instruction: Hook | None = None,
    measure_from_environment: Hook | None = None,
    clock: Callable[[], datetime] | None = None,
) -> dict[str, Any]:
    """Where the field `name` gets its value from, needing nothing but this function.

    Asked in this order, and the first that holds a value other than None has decided it:

    0. `user_answers`: {name: value}
    1. `extract_from_instruction(field_name, instruction)` → {"value", "segment_index", "span": [start, end]}, of a
       segment whose trust is "user"
    2. `pre_set_data`: {name: {"value", "trust": "user"}}
    3. `measure_from_environment(field_name, context)` → {"valid": True, "value"}; without that hook, `measured_data`
       with the same shape by name
    4. `prior_state`: the record of an executed call, with an `origin_source` in the field, which is inherited

    Hooks may be sync or async. The answer has `name`, `value` (only if known), `status` ("known" or "unknown"),
    `source`, `origin_source` and `resolved_at` (UTC, milliseconds, `Z`), and `note` where a source failed, or held what
    isn't JSON: then the field is unknown, and no lower source was asked. Raises `MisuseError` for a name that is none
    and `ConfigurationError` for a clock that is none, and nothing for what stands in a source.
    """
    data = Data(user_answers, pre_set_data, measured_data, prior_state)
    return await arun(
        _lone(name, instruction, data, extract_from_instruction, measure_from_environment, read_clock(clock))
    )


def lookup_field_sync(
    name: str,
    *,
    instruction: Instruction = None,
    user_answers: Mapping[str, Any] | None = None,
    pre_set_data: Mapping[str, Any] | None = None,
    measured_data: Mapping[str, Any] | None = None,
    prior_state: State | Mapping[str, Any] | None = None,
    extract_from_instruction: Hook | None = None,
    measure_from_environment: Hook | None = None,
    clock: Callable[[], datetime] | None = None,
) -> dict[str, Any]:
    """As `lookup_field`, from a thread. Coroutine functions run in a loop of their own."""
    data = Data(user_answers, pre_set_data, measured_data, prior_state)
    return run(_lone(name, instruction, data, extract_from_instruction, measure_from_environment, read_clock(clock)))


def _lone(
    name: object,
    instruction: object,
    data: Data,
    extract: Hook | None,
    measure: Hook | None,
    clock: Callable[[], datetime],
) -> Asking[dict[str, Any]]:
    if not isinstance(name, str) or not name:
        raise MisuseError("name: the name of a field is needed")
    name = str.__str__(name)
    segments = read_segments(instruction)
    context = {
        "phase": None,
        "instruction": instruction if segments is None else list(segments),
        "user_answers": {} if data.user_answers is None else data.user_answers,
        "pre_set_data": {} if data.pre_set_data is None else data.pre_set_data,
        "measured_data": {} if data.measured_data is None else data.measured_data,
        "prior_state": data.prior_state,
        "checklist_answers": {},
    }
    looked = yield from look_up(name, claims_of(name, data), segments, extract, measure, context)
    record: dict[str, Any] = {**field_record(name, looked, time_text(clock()))}
    return record | {"note": words(looked.why, "")} if isinstance(looked, Unusable) else record


def look_up(
    name: str,
    claims: Claims,
    segments: Segments | None,
    extract: Hook | None,
    measure: Hook | None,
    context: Mapping[str, Any],
) -> Asking[Looked]:
    """The value of the first source that holds one; `Unusable` as soon as one failed or holds what isn't JSON."""
    asks: dict[Source, Call] = {}
    if segments is None or extract is None:
        claims = {**claims, "instruction": None}
    else:
        asks["instruction"] = Call(partial(extract, field_name=name, instruction=list(segments)))
    if measure is not None:
        asks["measured_data"] = Call(partial(measure, field_name=name, context=dict(context)))
    for source, reader in READERS.items():
        claim = claims.get(source)
        if source in asks and not isinstance(claim, Unusable):
            claim = yield from _claimed(asks[source], f"{source}.{name}")
        held = claim if isinstance(claim, Unusable) else reader(claim, segments or ())
        if held is not None:
            return held
    return None


def _claimed(call: Call, where: str) -> Asking[Any]:
    answer = yield call
    if answer.good:
        return frozen(lambda: answer.value, where, deepest=WRAPPED)
    what = "late" if answer.late else type(answer.error).__name__
    log.error("preflight: %s could not be looked up: %s", quote(where), what, extra={"code": "lookup_failed"})
    return Unusable(f"{where}: the look-up failed")


def field_record(name: str, looked: Looked, resolved_at: str) -> FieldRecord:
    """The field as a record has it; an unknown one has no value."""
    if not isinstance(looked, Held):
        return {"name": name, "status": "unknown", "source": None, "origin_source": None, "resolved_at": resolved_at}
    return {
        "name": name,
        "value": looked.value,
        "status": "known",
        "source": looked.source,
        "origin_source": looked.origin_source,
        "resolved_at": resolved_at,
    }
