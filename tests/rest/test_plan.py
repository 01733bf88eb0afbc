"""How a batch becomes requests, without any network: questions are looked at, outcomes are made up."""

import json
from typing import Any

import pytest

from preaction._core.facts import Ask, Describe, Unavailable, Verify, VerifyOutputCheck
from preaction.rest.exchange import TIMED_OUT, Failure, json_of
from preaction.rest.plan import Plan
from rest.answers import ANSWERS, ASKS, CHECK, CHECKED, DESCRIBE, DESCRIPTION, EVERYTHING, REPLAY, VERIFY, changed

ALL = {"description", "outputChecks"}
LACKS = "the answer lacked or mistyped a field it needs"


def run(asks: list[Ask], answers: dict[str, Any], ignored: set[str]) -> tuple[dict[Ask, object], list[list[str]]]:
    """The answers to a batch, and the paths that each round asked; `answers` goes by the end of the path."""
    plan, rounds = Plan(asks, ignored), []
    while questions := plan.questions():
        rounds.append([question.request.path + _wishes(question.request.body) for question in questions])
        plan.settle([_outcome(question, answers) for question in questions])
    return plan.answers, rounds


def _wishes(body: bytes | None) -> str:
    include = json.loads(body or b"{}").get("include", {})
    return "".join(f" +{name}" for name in include)


def _outcome(question: Any, answers: dict[str, Any]) -> Any:
    path = question.request.path + _wishes(question.request.body)
    found = next((answer for end, answer in answers.items() if path.endswith(end)), json_of(404, b""))
    return found if isinstance(found, Failure) else question.read(found)


JOINT = "/v0/executions/exe_1/verify +description +outputChecks"
ALONE = {
    "exe_1/verify": REPLAY,
    "/v0/jobs/triage-ticket/releases/2026-11-03.1": DESCRIPTION,
    "chk_1/verify": CHECKED,
}
APART = [
    "/v0/executions/exe_1/verify",
    "/v0/jobs/triage-ticket/releases/2026-11-03.1",
    "/v0/output-checks/chk_1/verify",
]


def test_one_request_answers_everything() -> None:
    ignored: set[str] = set()
    assert run(ASKS, {JOINT: EVERYTHING}, ignored) == (ANSWERS, [[JOINT]])
    assert ignored == set()


def test_snake_case_is_read_too() -> None:
    everything = {**REPLAY, "description": DESCRIPTION, "output_checks": {"chk_1": CHECKED}}
    assert run(ASKS, {JOINT: everything}, set()) == (ANSWERS, [[JOINT]])


@pytest.mark.parametrize(
    ("asks", "wishes"),
    [
        ([VERIFY], ""),
        ([VERIFY, DESCRIBE], " +description"),
        ([CHECK, VERIFY], " +outputChecks"),
        (ASKS + ASKS, " +description +outputChecks"),
    ],
)
def test_only_what_is_asked_is_wished_for(asks: list[Ask], wishes: str) -> None:
    _, rounds = run(asks, {"": EVERYTHING}, set())
    assert rounds == [["/v0/executions/exe_1/verify" + wishes]]


def test_at_most_four_checks_ride_along() -> None:
    checks = [VerifyOutputCheck(f"chk_{n}") for n in range(6)]
    [first, *_] = Plan([*checks, VERIFY], set()).questions()
    assert json.loads(first.request.body or b"") == {"include": {"outputChecks": ["chk_0", "chk_1", "chk_2", "chk_3"]}}
    _, [together] = run([*checks, VERIFY], {"+outputChecks": {**REPLAY, "outputChecks": {}}}, set())
    assert together[1:] == ["/v0/output-checks/chk_4/verify", "/v0/output-checks/chk_5/verify"]


def test_without_exactly_one_verification_each_ask_goes_alone() -> None:
    _, rounds = run([DESCRIBE, CHECK], ALONE, set())
    assert rounds == [APART[1:]]
    _, rounds = run([VERIFY, Verify("exe_2"), DESCRIBE], ALONE, set())
    assert [len(paths) for paths in rounds] == [3]
    assert "include" not in str(rounds)


def test_an_authority_that_ignores_the_wish_is_asked_at_once_and_never_wished_from_again() -> None:
    ignored: set[str] = set()
    assert run(ASKS, {JOINT: REPLAY} | ALONE, ignored) == (ANSWERS, [[JOINT], APART[1:]])
    assert ignored == ALL
    assert run(ASKS, ALONE, ignored) == (ANSWERS, [APART])


@pytest.mark.parametrize("absent", [{"description": None, "outputChecks": None}, {"description": None}])
def test_null_is_as_good_as_absent(absent: dict[str, None]) -> None:
    ignored: set[str] = set()
    assert run(ASKS, {JOINT: {**REPLAY, **absent}} | ALONE, ignored)[0] == ANSWERS
    assert ignored == ALL


def test_each_part_is_learnt_by_itself() -> None:
    ignored: set[str] = set()
    answers, rounds = run(ASKS, {JOINT: {**REPLAY, "outputChecks": {"chk_1": CHECKED}}} | ALONE, ignored)
    assert (answers, rounds) == (ANSWERS, [[JOINT], [APART[1]]])
    assert ignored == {"description"}
    _, rounds = run(ASKS, {"+outputChecks": {**REPLAY, "outputChecks": {"chk_1": CHECKED}}} | ALONE, ignored)
    assert rounds == [["/v0/executions/exe_1/verify +outputChecks", APART[1]]]


