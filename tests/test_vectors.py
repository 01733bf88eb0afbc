"""Every file of `vectors/`, read as its README says and by nothing else, and run through both drivers."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from preaction._core.call import read_call
from preaction._core.denied import CHECK_NAMES, Code, Denied
from preaction._core.facts import Ask, Unavailable
from preaction._core.procedure import judge
from preaction._core.record import Round, ask_from_json, replay, rounds_from_json
from preaction._core.rule import RuleBook
from preaction._core.trail import Trail
from preaction._core.verdict import Allowed, Verdict, verdict_of
from preaction.drive import Facts, arun, run
from preaction.errors import InvalidJSON
from preaction.options import read_book
from preaction.rest.exchange import Failure, Question, Request, answer_from, question_for
from preaction.rest.plan import Plan
from preaction.wire import strict_json
from preaction.wire.models import Wire

VECTORS = Path(__file__).parent.parent / "vectors"

OPTIONS = {
    "releases": "releases",
    "refuseFields": "refuse_fields",
    "testRecipients": "test_recipients",
    "unlisted": "unlisted",
    "ownSuffixes": "own_suffixes",
    "sharedDomains": "shared_domains",
    "maxDecisionAgeSeconds": "max_decision_age",
    "maxClockSkewSeconds": "max_clock_skew_s",
}
DEFAULTS: dict[str, Any] = {
    "releases": None,
    "refuseFields": [],
    "testRecipients": None,
    "unlisted": "deny",
    "ownSuffixes": [],
    "sharedDomains": [],
    "maxDecisionAgeSeconds": 86_400,
    "maxClockSkewSeconds": 300,
}


def paths(folder: str) -> list[str]:
    found = sorted(path.relative_to(VECTORS).as_posix() for path in (VECTORS / folder).glob("*.json"))
    assert found, folder
    return found


def read(path: str, *keys: str) -> dict[str, Any]:
    """A file that is an object with exactly these keys."""
    return exactly(strict_json.loads((VECTORS / path).read_bytes()), *keys)


def exactly(value: Any, *keys: str) -> dict[str, Any]:
    assert isinstance(value, dict)
    assert value.keys() == set(keys), f"unknown or missing keys: {value.keys() ^ set(keys)}"
    return value


def entries(path: str, *keys: str) -> Iterator[dict[str, Any]]:
    """The vectors of a file that holds several."""
    names = set()
    for vector in read(path, "title", "vectors")["vectors"]:
        names.add(vector["name"])
        yield exactly(vector, "name", *keys)
    assert len(names) == len(read(path, "title", "vectors")["vectors"])


# ---------------------------------------------------------------- calls


def judged_text(tool: str, text: str) -> Verdict | Denied:
    """What becomes of a text of arguments, up to the call: a verdict that knows it, or the denial."""
    try:
        arguments: object = strict_json.loads(text)
    except InvalidJSON:
        arguments = None
    call = read_call("chat-7", tool, arguments)
    if isinstance(call, Denied):
        return call
    trail = Trail(call=call)
    denied = Denied("gate_error", None, "")
    return verdict_of(denied, trail, tool=tool, session_id="chat-7", enforced=True)


@pytest.mark.parametrize("path", paths("calls"))
def test_calls(path: str) -> None:
    for vector in entries(path, "tool", "arguments", "expect"):
        found = judged_text(vector["tool"], vector["arguments"])
        if "code" in vector["expect"]:
            assert isinstance(found, Denied), vector["name"]
            assert found.code == exactly(vector["expect"], "code")["code"], vector["name"]
        else:
            expect = exactly(vector["expect"], "canonical", "digest")
            assert isinstance(found, Verdict), vector["name"]
            assert found.call_digest == expect["digest"], vector["name"]
            assert "sha-256:" + hashlib.sha256(expect["canonical"].encode()).hexdigest() == expect["digest"]


def test_two_calls_with_one_digest_are_one_call() -> None:
    vectors = list(entries("calls/digests.json", "tool", "arguments", "expect"))
    meant: dict[str, object] = {}
    for vector in vectors:
        digest, value = vector["expect"]["digest"], json.loads(vector["arguments"])
        assert meant.setdefault(digest, value) == value
    assert len(meant) < len(vectors)


# ---------------------------------------------------------------- verdicts

EXPECTED = ("allow", "code", "check", "escalate", "escalation")


def read_verdict(path: str) -> dict[str, Any]:
    vector = read(path, "title", "job", "rules", "options", "call", "rounds", "expect")
    exactly(vector["call"], "session", "tool", "arguments", "take")
    allow = vector["expect"]["allow"]
    exactly(vector["expect"], *EXPECTED, *(["case"] if allow else []))
    assert vector["expect"]["code"] in get_args(Code)
    assert vector["expect"]["check"] in (None, *CHECK_NAMES)
    assert allow is (vector["expect"]["code"] in ("allowed", "not_gated"))
    assert vector["options"].keys() <= DEFAULTS.keys()
    return vector


def book_of(vector: Mapping[str, Any]) -> RuleBook:
    options: dict[str, Any] = {**DEFAULTS, **vector["options"]}
    options["maxDecisionAgeSeconds"] = timedelta(seconds=options["maxDecisionAgeSeconds"])
    named = {OPTIONS[name]: value for name, value in options.items()}
    return read_book(job=vector["job"], tools=vector["rules"], **named)


class Told:
    """A session and a source of facts that give the answers of a vector's rounds, in their order, and no others."""

    keeps_deadline = True

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.left = [(ask, answer) for one in rounds for ask, answer in one.items()]

    def session(self, ask: Any) -> Any:
        return self._answer(ask)

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> dict[Ask, object]:
        return {ask: self._answer(ask) for ask in asks}

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> dict[Ask, object]:
        return self.fetch(asks, deadline_s)

    def _answer(self, ask: Any) -> object:
        place = next(number for number, (held, _) in enumerate(self.left) if held == ask)
        return self.left.pop(place)[1]


