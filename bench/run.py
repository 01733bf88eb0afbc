"""What the gate costs, as ratios measured side by side in one run: `make bench`.

Machines are noisy, so nothing here is a time: each figure is the median of many pairs, one of the thing measured and
one of what it is compared with, taken in turn.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from bench_audit import audit
from bench_pipeline import pipeline
from bench_stores import stores

from preaction import (
    Felspar,
    create_action_gate,
    felspar_job_describer,
    felspar_output_check_verifier,
    felspar_verifier,
)
from preaction._core.facts import Ask
from preaction._core.procedure import judge
from preaction._core.trail import Trail
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority

HERE = Path(__file__).parent
BODY = (
    "Hello, and thank you for writing to us about your invoice. We looked at it and found that the amount was charged "
    "twice by mistake. The second charge has been cancelled today, and you will see it on your account within three "
    "working days. If anything about this is unclear, please answer to this message and we will get back to you. "
    "The billing team"
)
CALL = {"ticketId": "HC-1201", "body": BODY}
TOOL = "helpdesk__reply"
RULE = {
    "writes": "billing-team-reply",
    "entity": {"field": "ticketId"},
    "fields": ["ticketId", "body"],
    "output_check": {"fields": ["body"]},
}
clock = time.perf_counter


def ratio(one: Callable[[], object], other: Callable[[], object], pairs: int, times: int = 1) -> float:
    """The median over `pairs` of how long `one` takes as a multiple of `other`, each run `times` times."""
    found = []
    for _ in range(pairs):
        start = clock()
        for _ in range(times):
            other()
        between = clock()
        for _ in range(times):
            one()
        found.append((clock() - between) / (between - start))
    return statistics.median(found)


async def aratio(one: Callable[[], Awaitable[object]], other: Callable[[], object], pairs: int) -> float:
    """As `ratio`, for something to await."""
    found = []
    for _ in range(pairs):
        start = clock()
        other()
        between = clock()
        await one()
        found.append((clock() - between) / (between - start))
    return statistics.median(found)


def show(what: str, reached: float, aim: str) -> None:
    """One line of the report."""
    print(f"  {what:<58} {reached:7.2f}   {aim}", flush=True)


# Local work -----------------------------------------------------------------------------------------------------------


def local(pairs: int) -> None:
    """The verdict without driver and authority, against one JSON round trip of the call."""
    print(f"\nLocal work, in R = json.loads(json.dumps(args)) of a call of {len(json.dumps(CALL))} bytes")

    def r() -> object:
        return json.loads(json.dumps(CALL))

    for decisions in (1, 100, 10_000):
        authority = FakeAuthority()
        gate = create_action_gate(
            job=authority.job,
            tools={TOOL: RULE},
            verify=authority,
            describe=authority,
            verify_output_check=authority,
            clock=authority.clock,
        )
        for number in range(1, decisions):
            gate.decisions.record("s", f"T-{number}", authority.decide(f"T-{number}"))
        decision = authority.decide("HC-1201")
        gate.decisions.record("s", "HC-1201", decision)
        gate.output_checks.record("s", authority.check_output(decision, {"body": BODY}))
        assert gate.check("s", TOOL, CALL).allow
        answers = {ask: authority.good_answer(ask) for ask in authority.asked}
        answers.update(gate._facts._descriptions)
        sessions = gate._sessions

        def verdict() -> None:
            procedure = judge("s", TOOL, CALL, gate._book, Trail(), take=True)  # noqa: B023
            batch = next(procedure)
            try:
                while True:
                    batch = procedure.send(
                        [answers[ask] if isinstance(ask, Ask) else sessions.answer("s", ask) for ask in batch]  # noqa: B023
                    )
            except StopIteration:
                return

        show(f"a verdict, {decisions:,} decisions in the session", ratio(verdict, r, pairs, 20), "aim ≤ 8, flat")
        if decisions == 1:
            wrong = {**CALL, "cc": "x"}
            authority.asked.clear()
            denied = ratio(lambda: gate.check("s", TOOL, wrong), r, pairs, 20)  # noqa: B023
            assert authority.asked == []
            show("a denial by fields (no request)", denied, "aim ≤ 2.5")


# Over HTTP ------------------------------------------------------------------------------------------------------------


@contextmanager
def served(delay_ms: int, kind: str) -> Iterator[dict[str, str]]:
    """An authority in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, HERE / "authority.py", str(delay_ms), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.communicate()


