"""`gate.wrap`: a function that can only run with arguments that passed the gate."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import BoundArguments, Parameter
from typing import Any, Protocol, TypeVar, cast

from preaction._core.verdict import ActionDenied, Verdict
from preaction.errors import ConfigurationError
from preaction.options import is_async

F = TypeVar("F", bound=Callable[..., Any])


class Gate(Protocol):
    """What of an `ActionGate` a guarded function needs."""

    @property
    def current_session(self) -> str | None:
        """The session that the call belongs to."""
        ...

    def is_gated(self, tool: str) -> bool:
        """Whether a rule names this tool."""
        ...

    def check(self, session_id: str | None, tool: str, args: Mapping[str, Any]) -> Verdict:
        """The verdict on one call."""
        ...

    async def acheck(self, session_id: str | None, tool: str, args: Mapping[str, Any]) -> Verdict:
        """As `check`, from an event loop."""
        ...


def wrap(gate: Gate, tool: str, function: F, ignore: Sequence[str]) -> F:
    """See `ActionGate.wrap`."""
    if not gate.is_gated(tool):
        raise ConfigurationError(f"wrap: no rule names the tool {tool!r}")
    if not callable(function):
        raise ConfigurationError("wrap: a function is needed")
    for called in (function, type(function).__call__):
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            raise ConfigurationError("wrap: a generator acts after it was checked; wrap the function that acts")
    binder = _Binder(function, ignore)

    if is_async(function):

        @functools.wraps(function)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            bound, fields = binder.read(args, kwargs)
            verdict = await gate.acheck(gate.current_session, tool, fields)
            if verdict.enforced:
                args, kwargs = binder.checked(bound, verdict)
            return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            bound, fields = binder.read(args, kwargs)
            verdict = gate.check(gate.current_session, tool, fields)
            if verdict.enforced:
                args, kwargs = binder.checked(bound, verdict)
            return function(*args, **kwargs)

    return cast("F", guarded)


class _Binder:
    """Binds a call to the function's signature and back, so that the gate sees what the function would run with."""

    def __init__(self, function: Callable[..., Any], ignore: Sequence[str]) -> None:
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise ConfigurationError("wrap: the function tells no signature, so its calls can't be checked") from None
        kinds = {name: parameter.kind for name, parameter in self._signature.parameters.items()}
        self._rest = next((name for name, kind in kinds.items() if kind is Parameter.VAR_KEYWORD), None)
        self._more = next((name for name, kind in kinds.items() if kind is Parameter.VAR_POSITIONAL), None)
        unknown = set(ignore) - kinds.keys()
        if unknown:
            raise ConfigurationError(f"wrap: ignore names no parameter of the function: {sorted(unknown)}")
        self._ignored = {*ignore, self._rest, self._more}

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[BoundArguments | None, Any]:
        """The bound call with defaults, and its fields; no fields for what doesn't bind, which the gate denies."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return None, None
        bound.apply_defaults()
        fields = {name: value for name, value in bound.arguments.items() if name not in self._ignored}
        rest = bound.arguments.get(self._rest or "", {})
        if bound.arguments.get(self._more or "", ()) or fields.keys() & rest.keys():
            return bound, None
        return bound, {**fields, **rest}

    def checked(self, bound: BoundArguments | None, verdict: Verdict) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to run with where the verdict is binding: the checked copy."""
        if not verdict.allow or bound is None:
            raise ActionDenied(verdict)
        checked = verdict.arguments
        rest = {name: checked.pop(name) for name in bound.arguments.get(self._rest or "", {})}
        bound.arguments.update(checked)
        if self._rest is not None:
            bound.arguments[self._rest] = rest
        return bound.args, bound.kwargs
