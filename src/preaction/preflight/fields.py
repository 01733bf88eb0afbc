"""The provider's checklist: each required field looked up, held to its schema, and put before the field policy (F4–F9).

What the look-up found stays what it is: a hook can take a value out, and never put one in or alter it.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from preaction.calling import Asking
from preaction.preflight.lookup import field_record, look_up
from preaction.preflight.record import FieldRecord, UnknownField, time_text
from preaction.preflight.run import Ending, Run
from preaction.preflight.source import Claims, Held, claims_of
from preaction.preflight.tool import Required
from preaction.preflight.values import Unusable, copied, mapping_of, words


class Settled(NamedTuple):
    """A field with the note for the user, and whether the policy lets an unknown one wait for the trigger (F12)."""

    record: FieldRecord
    note: str | None = None
    pending: bool = False


def settle_fields(run: Run) -> Asking[Ending | None]:
    """Look every required field up. All that the data claims is copied before any hook of a field is asked."""
    _require_own_prior_state(run)
    claims = [claims_of(one.name, run.data) for one in run.required]
    fields: list[FieldRecord] = []
    unknown: list[UnknownField] = []
    for required, claimed in zip(run.required, claims, strict=True):
        record, note, pending = yield from _settle(run, required, claimed)
        if record["status"] == "unknown":
            if pending and run.phase == "at_instruction":
                record["pending_at_trigger"] = True
            else:
                unknown.append({"name": required.name, "note": words(note, "") or None})
        fields.append(record)
    run.fields, run.unknown = fields, unknown
    return None


def _require_own_prior_state(run: Run) -> None:
    """A record of another action is no baseline for this one: the action key bounds what is carried forward (F8)."""
    prior: Any = run.data.prior_state
    if isinstance(prior, dict) and prior.get("action_key", run.action_key) != run.action_key:
        run.data = replace(run.data, prior_state=Unusable("prior_state: it is the record of another action"))
        run.shown["prior_state"] = None


def _settle(run: Run, required: Required, claims: Claims) -> Asking[Settled]:
    extract, measure = run.hooks.extract_from_instruction, run.hooks.measure_from_environment
    context = run.context_of("measure_from_environment")
    looked = yield from look_up(required.name, claims, run.segments, extract, measure, context)
    now = time_text(run.clock())
    record, unknown = field_record(required.name, looked, now), field_record(required.name, None, now)
    if isinstance(looked, Unusable):
        return Settled(unknown, looked.why)
    if isinstance(looked, Held) and (why := (yield from _misfit(run, required, looked))):
        return Settled(unknown, why)
    policy = "apply_field_policy"
    answer = yield from run.hooks.ask(policy, record=copied(record), context=run.context_of(policy))
    found = mapping_of(answer.value, f"{policy}.{required.name}") if answer.good else Unusable("it failed")
    if isinstance(found, Unusable):
        return Settled(unknown, f"{required.name}: the field policy gave no answer")
    # No more is read of the policy's answer than whether the field stays known, and may wait
    if isinstance(looked, Held) and found.get("status") == "known":
        return Settled(record)
    refused = f"{looked.source}.{required.name}: the field policy takes no value from there" if looked else ""
    return Settled(unknown, words(found.get("note"), refused), found.get("pending_at_trigger") is True)


def _misfit(run: Run, required: Required, held: Held) -> Asking[str | None]:
    """Why a known value breaks its schema, with the source that it is from (F9)."""
    check = "validate_field_schema"
    given = {"value": copied(held.value), "schema": copied(required.schema), "context": run.context_of(check)}
    answer = yield from run.hooks.ask(check, **given)
    if answer.good and answer.value is None:
        return None
    said = words(answer.value, "no reason was given") if answer.good else "it could not be checked"
    return f"{held.source}.{required.name}: the value does not fit its schema: {said}"
