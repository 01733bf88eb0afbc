"""Lines on requests that can't be used: each is a 422 with the place, or a 413.

They make nothing where the authority is right; one that is wrong may decide on what it should have refused.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from preaction.conformance.asking import path
from preaction.conformance.lines import Differences, NotChecked, line, places, status
from preaction.conformance.run import Run
from preaction.conformance.sample import wrong_value
from preaction.wire.times import write_time

TOO_LARGE: Final = 2 * 1024 * 1024


@line("bad-json", "A body that isn't one strict JSON object is 422", makes=True)
def bad_json(run: Run) -> Differences:
    """Broken, of another kind, a name twice, no number, no UTF-8, nested too deep, nothing."""
    where = path("jobs", run.job, "decisions")
    for body in (
        b"{",
        b"",
        b"[]",
        b"null",
        b'"x"',
        b'{"entity_id": "a", "entity_id": "b"}',
        b'{"evidence": {"x": {"value": NaN, "source": "human"}}}',
        b'{"entity_id": "\xff"}',
        b'{"fields": ' + b'{"a": ' * 2000 + b"1" + b"}" * 2000 + b"}",
    ):
        yield from status(run.asker.post(where, body), 422)


@line("unknown-fields", "A field that nobody knows is 422, with its place", makes=True)
def unknown_fields(run: Run) -> Differences:
    """In a decision's request, in the body of a verify, and in an include."""
    request = {"entity_id": "x", "conformance": 1}
    yield from places(run.asker.post(path("jobs", run.job, "decisions"), request), "/conformance")
    yield from places(run.verify("exe_none", {"conformance": 1}), "/conformance") if _read_first(run) else ()


def _read_first(run: Run) -> bool:
    """Whether this authority reads a body before it looks whether there is such an execution."""
    return run.verify("exe_none", {"conformance": 1}).status == 422


@line("bad-facts", "A fact of a wrong type, value, source or time is 422, with its place", makes=True)
def bad_facts(run: Run) -> Differences:
    """One by one, in a request that would decide otherwise."""
    evidence = run.request.get("evidence")
    if not evidence:
        raise NotChecked("the request that decides has no evidence")
    name, item = next(iter(evidence.items()))
    schema = run.description.facts.get(name, {})
    place = f"/evidence/{name}"

    def ask(changed: Any, *, fact: str = name) -> Any:
        return run.ask({**run.request, "evidence": {**evidence, fact: changed}}, run.case())

    yield from places(ask({**item, "value": wrong_value(schema)}), f"{place}/value")
    if isinstance(schema, dict) and "enum" in schema:
        yield from places(ask({**item, "value": "conformance-none"}), f"{place}/value")
    yield from places(ask({"value": item["value"]}), f"{place}/source")
    yield from places(ask({**item, "source": 1}), f"{place}/source")
    yield from places(ask({**item, "conformance": 1}), f"{place}/conformance")
    for wrong in ("yesterday", "2026-11-30T09:00:00", 1_700_000_000, _ahead(minutes=10)):
        yield from places(ask({**item, "observedAt": wrong}), f"{place}/observedAt")
    yield from places(ask(item, fact="conformance-none"), "/evidence/conformance-none")


@line("clocks-may-differ", "Evidence observed up to 300 seconds ahead of the authority's clock is taken", makes=True)
def clocks_may_differ(run: Run) -> Differences:
    """A time four minutes ahead."""
    evidence = run.request.get("evidence")
    if not evidence:
        raise NotChecked("the request that decides has no evidence")
    ahead = {name: {**item, "observedAt": _ahead(minutes=4)} for name, item in evidence.items()}
    yield from status(run.ask({**run.request, "evidence": ahead}, run.case()), 200)


def _ahead(**by: float) -> str:
    return write_time(datetime.now(UTC) + timedelta(**by))


@line("too-large", "A body that is too large is 413", makes=True)
def too_large(run: Run) -> Differences:
    """Two megabytes."""
    body = json.dumps({"entity_id": "x", "content": {"body": "x" * TOO_LARGE}}).encode()
    yield from status(run.asker.post(path("jobs", run.job, "decisions"), body), 413)
    yield from status(run.asker.post(path("executions", "exe_none", "verify"), body), 413)
