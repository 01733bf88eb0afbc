"""3 · Case: from call, rule and what the session remembers to the one case that the call is about; check 2.

Requirements G7–G16, G29, G30. What the call says comes first (`seek`), then the candidate among the recorded decisions,
then, once the released description is there, whether that candidate is the one and only case.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from preaction._core.call import Call, fold
from preaction._core.company import Address, Domains, company_names, has_control, hosts_in, plain_address, plain_host
from preaction._core.denied import Denied, deny, quote
from preaction._core.facts import Known, Memory
from preaction._core.paths import MISSING, Path
from preaction._core.rule import Rule, RuleBook
from preaction.wire.models import JobDescription, Subject

MAX_RELEASES: Final = 8
MAX_SAFE_INTEGER: Final = 2**53

DECIDE_FIRST: Final = "get a decision on that case first, then call again"


class Sought(NamedTuple):
    """What a call says it is about: an id in a field, or else its recipients; `names` are what to recall by."""

    entity: str | None
    recipients: tuple[Address, ...]
    names: tuple[str, ...]


def seek(call: Call, rule: Rule, book: RuleBook) -> Sought | Denied:
    """Read recipients, subject and id off the call: G9 (the field), G11, G12a, G15, G29, and G38 (a session at all)."""
    if not isinstance(call.session_id, str) or not call.session_id:
        return deny(
            "no_session",
            "case",
            "the call came without a session id, so no decision can be found for it",
            "the developer has to tell the adapter the session, or to make the call inside gate.session(...)",
        )
    recipients = _recipients(call, rule)
    if isinstance(recipients, Denied):
        return recipients
    subject = rule.subject.value(call)
    if any(has_control(text) for text in _texts(subject)):
        return deny("subject_unclear", "case", "the subject holds a control character", "write it as one plain line")
    denied = g15_recipients_at(recipients, rule) or g29_test_recipients(recipients, rule, book)
    if denied is not None:
        return denied
    if rule.entity is None:
        return Sought(None, recipients, _company_names(recipients, subject, book))
    entity = g9_one_id(call, rule.entity)
    return entity if isinstance(entity, Denied) else Sought(entity, (), (fold(entity),))


def g9_one_id(call: Call, field: Path) -> str | Denied:
    """G9: the field holds exactly one id, a string or an integer within ±2⁵³, trimmed of surrounding white space."""
    value = field.value(call)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_SAFE_INTEGER:
        return str(value)
    if isinstance(value, str) and value.strip():
        return value.strip()
    what = "is missing" if value is MISSING else "must hold exactly one id, as a string or an integer"
    return deny("case_unclear", "case", f"the field {quote(field.text)} {what}", "put the id of the decided case there")


def _recipients(call: Call, rule: Rule) -> tuple[Address, ...] | Denied:
    """G11, G12a: every value of the recipient fields as one plain address."""
    found: list[Address] = []
    for path in rule.recipients:
        if path.blocked(call):  # an object where a list of objects belongs, say: whom it addresses can't be told
            return deny("recipient_not_plain", "case", f"the recipients in {quote(path.text)} are not in their place")
        for value in path.values(call):
            for text in value if isinstance(value, list) else () if value is None else (value,):
                address = plain_address(text) if isinstance(text, str) else None
                if address is None:
                    return deny(
                        "recipient_not_plain",
                        "case",
                        f"the recipient {quote(text)} is not one plain address",
                        "give each recipient as local@domain, one per entry, without a display name",
                    )
                found.append(address)
    return tuple(found)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, (dict, list)):
        return (text for item in (value.values() if isinstance(value, dict) else value) for text in _texts(item))
    return (value,) if isinstance(value, str) else ()


def g15_recipients_at(recipients: tuple[Address, ...], rule: Rule) -> Denied | None:
    """G15: with `recipients_at`, only those domains (not their subdomains) and addresses, besides all else."""
    if rule.recipient_hosts is None:
        return None
    for address in recipients:
        if address.domain not in rule.recipient_hosts and address not in rule.recipient_addresses:
            return _not_allowed(address, "is not one that this tool may write to")
    return None


def g29_test_recipients(recipients: tuple[Address, ...], rule: Rule, book: RuleBook) -> Denied | None:
    """G29: in test mode only the test recipients, and at least one, unless the tool addresses nobody."""
    if book.test_recipients is None:
        return None
    for address in recipients:
        if address not in book.test_recipients:
            return _not_allowed(address, "is not a test recipient, and this gate runs in test mode")
    if not recipients and not rule.addresses_nobody:
        return deny("recipient_not_allowed", "case", "the call names no recipient, which test mode requires")
    return None


def _not_allowed(address: Address, why: str) -> Denied:
    return deny("recipient_not_allowed", "case", f"the recipient {quote('@'.join(address))} {why}")


def _company_names(recipients: tuple[Address, ...], subject: Any, book: RuleBook) -> tuple[str, ...]:
    if book.test_recipients is not None:
        return tuple(sorted(hosts_in(subject))) if isinstance(subject, str) else ()
    return tuple(dict.fromkeys(name for a in recipients for name in company_names(a.domain, book.domains)))


# The candidate --------------------------------------------------------------------------------------------------------


def find_candidate(sought: Sought, memory: Memory, book: RuleBook) -> Known | Denied:
    """The case to ask about, before the description can confirm it: G9 and G10 as far as the session tells."""
    if memory.full:
        return deny("session_full", "case", "this session has recorded as much as it can hold and takes no more")
    if sought.entity is not None:
        return _candidate_by_id(sought.entity, memory)
    company = company_of(sought, memory, book)
    if isinstance(company, Known):
        return company
    if len(memory.first) == 1:
        return memory.first[0]
    if not memory.first:
        return _not_decided("no decision was made in this session yet")
    if len(memory.releases) > MAX_RELEASES or not sought.recipients:
        return _several()
    return company


def _candidate_by_id(entity: str, memory: Memory) -> Known | Denied:
    exact = [known for known in memory.named if entity in _ids_for(entity, known)]
    near = [known for known in memory.named if fold(entity) in map(fold, _ids_for(entity, known))]
    found = exact or near
    if len(found) > 1:
        return _two_cases(entity)
    return found[0] if found else _not_decided(f"no decision was made in this session on {quote(entity)}")


def ids_of(known: Known) -> tuple[str, ...]:
    """The names of a recorded case: its own id, and the `entity_id` of the latest decision on it (G8)."""
    entity = known.decision.entity_id if known.decision is not None else None
    return (known.case_id,) if entity is None else (known.case_id, entity)


def _ids_for(entity: str, known: Known) -> tuple[str, ...]:
    """`ids_of`; of a case that can't be read, also the id it was found by, since its `entity_id` can't be read."""
    if known.decision is None and fold(entity) not in (fold(known.case_id), plain_host(known.case_id)):
        return (known.case_id, entity)
    return ids_of(known)


def releases_to_describe(sought: Sought, memory: Memory) -> tuple[str, ...]:
    """The releases to have described: those of the matching cases, or without an id of the whole session."""
    if sought.entity is None:
        return memory.releases
    return tuple(dict.fromkeys(known.decision.release for known in memory.named if known.decision is not None))


def _not_decided(why: str) -> Denied:
    return deny("case_not_decided", "case", why, DECIDE_FIRST, next_step="unresolved")


def _two_cases(entity: str) -> Denied:
    return deny("case_unclear", "case", f"the id {quote(entity)} names two decided cases of this session")


def _several() -> Denied:
    why = "several cases were decided in this session and the call does not tell which one it is about"
    return deny("case_unclear", "case", why)


# Confirmed by the released description --------------------------------------------------------------------------------


def check_case(
    candidate: Known,
    sought: Sought,
    memory: Memory,
    descriptions: Mapping[str, JobDescription],
    book: RuleBook,
) -> Denied | None:
    """G9, G10: under the released subject's rule, the candidate is the case of this call, and the only one."""
    subjects = {description.subject for description in descriptions.values()}
    if len(subjects) > 1 or len(descriptions) > MAX_RELEASES:
        return deny("case_unclear", "case", "the releases decided by in this session do not agree on what a case is")
    (company, match) = _rule_of(subjects.pop())
    if sought.entity is not None:
        return _check_id(candidate, sought.entity, match, memory)
    if company:
        found = company_of(sought, memory, book)
        return found if isinstance(found, Denied) else None if found.case_id == candidate.case_id else _several()
    return _several() if len(memory.first) > 1 or memory.first[0].case_id != candidate.case_id else None


