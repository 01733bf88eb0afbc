"""Whatever a caller sends, no answer is a 5xx."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authority.asking import REPLY, evidence
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.server.operations import OPERATIONS

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
NAMES = ["entity_id", "evidence", "fields", "content", "topic", "amount", "value", "source", "observedAt", "include"]
NAMES += ["description", "outputChecks", "output", "body", "human", "billing", "billing-team-reply", "😀"]
NAMES += ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "2026-11-30T08:59:00Z"]

texts = st.sampled_from(NAMES) | st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=5))
bodies = values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60)


@pytest.fixture(scope="module")
def given_() -> Iterator[tuple[LocalAuthority, dict[str, str]]]:
    """One authority for all examples, with the ids of what is in it."""
    with LocalAuthority.from_pack(HELPDESK, clock=lambda: NOW) as authority:
        decision = authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
        check = authority.check_output(decision["executionId"], output="billing-team-reply", content=REPLY)
        ids = {"executions": decision["executionId"], "output-checks": check["checkId"]}
        yield authority, ids


def ask(authority: LocalAuthority, method: str, path: str, **options: Any) -> httpx.Response:
    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(authority.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://authority") as http:
            return await http.request(method, path, **options)

    return anyio.run(once)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
@settings(max_examples=40)
@given(body=bodies, segment=st.none() | st.text(min_size=1, max_size=12), key=st.none() | st.text(max_size=6))
def test_no_body_and_no_path_gives_a_5xx(
    given_: tuple[LocalAuthority, dict[str, str]],
    operation: Any,
    body: bytes,
    segment: str | None,
    key: str | None,
) -> None:
    authority, ids = given_
    names = {"job": "triage-ticket", "release": "2026-11-03.1", "pack": "helpdesk"}
    names["id"] = ids.get(operation.path.split("/")[2], "")
    if segment is not None:
        names = dict.fromkeys(names, quote(segment, safe=""))
    token = authority.agent_key if operation.role == "agent" else authority.operator_key
    headers: list[tuple[bytes, bytes]] = [(b"Authorization", f"Bearer {token}".encode())]
    if key is not None:
        headers.append((b"Idempotency-Key", key.encode("utf-8", "replace").replace(b"\n", b"").replace(b"\r", b"")))
    answer = ask(authority, operation.method, operation.path.format(**names), headers=headers, content=body)
    assert answer.status_code < 500
    answer.json()


@settings(max_examples=150)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "entity_id": values,
            "evidence": st.dictionaries(
                st.sampled_from(["topic", "amount"]) | texts,
                st.fixed_dictionaries({"value": values, "source": texts}, optional={"observedAt": texts}) | values,
                max_size=3,
            ),
            "fields": values,
            "content": values,
        },
    )
)
def test_a_decision_is_made_or_refused_and_then_replays(
    given_: tuple[LocalAuthority, dict[str, str]], body: dict[str, Any]
) -> None:
    authority = given_[0]
    headers = {"Authorization": f"Bearer {authority.agent_key}"}
    answer = ask(authority, "POST", "/v0/jobs/triage-ticket/decisions", headers=headers, content=json.dumps(body))
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert authority.verify(answer.json()["executionId"])["valid"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_checked(given_: tuple[LocalAuthority, dict[str, str]], before: str, after: str) -> None:
    authority = given_[0]
    decision = authority.decide("triage-ticket", entity_id="HC-2", evidence=evidence())
    body = f"{before} guarantee {after}"
    check = authority.check_output(decision["executionId"], output="billing-team-reply", content={"body": body})
    found = [tuple(each["span"]) for each in check["findings"] if each["rule"] == "no-promises"]
    assert [body[start:end].lower() for start, end in found] == ["guarantee"] * len(found)
    assert (len(before) + 1, len(before) + 10) in found
