"""Several sinks, those that must take a record and those that may; and OpenTelemetry's, over its real SDK."""

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from pipeline.office import SECRETS, WRITE, Office, raising
from preaction.errors import ConfigurationError
from preaction.pipeline import Audits, JsonlAudit, MemoryAudit, OtelAudit

OTHER = {**WRITE, "invoice_id": "inv_482"}


async def refuses(record: dict[str, Any]) -> None:
    raise OSError("SECRET")


# ---------------------------------------------------------------- several sinks


def test_p13_every_sink_has_to_take_a_record_before_the_act(tmp_path: Path) -> None:
    first, last = MemoryAudit(), JsonlAudit(tmp_path / "audit.jsonl", durable=False)
    office = Office(audit=Audits(first, last))
    assert office.write().code == "executed"
    assert first.records() == last.records() != []
    for bad in (raising(OSError("SECRET")), refuses, lambda record: refuses(record)):
        for sinks in ((first, bad), (bad, first)):
            office = Office(audit=Audits(*sinks))
            assert office.write().code == "audit_failed"
            assert asyncio.run(office.apropose("approve_invoice", WRITE)).code == "audit_failed"
            assert office.acts == []


def test_p13_a_sink_that_may_fail_stops_nothing_and_is_told_by_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    must = MemoryAudit()
    for bad in (raising(OSError("SECRET")), refuses, lambda record: refuses(record)):
        office = Office(audit=Audits(must, best_effort=[bad, must]))
        caplog.clear()
        assert office.write().code == "executed"
        assert asyncio.run(office.apropose("approve_invoice", OTHER)).code == "executed"
        told = [each.getMessage() for each in caplog.records]
        assert told == ["a sink of the audit that need not take a record failed: OSError"] * 4
        assert {vars(each)["code"] for each in caplog.records} == {"audit_lost"}
    assert len(must.records()) == 6


