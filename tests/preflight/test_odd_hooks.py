"""Whatever hooks answer, raise or are: nothing executes that shouldn't, and each run leaves a whole record."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.preflight import State
from preflight.bank import Bank, hooks

NEEDED = sorted(set(hooks()) - {"measure_from_environment"})
"""In `Bank().ready()` nothing is left to be measured; every other hook is needed for it to execute."""


class Hostile(dict[str, Any]):
    """A mapping that fails at whatever is done to it."""

    def fail(self, *given: Any, **more: Any) -> Any:
        raise RuntimeError("SECRET")

    __getitem__ = __iter__ = __len__ = __bool__ = __eq__ = __contains__ = keys = items = get = fail
    __hash__ = None


class Text(str):
    """A text that says that it is another one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("immediate")


def raising(error: BaseException) -> Callable[..., Any]:
    def hook(**given: Any) -> Any:
        raise error

    return hook


def answering(answer: Any) -> Callable[..., Any]:
    return lambda **given: answer


def of_other_arguments() -> Any:
    return {"approved": True}


async def cancelled(**given: Any) -> Any:
    raise asyncio.CancelledError


def generating(**given: Any) -> Iterator[Any]:
    yield "immediate"


ODD: dict[str, Callable[..., Any]] = {
    "True": answering(True),
    "a number": answering(7),
    "NaN": answering(float("nan")),
    "a list": answering([]),
    "a mapping": answering({}),
    "another mapping": answering({"x": 1, "status": True, "approved": "True", "id": "another"}),
    "an object": answering(object()),
    "bytes": answering(b"immediate"),
    "a hostile mapping": answering(Hostile(approved=True, status="known")),
    "an error": raising(ValueError("SECRET")),
    "a StopIteration": raising(StopIteration("SECRET")),
    "an exit": raising(SystemExit("SECRET")),
    "a cancellation": cancelled,
    "other arguments": of_other_arguments,
    "a generator": generating,
}


def shaped(state: State) -> None:
    """The record is one that can be read back, and tells nobody's secret."""
    assert State.from_json(state.to_json()).to_json() == state.to_json()
    assert "SECRET" not in str(state.to_json())


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("way", ["sync", "mixed"])
def test_one_odd_hook_is_enough_for_nothing_to_execute(name: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    for words, hook in ODD.items():
        bank = Bank(way, **{name: hook})
        state = bank.ready()
        assert state.execution_decision in ("ask_user", "hold"), words
        assert bank.storage.records() == [state.to_json()]
        shaped(state)
    assert "SECRET" not in caplog.text


@given(st.dictionaries(st.sampled_from(sorted(hooks())), st.sampled_from(sorted(ODD)), max_size=4))
def test_it_executes_exactly_when_every_hook_that_is_needed_is_whole(broken: dict[str, str]) -> None:
    state = Bank(**{name: ODD[words] for name, words in broken.items()}).ready()
    assert (state.execution_decision == "execute") is not bool(set(broken) & set(NEEDED))
    shaped(state)


def test_a_text_that_claims_to_equal_another_is_read_as_it_is() -> None:
    assert Bank(classify_when_case=answering(Text("never"))).ready().execution_decision == "ask_user"
    assert Bank(classify_when_case=answering(Text("immediate"))).ready().execution_decision == "execute"
    tool = {"name": Text("records.delete_all"), "inputSchema": {"type": "object"}}
    assert Bank().ready(tool=tool).fixed["c3_provider_action_name"] == "records.delete_all"


@pytest.mark.parametrize("answer", [KeyboardInterrupt(), GeneratorExit()])
def test_an_interrupt_leaves_as_it_came_and_nothing_is_recorded(answer: BaseException) -> None:
    bank = Bank(classify_when_case=raising(answer))
    with pytest.raises(type(answer)):
        bank.ready()
    assert bank.storage.records() == []
