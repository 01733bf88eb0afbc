"""Requests and answers as pure functions: what is put on the wire, and what a response means."""

import json
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction._core.facts import Ask, Describe, Unavailable, Verify, VerifyOutputCheck
from preaction.errors import MisuseError
from preaction.rest.exchange import (
    INVALID_ID,
    INVALID_NAME,
    Failure,
    Request,
    answer_from,
    body_of,
    json_of,
    request_for,
)
from rest.answers import ANSWERS, CHECK, CHECKED, DESCRIBE, DESCRIPTION, REPLAY, VERIFY, changed

REFUSED_IDS = [
    "",
    "a/b",
    "..",
    "a..b",
    "../exe_1",
    "exe_1/../admin",
    "%2e%2e%2fadmin",
    "exe_1?x=1",
    "exe_1#x",
    "exe 1",
    "exe_1\n",
    "\nexe_1",
    "exe_1\x00",
    "_exe",
    ".exe",
    "-exe",
    "~exe",
    "ex\u00e9",
    "exe\u200b1",
    "\uff11",
    "a" * 201,
    "a;b",
    "a\\b",
    "a@b",
]
ISSUED_IDS = ["e", "exe_01K", "chk-1.2:3~4", "0", "a" * 200, "a.b.c", "A_:~.-"]


@pytest.mark.parametrize("ask", [Verify, VerifyOutputCheck])
@pytest.mark.parametrize("issued", [*REFUSED_IDS, None, 5, b"exe_1", ["exe_1"]])
def test_g19_nothing_is_asked_with_an_id_that_no_authority_issues(ask: Any, issued: Any) -> None:
    assert request_for(ask(issued)) is INVALID_ID


@pytest.mark.parametrize("issued", ISSUED_IDS)
def test_g19_an_issued_id_is_one_segment_of_the_path(issued: str) -> None:
    request = request_for(Verify(issued))
    assert isinstance(request, Request)
    _, _, _, segment, last = request.path.split("/")
    assert (unquote(segment), last, request.body) == (issued, "verify", b"{}")
    assert (request.operation, request.method, request.again) == ("verify_execution", "POST", True)


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800", "a" * 201, None, 5, b"job"])
def test_a_name_that_means_another_place_is_not_sent(name: Any) -> None:
    assert request_for(Describe(name, "1")) is INVALID_NAME
    assert request_for(Describe("job", name)) is INVALID_NAME


def test_a_description_is_read_under_its_two_names_a_segment_each() -> None:
    request = request_for(Describe("a/b", "c" * 200))
    assert request == Request("describe_job", "GET", f"/v0/jobs/a%2Fb/releases/{'c' * 200}")


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_names_are_one_segment_each_and_httpx_leaves_them_alone(job: str, release: str) -> None:
    request = request_for(Describe(job, release))
    if isinstance(request, Failure):
        assert {job, release} & {".", ".."} or any("\ud800" <= char <= "\udfff" for char in job + release)
        return
    assert [unquote(part, errors="strict") for part in request.path.split("/")] == [
        "",
        "v0",
        "jobs",
        job,
        "releases",
        release,
    ]
    assert httpx.URL(f"http://127.0.0.1:8000{request.path}").raw_path == request.path.encode()


@pytest.mark.parametrize(
    ("ask", "value"),
    [(VERIFY, REPLAY), (DESCRIBE, DESCRIPTION), (CHECK, CHECKED)],
    ids=["replay", "description", "check"],
)
def test_a_good_answer_is_a_model_of_the_wire(ask: Ask, value: dict[str, Any]) -> None:
    assert answer_from(ask, 200, json.dumps(value).encode()) == ANSWERS[ask]
    assert answer_from(ask, 200, json.dumps({**value, "unknown": [1]}).encode()) == ANSWERS[ask]


NEEDED = [
    *((VERIFY, REPLAY, f) for f in ("valid", "problems", "executionId")),
    *(
        (VERIFY, REPLAY, f"replay.{f}")
        for f in ("job", "release", "case", "case.id", "case.identity", "status", "outcome")
    ),
    *((DESCRIBE, DESCRIPTION, f) for f in ("job", "release", "outcomes", "outcomes.0.id")),
    *((CHECK, CHECKED, f) for f in ("valid", "passed", "checkId", "executionId", "output", "release", "contentDigest")),
]


