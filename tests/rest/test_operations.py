"""What each operation is on the wire, as a question that is not put."""

from collections.abc import Callable
from typing import Any

import pytest

from preaction.rest import operations
from preaction.rest.exchange import Question, Request

DECISIONS = "/v0/jobs/triage-ticket/decisions"
CHECKS = "/v0/executions/exe_1/output-checks"
CAFE = {"body": "caf\u00e9"}
READS: list[tuple[Callable[..., Question[Any]], tuple[Any, ...], Request]] = [
    (operations.list_jobs, (), Request("list_jobs", "GET", "/v0/jobs")),
    (operations.describe_job, ("j", None), Request("describe_job", "GET", "/v0/jobs/j")),
    (operations.describe_job, ("j", "1"), Request("describe_job", "GET", "/v0/jobs/j/releases/1")),
    (operations.verify, ("e:1",), Request("verify_execution", "POST", "/v0/executions/e%3A1/verify", b"{}")),
    (
        operations.verify_output_check,
        ("c",),
        Request("verify_output_check", "POST", "/v0/output-checks/c/verify", b"{}"),
    ),
]
WRITES: list[tuple[Callable[..., Question[Any]], tuple[Any, ...], str, str, str]] = [
    (operations.decide, ("triage-ticket", "HC-1", None, None, None), "decide_job", DECISIONS, '{"entity_id":"HC-1"}'),
    (
        operations.decide,
        ("a/b", None, {}, {"n": 1}, CAFE),
        "decide_job",
        "/v0/jobs/a%2Fb/decisions",
        '{"evidence":{},"fields":{"n":1},"content":{"body":"caf\u00e9"}}',
    ),
    (
        operations.check_output,
        ("exe_1", "reply", CAFE),
        "check_output",
        CHECKS,
        '{"output":"reply","content":{"body":"caf\u00e9"}}',
    ),
    (operations.report_verdict, ({"tool": "t"},), "report_verdict", "/v0/verdicts", '{"tool":"t"}'),
]


@pytest.mark.parametrize(("operation", "args", "request_"), READS)
def test_g21_a_read_may_be_sent_again(
    operation: Callable[..., Question[Any]], args: tuple[Any, ...], request_: Request
) -> None:
    assert request_.again
    assert operation(*args).request == request_


@pytest.mark.parametrize("key", [None, "k-1"])
@pytest.mark.parametrize(("operation", "args", "name", "path", "body"), WRITES)
def test_g21_what_may_do_something_is_sent_again_only_under_a_key(
    operation: Callable[..., Question[Any]], args: tuple[Any, ...], name: str, path: str, body: str, key: str | None
) -> None:
    sent = Request(name, "POST", path, body.encode(), key, again=key is not None)
    assert operation(*args, key).request == sent
