"""Records as the storages see them: plain JSON in the seed's shape."""

from typing import Any

KEY = "u_01:bank.transfer"
ACCOUNT = "1102534471"


def record(decision: str = "executed", **changes: Any) -> dict[str, Any]:
    """A record of the transfer, at `decision`."""
    return {
        "schema_version": "1.4",
        "action_key": KEY,
        "phase": "at_trigger",
        "fixed": {
            "c1_when_case": "immediate",
            "c2_user_action_name": "send money to my landlord",
            "c3_provider_action_name": "bank.transfer",
        },
        "fields": [field("to_account", ACCOUNT), field("amount", 500000)],
        "advisory_notes": "Transfers are final.",
        "user_checklist": [],
        "unknown_count": 0,
        "unverified_checklist_count": 0,
        "gate": None,
        "execution_decision": decision,
        "reason": decision,
        "timestamp": "2026-08-11T09:12:03.121Z",
        **changes,
    }


def field(name: str, value: Any, source: str = "user_answer") -> dict[str, Any]:
    times = {"resolved_at": "2026-08-11T09:12:03.114Z"}
    return {"name": name, "value": value, "status": "known", "source": source, "origin_source": source, **times}
