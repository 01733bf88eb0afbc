"""Hooks for common cases. Each says what it proves, and what it doesn't."""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from preaction.errors import ConfigurationError
from preaction.options import names_of

__all__ = [
    "checked_items",
    "fits_schema",
    "literal_extraction",
    "measurements",
    "passed_measurements",
    "tool_names",
]

Hook: TypeAlias = Callable[..., Any]

_TRUSTED: Final = "user"
_JOINED_BEFORE: Final = re.compile(r"(?:\d[\W_]|[-+−])\Z")
_JOINED_AFTER: Final = re.compile(r"[\W_]\d")


def literal_extraction(find: Hook, *, read: Mapping[str, Callable[[str], Any]] | None = None) -> Hook:
    """An `extract_from_instruction` that takes a value only as it stands in a trusted segment.

    `find(field_name, instruction)`, sync or async, says which text the value is, or where it stands (`{"segment_index":
    0, "span": [5, 8]}`), or None. It may be a model: its answer counts only where the user wrote it, character for
    character, as a whole word or number, never as a part of a longer one. `read` makes values of texts, by field, such
    as `{"amount": int}`; what it raises leaves the field unknown. Raises `ConfigurationError` for what can't be right.

    Proves that the user wrote these characters. Doesn't prove that the user meant them for this field.
    """
    readers = _functions(read or {}, "read")
    if not callable(find):
        raise ConfigurationError("find: a function is needed")

    def extract_from_instruction(field_name: str, instruction: Sequence[Any]) -> Any:
        found = find(field_name, instruction)
        if inspect.isawaitable(found):
            return later(found, field_name, instruction)
        return extracted(found, field_name, instruction)

    async def later(found: Awaitable[Any], field_name: str, instruction: Sequence[Any]) -> Any:
        return extracted(await found, field_name, instruction)

    def extracted(found: Any, field_name: str, instruction: Sequence[Any]) -> dict[str, Any] | None:
        place = _place(found, instruction)
        if place is None:
            return None
        index, start, end = place
        text = instruction[index].text[start:end]
        value = readers[field_name](text) if field_name in readers else text
        return {"value": value, "segment_index": index, "span": [start, end]}

    return extract_from_instruction


def _place(found: Any, instruction: Sequence[Any]) -> tuple[int, int, int] | None:
    """Segment, start and end of what was found, if it stands there whole in a segment of the user's."""
    if isinstance(found, Mapping):
        places = [(found.get("segment_index"), *found.get("span", ()))]
    elif isinstance(found, str) and found:
        places = [
            (index, match.start(), match.end())
            for index, segment in enumerate(instruction)
            if isinstance(segment.text, str)
            for match in re.finditer(re.escape(found), segment.text)
        ]
    else:
        return None
    return next((place for place in places if _stands(instruction, *place)), None)


def _stands(instruction: Sequence[Any], index: Any = None, start: Any = None, end: Any = None, *more: Any) -> bool:
    if more or any(type(number) is not int for number in (index, start, end)) or not 0 <= index < len(instruction):
        return False
    segment = instruction[index]
    if segment.trust != _TRUSTED or not isinstance(segment.text, str) or not 0 <= start < end <= len(segment.text):
        return False
    text, before, after = segment.text[start:end], segment.text[:start], segment.text[end:]
    if (text[0].isalnum() and before[-1:].isalnum()) or (text[-1].isalnum() and after[:1].isalnum()):
        return False
    # `500` is no part of `1,500`, `-500` or `500 000`
    if text[0].isdecimal() and _JOINED_BEFORE.search(before):
        return False
    return not (text[-1].isdecimal() and _JOINED_AFTER.match(after))


