"""The methods of a client, sync and async: what they send, what they hand back, what they raise."""

import json
from typing import Any

import pytest
import respx

from preaction.errors import AuthorityError, MisuseError
from preaction.rest import Felspar
from preaction.wire.digest import content_digest
from rest.answers import CHECKED, CONTENT, DECISION, DESCRIPTION, JOBS, KEY, OUTPUT_CHECK, REPLAY, changed
from rest.ways import Way, call, client, every_way

ORIGIN = "http://127.0.0.1:9"
KEPT = {"verdictId": "ver_1", "receivedAt": "2026-11-30T09:05:00Z"}
RELEASE = "2026-11-03.1"
METHODS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, str, Any]] = [
    ("decide", ("triage-ticket",), {"entity_id": "HC-1201"}, "POST", "/v0/jobs/triage-ticket/decisions", DECISION),
    (
        "check_output",
        ("exe_1",),
        {"output": "billing-team-reply", "content": CONTENT},
        "POST",
        "/v0/executions/exe_1/output-checks",
        OUTPUT_CHECK,
    ),
    ("list_jobs", (), {}, "GET", "/v0/jobs", JOBS),
    ("describe_job", ("triage-ticket",), {}, "GET", "/v0/jobs/triage-ticket", DESCRIPTION),
    ("describe_job", ("triage-ticket", RELEASE), {}, "GET", f"/v0/jobs/triage-ticket/releases/{RELEASE}", DESCRIPTION),
    ("verify", ("exe_1",), {}, "POST", "/v0/executions/exe_1/verify", REPLAY),
    ("verify_output_check", ("chk_1",), {}, "POST", "/v0/output-checks/chk_1/verify", CHECKED),
    ("report_verdict", ({"tool": "desk__note"},), {}, "POST", "/v0/verdicts", KEPT),
]
every_method = pytest.mark.parametrize(("method", "args", "options", "verb", "path", "answer"), METHODS)
OPERATION = {
    "decide": "decide_job",
    "check_output": "check_output",
    "list_jobs": "list_jobs",
    "describe_job": "describe_job",
    "verify": "verify_execution",
    "verify_output_check": "verify_output_check",
    "report_verdict": "report_verdict",
}


@every_way
@every_method
async def test_a_method_is_one_request_and_its_answer_as_it_came(
    way: Way, method: str, args: Any, options: Any, verb: str, path: str, answer: Any, respx_mock: respx.MockRouter
) -> None:
    said = {**answer, "unknown": {"kept": 1}} if isinstance(answer, dict) else answer
    route = respx_mock.request(verb, ORIGIN + path).respond(json=said)
    async with client(way, ORIGIN) as felspar:
        assert await call(way, felspar, method, *args, **options) == said
    [asked] = [called.request for called in route.calls]
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["host"] == "127.0.0.1:9"
    assert "cookie" not in asked.headers
    assert asked.headers.get("content-length") == (str(len(asked.content)) if verb == "POST" else None)


@every_way
@every_method
async def test_a_refusal_says_what_was_wrong_to_the_developer_only(
    way: Way, method: str, args: Any, options: Any, verb: str, path: str, answer: Any, respx_mock: respx.MockRouter
) -> None:
    problem = {"title": "Not so", "detail": "observedAt is ahead", "errors": [{"pointer": "/evidence", "detail": "no"}]}
    respx_mock.request(verb, ORIGIN + path).respond(422, json={**problem, "status": 422, "type": "about:blank"})
    async with client(way, ORIGIN) as felspar:
        with pytest.raises(AuthorityError) as raised:
            await call(way, felspar, method, *args, **options)
    error = raised.value
    assert str(error) == f"{OPERATION[method]}: the authority answered with status 422"
    assert (error.kind, error.status, error.problem) == ("status", 422, problem)


