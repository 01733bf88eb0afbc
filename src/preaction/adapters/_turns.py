"""Where a call stands: in which turn of its model, and inside which other call when its agent is itself a tool.

An agent that a tool runs belongs to the session of the call that runs it, and for as long as that call takes its own
turns stand within one turn of the outer model. Shared by the runtimes whose agents can be tools.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from preaction.adapters._bridge import Go


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A batch for the bridge: per level, outermost first, the call that runs the agent and the turn of its model.

    Two turns are equal when neither model could have seen the other's results (A5): the same turn, one within the
    other, and turns within two calls made side by side. A later turn of the same agent is another.
    """

    path: tuple[tuple[object, object], ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Turn):
            return NotImplemented
        for mine, theirs in zip(self.path, other.path, strict=False):
            if mine != theirs:
                return mine[0] is not theirs[0]
        return True

    __hash__ = None  # type: ignore[assignment]  # equality isn't transitive


_around: ContextVar[Go | None] = ContextVar("preaction_around", default=None)
"""The call whose body runs; as an object it is the call's identity."""


def turn(which: object) -> Turn:
    """The turn `which` of the model that makes the present call, within whatever call runs its agent."""
    around = _around.get()
    outer = around.batch.path if around is not None and isinstance(around.batch, Turn) else ()
    return Turn((*outer, (around, which)))


def outer_session() -> str | None:
    """The session of the call that runs this agent as a tool; None for an agent that no call runs."""
    around = _around.get()
    return None if around is None else around.session_id


@contextmanager
def inside(go: Go) -> Iterator[None]:
    """While the body of an allowed call runs."""
    token = _around.set(go)
    try:
        yield
    finally:
        _around.reset(token)