def tool_names(names: Mapping[str, Sequence[str]]) -> Hook:
    """A `confirm_tool_name_matches_intent` over what your users call each tool: tool name → names of the action.

    A name is compared without case and by single blanks. Raises `ConfigurationError` where one stands under two tools.

    Proves that the tool is the one that was written down for these words. Doesn't understand any others.
    """
    if not isinstance(names, Mapping):
        raise ConfigurationError("names: a mapping from tool names to names of the action is needed")
    tool_of: dict[str, str] = {}
    for tool, called in names.items():
        for name in names_of(called, f"names.{tool}"):
            if tool_of.setdefault(_plain(name), tool) != tool:
                raise ConfigurationError(f"names.{tool}: {name!r} stands under {tool_of[_plain(name)]!r} as well")

    def confirm_tool_name_matches_intent(user_action_name: str, tool: Mapping[str, Any]) -> dict[str, Any]:
        meant = tool_of.get(_plain(user_action_name))
        if meant is None:
            return {"approved": False, "reason": "the user's name for the action stands under no tool"}
        if meant != tool.get("name"):
            return {"approved": False, "reason": "the user's name for the action stands under another tool"}
        return {"approved": True, "reason": "the user's name for the action stands under this tool"}

    return confirm_tool_name_matches_intent


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def measurements(measure: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> Hook:
    """A `measure_from_environment` that asks your own functions, by field: `function(context)`, sync or async.

    None means that there is nothing to measure; a field without a function is not measured. Raises `ConfigurationError`
    for what can't be right.

    Proves that this function answered just now. Whether it observes or guesses is up to it: let no model answer in it.
    """
    functions = _functions(measure, "measure")

    def measure_from_environment(field_name: str, context: Mapping[str, Any]) -> Any:
        if field_name not in functions:
            return None
        value = functions[field_name](context)
        return _valid_later(value) if inspect.isawaitable(value) else _valid(value)

    return measure_from_environment


def passed_measurements(field_name: str, context: Mapping[str, Any]) -> Any:
    """A `measure_from_environment` that takes what the caller measured: `measured_data[field_name]`, wrapped.

    Proves nothing by itself: the caller says that it was measured.
    """
    return (context.get("measured_data") or {}).get(field_name)


def _valid(value: Any) -> dict[str, Any]:
    return {"valid": value is not None, "value": value}


async def _valid_later(value: Awaitable[Any]) -> dict[str, Any]:
    return _valid(await value)


def checked_items(checks: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> Hook:
    """A `verify_user_checklist_item` that asks your own functions, by the item's id: `function(context)`.

    Only True, sync or async, verifies an item. Raises `ConfigurationError` for what can't be right.

    Proves that this function said so just now.
    """
    functions = _functions(checks, "checks")

    def verify_user_checklist_item(item: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
        said = functions[item["id"]](context) if item["id"] in functions else None
        return _verified_later(item, said) if inspect.isawaitable(said) else _verified(item, said)

    return verify_user_checklist_item


def _verified(item: Mapping[str, Any], said: object) -> dict[str, Any]:
    return {**item, "status": "verified", "source": "measured_data"} if said is True else {**item}


async def _verified_later(item: Mapping[str, Any], said: Awaitable[Any]) -> dict[str, Any]:
    return _verified(item, await said)


def fits_schema(value: Any, schema: Mapping[str, Any], context: Mapping[str, Any]) -> str | None:
    """A `validate_field_schema` by JSON Schema 2020-12 (extra `pipeline`): which keyword isn't met, or None.

    A schema that can't be used is not met either. The value is in no reason.

    Proves type, format and bounds. Doesn't prove that the value is the right one.
    """
    try:
        validator = _validator(json.dumps(schema, sort_keys=True))
        error = next(iter(validator.iter_errors(value)), None)
    except (ImportError, TypeError, ValueError) as broken:
        return f"its schema can't be used: {type(broken).__name__}"
    return None if error is None else f"it does not meet {error.kind.name}"


@lru_cache(maxsize=1024)
def _validator(schema: str) -> Any:
    from preaction.wire.json_schema import validator_of

    return validator_of(json.loads(schema))


def _functions(given: Mapping[str, Callable[..., Any]], where: str) -> dict[str, Callable[..., Any]]:
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{where}: a mapping from names to functions is needed")
    for name, function in given.items():
        if not callable(function):
            raise ConfigurationError(f"{where}.{name}: a function is needed")
    return dict(given)
