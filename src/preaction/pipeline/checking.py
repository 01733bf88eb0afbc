"""The steps before the act: each looks at one thing, and ends the way of a proposal that doesn't pass."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from preaction._core.verdict import Verdict, denial_text
from preaction.calling import Call
from preaction.pipeline.confirm import Wanted, summary_of
from preaction.pipeline.identity import reserved_in_arguments
from preaction.pipeline.outcome import Code, Ending
from preaction.pipeline.parse import Parsed, parse_arguments
from preaction.pipeline.proposal import is_attributable
from preaction.pipeline.result import clean_text
from preaction.pipeline.schema import MOST_ERRORS, told, unexpected
from preaction.pipeline.texts import command_digest, name_of_text
from preaction.pipeline.tool import Allowed, Denied, NotVisible
from preaction.pipeline.work import Parts, Stepping, StepResult, Work, ask_hook, ask_store, failed
from preaction.preflight.asking import question
from preaction.preflight.record import State

_HASHED: Final = 65_536
_LONGEST_ID: Final = 200


def capture(work: Work, parts: Parts) -> Stepping:
    """1: it says who asks for what; the run still has calls left; the tool is registered under exactly this name."""
    if not is_attributable(work.call, work.context):
        return Ending("internal", detail="capture: a subject, tenant, request, run or call id is missing")
    context = work.context
    counter = name_of_text("calls", context.tenant, context.subject, context.run_id)
    counted = yield from ask_store(parts, parts.texts.count_one_more(counter))
    if not counted.good:
        return failed(work, parts, "count of calls", counted)
    if counted.value > parts.limits.calls_per_run:
        return Ending("limit_reached")
    name: object = work.call.name
    work.known_tool = parts.tools.get(str.__str__(name)) if isinstance(name, str) else None
    return None if work.known_tool is not None else Ending("unknown_tool")


def parse(work: Work, parts: Parts) -> StepResult:
    """2: the arguments are strict JSON of a bounded size."""
    raw = work.call.arguments
    parsed = parse_arguments(raw, max_bytes=parts.limits.argument_bytes)
    if isinstance(parsed, Parsed):
        work.arguments = parsed.value
        return None
    work.unparsed = {"class": parsed.code, "type": type(raw).__name__, **_hash_of(raw)}
    return Ending(parsed.code)


def _hash_of(raw: object) -> dict[str, Any]:
    """What tells one broken text from another without holding any of it."""
    if not isinstance(raw, (str, bytes)):
        return {}
    data = str.__str__(raw)[:_HASHED].encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw[:_HASHED]
    return {"length": len(raw), "sha256": hashlib.sha256(data).hexdigest()}


def check_schema(work: Work, parts: Parts) -> StepResult:
    """3: they fit the tool's schema."""
    found = work.tool.input.check(work.arguments)
    if isinstance(found, dict):
        work.arguments = found
        return None
    work.arguments = {}
    return Ending("invalid_arguments", told(found))


def attach_identity(work: Work, parts: Parts) -> StepResult:
    """4: they say nothing about who asks; what they and the session say together is the command."""
    found = list(reserved_in_arguments(work.arguments, parts.reserved))
    if found:
        return Ending("invalid_arguments", told(map(unexpected, found[:MOST_ERRORS])))
    context, tool = work.context, work.tool
    work.arguments_digest = command_digest(work.arguments)
    work.command = command_digest([tool.name, tool.input.version, work.arguments, context.subject, context.tenant])
    return None


def resolve(work: Work, parts: Parts) -> Stepping:
    """5: the objects exist for this caller. Missing and foreign ones end alike."""
    tool = work.tool
    if tool.resolve is None:
        return None
    answer = yield from ask_hook(parts, tool.resolve, work.copy_of_arguments(), work.context)
    found = answer.error if isinstance(answer.error, NotVisible) else answer.value
    if answer.good or isinstance(found, NotVisible):
        if found is None or isinstance(found, (NotVisible, type(NotVisible))):
            return Ending("not_visible")
        if isinstance(found, Mapping):
            work.objects = dict(found)
            unseen = any(one is None for one in work.objects.values())
            return Ending("not_visible") if unseen else (yield from _name_objects(work, parts))
        return Ending("internal", detail="resolve: neither objects nor NotVisible")
    return failed(work, parts, "resolve", answer)


