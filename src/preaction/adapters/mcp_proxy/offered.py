"""The tools of a server, held against those that the rules name (A8).

A rule holds by the tool's exact name. Where the server lacks such a name, one of its other tools may be the one that
was meant, and would pass without a rule: so then every tool that the rules don't name is denied.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import anyio

from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

log = logging.getLogger("preaction")

LIST_S: Final = 30.0
"""How long a call waits for the list of tools, if it is the list that it needs."""
MAX_PAGES: Final = 1_000
"""Pages of a list, and pages that are remembered."""
UNKNOWN: Final = (
    "Denied, nothing was done: the server has not said which tools it has, so this one may be one that the gate's "
    "rules name otherwise; hand the case to a person."
)
MISSING: Final = (
    "Denied, nothing was done: the gate's rules name {}, which the server does not have, so this tool may be the one "
    "that was meant; hand the case to a person."
)


class Offered:
    """What one server offers. `accept` are names of the rules that it need not have.

    `missing` are those that it lacks; None as long as no whole list was seen. Raises `ConfigurationError` for a name in
    `accept` that the rules don't have.
    """

    def __init__(self, gate: ActionGate, accept: Iterable[str] = ()) -> None:
        accepted = frozenset(accept)
        if unknown := accepted - gate.known_tools:
            raise ConfigurationError(f"accept: no rule names {', '.join(sorted(unknown))}")
        self.asked = False
        self.missing: frozenset[str] | None = None
        self.tools: frozenset[str] = frozenset()
        self._gate = gate
        self._needed = gate.known_tools - accepted
        self._pages: dict[str, frozenset[str]] = {}
        self._settled = anyio.Event()

    def page(self, cursor: object, result: Mapping[str, Any]) -> str | None:
        """Take in one page of a list; gives the cursor of the next one, None after the last one."""
        before = frozenset[str]() if cursor is None else self._pages.get(str(cursor))
        tools = result.get("tools")
        if before is None or not isinstance(tools, list):
            return None
        names = {tool.get("name") for tool in tools if isinstance(tool, dict)}
        names_so_far = before | {name for name in names if isinstance(name, str)}
        following = result.get("nextCursor")
        if isinstance(following, str):
            self._pages[following] = names_so_far
            while len(self._pages) > MAX_PAGES:
                del self._pages[next(iter(self._pages))]
            return following
        missing = self._needed - names_so_far
        if missing:
            log.error("%s", _lacks(missing, names_so_far), extra={"code": "mcp_tool_missing"})
        self.tools, self.missing = names_so_far, missing
        self.settle()
        return None

    def changing(self) -> None:
        """The list is being asked for: calls that depend on it wait."""
        self.asked, self.missing = True, None
        if self._settled.is_set():
            self._settled = anyio.Event()

    def settle(self) -> None:
        """No list is on its way any more; calls that wait are judged by what is known."""
        self.asked = self.missing is not None
        self._settled.set()

    async def doubt(self, tool: str) -> str | None:
        """Why a call of this tool is denied before any rule is asked, if it is."""
        if self._gate.knows(tool) or not self._needed:
            return None
        with anyio.move_on_after(LIST_S):
            while not self._settled.is_set():  # it may be a new one by the time that we are woken
                await self._settled.wait()
        if self.missing is None:
            return UNKNOWN
        return MISSING.format(", ".join(sorted(self.missing))) if self.missing else None

    @property
    def asking(self) -> bool:
        """Whether a list is on its way that the proxy asked for; any other one may be older."""
        return self.asked and not self._settled.is_set()

    @property
    def refusal(self) -> str | None:
        """What is wrong, for whoever starts the proxy, if anything is."""
        return _lacks(self.missing, self.tools) if self.missing else None


def _lacks(missing: frozenset[str], tools: frozenset[str]) -> str:
    known = ", ".join(sorted(tools)) or "none"
    return f"the server has no tool called {', '.join(sorted(missing))}; its tools are: {known}"
