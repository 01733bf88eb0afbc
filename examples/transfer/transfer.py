"""Pay the landlord from a terminal: now, and once more on the first of the month.

    python examples/transfer/transfer.py [FOLDER]

The landlord's account nobody said but a forwarded mail, which counts for nothing: so the person at the terminal is
asked. What was scheduled is resumed by another preflight over the same file. Exits with 1 if anything else was paid.
"""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from preaction.preflight import Preflight, Segment, SqliteStorage, State, create_preflight
from preaction.preflight.ready import checked_items, fits_schema, literal_extraction, measurements, tool_names

KEY, SECRET = "u_01:bank.transfer", b"in operation 32 random bytes, that every process reads from a file"
FIELDS = {"from_account": {}, "to_account": {"pattern": "^[0-9]{4,}$"}, "amount": {"minimum": 1}, "date": {}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": list(FIELDS)}
TRANSFER = {"name": "bank.transfer", "description": "Transfers are final.", "inputSchema": SCHEMA}
MAIL = Segment("Dear tenant, our new account is 6660666.", trust="untrusted", origin="gmail:msg_881")
DATES = {"at_instruction": None, "at_trigger": datetime.now(UTC).date().isoformat()}
ACCOUNTS = {"from_account": {"value": "1102534471", "trust": "user"}}
paid: list[dict[str, Any]] = []


def words(instruction: list[Segment]) -> str:
    return " ".join(segment.text for segment in instruction if segment.trust == "user")


def find(field_name: str, instruction: list[Segment]) -> str | None:
    return found[0] if field_name == "amount" and (found := re.search(r"\d[\d,]*", words(instruction))) else None


def policy(record: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Of an earlier transfer only the recipient is taken over; the date may wait until the call is made."""
    if record["source"] == "prior_state" and record["name"] != "to_account":
        record = {**record, "status": "unknown"}
    return {**record, "pending_at_trigger": True} if record["name"] == "date" else record


def preflight_over(storage: SqliteStorage) -> Preflight:
    hooks = {
        "classify_when_case": lambda instruction: "scheduled" if "on the first" in words(instruction) else "immediate",
        "extract_user_action_name": lambda instruction: "send money" if "send" in words(instruction) else None,
        "confirm_tool_name_matches_intent": tool_names({"bank.transfer": ["send money"]}),
        "extract_from_instruction": literal_extraction(find, read={"amount": lambda text: int(text.replace(",", ""))}),
        "measure_from_environment": measurements({"date": lambda context: DATES[context["phase"]]}),
        "build_action_key": lambda user_id, fixed: f"{user_id}:{fixed['c3_provider_action_name']}",
        "apply_field_policy": policy,
        "validate_field_schema": fits_schema,
        "verify_user_checklist_item": checked_items({"chk_limit": lambda context: len(paid) < 3}),
    }
    return create_preflight(hooks=hooks, storage=storage, strict=True, secret=SECRET)


def now(preflight: Preflight) -> dict[str, Any]:
    return {"tool": TRANSFER, "pre_set_data": ACCOUNTS, "prior_state": preflight.prior_state_sync(KEY)}


def say(preflight: Preflight, text: str) -> State:
    """Run, and ask the person at the terminal for what is missing, until nothing is, or nobody answers."""
    print(text)
    said, answers = [Segment(text, trust="user"), MAIL], dict[str, str]()
    given: dict[str, Any] = {"user_id": "u_01", "instruction": said, "user_checklist": [{"id": "chk_limit"}]}
    while True:
        state = preflight.run_and_record_sync(user_answers=answers, **given, **now(preflight))
        print(f"  {state.reason}")
        if state.execution_decision != "ask_user":
            return state
        for name in [one["name"] for one in (state.gate or {})["unknown_fields"]]:
            print(f"  {name}? ", end="", flush=True)
            answers[name] = sys.stdin.readline().strip()
            if not answers[name]:
                return state


def act(preflight: Preflight, state: State) -> None:
    print(" ", preflight.execute_if_ready_sync(state, TRANSFER, lambda name, arguments: paid.append(arguments)).reason)


def main(folder: str) -> int:
    preflight = preflight_over(storage := SqliteStorage(Path(folder) / "records.db"))
    act(preflight, say(preflight, "send 500,000 won to my landlord"))
    if say(preflight, "send 450,000 won to my landlord on the first").execution_decision == "deferred":
        print("on the first, by another preflight over the same file, whose scheduler fires twice")
        later, deferred = preflight_over(SqliteStorage(Path(folder) / "records.db")), storage.records(KEY)[-1]
        for _ in range(2):
            act(later, later.resume_sync(deferred, **now(later)))
    print("records:", ", ".join(record["execution_decision"] for record in storage.records(KEY)))
    print("paid:", ", ".join(f"{one['amount']} to {one['to_account']}" for one in paid) or "nothing")
    return 0 if [one["amount"] for one in paid] in ([], [500000, 450000]) else 1


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        sys.exit(main((sys.argv[1:] or [temporary])[0]))
