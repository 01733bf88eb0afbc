"""Validated arguments as JSON has them: what the gate is to check of the objects that a body will get."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, RootModel
from pydantic_core import to_jsonable_python


def plain(value: Any) -> Any:
    """Models and data classes field by field: a dump would leave out what their author excluded from dumps.

    Raises what pydantic raises for a value that has no form in JSON.
    """
    if isinstance(value, RootModel):
        return plain(value.root)
    if isinstance(value, BaseModel):
        return {name: plain(inner) for name, inner in value}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value if type(value) in (str, int, float, bool, type(None)) else to_jsonable_python(value)
