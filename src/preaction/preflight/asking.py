"""What a model is told of a run that may not execute: whom to ask, and for what. Its values and reasons stay here."""

from typing import Any, Final

from preaction._core.denied import quote
from preaction._core.verdict import Verdict, denial_text
from preaction.preflight.record import State

_NOTHING: Final = "Not executed, nothing was done:"


def question(state: State) -> str | None:
    """What the model has to ask the user, in one text; None for a run that may execute.

    It names fields and items of the checklist, and no candidate tool, value, note or reason.
    """
    record = state.to_json()
    if record["execution_decision"] == "execute":
        return None
    gate: dict[str, Any] = record["gate"] or {}
    if record["execution_decision"] != "ask_user":
        return f"{_NOTHING} it can't go on by itself. Tell the user so, and don't try it again."
    fields = [quote(one["name"]) for one in gate.get("unknown_fields", ())]
    items = [quote(one["id"]) for one in gate.get("unverified_checklist", ())]
    if not fields and not items:
        return f"{_NOTHING} ask the user. {gate.get('user_message', '')}".rstrip()
    needed = [f"ask the user for {', '.join(fields)}, and don't guess"] if fields else []
    needed += [f"{', '.join(items)} of the user's checklist isn't confirmed"] if items else []
    return f"{_NOTHING} {'; '.join(needed)}."


def denial_or_question(verdict: Verdict, state: State) -> str:
    """What the model is told of a call that the action gate denied: where a value is missing, to ask for it.

    A model that hears of a policy first may make the value up that would meet it.
    """
    return (question(state) if state.execution_decision == "ask_user" else None) or denial_text(verdict)
