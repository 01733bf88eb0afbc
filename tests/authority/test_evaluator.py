"""Hostile conditions and regular expressions: each ends in time, has no answer, and stops nobody else."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from authority.asking import evidence
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.expressions import evaluator
from preaction.authority.expressions.conditions import Condition, Dialect, may_take_long
from preaction.authority.expressions.patterns import Pattern
from preaction.authority.expressions.schemas import Validator
from preaction.authority.packs.outputs import check_content, ready_output, ready_rule
from preaction.authority.packs.pack import OutputKind, OutputRule

DIALECT = Dialect(
    {
        "facts.text": {"type": "string"},
        "facts.numbers": {"type": "array", "items": {"type": "integer"}},
    }
)
LARGE = "a" * 250_000
MANY = list(range(30_000))
GROWING = "['aaaaaaaaaaaaaaaa']" + ".map(a, a + a + a + a + a + a + a + a)" * 20
HOSTILE = {
    "joins texts": ("facts.numbers.all(x, (facts.text + facts.text + facts.text).size() > 0)", MANY[:9000]),
    "looks into lists": ("facts.numbers.all(x, !(x + 100000 in facts.numbers))", MANY),
    "copies lists": ("facts.numbers.map(x, facts.numbers + facts.numbers).size() < 0", MANY[:9000]),
    "grows without end": (f"{GROWING}.size() == 1", []),
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So that tests needn't wait for long; the process is started before, which takes its own time."""
    assert evaluator._EVALUATOR.ask({"pattern": "a", "text": "a", "most": 1}) == (True, [[0, 1]])
    monkeypatch.setattr(evaluator, "LIMIT_S", 0.2)
    yield
    evaluator._EVALUATOR.end()


def facts(numbers: list[int]) -> dict[str, Any]:
    return {"facts": {"text": LARGE, "numbers": numbers}}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_condition_is_undecided_in_time(name: str, impatient: None) -> None:
    source, numbers = HOSTILE[name]
    condition = DIALECT.compile(source)
    began = time.monotonic()
    assert condition.holds(facts(numbers)) is None
    assert time.monotonic() - began < 60


