"""What OpenTelemetry is told of a check, over its real SDK; and that whatever breaks in it changes no verdict."""

import asyncio
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from opentelemetry import trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kit import BODY, REPLY, SESSION, TICKET, company, decided, helpdesk, mail, reply
from preaction import ActionGate, ConfigurationError, Verdict
from preaction._core.denied import Code
from preaction.telemetry import ACTIVE, DURATION, SPAN, Telemetry

DASHBOARD = "docs/grafana/preaction-gate.json"


class Told:
    """A telemetry over the SDK's exporters in memory."""

    def __init__(self, *processors: SpanProcessor, **options: Any) -> None:
        self.spans = InMemorySpanExporter()
        self.tracing = TracerProvider(shutdown_on_exit=False, **options)
        for processor in (*processors, SimpleSpanProcessor(self.spans)):
            self.tracing.add_span_processor(processor)
        self.reader = InMemoryMetricReader()
        self.metering = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = Telemetry(tracer_provider=self.tracing, meter_provider=self.metering)

    def span(self) -> Any:
        (span,) = self.spans.get_finished_spans()
        return span

    def points(self, name: str) -> list[Any]:
        data: Any = self.reader.get_metrics_data()
        scopes = [scope for resource in (data.resource_metrics if data else []) for scope in resource.scope_metrics]
        metrics = [metric for scope in scopes for metric in scope.metrics]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]

    def close(self) -> None:
        self.tracing.shutdown()
        self.metering.shutdown()


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.close()


async def ask(gate: ActionGate, in_a_loop: bool, *call: Any) -> Verdict:
    given = call or (SESSION, REPLY, reply())
    return await gate.acheck(*given) if in_a_loop else gate.check(*given)


both = pytest.mark.parametrize("in_a_loop", [False, True], ids=["thread", "loop"])


# What is told --------------------------------------------------------------------------------------------------------


@both
async def test_an_allowed_call_is_a_span_a_point_and_a_record(
    told: Told, in_a_loop: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "preaction.decide")
    gate, authority = helpdesk(telemetry=told.telemetry)
    decision = decided(gate, authority)
    verdict = await ask(gate, in_a_loop)
    labels = {
        "gen_ai.tool.name": REPLY,
        "preaction.decision": "allow",
        "preaction.enforced": True,
        "preaction.reason_code": "allowed",
        "preaction.policy.id": "triage-ticket",
    }
    span = told.span()
    assert (span.name, span.kind, span.status.status_code) == (SPAN, SpanKind.INTERNAL, StatusCode.UNSET)
    assert dict(span.attributes) == {
        **labels,
        "preaction.policy.version": "2026-11-03.1",
        "preaction.receipt.id": decision["executionId"],
        "preaction.action.hash": verdict.call_digest,
    }
    (point,) = told.points(DURATION)
    assert (dict(point.attributes), point.count) == (labels, 1)
    assert 0 < point.sum <= (span.end_time - span.start_time) / 1e9 + 10
    assert [(dict(point.attributes), point.value) for point in told.points(ACTIVE)] == [
        ({"preaction.policy.id": "triage-ticket"}, 0)
    ]
    (record,) = [each for each in caplog.records if each.name == "preaction.decide"]
    assert record.getMessage() == f"{REPLY}: allowed"
    expected = {"code": "allowed", "tool": REPLY, "job": "triage-ticket", "allow": True, "enforced": True}
    assert {name: getattr(record, name) for name in expected} == expected
    assert told.telemetry.failed == 0


@both
async def test_a_denial_is_no_error(told: Told, in_a_loop: bool) -> None:
    gate, _ = helpdesk(telemetry=told.telemetry, mode="observe")
    await ask(gate, in_a_loop)
    span = told.span()
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes["preaction.decision"] == "deny"
    assert span.attributes["preaction.reason_code"] == "case_not_decided"
    assert span.attributes["preaction.enforced"] is False
    assert {"error.type", "preaction.receipt.id", "preaction.policy.version"}.isdisjoint(span.attributes)


@both
async def test_a_failure_of_the_gate_is_an_error_and_the_verdict_that_stands_is_told(
    told: Told, in_a_loop: bool
) -> None:
    def on_verdict(tool: str, verdict: Verdict) -> None:
        raise RuntimeError("SECRET")

    gate, authority = helpdesk(telemetry=told.telemetry, on_verdict=on_verdict)
    decided(gate, authority)
    assert (await ask(gate, in_a_loop)).code == "gate_error"
    span = told.span()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "gate_error")
    assert span.attributes["error.type"] == span.attributes["preaction.reason_code"] == "gate_error"
    assert [point.attributes["error.type"] for point in told.points(DURATION)] == ["gate_error"]
    assert "SECRET" not in span.to_json()


