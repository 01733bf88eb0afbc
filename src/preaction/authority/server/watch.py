"""What is known of each request when it has been answered, for logs and counters.

Nothing of it is a caller's own text: a route is its template, a method one of a few, ids are those that the answer
named. So neither a log nor a counter can hold a body, a key, a value of the query, or the path that was asked.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from preaction.wire.models import Decision

_SEEN: Final = "preaction.seen"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ANSWER: Final = 0
"""The status of a request whose sender left before the answer began."""


@dataclass(slots=True)
class Seen:
    """One request, filled while it is answered. `route` is empty for a path that there is none for."""

    method: str = ""
    route: str = ""
    status: int = NO_ANSWER
    seconds: float = 0.0
    key_id: str | None = None
    execution_id: str | None = None
    decision: Decision | None = None

    def answered(self, result: object) -> None:
        """Note what an answer is about."""
        execution_id = getattr(result, "execution_id", None)
        if isinstance(execution_id, str):
            self.execution_id = execution_id
        if isinstance(result, Decision):
            self.decision = result


Watcher: TypeAlias = Callable[[Seen], None]


def seen(scope: Any) -> Seen:
    """What is noted of the request of this scope."""
    found: Seen = scope.setdefault(_SEEN, Seen())
    return found


class Watch:
    """Around an application: tells each watcher of each request, once it is over."""

    def __init__(self, app: ASGIApp, watchers: Sequence[Watcher]) -> None:
        self._app = app
        self._watchers = tuple(watchers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        noted = seen(scope)
        began = time.perf_counter()

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                noted.status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            noted.seconds = time.perf_counter() - began
            noted.method = scope["method"] if scope["method"] in _METHODS else "other"
            noted.route = getattr(scope.get("route"), "path", "")
            for watcher in self._watchers:
                # A full disk or a closed pipe must not end what was answered.
                with suppress(OSError, ValueError):
                    watcher(noted)
