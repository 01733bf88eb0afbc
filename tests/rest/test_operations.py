"""What each operation is on the wire, as a question that is not put."""

from typing import Any

import pytest

from preaction.rest import operations
from preaction.rest.exchange import Question, Request

REQUESTS: list[tuple[Question[Any], Request]] = [
    (
        operations.decide("triage-ticket", "HC-1201", None, None, None, None),
        Request(
            "decide_job", "POST", "/v0/jobs/triage-ticket/decisions", b'{"entity_id":"HC-1201"}', None, again=False
        ),
    ),
    (
        operations.decide("a/b", None, {}, {"n": 1}, {"body": "caf\u00e9"}, "k"),
        Request(
            "decide_job",
            "POST",
            "/v0/jobs/a%2Fb/decisions",
            '{"evidence":{},"fields":{"n":1},"content":{"body":"caf\u00e9"}}'.encode(),
            "k",
            again=True,
        ),
    ),
    (
        operations.check_output("exe_1", "reply", {"body": "x"}, None),
        Request(
            "check_output",
            "POST",
            "/v0/executions/exe_1/output-checks",
            b'{"output":"reply","content":{"body":"x"}}',
            None,
            again=False,
        ),
    ),
    (
        operations.check_output("exe_1", "reply", {}, "k"),
        Request(
            "check_output",
            "POST",
            "/v0/executions/exe_1/output-checks",
            b'{"output":"reply","content":{}}',
            "k",
            again=True,
        ),
    ),
    (operations.list_jobs(), Request("list_jobs", "GET", "/v0/jobs")),
    (operations.describe_job("j", None), Request("describe_job", "GET", "/v0/jobs/j")),
    (operations.describe_job("j", "1"), Request("describe_job", "GET", "/v0/jobs/j/releases/1")),
    (operations.verify("e:1"), Request("verify_execution", "POST", "/v0/executions/e%3A1/verify", b"{}")),
    (operations.verify_output_check("c"), Request("verify_output_check", "POST", "/v0/output-checks/c/verify", b"{}")),
    (
        operations.report_verdict({"tool": "t"}, None),
        Request("report_verdict", "POST", "/v0/verdicts", b'{"tool":"t"}', None, again=False),
    ),
    (
        operations.report_verdict({"tool": "t"}, "k"),
        Request("report_verdict", "POST", "/v0/verdicts", b'{"tool":"t"}', "k", again=True),
    ),
]


@pytest.mark.parametrize(("question", "sent"), REQUESTS)
def test_g21_what_is_sent_and_whether_it_may_be_sent_again(question: Question[Any], sent: Request) -> None:
    assert question.request == sent