def test_a_receipt_that_is_not_valid_teaches_nothing() -> None:
    ignored: set[str] = set()
    invalid = {"valid": False, "problems": ["record_altered"], "executionId": "exe_1"}
    answers, rounds = run(ASKS, {JOINT: invalid} | ALONE, ignored)
    assert rounds == [[JOINT], APART[1:]]
    assert ignored == set()
    assert answers[VERIFY].valid is False  # type: ignore[attr-defined]
    assert answers[CHECK] == ANSWERS[CHECK]


@pytest.mark.parametrize("status", [400, 422])
def test_an_authority_that_refuses_the_wish_is_asked_without_it(status: int) -> None:
    ignored: set[str] = set()
    assert run(ASKS, {JOINT: json_of(status, b"")} | ALONE, ignored) == (ANSWERS, [[JOINT], APART])
    assert ignored == ALL


def test_an_authority_that_refuses_the_question_too_teaches_nothing() -> None:
    ignored: set[str] = set()
    answers, _ = run(ASKS, {"exe_1/verify": json_of(422, b""), JOINT: json_of(422, b"")}, ignored)
    assert answers[VERIFY] == Unavailable("the authority answered with status 422")
    assert ignored == set()


@pytest.mark.parametrize("failure", [TIMED_OUT, json_of(503, b""), json_of(404, b""), json_of(302, b"")])
def test_a_failed_exchange_is_the_fate_of_every_part(failure: Failure) -> None:
    answers, rounds = run(ASKS, {JOINT: failure} | ALONE, set())
    assert answers == dict.fromkeys(ASKS, Unavailable(failure.why))
    assert rounds == [[JOINT]]


def test_an_answer_that_is_no_object_is_no_answer_to_any_part() -> None:
    answers, rounds = run(ASKS, {JOINT: [REPLAY]}, set())
    assert answers == dict.fromkeys(ASKS, Unavailable(f"{LACKS} (the whole answer)"))
    assert len(rounds) == 1


def test_an_unknown_check_is_unavailable_and_not_asked_again() -> None:
    ignored: set[str] = set()
    answers, rounds = run(ASKS, {JOINT: changed(EVERYTHING, "outputChecks", {"chk_2": CHECKED})}, ignored)
    assert answers == ANSWERS | {CHECK: Unavailable("the authority does not know the output check")}
    assert (rounds, ignored) == ([[JOINT]], set())


@pytest.mark.parametrize("field", ["job", "release"])
def test_a_description_of_something_else_is_asked_for_alone(field: str) -> None:
    ignored: set[str] = set()
    other = changed(EVERYTHING, f"description.{field}", "other")
    assert run(ASKS, {JOINT: other} | ALONE, ignored) == (ANSWERS, [[JOINT], [APART[1]]])
    assert ignored == set()


def test_of_several_descriptions_the_first_rides_along() -> None:
    older = Describe("triage-ticket", "2026-10-01.1")
    _, rounds = run([VERIFY, DESCRIBE, older], {"+description": {**REPLAY, "description": DESCRIPTION}}, set())
    assert rounds == [["/v0/executions/exe_1/verify +description", "/v0/jobs/triage-ticket/releases/2026-10-01.1"]]


@pytest.mark.parametrize(
    ("path", "to", "unavailable"),
    [
        ("valid", 1, {VERIFY: "valid"}),
        ("executionId", ..., {VERIFY: "executionId"}),
        ("description", 5, {DESCRIBE: "description"}),
        ("description.outcomes", ..., {DESCRIBE: "description.outcomes"}),
        ("outputChecks", [CHECKED], {CHECK: "outputChecks"}),
        ("outputChecks.chk_1", None, {CHECK: "outputChecks.chk_1"}),
        ("outputChecks.chk_1.passed", "true", {CHECK: "outputChecks.chk_1.passed"}),
    ],
)
def test_a_misshapen_part_spoils_only_itself(path: str, to: object, unavailable: dict[Ask, str]) -> None:
    answers, rounds = run(ASKS, {JOINT: changed(EVERYTHING, path, to)}, set())
    assert answers == ANSWERS | {ask: Unavailable(f"{LACKS} ({field})") for ask, field in unavailable.items()}
    assert rounds == [[JOINT]]


def test_ids_that_may_not_be_sent_are_unavailable_without_a_request() -> None:
    answers, rounds = run([Verify("../x"), VerifyOutputCheck("a/b"), Describe("..", "1")], {}, set())
    assert rounds == []
    assert {answer.why for answer in answers.values()} == {  # type: ignore[attr-defined]
        "the id is not one that an authority issues",
        "the name of the job or of the release cannot be part of a path",
    }


@pytest.mark.parametrize("ignored", [set(), ALL])
@pytest.mark.parametrize("outcomes", [1, 3])
def test_each_question_has_one_outcome(ignored: set[str], outcomes: int) -> None:
    plan = Plan([VERIFY, DESCRIBE, Describe("other", "1")], ignored)
    questions = len(plan.questions())
    with pytest.raises(ValueError, match="zip"):
        plan.settle([TIMED_OUT] * (questions - 2 + outcomes))
    assert plan.answers == {}


def test_nothing_asked_is_nothing_sent() -> None:
    assert run([], {}, set()) == ({}, [])