def test_p13_async_sinks_are_awaited_after_the_others() -> None:
    heard: list[tuple[str, str]] = []

    async def later(record: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        heard.append(("later", record["phase"]))

    office = Office(audit=Audits(later, lambda record: heard.append(("at once", record["phase"]))))
    assert office.write().code == "executed"
    assert heard == [("at once", "before"), ("later", "before"), ("at once", "after"), ("later", "after")]


def test_p13_no_sink_can_alter_what_the_next_one_is_given() -> None:
    kept = MemoryAudit()

    def alters(record: dict[str, Any]) -> None:
        record["tenant"] = record["objects"]["invoice"] = "altered"

    office = Office(audit=Audits(alters, kept))
    office.write()
    assert (kept.records()[0]["tenant"], kept.records()[0]["objects"]) == ("t_1", {"invoice": "inv_481"})


@pytest.mark.parametrize(("sinks", "best_effort"), [((), ()), ((), (print,)), ((7,), ()), ((print,), ("x",))])
def test_p13_sinks_that_cannot_be_right_are_refused(sinks: Any, best_effort: Any) -> None:
    with pytest.raises(ConfigurationError, match="audit"):
        Audits(*sinks, best_effort=best_effort)


# ---------------------------------------------------------------- OpenTelemetry


class Telemetry:
    """The SDK with an exporter, and what came to the one in memory."""

    def __init__(self, exporter: LogRecordExporter | None = None) -> None:
        self.exporter = exporter or InMemoryLogRecordExporter()
        self.provider = LoggerProvider(shutdown_on_exit=False)
        self.provider.add_log_record_processor(SimpleLogRecordProcessor(self.exporter))

    def told(self) -> list[Any]:
        assert isinstance(self.exporter, InMemoryLogRecordExporter)
        return [each.log_record for each in self.exporter.get_finished_logs()]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.provider.shutdown()


def test_p13_each_record_is_told_to_opentelemetry_without_arguments(telemetry: Telemetry) -> None:
    kept = MemoryAudit()
    office = Office(audit=Audits(kept, best_effort=[OtelAudit(telemetry.provider)]))
    office.write(key="key-SECRET")
    before, after = telemetry.told()
    assert (before.event_name, before.body, before.severity_text) == (
        "preaction.audit",
        "approve_invoice: started",
        "INFO",
    )
    assert after.timestamp == int(office.clock().timestamp()) * 10**9
    record = kept.records()[-1]
    assert dict(after.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "approve_invoice",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1",
        "preaction.id": record["id"],
        "preaction.phase": "after",
        "preaction.request_id": "req_1",
        "preaction.run_id": "run_1",
        "preaction.subject": "u_7",
        "preaction.tenant": "t_1",
        "preaction.schema_version": record["schema_version"],
        "preaction.effect": "write",
        "preaction.policy_version": "7",
        "preaction.disposition": "execute",
        "preaction.code": "executed",
        "preaction.outcome": "done",
        "preaction.operation_id": "op-inv_481",
        "preaction.redactions": (),
        "preaction.arguments.digest": record["arguments"]["digest"],
    }
    assert "key-SECRET" not in str(dict(after.attributes))


def test_p13_with_arguments_only_the_view_is_told(telemetry: Telemetry) -> None:
    office = Office(audit=OtelAudit(telemetry.provider, arguments=True))
    office.write({**WRITE, "reason": "a private matter"})
    office.read("{")
    assert [each.attributes.get("gen_ai.tool.call.arguments") for each in telemetry.told()] == [
        *[json.dumps({"invoice_id": "inv_481", "status": "approved"})] * 2,
        None,
    ]
    assert "private" not in str([dict(each.attributes) for each in telemetry.told()])


def test_p13_a_denial_is_no_error_and_never_an_executed_tool(telemetry: Telemetry) -> None:
    office = Office(audit=OtelAudit(telemetry.provider), preflight=None)
    office.write(roles=("viewer",))
    office.read({"invoice_id": "inv_foreign"})
    office.propose("none", {})
    for each in telemetry.told():
        assert {"error.type", "gen_ai.operation.name"}.isdisjoint(each.attributes)
        assert each.severity_text == "INFO"
        assert not [word for word in SECRETS if word in str(dict(each.attributes))]


def test_p13_what_failed_is_an_error_of_its_code(telemetry: Telemetry) -> None:
    audit = OtelAudit(telemetry.provider)
    Office(audit=audit, tools={"get_invoice": {"run": raising(RuntimeError("SECRET"))}}).read()
    Office(audit=audit, tools={"approve_invoice": {"run": raising(RuntimeError("SECRET"))}}).write()
    Office(audit=audit, preflight=raising(RuntimeError("SECRET"))).write()
    ended = [each for each in telemetry.told() if each.attributes["preaction.phase"] == "after"]
    assert [each.attributes["error.type"] for each in ended] == ["tool_failed", "outcome_unknown", "internal"]
    assert {each.severity_text for each in ended} == {"ERROR"}
    assert "SECRET" not in str([dict(each.attributes) for each in ended])


def test_p13_a_confirmation_is_named(telemetry: Telemetry) -> None:
    office = Office(audit=OtelAudit(telemetry.provider))
    asked = office.write({**WRITE, "invoice_id": "inv_900"})
    assert asked.confirmation is not None
    office.pipeline.confirmations.approve(asked.confirmation.id, by="u_9")
    office.write({**WRITE, "invoice_id": "inv_900"})
    assert telemetry.told()[-1].attributes["preaction.confirmation.by"] == "u_9"


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_p13_a_record_stands_in_the_trace_of_its_proposal(telemetry: Telemetry, in_a_loop: bool) -> None:
    office = Office(audit=OtelAudit(telemetry.provider))
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    with tracer.start_as_current_span("agent") as span:
        if in_a_loop:
            asyncio.run(office.apropose("approve_invoice", WRITE))
        else:
            office.write()
    assert [each.trace_id for each in telemetry.told()] == [span.get_span_context().trace_id] * 2


class Failing(InMemoryLogRecordExporter):
    """An exporter whose service is down."""

    def export(self, batch: Any) -> Any:
        """Fail."""
        raise OSError("SECRET")


def test_p13_an_exporter_that_fails_stops_nothing_so_it_is_no_guarantee(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = Telemetry(Failing())
    caplog.set_level(logging.CRITICAL, "opentelemetry")  # the SDK tells of it itself
    kept = JsonlAudit(tmp_path / "audit.jsonl", durable=False)
    office = Office(audit=Audits(kept, best_effort=[OtelAudit(telemetry.provider)]))
    assert office.write().code == "executed"
    assert Office(audit=OtelAudit(telemetry.provider)).write().code == "executed"
    assert [each["code"] for each in kept.records()] == ["executed"]
    office = Office(audit=Audits(raising(OSError()), best_effort=[OtelAudit(telemetry.provider)]))
    assert office.write().code == "audit_failed"


def test_p13_without_an_sdk_nothing_is_told_and_without_the_api_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Office(audit=OtelAudit()).write().code == "executed"
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match="extra otel"):
        OtelAudit()
