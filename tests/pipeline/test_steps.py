"""The order, the bounds (P3, P12), identity (P4), one denial for missing and foreign (P5), the record (P13), errors."""

import asyncio
import json
import sqlite3
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pipeline.office import CONTEXT, FOREIGN, LARGE, READ, WRITE, Office, raising
from preaction import calling
from preaction.calling import run
from preaction.errors import ConfigurationError, SessionFull
from preaction.pipeline import (
    Limits,
    MemoryAudit,
    NotVisible,
    ProposedCall,
    PublicToolError,
    Tool,
    ToolPipeline,
    TrustedContext,
)
from preaction.pipeline.steps import names
from preaction.pipeline.texts import Texts
from preaction.stores import Swapped
from preaction.stores.memory import MemoryStore

BAD = {**WRITE, "status": "paid"}


def test_the_eleven_steps_in_their_order() -> None:
    numbers = [number for number, _ in names()]
    assert numbers == sorted(numbers)
    assert sorted(set(numbers)) == list(range(1, 12))


def test_the_hooks_are_asked_in_order_and_the_record_is_written_before_the_act() -> None:
    heard: list[str] = []

    def hears(name: str, then: Any) -> Any:
        def hook(*given: Any) -> Any:
            heard.append(name)
            return then(*given)

        return hook

    office = Office()
    tool = office.tools[1]
    hooks = ("resolve", "object_ids", "authorize", "confirm", "run", "operation_id")
    changes = {name: hears(name, getattr(tool, name)) for name in hooks}
    changes |= {"sanitise": hears("sanitise", lambda result: result)}
    office = Office(tools={"approve_invoice": changes}, audit=lambda record: heard.append(record["phase"]))
    assert office.write().code == "executed"
    assert heard == [*hooks[:4], "before", "run", "operation_id", "sanitise", "after"]


# ---------------------------------------------------------------- P3, P12: bounds


def test_p03_repairs_run_out_and_a_valid_proposal_still_runs() -> None:
    office = Office()
    codes = [office.write(BAD).code for _ in range(4)]
    assert codes == ["invalid_arguments", "invalid_arguments", "repairs_exhausted", "repairs_exhausted"]
    assert office.write(BAD).disposition == "deny"
    assert office.write().code == "executed"


def test_p03_each_tool_and_each_run_has_its_own_count_and_unknown_names_share_one() -> None:
    office = Office(limits=Limits(repairs=1))
    assert [office.write(BAD).code, office.write(BAD).code] == ["invalid_arguments", "repairs_exhausted"]
    assert office.read("{").code == "invalid_json"
    assert office.write(BAD, run_id="run_2").code == "invalid_arguments"
    assert office.write(BAD, tenant="t_2").code == "invalid_arguments"
    assert [office.propose(name, {}).code for name in ("a", "b")] == ["unknown_tool", "repairs_exhausted"]


def test_p03_denials_and_confirmations_use_no_repair_up() -> None:
    office = Office(limits=Limits(repairs=1))
    for _ in range(3):
        assert office.write({**WRITE, "invoice_id": FOREIGN}).code == "not_visible"
        assert office.write(roles=()).code == "not_authorized"
        assert office.write(LARGE).code == "needs_confirmation"
    assert office.write(BAD).code == "invalid_arguments"


def test_p03_a_public_error_counts_as_a_repair() -> None:
    office = Office(tools={"approve_invoice": {"run": raising(PublicToolError("paid\nalready\x00"))}})
    outcomes = [office.write() for _ in range(3)]
    assert [outcome.code for outcome in outcomes] == ["tool_error", "tool_error", "repairs_exhausted"]
    assert outcomes[0].for_model == "Not executed, nothing was done: paid already"
    assert outcomes[0].disposition == "repair"
    assert "paid" not in outcomes[2].for_model


def test_p03_without_repairs_the_first_mistake_is_the_last() -> None:
    assert Office(limits=Limits(repairs=0)).write(BAD).code == "repairs_exhausted"


def test_p12_calls_of_a_run_are_counted_whatever_became_of_them() -> None:
    office = Office(limits=Limits(calls_per_run=3))
    codes = [office.read().code, office.read("{").code, office.propose("none", {}).code, office.read().code]
    assert codes == ["executed", "invalid_json", "unknown_tool", "limit_reached"]
    assert office.read(run_id="run_2").code == "executed"
    assert len(office.reads) == 2


