"""5 · The real tools, as an MCP server lists them or as Python functions: name, JSON Schema of arguments, hints."""

import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel, Field, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError

from preaction._core.denied import quote
from preaction.errors import ConfigurationError
from preaction.lint.shapes import Schema

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a runtime offers it. The hints are the server's own word, None where it gives none."""

    name: str
    schema: Schema
    read_only: bool | None = None
    destructive: bool | None = None

    @property
    def needed(self) -> frozenset[str]:
        """The fields that each call must have."""
        named = self.schema.get("required")
        return frozenset(name for name in named if isinstance(name, str)) if isinstance(named, list) else frozenset()


def listed_tool(entry: Mapping[str, Any]) -> Tool:
    """A tool from its entry in the answer to MCP's `tools/list`."""
    schema, hints = entry.get("inputSchema"), entry.get("annotations")
    known = hints if isinstance(hints, Mapping) else {}
    said = [known[name] if isinstance(known.get(name), bool) else None for name in ("readOnlyHint", "destructiveHint")]
    return Tool(str(entry["name"]), schema if isinstance(schema, Mapping) else {}, *said)


# Python functions -----------------------------------------------------------------------------------------------------


def load_tools(where: str, ignore: Collection[str] = ()) -> list[Tool]:
    """The tools that `module:attribute` names; `ignore` are parameters that a runtime injects.

    The attribute is a function, a list of functions, a mapping from names to functions, or a class, object or module
    whose public functions are the tools. The module is imported, from the current folder before others.
    `ConfigurationError` where there are none.
    """
    module_name, _, attribute = where.partition(":")
    found: Any = _imported(module_name)
    for name in filter(None, attribute.split(".")):
        found = getattr(found, name, None)
        if found is None:
            raise ConfigurationError(f"{where}: {quote(module_name)} has no {quote(attribute)}")
    tools = []
    for name, function in _named(found):
        if not callable(function):
            raise ConfigurationError(f"{where}: {quote(name)} is no function")
        tools.append(Tool(name, schema_of(function, ignore)))
    if not tools:
        raise ConfigurationError(f"{where}: there is no function in it")
    return tools


def _imported(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(f"{quote(name)} is not the name of a module; module:attribute is needed")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        with redirect_stdout(sys.stderr):  # stdout is for the findings
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        missing = f" {quote(error.name)}" if isinstance(error, ModuleNotFoundError) and error.name else ""
        raise ConfigurationError(f"the module {name} can't be imported: {type(error).__name__}{missing}") from None
    finally:
        sys.path.remove(here)


def _named(found: Any) -> Iterator[tuple[str, Any]]:
    """Names and what should be functions; of a class or object its public methods, of a module its own functions."""
    if inspect.isroutine(found):
        yield found.__name__, found
    elif isinstance(found, Mapping):
        yield from ((str(name), function) for name, function in found.items())
    elif isinstance(found, Iterable) and not isinstance(found, type):
        yield from ((getattr(each, "__name__", type(each).__name__), each) for each in found)
    else:
        own = found.__name__ if isinstance(found, ModuleType) else None
        for name, _ in inspect.getmembers_static(found, inspect.isroutine):  # which runs no property
            function = getattr(found, name)
            if not name.startswith("_") and own in (None, getattr(function, "__module__", None)):
                yield name, function


def schema_of(function: Callable[..., Any], ignore: Collection[str] = ()) -> Schema:
    """JSON Schema of a function's parameters; a parameter whose type has no such schema may hold anything."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return {}
    if parameters and parameters[0].name == "self" and "." in getattr(function, "__qualname__", ""):
        del parameters[0]
    hints = _hints(function)
    named = [each for each in parameters if each.kind not in _VARIADIC and each.name not in ignore]
    fields: dict[str, Any] = {
        f"p{index}": (_schemed(hints.get(each.name, Any)), Field(alias=each.name)) for index, each in enumerate(named)
    }
    arguments: type[BaseModel] = create_model("Arguments", **fields)
    schema = arguments.model_json_schema()
    for each in named:
        if isinstance(each.default, str | int | float | None):
            schema["properties"][each.name] = {**schema["properties"][each.name], "default": each.default}
    schema["required"] = [each.name for each in named if each.default is inspect.Parameter.empty]
    schema.setdefault("properties", {})
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        schema["additionalProperties"] = True
    return schema


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except (NameError, TypeError, AttributeError):  # a name that only a type checker knows
        return {}


def _schemed(annotation: Any) -> Any:
    try:
        TypeAdapter(annotation).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, AttributeError, NameError):
        return Any
    return annotation
