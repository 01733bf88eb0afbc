"""Masking (F13): a storage around another one, which is never given the values of some fields.

A masked field is marked and has no value, so that it can be no baseline (F8), whoever reads it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from preaction.errors import ConfigurationError
from preaction.options import names_of
from preaction.preflight.storage import Record, Storage, claim_of, read, written

_MASK: Final = "***"
_SHORTEST: Final = 4
"""Shorter values stand in too many texts by chance, and tell little."""

_KEPT: Final = frozenset(("schema_version", "action_key", "phase", "execution_decision", "timestamp"))
_STRUCTURE: Final = frozenset(("name", "id", "user_id", "status", "source", "kind", "trust"))


class MaskedStorage:
    """A storage that keeps records in `inner` without the values of `fields`, by name or as JSON pointers (`/to/iban`).

    A field named for an object covers all that is in it. Where a masked value of four characters or more stands in
    another place of the record, character for character, that is masked too: a text gets `***`, a field or an answer
    loses its value, and a segment of a deferred instruction its trust. So a deferred record that is read back from here
    asks again for what is masked; one that `State.to_json` gave resumes. The action key is kept as it is. Raises
    `ConfigurationError` for what can't be right.
    """

    def __init__(self, inner: Storage, fields: Sequence[str]) -> None:
        if not isinstance(inner, Storage):
            raise ConfigurationError("storage: an object with persist and load is needed")
        self._inner = inner
        self._fields = tuple(map(_pointer, names_of(fields, "fields")))
        if not self._fields:
            raise ConfigurationError("fields: empty, so nothing would be masked")
        self.claim = claim_of(inner)

    def persist(self, action_key: str, record: Record) -> Any:
        """Add the masked record; see `Storage.persist`."""
        plain = read(written(record)) or {}
        answers = _answers_of(plain)
        hidden = set(_texts([one.get("value") for one in plain.get("fields") or () if self._covers(one["name"])]))
        hidden |= set(_texts([value for name, value in answers.items() if self._covers(name)]))
        return self._inner.persist(action_key, self._masked(plain, {text for text in hidden if len(text) >= _SHORTEST}))

    def load(self, action_key: str) -> Any:
        """What was executed last, as it was kept; see `Storage.load`."""
        return self._inner.load(action_key)

    def _covers(self, name: object) -> bool:
        """Whether the field is masked, or holds one that is, or is held by one."""
        place = _pointer(str(name)) + "/"
        return any(place.startswith(one + "/") or (one + "/").startswith(place) for one in self._fields)

    def _masked(self, plain: dict[str, Any], hidden: set[str]) -> dict[str, Any]:
        answers = _answers_of(plain)
        for name in [name for name, value in answers.items() if self._covers(name) or _holds(value, hidden)]:
            del answers[name]
        kept = {name: value if name in _KEPT else _scrubbed(value, hidden) for name, value in plain.items()}
        if plain.get("fields"):
            kept["fields"] = [self._masked_field(one, hidden) for one in plain["fields"]]
        return kept

    def _masked_field(self, field: dict[str, Any], hidden: set[str]) -> dict[str, Any]:
        if "value" not in field or not (self._covers(field["name"]) or _holds(field["value"], hidden)):
            return field
        return field | {"value": None, "masked": True}


def _pointer(name: str) -> str:
    """A field as a JSON pointer; a flat one is named without the stroke."""
    return name if name.startswith("/") else "/" + name.replace("~", "~0").replace("/", "~1")


def _answers_of(plain: dict[str, Any]) -> dict[str, Any]:
    deferred = plain.get("deferred_input")
    answers = deferred.get("user_answers") if isinstance(deferred, dict) else None
    return answers if isinstance(answers, dict) else {}


def _texts(value: Any) -> Iterator[str]:
    """Every text and number in a value, as it would be written."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _holds(value: Any, hidden: set[str]) -> bool:
    return any(secret in text for text in _texts(value) for secret in hidden)


def _scrubbed(value: Any, hidden: set[str], *, segment: bool = False) -> Any:
    """The value with each hidden text replaced; a segment that held one is nobody's word any more."""
    if isinstance(value, str):
        for secret in sorted(hidden, key=len, reverse=True):
            value = value.replace(secret, _MASK)
        return value
    if isinstance(value, list):
        return [_scrubbed(one, hidden) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: one if name in _STRUCTURE else _scrubbed(one, hidden) for name, one in value.items()}
    return found | {"trust": "masked"} if found != value and "trust" in value else found
