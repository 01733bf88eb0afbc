"""What a shared store holds, byte by byte; for how long; and what a model is told when it is away.

Read are the bytes themselves: SQLite's files, and the append-only file in which Redis writes all that it is told.
"""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from authority.asking import evidence
from authority.packs import HELPDESK
from kit import REPLY, SESSION, decided, helpdesk, reply
from pipeline.office import LARGE, WRITE, Office, raising
from preaction import (
    create_action_gate,
    denial_text,
    felspar_job_describer,
    felspar_output_check_verifier,
    felspar_verifier,
)
from preaction.authority import LocalAuthority
from preaction.preflight import StoreLock
from preaction.stores import Store, Swapped
from preaction.stores.memory import MemoryStore
from preaction.stores.redis import RedisStore
from preaction.stores.sqlite import SQLiteStore
from redis_server import PASSWORD, RedisServer

TEXT = "Kingfisher, your answer follows.\nThe billing team\n"
VALUE = "heron-in-an-argument"
AMOUNT = 31.415927
DENIAL = "Denied, nothing was done: the gate itself failed on this call; hand the case to a person."


@dataclass(frozen=True, slots=True)
class Kept:
    """A store, all bytes that it has written, and how to take it away."""

    store: Store
    folder: Path
    take_away: Callable[[], object]

    def holds(self, *words: str) -> list[str]:
        """Which of the words are somewhere in its files."""
        files = b"".join(path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file())
        assert len(files) > 500
        return [word for word in words if word.encode() in files]