async def test_a_check_that_is_cancelled_has_no_decision_and_is_under_way_no_more(told: Told) -> None:
    asked = asyncio.Event()

    async def hangs(execution_id: str) -> object:
        asked.set()
        return await asyncio.Event().wait()

    gate, authority = helpdesk(telemetry=told.telemetry, verify=hangs)
    decided(gate, authority)
    task = asyncio.create_task(gate.acheck(SESSION, REPLY, reply()))
    await asked.wait()
    assert [point.value for point in told.points(ACTIVE)] == [1]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert dict(told.span().attributes) == {"preaction.policy.id": "triage-ticket", "error.type": "CancelledError"}
    assert told.points(DURATION) == []
    assert [point.value for point in told.points(ACTIVE)] == [0]


@both
async def test_the_span_stands_in_the_agents_trace_and_is_current_while_facts_are_fetched(
    told: Told, in_a_loop: bool
) -> None:
    seen: list[int] = []
    gate, authority = helpdesk(telemetry=told.telemetry)
    authority.before_answer = lambda asks: seen.append(trace.get_current_span().get_span_context().span_id)  # type: ignore[method-assign]
    decided(gate, authority)
    with told.tracing.get_tracer("agent").start_as_current_span("agent") as agent:
        await ask(gate, in_a_loop)
        assert trace.get_current_span() is agent
    span: Any = told.spans.get_finished_spans()[0]
    assert (span.name, span.parent.span_id) == (SPAN, agent.get_span_context().span_id)
    assert set(seen) == {span.context.span_id}


@both
async def test_a_preview_tells_nothing(told: Told, in_a_loop: bool) -> None:
    gate, _ = helpdesk(telemetry=told.telemetry)
    await gate.apreview(SESSION, REPLY, reply()) if in_a_loop else gate.preview(SESSION, REPLY, reply())
    assert told.spans.get_finished_spans() == ()
    assert told.points(DURATION) == []


def test_nothing_of_a_call_a_case_a_session_or_a_reason_is_told(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "preaction.decide")
    desk, authority = helpdesk(telemetry=told.telemetry)
    decided(desk, authority)
    firm, companies = company(telemetry=told.telemetry)
    decided(firm, companies, "acme.example")
    for arguments in (reply(), reply(body="SECRET"), reply(ticketId="HC-SECRET"), reply(SECRET="x"), None, "SECRET"):
        desk.check(SESSION, REPLY, arguments)  # type: ignore[arg-type]
    for arguments in (mail(), mail(to="SECRET@acme.example"), mail(subject="SECRET\nBcc: a@b.example")):
        firm.check("SECRET-chat", "email_send", arguments)
    for tool in ("SECRET", f"{REPLY} SECRET", "helpdesk--Reply", 7):
        desk.check(SESSION, tool, reply())  # type: ignore[arg-type]
    spans: Any = told.spans.get_finished_spans()
    assert {span.attributes["gen_ai.tool.name"] for span in spans} == {REPLY, "email_send", "_OTHER"}
    all_told = [*(span.to_json() for span in spans), str(told.reader.get_metrics_data())]
    all_told += [str(vars(record)) for record in caplog.records if record.name == "preaction.decide"]
    for word in ("SECRET", TICKET, BODY, SESSION, "acme", "Denied"):
        assert not [text for text in all_told if word in text], word
    assert told.telemetry.failed == 0


@pytest.mark.parametrize(
    ("changes", "left_out"),
    [
        ({"release": "x" * 201}, "preaction.policy.version"),
        ({"executionId": "exe 1/../SECRET"}, "preaction.receipt.id"),
    ],
)
def test_an_id_that_is_none_is_not_told(told: Told, changes: dict[str, str], left_out: str) -> None:
    gate, authority = helpdesk(telemetry=told.telemetry)
    gate.decisions.record(SESSION, result=authority.decide(TICKET, **changes))
    gate.check(SESSION, REPLY, reply())
    assert left_out not in told.span().attributes


# Off, and broken -----------------------------------------------------------------------------------------------------


def test_without_it_nothing_is_made_for_a_check() -> None:
    gate, _ = helpdesk()
    assert gate._watch() is gate._watch()


def test_a_span_that_nobody_samples_costs_no_digest() -> None:
    told = Told(sampler=ALWAYS_OFF)
    gate, authority = helpdesk(telemetry=told.telemetry)
    decided(gate, authority)
    verdict = gate.check(SESSION, REPLY, reply())
    assert verdict.allow
    assert "call_digest" not in vars(verdict)
    assert [point.count for point in told.points(DURATION)] == [1]
    told.close()


@pytest.mark.parametrize("given", [True, {}, Telemetry, "otlp", object()])
def test_what_is_no_telemetry_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^telemetry: "):
        helpdesk(telemetry=given)


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match="install the extra otel"):
        Telemetry()


