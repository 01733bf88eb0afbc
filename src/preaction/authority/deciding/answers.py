"""First answers: a request that comes twice with one idempotency key is answered once and told so twice."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from preaction.authority.keys import Caller
from preaction.authority.refusal import Refused, invalid
from preaction.authority.storage.storage import ANSWERS, Storage
from preaction.errors import InvalidJSON
from preaction.wire.digest import digest
from preaction.wire.models import Wire
from preaction.wire.times import write_time

_BY_ID: Final = sa.select(ANSWERS).where(ANSWERS.c.id == sa.bindparam("id"))
_KEY: Final = re.compile(r"[!-~]{1,200}", re.ASCII)

W = TypeVar("W", bound=Wire)


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A request that may come again: who sent it under which key, and what exactly it asked."""

    id: str
    request: str


def repeatable(caller: Caller, key: str | None, operation: Sequence[str], body: Any) -> Repeatable | None:
    """What makes two requests the same one; None without a key. 422 for a key or a body that can't be compared."""
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise invalid([], "An Idempotency-Key has 1 to 200 visible ASCII characters.")
    try:
        return Repeatable(digest([caller.key_id, *operation, key]), digest(body))
    except InvalidJSON:
        raise invalid([((), "a number or a text in it has no canonical JSON")]) from None


class Answers:
    """The first answers of one database."""

    def __init__(self, storage: Storage, clock: Callable[[], datetime]) -> None:
        self._storage = storage
        self._clock = clock

    def first(self, connection: sa.Connection, repeat: Repeatable | None, model: type[W]) -> W | None:
        """The answer that this request got before. 422 when the key was used for another body."""
        if repeat is None:
            return None
        row = self._storage.one(connection, _BY_ID, id=repeat.id)
        if row is None:
            return None
        if not self._storage.intact(ANSWERS, row):
            raise Refused(409, "The first answer to this Idempotency-Key was altered in the database.")
        if row["request"] != repeat.request:
            raise invalid([], "This Idempotency-Key was used for another request.")
        return model.model_validate_json(row["answer"])

    def once(self, repeat: Repeatable | None, model: type[W], make: Callable[[sa.Connection], W]) -> W:
        """The first answer, or one made and kept in a single transaction."""
        with self._storage.writing() as connection:
            answer = self.first(connection, repeat, model)
            if answer is not None:
                return answer
            answer = make(connection)
            if repeat is not None:
                text, at = answer.model_dump_json(exclude_unset=True), write_time(self._clock())
                row = {"id": repeat.id, "request": repeat.request, "answer": text, "created_at": at}
                self._storage.insert(connection, ANSWERS, row)
            return answer
