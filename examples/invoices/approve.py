"""An agent that approves invoices: its loop, and a person at the terminal who confirms the large ones.

    python examples/invoices/approve.py

The model is a script here. What it proposes is what models do propose: a text that was cut off, a tenant of its own
choosing, another company's invoice, the same call again. Exits with 1 when the invoices don't end as they should.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from office import Office, tools_of

from preaction.pipeline import JsonlAudit, Outcome, ProposedCall, ToolPipeline, TrustedContext
from preaction.stores.sqlite import SQLiteStore

PROPOSALS = [
    ("get_invoice", '{"invoice_id": "inv_4'),
    ("get_invoice", '{"invoice_id": "inv_481"}'),
    ("approve_invoice", '{"invoice_id": "inv_481", "status": "approved", "tenant_id": "blue"}'),
    ("approve_invoice", '{"invoice_id": "inv_481", "status": "approved"}'),
    ("approve_invoice", '{"status": "approved", "invoice_id": "inv_481"}'),
    ("get_invoice", '{"invoice_id": "inv_77"}'),
    ("get_invoice", '{"invoice_id": "inv_none"}'),
    ("approve_invoice", '{"invoice_id": "inv_480", "status": "approved"}'),
    ("approve_invoice", '{"invoice_id": "inv_900", "status": "approved"}'),
    ("pay_invoice", '{"invoice_id": "inv_900"}'),
]

# From the session of the person who asked the agent for this; the model has no say in it
CONTEXT = TrustedContext(subject="u_7", tenant="green", request_id="req_1", run_id="run_1", roles=("approver",))


def confirmed(pipeline: ToolPipeline, outcome: Outcome) -> bool:
    """Whether the person at the terminal agrees. No terminal is no agreement."""
    if outcome.confirmation is None:
        return False
    print(f"    {outcome.confirmation.summary}")
    try:
        agreed = input("    Confirm? [y/N] ").strip().lower() == "y"
    except EOFError:
        agreed = False
    print()
    if agreed:
        pipeline.confirmations.approve(outcome.confirmation.id, by="the person at the terminal")
    return agreed


def run(pipeline: ToolPipeline) -> None:
    """The loop: hand each proposal over, and its answer back to the model."""
    for number, (name, raw) in enumerate(PROPOSALS, 1):
        call = ProposedCall(id=f"call_{number}", name=name, arguments=raw)
        outcome = pipeline.handle_sync(call, CONTEXT)
        print(f"{name} {raw}\n  {outcome.disposition}, {outcome.code}: {outcome.for_model}")
        if outcome.disposition == "confirm" and confirmed(pipeline, outcome):
            outcome = pipeline.handle_sync(call, CONTEXT)
            print(f"  {outcome.disposition}, {outcome.code}: {outcome.for_model}")


def main() -> int:
    parser = argparse.ArgumentParser(description="An agent that approves invoices.")
    parser.add_argument("--folder", type=Path, help="where to leave the database, the store and the record")
    with TemporaryDirectory() as temporary:
        folder = parser.parse_args().folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        office = Office(folder / "invoices.sqlite")
        audit, store = JsonlAudit(folder / "audit.jsonl"), SQLiteStore(folder / "store.sqlite")
        run(ToolPipeline(tools_of(office), store=store, audit=audit))
        store.close()
        statuses, acted = office.statuses(), sum(record["outcome"] == "done" for record in audit.records())
    print(f"\n{len(PROPOSALS)} proposals, {acted} acts and reads; invoices now: {statuses}")
    # Whatever the person said about the large one, nothing else may have changed
    rest = {"inv_480": "paid", "inv_481": "approved", "inv_77": "open"}
    return 0 if {**statuses, **rest} == statuses else 1


if __name__ == "__main__":
    sys.exit(main())
