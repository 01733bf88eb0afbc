"""Preflight in the pipeline (F15, F16): a step that asks where the values come from, and the pipeline as its hands."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from preaction._core.denied import quote
from preaction.errors import ConfigurationError, PreactionError
from preaction.pipeline.outcome import Code
from preaction.pipeline.pipeline import ToolPipeline
from preaction.pipeline.proposal import ProposedCall, TrustedContext
from preaction.pipeline.texts import command_digest
from preaction.pipeline.tool import Command, Hook, NothingSent
from preaction.preflight import Preflight, State
from preaction.preflight.tool import arguments_of

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Unsourced:
    """The call sets `fields` to something else than what was looked up."""

    fields: tuple[str, ...]
    execution_decision: str = "ask_user"

    @property
    def for_model(self) -> str:
        """What the model is told: the names, and no value."""
        named = ", ".join(map(quote, self.fields[:_MOST_NAMED]))
        return f"Not executed, nothing was done: {named} isn't what the user gave. Ask the user, and don't guess."


@dataclass(frozen=True, slots=True)
class Sources:
    """What `sources_of` gives: a pipeline's step, and the hands by which it makes the calls that were decided on."""

    preflight: Preflight
    inputs: Callable[[TrustedContext], Any]

    async def __call__(
        self, tool: Mapping[str, Any], arguments: Mapping[str, Any], context: TrustedContext
    ) -> State | Unsourced:
        """Look each value up, and compare it with what the model has set."""
        given = self.inputs(context)
        given = {"user_id": context.subject, **(await given if inspect.isawaitable(given) else given)}
        required = {**tool, "inputSchema": _requiring(tool["input_schema"], arguments)}
        state = await self.preflight.run_and_record(**given, tool=required)
        if state.execution_decision != "execute":
            return state
        looked = arguments_of((one["name"], one["value"]) for one in state.fields or ())
        names = [name for name in {**looked, **arguments} if not _same(name, looked, arguments)]
        return Unsourced(tuple(names)) if names else state

    async def execute_decided(self, state: State, command: Command, run: Hook, limit_s: float) -> Any:
        """Run the command as the state's act: once, its action key locked, and recorded as executed or failed.

        What holds it raises `NothingSent`; what the tool raises is raised.
        """
        done = await self.preflight.execute_if_ready(
            state, {"name": command.tool}, lambda name, arguments: run(command), timeout_s=limit_s
        )
        if done.status == "executed":
            return done.result
        raise NothingSent if done.status == "held" else done.error or TimeoutError


def sources_of(preflight: Preflight, inputs: Callable[[TrustedContext], Any]) -> Sources:
    """A `preflight` for a `ToolPipeline`: each argument of a write is what a source holds, or the user is asked.

    `inputs(context)`, sync or async, gives what `run_and_record` takes beside the tool, from your own side and never
    from the model: `instruction`, `user_answers`, …; without a `user_id` it is the context's subject. What the schema
    leaves out and the call sets all the same is looked up, too. Raises `ConfigurationError` for what can't be right.
    """
    asked: object = preflight
    if not isinstance(asked, Preflight) or not callable(inputs):
        raise ConfigurationError("sources_of: a preflight, and a function of the context, are needed")
    return Sources(preflight, inputs)


def _requiring(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, requiring what the call sets as well, so that each value is looked up."""
    properties = dict(schema.get("properties", {}))
    for name, value in arguments.items():
        inner = properties.get(name)
        if isinstance(value, dict) and isinstance(inner, dict) and inner.get("required"):
            properties[name] = _requiring(inner, value)
    return {
        **schema,
        "properties": properties,
        "required": list(dict.fromkeys([*schema.get("required", ()), *arguments])),
    }


def _same(name: str, looked: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether the call sets exactly the value that was looked up."""
    return name in looked and name in arguments and command_digest(looked[name]) == command_digest(arguments[name])


class NotExecuted(PreactionError):
    """The pipeline didn't execute what a preflight had decided. `code` is its outcome's."""

    def __init__(self, code: Code) -> None:
        super().__init__(f"the pipeline did not execute the call: {code}")
        self.code = code


def call_through(pipeline: ToolPipeline, context: TrustedContext) -> Callable[[str, dict[str, Any]], Any]:
    """A `call_tool` for `execute_if_ready` that goes the pipeline's whole way; it gives the outcome's result.

    The act has the pipeline's idempotency key (P8): of two decisions on the same values in one `request_id`, one acts,
    and the other gets its result. All that isn't executed raises `NotExecuted`.
    """

    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        outcome = await pipeline.handle(ProposedCall("preflight", name, arguments), context)
        if outcome.disposition != "execute":
            raise NotExecuted(outcome.code)
        return outcome.result

    return call_tool
