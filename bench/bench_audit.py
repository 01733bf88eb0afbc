"""What the gate's audit costs, in checks without it: a part of `make bench`, or by itself."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from bench_stores import gate_over

from preaction.audit.jsonl_audit import JsonlAudit
from preaction.stores.memory import MemoryStore
from preaction.stores.sqlite import SQLiteStore

Ratio: TypeAlias = Callable[[Callable[[], object], Callable[[], object], int], float]
Show: TypeAlias = Callable[[str, float, str], None]


def audit(ratio: Ratio, show: Show, pairs: int, tool: str, rule: dict[str, Any], call: dict[str, Any]) -> None:
    """A whole check with its record, the authority answering at once, in the same check without a record."""
    print("\nThe gate's audit: a check with its record, in the same check without one")

    def check_with(store: Any, sink: Any) -> Callable[[], None]:
        gate = gate_over(store, tool, rule, call["body"], audit=sink)

        def check() -> None:
            assert gate.check("s", tool, call).allow

        return check

    with tempfile.TemporaryDirectory() as folder:
        sinks: dict[str, Any] = {
            "made, and kept by nobody": lambda record: None,
            "in a file": JsonlAudit(Path(folder, "file.jsonl"), durable=False),
            "in a file, and on the disk before the act": JsonlAudit(Path(folder, "disk.jsonl")),
        }
        without = check_with(MemoryStore(), None)
        for what, sink in sinks.items():
            show(what, ratio(check_with(MemoryStore(), sink), without, pairs), "")
        stores = [SQLiteStore(Path(folder, f"{name}.db")) for name in ("with", "without")]
        over = check_with(stores[0], JsonlAudit(Path(folder, "over.jsonl")))
        show("the last one, over SQLite", ratio(over, check_with(stores[1], None), pairs), "")
        for store in stores:
            store.close()


if __name__ == "__main__":
    from run import CALL, RULE, TOOL, ratio, show

    audit(ratio, show, 100, TOOL, RULE, CALL)
