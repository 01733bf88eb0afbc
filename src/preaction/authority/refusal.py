"""A request that is refused: a status, a title, and the place of each error. Becomes RFC 9457 problem JSON."""

from collections.abc import Iterable, Sequence
from typing import Final, Never

from pydantic import ValidationError

from preaction.errors import PreactionError
from preaction.wire.models import FieldError, PackProblem, PackRefusal, Problem

MAX_ERRORS: Final = 50
"""How many places one answer names at most."""


class Refused(PreactionError):
    """The request can't be answered; `problem` says why, in words that hold nothing of the request's own values."""

    def __init__(
        self, status: int, title: str, errors: Sequence[FieldError] = (), *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(f"{status} {title}")
        self.retry_after_s: Final = retry_after_s
        self.problem: Problem | PackRefusal = Problem(
            type="about:blank", status=status, title=title, errors=list(errors[:MAX_ERRORS])
        )

    @classmethod
    def pack(cls, problems: Sequence[PackProblem]) -> "Refused":
        """422 for a pack, with lines and columns."""
        refused = cls(422, "The pack can't be released.")
        title = refused.problem.title
        refused.problem = PackRefusal(type="about:blank", status=422, title=title, errors=list(problems[:MAX_ERRORS]))
        return refused

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return self.problem.status


def not_found() -> Refused:
    """The one 404: it doesn't tell what is unknown from what belongs to somebody else."""
    return Refused(404, "There is nothing here that this key may see.")


def invalid(errors: Iterable[tuple[Sequence[object], str]], title: str = "The request can't be used.") -> Refused:
    """422 with a JSON pointer for each (path, what is wrong there)."""
    return Refused(422, title, [FieldError(pointer=pointer(path), detail=detail) for path, detail in errors])


def wrong(path: Sequence[object], detail: str) -> Never:
    """Refuse with 422 for one place."""
    raise invalid([(path, detail)])


def pointer(path: Sequence[object]) -> str:
    """RFC 6901, such as `/evidence/topic/source`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def from_validation(error: ValidationError) -> Refused:
    """422 for a body of the wrong shape. Messages are pydantic's, without the inputs that they are about."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return invalid((each["loc"], each["msg"]) for each in found)