def over_http(pairs: int) -> None:
    """A whole check over loopback HTTP, against one bare warm `httpx` POST to the same authority."""
    for delay_ms in (20, 0):
        for kind in ("include", "plain"):
            with served(delay_ms, kind) as at:
                answers = "one request for all" if kind == "include" else "separate requests"
                print(f"\nOver HTTP, {delay_ms} ms added to each answer, {answers}; in bare warm httpx POSTs")
                _over_http(at, delay_ms, kind, pairs if delay_ms == 0 else max(20, pairs // 6))


def _over_http(at: dict[str, str], delay_ms: int, kind: str, pairs: int) -> None:
    felspar = Felspar(at["origin"], at["agentKey"])

    def new_gate(client: Felspar):
        return create_action_gate(
            job="triage-ticket",
            tools={TOOL: RULE},
            verify=felspar_verifier(client),
            describe=felspar_job_describer(client),
            verify_output_check=felspar_output_check_verifier(client),
            store=store,
        )

    store = MemoryStore()
    gate = new_gate(felspar)
    decision = felspar.decide(
        "triage-ticket", entity_id="HC-1201", evidence={"topic": {"value": "billing", "source": "human"}}
    )
    gate.decisions.record("s", "HC-1201", decision)
    gate.output_checks.record(
        "s", felspar.check_output(decision["executionId"], output="billing-team-reply", content={"body": BODY})
    )
    assert gate.check("s", TOOL, CALL).allow
    assert asyncio.run(gate.acheck("s", TOOL, CALL)).allow

    url = f"{at['origin']}/v0/executions/{decision['executionId']}/verify"
    headers = {"Authorization": f"Bearer {at['agentKey']}"}
    bare_client = httpx.Client()

    def bare() -> None:
        assert bare_client.post(url, json={}, headers=headers).status_code == 200

    def warm() -> None:
        assert gate.check("s", TOOL, CALL).allow

    def cold_description() -> None:
        gate._facts._descriptions.clear()
        warm()

    def all_cold() -> None:
        with Felspar(at["origin"], at["agentKey"]) as client:
            assert new_gate(client).check("s", TOOL, CALL).allow

    def bare_cold() -> None:
        with httpx.Client() as client:
            assert client.post(url, json={}, headers=headers).status_code == 200

    aims = {
        (20, "include"): "aim ≤ 1.10",
        (20, "plain"): "aim ≤ 1.15",
        (0, "include"): "aim ≤ 1.3",
        (0, "plain"): "aim ≤ 2.2",
    }
    aim = aims[delay_ms, kind]
    for _ in range(20):
        bare()
        warm()
    show("check, warm", ratio(warm, bare, pairs), aim)
    show("check, description cold", ratio(cold_description, bare, pairs), aim if delay_ms else "")
    show("check, all cold, against a bare cold client", ratio(all_cold, bare_cold, max(10, pairs // 10)), "")

    async def awarm() -> None:
        assert (await gate.acheck("s", TOOL, CALL)).allow

    async def acold_description() -> None:
        gate._facts._descriptions.clear()
        await awarm()

    show("acheck, warm", asyncio.run(aratio(awarm, bare, pairs)), "no worse than check")
    show("acheck, description cold", asyncio.run(aratio(acold_description, bare, pairs)), "no worse than check")
    felspar.close()
    bare_client.close()


# Memory and import ----------------------------------------------------------------------------------------------------


def memory() -> None:
    """How much 100,000 recorded decisions hold, in a process of its own."""
    print("\nMemory")
    code = "import bench_memory; bench_memory.main()"
    grown = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True).stdout
    show("MB held by 100,000 recorded decisions in 10 sessions", float(grown), "aim ≤ 200")


def imports(pairs: int) -> None:
    """A process that only imports."""
    print("\nImport, CPU time of a process that only imports")
    found = []
    for _ in range(pairs):
        spent = [_cpu(f"import {what}") - _cpu("pass") for what in ("preaction", "httpx, pydantic")]
        found.append(spent[0] / spent[1])
    show("import preaction, in `import httpx, pydantic`", statistics.median(found), "aim ≤ 1.3")


def _cpu(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run everything, or with `--quick` everything with few pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few pairs: only to see that it runs")
    pairs = 30 if parser.parse_args().quick else 300
    cores = sorted(os.sched_getaffinity(0))
    imports(max(3, pairs // 30))
    memory()
    os.sched_setaffinity(0, {cores[0]})
    print(f"\nPython {sys.version.split()[0]}, {len(cores)} cores; client on one, authority on the other")
    gc.freeze()
    local(pairs)
    over_http(pairs)
    os.sched_setaffinity(0, cores)
    stores(ratio, show, pairs, TOOL, RULE, CALL)
    audit(ratio, show, pairs, TOOL, RULE, CALL)
    pipeline(pairs)


if __name__ == "__main__":
    main()
