"""The fixed checklist and the first gate: what the user wants, when, and whether this is the tool for it (F2, F3).

Nothing that the provider says of its tool is read before this gate has passed, save the candidate's name.
"""

from typing import Final, get_args

from preaction.calling import Asking
from preaction.preflight.record import UNKEYED, WhenCase
from preaction.preflight.run import Ending, Run
from preaction.preflight.tool import name_of_tool, read_tool
from preaction.preflight.values import Unusable, frozen, mapping_of, words

_CASES: Final[tuple[WhenCase, ...]] = get_args(WhenCase)


def classify(run: Run) -> Asking[Ending | None]:
    """When it is to run. What isn't one of the four cases never becomes "immediate"."""
    answer = yield from run.hooks.ask("classify_when_case", instruction=run.instruction)
    said = frozen(lambda: answer.value, "c1_when_case") if answer.good else None
    case = next((one for one in _CASES if isinstance(said, str) and said == one), None)
    if case is None:
        return run.undetermined("intent_undetermined", "when it should run is not known", run.request.intent_attempt)
    run.fixed["c1_when_case"] = case
    run.phase = "at_trigger" if case == "immediate" or run.request.at_trigger else "at_instruction"
    return None


def name_action(run: Run) -> Asking[Ending | None]:
    """What the user calls the action."""
    answer = yield from run.hooks.ask("extract_user_action_name", instruction=run.instruction)
    name = frozen(lambda: answer.value, "c2_user_action_name") if answer.good else None
    if not isinstance(name, str) or not name.strip():
        return run.undetermined("intent_undetermined", "the action has no name", run.request.intent_attempt)
    run.fixed["c2_user_action_name"] = name
    return None


def build_key(run: Run) -> Asking[Ending | None]:
    """The key that records accumulate under. Without one there is no telling which action this is."""
    given = {"user_id": run.request.user_id, "fixed": {**run.fixed}}
    answer = yield from run.hooks.ask("build_action_key", **given)
    key = frozen(lambda: answer.value, "action_key") if answer.good else None
    if not isinstance(key, str) or not key.strip() or key == UNKEYED:
        return run.undetermined("action_key_undetermined", "no action key could be built")
    run.action_key = key
    return None


def confirm_tool(run: Run) -> Asking[Ending | None]:
    """Gate 1: only an explicit `approved is True` passes. Silence is no approval, and neither is an error."""
    tool, attempt = run.request.tool, run.request.tool_attempt
    if run.fixed["c3_provider_action_name"] is None:
        return run.undetermined("tool_undetermined", "no tool was selected", attempt)
    if run.request.at_trigger and run.request.deferred_tool != run.fixed["c3_provider_action_name"]:
        return run.undetermined("tool_undetermined", "the run was deferred for another tool", attempt)
    named = run.fixed["c2_user_action_name"]
    answer = yield from run.hooks.ask("confirm_tool_name_matches_intent", user_action_name=named, tool=tool)
    if not answer.good:
        return run.undetermined("tool_undetermined", "it could not be confirmed", attempt)
    found = mapping_of(answer.value, "confirm_tool_name_matches_intent")
    if isinstance(found, Unusable):
        return run.undetermined("tool_undetermined", found.why, attempt)
    if found.get("approved") is not True:
        return run.undetermined("tool_undetermined", words(found.get("reason"), "it was not approved"), attempt)
    return None


def read_provided(run: Run) -> Ending | None:
    """What the provider's tool requires, read now for the first time (F4)."""
    tool, attempt = run.request.tool, run.request.tool_attempt
    if name_of_tool(tool) != run.fixed["c3_provider_action_name"]:
        return run.undetermined("tool_undetermined", "it changed its name while it was confirmed", attempt)
    found = read_tool(tool)
    if isinstance(found, Unusable):
        return run.undetermined("tool_undetermined", found.why, attempt)
    run.required, run.advisory_notes = found.required, found.description
    return None
