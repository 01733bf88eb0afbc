"""The steps around the act: it is reserved, recorded, done once, and its result is made fit to be seen."""

from typing import Any, Final

from preaction.calling import Answer, Asking, Call
from preaction.pipeline.checking import ask_person, denied_by
from preaction.pipeline.idempotency import Conflict, Free, InProgress, Known, Reserved, Stored, Unknown, key_of
from preaction.pipeline.outcome import TEXTS, Ending
from preaction.pipeline.record import write_record
from preaction.pipeline.result import Unreadable, clean, clean_text, plain_result, require_fit, text_of
from preaction.pipeline.tool import Command, Hook, NothingSent, PublicToolError
from preaction.pipeline.work import Deciding, Parts, Stepping, Work, ask_hook, ask_store, failed, log, tell

_LONGEST_ERROR: Final = 1000


def recall(work: Work, parts: Parts) -> Stepping:
    """8, first half: whether this act was done before; if its outcome is unknown, the tool is asked about it."""
    tool = work.tool
    if not tool.acts:
        return None
    work.key = key_of(work.call, work.context, tool.name, work.arguments, repeatable=tool.repeatable)
    work.act = parts.acts.name(work.context.tenant, tool.name, work.key)
    for _ in range(3):  # what somebody else has settled meanwhile is read again
        answer = yield from ask_store(parts, parts.acts.recall(work.act, work.command))
        if not answer.good:
            return failed(work, parts, "idempotency", answer)
        known: Known = answer.value
        if isinstance(known, Free):
            work.free = known
            return None
        if not isinstance(known, Unknown) or tool.reconcile is None:
            return ending_of(known)
        ended = yield from _reconcile(work, parts, known, tool.reconcile)
        if ended is not None:
            return ended
    return Ending("in_progress")


def ending_of(known: Known) -> Ending:
    """The answer to a call whose key is taken."""
    if isinstance(known, Stored):
        text = text_of(known.result) if known.code == "executed" else TEXTS["result_invalid"]
        return Ending("replayed", text, detail=known.code, result=known.result)
    if isinstance(known, Conflict):
        return Ending("key_conflict")
    return Ending("outcome_unknown" if isinstance(known, Unknown) else "in_progress")


def _reconcile(work: Work, parts: Parts, unknown: Unknown, reconcile: Hook) -> Stepping:
    """Ask the tool what became of an act. Nothing to end with means: look again."""
    answer = yield from ask_hook(parts, reconcile, work.key)
    if not answer.good:
        failed(work, parts, "reconcile", answer)
        return Ending("outcome_unknown", detail="reconcile failed")
    if answer.value is None:
        settled = yield from ask_store(parts, parts.acts.settle_undone(work.act, unknown))
    else:
        shown = yield from shown_result(work, parts, answer.value)
        given = (work.act, work.command, unknown, shown.code, shown.result)
        settled = yield from ask_store(parts, parts.acts.settle_done(*given))
    return None if settled.good else failed(work, parts, "idempotency", settled)


def reserve(work: Work, parts: Parts) -> Stepping:
    """8, second half: the act is ours, and the confirmation is used up for it."""
    if work.act:
        seconds = 2 * parts.limits.execution_s + 60  # to record it, ask the gate, and begin
        answer = yield from ask_store(parts, parts.acts.reserve(work.act, work.command, work.free, seconds))
        if not answer.good:
            return failed(work, parts, "idempotency", answer)
        if not isinstance(answer.value, Reserved):
            return ending_of(InProgress() if isinstance(answer.value, Free) else answer.value)
        work.reserved = answer.value
    if work.given is None:
        return None
    used = yield from ask_store(parts, parts.confirmations.use(work.given))
    if used.good and used.value:
        return None
    work.given = None
    yield from let_go(work, parts)
    return failed(work, parts, "confirmations", used) if not used.good else (yield from ask_person(work, parts))


def let_go(work: Work, parts: Parts) -> Asking[None]:
    """Nothing was done: free the key. Where that fails, the key frees itself, or is of unknown outcome; never twice."""
    if work.reserved is not None:
        answer = yield from ask_store(parts, parts.acts.release(work.reserved))
        if not answer.good:
            failed(work, parts, "idempotency", answer)
    work.reserved, work.begun = None, False


def execute(work: Work, parts: Parts) -> Stepping:
    """9: recorded first, asked of the gate last, and then done, within its time."""
    ended = yield from _last_checks(work, parts)
    if ended is not None:
        yield from let_go(work, parts)
        return ended
    tool = work.tool
    if work.reserved is not None:
        begun = yield from ask_store(parts, parts.acts.begin(work.reserved, tool.timeout_s))
        if not begun.good or begun.value is None:
            return failed(work, parts, "idempotency", begun) if not begun.good else Ending("in_progress")
        work.reserved = begun.value
    work.begun, work.began_at = True, parts.clock()
    command = Command(tool.name, work.copy_of_arguments(), work.context, dict(work.objects), work.key)
    limit = min(tool.timeout_s, parts.limits.execution_s)
    hands: object = parts.preflight
    if tool.acts and isinstance(hands, Deciding):
        answer = yield Call(hands.execute_decided, (work.decided, command, tool.run, limit))
    else:
        answer = yield Call(tool.run, (command,), limit_s=limit)
    work.raw = answer.value
    return None if answer.good else (yield from _failure(work, parts, answer))


