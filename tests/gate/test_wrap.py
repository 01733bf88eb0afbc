"""`gate.wrap`: a function that runs only with arguments that passed the gate (G42 and G44 as far as it goes)."""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kit import BODY, REPLY, SESSION, TICKET, decided, gate_for, helpdesk, reply, reply_rule
from preaction import ActionDenied, ActionGate, ConfigurationError, denial_text
from preaction.testing import FakeAuthority


class Desk:
    """What the tool did: the arguments of each reply that was sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def reply(self, ticketId: Any, body: Any) -> str:  # noqa: N803
        """Send a reply."""
        self.sent.append({"ticketId": ticketId, "body": body})
        return "sent"

    async def areply(self, ticketId: Any, body: Any) -> str:  # noqa: N803
        """Send a reply from a loop."""
        await asyncio.sleep(0)
        return self.reply(ticketId, body)


def ready(**options: Any) -> ActionGate:
    """A gate whose session holds a decision and a checked text."""
    gate, authority = helpdesk(**options)
    decided(gate, authority)
    return gate


def test_an_allowed_call_runs_and_returns_what_the_function_returns() -> None:
    gate, desk = ready(), Desk()
    guarded = gate.wrap(REPLY, desk.reply)
    with gate.session(SESSION):
        assert guarded(TICKET, body=BODY) == "sent"
        assert guarded(**reply()) == "sent"
    assert desk.sent == [reply(), reply()]


async def test_an_async_function_stays_one() -> None:
    gate, desk = ready(), Desk()
    guarded = gate.wrap(REPLY, desk.areply)
    assert inspect.iscoroutinefunction(guarded)
    with gate.session(SESSION):
        assert await guarded(TICKET, BODY) == "sent"
        with pytest.raises(ActionDenied):
            await guarded(TICKET, "Another text.")
    assert desk.sent == [reply()]


def test_a_denied_call_does_not_run_and_says_why() -> None:
    gate, desk = ready(), Desk()
    guarded = gate.wrap(REPLY, desk.reply)
    with gate.session(SESSION), pytest.raises(ActionDenied) as caught:
        guarded(TICKET, "Another text.")
    assert caught.value.verdict.code == "output_check_missing"
    assert str(caught.value) == denial_text(caught.value.verdict)
    assert desk.sent == []


def test_what_the_function_itself_raises_comes_out_as_it_is() -> None:
    gate = ready()

    def fail(ticketId: str, body: str) -> None:  # noqa: N803
        raise LookupError("no such ticket")

    with gate.session(SESSION), pytest.raises(LookupError, match="no such ticket"):
        gate.wrap(REPLY, fail)(**reply())


def test_name_text_and_signature_stay_those_of_the_function() -> None:
    gate, desk = ready(), Desk()
    guarded = gate.wrap(REPLY, desk.reply)
    assert (guarded.__name__, guarded.__doc__) == ("reply", "Send a reply.")
    assert inspect.signature(guarded) == inspect.signature(desk.reply)


# The session ----------------------------------------------------------------------------------------------------------


def test_without_a_session_a_guarded_function_is_denied() -> None:
    gate, desk = ready(), Desk()
    guarded = gate.wrap(REPLY, desk.reply)
    with gate.session(SESSION):
        pass
    with pytest.raises(ActionDenied) as caught:
        guarded(**reply())
    assert caught.value.verdict.code == "no_session"
    assert desk.sent == []


def test_sessions_nest_and_end_with_their_block() -> None:
    gate = ready()
    assert gate.current_session is None
    with gate.session("outer"):
        with gate.session("inner"):
            assert gate.current_session == "inner"
        assert gate.current_session == "outer"
    assert gate.current_session is None


def test_a_session_ends_when_its_block_raises() -> None:
    gate = ready()
    with pytest.raises(LookupError), gate.session(SESSION):
        raise LookupError
    assert gate.current_session is None


def test_another_thread_is_not_in_the_session() -> None:
    gate, seen = ready(), list[str | None]()
    with gate.session(SESSION):
        thread = threading.Thread(target=lambda: seen.append(gate.current_session))
        thread.start()
        thread.join(10)
    assert seen == [None]


async def test_tasks_are_in_the_session_that_they_were_started_in() -> None:
    gate, authority = helpdesk()
    desk = Desk()
    guarded = gate.wrap(REPLY, desk.areply)

    async def chat(session: str, case: str) -> str:
        with gate.session(session):
            decided(gate, authority, case, session=session)
            await asyncio.sleep(0)
            return await guarded(case, BODY)

    await asyncio.gather(*[chat(f"chat-{n}", f"HC-{n}") for n in range(20)])
    assert sorted(sent["ticketId"] for sent in desk.sent) == sorted(f"HC-{n}" for n in range(20))


# What the gate sees, and what runs ------------------------------------------------------------------------------------


def seen_by(function: Callable[..., Any], *args: Any, ignore: Any = (), **kwargs: Any) -> dict[str, Any]:
    """The arguments that a gate with an open rule saw; the call must have been allowed."""
    verdicts = []
    rule = {"writes": "billing-team-reply", "fields": ["a", "b", "c", "d"]}
    authority = FakeAuthority()
    gate = gate_for(authority, {"act": rule}, on_verdict=lambda tool, verdict: verdicts.append(verdict))
    decided(gate, authority)
    with gate.session(SESSION):
        gate.wrap("act", function, ignore=ignore)(*args, **kwargs)
    arguments: dict[str, Any] = verdicts[0].arguments
    return arguments


def test_g44_defaults_are_applied_so_the_gate_sees_all_that_the_function_would_run_with() -> None:
    def act(a: int, b: int = 2, *, c: str = "three", d: list[int] | None = None) -> None:
        assert (a, b, c, d) == (1, 2, "three", None)

    assert seen_by(act, 1) == {"a": 1, "b": 2, "c": "three", "d": None}


def test_g44_a_default_that_the_rule_does_not_list_denies() -> None:
    gate = ready()
    ran = []

    def act(ticketId: str, body: str, public: bool = True) -> None:  # noqa: N803
        ran.append(public)

    with gate.session(SESSION), pytest.raises(ActionDenied) as caught:
        gate.wrap(REPLY, act)(**reply())
    assert caught.value.verdict.code == "field_not_allowed"
    assert ran == []


def test_g44_positional_and_named_arguments_are_one_call() -> None:
    def act(a: int, /, b: int, *, c: int) -> None:
        assert (a, b, c) == (1, 2, 3)

    assert seen_by(act, 1, 2, c=3) == seen_by(act, 1, b=2, c=3) == {"a": 1, "b": 2, "c": 3}


def test_g44_further_named_arguments_are_fields_of_their_own() -> None:
    def act(a: int, **more: Any) -> None:
        assert (a, more) == (1, {"b": 2, "c": [3]})

    assert seen_by(act, 1, b=2, c=[3]) == {"a": 1, "b": 2, "c": [3]}


def test_g44_a_further_named_argument_that_the_rule_does_not_list_denies() -> None:
    def act(a: int, **more: Any) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(ActionDenied) as caught:
        seen_by(act, 1, more={"b": 2})
    assert caught.value.verdict.code == "field_not_allowed"


DOES_NOT_BIND: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "too many": lambda act: act(1, 2, 3),
    "too few": lambda act: act(),
    "an unknown name": lambda act: act(1, e=5),
    "twice": lambda act: act(1, a=1),
}


@pytest.mark.parametrize("call", DOES_NOT_BIND.values(), ids=DOES_NOT_BIND)
def test_g44_what_does_not_bind_to_the_signature_denies(call: Callable[[Any], Any]) -> None:
    def act(a: int, b: int = 2) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(ActionDenied) as caught:
        call(functools.partial(seen_by, act))
    assert caught.value.verdict.code == "malformed_call"


def test_g44_further_positional_arguments_deny() -> None:
    ran = []

    def act(a: int, *more: int) -> None:
        ran.append(more)

    assert seen_by(act, 1) == {"a": 1}
    for ignore in ((), ["more"]):
        with pytest.raises(ActionDenied) as caught:
            seen_by(act, 1, 2, ignore=ignore)
        assert caught.value.verdict.code == "malformed_call"
    assert ran == [()]


def test_g44_a_named_argument_that_hides_behind_a_positional_one_denies() -> None:
    def act(a: int, /, **more: Any) -> None:
        raise AssertionError("it must not run")

    with pytest.raises(ActionDenied) as caught:
        seen_by(act, 1, a=2)
    assert caught.value.verdict.code == "malformed_call"


def test_g44_two_parameters_that_differ_in_case_alone_deny() -> None:
    def act(a: int, A: int = 2) -> None:  # noqa: N803
        raise AssertionError("it must not run")

    with pytest.raises(ActionDenied) as caught:
        seen_by(act, 1)
    assert caught.value.verdict.code == "field_repeated"


def test_the_function_runs_with_a_copy_that_nobody_else_holds() -> None:
    held: list[list[int]] = []

    def act(a: list[int]) -> None:
        held.append(a)

    mine = [1, 2]
    seen_by(act, mine)
    assert held == [[1, 2]]
    assert held[0] is not mine


def test_what_changes_the_arguments_while_they_are_checked_does_not_reach_the_function() -> None:
    mine = [1]
    ran = []
    authority = FakeAuthority()
    authority.before_answer = lambda asks: mine.append(2)  # type: ignore[method-assign]
    rule = {"writes": "billing-team-reply", "fields": ["a"]}
    gate = gate_for(authority, {"act": rule}, on_verdict=lambda tool, verdict: mine.append(3))
    decided(gate, authority)
    with gate.session(SESSION):
        gate.wrap("act", lambda a: ran.append(a))(mine)
    assert (mine, ran) == ([1, 2, 3], [[1]])


def test_arguments_that_are_no_json_deny() -> None:
    with pytest.raises(ActionDenied) as caught:
        seen_by(lambda a: None, object())
    assert caught.value.verdict.code == "malformed_call"


# What a runtime injects -----------------------------------------------------------------------------------------------


def test_an_ignored_parameter_is_neither_checked_nor_copied() -> None:
    context, got = object(), []

    def act(ctx: Any, a: int, b: int = 2, *, run: Any = None) -> None:
        got.append((ctx, a, b, run))

    assert seen_by(act, context, 1, run=context, ignore=["ctx", "run"]) == {"a": 1, "b": 2}
    assert seen_by(act, context, 1, ignore=("ctx", "run")) == {"a": 1, "b": 2}
    assert got == [(context, 1, 2, context), (context, 1, 2, None)]
    assert got[0][0] is context


def test_a_parameter_that_is_not_ignored_is_checked() -> None:
    with pytest.raises(ActionDenied) as caught:
        seen_by(lambda ctx, a: None, object(), 1)
    assert caught.value.verdict.code == "malformed_call"


@pytest.mark.parametrize("ignore", [["context"], ["a", "context"], "ctx", [""]])
def test_ignoring_a_parameter_that_is_not_there_raises(ignore: Any) -> None:
    with pytest.raises(ConfigurationError, match="ignore"):
        seen_by(lambda ctx, a: None, object(), 1, ignore=ignore)


def test_further_named_arguments_are_checked_even_where_their_parameter_is_ignored() -> None:
    with pytest.raises(ActionDenied) as caught:
        seen_by(lambda a, **more: None, 1, e=5, ignore=["more"])
    assert caught.value.verdict.code == "field_not_allowed"


# What can be wrapped --------------------------------------------------------------------------------------------------


class Tool:
    """Objects and methods as runtimes have them."""

    def __call__(self, a: int) -> str:
        return f"call {a}"

    def method(self, a: int) -> str:
        return f"method {a}"

    @classmethod
    def of_class(cls, a: int) -> str:
        return f"class {a}"

    @staticmethod
    def static(a: int) -> str:
        return f"static {a}"


class AsyncTool:
    async def __call__(self, a: int) -> str:
        return f"async {a}"


def open_gate() -> ActionGate:
    authority = FakeAuthority()
    gate = gate_for(authority, {"act": {"writes": "billing-team-reply", "fields": ["a"]}})
    decided(gate, authority)
    return gate


@pytest.mark.parametrize(
    "tool", [Tool(), Tool().method, Tool.of_class, Tool.static, functools.partial(Tool().method), lambda a: f"λ {a}"]
)
def test_functions_methods_and_objects_can_be_wrapped(tool: Any) -> None:
    gate = open_gate()
    with gate.session(SESSION):
        assert gate.wrap("act", tool)(1) == tool(1)
        with pytest.raises(ActionDenied):
            gate.wrap("act", tool)(1, b=2)


@pytest.mark.parametrize("tool", [AsyncTool(), AsyncTool().__call__, functools.partial(AsyncTool().__call__)])
async def test_what_must_be_awaited_is_awaited_behind_the_gate(tool: Any) -> None:
    gate = open_gate()
    guarded = gate.wrap("act", tool)
    assert inspect.iscoroutinefunction(guarded)
    with gate.session(SESSION):
        assert await guarded(1) == "async 1"
        with pytest.raises(ActionDenied):
            await guarded(object())


def generator(a: int) -> Iterator[int]:
    yield a


async def async_generator(a: int) -> AsyncIterator[int]:
    yield a


class GeneratorTool:
    def __call__(self, a: int) -> Iterator[int]:
        yield a


@pytest.mark.parametrize(
    "tool",
    [generator, async_generator, functools.partial(generator), GeneratorTool(), None, "reply", 7, dict, type],
    ids=lambda tool: getattr(tool, "__name__", str(type(tool))),
)
def test_what_acts_later_or_tells_no_signature_can_not_be_wrapped(tool: Any) -> None:
    with pytest.raises(ConfigurationError, match="wrap"):
        open_gate().wrap("act", tool)


@pytest.mark.parametrize("name", ["another", "ACT", "act ", "", None, 7])
def test_g44_a_name_without_a_rule_raises(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="no rule"):
        open_gate().wrap(name, lambda a: a)


# Observing ------------------------------------------------------------------------------------------------------------


def test_g42_an_observing_gate_runs_what_it_would_deny() -> None:
    seen: list[str] = []
    gate = ready(mode="observe", on_verdict=lambda tool, verdict: seen.append(verdict.code))
    desk = Desk()
    guarded = gate.wrap(REPLY, desk.reply)
    with gate.session(SESSION):
        assert guarded(TICKET, "Another text.") == "sent"
    assert guarded("HC-2", BODY) == "sent"
    assert seen == ["output_check_missing", "no_session"]


async def test_g42_an_observing_gate_runs_async_functions_too() -> None:
    gate, desk = ready(mode="observe"), Desk()
    assert await gate.wrap(REPLY, desk.areply)(TICKET, "Another text.") == "sent"


class Text(str):
    """A string with more to it than its characters."""


@pytest.mark.parametrize("allowed", [True, False])
def test_g42_an_observed_call_runs_with_its_arguments_as_they_came(allowed: bool) -> None:
    gate = ready(mode="observe", rule={"fields": ["ticketId", "body", "tags"]})
    got: list[Any] = []
    body, tags = Text(BODY if allowed else "Another text."), ("a", "b")

    def act(ticketId: str, body: str, tags: Any) -> None:  # noqa: N803
        got.extend((body, tags))

    with gate.session(SESSION):
        gate.wrap(REPLY, act)(TICKET, body, tags=tags)
    assert got[0] is body
    assert got[1] is tags


def test_g42_an_observed_call_that_does_not_bind_fails_as_it_would_without_a_gate() -> None:
    gate, desk = ready(mode="observe"), Desk()
    guarded: Callable[..., str] = gate.wrap(REPLY, desk.reply)
    with gate.session(SESSION), pytest.raises(TypeError):
        guarded(TICKET)


def test_g42_an_observed_call_keeps_its_further_positional_arguments() -> None:
    gate = ready(mode="observe")
    with gate.session(SESSION):
        assert gate.wrap(REPLY, lambda *args: args)(1, object, "x") == (1, object, "x")


def test_g42_an_observing_gate_uses_nothing_up() -> None:
    gate = ready(mode="observe", rule={"once": "decision"})
    guarded = gate.wrap(REPLY, Desk().reply)
    with gate.session(SESSION):
        assert guarded(**reply()) == guarded(**reply()) == "sent"
    assert gate.preview(SESSION, REPLY, reply()).allow


def test_g42_a_gate_that_fails_while_it_observes_still_runs_the_call() -> None:
    def fail(tool: str, verdict: Any) -> None:
        raise ValueError

    gate = ready(mode="observe", on_verdict=fail)
    with gate.session(SESSION):
        assert gate.wrap(REPLY, Desk().reply)(**reply()) == "sent"


# Together -------------------------------------------------------------------------------------------------------------


def test_a_use_is_taken_before_the_function_runs_and_stays_when_it_fails() -> None:
    gate = ready(rule={"once": "decision"})
    codes = []

    def act(ticketId: str, body: str) -> None:  # noqa: N803
        codes.append(gate.preview(SESSION, REPLY, reply()).code)
        raise TimeoutError

    guarded = gate.wrap(REPLY, act)
    with gate.session(SESSION):
        with pytest.raises(TimeoutError):
            guarded(**reply())
        with pytest.raises(ActionDenied) as caught:
            guarded(**reply())
    assert codes == ["already_used"]
    assert caught.value.verdict.code == "already_used"


def test_each_tool_is_guarded_by_its_own_rule() -> None:
    authority = FakeAuthority()
    gate = gate_for(authority, {"one": reply_rule(), "two": reply_rule(outcomes=["x"])})
    decided(gate, authority)
    one, two = Desk(), Desk()
    with gate.session(SESSION):
        gate.wrap("one", one.reply)(**reply())
        with pytest.raises(ActionDenied) as caught:
            gate.wrap("two", two.reply)(**reply())
    assert caught.value.verdict.code == "rule_invalid"
    assert (one.sent, two.sent) == ([reply()], [])
