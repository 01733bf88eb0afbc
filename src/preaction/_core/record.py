"""9 · Record: a decision as data: audit record, input of a replay, and vector for other languages, in one shape.

What a procedure asked and was answered, round by round, is all that its verdict hangs on besides call and rules (G36).
Nothing is stored or fetched here; `vectors/README.md` names every field.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from preaction._core.call import Call
from preaction._core.facts import (
    AnyAsk,
    Describe,
    Known,
    KnownText,
    Memory,
    Procedure,
    R,
    Recall,
    RecallTexts,
    Unavailable,
    Use,
    UseAnswer,
    Verify,
    VerifyOutputCheck,
    description,
    text_check,
    verification,
)
from preaction._core.procedure import judge
from preaction._core.rule import RuleBook
from preaction._core.trail import Trail
from preaction._core.verdict import Judgement, Verdict, verdict_of
from preaction.errors import InvalidJSON, RecordMismatch
from preaction.wire.models import Wire
from preaction.wire.times import read_time, write_time

T = TypeVar("T")

Round: TypeAlias = Mapping[AnyAsk, object]
"""One batch: each ask, in order, with its answer."""


def recording(procedure: Procedure[R], rounds: list[Round]) -> Procedure[R]:
    """`procedure` itself, to a driver; each round is appended to `rounds` as soon as it was answered."""
    done: list[R] = []
    with closing(_to_the_end(procedure, done)) as inner:
        batch = next(inner)
        while not done:
            answers = yield batch
            rounds.append(dict(zip(batch, answers, strict=True)))
            batch = inner.send(answers)
    return done[0]


def replay(call: Call, book: RuleBook, rounds: Sequence[Round], *, enforced: bool = True) -> Verdict:
    """The verdict that these rounds give on `call` under `book`; the call's arguments are read anew.

    Raises `RecordMismatch` where the decision asks for something else than was recorded: more, less, or of another
    case, text or release. Whether a use was to be taken is what the recorded `Use` says.
    """
    trail, done = Trail(), list[Judgement]()
    take = all(ask.take for asked in rounds for ask in asked if isinstance(ask, Use))
    judging = judge(call.session_id, call.tool, call.arguments, book, trail, take=take)
    with closing(_to_the_end(judging, done)) as procedure:
        batch = next(procedure)
        for number, answers in enumerate(rounds):
            if done:
                raise RecordMismatch(f"round {number}: the decision is made, but the record goes on")
            if answers.keys() != set(batch):
                raise RecordMismatch(f"round {number}: the decision asks for another {_names(batch)} than was recorded")
            batch = procedure.send([answers[ask] for ask in batch])
    if not done:
        raise RecordMismatch(f"round {len(rounds)}: the decision asks for {_names(batch)}, but the record ends")
    return verdict_of(done[0], trail, tool=call.tool, session_id=call.session_id, enforced=enforced)


def _to_the_end(procedure: Procedure[R], done: list[R]) -> Procedure[None]:
    """`procedure` with its result put into `done` and an empty batch after it, so that nobody meets its end."""
    done.append((yield from procedure))
    yield ()


def _names(batch: Sequence[AnyAsk]) -> str:
    return ", ".join(type(ask).__name__ for ask in batch)


# As JSON --------------------------------------------------------------------------------------------------------------

_KINDS: Final[Mapping[str, Callable[..., AnyAsk]]] = {
    "verify": Verify,
    "describe": Describe,
    "verifyOutputCheck": VerifyOutputCheck,
    "recall": Recall,
    "recallTexts": RecallTexts,
    "use": Use,
}


def rounds_to_json(rounds: Sequence[Round]) -> list[list[dict[str, Any]]]:
    """Rounds as JSON values: `[[{"ask": {"kind": …, …}, "answer": …}, …], …]`.

    What the authority answered is written as it was understood, in wire shape, or as `{"unavailable": why}`.
    """
    return [[{"ask": ask_to_json(ask), "answer": _plain(_read(ask, one[ask]))} for ask in one] for one in rounds]


def rounds_from_json(rounds: object) -> list[Round]:
    """The rounds again; `InvalidJSON` names the place of what hasn't their shape.

    What the authority answered is left as it is, to be read by the decision.
    """
    read: list[Round] = []
    for place, one in enumerate(_list(rounds)):
        answers: dict[AnyAsk, object] = {}
        for entry in _list(one):
            try:
                given = _object(entry, {"ask", "answer"})
                ask = ask_from_json(given["ask"])
                if ask in answers:
                    raise InvalidJSON("the ask stands in its round already")
                answers[ask] = _answer(ask, given["answer"])
            except ValueError as error:
                raise InvalidJSON(f"rounds[{place}][{len(answers)}]: {_why(error)}") from None
        read.append(answers)
    return read


def ask_to_json(ask: AnyAsk) -> dict[str, Any]:
    """An ask as its `kind` and its fields."""
    return {"kind": next(name for name, kind in _KINDS.items() if type(ask) is kind), **_plain(ask)}


def ask_from_json(value: object) -> AnyAsk:
    """The ask again; `InvalidJSON` for anything that `ask_to_json` doesn't write."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidJSON("an ask needs one of the known kinds")
    return _made(_KINDS[kind], {name: part for name, part in value.items() if name != "kind"})


