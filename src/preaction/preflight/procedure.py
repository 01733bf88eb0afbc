"""The order of a run, in one list: what is asked first, and that nothing of the provider's is read before gate 1.

Each step takes the run, and ends it or lets it go on; what they all let go on comes to gate 2.
"""

from collections.abc import Callable, Generator
from datetime import datetime
from typing import Any, Final

from preaction.calling import Asking
from preaction.preflight import checklist, fixed
from preaction.preflight.fields import settle_fields
from preaction.preflight.hooks import Hooks
from preaction.preflight.record import Missing, State
from preaction.preflight.run import Ending, Request, Run, begin

Step = Callable[[Run], Any]
"""Gives an `Ending` or None, at once or after asking hooks."""


def open_gate(run: Run) -> Ending:
    """Gate 2: it opens when nothing is missing, and at instruction time into waiting only (F11, F12)."""
    unknown, unverified = run.unknown or [], run.unverified or []
    counts = f"unknown_fields={len(unknown)}"
    if run.unverified is not None:
        counts += f", unverified_checklist={len(unverified)}"
    if run.phase == "at_trigger" and run.unknown == [] and run.unverified == []:
        return Ending("execute", None, f"execute: {counts}")
    if run.phase == "at_instruction" and run.unknown == []:
        return Ending("deferred", None, f"deferred: {counts}")
    missing: Missing = {"unknown_fields": unknown, "unverified_checklist": unverified}
    return Ending("ask_user", missing, f"ask_user: {counts}")


STEPS: Final[tuple[Step, ...]] = (
    checklist.read_items,
    fixed.classify,
    fixed.name_action,
    fixed.build_key,
    checklist.carry,
    fixed.confirm_tool,  # gate 1
    fixed.read_provided,
    settle_fields,
    checklist.verify_items,
)
"""What is left after them is gate 2, `open_gate`."""


def procedure(request: Request, hooks: Hooks, clock: Callable[[], datetime]) -> Asking[State]:
    """The unsigned state that `request` comes to. Raises `MisuseError` for what no caller can mean."""
    run = begin(request, hooks, clock)
    for step in STEPS:
        ending = step(run)
        if isinstance(ending, Generator):
            ending = yield from ending
        if ending is not None:
            break
    else:
        ending = open_gate(run)
    return State.of(run.record(ending))
