"""Requests that are too many: 429 for the key that sends them, and a denial for the gate's caller."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from authority.asking import evidence
from authority.packs import HELPDESK
from preaction import Felspar, create_action_gate
from preaction.authority import LocalAuthority
from preaction.authority.refusal import Refused
from preaction.authority.server.limits import Limits, Rate, read_rate
from preaction.errors import AuthorityError, ConfigurationError
from preaction.wire.models import Problem


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(limits: Limits, key: str = "k") -> int | None:
    """After how many seconds there is room again; None when there is room."""
    try:
        limits.take(key)
    except Refused as refusal:
        return refusal.retry_after_s if refusal.status == 429 else -1
    return None


def test_a_bucket_empties_and_fills_again() -> None:
    clock = Seconds()
    limits = Limits(Rate(per_second=0.5, burst=2), clock)
    assert [refused(limits) for _ in range(4)] == [None, None, 2, 2]
    clock.now += 1.9
    assert refused(limits) == 1
    clock.now += 0.1
    assert [refused(limits) for _ in range(2)] == [None, 2]
    clock.now += 3600
    assert [refused(limits) for _ in range(3)] == [None, None, 2]


def test_each_key_has_its_own_and_a_clock_that_goes_back_gives_none() -> None:
    clock = Seconds()
    limits = Limits(Rate(per_second=1, burst=1), clock)
    assert [refused(limits, key) for key in ("a", "a", "b", "b")] == [None, 1, None, 1]
    clock.now -= 50
    assert refused(limits, "a") == 1
    clock.now += 1
    assert refused(limits, "a") is None


def test_no_rate_is_no_limit() -> None:
    limits = Limits(None)
    assert all(refused(limits) is None for _ in range(1000))


def test_of_many_at_once_exactly_as_many_go_as_may() -> None:
    limits = Limits(Rate(per_second=1e-6, burst=20), Seconds())
    start = threading.Barrier(8)

    def work(_number: int) -> int:
        start.wait()
        return sum(refused(limits) is None for _ in range(10))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 20


@pytest.mark.parametrize(
    ("text", "share", "rate"),
    [
        ("50/s", 1, Rate(50, 50)),
        ("50/s", 2, Rate(25, 25)),
        ("600/min", 1, Rate(10, 10)),
        ("36/h", 1, Rate(0.01, 1)),
        ("1/s", 4, Rate(0.25, 1)),
    ],
)
def test_a_rate_is_read(text: str, share: int, rate: Rate) -> None:
    assert read_rate(text, share=share) == rate


@pytest.mark.parametrize("text", ["", "50", "0/s", "-1/s", "1.5/s", "50/d", "50 /s", "٥/s", "99999999/s", "50/s "])
def test_what_is_no_rate_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="such as 50/s"):
        LocalAuthority.from_pack(HELPDESK, rate=text)


def test_one_too_many_is_a_429_problem_for_that_key_alone() -> None:
    with ExitStack() as opened:
        authority = opened.enter_context(LocalAuthority.from_pack(HELPDESK, rate="2/h"))
        served = opened.enter_context(authority.serve())
        with httpx.Client(base_url=served.origin, trust_env=False, timeout=30) as http:

            def ask(key: str, path: str = "/v0/jobs") -> httpx.Response:
                return http.get(path, headers={"Authorization": f"Bearer {key}"})

            assert ask(authority.agent_key).status_code == 200
            answer = ask(authority.agent_key)
            assert answer.status_code == 429
            assert 0 < int(answer.headers["retry-after"]) <= 1800
            assert answer.headers["content-type"] == "application/problem+json"
            assert Problem.model_validate_json(answer.content).status == 429
            assert authority.agent_key not in answer.text
            assert http.post("/mcp", headers={"Authorization": f"Bearer {authority.agent_key}"}).status_code == 429
            # Whoever has no key, or another's, isn't told of it, and spends nothing of it.
            assert ask(authority.agent_key[:-1] + "x").status_code == 401
            assert ask(authority.operator_key, "/v0/executions").status_code == 200
            assert http.get("/healthz").status_code == 200


def test_the_client_has_no_answer_and_the_gate_denies() -> None:
    rule = {"outcomes": ["billing-question"], "entity": {"field": "ticket"}, "fields": ["ticket"]}
    with LocalAuthority.from_pack(HELPDESK, rate="2/h") as authority, authority.serve() as served:
        decision = authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
        felspar = Felspar(served.origin, authority.agent_key)
        gate = create_action_gate(
            job="triage-ticket", decision_tool="decide", tools={"note": rule}, verify=felspar, describe=felspar
        )
        gate.record_result("s", "decide", {}, decision)
        first = gate.check("s", "note", {"ticket": "HC-1"})
        assert first.allow, first.reason
        spent = gate.check("s", "note", {"ticket": "HC-1"})
        assert (spent.allow, spent.code) == (False, "verify_failed")
        with pytest.raises(AuthorityError) as caught:
            felspar.verify(decision["executionId"])
        assert (caught.value.kind, caught.value.status) == ("status", 429)
        felspar.close()