def test_p12_many_at_once_are_all_counted() -> None:
    texts = Texts(MemoryStore())
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda: counts.extend(run(texts.count_one_more("n")) for _ in range(50)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(counts) == list(range(1, 401))


def test_p12_the_shorter_time_limit_counts() -> None:
    over = threading.Event()
    slow = {"run": lambda command: over.wait(30), "timeout_s": 10}
    office = Office(tools={"get_invoice": slow}, limits=Limits(execution_s=0.5))
    try:
        assert office.read().code == "timed_out"
    finally:
        over.set()


@pytest.mark.parametrize("is_async", [False, True])
def test_p12_a_hook_that_hangs_denies(is_async: bool) -> None:
    over = threading.Event()

    async def forever(*given: Any) -> Any:
        await asyncio.Event().wait()

    hook: Any = forever if is_async else lambda *given: over.wait(30)
    office = Office(tools={"approve_invoice": {"authorize": hook}}, limits=Limits(execution_s=0.02))
    try:
        assert office.write().code == "internal"
        assert asyncio.run(office.apropose("approve_invoice", WRITE)).code == "internal"
    finally:
        over.set()
    assert office.acts == []


async def test_p12_a_tool_that_will_not_be_cancelled_is_not_waited_for() -> None:
    ended = asyncio.Event()

    async def stubborn(command: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await ended.wait()

    office = Office(tools={"get_invoice": {"run": stubborn, "timeout_s": 0.02}})
    assert (await office.apropose("get_invoice", READ)).code == "timed_out"
    ended.set()


@pytest.mark.parametrize("limit", ["argument_bytes", "calls_per_run", "execution_s", "result_bytes", "confirmation_s"])
@pytest.mark.parametrize("value", [0, -1, True, None, "9", float("nan"), float("inf")])
def test_p12_a_limit_that_is_none_is_refused(limit: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=limit):
        Limits(**{limit: value})


# ---------------------------------------------------------------- P4, P5, P6


@pytest.mark.parametrize("field", ["subject", "tenant", "request_id", "run_id"])
@pytest.mark.parametrize("value", ["", " ", None, 7, "\ud800"])
def test_p04_without_an_identity_nothing_is_asked(field: str, value: Any) -> None:
    office = Office()
    outcome = office.write(**{field: value})
    assert (outcome.disposition, outcome.code) == ("deny", "internal")
    assert (office.looked, office.acts) == ([], [])
    assert office.write(call_id=value).code == "internal"


@pytest.mark.parametrize("call", [None, "approve", {"name": "approve_invoice"}, object()])
def test_p04_what_is_no_proposal_is_denied(call: Any) -> None:
    pipeline = Office().pipeline
    assert pipeline.handle_sync(call, CONTEXT).code == "internal"
    assert pipeline.handle_sync(ProposedCall("c", "approve_invoice", WRITE), call).code == "internal"


@pytest.mark.parametrize("name", ["tenant_id", "tenantId", "ROLE"])
def test_p04_a_schema_that_asks_the_model_who_it_is_is_refused(name: str) -> None:
    inner = {"type": "object", "properties": {"a": {"type": "object", "properties": {name: {}}}}}
    tool = Tool(name="t", run=print, input_schema=inner)
    with pytest.raises(ConfigurationError, match=rf"tools\.t\.input_schema: {name}"):
        ToolPipeline([tool])
    assert ToolPipeline([tool], reserved=["other"]).tools == [tool.definition()]


def test_p04_an_open_object_takes_no_identity_either() -> None:
    office = Office(tools={"approve_invoice": {"input_schema": {"type": "object"}}})
    outcome = office.write({**WRITE, "meta": [{"TenantID": "t_2"}]})
    assert (outcome.code, office.looked) == ("invalid_arguments", [])
    assert "meta[0].TenantID: this property is not expected" in outcome.for_model


def test_p05_missing_and_foreign_are_one_in_bytes_and_in_work() -> None:
    seen = []
    for invoice in (FOREIGN, "inv_none"):
        office = Office()
        outcome = office.write({**WRITE, "invoice_id": invoice})
        record = {**office.record(), "id": "", "arguments": None}
        seen.append((outcome, office.looked, record, office.restricted))
    assert seen[0] == seen[1]
    assert seen[0][0].for_model.encode() == seen[1][0].for_model.encode()


class Watched(MemoryStore):
    """Notes what is done in it, in order."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.heard = heard

    def look(self, name: str) -> str | None:
        self.heard.append(f"look {name}")
        return super().look(name)

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        self.heard.append(f"swap {name} {old} {new}")
        return super().swap(name, old, new, keep)


@pytest.mark.parametrize("in_a_loop", [False, True])
@pytest.mark.parametrize("tool", ["get_invoice", "approve_invoice"])
def test_p05_missing_and_foreign_are_the_same_calls_store_operations_and_records_in_order(
    tool: str, in_a_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, works = calling._called, []
    for invoice in (FOREIGN, "inv_none"):
        heard: list[str] = []

        def notes(call: calling.Call, heard: list[str] = heard) -> calling.Answer:
            heard.append(getattr(call.function, "__qualname__", repr(call.function)))
            return called(call)

        monkeypatch.setattr(calling, "_called", notes)
        office = Office(store=Watched(heard), audit=lambda record, heard=heard: heard.append(record["phase"]))
        office.database.set_trace_callback(heard.append)
        arguments = {"invoice_id": invoice, **({"status": "approved"} if tool == "approve_invoice" else {})}
        for _ in range(2):
            outcome = asyncio.run(office.apropose(tool, arguments)) if in_a_loop else office.propose(tool, arguments)
            assert outcome.code == "not_visible"
        works.append([one.replace(invoice, "…") for one in heard])
    assert works[0] == works[1]
    assert {"before", "after"} & set(works[0]) == {"after"}
    kinds = [one.partition(" ")[0] for one in works[0]]
    for kind in ("look", "swap", "SELECT", "Office.find"):
        assert kinds.count(kind) == 2, "each once in each of two proposals"


@pytest.mark.parametrize("answer", [NotVisible(), NotVisible, None, {"invoice": None}, raising(NotVisible())])
def test_p05_every_way_to_say_not_visible(answer: Any) -> None:
    hook = answer if callable(answer) and answer is not NotVisible else lambda *given: answer
    assert Office(tools={"approve_invoice": {"resolve": hook}}).write().code == "not_visible"


@pytest.mark.parametrize("answer", [7, "inv_481", ["inv_481"]])
def test_p05_what_is_neither_denies(answer: Any) -> None:
    assert Office(tools={"approve_invoice": {"resolve": lambda *given: answer}}).write().code == "internal"


def test_p06_a_denial_is_the_same_each_time_until_the_context_changes() -> None:
    office = Office()
    assert len({office.write(roles=()).for_model for _ in range(4)}) == 1
    assert office.write().code == "executed"


def test_p08_hooks_cannot_alter_what_runs() -> None:
    def alters(*given: Any) -> Any:
        for one in given:
            if isinstance(one, dict) and "status" in one:
                one["status"] = "rejected"
            if isinstance(one, dict) and "invoice" in one:
                one["invoice"] = None
        return False

    office = Office(tools={"approve_invoice": {"confirm": alters}})
    mine = dict(WRITE)
    assert office.write(mine).code == "executed"
    assert office.acts[0].arguments == mine == WRITE
    assert office.acts[0].objects["invoice"]["id"] == "inv_481"


def test_the_tool_gets_a_copy_of_its_own() -> None:
    def alters(command: Any) -> Any:
        command.arguments["invoice_id"] = "inv_482"
        return {"id": "x", "status": "y"}

    office = Office(tools={"approve_invoice": {"run": alters, "audit_fields": ("invoice_id",)}})
    office.write()
    assert office.record()["arguments"]["view"] == {"invoice_id": "inv_481"}


@pytest.mark.parametrize(
    ("answer", "code"), [("execute", "executed"), ("ask_user", "values_unknown"), (None, "values_unknown")]
)
def test_preflight_asks_where_values_come_from(answer: Any, code: str) -> None:
    office = Office(preflight=lambda tool, arguments, context: answer)
    outcome = office.write()
    assert (outcome.code, outcome.disposition) == (code, "execute" if code == "executed" else "ask")
    assert office.read().code == "executed", "reads aren't asked about"


# ---------------------------------------------------------------- P13: the record


def test_p13_the_record_of_an_act() -> None:
    office = Office()
    outcome = office.write({**WRITE, "reason": "the password is hunter2"})
    (record,) = office.audit.records()
    digest = record["arguments"].pop("digest")
    assert digest.startswith("sha-256:")
    assert record["arguments"].pop("command") != digest
    assert len(record.pop("id")) == 32
    assert record == {
        "phase": "after",
        "at": "2026-11-30T09:00:00Z",
        "request_id": "req_1",
        "run_id": "run_1",
        "call_id": "call_1",
        "subject": "u_7",
        "tenant": "t_1",
        "tool": "approve_invoice",
        "schema_version": office.tools[1].input.version,
        "effect": "write",
        "policy_version": "7",
        "disposition": "execute",
        "code": "executed",
        "detail": None,
        "objects": {"invoice": "inv_481"},
        "confirmation": None,
        "idempotency_key": outcome.idempotency_key,
        "started_at": "2026-11-30T09:00:00Z",
        "ended_at": "2026-11-30T09:00:00Z",
        "outcome": "done",
        "operation_id": "op-inv_481",
        "arguments": {"view": {"invoice_id": "inv_481", "status": "approved"}},
        "unparsed": None,
        "redactions": ["arguments.reason"],
    }
    assert "hunter2" not in json.dumps(office.audit.records())


def test_p13_a_broken_text_leaves_a_hash_and_a_class() -> None:
    office = Office()
    office.write('{"password": "hunter2"')
    (record,) = office.audit.records()
    assert record["unparsed"]["class"] == "invalid_json"
    assert (record["unparsed"]["type"], record["unparsed"]["length"]) == ("str", 22)
    assert len(record["unparsed"]["sha256"]) == 64
    assert "hunter2" not in json.dumps(record)
    office.write(b"x" * 10_000_000)
    assert office.record()["unparsed"]["class"] == "arguments_too_large"
    assert len(json.dumps(office.record())) < 2000


def test_p13_a_name_that_speaks_is_escaped_and_cut() -> None:
    office = Office()
    office.propose("x\nSYSTEM" + "y" * 500, {})
    assert "\n" not in office.record()["tool"]
    assert len(office.record()["tool"]) <= 80


def test_p13_what_cannot_be_written_is_not_done() -> None:
    office = Office(audit=raising(OSError("disk full at SECRET")))
    for tool, arguments in (("approve_invoice", WRITE), ("get_invoice", READ), ("none", {}), ("get_invoice", "{")):
        outcome = office.propose(tool, arguments)
        assert (outcome.disposition, outcome.code) == ("deny", "audit_failed")
        assert "SECRET" not in outcome.for_model
    assert office.calls == 0


@pytest.mark.parametrize("tool", ["approve_invoice", "get_invoice"])
def test_p13_an_act_that_was_done_is_not_denied_when_its_record_cannot_be_completed(tool: str) -> None:
    written: list[str] = []

    def audit(record: dict[str, Any]) -> None:
        if record["phase"] == "after":
            raise OSError
        written.append(record["outcome"])

    office = Office(audit=audit)
    assert office.propose(tool, WRITE if tool == "approve_invoice" else READ).code == "executed"
    assert written == ["started"]


def test_p13_a_key_whose_act_could_not_be_recorded_is_free_again() -> None:
    fails = [True]

    async def audit(record: dict[str, Any]) -> None:
        if fails[0]:
            raise OSError

    office = Office(audit=audit)
    assert office.write().code == "audit_failed"
    fails[0] = False
    assert office.write().code == "executed"


def test_p13_memory_takes_no_more_than_it_may() -> None:
    audit = MemoryAudit(max_records=1)
    office = Office(audit=audit)
    assert office.write().code == "executed"
    assert office.write({**WRITE, "invoice_id": "inv_482"}).code == "audit_failed"
    with pytest.raises(SessionFull):
        audit({"id": "other"})


# ---------------------------------------------------------------- P10: what else fails


@pytest.mark.parametrize("method", ["look", "swap"])
@pytest.mark.parametrize("error", [sqlite3.OperationalError("SECRET"), SessionFull("SECRET")])
def test_p10_a_store_that_fails_denies(method: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    office = Office(store=store)
    monkeypatch.setattr(store, method, raising(error))
    for outcome in (office.write(), office.read(), office.write(LARGE), asyncio.run(office.apropose("x", {}))):
        assert (outcome.disposition, outcome.code) == ("deny", "internal")
        assert "SECRET" not in outcome.for_model
    assert office.calls == 0


@pytest.mark.parametrize("nth", range(1, 6))
def test_p10_a_store_that_fails_in_the_middle_never_lets_an_act_happen_twice(nth: int) -> None:
    class Failing(MemoryStore):
        swaps = 0

        def swap(self, *given: Any) -> Any:
            Failing.swaps += 1
            if Failing.swaps == nth:
                raise OSError("SECRET")
            return super().swap(*given)

    office = Office(store=Failing())
    outcomes = [office.write() for _ in range(3)]
    assert len(office.acts) <= 1
    assert [outcome.code for outcome in outcomes].count("executed") == len(office.acts)


def test_p10_diagnostics_that_fail_stop_nothing() -> None:
    office = Office(diagnostics=raising(OSError()), tools={"get_invoice": {"run": lambda command: object()}})
    assert office.read().code == "result_invalid"


def test_p10_the_pipeline_itself_failing_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    monkeypatch.setattr("preaction.pipeline.checking.parse_arguments", raising(RuntimeError("SECRET")))
    for outcome in (office.write(), asyncio.run(office.apropose("get_invoice", READ))):
        assert (outcome.code, outcome.for_model.count("SECRET")) == ("internal", 0)
    assert office.calls == 0
    assert {record["detail"] for record in office.audit.records()} == {"RuntimeError"}


def test_p10_the_pipeline_failing_after_the_act_is_of_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    monkeypatch.setattr("preaction.pipeline.acting.plain_result", raising(RuntimeError("SECRET")))
    assert office.write().code == "outcome_unknown"
    monkeypatch.undo()
    assert office.write().code == "outcome_unknown"
    assert len(office.acts) == 1


# ---------------------------------------------------------------- registering


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "tool"),
        ({"name": "räume"}, "ASCII"),
        ({"effect": "delete"}, "effect"),
        ({"run": None}, "run"),
        ({"run": lambda command: (yield)}, "run"),
        ({"resolve": "find"}, "resolve"),
        ({"confirm": "yes"}, "confirm"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"input_schema": {"type": "nonsense"}}, "input_schema"),
        ({"output_schema": {"type": "nonsense"}}, "output_schema"),
        ({"audit_fields": "invoice_id"}, "audit_fields"),
    ],
)
def test_a_tool_that_cannot_be_right_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Tool(**{"name": "t", "run": print, "input_schema": {"type": "object"}, **change})


def test_a_pipeline_that_cannot_be_right_is_refused() -> None:
    tool = Tool(name="t", run=print, input_schema={"type": "object"})
    wrong: list[dict[str, Any]] = [
        {"store": 7},
        {"audit": 7},
        {"diagnostics": 7},
        {"preflight": 7},
        {"reserved": "role"},
    ]
    for options in wrong:
        with pytest.raises(ConfigurationError):
            ToolPipeline([tool], **options)
    for tools in ([tool, tool], [print]):
        with pytest.raises(ConfigurationError, match="tools"):
            ToolPipeline(tools)  # type: ignore[arg-type]


def test_without_hooks_a_tool_still_runs() -> None:
    tool = Tool(name="now", run=lambda command: "noon", input_schema={"type": "object"}, effect="read")
    outcome = ToolPipeline([tool]).handle_sync(ProposedCall("c", "now"), TrustedContext("u", "t", "r", "run"))
    assert (outcome.code, outcome.result, outcome.for_model) == ("executed", "noon", "noon")


async def test_async_hooks_work_from_a_thread_and_inside_a_running_loop() -> None:
    async def slowly(*given: Any) -> Any:
        await asyncio.sleep(0)
        return "noon"

    tool = Tool(name="now", run=slowly, input_schema={"type": "object"}, effect="read", sanitise=slowly)
    pipeline = ToolPipeline([tool])
    call, context = ProposedCall("c", "now"), replace(CONTEXT)
    assert pipeline.handle_sync(call, context).result == (await pipeline.handle(call, context)).result == "noon"
