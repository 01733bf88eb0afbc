"""The authority over HTTP, in process: who may ask what, and the status of every answer."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from authority.asking import REPLY, evidence
from authority.conftest import Clock
from authority.packs import HELPDESK, INVOICES
from preaction.authority import LocalAuthority
from preaction.authority.keys import Role
from preaction.authority.server.operations import OPERATIONS
from preaction.wire.models import Decision, JobDescription, JobSummary, OutputCheck, Problem, Verification

GOOD = {"entity_id": "HC-1", "evidence": evidence()}


class Client:
    """Asks in process."""

    def __init__(self, authority: LocalAuthority, clock: Clock) -> None:
        self.authority = authority
        self._clock = clock
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(authority.app, raise_app_exceptions=True), base_url="http://authority"
        )

    def key(self, role: Role = "agent", pack: str = "helpdesk", jobs: list[str] | None = None) -> str:
        return self.authority._keyring.create(role, pack, jobs, self._clock())

    async def ask(self, method: str, path: str, key: str | None = "", **options: Any) -> httpx.Response:
        """An empty key is the agent's; None is none."""
        headers = dict(options.pop("headers", {}))
        if key is not None:
            headers["Authorization"] = f"Bearer {key or self.authority.agent_key}"
        answer = await self._http.request(method, path, headers=headers, **options)
        if answer.status_code >= 400:
            problem = Problem.model_validate_json(answer.content) if "line" not in answer.text else None
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem is None or problem.status == answer.status_code
        return answer

    async def operate(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.ask(method, path, self.authority.operator_key, **options)

    async def close(self) -> None:
        await self._http.aclose()


@pytest.fixture
async def client(helpdesk: LocalAuthority, clock: Clock) -> AsyncIterator[Client]:
    client = Client(helpdesk, clock)
    yield client
    await client.close()


async def decide(client: Client, **options: Any) -> Decision:
    answer = await client.ask("POST", "/v0/jobs/triage-ticket/decisions", json=GOOD, **options)
    assert answer.status_code == 200
    return Decision.model_validate_json(answer.content)


async def test_the_answers_are_those_of_the_wire(client: Client) -> None:
    jobs = (await client.ask("GET", "/v0/jobs")).json()
    assert [JobSummary.model_validate(each).job for each in jobs] == ["triage-ticket"]
    described = await client.ask("GET", "/v0/jobs/triage-ticket")
    assert JobDescription.model_validate_json(described.content).release == "2026-11-03.1"
    assert described.json()["evidenceFreshFor"] == "PT1H"
    decision = await decide(client)
    path = f"/v0/executions/{decision.execution_id}"
    check = await client.ask("POST", f"{path}/output-checks", json={"output": "billing-team-reply", "content": REPLY})
    made = OutputCheck.model_validate_json(check.content)
    include = {"description": True, "outputChecks": [made.check_id]}
    answer = await client.ask("POST", f"{path}/verify", json={"include": include})
    verification = Verification.model_validate_json(answer.content)
    assert verification.valid
    assert verification.description == described.json()
    stands = await client.ask("POST", f"/v0/output-checks/{made.check_id}/verify", json={})
    assert verification.output_checks == {made.check_id: stands.json()}
    assert answer.json() == client.authority.verify(decision.execution_id, include)
    assert answer.headers["cache-control"] == "no-store"


async def test_a_pinned_description_may_be_kept_for_good(client: Client) -> None:
    pinned = await client.ask("GET", "/v0/jobs/triage-ticket/releases/2026-11-03.1")
    assert "immutable" in pinned.headers["cache-control"]
    current = await client.ask("GET", "/v0/jobs/triage-ticket")
    assert current.headers["cache-control"] == "no-store"
    assert current.json() == pinned.json()


PATHS = [
    (each.method, each.path.format(job="triage-ticket", release="2026-11-03.1", id="exe_1", pack="helpdesk"), each.role)
    for each in OPERATIONS
]


BAD_KEYS = (
    None, "", "Bearer", "Bearer ", "Bearer nonsense", "Bearer pa_agent_0000_x", "Basic {key}", "{key}", "Bearer {key}x",
)  # fmt: skip


@pytest.mark.parametrize(("method", "path", "role"), PATHS)
async def test_without_a_good_key_there_is_nothing(client: Client, method: str, path: str, role: str) -> None:
    key = client.authority.agent_key if role == "agent" else client.authority.operator_key
    for header in BAD_KEYS:
        headers = {} if header is None else {"Authorization": header.format(key=key)}
        answer = await client.ask(method, path, None, headers=headers, content=b"{}")
        assert answer.status_code == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"
        assert key not in answer.text


@pytest.mark.parametrize(("method", "path", "role"), PATHS)
async def test_a_key_of_the_other_kind_is_forbidden(client: Client, method: str, path: str, role: str) -> None:
    other = client.authority.operator_key if role == "agent" else client.authority.agent_key
    assert (await client.ask(method, path, other, content=b"{}")).status_code == 403


async def test_a_revoked_key_opens_nothing(client: Client, clock: Clock) -> None:
    key = client.key()
    assert (await client.ask("GET", "/v0/jobs", key)).status_code == 200
    keyring = client.authority._keyring
    assert keyring.revoke(key.split("_")[2], clock())
    assert keyring.revoke(key.split("_")[2], clock())
    assert (await client.ask("GET", "/v0/jobs", key)).status_code == 401
    assert not keyring.revoke("none", clock())
    assert keyring.revoke(client.authority.agent_key.split("_")[2], clock())
    assert (await client.ask("GET", "/v0/jobs")).status_code == 401


async def test_keys_are_stored_as_hashes_only(
    opened: Callable[..., LocalAuthority], clock: Clock, tmp_path: Any
) -> None:
    authority = opened(HELPDESK, f"sqlite:///{tmp_path}/a.db")
    key = authority._keyring.create("agent", "helpdesk", None, clock())
    authority.close()
    secret = key.split("_", 3)[3].encode()
    assert all(secret not in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_key_sees_its_pack_and_jobs_only(client: Client) -> None:
    decision = await decide(client)
    check = client.authority.check_output(decision.execution_id, output="billing-team-reply", content=REPLY)
    unknown = await client.ask("POST", "/v0/executions/exe_unknown/verify", json={})
    assert unknown.status_code == 404
    for key in (client.key(pack="other"), client.key(jobs=["another-job"]), client.key(jobs=[])):
        assert (await client.ask("GET", "/v0/jobs", key)).json() == []
        for method, path, body in [
            ("POST", f"/v0/executions/{decision.execution_id}/verify", {}),
            ("POST", f"/v0/output-checks/{check['checkId']}/verify", {}),
            ("GET", "/v0/jobs/triage-ticket", None),
            ("GET", "/v0/jobs/triage-ticket/releases/2026-11-03.1", None),
            ("POST", "/v0/jobs/triage-ticket/decisions", GOOD),
            (
                "POST",
                f"/v0/executions/{decision.execution_id}/output-checks",
                {"output": "billing-team-reply", "content": REPLY},
            ),
        ]:
            answer = await client.ask(method, path, key, json=body)
            assert (answer.status_code, answer.content) == (404, unknown.content)
    own = client.key(jobs=["triage-ticket"])
    answer = await client.ask("POST", f"/v0/executions/{decision.execution_id}/verify", own, json={})
    assert answer.json()["valid"]


async def test_an_output_check_of_another_tenant_is_left_out(client: Client, clock: Clock) -> None:
    other = HELPDESK.partition("jobs:\n")[2].replace("triage-ticket", "other-job")
    client.authority.publish(HELPDESK.replace("2026-11-03.1", "2026-2") + other)
    foreign = client.authority.decide("other-job", entity_id="1", evidence=evidence())
    check = client.authority.check_output(foreign["executionId"], output="billing-team-reply", content=REPLY)
    mine = await decide(client)
    include = {"outputChecks": [check["checkId"]]}
    path = f"/v0/executions/{mine.execution_id}/verify"
    answer = await client.ask("POST", path, client.key(jobs=["triage-ticket"]), json={"include": include})
    assert answer.json()["outputChecks"] == {}
    answer = await client.ask("POST", path, json={"include": include})
    assert list(answer.json()["outputChecks"]) == [check["checkId"]]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b'{"a": 1, "a": 2}',
        b'{"include": NaN}',
        b'{"include": 1e999}',
        b'{"include": "\\ud800"}',
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"a":' * 300 + b"1" + b"}" * 300,
        b'{"unknown": 1}',
    ],
)
async def test_a_body_that_is_not_strict_json_is_refused(client: Client, body: bytes) -> None:
    decision = await decide(client)
    for path in (f"/v0/executions/{decision.execution_id}/verify", "/v0/jobs/triage-ticket/decisions"):
        answer = await client.ask("POST", path, content=body)
        assert answer.status_code == 422
        assert answer.json()["errors"]


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_that_is_too_large_is_413(client: Client, chunked: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65536

    content: Any = chunks() if chunked else b" " * (600 * 1024)
    answer = await client.ask("POST", "/v0/jobs/triage-ticket/decisions", content=content)
    assert answer.status_code == 413
    answer = await client.ask("POST", "/v0/executions/exe_1/verify", content=b" " * (17 * 1024))
    assert answer.status_code == 413
    answer = await client.operate("POST", "/v0/packs", content=b" " * (513 * 1024))
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/v0/executions/a%2Fb/verify",
        "/v0/executions/..%2F..%2Fhealthz/verify",
        "/v0/executions//verify",
        "/v0/executions/%00/verify",
        "/v0/executions/%FF/verify",
        "/v0/executions/a%3Fb/verify",
    ],
)
async def test_an_id_reaches_no_other_path(client: Client, path: str) -> None:
    unknown = await client.ask("POST", "/v0/executions/exe_unknown/verify", json={})
    answer = await client.ask("POST", path, json={})
    assert (answer.status_code, answer.content) == (404, unknown.content)


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
async def test_an_encoded_slash_does_not_cut_the_path(client: Client, slash: str) -> None:
    pinned = "/v0/jobs/triage-ticket/releases/2026-11-03.1"
    assert (await client.ask("GET", pinned)).status_code == 200
    unknown = await client.ask("GET", "/v0/jobs/unknown")
    for path in (f"/v0/jobs/triage-ticket{slash}releases{slash}2026-11-03.1", f"/v0/jobs/triage-ticket{slash}"):
        answer = await client.ask("GET", path)
        assert (answer.status_code, answer.content) == (404, unknown.content)


