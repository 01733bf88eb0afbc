"""Lines on every answer that was seen, at the end."""

from preaction.conformance.asking import Reply
from preaction.conformance.lines import Differences, line
from preaction.conformance.run import Run


@line("never-5xx", "Nothing that a caller sends gives a 5xx", each_job=False)
def never_5xx(run: Run) -> Differences:
    """All statuses."""
    for reply in run.asker.replies:
        if reply.status >= 500:
            yield f"{reply.asked}: {reply.status}"


@line("too-many", "A 429 says in Retry-After when to ask again", each_job=False)
def too_many(run: Run) -> Differences:
    """All that were seen; none has to be."""
    for reply in run.asker.replies:
        after = reply.headers.get("retry-after", "")
        if reply.status == 429 and not (after.isascii() and after.isdigit()):
            yield f"{reply.asked}: a 429 without the seconds in Retry-After"


@line("problems", "Every refusal is application/problem+json, with a title and its status", each_job=False)
def problems(run: Run) -> Differences:
    """All refusals; each way of going wrong once."""
    refusals = [each for each in run.asker.replies if 400 <= each.status < 500 and "/v0/" in each.asked]
    seen = {text for reply in refusals for text in _wrong(reply)}
    yield from sorted(seen)


def _wrong(reply: Reply) -> Differences:
    what = f"{reply.asked.partition(' ')[0]} {reply.status}"
    if reply.media_type != "application/problem+json":
        yield f"{what}: the media type is {reply.media_type or 'missing'}"
    body = reply.body if isinstance(reply.body, dict) else {}
    if not isinstance(body.get("title"), str) or not body["title"]:
        yield f"{what}: no title"
    if body.get("status") != reply.status:
        yield f"{what}: status in it is {body.get('status')!r}"


@line("nothing-kept", "No answer but a description at its release may be kept by a cache", each_job=False)
def nothing_kept(run: Run) -> Differences:
    """The Cache-Control of every answer about a state."""
    seen = set()
    for reply in run.asker.replies:
        said = reply.headers.get("cache-control", "")
        if "/releases/" in reply.asked or "/v0/" not in reply.asked:
            continue
        if "immutable" in said or ("max-age" in said and "max-age=0" not in said):
            seen.add(f"{reply.asked}: {said}")
    yield from sorted(seen)[:5]


@line("no-keys-shown", "No answer holds a key", each_job=False)
def no_keys_shown(run: Run) -> Differences:
    """All bodies and headers."""
    for reply in run.asker.replies:
        text = f"{reply.body!r}{dict(reply.headers)!r}"
        if any(key in text for key in run.asker.keys.values()):
            yield f"{reply.asked}: a key is in the answer"
