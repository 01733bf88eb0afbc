"""A small help desk over SQLite, and its tools. It knows nothing of the gate and does whatever it is told."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

SCHEMA = """
create table customers (id text primary key, mail text not null);
create table tickets (
    id text primary key, customer text not null references customers, subject text not null,
    charged real not null, charged_twice integer not null, state text not null default 'open'
);
create table notes (
    number integer primary key, ticket text not null references tickets, text text not null, public integer not null
);
create table outbox (
    number integer primary key, ticket text not null references tickets, kind text not null,
    sent_to text not null, body text not null
);
"""

CUSTOMERS = [
    ("bakery", "accounts@bakery.example"),
    ("harbour", "purchasing@harbour.example"),
    ("museum", "office@museum.example"),
]

TICKETS = [
    ("HC-1201", "bakery", "Charged twice in October", 38.0, True),
    ("HC-1202", "harbour", "Charged twice for the whole year", 240.0, True),
    ("HC-1203", "museum", "Can you visit us in spring?", 0.0, False),
    ("HC-1204", "museum", "What is line 3 of the invoice?", 19.0, False),
]


class HelpDesk:
    """Tickets, customers, notes and an outbox, in one database file. The tools are the last three methods."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path.absolute()}"
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(SCHEMA)
        self._database.executemany("insert into customers values (?, ?)", CUSTOMERS)
        columns = "id, customer, subject, charged, charged_twice"
        self._database.executemany(f"insert into tickets ({columns}) values (?, ?, ?, ?, ?)", TICKETS)

    def close(self) -> None:
        self._database.close()

    def rows(self, query: str) -> list[tuple]:
        return self._database.execute(query).fetchall()

    def reply(self, ticket_id: str, body: str, cc: Sequence[str] = ()) -> str:
        """Mail the customer of a ticket, and whoever stands in `cc`."""
        address, _ = self._customer(ticket_id)
        self._send(ticket_id, "reply", ", ".join([address, *cc]), body)
        self._database.execute("update tickets set state = 'answered' where id = ?", [ticket_id])
        return "sent"

    def note(self, ticket_id: str, text: str, public: bool = True) -> str:
        """Add a note to a ticket. A public one is shown to the customer."""
        self._database.execute(
            "insert into notes (ticket, text, public) values (?, ?, ?)", [ticket_id, text, int(public)]
        )
        return "noted"

    def refund(self, ticket_id: str) -> str:
        """Pay back what the customer was charged."""
        address, charged = self._customer(ticket_id)
        self._send(ticket_id, "refund", address, f"{charged:.2f} paid back")
        return "paid"

    def _customer(self, ticket_id: str) -> tuple[str, float]:
        query = "select mail, charged from tickets join customers on customers.id = customer where tickets.id = ?"
        row = self._database.execute(query, [ticket_id]).fetchone()
        if row is None:
            raise LookupError(f"there is no ticket {ticket_id}")
        return row

    def _send(self, ticket_id: str, kind: str, sent_to: str, body: str) -> None:
        self._database.execute(
            "insert into outbox (ticket, kind, sent_to, body) values (?, ?, ?, ?)", [ticket_id, kind, sent_to, body]
        )