async def test_a_path_that_is_asked_another_way_is_405(client: Client) -> None:
    answer = await client.ask("GET", "/v0/executions/exe_1/verify")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_an_idempotency_key_gives_the_first_answer_again(client: Client) -> None:
    headers = {"Idempotency-Key": "order-1"}
    first = await decide(client, headers=headers)
    assert await decide(client, headers=headers) == first
    path = "/v0/jobs/triage-ticket/decisions"
    other = await client.ask("POST", path, json={**GOOD, "entity_id": "HC-2"}, headers=headers)
    assert other.status_code == 422
    theirs = await decide(client, key=client.key(), headers=headers)
    assert theirs.execution_id != first.execution_id
    assert (await client.ask("POST", path, json=GOOD, headers={"Idempotency-Key": "a b"})).status_code == 422
    huge = {**GOOD, "evidence": evidence(amount=2**60)}
    assert (await client.ask("POST", path, json=huge, headers=headers)).status_code == 422


async def test_what_needs_no_key_answers_without_one(client: Client) -> None:
    assert (await client.ask("GET", "/healthz", None)).json() == {"status": "ok"}
    jwks = (await client.ask("GET", "/.well-known/jwks.json", None)).json()
    assert [set(each) for each in jwks["keys"]] == [{"kty", "crv", "x", "kid", "alg", "use"}]
    assert (await client.ask("GET", "/openapi.json", None)).json()["openapi"] == "3.1.0"