class Broken:
    """Stands for anything of an SDK: whatever is called on it raises."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def fail(*args: Any, **options: Any) -> Any:
            raise self._error("SECRET")

        return fail


PARTS = ["_tracer", "_duration", "_active", "_context", "span"]


@both
@pytest.mark.parametrize("error", [RuntimeError, StopIteration, MemoryError])
@pytest.mark.parametrize("part", PARTS)
async def test_whatever_part_breaks_the_verdict_is_the_same(
    told: Told, part: str, error: type[Exception], in_a_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, authority = helpdesk(telemetry=told.telemetry)
    if part == "span":
        monkeypatch.setattr(told.telemetry._tracer, "start_span", lambda name: Broken(error))
    else:
        monkeypatch.setattr(told.telemetry, part, Broken(error))
    assert (await ask(gate, in_a_loop)).code == "case_not_decided"
    decided(gate, authority)
    assert (await ask(gate, in_a_loop)).allow
    assert (await ask(gate, in_a_loop, SESSION, REPLY, reply(body="x"))).code == "output_check_missing"
    assert told.telemetry.failed >= 3
    if part != "_duration":  # one signal that breaks takes no other with it
        assert sum(point.count for point in told.points(DURATION)) == 3
    assert not trace.get_current_span().get_span_context().is_valid


class RaisingExporter(SpanExporter):
    def export(self, spans: Any) -> Any:
        raise OSError("SECRET")


class RaisingProcessor(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise OSError("SECRET")

    def on_end(self, span: Any) -> None:
        raise OSError("SECRET")


@pytest.mark.parametrize("processor", [SimpleSpanProcessor(RaisingExporter()), RaisingProcessor()])
def test_an_exporter_that_raises_changes_no_verdict(processor: SpanProcessor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "opentelemetry")  # the SDK tells of it itself
    told = Told(processor)
    gate, authority = helpdesk(telemetry=told.telemetry)
    assert gate.check(SESSION, REPLY, reply()).code == "case_not_decided"
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).allow
    told.close()


def test_a_log_handler_that_raises_changes_no_verdict(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    class Raises(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise OSError("SECRET")

    logger = logging.getLogger("preaction.decide")
    monkeypatch.setattr(logger, "level", logging.INFO)
    monkeypatch.setattr(logger, "handlers", [Raises()])
    gate, authority = helpdesk(telemetry=told.telemetry)
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).allow
    assert told.telemetry.failed == 1
    assert told.span().attributes["preaction.reason_code"] == "allowed"


def test_threads_share_it_and_every_check_is_told(told: Told) -> None:
    gate, authority = helpdesk(telemetry=told.telemetry)
    decided(gate, authority)
    threads = [
        threading.Thread(target=lambda: [gate.check(SESSION, REPLY, reply()) for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told.spans.get_finished_spans()) == 80
    assert [point.count for point in told.points(DURATION)] == [80]
    assert [point.value for point in told.points(ACTIVE)] == [0]


# The dashboard -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scraped() -> dict[str, set[str]]:
    """What Prometheus is given for checks of every kind: the names of the samples, with their labels."""
    reader = PrometheusMetricReader()
    metering = MeterProvider([reader], shutdown_on_exit=False)
    gate, authority = helpdesk(telemetry=Telemetry(meter_provider=metering))
    gate.check(SESSION, REPLY, reply())
    decided(gate, authority)
    gate.check(SESSION, REPLY, reply())
    text = generate_latest().decode()
    metering.shutdown()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found: dict[str, set[str]] = {}
    for sample in samples:
        found.setdefault(sample.name, set()).update(sample.labels)
    return found


def queries(panels: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for panel in panels:
        yield from queries(panel.get("panels", []))
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def test_every_query_of_the_dashboard_names_metrics_and_labels_that_are_exported(
    repository: Path, scraped: dict[str, set[str]]
) -> None:
    board = json.loads((repository / DASHBOARD).read_text("utf-8"))
    asked = list(queries(board["panels"]))
    asked += [(each["name"], each["definition"]) for each in board["templating"]["list"] if each["type"] == "query"]
    assert len(asked) > 12
    for title, query in asked:
        names = set(re.findall(r"\bpreaction_decide\w*", query))
        assert names, title
        assert names <= scraped.keys(), title
        compared = re.findall(r'(\w+)\s*[=!]~?\s*"(.*?)"', query)
        grouped = [name.strip() for inner in re.findall(r"\bby \((.*?)\)", query) for name in inner.split(",")]
        listed = re.findall(r"label_values\(\w+, (\w+)\)", query)
        labels = {*grouped, *listed, *(name for name, _ in compared)}
        assert labels, title
        for name in names:
            assert labels <= scraped[name], title
        codes = {code for name, value in compared if name == "preaction_reason_code" for code in value.split("|")}
        assert codes <= {*get_args(Code)}, title
