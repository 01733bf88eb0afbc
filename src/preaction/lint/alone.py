"""2 · What a rules file says about itself, without anybody asked."""

from collections.abc import Iterator, Mapping
from typing import Final

from preaction._core.denied import quote
from preaction._core.rule import Rule, wide_fold
from preaction.domains import domains
from preaction.lint.notes import Note
from preaction.rules_file import RulesInFile

REMEDIES: Final[Mapping[str, str]] = {
    "writes-or-outcomes": "name in 'writes' the output that the tool writes, or in 'outcomes' those that let it act",
    "no-outcome": "list the outcomes that let this tool act",
    "entity-not-listed": "list it in 'fields', or name the field that holds the id of the case",
    "checked-field-not-listed": "list it in 'fields', or name the field that holds the text",
    "two-outputs": "leave 'output_check.output' out: the text is checked as what the rule writes",
    "no-recipient": "leave it out, or set recipients: [] for a tool that addresses nobody",
    "open-field": "name the fields below it that a call may set",
    "text-not-checked": "add it to output_check.fields, or to 'unchecked' if nobody needs to check it",
    "recipient-not-listed": "add it to 'recipients', or leave it out of 'fields'",
    "recipients-unlimited": "list in 'recipients_at' the domains or addresses that it may write to",
    "output-not-named": "name in output_check.output the output that the text is checked as",
}


def notes_alone(given: RulesInFile, rules: Mapping[str, Rule]) -> Iterator[Note]:
    """What is wrong with `given`, whose rules are `rules`, wherever it is used."""
    for tool, rule in rules.items():
        for flaw in (*rule.broken, *rule.weak):
            key = not flaw.place
            yield Note(flaw.code, ("tools", tool, *flaw.place), flaw.why, REMEDIES[flaw.code], key=key)
        yield from _refused(tool, rule, frozenset(map(wide_fold, given.refuse_fields)))
        yield from _shared(tool, rule, given)
    if given.mode == "observe":
        why = "every call goes through, whatever the verdict"
        yield Note("not-enforced", ("mode",), why, "leave 'mode' out as soon as the verdicts are what you want")
    if given.test_recipients is not None:
        whom = "the test recipients" if given.test_recipients else "nobody"
        why = f"this is test mode: tools may write to {whom} only"
        yield Note("test-mode", ("test_recipients",), why, "leave it out where real recipients are meant", key=True)
    yield from _unrecorded(given, rules)


def _refused(tool: str, rule: Rule, refused: frozenset[str]) -> Iterator[Note]:
    for key in ("fields", "fixed"):
        for index, name in enumerate(getattr(rule.source, key)):
            if refused & {wide_fold(part.removesuffix("[]")) for part in name.split(".")}:
                why = f"the field {quote(name)} is refused for every tool, so a call with it is denied"
                place = index if key == "fields" else name
                yield Note(
                    "field-refused", ("tools", tool, key, place), why, "take it out here, or out of 'refuse_fields'"
                )


def _shared(tool: str, rule: Rule, given: RulesInFile) -> Iterator[Note]:
    if not rule.recipient_hosts:
        return
    known = domains(given.own_suffixes, given.shared_domains)
    for index, entry in enumerate(rule.source.recipients_at or ()):
        host = entry.lower()
        if host in rule.recipient_hosts and (known.shared(host) or known.registrable(host) is None):
            why = f"anybody can have an address at {quote(entry)}, so this limits nothing"
            place = ("tools", tool, "recipients_at", index)
            yield Note("shared-domain", place, why, "name a domain of your own, or whole addresses")


def _unrecorded(given: RulesInFile, rules: Mapping[str, Rule]) -> Iterator[Note]:
    """Tools of the authority that aren't named: then only code of the user's own records what they return."""
    if given.decision_tool is None:
        why = "no decision tool is named, so decisions count only when your code records them"
        remedy = "name it in 'decision_tool', or call gate.decisions.record"
        yield Note("no-decision-tool", (), why, remedy)
    if given.output_check_tool is None and any(rule.texts for rule in rules.values()):
        why = "no output-check tool is named, so output checks count only when your code records them"
        remedy = "name it in 'output_check_tool', or call gate.output_checks.record"
        yield Note("no-output-check-tool", (), why, remedy)
