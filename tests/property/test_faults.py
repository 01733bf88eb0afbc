"""From a good call, no combination of faults is ever allowed; and without any fault, it always is."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction import Verdict
from preaction._core.facts import Ask, Describe, Unavailable, Verify, VerifyOutputCheck
from preaction.errors import AuthorityError
from preaction.wire.times import write_time
from property.strategies import REMOVED, SCENES, WAYS, GoodCall, Place, Scene, Way, good_calls, replaced

Fault = Callable[[Scene], None]

REPLAY, DESCRIPTION, VERIFICATION = "replay", "description", "output-check verification"


def _set(answer: str, place: Place, change: Any) -> Fault:
    """One place of what the authority answers."""

    def spoil(scene: Scene) -> None:
        ask = scene.asks[answer]
        held = scene.authority.answers.get(ask) or scene.authority.good_answer(ask)
        with suppress(KeyError, IndexError, TypeError, ValueError):  # another fault took that place away altogether
            scene.authority.answers[ask] = replaced(held, place, change)

    return spoil


def _answer(answer: str, given: object) -> Fault:
    def spoil(scene: Scene) -> None:
        scene.authority.answers[scene.asks[answer]] = given

    return spoil


def _raises(kind: type[Ask], error: BaseException) -> Fault:
    def spoil(scene: Scene) -> None:
        before = scene.authority.before_answer

        def raise_it(asks: Sequence[Ask]) -> None:
            before(asks)
            if any(isinstance(ask, kind) for ask in asks):
                raise error

        scene.authority.before_answer = raise_it  # type: ignore[method-assign]

    return spoil


def _verified(moved: timedelta) -> Fault:
    def spoil(scene: Scene) -> None:
        _set(REPLAY, ("verifiedAt",), write_time(scene.authority.clock.now + moved))(scene)

    return spoil


def _decision(place: Place, change: Any) -> Fault:
    def spoil(scene: Scene) -> None:
        scene.decision = replaced(scene.decision, place, change)

    return spoil


def _check(place: Place, change: Any) -> Fault:
    def spoil(scene: Scene) -> None:
        scene.check = replaced(scene.check, place, change)

    return spoil


def _arguments(**more: Any) -> Fault:
    def spoil(scene: Scene) -> None:
        scene.arguments |= more

    return spoil


def _in_field(folded: str, change: Any) -> Fault:
    """Another value in the field that has this name, whatever its capitals."""

    def spoil(scene: Scene) -> None:
        names = [name for name in scene.arguments if name.lower() == folded]
        scene.arguments[names[0] if names else folded] = change

    return spoil


def _attribute(name: str, change: Any) -> Fault:
    def spoil(scene: Scene) -> None:
        setattr(scene, name, change)

    return spoil


def _similar(scene: Scene) -> None:
    scene.tool = scene.tool.replace("_", "-").title()


def _nobody(scene: Scene) -> None:
    for name in ("to", "cc", "bcc"):
        _in_field(name, None)(scene)


def _stale(scene: Scene) -> None:
    scene.authority.clock.advance(hours=1)


def _aged(scene: Scene) -> None:
    scene.authority.clock.advance(hours=25)


RECORDS: dict[str, Fault] = {
    "decided under another job": _decision(("job",), "another-job"),
    "decided under another release": _decision(("release",), "2026-11-03.9"),
    "decided on another case": _decision(("case", "id"), "case-of-somebody-else"),
    "another identity": _decision(("case", "identity"), "derived"),
    "another execution": _decision(("executionId",), "exe_999"),
    "undecided": _decision(("status",), "undecided"),
    "no outcome": _decision(("outcome",), None),
    "another outcome": _decision(("outcome", "id"), "refund-review"),
    "decided without a date": _decision(("decidedAt",), REMOVED),
    "decided long ago": _decision(("decidedAt",), "2026-11-20T09:00:00Z"),
    "decided in the future": _decision(("decidedAt",), "2026-11-30T19:00:00Z"),
    "decision out of date": _decision(("evidenceFreshUntil",), "2026-11-30T09:00:00Z"),
    "decision limit without a zone": _decision(("evidenceFreshUntil",), "2026-11-30T19:00:00"),
    "decision marked as an error": _decision(("isError",), True),
    "decision lost": _attribute("decision", None),
}

TEXT_RECORDS: dict[str, Fault] = {
    "check of another execution": _check(("executionId",), "exe_998"),
    "check of another release": _check(("release",), "2026-11-03.8"),
    "check of another output": _check(("output",), "another-output"),
    "check of another text": _check(("contentDigest",), "sha-256:" + "0" * 64),
    "check failed": _check(("passed",), False),
    "check lost": _attribute("check", None),
}

ANSWERS: dict[str, Fault] = {
    "receipt not valid": _set(REPLAY, ("valid",), False),
    "receipt valid in words": _set(REPLAY, ("valid",), "true"),
    "problems": _set(REPLAY, ("problems",), ["revoked"]),
    "answer about another execution": _set(REPLAY, ("executionId",), "exe_997"),
    "replay of another job": _set(REPLAY, ("replay", "job"), "a-third-job"),
    "replay of another case": _set(REPLAY, ("replay", "case", "id"), "a-third-case"),
    "replay of another identity": _set(REPLAY, ("replay", "case", "identity"), "issued"),
    "replay of another release": _set(REPLAY, ("replay", "release"), "2026-11-03.7"),
    "replay undecided": _set(REPLAY, ("replay", "status"), "undecided"),
    "replay of another outcome": _set(REPLAY, ("replay", "outcome"), "a-third-outcome"),
    "replay out of date": _set(REPLAY, ("replay", "evidenceFreshUntil"), "2026-11-30T09:00:00Z"),
    "no replay": _set(REPLAY, ("replay",), None),
    "verified long ago": _verified(-timedelta(seconds=301)),
    "verified in the future": _verified(timedelta(seconds=301)),
    "verified nobody knows when": _set(REPLAY, ("verifiedAt",), None),
    "receipt unknown": _answer(REPLAY, Unavailable("the authority answered with status 404")),
    "receipt answer odd": _answer(REPLAY, [True]),
    "verify raises": _raises(Verify, ValueError("x")),
    "verify raises StopIteration": _raises(Verify, StopIteration("allowed")),
    "verify is cancelled": _raises(Verify, asyncio.CancelledError()),
    "description of another job": _set(DESCRIPTION, ("job",), "a-fourth-job"),
    "description of another release": _set(DESCRIPTION, ("release",), "2026-11-03.6"),
    "description unknown": _answer(DESCRIPTION, Unavailable("the authority answered with status 404")),
    "description odd": _answer(DESCRIPTION, "billing-question"),
    "describe raises": _raises(Describe, AuthorityError("refused", kind="connection")),
    "describe runs out of memory": _raises(Describe, MemoryError()),
}
IF_WRITES: dict[str, Fault] = {
    "outcome not described": _set(DESCRIPTION, ("outcomes",), []),
    "output not listed": _set(DESCRIPTION, ("outcomes", 0, "outputs"), ["another-output"]),
    "outcome renamed": _set(DESCRIPTION, ("outcomes", 0, "id"), "renamed"),
}

TEXT_ANSWERS: dict[str, Fault] = {
    "verified check not valid": _set(VERIFICATION, ("valid",), False),
    "verified check failed": _set(VERIFICATION, ("passed",), False),
    "verified check of another id": _set(VERIFICATION, ("checkId",), "chk_999"),
    "verified check of another execution": _set(VERIFICATION, ("executionId",), "exe_996"),
    "verified check of another output": _set(VERIFICATION, ("output",), "a-third-output"),
    "verified check of another release": _set(VERIFICATION, ("release",), "2026-11-03.5"),
    "verified check of another text": _set(VERIFICATION, ("contentDigest",), "sha-256:" + "1" * 64),
    "check unknown": _answer(VERIFICATION, Unavailable("the authority answered with status 404")),
    "verify_output_check raises": _raises(VerifyOutputCheck, RecursionError()),
}

CALLS: dict[str, Fault] = {
    "session lost": _attribute("session", None),
    "session empty": _attribute("session", ""),
    "another session": _attribute("session", "yet another chat"),
    "session not a string": _attribute("session", 7),
    "an extra field": _arguments(priority="high"),
    "a field that looks like another": _arguments(bоdy="x"),
    "a field twice": _arguments(BoDy="x", bOdY="x"),
    "a field of another type": _in_field("body", {"html": "x"}),
    "a number that isn't finite": _in_field("body", float("nan")),
    "a text with a lone surrogate": _in_field("body", "\ud800"),
    "arguments lost": _attribute("arguments", None),
    "a tool by a similar name": _similar,
}
TEXT_CALLS: dict[str, Fault] = {"another text": _in_field("body", "We guarantee a refund.")}
ENTITY_CALLS: dict[str, Fault] = {
    "another ticket": _in_field("ticketid", "HC-1299"),
    "an undecided ticket": _in_field("ticketid", "HC-other-0"),
    "two tickets": _in_field("ticketid", ["HC-1201", "HC-1202"]),
    "no ticket": _in_field("ticketid", None),
    "a ticket in other capitals": _in_field("ticketid", "hc-1201"),
}
COMPANY_CALLS: dict[str, Fault] = {
    "another company": _in_field("to", "orders@other.example"),
    "one more company": _in_field("cc", ["orders@acme.example", "press@other.example"]),
    "a domain that only ends like it": _in_field("to", "orders@notacme.example"),
    "a shared provider": _in_field("to", "acme.example@gmail.com"),
    "a display name": _in_field("to", "Acme <orders@acme.example>"),
    "nobody": _nobody,
    "a header in the subject": _in_field("subject", "Hello\nBcc: press@other.example"),
}
CLOCKS: dict[str, Fault] = {"an hour later": _stale, "a day later": _aged}


def faults_for(call: GoodCall) -> dict[str, dict[str, Fault]]:
    """The faults that this call must not survive, by what they strike."""
    text = call.checks_text
    about = COMPANY_CALLS if call.scene == "company" else ENTITY_CALLS
    writes = {} if call.rule.get("outcomes") else IF_WRITES
    return {
        "records": {**RECORDS, **(TEXT_RECORDS if text else {})},
        "clock": CLOCKS,
        "answers": {**ANSWERS, **writes, **(TEXT_ANSWERS if text else {})},
        "call": {**CALLS, **about, **(TEXT_CALLS if text else {})},
    }


def verdict_on(call: GoodCall, names: Collection[str], way: Way) -> Verdict:
    """The verdict on a good call with these faults."""
    scene, faults = call.make(), faults_for(call)

    def strike(what: str) -> None:
        for name, fault in faults[what].items():
            if name in names:
                with suppress(TypeError):  # another fault took away what this one spoils
                    fault(scene)

    strike("records")
    call.record(scene)
    strike("clock")
    _set(REPLAY, ("verifiedAt",), write_time(scene.authority.clock.now + timedelta(seconds=call.skew_s)))(scene)
    strike("answers")
    strike("call")
    return asyncio.run(scene.verdict(way))


def verdicts_on(call: GoodCall, names: Collection[str] = ()) -> Verdict:
    """The one verdict that both drivers give."""
    sync, in_loop = (verdict_on(call, names, way) for way in WAYS)
    name = "StopIteration"  # which Python turns into another error in a coroutine
    assert sync == replace(in_loop, reason=in_loop.reason.replace("RuntimeError", name))
    return sync


@given(good_calls())
def test_without_a_fault_a_good_call_is_always_allowed(call: GoodCall) -> None:
    verdict = verdicts_on(call)
    assert (verdict.allow, verdict.code) == (True, "allowed"), verdict


@given(good_calls(), st.data())
def test_no_combination_of_faults_is_ever_allowed(call: GoodCall, data: st.DataObject) -> None:
    names = sorted(name for faults in faults_for(call).values() for name in faults)
    drawn = data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=5))
    verdict = verdicts_on(call, drawn)
    assert not verdict.allow
    assert verdict.code != "gate_error"
    assert "\n" not in verdict.reason


def plainest(scene: str) -> GoodCall:
    """The call of a scene as it stands, over one source."""
    return GoodCall(scene, {}, {}, SCENES[scene]().arguments, "one source", 1, 5, 0)


@pytest.mark.parametrize(
    ("scene", "fault"),
    [(scene, name) for scene in SCENES for faults in faults_for(plainest(scene)).values() for name in faults],
)
def test_each_fault_alone_is_denied(scene: str, fault: str) -> None:
    verdict = verdicts_on(plainest(scene), [fault])
    assert not verdict.allow
    assert verdict.code != "gate_error"