@pytest.mark.parametrize(("ask", "value", "field"), NEEDED, ids=[f"{type(a).__name__}-{f}" for a, _, f in NEEDED])
def test_g41_a_needed_field_that_is_missing_or_mistyped_is_named(ask: Ask, value: dict[str, Any], field: str) -> None:
    for bad in (changed(value, field), changed(value, field, {"x": 1}), changed(value, field, 7)):
        answer = answer_from(ask, 200, json.dumps(bad).encode())
        assert isinstance(answer, Unavailable)
        assert field in answer.why
        assert answer.why.startswith("the answer lacked or mistyped a field it needs (")


@pytest.mark.parametrize("field", ["verifiedAt", "replay.evidenceFreshUntil"])
@pytest.mark.parametrize("bad", ["2026-01-10T12:10:00", 1768046400000, "", "tomorrow", "2026-13-01T00:00:00Z"])
def test_case_h11_h15_a_time_without_zone_or_as_a_number_is_no_time(field: str, bad: object) -> None:
    answer = answer_from(VERIFY, 200, json.dumps(changed(REPLAY, field, bad)).encode())
    assert answer == Unavailable(f"the answer lacked or mistyped a field it needs ({field})")


def test_case_h21() -> None:
    """`"false"` is a text, and texts are true."""
    answer = answer_from(VERIFY, 200, json.dumps(changed(REPLAY, "valid", "false")).encode())
    assert answer == Unavailable("the answer lacked or mistyped a field it needs (valid)")


@pytest.mark.parametrize("body", [b"[]", b"null", b"true", b'"x"', b"3"])
def test_an_answer_is_an_object(body: bytes) -> None:
    assert answer_from(VERIFY, 200, body) == Unavailable(
        "the answer lacked or mistyped a field it needs (the whole answer)"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<h1>no</h1>",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b'{"a":"\\ud800"}',
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"a":1}x',
        b"[" * 5_000,
        '{"a":1}'.encode("utf-16"),
    ],
)
def test_g21_only_strict_json_is_an_answer_and_it_is_not_quoted(body: bytes) -> None:
    assert answer_from(VERIFY, 200, body) == Unavailable("the answer was not strict JSON")


@pytest.mark.parametrize(
    "status", [100, 101, 201, 202, 204, 206, 400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503, 999]
)
def test_g21_only_status_200_answers(status: int) -> None:
    answer = answer_from(VERIFY, status, json.dumps(REPLAY).encode())
    assert answer == Unavailable(f"the authority answered with status {status}")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_g21_a_redirect_is_no_answer(status: int) -> None:
    why = "the authority tried to redirect the request"
    assert answer_from(VERIFY, status, b"") == Unavailable(why)
    assert json_of(status, json.dumps(REPLAY).encode()) == Failure("redirect", why, status)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            b'{"title":"T","detail":"D","errors":[{"pointer":"/x","detail":"y"}],"status":422,"key":"secret"}',
            {"title": "T", "detail": "D", "errors": [{"pointer": "/x", "detail": "y"}]},
        ),
        (b'{"title":5,"detail":null,"errors":"no"}', None),
        (b'{"title":"T"}', {"title": "T"}),
        (b"[]", None),
        (b"", None),
        (b"<html>", None),
    ],
)
def test_a_refusal_tells_the_developer_what_was_wrong_but_not_in_its_text(
    body: bytes, problem: dict[str, object] | None
) -> None:
    failure = json_of(422, body)
    assert isinstance(failure, Failure)
    error = failure.error("decide_job")
    assert (str(error), error.kind, error.status) == (
        "decide_job: the authority answered with status 422",
        "status",
        422,
    )
    assert error.problem == problem


@pytest.mark.parametrize("part", [float("nan"), {1, 2}, object(), "\ud800", b"x"])
def test_what_has_no_json_form_is_the_callers_mistake(part: object) -> None:
    with pytest.raises(MisuseError, match=r"^decide_job: the request has no JSON form \(\w+\)$"):
        body_of("decide_job", {"fields": {"x": part}})


def test_a_body_without_end_is_the_callers_mistake() -> None:
    endless: dict[str, object] = {}
    endless["x"] = endless
    with pytest.raises(MisuseError, match=r"^decide_job: the request has no JSON form \(ValueError\)$"):
        body_of("decide_job", endless)