def _name_objects(work: Work, parts: Parts) -> Stepping:
    if work.tool.object_ids is None:
        return None
    answer = yield from ask_hook(parts, work.tool.object_ids, dict(work.objects))
    if not answer.good or not isinstance(answer.value, Mapping):
        return failed(work, parts, "object_ids", answer)
    work.object_ids = {
        clean_text(str(k))[:_LONGEST_ID]: clean_text(str(v))[:_LONGEST_ID] for k, v in answer.value.items()
    }
    return None


def authorize(work: Work, parts: Parts) -> Stepping:
    """6: this caller may do this to these objects."""
    tool = work.tool
    if tool.authorize is None:
        return None
    given = (work.context, tool.name, dict(work.objects), work.copy_of_arguments())
    answer = yield from ask_hook(parts, tool.authorize, *given)
    if answer.good and isinstance(answer.value, Allowed):
        return None
    if answer.good and isinstance(answer.value, Denied):
        return Ending("not_authorized", detail=str(answer.value.code)[:_LONGEST_ID])
    return failed(work, parts, "authorize", answer)


def ask_preflight(work: Work, parts: Parts) -> Stepping:
    """Every value has a source, where that is asked: anything but `execution_decision` "execute" is a question."""
    if parts.preflight is None or not work.tool.acts:
        return None
    given = (work.tool.definition(), work.copy_of_arguments(), work.context)
    answer = yield from ask_hook(parts, parts.preflight, *given)
    if not answer.good:
        return failed(work, parts, "preflight", answer)
    decision = getattr(answer.value, "execution_decision", answer.value)
    if isinstance(decision, str) and decision == "execute":
        work.decided = answer.value
        return None
    text = question(answer.value) if isinstance(answer.value, State) else getattr(answer.value, "for_model", None)
    return Ending("values_unknown", text or "", detail=decision if isinstance(decision, str) else None)


def ask_gate(work: Work, parts: Parts) -> Stepping:
    """The action gate lets it act, as far as can be said now. Only needed before a person is asked; uses nothing up."""
    if parts.gate is None or work.tool.confirm is None or work.tool.confirm is False:
        return None
    given = (work.context.session_id, work.tool.name, work.copy_of_arguments())
    answer = yield Call(parts.gate.preview, given, afunction=parts.gate.apreview)
    return failed(work, parts, "gate", answer) if not answer.good else denied_by(answer.value)


def denied_by(verdict: Verdict) -> StepResult:
    """The ending that a gate's verdict means. Its text was made for the model."""
    return Ending("gate_denied", denial_text(verdict), detail=verdict.code) if verdict.blocks else None


def confirm(work: Work, parts: Parts) -> Stepping:
    """7: a person has confirmed exactly this, where that is needed."""
    needed: Any = False if work.tool.confirm is None else work.tool.confirm
    if callable(needed):
        answer = yield from ask_hook(parts, needed, work.copy_of_arguments(), dict(work.objects))
        if not answer.good:
            return failed(work, parts, "confirm", answer)
        needed = answer.value
    if needed is False:
        return None
    return (yield from ask_person(work, parts))


def ask_person(work: Work, parts: Parts) -> Stepping:
    """The confirmation that was given, or the one that is needed."""
    said: str | None = None
    if work.tool.summary is not None:
        answer = yield from ask_hook(parts, work.tool.summary, work.copy_of_arguments(), dict(work.objects))
        if not answer.good or not isinstance(answer.value, str) or not answer.value.strip():
            return failed(work, parts, "summary", answer)
        said = clean_text(answer.value)
    summary = summary_of(work.tool.name, work.arguments, work.object_ids, work.tool.effect, said)
    found = yield from ask_store(parts, parts.confirmations.find(work.command, summary))
    if not found.good:
        return failed(work, parts, "confirmations", found)
    if isinstance(found.value, Wanted):
        code: Code = "confirmation_expired" if found.value.expired else "needs_confirmation"
        return Ending(code, confirmation=found.value.confirmation)
    work.given = found.value
    return None
