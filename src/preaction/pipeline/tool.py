"""A tool as it is registered: its schema, what it does, and the trusted hooks around it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from preaction.errors import ConfigurationError, PreactionError
from preaction.options import name_of, names_of, seconds_of
from preaction.pipeline.proposal import TrustedContext
from preaction.pipeline.schema import InputSchema, validator_of

Hook: TypeAlias = Callable[..., Any]


class Allowed:
    """An `authorize` hook's yes. Only this is one."""


@dataclass(frozen=True, slots=True)
class Denied:
    """An `authorize` hook's no. `code` is for the record; the model only hears that the action isn't allowed."""

    code: str = "denied"


class NotVisible(PreactionError):
    """A `resolve` hook's answer, returned or raised, for an object that isn't there and for one of somebody else.

    Both have to be found out by the same work, such as one query with the tenant in its condition (P5).
    """


class PublicToolError(PreactionError):
    """Raised by a tool that did nothing, with a text that the model may read and act on."""


class NothingSent(PreactionError):
    """Raised by a tool that failed and is certain that nothing was done: the same call may be made again."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a tool runs with, made after every check. `arguments` is the tool's own copy."""

    tool: str
    arguments: dict[str, Any]
    context: TrustedContext
    objects: Mapping[str, Any]
    idempotency_key: str | None


@dataclass(frozen=True)
class Tool:
    """One tool. Every hook may be sync or async, gets copies of the arguments, and denies the call when it raises.

    - `run(command)` acts. `effect` is "read" or "write"; a write gets an idempotency key.
    - `resolve(arguments, context)` → the business objects by name, or `NotVisible()`; a None among them is one, too.
    - `authorize(context, tool_name, objects, arguments)` → `Allowed()` or `Denied(code)`; left out, all may.
    - `confirm(arguments, objects)` → whether a person has to; anything but False means yes. Or True.
    - `summary(arguments, objects)` → what that person is shown. `object_ids(objects)` → names them for the record.
    - `reconcile(idempotency_key)` → the result of an act whose outcome got lost, or None when nothing was done.
    - `sanitise(result)` → the result without what the model needn't see; after `output_schema` was checked.
    - `operation_id(result)` → the id that the system behind gave the act; `audit_fields` are arguments that the record
      may hold in clear.
    """

    name: str
    run: Hook
    input_schema: Mapping[str, Any] | type[BaseModel]
    description: str = ""
    effect: Literal["read", "write"] = "write"
    resolve: Hook | None = None
    authorize: Hook | None = None
    confirm: Hook | bool | None = None
    summary: Hook | None = None
    object_ids: Hook | None = None
    timeout_s: float = 10
    output_schema: Mapping[str, Any] | None = None
    sanitise: Hook | None = None
    reconcile: Hook | None = None
    repeatable: bool = False
    operation_id: Hook | None = None
    audit_fields: tuple[str, ...] = ()
    input: InputSchema = field(init=False, repr=False, compare=False)
    output: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        where = f"tools.{name_of(self.name, 'tool', tool=True)}"
        if self.effect not in ("read", "write"):
            raise ConfigurationError(f"{where}.effect: 'read' or 'write', not {self.effect!r}")
        if inspect.isgeneratorfunction(self.run) or inspect.isasyncgenfunction(self.run) or not callable(self.run):
            raise ConfigurationError(f"{where}.run: a function is needed that acts when it is called")
        for name in ("resolve", "authorize", "summary", "object_ids", "sanitise", "reconcile", "operation_id"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigurationError(f"{where}.{name}: a function is needed")
        if not isinstance(self.confirm, bool | None) and not callable(self.confirm):
            raise ConfigurationError(f"{where}.confirm: a function is needed, or True")
        names_of(self.audit_fields, f"{where}.audit_fields")
        seconds_of(self.timeout_s, f"{where}.timeout_s")
        schema = self.output_schema
        object.__setattr__(self, "input", InputSchema(self.input_schema, f"{where}.input_schema"))
        output = None if schema is None else validator_of(schema, f"{where}.output_schema")
        object.__setattr__(self, "output", output)

    @property
    def acts(self) -> bool:
        """Whether it has a side effect."""
        return self.effect == "write"

    def definition(self) -> dict[str, Any]:
        """Name, description and input schema, as model APIs want them."""
        return {"name": self.name, "description": self.description, "input_schema": self.input.schema}
