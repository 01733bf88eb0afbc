"""Lines on what needs no key, and on who may ask at all."""

from typing import Any, Final

from preaction.conformance.asking import Asker, Reply, Who, path
from preaction.conformance.lines import Differences, NotChecked, line, status
from preaction.conformance.run import Run

OPERATIONS: Final = {
    "/v0/jobs": "get",
    "/v0/jobs/{}": "get",
    "/v0/jobs/{}/releases/{}": "get",
    "/v0/jobs/{}/decisions": "post",
    "/v0/executions/{}/verify": "post",
    "/v0/executions/{}/output-checks": "post",
    "/v0/output-checks/{}/verify": "post",
    "/v0/packs": "post",
    "/v0/packs/{}/releases": "get",
    "/v0/executions/{}/revoke": "post",
    "/v0/executions": "get",
}


@line("openapi", "GET /openapi.json describes every operation in OpenAPI 3.1, without a key", each_job=False)
def openapi(run: Run) -> Differences:
    """The document, and the paths in it."""
    reply = run.asker.get("/openapi.json", "nobody")
    yield from status(reply, 200)
    body = reply.body if isinstance(reply.body, dict) else {}
    if not str(body.get("openapi", "")).startswith("3.1"):
        yield f"openapi is {body.get('openapi')!r} instead of 3.1"
    paths = body.get("paths")
    found = paths.items() if isinstance(paths, dict) else ()
    described = {_without_names(each): methods for each, methods in found if isinstance(methods, dict)}
    for where, method in OPERATIONS.items():
        if method not in described.get(where, ()):
            yield f"{method.upper()} {where.replace('{}', '{…}')} is not described"


def _without_names(where: str) -> str:
    return "/".join("{}" if part.startswith("{") else part for part in where.split("/"))


@line(
    "jwks", "GET /.well-known/jwks.json gives the public Ed25519 keys and nothing else, without a key", each_job=False
)
def jwks(run: Run) -> Differences:
    """The key set: each key with its id, none with a private part."""
    reply = run.asker.get("/.well-known/jwks.json", "nobody")
    yield from status(reply, 200)
    keys = reply.body.get("keys") if isinstance(reply.body, dict) else None
    if not isinstance(keys, list) or not keys:
        yield "there are no keys"
        return
    for number, key in enumerate(keys):
        fields: dict[str, Any] = key if isinstance(key, dict) else {}
        if "d" in fields:
            yield f"keys[{number}] has its private part"
        if not isinstance(fields.get("kid"), str):
            yield f"keys[{number}] has no kid"
        if (fields.get("kty"), fields.get("crv")) != ("OKP", "Ed25519"):
            yield f"keys[{number}] is no Ed25519 key"


@line("healthz", "GET /healthz answers 200, without a key", each_job=False)
def healthz(run: Run) -> Differences:
    """Whether it is alive."""
    yield from status(run.asker.get("/healthz", "nobody"), 200)


def agents_operations(asker: Asker, who: Who) -> list[Reply]:
    """Every operation for agents, about nothing that there is, with bodies that aren't JSON."""
    gets = [path("jobs"), path("jobs", "none"), path("jobs", "none", "releases", "none")]
    posts = [path("jobs", "none", "decisions")]
    posts += [path("executions", "none", "verify"), path("executions", "none", "output-checks")]
    posts += [path("output-checks", "none", "verify")]
    return [asker.get(each, who) for each in gets] + [asker.post(each, b"{", who) for each in posts]


def operators_operations(asker: Asker, who: Who) -> list[Reply]:
    """The same, for operators."""
    posts = [path("packs"), path("executions", "none", "revoke")]
    gets = [path("packs", "none", "releases"), path("executions")]
    return [asker.post(each, b"{", who) for each in posts] + [asker.get(each, who) for each in gets]


@line("no-key", "Without a key every operation answers 401, before it looks at anything", each_job=False)
def no_key(run: Run) -> Differences:
    """All paths, with bodies that would be 422."""
    for reply in agents_operations(run.asker, "nobody") + operators_operations(run.asker, "nobody"):
        yield from status(reply, 401)
        if reply.status == 401 and not reply.headers.get("www-authenticate", "").lower().startswith("bearer"):
            yield f"{reply.asked}: the 401 has no WWW-Authenticate: Bearer"


@line("bad-key", "A key that nobody has, or one that comes another way, answers 401", each_job=False)
def bad_key(run: Run) -> Differences:
    """A key of another text, the right key as no bearer token, the right key with something after it."""
    key = run.asker.keys["agent"]
    for given in ("Bearer none", "Bearer", f"Basic {key}", f"Bearer {key}x", f"Bearer {key[:-1]}"):
        yield from status(run.asker.get(path("jobs"), "nobody", {"Authorization": given}), 401)


@line("agent-on-operators-paths", "An agent's key on an operator's path answers 403", each_job=False)
def agent_on_operators_paths(run: Run) -> Differences:
    """All operations for operators."""
    for reply in operators_operations(run.asker, "agent"):
        yield from status(reply, 403)


@line("operator-on-agents-paths", "An operator's key on an agent's path answers 403", each_job=False)
def operator_on_agents_paths(run: Run) -> Differences:
    """All operations for agents."""
    if not run.asker.has("operator"):
        raise NotChecked("it needs an operator's key")
    for reply in agents_operations(run.asker, "operator"):
        yield from status(reply, 403)