def _last_checks(work: Work, parts: Parts) -> Stepping:
    if parts.audit is not None:
        written = yield from write_record(work, parts, parts.audit, None, "before")
        if not written.good:
            failed(work, parts, "audit", written)
            return Ending("audit_failed")
        work.audited = True
    if parts.gate is None:
        return None
    given = (work.context.session_id, work.tool.name, work.copy_of_arguments())
    answer = yield Call(parts.gate.check, given, afunction=parts.gate.acheck)
    return failed(work, parts, "gate", answer) if not answer.good else denied_by(answer.value)


def _failure(work: Work, parts: Parts, answer: Answer) -> Stepping:
    """What a tool that gave no result means: nothing done, or nobody knows."""
    error = answer.error
    tell(work, parts, "run", error)
    if isinstance(error, PublicToolError):
        yield from let_go(work, parts)
        text = " ".join(clean_text(_words(error)).split())[:_LONGEST_ERROR]
        return Ending("tool_error", f"{TEXTS['tool_error'][:-1]}: {text}" if text else "", detail=type(error).__name__)
    if isinstance(error, NothingSent) or not answer.began:
        yield from let_go(work, parts)
        return Ending("tool_failed", detail="nothing was done")
    detail = "late" if answer.late else type(error).__name__
    if work.reserved is None:  # a read
        return Ending("timed_out" if answer.late else "tool_failed", detail=detail)
    lost = yield from ask_store(parts, parts.acts.lose(work.reserved))
    if not lost.good:  # what was begun is of unknown outcome anyhow once its time is over
        failed(work, parts, "idempotency", lost)
    return Ending("outcome_unknown", detail=detail)


def _words(error: PublicToolError) -> str:
    """An error's text; one that can't be written out, or not in UTF-8, has none."""
    try:
        return str(error).encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001 - a `__str__` of the tool's own
        return ""


def finish(work: Work, parts: Parts) -> Stepping:
    """10: the result is validated, made plain and clean, and kept for whoever repeats the call."""
    ended = yield from shown_result(work, parts, work.raw)
    if work.reserved is not None:
        kept = yield from ask_store(parts, parts.acts.finish(work.reserved, ended.code, ended.result))
        if not kept.good or not kept.value:  # done all the same; a repetition will find its outcome unknown
            told = {"code": "result_not_kept", "id": work.id}
            log.error("the pipeline could not keep the result of an act, so its repetition will be held", extra=told)
    work.reserved = None
    return ended


def shown_result(work: Work, parts: Parts, raw: Any) -> Asking[Ending]:
    """The ending for a tool that gave `raw`: `executed`, or why it can't be shown."""
    tool, limit = work.tool, parts.limits.result_bytes
    try:
        whole = plain_result(raw, max_bytes=limit)
        require_fit(tool.output, whole)
        yield from _note(work, parts, whole)
        result = yield from _sanitised(work, parts, whole)
        cleaned = clean(result)
    except Unreadable as unreadable:
        tell(work, parts, "result", raw)
        return Ending(unreadable.code)
    if cleaned != result:
        work.redactions.append("result: unseen characters removed")
    return Ending("executed", text_of(cleaned), result=cleaned)


def _note(work: Work, parts: Parts, result: Any) -> Asking[None]:
    """What the record and the gate take from a result before anything is taken out of it."""
    if work.tool.operation_id is not None:
        answer = yield from ask_hook(parts, work.tool.operation_id, plain_result(result, max_bytes=1 << 30))
        if answer.good and isinstance(answer.value, (str, int)):
            work.operation_id = clean_text(str(answer.value))[:200]
    if parts.gate is not None and parts.gate.records(work.tool.name):
        given = (work.context.session_id, work.tool.name, work.copy_of_arguments(), result)
        recorded = yield Call(parts.gate.record_result, given)
        if not recorded.good:  # a decision that the gate doesn't know must not be seen by the model either
            failed(work, parts, "gate's record", recorded)
            raise Unreadable("result_invalid")


def _sanitised(work: Work, parts: Parts, whole: Any) -> Asking[Any]:
    """What the tool's own hook leaves of a result. A result that it fails on isn't shown at all."""
    if work.tool.sanitise is None:
        return whole
    limit = parts.limits.result_bytes
    answer = yield from ask_hook(parts, work.tool.sanitise, plain_result(whole, max_bytes=limit))
    if not answer.good:
        failed(work, parts, "sanitise", answer)
        raise Unreadable("result_invalid")
    work.redactions.append("result: sanitised")
    return plain_result(answer.value, max_bytes=limit)