def as_expected(verdict: Verdict, allow: bool) -> dict[str, Any]:
    hand_off = verdict.escalation
    return {
        "allow": verdict.allow,
        "code": verdict.code,
        "check": verdict.failed,
        "escalate": verdict.escalate,
        "escalation": None if hand_off is None else hand_off.model_dump(mode="json"),
        **({"case": verdict.case} if allow else {}),
    }


@pytest.mark.parametrize("driver", ["run", "arun"])
@pytest.mark.parametrize("path", paths("verdicts"))
async def test_verdicts(path: str, driver: str) -> None:
    vector = read_verdict(path)
    call, trail, told = vector["call"], Trail(), Told(rounds_from_json(vector["rounds"]))
    procedure = judge(call["session"], call["tool"], call["arguments"], book_of(vector), trail, take=call["take"])
    facts = Facts(told, told, told)
    if driver == "run":
        judgement = run(procedure, told.session, facts, 5.0)
    else:
        judgement = await arun(procedure, told.session, facts, 5.0)
    verdict = verdict_of(judgement, trail, tool=call["tool"], session_id=call["session"], enforced=True)
    assert as_expected(verdict, vector["expect"]["allow"]) == vector["expect"], verdict.reason
    assert told.left == [], "the decision asked for less than the vector holds"
    assert isinstance(judgement, Allowed) == (vector["expect"]["code"] == "allowed")


@pytest.mark.parametrize("path", paths("verdicts"))
def test_verdicts_replayed(path: str) -> None:
    vector = read_verdict(path)
    given = vector["call"]
    call = read_call(given["session"], given["tool"], given["arguments"])
    if isinstance(call, Denied):
        assert vector["rounds"] == []
        return
    verdict = replay(call, book_of(vector), rounds_from_json(vector["rounds"]))
    assert as_expected(verdict, vector["expect"]["allow"]) == vector["expect"], verdict.reason


def test_verdicts_cover_every_code_that_a_decision_can_give() -> None:
    codes = {read_verdict(path)["expect"]["code"] for path in paths("verdicts")}
    assert set(get_args(Code)) - codes == {"gate_error"}


@pytest.mark.parametrize("path", [path for path in paths("verdicts") if "/allowed-" in path])
def test_without_its_last_answer_from_the_authority_no_call_is_allowed(path: str) -> None:
    vector = read_verdict(path)
    rounds = rounds_from_json(vector["rounds"])
    given = vector["call"]
    for number, one in enumerate(rounds):
        for ask in one:
            if isinstance(ask, Ask):
                altered: list[Round] = [dict(other) for other in rounds]
                altered[number] = {**one, ask: Unavailable("it did not answer in time")}
                told, trail = Told(altered), Trail()
                procedure = judge(
                    given["session"], given["tool"], given["arguments"], book_of(vector), trail, take=given["take"]
                )
                judgement = run(procedure, told.session, Facts(told, told, told), 5.0)
                assert isinstance(judgement, Denied)
                assert judgement.code == "verify_failed"


# ---------------------------------------------------------------- the wire


def fact(value: Mapping[str, Any]) -> Ask:
    ask = ask_from_json(value)
    assert isinstance(ask, Ask)
    return ask


def written(request: Request) -> dict[str, Any]:
    body = None if request.body is None else json.loads(request.body)
    return {"method": request.method, "path": request.path, "body": body}


def test_requests() -> None:
    for vector in entries("wire/requests.json", "ask", "expect"):
        question = question_for(fact(vector["ask"]))
        if isinstance(question, Failure):
            assert vector["expect"] == {"unavailable": question.kind}, vector["name"]
        else:
            assert vector["expect"] == {"request": written(question.request)}, vector["name"]


