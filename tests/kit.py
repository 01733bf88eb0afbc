"""A help desk and a company's mail, ready to be asked: gates over a `FakeAuthority`, and calls that they allow.

`gate, authority = helpdesk()`, `decided(gate, authority)`, and `gate.check(SESSION, REPLY, reply())` allows.
`gate, authority = company()`, `decided(gate, authority, "acme.example")`, `gate.check(SESSION, MAIL, mail())`: too.
"""

import asyncio
import re
from collections.abc import Coroutine, Mapping
from typing import Any

from preaction import ActionGate, Verdict, create_action_gate
from preaction.testing import FakeAuthority

SESSION = "chat-7"
REPLY = "helpdesk__reply"
MAIL = "email_send"
TICKET = "HC-1201"
BODY = "Hello, the second invoice is cancelled."

DECISION_TOOL = "felspar__get_job_decision"
OUTPUT_CHECK_TOOL = "felspar__check_output"

COMPANY_SUBJECT = {"kind": "company", "identity": "provided", "match": "case-insensitive"}


def reply_rule(**changes: Any) -> dict[str, Any]:
    """The rule of gate.md's help desk."""
    return {
        "writes": "billing-team-reply",
        "entity": {"field": "ticketId"},
        "fields": ["ticketId", "body"],
        "output_check": {"fields": ["body"]},
        **changes,
    }


def mail_rule(**changes: Any) -> dict[str, Any]:
    """The rule of a mail tool for a company job: the case comes from the recipients."""
    return {
        "writes": "billing-team-reply",
        "fields": ["to", "cc", "bcc", "subject", "body"],
        "output_check": {"fields": ["body"]},
        **changes,
    }


def reply(**changes: Any) -> dict[str, Any]:
    """Arguments that the help desk's rule allows once `TICKET` is decided."""
    return {"ticketId": TICKET, "body": BODY, **changes}


def mail(**changes: Any) -> dict[str, Any]:
    """Arguments that the mail rule allows once `acme.example` is decided."""
    return {"to": "orders@acme.example", "subject": "Your invoice", "body": BODY, **changes}


def gate_for(authority: FakeAuthority, tools: Mapping[str, Any], **options: Any) -> ActionGate:
    """A gate over `authority`, on its clock."""
    given: dict[str, Any] = {
        "job": authority.job,
        "decision_tool": DECISION_TOOL,
        "output_check_tool": OUTPUT_CHECK_TOOL,
        "tools": tools,
        "verify": authority,
        "describe": authority,
        "verify_output_check": authority,
        "clock": authority.clock,
    }
    return create_action_gate(**{**given, **options})


def helpdesk(
    *, authority: FakeAuthority | None = None, rule: Mapping[str, Any] | None = None, **options: Any
) -> tuple[ActionGate, FakeAuthority]:
    """The help desk's gate; `rule` changes its rule, `options` the gate's options."""
    authority = FakeAuthority() if authority is None else authority
    return gate_for(authority, {REPLY: reply_rule(**(rule or {}))}, **options), authority


def company(
    *, authority: FakeAuthority | None = None, rule: Mapping[str, Any] | None = None, **options: Any
) -> tuple[ActionGate, FakeAuthority]:
    """The gate of a job that decides on companies, with one mail tool; `rule` and `options` as for `helpdesk`."""
    authority = FakeAuthority(job="answer-company", subject=COMPANY_SUBJECT) if authority is None else authority
    return gate_for(authority, {MAIL: mail_rule(**(rule or {}))}, **options), authority


def decided(
    gate: ActionGate,
    authority: FakeAuthority,
    case_id: str = TICKET,
    *,
    content: Mapping[str, str] | None = None,
    session: str = SESSION,
    **decision: Any,
) -> dict[str, Any]:
    """Have a case decided and its text (`content`, by default `BODY` as `body`) checked, and record both."""
    made = authority.decide(case_id, **decision)
    gate.decisions.record(session, result=made)
    gate.output_checks.record(session, authority.check_output(made, {"body": BODY} if content is None else content))
    return made


def assert_allowed(verdict: Verdict) -> None:
    """The call goes through."""
    assert verdict.allow, verdict.reason
    assert (verdict.code, verdict.failed) == ("allowed", None)


def assert_denied(verdict: Verdict, code: str, failed: str | None = "fields") -> None:
    """The call is denied for this, and the reason reads as a model should read it: G35."""
    assert not verdict.allow, verdict.arguments
    assert (verdict.code, verdict.failed) == (code, failed), verdict.reason
    assert verdict.reason.startswith("Denied, nothing was done: ")
    assert verdict.reason.endswith(".")
    assert verdict.reason.isascii()
    assert verdict.reason.isprintable()
    assert "\n" not in verdict.reason


def shown(value: object) -> str:
    """A value in the name of a test, without its address: two workers must give a test the same name."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def run_interrupted(coroutine: Coroutine[Any, Any, object]) -> object:
    """`asyncio.run` for what an interrupt ends: what its tasks left behind complains to no later test's log."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(lambda loop, context: None)
        return runner.run(coroutine)
