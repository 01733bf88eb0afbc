"""A soak, scaled down: after thousands of checks, in hundreds of sessions, the process holds what it held before.

The authority is a real `preaction serve` of its own, asked over HTTP; the gate has all that keeps something: a store,
an audit trail in a file, telemetry. `PREACTION_SOAK_SECONDS` says how long each store's soak goes on at least.
"""

import asyncio
import functools
import gc
import itertools
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from authority.asking import REPLY, evidence
from authority.packs import HELPDESK
from cli.test_commands import served
from preaction import (
    ActionGate,
    create_action_gate,
    felspar_job_describer,
    felspar_output_check_verifier,
    felspar_verdict_reporter,
    felspar_verifier,
)
from preaction.audit.jsonl_audit import JsonlAudit
from preaction.audit.trail import AuditTrail
from preaction.rest import Felspar
from preaction.stores import Store
from preaction.stores.memory import MemoryStore
from preaction.stores.redis import RedisStore
from preaction.stores.sqlite import SQLiteStore
from preaction.telemetry import Telemetry

SESSIONS = 50  # in one round; each has a decision, an output check and four checks
WARM_UP, ROUNDS = 4, 6
SECONDS = float(os.environ.get("PREACTION_SOAK_SECONDS", "0"))
BYTES_PER_CHECK = 32
"""What a check may leave in memory. A text, list or dict that is left has more."""
RESIDENT_BYTES = 16 * 2**20
"""By how much the process may grow in all, however long it goes on: what isn't Python's is seen only here."""


@dataclass
class Held:
    """What a process holds at a moment."""

    traced: int
    resident: int
    files: int
    connections: int
    threads: int

    @classmethod
    def now(cls) -> "Held":
        forget_what_is_bounded()
        gc.collect()
        this = psutil.Process()
        traced, resident = tracemalloc.get_traced_memory()[0], this.memory_info().rss
        return cls(traced, resident, this.num_fds(), len(this.net_connections("tcp")), threading.active_count())


def forget_what_is_bounded() -> None:
    """Empty the package's caches that have a bound: until they are full they grow, and nothing else may."""
    for cache in [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]:
        if str(cache.__module__).startswith("preaction") and cache.cache_info().maxsize is not None:
            cache.cache_clear()


def held_by(server: psutil.Process) -> tuple[int, int]:
    """Files, sockets among them, and threads of the authority's process."""
    return server.num_fds(), server.num_threads()


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[tuple[psutil.Process, Felspar]]:
    pack = tmp_path / "pack.yaml"
    pack.write_text(HELPDESK, "utf-8")
    with (
        served("--pack", str(pack), "--dev-keys", "--log", "off") as (process, ready),
        Felspar(ready["origin"], ready["agentKey"]) as felspar,
    ):
        yield psutil.Process(process.pid), felspar


def gate_over(felspar: Felspar, store: Any, trail: Path, reporter: Any) -> ActionGate:
    tracing, metering = TracerProvider(shutdown_on_exit=False), MeterProvider([InMemoryMetricReader()])
    return create_action_gate(
        job="triage-ticket",
        decision_tool="decide",
        output_check_tool="check",
        tools={
            "reply": {
                "writes": "billing-team-reply",
                "entity": {"field": "ticket"},
                "fields": ["ticket", "body"],
                "output_check": {"fields": ["body"]},
            }
        },
        verify=felspar_verifier(felspar),
        describe=felspar_job_describer(felspar),
        verify_output_check=felspar_output_check_verifier(felspar),
        store=store,
        audit=AuditTrail(JsonlAudit(trail)),
        on_verdict=reporter,
        telemetry=Telemetry(tracer_provider=tracing, meter_provider=metering),
        deadline_s=30,
    )


def one_session(felspar: Felspar, gate: ActionGate, number: int) -> None:
    session, ticket = f"chat-{number}", f"HC-{number}"
    decision = felspar.decide("triage-ticket", entity_id=ticket, evidence=evidence())
    gate.record_result(session, "decide", {}, decision)
    check = felspar.check_output(decision["executionId"], output="billing-team-reply", content=REPLY)
    gate.record_result(session, "check", {}, check)
    call = {"ticket": ticket, **REPLY}
    calls = [call, {**call, "body": "Another text"}, {**call, "ticket": "HC-other"}, {**call, "extra": "x" * 1000}]

    async def in_a_loop() -> list[str]:
        return [(await gate.acheck(session, "reply", each)).code for each in calls]

    codes = asyncio.run(in_a_loop()) if number % 2 else [gate.check(session, "reply", each).code for each in calls]
    assert codes == ["allowed", "output_check_missing", "case_not_decided", "field_not_allowed"], codes


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    match request.param:
        case "memory":
            yield MemoryStore(max_sessions=SESSIONS // 2)
        case "sqlite":
            yield SQLiteStore(tmp_path / "sessions.db")
        case _:
            shared = RedisStore(request.getfixturevalue("own_redis").url, timeout_s=30)
            yield shared
            shared.close()


@pytest.mark.long
def test_thousands_of_checks_leave_nothing_behind(
    store: Store, authority: tuple[psutil.Process, Felspar], tmp_path: Path
) -> None:
    server, felspar = authority
    numbers = itertools.count()
    with felspar_verdict_reporter(felspar, job="triage-ticket", max_waiting=100_000) as reporter:
        gate = gate_over(felspar, store, tmp_path / "trail.jsonl", reporter)

        def rounds(least: int, seconds: float = 0) -> int:
            """How many there were: so many at least, and for so long."""
            done, until = 0, time.monotonic() + seconds
            while done < least or time.monotonic() < until:
                for number in itertools.islice(numbers, SESSIONS):
                    one_session(felspar, gate, number)
                assert reporter.flush(120)
                done += 1
            return done

        tracemalloc.start()
        try:
            rounds(WARM_UP)
            before, server_before = Held.now(), held_by(server)
            checks = 4 * SESSIONS * rounds(ROUNDS, SECONDS)
            after, server_after = Held.now(), held_by(server)
        finally:
            tracemalloc.stop()
        assert (reporter.dropped, reporter.failed) == (0, 0)
    print(
        f"{checks} checks over {type(store).__name__}: {before} → {after}; the server: {server_before} → {server_after}"
    )
    assert after.traced - before.traced < BYTES_PER_CHECK * checks
    assert after.resident - before.resident < RESIDENT_BYTES
    assert after.files <= before.files
    assert after.connections <= before.connections
    # A pool may start one more thread, and that have a file; a leak for each round would be six, for each session 300
    assert after.threads <= before.threads + 3
    assert server_after[0] <= server_before[0] + 2
    assert server_after[1] <= server_before[1] + 3
