"""What can be reached from an agent: the tools and agents that functions, closures and containers hold (A8).

It finds what is there when it looks. An agent that a tool makes anew for each call can't be seen from outside.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType

Leads = Callable[[object], Iterable[object] | None]


def reached(start: object, leads: Leads) -> Iterator[object]:
    """`start` and all that it leads to, each once.

    `leads(thing)` says what a runtime's object leads to, None for what it doesn't know. Functions, lists and mappings
    are known here; anything else leads nowhere.
    """
    seen: dict[int, object] = {}  # with the thing, so that its id isn't used again meanwhile
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        yield thing
        further = leads(thing)
        waiting += _held(thing, leads) if further is None else further


def _held(thing: object, leads: Leads) -> Iterable[object]:
    if isinstance(thing, Mapping):
        return thing.values()
    if isinstance(thing, list | tuple | set | frozenset):
        return thing
    if isinstance(thing, partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, MethodType):
        return [thing.__func__, thing.__self__, *getattr(thing.__self__, "__dict__", {}).values()]
    return _named(thing, leads) if isinstance(thing, FunctionType) else ()


def _named(function: FunctionType, leads: Leads) -> Iterator[object]:
    """What a function closes over, and those of the globals it names that the runtime knows."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a cell that is still empty
            yield cell.cell_contents
    for name in function.__code__.co_names:
        if leads(found := function.__globals__.get(name)) is not None:
            yield found
