"""What a tool or a hook might give back: JSON, what is near it, and objects that break when they are read."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel


class Model(BaseModel):
    when: date = date(2026, 11, 30)


class Endless(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return "x" * 100

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            yield str(number)
            number += 1

    def __len__(self) -> int:
        return 1


class Broken(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise SystemError("SECRET")

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 1


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
ODD = st.sampled_from([object(), {1}, b"x", print, Broken(), looped(), Model(), ..., type, 1j, range(3)])
ANYTHING = st.one_of(JSON, ODD, st.lists(ODD, max_size=2), st.dictionaries(st.text(max_size=3), ODD, max_size=2))
