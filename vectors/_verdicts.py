"""The table of `verdicts/`: by hand, what each scene must come to. No expectation here is taken from a run."""

from datetime import timedelta
from typing import Any

from _scenes import (
    ACME,
    ANSWER,
    FIX,
    HAND_OVER,
    LATER,
    LEAVE_IT,
    RELEASE,
    TICKET,
    TICKETS,
    Scene,
    answered,
    by_entity,
    company,
    decided,
    from_the_future,
    joined,
    later,
    mail,
    nothing,
    put,
    releases,
    replaced,
    reply,
    rule,
    subjects_disagree,
    unavailable,
    unreadable,
    used_before,
    used_for_the_case,
    without,
)
from _world import BODY

from preaction.stores.memory import MemoryStore

ANY_CASE = {**TICKETS, "match": "case-insensitive", "identity": "issued"}
ISSUED, DERIVED = {**TICKETS, "identity": "issued"}, {**TICKETS, "identity": "derived"}
NO_FIELD = rule(entity=None, fields=["body"])
BY_OUTCOME = {"writes": None, "outcomes": ["billing-question"]}
QA = {"testRecipients": ["qa@test.example"]}

ALLOWED: dict[str, Scene] = {
    "entity-exact": Scene("G9: the field holds the decided id", case=TICKET),
    "entity-trimmed": Scene("G9: white space around the id", args=reply(ticketId=f"  {TICKET}\n"), case=TICKET),
    "entity-integer": Scene(
        "G9: an integer is its digits", args=reply(ticketId=35776), before=decided("35776"), case="35776"
    ),
    "entity-leading-zeros": Scene(
        "G9: zeros are part of an id", args=reply(ticketId="007"), before=decided("007", "7"), case="007"
    ),
    "entity-case-insensitive": Scene(
        "G9: the subject's match ignores ASCII case", args=reply(ticketId="hc-1201"), subject=ANY_CASE, case=TICKET
    ),
    "entity-exact-beside-another-case": Scene(
        "G9: under an exact match two ids may differ by their capitals",
        args=reply(ticketId="a1"),
        before=decided("A1", "a1"),
        case="a1",
    ),
    "entity-by-entity-id": Scene(
        "G8: the entity that the replay confirms", args=reply(ticketId="order-7"), before=by_entity("c-1"), case="c-1"
    ),
    "entity-issued": Scene("G9: an id that the authority issued", subject=ISSUED, case=TICKET),
    "entity-derived": Scene("G9: an id that the authority derived", subject=DERIVED, case=TICKET),
    "field-names-in-capitals": Scene(
        "G2: names of fields match without ASCII case", args={"TicketID": TICKET, "BODY": BODY}, case=TICKET
    ),
    "company-of-the-recipients": company("G10: the case is the company of the recipients", case=ACME),
    "company-several-recipients": company(
        "G13: all recipients are at the one company",
        args=mail(to=["a@acme.example", "b@ACME.example"], cc="c@mail.acme.example", bcc=None),
        case=ACME,
    ),
    "company-subdomain": company(
        "G13: a subdomain with the same registrable domain", args=mail(to="a@mail.dept.acme.example"), case=ACME
    ),
    "company-most-specific": company(
        "G13: of several decided domains the most specific",
        "allowed",
        ACME,
        "eu.acme.example",
        args=mail(to="a@mail.eu.acme.example"),
        case="eu.acme.example",
    ),
    "company-under-two-labels": company(
        "G13: a suffix of two labels", "allowed", "alpha.co.uk", args=mail(to="a@mail.alpha.co.uk"), case="alpha.co.uk"
    ),
    "company-under-a-private-suffix": company(
        "G14: a tenant of a private suffix is a company",
        "allowed",
        "alice.github.io",
        args=mail(to="a@alice.github.io"),
        case="alice.github.io",
    ),
    "company-as-u-label": company(
        "G12: a decided U-label, one final dot dropped, and an A-label of the same name",
        "allowed",
        "B\u00fccher.example.",
        args=mail(to="a@xn--bcher-kva.example"),
        case="B\u00fccher.example.",
    ),
    "company-under-an-own-suffix": company(
        "G14: a top-level name of the user's own network",
        "allowed",
        "shop.internal",
        args=mail(to="a@shop.internal"),
        options={"ownSuffixes": ["internal"]},
        case="shop.internal",
    ),
    "company-plain-address-with-tag": company(
        "G11: a tag and an apostrophe are plain", args=mail(to="o'brien+case7@acme.example"), case=ACME
    ),
    "sole-case": Scene("G10: the one case of the session", args={"body": BODY}, rule=NO_FIELD, case=TICKET),
    "sole-case-issued": Scene(
        "G10: the one issued case", args={"body": BODY}, rule=NO_FIELD, subject=ISSUED, case=TICKET
    ),
    "sole-case-derived": Scene(
        "G10: the one derived case", args={"body": BODY}, rule=NO_FIELD, subject=DERIVED, case=TICKET
    ),
    "outcomes-rule": Scene("G23: a rule by outcome", rule=rule(**BY_OUTCOME, outputCheck=None), case=TICKET),
    "output-check-named": Scene(
        "G26: a rule by outcome, with a text checked as this output",
        rule=rule(**BY_OUTCOME, outputCheck={"fields": ["body"], "output": "billing-team-reply"}),
        case=TICKET,
    ),
    "output-check-unnamed": Scene(
        "G26: a rule by outcome, with a text checked as any of its outputs", rule=rule(**BY_OUTCOME), case=TICKET
    ),
    "once-per-decision": Scene("G43a: the decision's one use is free", rule=rule(once="decision"), case=TICKET),
    "once-per-case": Scene("G43a: the case's one use is free", rule=rule(once="case"), case=TICKET),
    "once-preview": Scene("G43a: a preview takes no use", rule=rule(once="decision"), take=False, case=TICKET),
    "test-mode-entity": Scene(
        "G29: a test recipient, domain without case",
        args=reply(to="qa@TEST.example"),
        rule=rule(fields=["ticketId", "body", "to"]),
        options=QA,
        case=TICKET,
    ),
    "test-mode-company": company(
        "G30: the subject names the company",
        args=mail(to="qa@test.example", subject="Invoice (acme.example)"),
        options=QA,
        case=ACME,
    ),
    "test-mode-addresses-nobody": Scene("G29: recipients: []", rule=rule(recipients=[]), options=QA, case=TICKET),
    "recipients-at-a-domain": Scene(
        "G15: the domain of recipientsAt",
        args=reply(to="a@acme.example"),
        rule=rule(fields=["ticketId", "body", "to"], recipientsAt=[ACME]),
        case=TICKET,
    ),
    "null-only": Scene(
        "G5: null where only null may stand",
        args=reply(attachmentUrl=None),
        rule=rule(nullOnly=["attachmentUrl"]),
        case=TICKET,
    ),
    "fixed": Scene("G6b: a fixed value", args=reply(public=False), rule=rule(fixed={"public": False}), case=TICKET),
    "dotted-paths": Scene(
        "G6a: fields of an object, of objects in a list, and all below one",
        args=reply(options={"Color": "red"}, items=[{"name": "a"}, {"name": "b"}], more={"x": [{"y": 1}]}),
        rule=rule(fields=["ticketId", "body", "options.color", "items[].name", "more.*"]),
        case=TICKET,
    ),
    "pinned-release": Scene("G20: the one release that may allow", options={"releases": [RELEASE]}, case=TICKET),
    "no-freshness-limit": Scene("G17: no limit given", fresh_for=None, case=TICKET),
    "replay-with-a-later-limit": Scene(
        "G17: the replay's limit is another one; both count",
        before=answered("verify", put("replay.evidenceFreshUntil", "2026-11-30T11:00:00Z")),
        case=TICKET,
    ),
    "clock-within-the-skew": Scene(
        "G18: the authority's clock is 300 s behind",
        before=answered("verify", put("verifiedAt", "2026-11-30T09:00:00Z")),
        case=TICKET,
    ),
}

