"""A nightly job that updates records: no agent, no session, one `check_action` before each change.

    python examples/nightly_job/night.py           one after the other
    python examples/nightly_job/night.py --async   all at once, with `acheck_action`

Decisions come over REST, from an authority that this script serves on a free port of this machine. Exits with 1 when
the records don't end as they should.
"""

import argparse
import asyncio
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from preaction import (
    Felspar,
    ToolRule,
    Verdict,
    acheck_action,
    check_action,
    denial_text,
    felspar_job_describer,
    felspar_verifier,
)
from preaction.authority import LocalAuthority
from preaction.stores.memory import MemoryStore

PACK = Path(__file__).with_name("pack.yaml")
JOB = "renew-contract"

# The job may do one thing: set a contract's state to "renewed", once for each decision.
RENEW = ToolRule(
    outcomes=["renew"],
    entity={"field": "contract"},
    fields=["contract"],
    fixed={"state": "renewed"},
    recipients=[],
    once="decision",
)

# id, usage as metered (None: the meter didn't answer), unpaid, hours since the facts were read
CONTRACTS = [
    ("C-101", 31.5, 0.0, 0),
    ("C-102", 8.0, 0.0, 1),
    ("C-103", 12.0, 0.0, 3),
    ("C-104", None, 0.0, 0),
    ("C-105", 44.0, 19.9, 0),
    ("C-106", 0.0, 0.0, 0),
]
RENEWED = ["C-101", "C-102"]


def evidence(usage: float | None, unpaid: float, hours: int) -> dict[str, dict[str, Any]]:
    """The facts, each with its source and the time at which it was read."""
    at = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    facts = {"unpaid": {"value": unpaid, "source": "ledger", "observedAt": at}}
    return facts if usage is None else {"usage": {"value": usage, "source": "meter", "observedAt": at}, **facts}


def renew(records: sqlite3.Connection, contract: str, state: str) -> None:
    records.execute("update contracts set state = ? where id = ?", [state, contract])


def report(contract: str, verdict: Verdict) -> None:
    print(f"\n{contract}: {verdict.code}")
    if not verdict.allow:
        print("    " + denial_text(verdict).replace("\n", "\n    "))


def one_after_the_other(felspar: Felspar, records: sqlite3.Connection, common: dict[str, Any]) -> None:
    for contract, *facts in CONTRACTS:
        decision = felspar.decide(JOB, entity_id=contract, evidence=evidence(*facts))
        args = {"contract": contract, "state": "renewed"}
        verdict = check_action(RENEW, args, decision=decision, job=JOB, **common)
        report(contract, verdict)
        if verdict.allow:
            renew(records, **verdict.arguments)
            again = check_action(RENEW, args, decision=decision, job=JOB, **common)
            report(f"{contract} once more", again)


async def all_at_once(felspar: Felspar, records: sqlite3.Connection, common: dict[str, Any]) -> None:
    async def one(contract: str, *facts: Any) -> Verdict:
        decision = await felspar.adecide(JOB, entity_id=contract, evidence=evidence(*facts))
        args = {"contract": contract, "state": "renewed"}
        return await acheck_action(RENEW, args, decision=decision, job=JOB, **common)

    verdicts = await asyncio.gather(*(one(*contract) for contract in CONTRACTS))
    for (contract, *_), verdict in zip(CONTRACTS, verdicts, strict=True):
        report(contract, verdict)
        if verdict.allow:
            renew(records, **verdict.arguments)


def main() -> int:
    parser = argparse.ArgumentParser(description="Renew contracts at night, each behind a check.")
    parser.add_argument("--async", dest="at_once", action="store_true", help="all at once, in an event loop")
    at_once = parser.parse_args().at_once

    with (
        LocalAuthority.from_pack(PACK) as authority,
        authority.serve() as served,
        Felspar(served.origin, authority.agent_key) as felspar,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as records,
    ):
        records.execute("create table contracts (id text primary key, state text not null default 'ending')")
        records.executemany("insert into contracts (id) values (?)", [(contract,) for contract, *_ in CONTRACTS])
        common = {
            "verify": felspar_verifier(felspar),
            "describe": felspar_job_describer(felspar),
            "store": MemoryStore(),  # keeps the uses of `once`
        }
        if at_once:
            asyncio.run(all_at_once(felspar, records, common))
        else:
            one_after_the_other(felspar, records, common)
        renewed = [id for (id,) in records.execute("select id from contracts where state = 'renewed' order by id")]

    print(f"\nrenewed: {', '.join(renewed)}; left as they were: {len(CONTRACTS) - len(renewed)}")
    return 0 if renewed == RENEWED else 1


if __name__ == "__main__":
    sys.exit(main())