async def test_an_error_of_ours_is_a_plain_500_and_a_log_record_without_a_trace(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_args: object) -> None:
        raise LookupError("s3cret")

    decision = await decide(client)
    monkeypatch.setattr("preaction.authority.ledger.executions.replay", fails)
    with caplog.at_level(logging.DEBUG, "preaction"):
        answer = await client.ask("POST", f"/v0/executions/{decision.execution_id}/verify", json={})
    assert answer.status_code == 500
    assert "s3cret" not in answer.text + caplog.text
    assert [each.getMessage() for each in caplog.records] == ["an answer failed: LookupError"]
    assert caplog.records[0].exc_info is None


async def test_a_database_that_fails_is_a_503(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    decision = await decide(client)
    with client.authority._storage.writing() as connection:
        connection.exec_driver_sql("DROP TABLE executions")
    for path in (f"/v0/executions/{decision.execution_id}/verify", "/v0/jobs/triage-ticket/decisions"):
        body = GOOD if "jobs" in path else {}
        assert (await client.ask("POST", path, json=body)).status_code == 503
    assert {each.getMessage() for each in caplog.records} == {"the database failed: OperationalError"}


# ---------------------------------------------------------------- operators


async def test_publishing_is_201_then_200_then_409(client: Client) -> None:
    text = HELPDESK.replace("2026-11-03.1", "2026-12-01")
    first = await client.operate("POST", "/v0/packs", content=text)
    assert first.status_code == 201
    assert first.json()["digest"].startswith("sha-256:")
    again = await client.operate("POST", "/v0/packs", content="# the same\n" + text)
    assert (again.status_code, again.json()) == (200, first.json())
    other = await client.operate("POST", "/v0/packs", content=text.replace("1200", "1300"))
    assert other.status_code == 409
    releases = (await client.operate("GET", "/v0/packs/helpdesk/releases")).json()
    assert [each["release"] for each in releases] == ["2026-12-01", "2026-11-03.1"]
    assert (await client.ask("GET", "/v0/jobs")).json()[0]["release"] == "2026-12-01"


async def test_a_wrong_pack_is_422_with_lines_and_columns(client: Client) -> None:
    answer = await client.operate("POST", "/v0/packs", content=HELPDESK.replace("100.0", "hundred"))
    assert answer.status_code == 422
    assert [(each["line"], each["column"]) for each in answer.json()["errors"]] == [(13, 58), (17, 59)]
    for content in (b"\xff", b"", b"a: [", "a: \ud800".encode("utf-8", "surrogatepass")):
        assert (await client.operate("POST", "/v0/packs", content=content)).status_code == 422


async def test_a_pack_of_another_tenant_can_be_neither_published_nor_listed(client: Client) -> None:
    assert (await client.operate("POST", "/v0/packs", content=INVOICES)).status_code == 404
    assert (await client.operate("GET", "/v0/packs/ledger/releases")).status_code == 404
    some = client.key("operator", jobs=["triage-ticket"])
    assert (await client.ask("POST", "/v0/packs", some, content=HELPDESK)).status_code == 403


async def test_revoking_is_seen_by_the_next_verify(client: Client) -> None:
    decision = await decide(client)
    path = f"/v0/executions/{decision.execution_id}"
    foreign = client.key("operator", jobs=["another"])
    assert (await client.ask("POST", f"{path}/revoke", foreign, json={})).status_code == 404
    assert (await client.operate("POST", f"{path}/revoke", json={"why": "x"})).status_code == 422
    answer = await client.operate("POST", f"{path}/revoke", json={})
    assert answer.json()["revoked"] is True
    assert (await client.ask("POST", f"{path}/verify", json={})).json()["problems"] == ["revoked"]
    content = {"output": "billing-team-reply", "content": REPLY}
    assert (await client.ask("POST", f"{path}/output-checks", json=content)).status_code == 409


async def test_executions_are_listed_newest_first_page_by_page(client: Client, clock: Clock) -> None:
    ids = []
    for number in range(52):
        ids.append(client.authority.decide("triage-ticket", entity_id=f"HC-{number % 2}")["executionId"])
        clock.forward(seconds=1.5)
    page = (await client.operate("GET", "/v0/executions")).json()
    assert [each["executionId"] for each in page["items"]] == ids[:1:-1]
    rest = (await client.operate("GET", "/v0/executions", params={"cursor": page["next"]})).json()
    assert [each["executionId"] for each in rest["items"]] == ids[1::-1]
    assert rest["next"] is None

    async def listed(**params: str) -> int:
        return len((await client.operate("GET", "/v0/executions", params=params)).json()["items"])

    assert await listed(case="HC-1", job="triage-ticket") == 26
    assert await listed(job="other") == 0
    assert await listed(since="2026-11-30T10:01:15+01:00") == 2
    assert await listed(since="2026-11-30T09:01:15.000001Z") == 1
    some = client.key("operator", jobs=["another"])
    assert (await client.ask("GET", "/v0/executions", some)).json() == {"items": [], "next": None}


@pytest.mark.parametrize(
    "query",
    ["since=yesterday", "since=2026-11-30T09:00:00", "cursor=x", "cursor=" + "9" * 30, "limit=5", "job=a&job=b"],
)
async def test_a_search_that_makes_no_sense_is_refused(client: Client, query: str) -> None:
    assert (await client.operate("GET", f"/v0/executions?{query}")).status_code == 422


async def test_an_altered_execution_is_not_listed_but_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    await decide(client)
    with client.authority._storage.writing() as connection:
        connection.exec_driver_sql("UPDATE executions SET status = 'strange'")
    assert (await client.operate("GET", "/v0/executions")).json()["items"] == []
    assert "was altered" in caplog.text


# ---------------------------------------------------------------- the document of the contract


async def test_the_openapi_document_names_every_operation_and_resolves(client: Client) -> None:
    document = (await client.ask("GET", "/openapi.json", None)).json()
    named = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert named == {each.name for each in OPERATIONS}
    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas
    decide_ = document["paths"]["/v0/jobs/{job}/decisions"]["post"]
    assert set(decide_["responses"]) == {"200", "401", "403", "404", "409", "413", "422", "429"}
    assert {each["name"] for each in decide_["parameters"]} == {"job", "Idempotency-Key"}
    assert decide_["security"] == [{"agent": []}]
    assert "evidenceFreshUntil" in json.dumps(schemas)


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [each for value in part.values() for each in references(value)]
    return [each for value in part for each in references(value)] if isinstance(part, list) else []