@every_method
def test_an_answer_of_another_shape_names_the_field(
    method: str, args: Any, options: Any, verb: str, path: str, answer: Any, respx_mock: respx.MockRouter
) -> None:
    bad, field = ([{**answer[0], "pack": 5}], "[0].pack") if isinstance(answer, list) else (dict(answer), "release")
    for value, named in ((bad, field), ("text", "the whole answer")):
        if isinstance(value, dict):
            [needed] = [name for name in ("release", "executionId", "verdictId") if name in value][-1:]
            named = needed
            del value[needed]
        respx_mock.request(verb, ORIGIN + path).respond(json=value)
        with Felspar(ORIGIN, KEY) as felspar, pytest.raises(AuthorityError) as raised:
            getattr(felspar, method)(*args, **options)
        assert raised.value.kind == "wrong_shape"
        assert str(raised.value) == f"{OPERATION[method]}: the answer lacked or mistyped a field it needs ({named})"


@pytest.mark.parametrize(
    ("row", "field", "to"),
    [
        (0, "job", "other"),
        (1, "executionId", "exe_2"),
        (1, "output", "other"),
        (1, "contentDigest", "sha-256:" + "0" * 64),
        (3, "job", "other"),
        (4, "job", "other"),
        (4, "release", "2026-10-01.1"),
        (5, "executionId", "exe_2"),
        (6, "checkId", "chk_2"),
    ],
)
def test_an_answer_about_something_else_is_none(row: int, field: str, to: str, respx_mock: respx.MockRouter) -> None:
    method, args, options, verb, path, answer = METHODS[row]
    respx_mock.request(verb, ORIGIN + path).respond(json=changed(answer, field, to))
    with Felspar(ORIGIN, KEY) as felspar, pytest.raises(AuthorityError) as raised:
        getattr(felspar, method)(*args, **options)
    assert raised.value.kind == "wrong_shape"
    assert str(raised.value) == f"{OPERATION[method]}: the answer was about something else than was asked for"


@every_way
async def test_what_is_decided_on_travels_as_given(way: Way, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.post(f"{ORIGIN}/v0/jobs/triage-ticket/decisions").respond(json=DECISION)
    evidence = {"topic": {"value": "billing", "source": "human", "observedAt": "2026-11-30T08:59:00Z"}}
    given = {"entity_id": "HC-1201", "evidence": evidence, "fields": {"n": 1}, "content": {"body": "caf\u00e9"}}
    async with client(way, ORIGIN) as felspar:
        await call(way, felspar, "decide", "triage-ticket", **given, idempotency_key="k-1")
        await call(way, felspar, "decide", "triage-ticket")
    first, second = (called.request for called in route.calls)
    assert json.loads(first.content) == given
    assert first.headers["idempotency-key"] == "k-1"
    assert (second.content, "idempotency-key" in second.headers) == (b"{}", False)


@pytest.mark.parametrize("key", ["", "a b", "a\r\nX: y", "\u00e9", "a" * 256, 5])
@pytest.mark.parametrize("row", [0, 1, 7])
def test_an_idempotency_key_is_a_header(row: int, key: Any) -> None:
    method, args, options, *_ = METHODS[row]
    with Felspar(ORIGIN, KEY) as felspar, pytest.raises(MisuseError) as raised:
        getattr(felspar, method)(*args, **options, idempotency_key=key)
    needed = "idempotency_key needs 1 to 255 visible ASCII characters, without white space"
    assert str(raised.value) == f"{OPERATION[method]}: {needed}"


@pytest.mark.parametrize("key", ["!", "~" * 255])
@pytest.mark.parametrize("row", [0, 1, 7])
@every_way
async def test_an_idempotency_key_travels_as_it_is(way: Way, row: int, key: str, respx_mock: respx.MockRouter) -> None:
    method, args, options, verb, path, answer = METHODS[row]
    route = respx_mock.request(verb, ORIGIN + path).respond(json=answer)
    async with client(way, ORIGIN) as felspar:
        await call(way, felspar, method, *args, **options, idempotency_key=key)
    assert route.calls.last.request.headers["idempotency-key"] == key


NOT_ISSUED = "the id is not one that an authority issues"
NO_SEGMENT = "the name of the job or of the release cannot be part of a path"


@pytest.mark.parametrize(
    ("method", "args", "options", "why"),
    [
        ("verify", ("../admin",), {}, NOT_ISSUED),
        ("verify_output_check", ("a?b",), {}, NOT_ISSUED),
        ("describe_job", ("..",), {}, NO_SEGMENT),
        ("describe_job", ("job", "."), {}, NO_SEGMENT),
        ("decide", ("",), {}, NO_SEGMENT),
        ("check_output", ("a/b",), {"output": "o", "content": {}}, NOT_ISSUED),
    ],
)
@respx.mock
def test_an_id_that_may_not_be_sent_is_not_sent(method: str, args: Any, options: Any, why: str) -> None:
    with Felspar(ORIGIN, KEY) as felspar, pytest.raises(AuthorityError) as raised:
        getattr(felspar, method)(*args, **options)
    assert (raised.value.kind, str(raised.value)) == ("invalid_id", f"{OPERATION[method]}: {why}")


NO_TEXTS: list[Any] = [{"body": 1.5}, {"body": None}, {5: "x"}, ["body"], None, "body"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"body": "\ud800"}, "the request has no JSON form (UnicodeEncodeError)"),
        *((content, "content needs a mapping of field names to texts") for content in NO_TEXTS),
    ],
)
def test_what_is_not_a_text_is_not_checked(content: Any, why: str) -> None:
    with Felspar(ORIGIN, KEY) as felspar, pytest.raises(MisuseError) as raised:
        felspar.check_output("exe_1", output="o", content=content)
    assert str(raised.value) == f"check_output: {why}"