def is_company(subject: Subject | None) -> bool:
    """G10: whether a call's case comes from its recipients where the rule names no field."""
    return _rule_of(subject)[0]


def _rule_of(subject: Subject | None) -> tuple[bool, str]:
    """Whether cases are companies, and how ids match."""
    if subject is None:
        return True, "exact"
    return subject.identity == "provided" and subject.match == "case-insensitive", subject.match


def _check_id(candidate: Known, entity: str, match: str, memory: Memory) -> Denied | None:
    if match == "exact":
        found = [known for known in memory.named if entity in _ids_for(entity, known)]
    else:
        found = [known for known in memory.named if fold(entity) in map(fold, _ids_for(entity, known))]
    if len(found) > 1:
        return _two_cases(entity)
    if not found or found[0].case_id != candidate.case_id:
        return _not_decided(f"no decision was made in this session on {quote(entity)}, capitals included")
    return None


def company_of(sought: Sought, memory: Memory, book: RuleBook) -> Known | Denied:
    """G10–G15, G30: the one decided company of all recipients, or in test mode of the subject."""
    decided = _decided_hosts(sought, memory, book.domains)
    if book.test_recipients is not None:
        return _company_in_subject(sought, decided)
    if not sought.recipients:
        return deny("recipient_not_allowed", "case", "the call names no recipient, so no company can be told from it")
    found: dict[str, Known] = {}
    for address in sought.recipients:
        names = company_names(address.domain, book.domains)
        if not names:
            why = f"the domain of {quote('@'.join(address))} is a shared, public or unknown one, never a company"
            return deny("not_a_company", "case", why)
        cases = next((decided[name] for name in names if name in decided), None)
        if not cases:
            why = f"no decision was made in this session on the company of {quote('@'.join(address))}"
            return deny("recipient_not_allowed", "case", why, DECIDE_FIRST, next_step="unresolved")
        if len(cases) > 1:
            return _several()
        found[cases[0].case_id] = cases[0]
    if len(found) > 1:
        why = "the recipients are at several companies"
        return deny("recipient_not_allowed", "case", why, "make one call for each company")
    return next(iter(found.values()))


def _decided_hosts(sought: Sought, memory: Memory, domains: Domains) -> dict[str, tuple[Known, ...]]:
    decided: dict[str, tuple[Known, ...]] = {}
    for known in memory.named:
        hosts = {plain_host(name) for name in ids_of(known)}
        if known.decision is None and hosts.isdisjoint(sought.names):  # found by an `entity_id` that can't be read
            hosts.update(sought.names)
        for host in hosts:
            if host is not None and host in company_names(host, domains):
                decided[host] = (*decided.get(host, ()), known)
    return decided


def _company_in_subject(sought: Sought, decided: Mapping[str, tuple[Known, ...]]) -> Known | Denied:
    named = {known.case_id: known for host in sought.names for known in decided.get(host, ())}
    if len(named) != 1:
        which = "no decided company domain" if not named else "more than one decided company domain"
        why = f"the subject names {which}, and in test mode the case comes from it"
        return deny("subject_unclear", "case", why, "name exactly the one company domain in the subject")
    return next(iter(named.values()))