def test_responses() -> None:
    for vector in entries("wire/responses.json", "ask", "response", "expect"):
        ask, response = fact(vector["ask"]), exactly(vector["response"], "status", "body")
        question = question_for(ask)
        assert isinstance(question, Question)
        status, body = response["status"], response["body"].encode()
        found = question.settle(status, body)
        if isinstance(found, Failure):
            assert vector["expect"] == {"unavailable": found.kind}, vector["name"]
            assert answer_from(ask, status, body) == Unavailable(found.why), vector["name"]
        else:
            assert vector["expect"] == {"answer": dumped(found)}, vector["name"]
            assert answer_from(ask, status, body) == found, vector["name"]


def dumped(answer: object) -> Any:
    assert isinstance(answer, Wire)
    return answer.model_dump(mode="json", exclude_unset=True)


def test_batches() -> None:
    for vector in entries("wire/batches.json", "asks", "rounds", "expect"):
        asks = list(map(fact, vector["asks"]))
        plan = Plan(asks, set())
        for exchanges in vector["rounds"]:
            questions = plan.questions()
            sent = [written(question.request) for question in questions]
            assert sent == [exactly(one, "request", "response")["request"] for one in exchanges], vector["name"]
            responses = [exactly(one["response"], "status", "body") for one in exchanges]
            plan.settle(
                [
                    question.settle(response["status"], response["body"].encode())
                    for question, response in zip(questions, responses, strict=True)
                ]
            )
        assert plan.questions() == [], vector["name"]
        for ask, expect in zip(asks, vector["expect"], strict=True):
            answer = plan.answers[ask]
            found = {"unavailable": None} if isinstance(answer, Unavailable) else {"answer": dumped(answer)}
            assert found == expect, vector["name"]


# ---------------------------------------------------------------- the files


def test_every_file_is_run_here() -> None:
    found = {path.relative_to(VECTORS).as_posix() for path in VECTORS.rglob("*.json")}
    wire = {"wire/requests.json", "wire/responses.json", "wire/batches.json"}
    assert found == {*paths("calls"), *paths("verdicts"), *wire}


def test_the_files_are_ascii_and_end_in_one_line_feed() -> None:
    for path in VECTORS.rglob("*.json"):
        text = path.read_bytes()
        assert text.isascii(), path
        assert text.endswith(b"}\n"), path
        assert b"\r" not in text, path


def checked(vectors: Path) -> tuple[int, str]:
    """What `make.py --check` says of this folder."""
    command = [sys.executable, str(vectors / "make.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_files_are_what_the_script_would_write() -> None:
    assert checked(VECTORS) == (0, "")


def test_the_check_names_every_file_that_differs_is_missing_or_is_too_much(tmp_path: Path) -> None:
    copy = shutil.copytree(VECTORS, tmp_path / "vectors")
    (copy / "verdicts/allowed-fixed.json").write_text("{}\n")
    (copy / "wire/requests.json").unlink()
    (copy / "calls/more.json").write_text("{}\n")
    code, said = checked(copy)
    assert code == 1
    assert said.splitlines() == [
        "calls/more.json: not one of the vectors",
        "verdicts/allowed-fixed.json: differs",
        "wire/requests.json: missing",
    ]


def test_the_script_writes_nothing_that_the_table_does_not_say(tmp_path: Path) -> None:
    copy = shutil.copytree(VECTORS, tmp_path / "vectors")
    table = copy / "_verdicts.py"
    said = table.read_text("utf-8")
    wrong = said.replace("escalate=HAND_OVER", "escalate=ANSWER")
    assert wrong != said
    table.write_text(wrong, "utf-8")
    code, why = checked(copy)
    assert code == 1
    assert "denied-outcome-not-allowed: the table says" in why


@pytest.mark.parametrize("place", ["", "call", "expect", "options"])
def test_a_vector_with_an_unknown_key_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = read_verdict("verdicts/allowed-fixed.json")
    (vector[place] if place else vector)["more"] = 1
    (tmp_path / "one.json").write_text(json.dumps(vector))
    monkeypatch.setattr(sys.modules[__name__], "VECTORS", tmp_path)
    with pytest.raises(AssertionError):
        read_verdict("one.json")


def test_the_readme_names_every_key_of_every_file() -> None:
    text = (VECTORS / "README.md").read_text("utf-8")
    keys = {"title", "vectors", "name", "tool", "arguments", "expect", "canonical", "digest", "code"}
    keys |= {"job", "rules", "options", "call", "session", "take", "rounds", "ask", "answer", "kind", *EXPECTED, "case"}
    keys |= {"request", "method", "path", "body", "response", "status", "unavailable", "asks", *OPTIONS}
    keys |= {"caseId", "decision", "now", "named", "first", "releases", "full", "names", "whole", "per", "checkId"}
    assert {key for key in keys if f"`{key}`" not in text} == set()
    assert {code for code in get_args(Code) if f"`{code}`" not in text} == set()