@pytest.mark.parametrize(
    ("report", "why"),
    [
        *((report, "a mapping in wire shape is needed") for report in (None, "text", ["tool"])),
        ({"case": "\ud800"}, "the request has no JSON form (UnicodeEncodeError)"),
        ({"allow": object()}, "the request has no JSON form (TypeError)"),
    ],
)
def test_what_is_no_report_is_not_sent(report: Any, why: str) -> None:
    with Felspar(ORIGIN, KEY) as felspar, pytest.raises(MisuseError) as raised:
        felspar.report_verdict(report)
    assert str(raised.value) == f"report_verdict: {why}"


def test_what_has_no_json_form_is_not_decided_on() -> None:
    with Felspar(ORIGIN, KEY) as felspar, pytest.raises(MisuseError) as raised:
        felspar.decide("triage-ticket", fields={"n": float("nan")})
    assert str(raised.value) == "decide_job: the request has no JSON form (ValueError)"


def test_the_digest_of_a_text_is_checked_code_point_for_code_point(respx_mock: respx.MockRouter) -> None:
    decomposed = {"body": "cafe\u0301"}
    answer = changed(OUTPUT_CHECK, "contentDigest", content_digest(decomposed))
    respx_mock.post(f"{ORIGIN}/v0/executions/exe_1/output-checks").respond(json=answer)
    with Felspar(ORIGIN, KEY) as felspar:
        assert felspar.check_output("exe_1", output="billing-team-reply", content=decomposed) == answer
        with pytest.raises(AuthorityError, match="about something else"):
            felspar.check_output("exe_1", output="billing-team-reply", content={"body": "caf\u00e9"})


@every_way
async def test_warm_finds_out_whether_the_key_is_taken(way: Way, respx_mock: respx.MockRouter) -> None:
    route = respx_mock.get(f"{ORIGIN}/v0/jobs").respond(json=JOBS)
    async with client(way, ORIGIN) as felspar:
        await call(way, felspar, "warm")
        route.respond(401)
        with pytest.raises(AuthorityError, match="status 401"):
            await call(way, felspar, "warm")
