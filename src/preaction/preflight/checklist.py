"""The user's checklist: conditions with a stable id, which are looked at right before the call and not before (F10)."""

from collections.abc import Mapping
from typing import Any

from preaction.calling import Asking
from preaction.preflight.record import UnverifiedItem
from preaction.preflight.run import Ending, Run
from preaction.preflight.source import segment_json
from preaction.preflight.values import DEEPEST, Unusable, copied, frozen, mapping_of, words


def read_items(run: Run) -> Ending | None:
    """The items without what they say of themselves. Without an id there is no telling what was answered."""
    given = run.request.user_checklist
    if given is not None and not isinstance(given, (list, tuple)):
        return run.undetermined("checklist_unusable", f"user_checklist: a list is needed, not {type(given).__name__}")
    seen: set[str] = set()
    for index, one in enumerate(given or ()):
        where = f"user_checklist[{index}]"
        item = mapping_of(one, where, deepest=DEEPEST)
        if isinstance(item, Unusable):
            return run.undetermined("checklist_unusable", item.why)
        name = item.get("id")
        if not isinstance(name, str) or not name.strip():
            return run.undetermined("checklist_unusable", f"{where}.id: a stable id is needed")
        if name in seen:
            return run.undetermined("checklist_unusable", f"{where}.id: it stands there twice")
        seen.add(name)
        run.items.append({key: value for key, value in item.items() if key not in ("status", "source")})
    return None


def carry(run: Run) -> Ending | None:
    """What a deferred run takes to its trigger: what was meant, as JSON, and nothing that was measured (F12)."""
    if run.phase != "at_instruction":
        return None
    answers: Any = run.data.user_answers
    intent = {
        "user_id": run.request.user_id,
        "instruction": run.request.instruction if run.segments is None else list(map(segment_json, run.segments)),
        "user_checklist": run.items,
        "user_answers": answers,
    }
    lost = next((value for value in answers.values() if isinstance(value, Unusable)), None)
    found = lost or frozen(lambda: intent, "deferred_input")
    if isinstance(found, Unusable):
        return run.undetermined("input_unusable", found.why)
    run.carried = found
    return None


def verify_items(run: Run) -> Asking[Ending | None]:
    """What the items' hook confirms now. At instruction time nothing is: it would be stale when the call is made."""
    if run.phase == "at_instruction":
        run.user_checklist = [item | {"status": "unverified", "source": None} for item in run.items]
        return None
    checked: list[dict[str, Any]] = []
    unverified: list[UnverifiedItem] = []
    for item in run.items:
        hook = "verify_user_checklist_item"
        answer = yield from run.hooks.ask(hook, item=copied(item), context=run.context_of(hook))
        found = mapping_of(answer.value, f"user_checklist.{item['id']}") if answer.good else Unusable("it failed")
        if _is_verified(found, item):
            checked.append(item | {"status": "verified", "source": _source_of(found)})
            continue
        note = "it could not be checked" if isinstance(found, Unusable) else words(found.get("note"), "") or None
        checked.append(item | {"status": "unverified", "source": None})
        unverified.append({"id": item["id"], "note": note})
    run.user_checklist, run.unverified = checked, unverified
    return None


def _is_verified(found: dict[str, Any] | Unusable, item: Mapping[str, Any]) -> bool:
    """Whether the hook confirmed this item, and no other."""
    if isinstance(found, Unusable):
        return False
    return found.get("status") == "verified" and found.get("id", item["id"]) == item["id"]


def _source_of(found: dict[str, Any] | Unusable) -> str | None:
    source = None if isinstance(found, Unusable) else found.get("source")
    return source if isinstance(source, str) else None
