"""Calls that a gate must judge right, each a test by its id: `test_case_e01` is E01 of `calls.jsonl`.

The cases are drawn from public bug reports, advisories and test suites (their `source`). `CODES` says by hand which
denial each one must get: a call that is denied for another reason was not judged right. Where a case and the gate's
design disagree the design wins, which `DISAGREEMENTS` says; what no gate judges stands in `ELSEWHERE`.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, get_args
from unittest.mock import patch

import pytest

from cases.world import CASES, TICKET, World, session_of, shared_parents
from preaction import ActionDenied, ConfigurationError, Felspar, Verdict, denial_text
from preaction._core.denied import Code
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority, FakeClock
from preaction.wire.times import read_time, write_time
from rest.authority_server import AuthorityServer, Behaviour, in_turn, response, says

CODES: dict[str, Code] = {
    **dict.fromkeys(["E01", "E02", "E04", "E06", "E07", "E09", "E10", "E12", "E14", "E17"], "recipient_not_plain"),
    **dict.fromkeys(["E20", "E21", "E26", "E28", "E30", "P11", "P22"], "recipient_not_plain"),
    "E15": "subject_unclear",
    **dict.fromkeys(["E24", "E25", "P18", "M20", "M26"], "recipient_not_allowed"),
    **dict.fromkeys(["P01", "P02", "P04", "P08", "P10", "P12", "P14", "P23"], "recipient_not_allowed"),
    **dict.fromkeys(["P06", "P07", "P15", "P17"], "not_a_company"),
    **dict.fromkeys(["A05", "A08", "A09", "A31", "A35", "A38", "A46", "A49"], "case_not_decided"),
    **dict.fromkeys(["M01", "M03", "M07", "M11"], "case_not_decided"),
    **dict.fromkeys(["A07", "A50", "X01", "X02", "X04", "X06", "X10", "X21"], "output_check_missing"),
    **dict.fromkeys(["A13", "A14", "A16", "M12", "M21", "M28", "X13"], "field_not_allowed"),
    **dict.fromkeys(["A17", "A19", "A21", "A22", "A23", "A25", "A26", "A37", "A41"], "malformed_call"),
    "A11": "field_repeated",
    "A27": "tool_name_suspect",
    **dict.fromkeys(["A33", "A47"], "tool_not_listed"),
    "M13": "field_value_not_allowed",
    **dict.fromkeys(["M14", "M16", "M17", "M19"], "recipient_not_allowed"),
    **dict.fromkeys(["H01", "H03", "H04", "H11", "H15", "H18", "H21", "H24"], "verify_failed"),
    **dict.fromkeys(["H06", "H08", "H09", "H20", "H23", "H31"], "receipt_invalid"),
    "H10": "replay_mismatch",
    **dict.fromkeys(["H27", "H28"], "stale"),
    **dict.fromkeys(["I01", "I02", "I05", "I07", "I09", "I15"], "already_used"),
}

FAULTS: dict[str, Code] = {"A01": "gate_error", "A02": "verify_failed", "A04": "gate_error"}
"""Failures injected into the gate."""

BY_HAND = ["A01", "A02", "A04", "A30", "A34", "H25", "I05", "I09"]
"""Cases with a test of their own below."""

ELSEWHERE = {
    "I10": "tests/pipeline: a use is given back where a tool provably did nothing; `once` never gives one back",
    "I14": "tests/pipeline: idempotency keys; a gate knows none",
    "I17": "tests/pipeline: idempotency keys; a gate knows none",
}
"""Cases that no gate judges, and where they belong."""

PARTLY_ELSEWHERE = {
    "A22": "pipeline: the answer to the model is for this call alone, and {} never takes the place of a bad text",
    "A23": "pipeline: finish_reason; here the cut text isn't JSON",
    "A37": "pipeline: the bound on the raw text; here strict_json's own",
    "A46": "adapters: the runtime's truthiness; here the denial is never empty, and a wrapped tool doesn't start",
    "A50": "adapters: only complete arguments are judged; here the complete ones are denied",
    **dict.fromkeys(["I01", "I02", "I04", "I05", "I07", "I09", "I12", "I15"], "pipeline: keys; here `once`"),
}
"""Cases run here as far as a gate can show them."""

DISAGREEMENTS = {
    "H23": "unknown fields of an answer are ignored (G41): `blocked` alone denies nothing, a problem does",
    "A34": "the call that was checked is allowed; what was changed later never runs, and is denied once asked",
}


# ---------------------------------------------------------------- running them


def run_case(case: dict[str, Any]) -> list[Verdict]:
    """The verdicts of a case, one per step; a case of one call is one step."""
    given = case["input"]
    if "receipt_id" in given or any("receipt_id" in step for step in given.get("steps", ())):
        return run_http(given)
    if "question" in given and "decision" not in given:
        return [run_question(given)]
    rules = {"once": "decision"} if case["area"] == "idempotency" else {}
    world = World(rules=rules)
    return [world.check(step) for step in given.get("steps", [given]) if "event" not in step]


def run_question(given: dict[str, Any]) -> Verdict:
    """Is there one company? Every name that the recipients share was decided on, each alone and then all together."""
    names = list(shared_parents(given["args"]["to"]))
    assert names
    verdicts = []
    for decided in [[name] for name in names] + [names]:
        world = World(rules={"fields": ["to"]})
        gate = world.gate(given)
        for name in decided:
            gate.decisions.record(session_of(given), result=world.companies.decide(name))
        verdicts.append(gate.check(session_of(given), given["tool"], given["args"]))
    assert len({verdict.code for verdict in verdicts}) == 1
    return verdicts[-1]


def expected(case: dict[str, Any]) -> list[bool]:
    """Which steps are to be allowed."""
    steps = [step for step in case["input"].get("steps", [case]) if "event" not in step]
    return [step["expect"] == "allow" for step in steps]


def judged(case_id: str) -> None:
    case = CASES[case_id]
    verdicts = run_case(case)
    assert [verdict.allow for verdict in verdicts] == expected(case), [verdict.reason for verdict in verdicts]
    assert verdicts[-1].code == CODES.get(case_id, "allowed")
    for verdict in verdicts:
        text = denial_text(verdict)
        assert text
        if not verdict.allow:
            assert "nothing was done" in verdict.reason
            assert verdict.reason.isascii()
            assert len(verdict.reason.splitlines()) == 1
            assert "success" not in text


def make_test(case_id: str) -> Callable[[], None]:
    def test() -> None:
        judged(case_id)

    test.__name__ = test.__qualname__ = f"test_case_{case_id.lower()}"
    test.__doc__ = CASES[case_id]["description"]
    return test


for _id in CASES:
    if _id not in BY_HAND and _id not in ELSEWHERE:
        globals()[f"test_case_{_id.lower()}"] = make_test(_id)


# ---------------------------------------------------------------- receipts over HTTP


def replay_of(case_id: str, given: dict[str, Any], now: str) -> dict[str, Any]:
    """A generic receipt as the wire has it: approved → valid, record_id → case.id, expires_at → evidenceFreshUntil."""
    named = {"approved": "valid", "id": "executionId"}
    answer = {named[name]: value for name, value in given.items() if name in named}
    if "record_id" in given:
        answer["problems"] = [name for name in ("blocked", "revoked") if given.get(name)]
        answer["verifiedAt"] = write_time(max(read_time(now), read_time(given["issued_at"])))
        answer["replay"] = {
            "job": "triage-ticket",
            "release": "2026-11-03.1",
            "case": {"id": given["record_id"], "identity": "provided"},
            "entity_id": case_id,
            "status": "decided",
            "outcome": "billing-question",
            "escalation": None,
            "evidenceFreshUntil": given["expires_at"],
        }
    return {**answer, **{name: value for name, value in given.items() if name in ("findings", "code", "msg", "data")}}


class Receipts:
    """The answers of one HTTP case, over a session in which its receipt was recorded."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = steps
        self.first = steps[0]
        self.clock = FakeClock(read_time(self.first["now"]))
        self.authority = FakeAuthority(self.clock, subject=TICKET, fresh_for=None)
        self.case_id = self.first["decision"]["case"]["record"]["id"]
        self.decision = self.authority.decide(self.case_id, executionId=self.first["receipt_id"])
        issued = self._issued()
        if issued is not None:
            self.decision["decidedAt"] = issued
        self.text = self.authority.check_output(self.decision, {"body": self.first["decision"]["checked_text"]})

    def _issued(self) -> str | None:
        answers = [answer["json"] for answer in self.first["http"] if "issued_at" in answer.get("json", ())]
        return str(answers[0]["issued_at"]) if answers else None

    def behaviour(self) -> Behaviour:
        return in_turn(*(self._answer(answer) for step in self.steps for answer in step["http"]))

    def _answer(self, given: dict[str, Any]) -> Behaviour:
        if "raises" in given:
            return lambda connection, asked: self.stopping.wait(10) and False
        if "location" in given:
            header = f"Location: {given['location']}".encode()
            return lambda connection, asked: connection.sendall(response(b"", given["status"], (header,)))
        if "body" in given:
            return says(given["body"].encode(), given["status"], b"Content-Type: text/html")
        return says(self.whole(given["json"]) if given["status"] == 200 else given["json"], given["status"])

    def whole(self, given: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request for everything: the replay with description and output check included."""
        checked = {**self.text, "valid": True, "verifiedAt": write_time(self.clock.now)}
        included = {"description": self.authority.description(), "outputChecks": {self.text["checkId"]: checked}}
        return {**replay_of(self.case_id, given, self.first["now"]), **included}

    def check(self, deadline_s: float = 5.0) -> tuple[list[Verdict], int]:
        """The verdicts, and how many requests were made."""
        with AuthorityServer(self.behaviour()) as server, Felspar(server.origin, "k", deadline_s=deadline_s) as felspar:
            self.stopping = server.stopping
            options = {"verify": felspar, "describe": felspar, "verify_output_check": felspar, "clock": self.clock}
            world = World(options={**options, "deadline_s": deadline_s})
            gate = world.gate(self.first)
            gate.decisions.record("s-1", result=self.decision)
            gate.output_checks.record("s-1", self.text)
            verdicts = [gate.check("s-1", step["tool"], step["args"]) for step in self.steps]
            return verdicts, len(server.asked)


def run_http(given: dict[str, Any]) -> list[Verdict]:
    steps = given.get("steps", [given])
    silent = any("raises" in answer for step in steps for answer in step["http"])
    verdicts, calls = Receipts(steps).check(2.0 if silent else 5.0)
    assert calls == given.get("check_http_calls", len(steps))
    return verdicts


def test_case_h25() -> None:
    """User-info in the base URL made the client pick credentials for one host and send them to another."""
    case = CASES["H25"]["input"]
    with pytest.raises(ConfigurationError, match="origin"):
        Felspar(case["base_url"], "k")


def test_case_h25_makes_no_request() -> None:
    """With the same user-info in front of a server that listens."""
    with AuthorityServer(says({})) as server:
        with pytest.raises(ConfigurationError, match="origin"):
            Felspar(server.origin.replace("//", "//api.example.com:x@"), "k")
        assert len(server.asked) == CASES["H25"]["input"]["check_http_calls"]


def h23(answered: Callable[[dict[str, Any]], dict[str, Any]]) -> Verdict:
    """The verdict of H23 when the good answer that is in it is sent changed like this."""
    given = CASES["H23"]["input"]
    receipts = Receipts([given])
    good = {name: value for name, value in given["http"][0]["json"].items() if name != "blocked"}
    with patch.object(receipts, "_answer", lambda _: says(answered(receipts.whole(good)))):
        (verdict,), _ = receipts.check()
    return verdict


def test_case_h23_with_an_answer_that_fits_no_schema() -> None:
    """As the description has it: the refusal is there, and another part of the answer is mistyped."""
    assert h23(lambda good: {**good, "problems": {"unexpected": [1, 2]}}).code == "verify_failed"


def test_case_h23_as_it_stands_is_allowed_since_unknown_fields_are_ignored() -> None:
    """The disagreement: `blocked` is no word of the wire (G41)."""
    assert h23(lambda good: {**good, "blocked": True}).allow


def test_case_h28_tells_expired_from_pending() -> None:
    (verdict,) = run_case(CASES["H28"])
    assert "expired" in denial_text(verdict)
    assert "get a new decision" in denial_text(verdict)
    assert "will complete" not in denial_text(verdict)


def test_case_h16_and_h13_are_allowed_by_what_the_replay_says() -> None:
    for case_id in ("H13", "H16"):
        (verdict,) = run_case(CASES[case_id])
        assert verdict.checks["verified"].state == "passed"
        assert verdict.checks["fresh"].state == "passed"


# ---------------------------------------------------------------- faults


def acted(world: World, given: dict[str, Any]) -> list[dict[str, Any]]:
    """What the tool was started with when the call is made through a wrapped function."""
    started: list[dict[str, Any]] = []
    gate = world.gate(given)
    world.record(gate, given)

    def tool(**arguments: Any) -> None:
        started.append(arguments)

    guarded = gate.wrap(given["tool"], tool)
    with gate.session(session_of(given)), pytest.raises(ActionDenied) as denied:
        guarded(**given["args"])
    assert str(denied.value)
    return started


def raising(error: BaseException) -> Callable[..., Any]:
    def fails(*args: Any, **options: Any) -> Any:
        raise error

    return fails


def test_case_a01() -> None:
    """A crashed or missing pre-tool hook is reported as a non-blocking error and the tool still runs."""
    given = CASES["A01"]["input"]
    for method in ("read", "read_many", "is_full"):
        world = World()
        gate = world.gate(given)
        world.record(gate, given)
        setattr(world.store, method, raising(RuntimeError("db down")))
        verdict = gate.check("s-1", given["tool"], given["args"])
        assert (verdict.allow, verdict.code) == (False, FAULTS["A01"])
        assert "db down" not in denial_text(verdict)
        assert acted(world, given) == []


def test_case_a01_where_the_authority_is_what_fails() -> None:
    given = CASES["A01"]["input"]
    world = World()
    world.tickets.before_answer = raising(RuntimeError("db down"))  # type: ignore[method-assign]
    verdict = world.check(given)
    assert (verdict.allow, verdict.code) == (False, "verify_failed")
    assert acted(world, given) == []


def test_case_a02() -> None:
    """A stalled policy hook is killed at its time limit and the call proceeds."""
    given = CASES["A02"]["input"]
    over = threading.Event()

    def stalls(execution_id: str) -> dict[str, Any]:
        over.wait(60)
        return {}

    world = World(options={"verify": stalls, "deadline_s": 0.05})
    try:
        verdict = world.check(given)
        assert (verdict.allow, verdict.code) == (False, FAULTS["A02"])
        assert acted(world, given) == []
    finally:
        over.set()


async def test_case_a02_in_an_event_loop() -> None:
    given = CASES["A02"]["input"]

    async def stalls(execution_id: str) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    world = World(options={"verify": stalls, "deadline_s": 0.05})
    gate = world.gate(given)
    world.record(gate, given)
    verdict = await gate.acheck("s-1", given["tool"], given["args"])
    assert (verdict.allow, verdict.code) == (False, FAULTS["A02"])


def test_case_a04() -> None:
    """Only one special exception blocks; EOFError from a prompt without a terminal is swallowed and the tool runs."""
    given = CASES["A04"]["input"]
    world = World(options={"on_verdict": raising(EOFError("no terminal"))})
    verdict = world.check(given)
    assert (verdict.allow, verdict.code) == (False, FAULTS["A04"])
    assert acted(world, given) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_case_a04_with_what_is_no_exception(error: type[BaseException]) -> None:
    """It leaves as it came, and without a verdict no tool starts."""
    given = CASES["A04"]["input"]
    started: list[object] = []
    world = World(options={"on_verdict": raising(error())})
    gate = world.gate(given)
    world.record(gate, given)
    guarded = gate.wrap(given["tool"], lambda **arguments: started.append(arguments))
    with gate.session("s-1"), pytest.raises(error):
        guarded(**given["args"])
    assert started == []


def test_case_a30() -> None:
    """A misspelt or empty option in the approval settings silently switched the gate off for that tool."""
    given = CASES["A30"]["input"]
    with pytest.raises(ConfigurationError, match=r"tools\.ticket_reply.*allowed_field: unknown key"):
        World().gate(given)


@pytest.mark.parametrize("rule", [{}, {"fields": None}, {"fields": ""}, {"fields": [""]}, None, True])
def test_case_a30_with_a_rule_that_says_nothing(rule: object) -> None:
    with pytest.raises(ConfigurationError, match=r"tools\.ticket_reply"):
        World(options={"tools": {"ticket_reply": rule}}).gate(CASES["A33"]["input"])


def test_case_a30_with_no_field_at_all() -> None:
    """An empty list of fields is well-formed, and lets nothing through."""
    gate = World(options={"tools": {"ticket_reply": {"writes": "reply", "fields": []}}}).gate(CASES["A33"]["input"])
    assert gate.check("s-1", "ticket_reply", CASES["A30"]["input"]["args"]).code == "field_not_allowed"


def test_case_a34() -> None:
    """Middleware changed the argument object after the check and before the tool ran."""
    given = CASES["A34"]["input"]
    world = World()
    gate = world.gate(given)
    world.record(gate, given)
    started: list[dict[str, Any]] = []
    args = dict(given["args"])

    def changes(asks: object) -> None:
        args.update(given["mutation_after_check"])

    world.tickets.before_answer = changes  # type: ignore[method-assign]
    verdict = gate.check("s-1", given["tool"], args)
    assert args["ticket_id"] == "T-2"
    assert verdict.allow
    assert verdict.arguments == given["args"]
    verdict.arguments.update(given["mutation_after_check"])
    assert verdict.arguments == given["args"]

    guarded = gate.wrap(given["tool"], lambda **arguments: started.append(arguments))
    with gate.session("s-1"):
        guarded(**given["args"])
    assert started == [given["args"]]
    assert gate.check("s-1", given["tool"], args).code == "case_not_decided"


def test_case_a35_puts_no_line_into_the_text_for_the_model() -> None:
    (verdict,) = run_case(CASES["A35"])
    assert len(denial_text(verdict).splitlines()) == 1
    assert r"T-2\n\nSYSTEM" in denial_text(verdict)


def test_case_a46_stops_the_tool_itself() -> None:
    given = CASES["A46"]["input"]
    assert acted(World(), given) == []


def test_case_m16_in_test_mode_an_empty_list_is_nobody() -> None:
    (verdict,) = run_case(CASES["M16"])
    assert "test recipient" in verdict.reason


# ---------------------------------------------------------------- one use


def test_case_i05() -> None:
    """Two equal requests at the same time both passed the look-up before either stored its key."""
    first, second = CASES["I05"]["input"]["concurrent"]
    world = World(rules={"once": "decision"})
    gate = world.gate(first)
    world.record(gate, first)
    together = threading.Barrier(2, timeout=10)

    def waits(asks: object) -> None:
        together.wait()

    world.companies.before_answer = waits  # type: ignore[method-assign]
    verdicts: list[Verdict] = []
    threads = [
        threading.Thread(target=lambda one=one: verdicts.append(gate.check("s-1", one["tool"], one["args"])))
        for one in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(verdict.code for verdict in verdicts) == ["allowed", CODES["I05"]]


def test_case_i09() -> None:
    """A step runner repeated a whole agent step three times after being cut off, and three mails went out."""
    first, second = CASES["I09"]["input"]["steps"]
    before = World(rules={"once": "decision"})
    assert before.check(first).allow
    after = World(rules={"once": "decision"}, store=before.store, companies=before.companies)
    verdict = after.gate(second).check("s-1", second["tool"], second["args"])
    assert verdict.code == CODES["I09"]
    assert isinstance(after.store, MemoryStore)


# ---------------------------------------------------------------- all of them


def test_every_case_is_run_here_or_listed_as_elsewhere() -> None:
    run = {name.removeprefix("test_case_").upper() for name in globals() if name.startswith("test_case_")}
    assert len(CASES) == 126
    assert run & set(CASES) | set(ELSEWHERE) == set(CASES)
    assert not run & set(ELSEWHERE)
    assert set(PARTLY_ELSEWHERE) | set(DISAGREEMENTS) | set(CODES) | set(FAULTS) <= run
    assert set(CODES.values()) | set(FAULTS.values()) <= set(get_args(Code))


def test_denials_and_allowances_are_counted_apart_and_every_allowance_passes() -> None:
    allowed: list[tuple[str, bool]] = []
    denied: list[tuple[str, bool]] = []
    for case_id, case in CASES.items():
        if case_id not in ELSEWHERE and case_id not in BY_HAND:
            for step, verdict in zip(expected(case), run_case(case), strict=True):
                (allowed if step else denied).append((case_id, verdict.allow))
    assert [case_id for case_id, allow in allowed if not allow] == []
    assert [case_id for case_id, allow in denied if allow] == []
    assert (len(allowed), len(denied)) == (26, 101)


def test_there_is_a_company_where_there_is_one() -> None:
    """The question of the company cases, with recipients that do share one: their denials are none of the harness."""
    for host in ("example.com", "mail.example.co.uk", "example.github.io", "shop.example"):
        given: dict[str, Any] = {"tool": "email_send", "args": {"to": [f"a@{host}", f"b@{host}"]}}
        world = World(rules={"fields": ["to"]})
        gate = world.gate(given)
        gate.decisions.record("s-1", result=world.companies.decide(host))
        assert gate.check("s-1", "email_send", given["args"]).allow


def test_the_cases_are_pure_ascii_so_that_look_alikes_survive_copying() -> None:
    for case in CASES.values():
        assert json.dumps(case).isascii()
        assert case["id"][0] in "EPAHXMI"