UNDECIDED: dict[str, Any] = {"escalate": LEAVE_IT, "hand_off": "triage-desk"}

DENIED: dict[str, Scene] = {
    # 1 fields
    "malformed-call-no-object": Scene("G1: not one object", "malformed_call", "fields", args=[TICKET, BODY]),
    "field-repeated": Scene(
        "G3: two names that differ by their capitals", "field_repeated", "fields", args={**reply(), "Body": BODY}
    ),
    "field-not-allowed": Scene("G2: a field that isn't listed", "field_not_allowed", "fields", args=reply(public=1)),
    "field-not-allowed-look-alike": Scene(
        "G2: a dotless i is no i",
        "field_not_allowed",
        "fields",
        args={"t\u0131cketId": TICKET, "body": BODY},
    ),
    "field-not-allowed-trailing-blank": Scene(
        "G2: a blank is part of a name", "field_not_allowed", "fields", args=reply(**{"body ": BODY})
    ),
    "field-not-allowed-below": Scene(
        "G6a: an object has its own list",
        "field_not_allowed",
        "fields",
        args=reply(options={"color": "red", "id": "R-2"}),
        rule=rule(fields=["ticketId", "body", "options.color"]),
    ),
    "field-not-allowed-literal-dot": Scene(
        "G6a: a dotted entry is no literal name",
        "field_not_allowed",
        "fields",
        args=reply(**{"options.color": "red"}),
        rule=rule(fields=["ticketId", "body", "options.color"]),
    ),
    "field-refused": Scene(
        "G4: a refused name, at any depth and widely folded",
        "field_refused",
        "fields",
        args=reply(more=[{"\uff22cc": "x"}]),
        rule=rule(fields=["ticketId", "body", "more.*"]),
        options={"refuseFields": ["bcc"]},
    ),
    "field-value-null-only": Scene(
        "G5: more than null where only null may stand",
        "field_value_not_allowed",
        "fields",
        args=reply(attachmentUrl=""),
        rule=rule(nullOnly=["attachmentUrl"]),
    ),
    "field-value-object": Scene(
        "G6a: an object in a plain entry", "field_value_not_allowed", "fields", args=reply(body={"text": BODY})
    ),
    "field-value-fixed-missing": Scene(
        "G6b: a fixed field left out", "field_value_not_allowed", "fields", rule=rule(fixed={"public": False})
    ),
    "field-value-fixed-type": Scene(
        "G6b: a number where a boolean is fixed",
        "field_value_not_allowed",
        "fields",
        args=reply(public=0),
        rule=rule(fixed={"public": False}),
    ),
    "tool-not-listed": Scene("G6: no rule, and unlisted tools are denied", "tool_not_listed", tool="helpdesk__close"),
    "tool-name-suspect": Scene(
        "G6: a name that only looks like a gated one", "tool_name_suspect", tool="HelpDesk-Reply"
    ),
    "tool-name-suspect-when-unlisted-is-allowed": Scene(
        "G6: such a name is denied always",
        "tool_name_suspect",
        tool="helpdesk_reply",
        options={"unlisted": "allow"},
    ),
    "rule-invalid": Scene(
        "G24: a rule with both writes and outcomes", "rule_invalid", "pack", rule=rule(outcomes=["billing-question"])
    ),
    # 2 one case
    "no-session": Scene("G38: no session id", "no_session", "case", session=None),
    "session-full": Scene(
        "G38: the session could not take a record",
        "session_full",
        "case",
        store=lambda: MemoryStore(max_per_kind=1),
        before=decided(TICKET, "HC-1202"),
    ),
    "case-unclear-no-id": Scene("G9: the field is missing", "case_unclear", "case", args={"body": BODY}),
    "case-unclear-bool": Scene("G9: a boolean is no id", "case_unclear", "case", args=reply(ticketId=True)),
    "case-unclear-float": Scene("G9: a float is no id", "case_unclear", "case", args=reply(ticketId=1201.0)),
    "case-unclear-list": Scene("G9: a list is no id", "case_unclear", "case", args=reply(ticketId=[TICKET])),
    "case-unclear-blank": Scene("G9: an empty id", "case_unclear", "case", args=reply(ticketId=" \n")),
    "case-unclear-huge": Scene("G9: an integer beyond 2^53", "case_unclear", "case", args=reply(ticketId=2**53 + 1)),
    "case-unclear-two-cases": Scene(
        "G9: two cases by one entity",
        "case_unclear",
        "case",
        args=reply(ticketId="order-7"),
        before=by_entity("c-1", "c-2"),
    ),
    "case-unclear-several-cases": Scene(
        "G10: two cases, and no field names one",
        "case_unclear",
        "case",
        args={"body": BODY},
        rule=NO_FIELD,
        before=decided(TICKET, "HC-1202"),
    ),
    "case-unclear-subjects-disagree": company(
        "G10: two releases with two subjects", "case_unclear", check="case", before=subjects_disagree
    ),
    "case-unclear-nine-releases": company("G10: over 8 releases", "case_unclear", check="case", before=releases(9)),
    "case-not-decided": Scene("G16: nothing was decided", "case_not_decided", "case", before=nothing),
    "case-not-decided-pinned": Scene(
        "G33: the unresolved path of the one pinned release",
        "case_not_decided",
        "case",
        **UNDECIDED,
        options={"releases": [RELEASE]},
        args=reply(ticketId="HC-1202"),
    ),
    "case-not-decided-capitals": Scene(
        "G9: an exact match keeps capitals", "case_not_decided", "case", args=reply(ticketId="hc-1201")
    ),
    "case-not-decided-leading-zeros": Scene(
        "G9: zeros are part of an id", "case_not_decided", "case", args=reply(ticketId=7), before=decided("007")
    ),
    "case-not-decided-unconfirmed-entity": Scene(
        "G8: an entity that the replay doesn't confirm",
        "case_not_decided",
        "case",
        args=reply(ticketId="order-7"),
        before=by_entity("c-1", confirmed=False),
    ),
    "recipient-not-plain": company(
        "G11: a display name", "recipient_not_plain", check="case", args=mail(to="Ann <a@acme.example>")
    ),
    "recipient-not-plain-two": company(
        "G11: two addresses in one text",
        "recipient_not_plain",
        check="case",
        args=mail(to="a@acme.example, b@other.example"),
    ),
    "recipient-not-plain-route": company(
        "G11: percent routing", "recipient_not_plain", check="case", args=mail(to="a%other.example@acme.example")
    ),
    "recipient-not-plain-line-break": company(
        "G12a: a line break", "recipient_not_plain", check="case", args=mail(cc=["a@acme.example\n"])
    ),
    "recipient-not-plain-final-dot": company(
        "G11: a final dot", "recipient_not_plain", check="case", args=mail(to="a@acme.example.")
    ),
    "recipient-not-plain-entity": Scene(
        "G11: for entity rules too",
        "recipient_not_plain",
        "case",
        args=reply(to={"email": "a@acme.example"}),
        rule=rule(fields=["ticketId", "body", "to.*"]),
    ),
    "recipient-elsewhere": company(
        "G13: an undecided company", "recipient_not_allowed", check="case", args=mail(to="a@shop.example")
    ),
    "recipient-elsewhere-same-ending": company(
        "G13: whole labels", "recipient_not_allowed", check="case", args=mail(to="a@notacme.example")
    ),
    "recipient-at-two-companies": company(
        "G13: two decided companies",
        "recipient_not_allowed",
        ACME,
        "shop.example",
        check="case",
        args=mail(to=["a@acme.example"], bcc=["b@shop.example"]),
    ),
    "recipient-none": company(
        "G11: no recipient", "recipient_not_allowed", check="case", args={"subject": "Hello", "body": BODY, "to": []}
    ),
    "recipient-at-a-decided-suffix": company(
        "G15: a decided public suffix is no company",
        "recipient_not_allowed",
        "co.uk",
        check="case",
        args=mail(to="a@alpha.co.uk"),
    ),
    "recipient-not-in-recipients-at": Scene(
        "G15: recipientsAt means the domain, not what is below it",
        "recipient_not_allowed",
        "case",
        args=reply(to="a@mail.acme.example"),
        rule=rule(fields=["ticketId", "body", "to"], recipientsAt=[ACME]),
    ),
    "recipient-not-a-test-recipient": company(
        "G29: a copy to a real person in test mode",
        "recipient_not_allowed",
        check="case",
        args=mail(to="qa@test.example", cc="a@acme.example", subject="acme.example"),
        options=QA,
    ),
    "recipient-nobody-in-test-mode": company(
        "G29: an empty list is nobody",
        "recipient_not_allowed",
        check="case",
        args=mail(subject="acme.example"),
        options={"testRecipients": []},
    ),
    "recipient-missing-in-test-mode": Scene("G29: no recipient at all", "recipient_not_allowed", "case", options=QA),
    "not-a-company-provider": company(
        "G14: a shared mail provider", "not_a_company", "gmail.com", check="case", args=mail(to="a@gmail.com")
    ),
    "not-a-company-private-suffix": company(
        "G14: a private suffix", "not_a_company", "github.io", check="case", args=mail(to="a@github.io")
    ),
    "not-a-company-unknown-top-level": company(
        "G14: an unknown top-level name", "not_a_company", "bad.bad", check="case", args=mail(to="a@bad.bad")
    ),
    "not-a-company-shared-domain": company(
        "G14: a domain that the user shares", "not_a_company", check="case", options={"sharedDomains": [ACME]}
    ),
    "subject-unclear-line-break": company(
        "G12a: a line break in the subject",
        "subject_unclear",
        check="case",
        args=mail(subject="Refund\r\nBcc: x@other.example"),
    ),
    "subject-unclear-in-test-mode": company(
        "G30: the subject names no decided company",
        "subject_unclear",
        check="case",
        args=mail(to="qa@test.example", subject="about my.acme.example.org"),
        options=QA,
    ),
    "subject-unclear-two-in-test-mode": company(
        "G30: the subject names two",
        "subject_unclear",
        ACME,
        "shop.example",
        check="case",
        args=mail(to="qa@test.example", subject="acme.example, shop.example"),
        options=QA,
    ),
    # 3 still fresh
    "stale-decision": Scene("G17: the decision's limit has passed", "stale", "fresh", before=later(minutes=55)),
    "stale-age": Scene(
        "G17: the decision is too old", "stale", "fresh", fresh_for=None, options={"maxDecisionAgeSeconds": 300}
    ),
    "stale-replay": Scene(
        "G17: the replay's limit has passed",
        "stale",
        "fresh",
        fresh_for=None,
        before=answered("verify", put("replay.evidenceFreshUntil", "2026-11-30T09:05:00Z")),
    ),
    "stale-by-the-authority-s-clock": Scene(
        "G18: now is the later of both clocks",
        "stale",
        "fresh",
        fresh_for=timedelta(minutes=9),
        before=answered("verify", put("verifiedAt", "2026-11-30T09:09:30Z")),
    ),
    "stale-replaced-on-the-way": Scene("G7: the case was decided again", "stale", "fresh", before=replaced),
    "stale-another-case-on-the-way": company(
        "G7: without entity, another case appeared", "stale", check="fresh", before=joined
    ),
    "clock-skew-missing": Scene(
        "G18: no verifiedAt", "clock_skew", "verified", before=answered("verify", without("verifiedAt"))
    ),
    "clock-skew-old": Scene(
        "G18: an old answer played back",
        "clock_skew",
        "verified",
        before=answered("verify", put("verifiedAt", "2026-11-30T08:59:59Z")),
    ),
    "clock-skew-future-decision": Scene("G18: decided ahead", "clock_skew", "fresh", before=from_the_future),
    "clock-skew-output-check": Scene(
        "G18: an old answer about the text",
        "clock_skew",
        "text",
        before=answered("text", put("verifiedAt", "2026-11-30T08:59:59Z")),
    ),
    # 4 verified now
    "verify-failed": Scene(
        "G21: no answer",
        "verify_failed",
        "verified",
        before=answered("verify", unavailable("it did not answer in time")),
    ),
    "verify-failed-no-description": Scene(
        "G21: no description",
        "verify_failed",
        "verified",
        before=answered("describe", unavailable("the authority answered with status 404")),
    ),
    "verify-failed-no-output-check": Scene(
        "G21: no answer about the text",
        "verify_failed",
        "text",
        before=answered("text", unavailable("the authority answered with status 503")),
    ),
    "verify-failed-no-valid": Scene(
        "G41: a field that is needed", "verify_failed", "verified", before=answered("verify", without("valid"))
    ),
    "verify-failed-valid-as-a-text": Scene(
        "G19: true as a text", "verify_failed", "verified", before=answered("verify", put("valid", "true"))
    ),
    "verify-failed-time-without-a-zone": Scene(
        "G17: a time that could mean two",
        "verify_failed",
        "verified",
        before=answered("verify", put("replay.evidenceFreshUntil", "2026-11-30T10:00:00")),
    ),
    "receipt-invalid": Scene(
        "G19: not valid", "receipt_invalid", "verified", before=answered("verify", put("valid", False))
    ),
    "receipt-invalid-problems": Scene(
        "G19: valid, with problems",
        "receipt_invalid",
        "verified",
        before=answered("verify", put("problems", ["superseded"])),
    ),
    "receipt-invalid-other-id": Scene(
        "G19: about another receipt",
        "receipt_invalid",
        "verified",
        before=answered("verify", put("executionId", "exe_2")),
    ),
    "receipt-invalid-no-replay": Scene(
        "G19: valid, with no replay", "receipt_invalid", "verified", before=answered("verify", put("replay", None))
    ),
    "replay-mismatch-description": Scene(
        "G25: the description is of another release than the one asked for",
        "replay_mismatch",
        "verified",
        before=answered("describe", put("release", LATER)),
    ),
    "release-not-allowed": Scene(
        "G20: a release that isn't pinned", "release_not_allowed", "verified", options={"releases": [LATER]}
    ),
    # 5 the pack allows it
    "undecided": Scene("G25: undecided", "undecided", "pack", **UNDECIDED, before=decided(outcome=None)),
    "undecided-unreadable": Scene("G7: the latest decision can't be read", "undecided", "pack", before=unreadable),
    "outcome-not-allowed": Scene(
        "G22: the outcome lists no such output",
        "outcome_not_allowed",
        "pack",
        escalate=HAND_OVER,
        hand_off="refunds-lead",
        before=decided(outcome="refund-review"),
    ),
    "outcome-not-allowed-by-outcome": Scene(
        "G23: the rule names another outcome",
        "outcome_not_allowed",
        "pack",
        escalate=ANSWER,
        rule=rule(writes=None, outcomes=["refund-review"], outputCheck=None),
    ),
    # 6 checked text
    "output-check-missing": Scene(
        "G26: no output check", "output_check_missing", "text", escalate=FIX, before=decided(text=None)
    ),
    "output-check-missing-other-text": Scene(
        "G26: a blank more", "output_check_missing", "text", escalate=FIX, args=reply(body=BODY + " ")
    ),
    "output-check-missing-composed": Scene(
        "G26: code point for code point",
        "output_check_missing",
        "text",
        escalate=FIX,
        args=reply(body="Ren\u00e9e"),
        before=decided(text="Rene\u0301e"),
    ),
    "output-check-missing-no-text": Scene(
        "G26: the field is missing", "output_check_missing", "text", escalate=FIX, args={"ticketId": TICKET}
    ),
    "output-check-missing-unlisted-output": Scene(
        "G26: checked as an output that the outcome doesn't list",
        "output_check_missing",
        "text",
        escalate=FIX,
        hand_off="refunds-lead",
        rule=rule(writes=None, outcomes=["refund-review"]),
        before=decided(outcome="refund-review"),
    ),
    "output-check-failed": Scene(
        "G26: recorded as failed", "output_check_failed", "text", escalate=FIX, before=decided(passed=False)
    ),
    # around it
    "already-used-decision": Scene(
        "G43a: the decision's one use is taken", "already_used", "fresh", rule=rule(once="decision"), before=used_before
    ),
    "already-used-case": Scene(
        "G43a: the case's one use is taken", "already_used", "fresh", rule=rule(once="case"), before=used_for_the_case
    ),
    "session-full-of-uses": Scene(
        "G43a: no further use can be stored",
        "session_full",
        "fresh",
        rule=rule(once="decision"),
        store=lambda: MemoryStore(max_claims=0),
    ),
}

