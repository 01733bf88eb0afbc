"""The console's pages: what each shows, as a template's name and its values. All are read anew at every look."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from preaction.authority.console import reading
from preaction.authority.console.marking import marked
from preaction.authority.keys import Caller, Keyring
from preaction.authority.operators import Operators
from preaction.authority.refusal import Refused, not_found
from preaction.authority.service import Service
from preaction.authority.storage.storage import Storage
from preaction.wire.models import FieldError

Query: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """One page: a template, its title, and what it prints."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Desk:
    """All that the pages ask."""

    storage: Storage
    service: Service
    operators: Operators
    keyring: Keyring

    def jobs(self, caller: Caller) -> list[str]:
        """The names of the jobs that this caller may use at the current release."""
        return [each.job for each in self.service.list_jobs(caller)]


View: TypeAlias = Callable[[Desk, Caller, Query, Mapping[str, str]], Page]
"""A desk, who looks, the query and the names in the path → the page. Raises `Refused`."""

_SEARCH: Final = ("case", "job", "status", "since")


def decisions(desk: Desk, caller: Caller, query: Query, _path: Query) -> Page:
    """Decisions, newest first, by case, job, status and day; a search that can't be read says so beside its field."""
    given = _given(query, *_SEARCH, "cursor")
    shown: dict[str, Any] = {"jobs": _choices(desk, caller, given), "search": given, "errors": {}, "altered": []}
    wanted = dict(given)
    if len(given.get("since", "")) == len("2026-11-30"):
        wanted["since"] = given["since"] + "T00:00:00Z"
    try:
        found = desk.operators.executions(caller, wanted)
    except Refused as refused:
        if refused.status != 422:
            raise
        places = {each.pointer[1:]: each.detail for each in refused.problem.errors if isinstance(each, FieldError)}
        if "since" in places:
            places["since"] = "A day is needed, such as 2026-11-30."
        return Page("decisions.html", "Decisions", {**shown, "items": [], "older": None, "errors": places}, 422)
    shown |= {"items": found.items, "altered": found.altered, "older": _older(given, found.next)}
    return Page("decisions.html", "Decisions", shown)


def decision(desk: Desk, caller: Caller, _query: Query, path: Query) -> Page:
    """One decision: request, evidence, ruling, what a replay says now, what was checked and reported on it, receipt."""
    found = reading.decided(desk.storage, caller, path["id"])
    replay = desk.service.verify(caller, path["id"], {})
    return Page("decision.html", f"Decision {path['id']}", {"found": found, "replay": replay})


def output_checks(desk: Desk, caller: Caller, query: Query, _path: Query) -> Page:
    """Output checks, newest first, by job."""
    given = _given(query, "job", "cursor")
    items, older = reading.checks_page(desk.storage, caller, given.get("job"), given.get("cursor"))
    values = {"jobs": _choices(desk, caller, given), "search": given, "items": items, "older": _older(given, older)}
    return Page("output_checks.html", "Output checks", values)


def output_check(desk: Desk, caller: Caller, _query: Query, path: Query) -> Page:
    """One output check: its text with the findings marked, and whether it stands now."""
    found = reading.checked(desk.storage, caller, path["id"])
    standing = desk.service.verify_output_check(caller, path["id"], {})
    fields = [] if found.record is None else marked(found.record["content"], found.record["findings"])
    values = {"found": found, "standing": standing, "fields": fields}
    return Page("output_check.html", f"Output check {path['id']}", values)


def verdicts(desk: Desk, caller: Caller, query: Query, _path: Query) -> Page:
    """What gates reported, newest first, by job, code and case."""
    given = _given(query, "job", "code", "case", "cursor")
    columns = {"job": "job", "code": "code", "case": "case_id"}
    wanted = {column: given[name] for name, column in columns.items() if name in given}
    items, older = reading.verdicts_page(desk.storage, caller, wanted, given.get("cursor"))
    values = {"jobs": _choices(desk, caller, given), "search": given, "items": items, "older": _older(given, older)}
    return Page("verdicts.html", "Verdicts", values)


def releases(desk: Desk, caller: Caller, _query: Query, _path: Query) -> Page:
    """The pack's releases, newest first."""
    return Page("releases.html", "Releases", {"items": desk.operators.releases(caller, caller.pack)})


def changes(desk: Desk, caller: Caller, query: Query, _path: Query) -> Page:
    """What one release says otherwise than another, in words."""
    given = _given(query, "release", "since")
    versions = [each.release for each in desk.operators.releases(caller, caller.pack)]
    if not versions:
        raise not_found()
    since = {"since": given["since"]} if "since" in given else {}
    found = desk.operators.changes(caller, caller.pack, given.get("release") or versions[0], since)
    return Page("changes.html", f"Changes in {found.release}", {"found": found, "versions": versions})


def keys(desk: Desk, caller: Caller, _query: Query, _path: Query) -> Page:
    """The pack's keys: never a key, never a hash."""
    return Page("keys.html", "Keys", {"items": desk.keyring.listed(caller), "own": caller.key_id})


def nowhere(_desk: Desk, _caller: Caller, _query: Query, _path: Query) -> Page:
    """Any other path: the 404."""
    raise not_found()


PATHS: Final[Mapping[str, View]] = {
    "/": decisions,
    "/console/decisions/{id}": decision,
    "/console/output-checks": output_checks,
    "/console/output-checks/{id}": output_check,
    "/console/verdicts": verdicts,
    "/console/releases": releases,
    "/console/changes": changes,
    "/console/keys": keys,
    "/console/{rest:path}": nowhere,
}


def as_json(value: object) -> str:
    """A value as JSON on one line, so that the text "null" is not null."""
    return json.dumps(value, ensure_ascii=False)


def _given(query: Query, *names: str) -> dict[str, str]:
    """The parameters of a search that say something; 422 for a text that no database takes."""
    given = {name: query[name].strip() for name in names if query.get(name, "").strip()}
    if any("\0" in text or len(text) > 2000 for text in given.values()):
        raise Refused(422, "This search can't be used.")
    return given


def _choices(desk: Desk, caller: Caller, given: Query) -> list[str]:
    """The jobs to choose from, with the one that was chosen, though it may be of an older release."""
    jobs = desk.jobs(caller)
    return jobs if given.get("job") in (None, *jobs) else [*jobs, given["job"]]


def _older(given: Query, cursor: str | None) -> str | None:
    """The query of the next page."""
    return None if cursor is None else urlencode({**given, "cursor": cursor})
