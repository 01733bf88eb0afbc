"""The hooks: what a preflight asks its user's own code, and what stands in for three of them.

Each is called with keyword arguments and may be sync or async. One that raises, or answers in another shape, has said
nothing: the tool stays undetermined, the field unknown, the item unverified.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, TypeAlias

from preaction.calling import Answer, Asking, Call
from preaction.errors import ConfigurationError
from preaction.preflight.values import log

Hook: TypeAlias = Callable[..., Any]


def refuse_prior_state(record: dict[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """The field policy without one of your own: what a source of now holds counts, and nothing is carried forward."""
    if record["source"] == "prior_state":
        return record | {
            "status": "unknown",
            "note": "prior_state: it is from an earlier run, and no policy takes it over",
        }
    return record


def accept_any_schema(value: Any, schema: Mapping[str, Any], context: Mapping[str, Any]) -> str | None:
    """The schema check without one of your own: it checks nothing."""
    return None


def verify_nothing(item: dict[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """The check of the user's items without one of your own: none is verified."""
    return item | {"status": "unverified"}


DEFAULTS: Final[Mapping[str, Hook]] = {
    "apply_field_policy": refuse_prior_state,
    "validate_field_schema": accept_any_schema,
    "verify_user_checklist_item": verify_nothing,
}
"""What verifies nothing. `strict` refuses all three (F1)."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """All nine, ready to be called. `context` is a dict with `phase`, `instruction`, `user_answers`, `pre_set_data`,
    `measured_data`, `prior_state` and `checklist_answers`; `instruction` is a list of `Segment`.

    - `classify_when_case(instruction)` → "immediate", "scheduled", "conditional" or "recurring".
    - `extract_user_action_name(instruction)` → what the user calls the action, in words.
    - `confirm_tool_name_matches_intent(user_action_name, tool)` → `{"approved": True}`; all else stops, with `reason`.
    - `extract_from_instruction(field_name, instruction)` → `{"value", "segment_index", "span": [start, end]}` or None.
    - `measure_from_environment(field_name, context)` → `{"valid": True, "value"}`; all else is no measurement.
    - `build_action_key(user_id, fixed)` → a text that names the action: runs under one key share their `prior_state`.
    - `apply_field_policy(record, context)` → the record; it may make a known one unknown, with a `note`, or set
      `pending_at_trigger` on an unknown one. It can't make one known, nor change a value, a source or an origin.
    - `validate_field_schema(value, schema, context)` → None if it fits; anything else is why not, as text for the user.
    - `verify_user_checklist_item(item, context)` → the item with `status` "verified", and `source` as text; all else
      leaves it unverified.
    """

    classify_when_case: Hook
    extract_user_action_name: Hook
    confirm_tool_name_matches_intent: Hook
    extract_from_instruction: Hook
    measure_from_environment: Hook
    build_action_key: Hook
    apply_field_policy: Hook = refuse_prior_state
    validate_field_schema: Hook = accept_any_schema
    verify_user_checklist_item: Hook = verify_nothing

    @property
    def unsafe_defaults(self) -> tuple[str, ...]:
        """The hooks that still are a default that verifies nothing."""
        return tuple(name for name, default in DEFAULTS.items() if getattr(self, name) is default)

    def ask(self, name: str, **given: Any) -> Asking[Answer]:
        """Call a hook. What it raises is an answer that isn't good, and only its type is told to the log."""
        function = getattr(self, name)
        answer = yield Call(partial(function, **given), quick=function is DEFAULTS.get(name))
        if not answer.good:
            what = "late" if answer.late else type(answer.error).__name__
            log.error("preflight: the hook %s failed: %s", name, what, extra={"code": "hook_failed", "hook": name})
        return answer


def read_hooks(given: object, *, strict: bool) -> Hooks:
    """The hooks out of a mapping by name. `ConfigurationError` names one that is missing, unknown or no function.

    With `strict` one that would be left to a default that verifies nothing is missing, too (F1).
    """
    if not isinstance(given, Mapping):
        raise ConfigurationError("hooks: a mapping from names to functions is needed")
    names = [field.name for field in fields(Hooks)]
    for name in given:
        if name not in names:
            raise ConfigurationError(f"hooks.{name}: there is no such hook; there are {', '.join(names)}")
    for name in names:
        if name not in given and (strict or name not in DEFAULTS):
            why = ": the default verifies nothing, and strict takes none" if name in DEFAULTS else ""
            raise ConfigurationError(f"hooks.{name}: it is missing{why}")
        if name in given and not callable(given[name]):
            raise ConfigurationError(f"hooks.{name}: a function is needed, not {type(given[name]).__name__}")
        if strict and given[name] is DEFAULTS.get(name):
            raise ConfigurationError(f"hooks.{name}: this one verifies nothing, and strict takes none such")
    return Hooks(**{str(name): given[name] for name in given})
