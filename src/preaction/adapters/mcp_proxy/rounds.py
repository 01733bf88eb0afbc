"""Calls that were let through and go on in later messages: in rounds (since 2026-07-28), or as tasks (2025-11-25)."""

import json
from collections.abc import Mapping
from typing import Any, Final

from preaction.adapters._bridge import Go

MAX_ROUNDS: Final = 1_000
"""Calls whose server asked for more input, and tasks, that are remembered until they go on."""

Params = Mapping[str, Any]


class Rounds:
    """Calls that were let through and have no result yet: the server asked for more input, or made a task of them."""

    def __init__(self) -> None:
        self._open: dict[tuple[str | None, str], str] = {}
        self._tasks: dict[str, Go] = {}

    def opened(self, session_id: str | None, state: str, params: Params) -> None:
        """The server answered this call with a question."""
        self._open[session_id, state] = _call_key(params)
        while len(self._open) > MAX_ROUNDS:
            del self._open[next(iter(self._open))]

    def continues(self, session_id: str | None, params: Params) -> bool:
        """Whether this is the next round of such a call, with the same arguments; each is continued once."""
        state = params.get("requestState")
        return isinstance(state, str) and self._open.pop((session_id, state), None) == _call_key(params)

    def started(self, task: object, go: Go) -> None:
        """The server made a task of this call (2025-11-25)."""
        task_id = task.get("taskId") if isinstance(task, dict) else None
        if isinstance(task_id, str):
            self._tasks[task_id] = go
            while len(self._tasks) > MAX_ROUNDS:
                del self._tasks[next(iter(self._tasks))]

    def finished(self, params: Params) -> Go | None:
        """The call whose task's result was asked for; once."""
        task_id = params.get("taskId")
        return self._tasks.pop(task_id, None) if isinstance(task_id, str) else None


def _call_key(params: Params) -> str:
    return json.dumps([params.get("name"), params.get("arguments") or {}], sort_keys=True)
