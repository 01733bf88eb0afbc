"""A clock that is set back stops deciding, and a little difference between servers doesn't."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from authority.asking import evidence, refusal
from authority.conftest import Clock
from preaction.authority import LocalAuthority
from preaction.authority.deciding.clock import SKEW
from preaction.authority.storage.storage import EXECUTIONS


@pytest.fixture(params=["memory", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def decide(authority: LocalAuthority, entity_id: str) -> dict[str, Any]:
    return authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence())


def count(authority: LocalAuthority) -> int:
    with authority._storage.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(EXECUTIONS)).scalar_one()


def test_a_step_as_small_as_servers_differ_is_none(
    helpdesk: LocalAuthority, billing: dict[str, Any], clock: Clock
) -> None:
    clock.now -= SKEW
    decision = decide(helpdesk, "HC-2")
    assert decision["decidedAt"] == billing["decidedAt"]
    assert helpdesk.verify(decision["executionId"])["valid"]


def test_a_larger_step_back_decides_nothing_until_the_clock_is_right(
    helpdesk: LocalAuthority, billing: dict[str, Any], clock: Clock
) -> None:
    clock.now -= SKEW + timedelta(microseconds=1)
    assert refusal(decide, helpdesk, "HC-2")[0] == 503
    assert count(helpdesk) == 1
    assert helpdesk.verify(billing["executionId"])["valid"]
    clock.forward(seconds=6)
    assert decide(helpdesk, "HC-2")["status"] == "decided"


def test_a_decision_of_a_clock_that_was_ahead_can_be_revoked(helpdesk: LocalAuthority, clock: Clock) -> None:
    clock.forward(days=400)
    ahead = decide(helpdesk, "HC-1")
    clock.forward(days=-400)
    assert refusal(decide, helpdesk, "HC-2")[0] == 503
    helpdesk.revoke(ahead["executionId"])
    assert decide(helpdesk, "HC-2")["status"] == "decided"


@pytest.mark.parametrize("time", ["", "yesterday", "9999-12-31T23:59:59.999999", "2026-11-30T09:00:00"])
def test_a_time_that_was_altered_is_none(helpdesk: LocalAuthority, billing: dict[str, Any], time: str) -> None:
    with helpdesk._storage.writing() as connection:
        connection.execute(EXECUTIONS.update().values(decided_at=time))
    assert decide(helpdesk, "HC-2")["status"] == "decided"
    assert helpdesk.verify(billing["executionId"])["problems"] == ["record_altered"]
