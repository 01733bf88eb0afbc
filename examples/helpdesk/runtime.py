"""A very small agent runtime: it takes the calls that a model proposes, asks the gate, and runs what is allowed.

This is the whole of what an adapter does. The model only ever sees what `call` returns.
"""

from collections.abc import Callable, Mapping
from typing import Any

from preaction import ActionGate, Verdict


class Runtime:
    """`tools` act and are gated. `authority_tools` ask the authority; the gate keeps what they return."""

    def __init__(
        self,
        gate: ActionGate,
        session_id: str,
        tools: Mapping[str, Callable[..., str]],
        authority_tools: Mapping[str, Callable[..., dict[str, Any]]],
    ) -> None:
        self._gate = gate
        self._session_id = session_id
        self._tools = tools
        self._authority_tools = authority_tools

    def ask(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Call one of the authority's tools, and record its result before the model hears of it."""
        result = self._authority_tools[tool](**args)
        self._gate.record_result(self._session_id, tool, args, result)
        return result

    def act(self, tool: str, args: dict[str, Any]) -> Verdict:
        """Ask the gate about a call, and run it with the checked arguments if it is allowed."""
        verdict = self._gate.check(self._session_id, tool, args)
        if verdict.allow:
            self._tools[tool](**verdict.arguments)
        return verdict
