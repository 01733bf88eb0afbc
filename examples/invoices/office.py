"""Two companies' invoices in one database, and the two tools that their agents may have: one reads, one approves."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from preaction.pipeline import Allowed, Command, Denied, NotVisible, PublicToolError, Tool, TrustedContext

SCHEMA = """
CREATE TABLE invoices (id TEXT, tenant TEXT, customer TEXT, amount INTEGER, status TEXT, PRIMARY KEY (tenant, id));
CREATE TABLE approvals (key TEXT PRIMARY KEY, tenant TEXT, invoice TEXT, status TEXT);
INSERT INTO invoices VALUES
  ('inv_480', 'green', 'Harbor Tools', 80, 'paid'), ('inv_481', 'green', 'Harbor Tools', 120, 'open'),
  ('inv_900', 'green', 'Mill & Sons', 9000, 'open'), ('inv_77', 'blue', 'Quiet Customer', 55, 'open');
"""
LARGE = 1000


class Office:
    """The database at `path`, made anew. Each use opens its own connection, since tools run in threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        path.unlink(missing_ok=True)
        with self.database() as db:
            db.executescript(SCHEMA)

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        with self.lock, closing(sqlite3.connect(self.path)) as db, db:
            db.row_factory = sqlite3.Row
            yield db

    def find(self, arguments: dict[str, Any], context: TrustedContext) -> dict[str, Any] | NotVisible:
        """One query with the tenant in it: no invoice and another company's invoice are the same nothing."""
        query = "SELECT id, customer, amount, status FROM invoices WHERE id = ? AND tenant = ?"
        with self.database() as db:
            row = db.execute(query, (arguments["invoice_id"], context.tenant)).fetchone()
        return NotVisible() if row is None else {"invoice": dict(row)}

    def show(self, command: Command) -> dict[str, Any]:
        invoice: dict[str, Any] = command.objects["invoice"]
        return invoice

    def approve(self, command: Command) -> dict[str, Any]:
        """Change the invoice and keep the key beside it, in one transaction, so that `was_done` can tell."""
        invoice, tenant = command.arguments["invoice_id"], command.context.tenant
        with self.database() as db:
            changed = db.execute(
                "UPDATE invoices SET status = ? WHERE id = ? AND tenant = ? AND status = 'open'",
                (command.arguments["status"], invoice, tenant),
            )
            if changed.rowcount == 0:
                raise PublicToolError("This invoice isn't open any more.")
            kept = (command.idempotency_key, tenant, invoice, command.arguments["status"])
            db.execute("INSERT INTO approvals VALUES (?, ?, ?, ?)", kept)
        return {"invoice_id": invoice, "status": command.arguments["status"]}

    def was_done(self, key: str) -> dict[str, Any] | None:
        with self.database() as db:
            row = db.execute("SELECT invoice AS invoice_id, status FROM approvals WHERE key = ?", (key,)).fetchone()
        return None if row is None else dict(row)

    def statuses(self) -> dict[str, str]:
        with self.database() as db:
            return {row["id"]: row["status"] for row in db.execute("SELECT id, status FROM invoices ORDER BY id")}


def may_approve(
    context: TrustedContext, tool: str, objects: dict[str, Any], arguments: dict[str, Any]
) -> Allowed | Denied:
    return Allowed() if "approver" in context.roles else Denied("approvers only")


def summary(arguments: dict[str, Any], objects: dict[str, Any]) -> str:
    invoice = objects["invoice"]
    return f"{arguments['status']}: {invoice['id']} of {invoice['customer']} over {invoice['amount']} EUR"


def tools_of(office: Office) -> list[Tool]:
    """What goes into the pipeline. Neither schema has a field for who asks."""
    invoice_id = {"invoice_id": {"type": "string", "maxLength": 40}}
    status = {"status": {"enum": ["approved", "rejected"]}}
    shape: dict[str, Any] = {"type": "object", "additionalProperties": False}
    around: dict[str, Any] = {
        "resolve": office.find,
        "object_ids": lambda objects: {"invoice": objects["invoice"]["id"]},
        "audit_fields": ("invoice_id", "status"),
    }
    return [
        Tool(
            name="get_invoice",
            description="Read one invoice.",
            input_schema={**shape, "properties": invoice_id, "required": ["invoice_id"]},
            effect="read",
            run=office.show,
            **around,
        ),
        Tool(
            name="approve_invoice",
            description="Approve or reject one open invoice.",
            input_schema={**shape, "properties": {**invoice_id, **status}, "required": ["invoice_id", "status"]},
            effect="write",
            run=office.approve,
            authorize=may_approve,
            confirm=lambda arguments, objects: objects["invoice"]["amount"] > LARGE,
            summary=summary,
            reconcile=office.was_done,
            **around,
        ),
    ]
