"""Lines on output checks."""

from typing import Any, Final

from preaction.conformance.asking import path
from preaction.conformance.describing import told_apart
from preaction.conformance.lines import Differences, NotChecked, line, places, read, same, status, there
from preaction.conformance.run import Run
from preaction.conformance.sample import new_case
from preaction.wire.digest import content_digest
from preaction.wire.models import OutputCheck, OutputCheckVerification

ASTRAL: Final = "\U0001f600"
"""One code point that is two units of UTF-16 and four bytes of UTF-8."""


@line("check-output", "A text that follows the rules passes, and its digest is that of its canonical JSON", makes=True)
def check_output(run: Run) -> Differences:
    """The sample's text."""
    decision = run.decision
    reply = run.check(decision.execution_id, run.passes)
    found = read(reply, OutputCheck)
    names = ("checkId", "executionId", "output", "release", "passed", "findings", "contentDigest", "checkedAt")
    yield from there(reply, *names)
    yield from same("executionId", found.execution_id, decision.execution_id)
    yield from same("output", found.output, run.output)
    yield from same("release", found.release, decision.release)
    yield from same("passed", found.passed, True)
    yield from same("findings", found.findings, [])
    yield from same("contentDigest", found.content_digest, content_digest(run.passes))


@line(
    "check-output-fails",
    "A text that breaks a rule doesn't pass; each finding has its place in code points",
    makes=True,
)
def check_output_fails(run: Run) -> Differences:
    """The sample's text, and the same behind a character that UTF-16 counts twice."""
    found = read(run.check(run.decision.execution_id, run.fails), OutputCheck)
    yield from same("passed", found.passed, False)
    yield from same("contentDigest", found.content_digest, content_digest(run.fails))
    if not found.findings:
        yield "there are no findings"
    yield from _spans(found, run.fails)
    moved = {name: ASTRAL + text for name, text in run.fails.items()}
    behind = read(run.check(run.decision.execution_id, moved), OutputCheck)
    yield from same("contentDigest of a text with an astral character", behind.content_digest, content_digest(moved))
    yield from _spans(behind, moved)
    shifted = {(each.rule, each.field, *each.span) for each in behind.findings if each.span}
    for each in found.findings:
        if (
            each.span
            and each.span[0] > 0
            and (each.rule, each.field, each.span[0] + 1, each.span[1] + 1) not in shifted
        ):
            yield f"behind one character more, the span of {each.rule!r} didn't move by one: code points are counted"


def _spans(check: OutputCheck, content: dict[str, str]) -> Differences:
    for each in check.findings:
        if each.field is not None and each.field not in content:
            yield f"the finding of {each.rule!r} is in the field {each.field!r}, which the text doesn't have"
            continue
        if each.span is None:
            continue
        length = len(content[each.field]) if each.field is not None else 0
        if len(each.span) != 2 or not 0 <= each.span[0] <= each.span[1] <= length:
            yield f"the span {each.span} of {each.rule!r} is not in a text of {length} code points"


@line(
    "check-output-content",
    "Content that hasn't exactly the output's fields, as strings, is 422 with the place",
    makes=True,
)
def check_output_content(run: Run) -> Differences:
    """One more, one less, one of another type."""
    execution_id, content = run.decision.execution_id, run.passes
    first = next(iter(content))
    yield from places(run.check(execution_id, {**content, "conformance": "x"}), "/content/conformance")
    less = {name: text for name, text in content.items() if name != first}
    yield from places(run.check(execution_id, less), f"/content/{first}")
    wrong: list[Any] = [1, None, ["x"]]
    for value in wrong:
        yield from places(run.check(execution_id, {**content, first: value}), f"/content/{first}")
    body = {"output": run.output, "content": content, "conformance": 1}
    yield from places(run.asker.post(path("executions", execution_id, "output-checks"), body), "/conformance")


@line("check-unknown-output", "An output that the release doesn't know is 404", makes=True)
def check_unknown_output(run: Run) -> Differences:
    """An output of nobody's."""
    yield from status(run.check(run.decision.execution_id, {"body": "x"}, "conformance-none"), 404)


@line(
    "output-not-allowed",
    "An output that the outcome doesn't list fails with the finding output_not_allowed",
    makes=True,
)
def output_not_allowed(run: Run) -> Differences:
    """A text for an undecided execution, whose outcome lists nothing."""
    if not run.description.facts or run.identity == "derived":
        raise NotChecked("there is no undecided execution to be had")
    output, content = run.output, run.passes
    undecided = run.made(run.ask({"evidence": {}}, new_case() if run.identity == "provided" else None))
    if undecided.status == "decided":
        raise NotChecked("this job decides without evidence of the caller")
    found = read(run.check(undecided.execution_id, content, output), OutputCheck)
    yield from same("passed", found.passed, False)
    if "output_not_allowed" not in [each.rule for each in found.findings]:
        yield "no finding says output_not_allowed"


@line("check-once", "Idempotency-Key gives the first check again, and 422 for another text", makes=True)
def check_once(run: Run) -> Differences:
    """Twice the same, then another text."""
    key = new_case()
    first = run.check(run.decision.execution_id, run.passes, key=key)
    yield from status(first, 200)
    second = run.check(run.decision.execution_id, run.passes, key=key)
    yield from status(second, 200, 409)
    if second.status == 200:
        yield from same("the second answer", second.body, first.body)
    changed = {name: text + " " for name, text in run.passes.items()}
    yield from status(run.check(run.decision.execution_id, changed, key=key), 422)


@line(
    "verify-output-check", "POST /v0/output-checks/{id}/verify confirms the stored check without its text", makes=True
)
def verify_output_check(run: Run) -> Differences:
    """The check of the text that passes."""
    checked = run.checked
    where = path("output-checks", checked.check_id, "verify")
    reply = run.asker.post(where, {})
    found = read(reply, OutputCheckVerification)
    names = ("valid", "passed", "checkId", "executionId", "output", "release", "contentDigest", "verifiedAt")
    yield from there(reply, *names)
    yield from same("valid", found.valid, True)
    for name in ("passed", "check_id", "execution_id", "output", "release", "content_digest"):
        yield from same(name, getattr(found, name), getattr(checked, name))
    yield from places(run.asker.post(where, {"conformance": 1}), "/conformance")


@line("verify-failed-check", "A check that didn't pass stands as one that didn't pass", makes=True)
def verify_failed_check(run: Run) -> Differences:
    """The check of the text that fails."""
    checked = read(run.check(run.decision.execution_id, run.fails), OutputCheck)
    found = read(run.asker.post(path("output-checks", checked.check_id, "verify"), {}), OutputCheckVerification)
    yield from same("passed", found.passed, False)


@line("foreign-check", "Another tenant's key gets the same 404 on this check as on nothing", makes=True)
def foreign_check(run: Run) -> Differences:
    """Verifying it."""
    if not run.asker.has("other"):
        raise NotChecked("it needs another tenant's key: --other-key-env")
    nothing = run.asker.post(path("output-checks", "chk_none", "verify"), {}, "other")
    yield from told_apart(run.asker.post(path("output-checks", run.checked.check_id, "verify"), {}, "other"), nothing)