@pytest.fixture(params=["sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "sqlite":
        file = SQLiteStore(tmp_path / "sessions.db")
        yield Kept(file, tmp_path, lambda: damage(file, tmp_path))
        file.close()
        return
    server: RedisServer = request.getfixturevalue("own_redis")  # its folder is the same one
    store = RedisStore(server.url, timeout_s=30)
    yield Kept(store, tmp_path, server.stop)
    store.close()


def damage(store: SQLiteStore, folder: Path) -> None:
    store.close()
    for path in folder.iterdir():
        path.write_bytes(b"\x00not a database" * 1000)


# What is stored -------------------------------------------------------------------------------------------------------


def test_of_a_session_ids_and_digests_are_stored_and_no_text_no_value_and_no_key(kept: Kept) -> None:
    rule = {
        "writes": "billing-team-reply",
        "entity": {"field": "ticket"},
        "fields": ["ticket", "body", "mark"],
        "unchecked": ["mark"],
        "output_check": {"fields": ["body"]},
        "once": "decision",
    }
    with LocalAuthority.from_pack(HELPDESK) as desk:
        gate = create_action_gate(
            job="triage-ticket",
            decision_tool="decide",
            output_check_tool="check",
            tools={"reply": rule},
            verify=felspar_verifier(desk),
            describe=felspar_job_describer(desk),
            verify_output_check=felspar_output_check_verifier(desk),
            store=kept.store,
        )
        decision = desk.decide("triage-ticket", entity_id="HC-1201", evidence=evidence(amount=AMOUNT))
        gate.record_result("chat-7", "decide", {"mark": VALUE}, decision)
        check = desk.check_output(decision["executionId"], output="billing-team-reply", content={"body": TEXT})
        gate.record_result("chat-7", "check", {"content": TEXT}, {**check, "text": TEXT})
        call = {"ticket": "HC-1201", "body": TEXT, "mark": VALUE}
        calls = [{**call, "body": f"{TEXT}!"}, {**call, "more": VALUE}, call, call]
        codes = [gate.check("chat-7", "reply", each).code for each in calls]
        assert codes == ["output_check_missing", "field_not_allowed", "allowed", "already_used"]
    ids = ["chat-7", "HC-1201", decision["executionId"], check["checkId"], check["contentDigest"]]
    assert kept.holds(*ids) == ids
    texts = [*TEXT.splitlines(), "Kingfisher", VALUE, str(AMOUNT), decision["nextStep"]]
    secrets = [*decision["receipt"].split("."), desk.agent_key, PASSWORD]
    assert kept.holds(*texts, *secrets) == []


def test_a_pipeline_stores_who_confirmed_and_what_the_model_was_shown_and_nothing_else_of_a_call(kept: Kept) -> None:
    given = {"reason": VALUE}
    tools: dict[str, dict[str, Any]] = {"approve_invoice": {"output_schema": {}}}
    office = Office(store=kept.store, tools=tools)
    assert office.write({**WRITE, **given}).code == "executed"
    asked = office.write({**LARGE, **given})
    assert asked.confirmation is not None
    office.pipeline.confirmations.approve(asked.confirmation.id, by="u_8")
    assert kept.holds("u_8") == ["u_8"], "who confirmed it"
    assert kept.holds('"result": {"id": "inv_481", "status": "approved"}'), "what the model was shown"
    assert kept.holds(VALUE, "t_1", "u_7", "req_1", "run_1", "Acme", "approve_invoice", "call_1") == []
    tools["approve_invoice"]["summary"] = None
    assert Office(store=kept.store, tools=tools).write({**LARGE, **given}).code == "needs_confirmation"
    assert kept.holds("approved: 9000", VALUE) == [], "what a person is shown: the summary, or all arguments"


def test_a_lock_stores_a_digest_of_the_action_s_key(kept: Kept) -> None:
    lock = StoreLock(kept.store)
    taken = lock.take(f"transfer/{VALUE}")
    assert taken is not None
    assert kept.holds(taken, VALUE) == [taken]


# For how long ---------------------------------------------------------------------------------------------------------


class Noted(MemoryStore):
    """A store that notes for how long it is asked to keep what, by the beginning of the name."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, set[timedelta]] = {}

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Any:
        self.times.setdefault("use", set()).add(keep)
        return super().claim(name, keep, take=take)

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        kind = name.rpartition("/")[0] + (f" {json.loads(new).get('state')}" if new and new[0] == "{" else "")
        if new is not None:
            self.times.setdefault(kind, set()).add(keep)
        return super().swap(name, old, new, keep)


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
KEPT = {
    "use": ("a use of `once`", "24 hours and 10 minutes", DAY + timedelta(minutes=10)),
    "pipeline/act done": ("an act of a pipeline that is done", "7 days", 7 * DAY),
    "pipeline/act begun": ("one that was begun", "10 years", 3650 * DAY),
    "pipeline/act unknown": ("one that was begun", "10 years", 3650 * DAY),
    "pipeline/act reserved": ("one that is about to begin", "1 hour and 2 minutes", HOUR + timedelta(minutes=2)),
    "pipeline/confirmation waiting": ("a confirmation", "1 day and 15 minutes", DAY + timedelta(minutes=15)),
    "pipeline/confirmation given": ("a confirmation", "1 day and 15 minutes", DAY + timedelta(minutes=15)),
    "pipeline/confirmation used": ("a confirmation", "1 day and 15 minutes", DAY + timedelta(minutes=15)),
    "pipeline/confirm-for": ("a confirmation", "1 day and 15 minutes", DAY + timedelta(minutes=15)),
    "pipeline/calls": ("counts of a run", "1 day", DAY),
    "pipeline/repairs": ("counts of a run", "1 day", DAY),
    "preflight/lock": ("a lock of a preflight", "10 minutes", timedelta(minutes=10)),
}
"""What a name begins with, and the state in its text → its row in the docs, the time there, and as it is asked for."""


def test_claims_and_texts_are_kept_for_as_long_as_the_docs_say(repository: Path) -> None:
    store = Noted()
    gate, authority = helpdesk(store=store, rule={"once": "decision"})
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).allow
    office = Office(store=store)
    assert office.write().code == "executed"
    asked = office.write(LARGE)
    assert asked.confirmation is not None
    office.pipeline.confirmations.approve(asked.confirmation.id, by="u_8")
    assert office.write(LARGE).code == "executed"
    assert office.write("{").code == "invalid_json"
    lost = Office(store=store, tools={"approve_invoice": {"run": raising(OSError())}})
    assert lost.write(request_id="req_2").code == "outcome_unknown"
    StoreLock(store).take("transfer")
    assert store.times == {kind: {time} for kind, (_, _, time) in KEPT.items()}
    page = (repository / "docs/operations.md").read_text("utf-8")
    for row, words, _ in KEPT.values():
        assert [line for line in page.splitlines() if line.startswith(f"| {row}") and f"| {words}" in line], row


def test_an_idle_session_goes_after_the_same_time_from_every_store() -> None:
    given = [signature(store).parameters["idle"].default for store in (MemoryStore, SQLiteStore, RedisStore)]
    assert given == [timedelta(hours=48)] * 3


def test_what_was_removed_may_still_stand_in_the_files(kept: Kept) -> None:
    assert kept.store.swap("n", None, VALUE, HOUR).done
    assert kept.store.swap("n", VALUE, None, HOUR).done
    assert kept.store.look("n") is None
    assert kept.holds(VALUE) == [VALUE]


# Away -----------------------------------------------------------------------------------------------------------------


def test_a_store_that_is_away_denies_in_words_that_tell_nothing_of_it(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    gate, authority = helpdesk(store=kept.store)
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).allow
    kept.take_away()
    verdict = gate.check(SESSION, REPLY, reply())
    assert (verdict.code, denial_text(verdict)) == ("gate_error", DENIAL)
    (record,) = [vars(each) for each in caplog.records if each.levelno == logging.ERROR]
    assert (record["code"], record["tool"]) == ("gate_error", REPLY)
    assert [word for word in (str(kept.folder), PASSWORD, "127.0.0.1") if word in caplog.text] == []