# Each field that binds a good answer to its question, changed alone
for _field, _value in {
    "job": "other-job",
    "release": LATER,
    "case.id": "HC-1202",
    "case.identity": "issued",
    "status": "undecided",
    "outcome": "refund-review",
}.items():
    DENIED[f"replay-mismatch-{_field.lower().replace('.', '-')}"] = Scene(
        f"G20: the replay names another {_field}",
        "replay_mismatch",
        "verified",
        before=answered("verify", put(f"replay.{_field}", _value)),
    )
for _field, _text in {
    "valid": False,
    "passed": False,
    "checkId": "chk_9",
    "executionId": "exe_9",
    "output": "other-output",
    "release": LATER,
    "contentDigest": "sha-256:" + "0" * 64,
}.items():
    DENIED[f"output-check-failed-{_field.lower()}"] = Scene(
        f"G27: the confirmation has another {_field}",
        "output_check_failed",
        "text",
        escalate=FIX,
        before=answered("text", put(_field, _text)),
    )

NOT_GATED = {
    "tool-without-a-rule": Scene(
        "G6: a tool without a rule is not gated", "not_gated", tool="helpdesk__close", options={"unlisted": "allow"}
    )
}

SCENES = {
    f"{kind}-{name}": scene
    for kind, table in (("allowed", ALLOWED), ("denied", DENIED), ("not-gated", NOT_GATED))
    for name, scene in table.items()
}