def _plain(value: Any) -> Any:
    if isinstance(value, Wire):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, datetime):
        return write_time(value)
    names = getattr(type(value), "__match_args__", None)  # a dataclass or a named tuple
    if names is not None:
        return {_camel(name): _plain(getattr(value, name)) for name in names}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _read(ask: AnyAsk, given: object) -> object:
    """What the decision made of an answer."""
    match ask:
        case Verify():
            read: object = verification(given)
        case Describe():
            read = description(given, ask)
        case VerifyOutputCheck():
            read = text_check(given)
        case _:
            return given
    return {"unavailable": read.why} if isinstance(read, Unavailable) else read


def _answer(ask: AnyAsk, value: Any) -> object:
    match ask:
        case Recall():
            return _made(Memory, value, now=read_time, named=_cases, first=_cases)
        case RecallTexts():
            return tuple(_made(KnownText, text) for text in _list(value))
        case Use():
            if value in get_args(UseAnswer):
                return value
            raise InvalidJSON("a use is free, taken or full")
    lone = isinstance(value, Mapping) and value.keys() == {"unavailable"}
    return Unavailable(str(value["unavailable"])) if lone else value


def _cases(value: object) -> tuple[Known, ...]:
    return tuple(_made(Known, case) for case in _list(value))


def _made(kind: Callable[..., T], value: object, **readers: Callable[[Any], object]) -> T:
    """A `kind` from an object with exactly its fields, each read by its reader or of the type that it declares."""
    fields = _fields(kind)
    given = _object(value, {camel for _, camel, _ in fields})
    return kind(
        **{
            name: readers[name](given[camel]) if name in readers else _typed(hint, given[camel])
            for name, camel, hint in fields
        }
    )


def _typed(hint: Any, value: object) -> object:
    try:
        return _adapter(hint).validate_python(tuple(value) if isinstance(value, list) else value, strict=True)
    except ValidationError as error:
        raise InvalidJSON(_why(error)) from None


@cache  # both are made for a few types of ours, and take longer than all else of reading a record
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


_camel = cache(to_camel)  # of the few names of our own fields


@cache
def _fields(kind: Callable[..., object]) -> Sequence[tuple[str, str, Any]]:
    """The fields of a type: each with its name in JSON and the type that it declares."""
    return [(name, _camel(name), hint) for name, hint in get_type_hints(kind).items()]


def _object(value: object, names: set[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and value.keys() == names:
        return value
    raise InvalidJSON(f"an object with exactly {', '.join(sorted(names))} is needed")


def _list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    raise InvalidJSON("a list is needed")


def _why(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return ": ".join([*map(str, first["loc"]), first["msg"]])
