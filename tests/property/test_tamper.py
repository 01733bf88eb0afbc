"""Field tampering, the house standard: every field of every good answer is changed and removed, one at a time.

Each change must deny, in both drivers. What only informs stands in `INFORMS`, with the kinds of change that it bears
and the reason. That table is exact: a field that stops to matter shows here, and so does one that begins to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest

from kit import shown
from preaction._core.facts import Ask, Describe, Verify, VerifyOutputCheck
from property.strategies import (
    REMOVED,
    SCENES,
    WAYS,
    Kind,
    Place,
    Scene,
    Way,
    dotted,
    places,
    replaced,
    spoilt,
)

ANSWERS: Final = ("decision", "replay", "description", "output check", "output-check verification")
RECORDED: Final = ("decision", "output check")

TEXT: Final[frozenset[Kind]] = frozenset({"another", "empty", "bigger", "'false'", "'true'"})
ABSENT: Final[frozenset[Kind]] = frozenset({"removed", "null"})
LATER: Final[frozenset[Kind]] = frozenset({"later"})
REMOVABLE: Final[frozenset[Kind]] = frozenset({"removed"})
OBJECT: Final[frozenset[Kind]] = frozenset({"empty", "an object", "removed"})
LIST: Final[frozenset[Kind]] = frozenset({"bigger", "empty", "removed"})


@dataclass(frozen=True, slots=True)
class Informs:
    """Fields of one answer that a call is allowed without, or with another value, as far as `kinds` go."""

    answer: str
    fields: tuple[str, ...]
    kinds: frozenset[Kind]
    why: str
    scenes: tuple[str, ...] = tuple(SCENES)


BY_CASE_ID = ("ticket", "company")  # scenes whose call names the case's own id

INFORMS: Final = (
    # decision
    Informs("decision", ("pack", "outcome.title"), TEXT | REMOVABLE, "a name for people; ids and the release bind"),
    Informs("decision", ("nextStep",), TEXT | ABSENT, "advice; denials quote the released description instead"),
    Informs("decision", ("escalation",), REMOVABLE, "denials quote the replay's and the released description's"),
    Informs("decision", ("receipt",), TEXT | REMOVABLE, "the authority is asked about the execution id at every call"),
    Informs("decision", ("missing", "problems"), LIST, "what an undecided case lacked; the replay's problems deny"),
    Informs("decision", ("evidenceFreshUntil",), ABSENT | LATER, "the replay's limit is checked as well (G17)"),
    Informs(
        "decision",
        ("entity_id",),
        TEXT | ABSENT,
        "a further name of the case; the call gives its own id (G8)",
        BY_CASE_ID,
    ),
    # replay
    Informs("replay", ("replay.decidedAt",), ABSENT, "an authority may leave it out; another time denies (G20)"),
    Informs("replay", ("replay.escalation",), REMOVABLE, "quoted in denials alone"),
    Informs("replay", ("replay.evidenceFreshUntil",), ABSENT | LATER, "the decision's limit is checked as well (G17)"),
    Informs(
        "replay",
        ("replay.entity_id",),
        TEXT | ABSENT,
        "confirms that name alone; the call gives the case's id (G8)",
        BY_CASE_ID,
    ),
    Informs("replay", ("verifiedAt",), LATER, "within `max_clock_skew_s` clocks may differ (G18)"),
    # description
    Informs("description", ("pack", "title"), TEXT | REMOVABLE, "a name for people; job and release bind"),
    Informs("description", ("facts",), frozenset({"an object", "removed"}), "what the job decides by, for people"),
    Informs(
        "description", ("subject",), OBJECT | ABSENT, "absent: a company, matched exactly (G10); this case still is"
    ),
    Informs("description", ("subject.kind",), TEXT | REMOVABLE, "a name for people; identity and match decide"),
    Informs("description", ("subject.identity", "subject.match"), REMOVABLE, "absent: provided, exact; true here too"),
    Informs("description", ("outcomes",), frozenset({"bigger"}), "of two outcomes with one id the first counts"),
    Informs("description", ("outcomes[0].title",), TEXT | REMOVABLE, "a name for people; the id binds"),
    Informs("description", ("outcomes[0].nextStep",), TEXT | ABSENT, "quoted in denials alone"),
    Informs("description", ("outcomes[0].escalation",), TEXT | REMOVABLE, "quoted in denials alone"),
    Informs(
        "description", ("outcomes[0].outputs",), frozenset({"bigger"}), "more outputs; the one written is still there"
    ),
    Informs("description", ("outcomes[1]",), REMOVABLE, "an outcome that was not decided"),
    Informs("description", ("outcomes[1].id",), TEXT, "an outcome that was not decided"),
    Informs("description", ("outcomes[1].title",), TEXT | REMOVABLE, "an outcome that was not decided"),
    Informs("description", ("outcomes[1].nextStep", "outcomes[1].escalation"), TEXT | ABSENT, "not decided"),
    Informs("description", ("outcomes[1].outputs",), LIST, "an outcome that was not decided"),
    Informs("description", ("outputs", "outputs[0].fields", "outputs[0].rules"), LIST, "the authority checks texts"),
    Informs("description", ("outputs[0]",), REMOVABLE, "outcomes list outputs by id; what they are is for people"),
    Informs("description", ("outputs[0].id",), TEXT, "outcomes list outputs by id; what they are is for people"),
    Informs("description", ("outputs[0].title", "outputs[0].fields[0]"), TEXT | REMOVABLE, "for people"),
    Informs("description", ("whenUnresolved",), OBJECT | ABSENT, "quoted in denials alone"),
    Informs("description", ("whenUnresolved.nextStep", "whenUnresolved.escalation"), TEXT | ABSENT, "the same"),
    Informs("description", ("escalations",), LIST, "quoted in denials alone"),
    Informs("description", ("escalations[0]", "escalations[1]"), REMOVABLE, "quoted in denials alone"),
    *(
        Informs("description", (f"escalations[{n}].{name}",), TEXT, "quoted in denials alone")
        for n in (0, 1)
        for name in ("id", "trigger", "why")
    ),
    # output check
    Informs("output check", ("findings",), REMOVABLE, "what a failed text was flagged for"),
    Informs("output check", ("checkedAt",), LATER | {"another"}, "orders the checks of one text (G26)"),
    # output-check verification
    Informs("output-check verification", ("verifiedAt",), LATER, "clocks may differ (G18)"),
)


def good(scene: Scene, answer: str) -> dict[str, Any]:
    """The answer as it is before anybody tampers with it."""
    match answer:
        case "decision":
            return scene.decision
        case "output check":
            return scene.check
        case _:
            return scene.authority.good_answer(scene.asks[answer])


def tampered(scene: str, answer: str, place: Place, change: Any) -> Scene:
    """The scene with one place of one answer changed, everything else as it was."""
    made = SCENES[scene]()
    spoiled = replaced(good(made, answer), place, change)
    if answer == "decision":
        made.decision = spoiled
    elif answer == "output check":
        made.check = spoiled
    else:
        made.authority.answers[made.asks[answer]] = spoiled
    return made.record()


def value_at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def every_field() -> Iterator[Any]:
    for scene in SCENES:
        for answer in ANSWERS:
            if (scene, answer) == ("entity", "description"):
                continue  # the same as for the ticket
            for place in places(good(SCENES[scene](), answer)):
                yield pytest.param(scene, answer, place, id=f"{scene}-{answer}-{dotted(place)}")


def informs(scene: str, answer: str, field: str, value: Any) -> frozenset[Kind]:
    """The kinds of change that this field bears, by the table; an unknown field is ignored everywhere (G41)."""
    rows = [row for row in INFORMS if (row.answer, scene in row.scenes) == (answer, True) and field in row.fields]
    unknown: frozenset[Kind] = frozenset({"an unknown field"} if isinstance(value, dict) else ())
    return unknown.union(*(row.kinds for row in rows))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scene", SCENES)
async def test_the_call_is_allowed_as_long_as_nobody_tampers(scene: str, way: Way) -> None:
    verdict = await SCENES[scene]().record().verdict(way)
    assert verdict.allow, verdict


@pytest.mark.parametrize(("scene", "answer", "place"), list(every_field()))
async def test_a_field_that_is_changed_or_removed_denies_unless_it_only_informs(
    scene: str, answer: str, place: Place
) -> None:
    value = value_at(good(SCENES[scene](), answer), place)
    changes = spoilt(value)
    allowed: set[Kind] = set()
    for kind, change in changes.items():
        made = tampered(scene, answer, place, change)
        verdicts = [await made.verdict(way) for way in WAYS]
        assert verdicts[0] == verdicts[1], f"{kind}: the drivers disagree"
        assert verdicts[0].code != "gate_error", f"{kind}: not judged, but caught at the door"
        if verdicts[0].allow:
            allowed.add(kind)
    assert allowed == informs(scene, answer, dotted(place), value) & changes.keys()


def test_the_table_names_no_field_that_is_not_there() -> None:
    there = {(answer, dotted(place)) for scene in SCENES for answer in ANSWERS
             for place in places(good(SCENES[scene](), answer))}  # fmt: skip
    assert {(row.answer, field) for row in INFORMS for field in row.fields} <= there


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kept", ["decision", "replay"])
async def test_g17_one_of_the_two_freshness_limits_is_enough_to_end_a_decision(kept: str, way: Way) -> None:
    taken, place = (
        ("replay", ("replay", "evidenceFreshUntil")) if kept == "decision" else ("decision", ("evidenceFreshUntil",))
    )
    scene = tampered("ticket", taken, place, REMOVED)
    assert (await scene.verdict(way)).allow
    scene.authority.clock.now += scene.authority.fresh_for or timedelta()
    if taken == "replay":
        late = replaced(scene.authority.good_answer(scene.asks["replay"]), place, REMOVED)
        scene.authority.answers[scene.asks["replay"]] = late
    verdict = await scene.verdict(way)
    assert (verdict.allow, verdict.code) == (False, "stale")


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("whole", [None, {}, [], "", "true", True, 1, 0.5, b"{}", object()], ids=shown)
async def test_an_answer_that_is_something_else_as_a_whole_denies(whole: Any, scene: str, answer: str) -> None:
    made = SCENES[scene]()
    if answer in RECORDED:
        made.decision, made.check = (whole, made.check) if answer == "decision" else (made.decision, whole)
    else:
        made.authority.answers[made.asks[answer]] = whole
    made.record()
    verdicts = [await made.verdict(way) for way in WAYS]
    assert verdicts[0] == verdicts[1]
    assert not verdicts[0].allow
    assert verdicts[0].code != "gate_error"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("answer", ["replay", "description", "output-check verification"])
async def test_an_answer_to_another_question_of_the_same_kind_denies(answer: str, scene: str, way: Way) -> None:
    made = SCENES[scene]().record()
    authority, release = made.authority, "2026-11-03.2"
    decision = authority.decide("other.example", outcome="refund-review", release=release)
    check = authority.check_output(decision, {"body": "another text"})
    others: dict[str, Ask] = {
        "replay": Verify(decision["executionId"]),
        "description": Describe(authority.job, release),
        "output-check verification": VerifyOutputCheck(check["checkId"]),
    }
    authority.answers[made.asks[answer]] = authority.good_answer(others[answer])
    assert not (await made.verdict(way)).allow
