"""Two tenants' invoices in a real database, a tool that reads them and one that approves them, and a pipeline.

`office = Office()`, then `office.read()` and `office.write()` propose calls that are allowed; what goes differently is
said in words of `read` and `write`. `office.reads` and `office.acts` are what came to the tools.
"""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from preaction.pipeline import (
    Allowed,
    Command,
    Denied,
    MemoryAudit,
    NotVisible,
    Outcome,
    ProposedCall,
    Tool,
    ToolPipeline,
    TrustedContext,
)
from preaction.testing import FakeClock

CONTEXT = TrustedContext(
    subject="u_7", tenant="t_1", request_id="req_1", run_id="run_1", roles=("clerk",), policy_version="7"
)

READ_SCHEMA = {
    "type": "object",
    "properties": {"invoice_id": {"type": "string"}, "part": {"enum": ["head", "lines"]}},
    "required": ["invoice_id"],
    "additionalProperties": False,
}
WRITE_SCHEMA = {
    "type": "object",
    "properties": {
        "invoice_id": {"type": "string"},
        "status": {"enum": ["approved", "rejected"]},
        "reason": {"type": "string"},
    },
    "required": ["invoice_id", "status"],
    "additionalProperties": False,
}

READ = {"invoice_id": "inv_481", "part": "head"}
WRITE = {"invoice_id": "inv_481", "status": "approved"}
LARGE = {"invoice_id": "inv_900", "status": "approved"}
FOREIGN = "inv_foreign"
SECRETS = ("t_2", "Blue Rival", "98765", "SECRET", "Traceback", "SELECT", "sqlite")
"""What no model may read here: the other tenant, its invoice, and what goes on inside."""


class Office:
    """`tools` are changes of the two tools, by name; all else are a pipeline's options."""

    def __init__(self, *, tools: dict[str, dict[str, Any]] | None = None, **options: Any) -> None:
        self.lock = threading.Lock()
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute("CREATE TABLE invoices (id, tenant, amount, customer, status)")
        rows = [
            ("inv_481", "t_1", 120, "Acme", "open"),
            ("inv_482", "t_1", 80, "Acme", "open"),
            ("inv_900", "t_1", 9000, "Acme", "open"),
            (FOREIGN, "t_2", 98765, "Blue Rival", "open"),
        ]
        self.database.executemany("INSERT INTO invoices VALUES (?, ?, ?, ?, ?)", rows)
        self.reads: list[Command] = []
        self.acts: list[Command] = []
        self.looked: list[tuple[Any, ...]] = []
        self.restricted: list[dict[str, Any]] = []
        self.clock = FakeClock()
        self.audit = MemoryAudit()
        changes = tools or {}
        self.tools = [
            Tool(**{**self._read_tool(), **changes.get("get_invoice", {})}),
            Tool(**{**self._write_tool(), **changes.get("approve_invoice", {})}),
        ]
        given: dict[str, Any] = {"audit": self.audit, "diagnostics": self.restricted.append, "clock": self.clock}
        self.pipeline = ToolPipeline(self.tools, **{**given, **options})

    def _read_tool(self) -> dict[str, Any]:
        return {
            "name": "get_invoice",
            "input_schema": READ_SCHEMA,
            "effect": "read",
            "run": self.show,
            "resolve": self.find,
            "authorize": lambda context, tool, objects, arguments: Allowed(),
            "object_ids": lambda objects: {"invoice": objects["invoice"]["id"]},
            "output_schema": {"type": "object", "required": ["id", "amount"]},
            "sanitise": lambda result: {key: value for key, value in result.items() if key != "tenant"},
        }

    def _write_tool(self) -> dict[str, Any]:
        return {
            "name": "approve_invoice",
            "input_schema": WRITE_SCHEMA,
            "effect": "write",
            "run": self.approve,
            "resolve": self.find,
            "authorize": self.may,
            "confirm": lambda arguments, objects: objects["invoice"]["amount"] > 1000,
            "summary": lambda arguments, objects: f"{arguments['status']}: {objects['invoice']['amount']}",
            "object_ids": lambda objects: {"invoice": objects["invoice"]["id"]},
            "output_schema": {"type": "object", "required": ["id", "status"]},
            "operation_id": lambda result: f"op-{result['id']}",
            "audit_fields": ("invoice_id", "status"),
        }

    # What the tools do ------------------------------------------------------------------------------------------------

    def find(self, arguments: dict[str, Any], context: TrustedContext) -> Any:
        """One query for missing and foreign alike."""
        query = "SELECT id, tenant, amount, customer, status FROM invoices WHERE id = ? AND tenant = ?"
        asked = (arguments["invoice_id"], context.tenant)
        with self.lock:
            self.looked.append((query, context.tenant))
            row = self.database.execute(query, asked).fetchone()
        if row is None:
            return NotVisible()
        return {"invoice": dict(zip(("id", "tenant", "amount", "customer", "status"), row, strict=True))}

    def may(self, context: TrustedContext, tool: str, objects: Any, arguments: dict[str, Any]) -> Allowed | Denied:
        """Clerks may; viewers may only read."""
        return Allowed() if "clerk" in context.roles else Denied("SECRET rule 12: clerks only")

    def show(self, command: Command) -> Any:
        """The read tool."""
        self.reads.append(command)
        return dict(command.objects["invoice"])

    def approve(self, command: Command) -> Any:
        """The write tool."""
        with self.lock:
            self.acts.append(command)
            self.database.execute(
                "UPDATE invoices SET status = ? WHERE id = ? AND tenant = ?",
                (command.arguments["status"], command.arguments["invoice_id"], command.context.tenant),
            )
        return {"id": command.arguments["invoice_id"], "status": command.arguments["status"]}

    def status_of(self, invoice_id: str) -> str:
        """What the database says."""
        with self.lock:
            return str(self.database.execute("SELECT status FROM invoices WHERE id = ?", (invoice_id,)).fetchone()[0])

    # Proposing --------------------------------------------------------------------------------------------------------

    def propose(
        self, name: str, arguments: Any, *, call_id: str = "call_1", key: str | None = None, **who: Any
    ) -> Outcome:
        """Hand a proposal over, from a thread."""
        call = ProposedCall(id=call_id, name=name, arguments=arguments, idempotency_key=key)
        return self.pipeline.handle_sync(call, replace(CONTEXT, **who))

    async def apropose(
        self, name: str, arguments: Any, *, call_id: str = "call_1", key: str | None = None, **who: Any
    ) -> Outcome:
        """As `propose`, from an event loop."""
        call = ProposedCall(id=call_id, name=name, arguments=arguments, idempotency_key=key)
        return await self.pipeline.handle(call, replace(CONTEXT, **who))

    def read(self, arguments: Any = READ, **more: Any) -> Outcome:
        """Propose to read an invoice."""
        return self.propose("get_invoice", arguments, **more)

    def write(self, arguments: Any = WRITE, **more: Any) -> Outcome:
        """Propose to approve one."""
        return self.propose("approve_invoice", arguments, **more)

    @property
    def calls(self) -> int:
        """How often a tool was called."""
        return len(self.reads) + len(self.acts)

    def record(self) -> dict[str, Any]:
        """The last record."""
        return self.audit.records()[-1]


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises."""

    def fails(*given: Any, **more: Any) -> Any:
        raise error

    return fails