def test_what_took_too_long_is_left_alone_for_a_while(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    source, numbers = HOSTILE["joins texts"]
    condition = DIALECT.compile(source)
    assert condition.holds(facts(numbers)) is None
    monkeypatch.setattr(evaluator._EVALUATOR, "ask", lambda _question: pytest.fail("it was asked again"))
    assert condition.holds(facts([1])) is None
    monkeypatch.undo()
    monkeypatch.setattr(evaluator, "LIMIT_S", 30.0)
    monkeypatch.setattr(evaluator.time, "monotonic", lambda: 1e12)
    assert condition.holds(facts([1])) is True


def test_what_waited_for_others_in_vain_is_not_left_alone(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    condition = DIALECT.compile("facts.numbers.all(x, x > 0)")
    with evaluator._EVALUATOR._lock:
        assert condition.holds(facts([1])) is None
    monkeypatch.setattr(evaluator, "LIMIT_S", 30.0)
    assert condition.holds(facts([1])) is True


def test_while_the_process_starts_who_asks_waits_for_it(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator._EVALUATOR, "_ready", False)
    held = threading.Event()

    def starts() -> None:
        with evaluator._EVALUATOR._lock:
            held.set()
            time.sleep(5 * evaluator.LIMIT_S)
            evaluator._EVALUATOR._ready = True
            monkeypatch.setattr(evaluator, "LIMIT_S", 30.0)  # for the answer, on a busy machine

    one = threading.Thread(target=starts)
    one.start()
    assert held.wait(30)
    assert evaluator._EVALUATOR.ask({"pattern": "a", "text": "a", "most": 1}) == (True, [[0, 1]])
    one.join()


def test_after_one_that_took_too_long_others_are_answered(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    source, numbers = HOSTILE["joins texts"]
    assert DIALECT.compile(source).holds(facts(numbers)) is None
    monkeypatch.setattr(evaluator, "LIMIT_S", 30.0)
    assert DIALECT.compile("facts.numbers.all(x, x >= 0)").holds(facts([1, 2])) is True
    assert DIALECT.compile("facts.numbers.all(x, x > 1)").holds(facts([1, 2])) is False
    assert DIALECT.compile("facts.numbers.all(x, x > 1)").holds({"facts": {}}) is None


@pytest.mark.parametrize(
    ("source", "long"),
    [
        ('facts.text == "billing" && facts.numbers.size() > 1', False),
        ("has(facts.text) && facts.text.contains('a')", False),
        ("facts.numbers.all(x, x > 0)", True),
        ("facts.numbers . // why\n all (x, x > 0)", True),
        ("facts.text.matches('a')", True),
        ("matches(facts.text, 'a')", True),
        ("size(facts.text + facts.text + facts.text + facts.text + facts.text) > 0", False),
        ("size(facts.text + facts.text + facts.text + facts.text + facts.text + facts.text) > 0", True),
    ],
)
def test_what_may_take_long_is_known_by_its_words(source: str, long: bool) -> None:
    assert may_take_long(source) is long


def test_both_ways_of_evaluating_say_the_same() -> None:
    values = {"text": "a\ud800", "numbers": [1, -2, 2**62]}
    given: list[dict[str, Any]] = [{"facts": values}, facts([1]), {"facts": {}}]
    for source in (
        "facts.numbers.exists(x, x < 0)",
        "facts.text.matches('a')",
        "facts.numbers[5] > 0 || [1].all(x, true)",
    ):
        condition: Condition = DIALECT.compile(source)
        for data in given:
            assert condition.holds(data) is condition.evaluate(data)


def test_one_that_takes_no_question_has_no_answer_in_time(impatient: None) -> None:
    process = evaluator._EVALUATOR._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    assert evaluator._EVALUATOR.ask({"pattern": "a", "text": "a" * 1_000_000, "most": 1}) == (False, None)
    assert process.returncode == -signal.SIGKILL


# ---------------------------------------------------------------- the process

ALONE = (
    evaluator._COMMAND.partition("from")[0]
    + """
import os, signal, threading
from preaction.authority.expressions import evaluator
evaluator.LIMIT_S = float(sys.argv[2])
evaluator._EVALUATOR.start()  # it keeps this limit; who asks waits longer, as a machine may be busy
evaluator.LIMIT_S = 30.0
question = {"pattern": "a", "text": "a", "most": 1}
assert evaluator._EVALUATOR.ask(question) == (True, [[0, 1]])
process = evaluator._EVALUATOR._process
"""
)
KILLED = """
sys.stdout.write(str(process.pid))
sys.stdout.flush()
assert evaluator._sent(process.stdin, sys.stdin.buffer.read(), evaluator.time.monotonic() + 30)
os.kill(os.getpid(), signal.SIGKILL)
"""
FORKED = """
held, hold = threading.Event(), threading.Event()
def keep():
    with evaluator._EVALUATOR._lock:
        held.set()
        hold.wait()
threading.Thread(target=keep, daemon=True).start()
held.wait()
if os.fork() == 0:
    answer = evaluator._EVALUATOR.ask(question)
    other = evaluator._EVALUATOR._process
    evaluator._EVALUATOR.end()
    os._exit(0 if answer == (True, [[0, 1]]) and other.pid != process.pid else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
hold.set()
assert evaluator._EVALUATOR.ask(question) == (True, [[0, 1]])
assert evaluator._EVALUATOR._process is process
"""


def alone(code: str, limit_s: float, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    package = str(Path(evaluator.__file__).parent.parent)
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", ALONE + code, package, str(limit_s)]
    return subprocess.run(command, input=given, capture_output=True, timeout=120, check=False)


def test_in_the_midst_of_a_question_it_ends_after_the_process_that_was_killed() -> None:
    source, _ = HOSTILE["looks into lists"]
    for_minutes = facts([0] * 300_000)
    question = {"schemas": DIALECT._schemas, "condition": source, "data": for_minutes}
    done = alone(KILLED, 1.5, json.dumps(question).encode() + b"\n")
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")
    assert has_ended(int(done.stdout))


def test_asked_nothing_it_ends_with_the_process_that_was_killed() -> None:
    assert has_ended(int(alone(KILLED, 30).stdout))


def has_ended(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(timeout=60)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        os.kill(pid, signal.SIGKILL)
        return False
    return True


def test_a_fork_has_its_own_and_leaves_the_parents_alone() -> None:
    done = alone(FORKED, 20)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr
    assert b"ResourceWarning" not in done.stderr


# ---------------------------------------------------------------- regular expressions


def test_a_hostile_pattern_on_a_large_text_is_a_finding_in_time(impatient: None) -> None:
    for kind in ("must_match", "must_not_match"):
        rule = ready_rule(OutputRule.model_validate({"id": kind, "field": "body", kind: "(a?){1000}" * 8 + "b"}))
        output = ready_output(OutputKind(fields=["body"]), [rule])
        [finding] = check_content(output, {"body": LARGE})
        assert (finding.rule, finding.span) == (kind, None)


def test_a_large_text_has_the_same_spans_as_a_small_one() -> None:
    pattern = Pattern("[bé]+")
    text = LARGE + "é" + LARGE + "bb"
    assert not pattern._is_short(text)
    assert list(pattern.spans(text, 5)) == [(250_000, 250_001), (500_001, 500_003)]
    assert list(pattern.spans(text, 1)) == [(250_000, 250_001)]
    assert (pattern.found_in(text), pattern.found_in(LARGE), pattern.found_in("b")) == (True, False, True)


def test_the_pattern_of_a_fact_is_bounded_like_one_of_a_rule(impatient: None) -> None:
    schema = {"type": "object", "properties": {"notes": {"type": "array", "items": {"type": "string"}}}}
    schema["properties"]["notes"]["items"]["pattern"] = "(a?){1000}" * 8 + "b"  # type: ignore[index]
    began = time.monotonic()
    found = list(Validator(schema).errors({"notes": [LARGE, "ab"]}))
    assert found == [(["notes", 0], "the value takes too long to be matched with the pattern")]
    assert time.monotonic() - began < 60
    assert [each[0] for each in Validator(schema).errors({"notes": ["b", "a", 7]})] == [["notes", 1], ["notes", 2]]


# ---------------------------------------------------------------- a whole server

HOSTILE_PACK = HELPDESK.replace(
    'facts.topic == "billing" && facts.amount < 100.0',
    "'[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(x, facts.topic).map(a, a + a + a + a + a + a + a + a)"
    + ".map(b, b + b + b + b + b + b + b + b)" * 12
    + ".size() == 0'",
)


LONG_PACK = HELPDESK.replace("facts.amount < 100.0", "[facts.amount].all(amount, amount < 100.0)")


@pytest.mark.parametrize("expected", [False, True])
def test_a_server_starts_it_before_its_first_request_if_a_pack_may_need_it(
    monkeypatch: pytest.MonkeyPatch, *, expected: bool
) -> None:
    evaluator._EVALUATOR.end()
    monkeypatch.setattr(evaluator._EVALUATOR, "expected", False)
    with LocalAuthority.from_pack(LONG_PACK if expected else HELPDESK) as authority, authority.serve():
        assert (evaluator._EVALUATOR._process is not None) is expected
    evaluator._EVALUATOR.end()


def test_where_it_can_not_be_started_a_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator._EVALUATOR.end()
    monkeypatch.setattr(evaluator.sys, "executable", "/no/such/interpreter")
    with LocalAuthority.from_pack(LONG_PACK) as authority, authority.serve():
        assert authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())["status"] == "undecided"


class Held:
    """An evaluator that answers when it is let."""

    expected = False
    answer: tuple[bool, Any] = (True, True)

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def ask(self, _question: object) -> tuple[bool, Any]:
        self.asked.set()
        assert self.may_answer.wait(30)
        return self.answer


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    held = Held()
    monkeypatch.setattr(evaluator, "_EVALUATOR", held)
    return held


@pytest.fixture
def long_authority(tmp_path: Path) -> Iterator[tuple[LocalAuthority, str]]:
    """With an execution that can't be replayed without the evaluator."""
    with LocalAuthority.from_pack(LONG_PACK, tmp_path / "any.db") as authority:
        yield authority, authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())["executionId"]


def test_while_a_replay_waits_for_it_a_server_answers_others(
    long_authority: tuple[LocalAuthority, str], held: Held
) -> None:
    authority, made = long_authority
    headers = {"Authorization": f"Bearer {authority.agent_key}"}
    with (
        authority.serve() as served,
        httpx.Client(base_url=served.origin, headers=headers, trust_env=False, timeout=30) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        replay = pool.submit(http.post, f"/v0/executions/{made}/verify", json={})
        assert held.asked.wait(30)
        assert http.get("/healthz").status_code == 200
        held.may_answer.set()
        assert replay.result().json()["valid"] is True


def test_while_a_fact_is_matched_a_server_answers_others(held: Held) -> None:
    held.answer = False, None
    pack = HELPDESK.replace("enum: [billing, outage, other]", "pattern: '(a?){1000}b'")
    with (
        LocalAuthority.from_pack(pack) as authority,
        authority.serve() as served,
        httpx.Client(base_url=served.origin, trust_env=False, timeout=30) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        headers = {"Authorization": f"Bearer {authority.agent_key}"}
        body = {"entity_id": "HC-1", "evidence": evidence(topic=LARGE)}
        decide = pool.submit(http.post, "/v0/jobs/triage-ticket/decisions", json=body, headers=headers)
        assert held.asked.wait(30)
        assert http.get("/healthz").status_code == 200
        held.may_answer.set()
        refused = decide.result()
    assert (refused.status_code, [each["pointer"] for each in refused.json()["errors"]]) == (
        422,
        ["/evidence/topic/value"],
    )


async def test_while_a_replay_waits_for_it_an_event_loop_goes_on(
    long_authority: tuple[LocalAuthority, str], held: Held
) -> None:
    authority, made = long_authority
    verifying = asyncio.create_task(authority.averify(made))
    assert await asyncio.to_thread(held.asked.wait, 30)
    held.may_answer.set()
    assert (await verifying)["valid"] is True


def test_while_one_condition_takes_its_time_others_are_answered() -> None:
    with LocalAuthority.from_pack(HOSTILE_PACK) as authority, authority.serve() as served:
        decided: list[dict[str, Any]] = []
        decide = threading.Thread(
            target=lambda: decided.append(
                authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence(amount=5.0))
            )
        )
        decide.start()
        assert httpx.get(f"{served.origin}/healthz", trust_env=False, timeout=60).status_code == 200
        decide.join(timeout=60)
        assert [each["status"] for each in decided] == ["undecided"]
        assert authority.verify(decided[0]["executionId"])["valid"]
    evaluator._EVALUATOR.end()
