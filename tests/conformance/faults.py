"""Authorities that are wrong on purpose: a real one behind a door that alters one thing on the way in or out."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from preaction.conformance.asking import Who
from preaction.wire.strict_json import loads


@dataclass
class Exchange:
    """One request and, once it was answered, its answer."""

    method: str
    path: str
    query: bytes
    request: Any
    headers: dict[str, str]
    keys: Mapping[Who, str]
    memory: dict[str, Any]
    raw: bytes = b""
    status: int = 0
    answer: Any = None
    said: dict[str, str] = field(default_factory=dict)

    @property
    def who(self) -> str:
        given = self.headers.get("authorization", "").removeprefix("Bearer ")
        return next((who for who, key in self.keys.items() if key == given), "nobody")

    @property
    def what(self) -> str:
        """`decisions`, `verify` (of an execution), `output-checks`, `check-verify`, `job`, `release`, or the path."""
        parts = self.path.split("/")
        if self.path.startswith("/v0/output-checks/"):
            return "check-verify"
        if self.path.startswith("/v0/jobs/") and self.method == "GET":
            return "release" if "releases" in parts else "job" if len(parts) == 4 else parts[-1]
        return parts[-1]

    def refuse(self, status: int, title: str = "No.") -> None:
        self.status, self.answer = status, {"title": title, "status": status}
        self.said = {"content-type": "application/problem+json", "www-authenticate": "Bearer"}


Change = Callable[[Exchange], object]


def nothing(_: Exchange) -> None:
    return


@dataclass(frozen=True)
class Fault:
    """What is wrong, and the lines that must differ for it; `beside` are lines without which it doesn't show."""

    name: str
    lines: tuple[str, ...]
    before: Change = nothing
    after: Change = nothing
    beside: tuple[str, ...] = ()
    cut: bool = False


class Faulty:
    """An ASGI application with one fault."""

    def __init__(self, app: ASGIApp, fault: Fault, keys: Mapping[Who, str]) -> None:
        self._app, self._fault, self._keys = app, fault, keys
        self._memory: dict[str, Any] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        raw = scope["raw_path"].decode("ascii", "replace")
        exchange = Exchange(
            scope["method"], raw, scope["query_string"], _json(body), headers, self._keys, self._memory, body
        )
        self._fault.before(exchange)
        if not exchange.status:
            await self._pass_on(scope, exchange)
        self._fault.after(exchange)
        await _send(exchange, send)

    async def _pass_on(self, scope: Scope, exchange: Exchange) -> None:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": exchange.raw, "more_body": False}

        async def collect(message: Any) -> None:
            sent.append(message)

        inner = {
            **scope,
            "query_string": exchange.query,
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in exchange.headers.items()],
        }
        if self._fault.cut:
            inner["raw_path"] = None
        await self._app(inner, receive, collect)
        exchange.status = sent[0]["status"]
        exchange.said = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        exchange.answer = json.loads(b"".join(each.get("body", b"") for each in sent[1:]) or b"null")


async def _send(exchange: Exchange, send: Send) -> None:
    data = json.dumps(exchange.answer).encode()
    kept = {name: value for name, value in exchange.said.items() if name != "content-length"}
    headers = [(name.encode(), value.encode()) for name, value in {**kept, "content-length": str(len(data))}.items()]
    await send({"type": "http.response.start", "status": exchange.status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def _json(body: bytes) -> Any:
    try:
        return loads(body)
    except ValueError:
        return None


# ---------------------------------------------------------------- how things are put wrong


def on(what: str, change: Callable[[Exchange, Any], object], *, status: int = 200) -> Change:
    """Alter the answers of one operation."""

    def after(exchange: Exchange) -> None:
        if exchange.what == what and exchange.status == status and exchange.answer is not None:
            change(exchange, exchange.answer)

    return after


def setting(what: str, **values: Any) -> Change:
    return on(what, lambda _, answer: answer.update(values))


def lacking(what: str, name: str) -> Change:
    return on(what, lambda _, answer: answer.pop(name, None))


def sends(exchange: Exchange, body: Any) -> None:
    """What the authority gets to read instead."""
    exchange.raw = json.dumps(body).encode()


def as_agent(exchange: Exchange) -> None:
    exchange.headers["authorization"] = f"Bearer {exchange.keys['agent']}"


def open_description(exchange: Exchange) -> None:
    if exchange.what == "job" and "authorization" not in exchange.headers:
        as_agent(exchange)


def any_key(exchange: Exchange) -> None:
    if exchange.who == "nobody" and exchange.headers.get("authorization", "").startswith("Bearer pa_"):
        as_agent(exchange)


def renamed_status(found: int, instead: int) -> Change:
    def after(exchange: Exchange) -> None:
        if exchange.status == found:
            exchange.refuse(instead)

    return after


def tells_foreign(exchange: Exchange) -> None:
    if exchange.who == "other" and exchange.status == 404 and "none" not in exchange.path:
        exchange.refuse(403)


def says_why(exchange: Exchange) -> None:
    if exchange.status == 404 and exchange.what == "release":
        exchange.answer["title"] = "There is no such release."


def ignores_unknown(exchange: Exchange) -> None:
    if isinstance(exchange.request, dict) and "conformance" in exchange.request:
        sends(exchange, {name: each for name, each in exchange.request.items() if name != "conformance"})


def no_places(exchange: Exchange) -> None:
    if exchange.status == 422 and "/packs" not in exchange.path:
        exchange.answer["errors"] = []


def believes_the_clock(exchange: Exchange) -> None:
    for item in _items(exchange):
        if str(item.get("observedAt", "")).endswith("Z"):
            item["observedAt"] = "2026-01-01T00:00:00Z"
            sends(exchange, exchange.request)


def trusts_no_clock(exchange: Exchange) -> None:
    if any(str(item.get("observedAt", "")).endswith("Z") for item in _items(exchange)):
        exchange.refuse(422)


def any_source(exchange: Exchange) -> None:
    for item in _items(exchange):
        if "source" in item:
            item["source"] = "human"
            sends(exchange, exchange.request)


def _items(exchange: Exchange) -> list[dict[str, Any]]:
    evidence = exchange.request.get("evidence") if isinstance(exchange.request, dict) else None
    return [each for each in evidence.values() if isinstance(each, dict)] if isinstance(evidence, dict) else []


def trims_ids(exchange: Exchange) -> None:
    if isinstance(exchange.request, dict) and isinstance(exchange.request.get("entity_id"), str):
        sends(exchange, {**exchange.request, "entity_id": exchange.request["entity_id"].strip()})


def forgets_keys(exchange: Exchange) -> None:
    exchange.headers.pop("idempotency-key", None)


def remembers_keys_only(exchange: Exchange) -> None:
    key = exchange.headers.get("idempotency-key", "")
    if key in exchange.memory and exchange.what in ("decisions", "output-checks"):
        exchange.status, exchange.answer, exchange.said = (
            200,
            exchange.memory[key],
            {"content-type": "application/json"},
        )


def keep_by_key(exchange: Exchange) -> None:
    if exchange.status == 200 and (key := exchange.headers.get("idempotency-key")):
        exchange.memory[key] = exchange.answer


def other_signature(_: Exchange, answer: Any) -> None:
    head, payload, signature = answer["receipt"].split(".")
    answer["receipt"] = f"{head}.{payload}.{signature[:-6]}AAAAAA"


def one_receipt(exchange: Exchange, answer: Any) -> None:
    answer["receipt"] = exchange.memory.setdefault("receipt", answer["receipt"])


def no_zone(_: Exchange, answer: Any) -> None:
    answer["decidedAt"] = answer["decidedAt"].rstrip("Z")


def snake(_: Exchange, answer: Any) -> None:
    answer["next_step"] = answer.pop("nextStep")


def escalation_as_id(_: Exchange, answer: Any) -> None:
    answer["escalation"] = (answer["escalation"] or {}).get("id")


def with_outcome(_: Exchange, answer: Any) -> None:
    if answer["status"] == "undecided":
        answer["outcome"] = {"id": "billing-question", "title": ""}


def replayed(**values: Any) -> Change:
    return on("verify", lambda _, answer: answer["replay"].update(values))


def never_superseded(_: Exchange, answer: Any) -> None:
    answer["problems"] = [each for each in answer["problems"] if each != "superseded"]
    answer["valid"] = not answer["problems"]


def other_description(_: Exchange, answer: Any) -> None:
    if "description" in answer:
        answer["description"]["outcomes"] = []


def invented_checks(exchange: Exchange, answer: Any) -> None:
    if "outputChecks" in answer:
        asked = exchange.request["include"]["outputChecks"]
        answer["outputChecks"] = {each: {"valid": True, "passed": True} for each in asked}


def utf16(exchange: Exchange, answer: Any) -> None:
    for finding in answer["findings"]:
        text = exchange.request["content"].get(finding["field"] or "", "")
        if finding["span"]:
            finding["span"] = [len(text[:at].encode("utf-16-le")) // 2 for at in finding["span"]]


def all_pass(_: Exchange, answer: Any) -> None:
    answer |= {"passed": True, "findings": []}


def revokes_nothing(exchange: Exchange) -> None:
    if exchange.what == "revoke" and exchange.who == "operator" and "none" not in exchange.path:
        exchange.path = exchange.path.replace("/revoke", "/verify")
        now = "2026-11-30T09:00:00Z"
        case = {"id": "x", "identity": "provided"}
        said = {"executionId": "x", "job": "x", "release": "x", "case": case, "status": "decided", "outcome": "x"}
        exchange.status, exchange.answer = 200, {**said, "decidedAt": now, "revoked": True}
        exchange.said = {"content-type": "application/json"}


def fails_on_arrays(exchange: Exchange) -> None:
    if exchange.status == 422 and exchange.raw == b"[]":
        exchange.refuse(500)


def plain_json(exchange: Exchange) -> None:
    if exchange.status >= 400:
        exchange.said["content-type"] = "application/json"


def kept_by_caches(exchange: Exchange) -> None:
    if exchange.what == "verify":
        exchange.said["cache-control"] = "max-age=60"


def every_execution(exchange: Exchange) -> None:
    exchange.query = exchange.query if b"yesterday" in exchange.query else b""


def shows_the_key(exchange: Exchange) -> None:
    if exchange.what == "jobs" and exchange.who == "agent":
        exchange.said["x-caller"] = exchange.keys["agent"]


def first_is_429(exchange: Exchange, **headers: str) -> None:
    if exchange.what == "jobs" and exchange.who == "agent" and not exchange.memory:
        exchange.memory["told"] = True
        exchange.refuse(429)
        exchange.said |= headers


def needs_a_key(exchange: Exchange) -> None:
    if exchange.path == "/healthz" and exchange.who == "nobody":
        exchange.refuse(401)


def private_keys(_: Exchange, answer: Any) -> None:
    answer["keys"][0]["d"] = "AAAA"


def any_output(exchange: Exchange, answer: Any) -> None:
    answer["findings"] = [each for each in answer["findings"] if each["rule"] != "output_not_allowed"]
    answer["passed"] = not answer["findings"]


def any_body(exchange: Exchange) -> None:
    if exchange.what == "verify":
        sends(exchange, exchange.request if isinstance(exchange.request, dict) else {})


def decides_on_get(exchange: Exchange) -> None:
    if exchange.method == "GET" and exchange.path.endswith("/decisions"):
        exchange.status, exchange.answer, exchange.said = 200, {}, {"content-type": "application/json"}


def lenient_content(exchange: Exchange) -> None:
    content = exchange.request.get("content") if isinstance(exchange.request, dict) else None
    if exchange.what == "output-checks" and isinstance(content, dict) and "conformance" in content:
        sends(exchange, {**exchange.request, "content": {"body": content.get("body", "")}})


def takes_arguments(exchange: Exchange) -> None:
    if exchange.what == "verdicts" and isinstance(exchange.request, dict) and "arguments" in exchange.request:
        sends(exchange, {name: each for name, each in exchange.request.items() if name != "arguments"})


def any_key_over_mcp(exchange: Exchange) -> None:
    if exchange.what == "mcp" and exchange.who == "nobody":
        as_agent(exchange)


def tool_says(tool: str, **values: Any) -> Change:
    """Alter what one tool gives over MCP."""

    def change(exchange: Exchange, answer: Any) -> None:
        if exchange.request.get("params", {}).get("name") == tool and not answer["result"]["isError"]:
            answer["result"]["structuredContent"].update(values)

    return on("mcp", change)


def lacks_a_tool(exchange: Exchange, answer: Any) -> None:
    if exchange.request.get("method") == "tools/list":
        answer["result"]["tools"].pop()


def refuses_nothing(_: Exchange, answer: Any) -> None:
    answer["result"].pop("isError", None)


FAULTS: Final = [
    Fault("OpenAPI 3.0", ("openapi",), after=on("openapi.json", lambda _, answer: answer.update(openapi="3.0.3"))),
    Fault("an operation isn't described", ("openapi",), after=on("openapi.json", lambda _, a: a["paths"].popitem())),
    Fault("private keys are published", ("jwks",), after=on("jwks.json", private_keys)),
    Fault("health needs a key", ("healthz",), before=needs_a_key),
    Fault("a description needs no key", ("no-key",), before=open_description),
    Fault("401 without WWW-Authenticate", ("no-key",), after=lambda e: e.said.pop("www-authenticate", None)),
    Fault("any key will do", ("bad-key",), before=any_key),
    Fault("403 became 404", ("agent-on-operators-paths", "operator-on-agents-paths"), after=renamed_status(403, 404)),
    Fault("a job isn't listed", ("list-jobs", "describe"), after=on("jobs", lambda _, answer: answer.clear())),
    Fault(
        "an output isn't described",
        ("describe",),
        after=lambda e: [setting(w, outputs=[])(e) for w in ("job", "release")],
    ),
    Fault(
        "a release isn't immutable",
        ("describe-at-release",),
        after=on("release", lambda e, _: e.said.pop("cache-control")),
    ),
    Fault("a release differs", ("describe-at-release",), after=setting("release", title="Another")),
    Fault("a 404 says more", ("unknown-job",), after=says_why),
    Fault("what is foreign is 403", ("foreign-job", "foreign-execution", "foreign-check"), after=tells_foreign),
    Fault("an encoded slash cuts the path", ("ids-are-one-segment",), cut=True),
    Fault("422 became 400", ("bad-json",), after=renamed_status(422, 400)),
    Fault("unknown fields are ignored", ("unknown-fields",), before=ignores_unknown),
    Fault("a 422 names no place", ("bad-facts",), after=no_places),
    Fault("evidence of tomorrow is taken", ("bad-facts",), before=believes_the_clock),
    Fault("anything is a source", ("bad-facts",), before=any_source),
    Fault("clocks may not differ", ("clocks-may-differ",), before=trusts_no_clock),
    Fault("413 became 422", ("too-large",), after=renamed_status(413, 422)),
    Fault("no problems in a decision", ("decide",), after=lacking("decisions", "problems")),
    Fault("another release in a decision", ("decide",), after=setting("decisions", release="1999")),
    Fault("a time has no zone", ("decide",), after=on("decisions", no_zone)),
    Fault("snake_case", ("decide",), after=on("decisions", snake)),
    Fault("an escalation is an id", ("decide-without-facts",), after=on("decisions", escalation_as_id)),
    Fault("undecided, with an outcome", ("decide-without-facts",), after=on("decisions", with_outcome)),
    Fault("ids are trimmed", ("decide-on-the-right-case",), before=trims_ids),
    Fault("Idempotency-Key is ignored", ("decide-once", "check-once"), before=forgets_keys),
    Fault(
        "a key gives the first answer to anything",
        ("decide-once", "check-once"),
        before=remembers_keys_only,
        after=keep_by_key,
    ),
    Fault("a receipt's signature is wrong", ("receipt",), after=on("decisions", other_signature)),
    Fault("a receipt is another's", ("receipt",), after=on("decisions", one_receipt), beside=("decide",)),
    Fault(
        "a case rule that isn't kept",
        ("case-rule",),
        after=lambda e: [setting(w, subject={"match": "case-insensitive"})(e) for w in ("job", "release")],
    ),
    Fault("a replay decides otherwise", ("verify",), after=replayed(outcome="refund-review")),
    Fault("a replay is of another case", ("verify",), after=replayed(case={"id": "x", "identity": "provided"})),
    Fault("a replay is always decided", ("verify-undecided",), after=replayed(status="decided")),
    Fault("nothing is superseded", ("superseded",), after=on("verify", never_superseded)),
    Fault("another description comes along", ("include",), after=on("verify", other_description)),
    Fault("checks that nobody made come along", ("include",), after=on("verify", invented_checks)),
    Fault(
        "a digest in upper case",
        ("check-output",),
        after=on("output-checks", lambda _, a: a.update(contentDigest=a["contentDigest"].upper())),
    ),
    Fault("spans count UTF-16", ("check-output-fails",), after=on("output-checks", utf16)),
    Fault("every text passes", ("check-output-fails",), after=on("output-checks", all_pass)),
    Fault("every output is allowed", ("output-not-allowed",), after=on("output-checks", any_output)),
    Fault("verifying reads no body", ("verify-body",), before=any_body),
    Fault("GET decides", ("decide-nothing-on-get",), before=decides_on_get),
    Fault("further fields are ignored", ("check-output-content",), before=lenient_content),
    Fault(
        "an unknown output is 422",
        ("check-unknown-output",),
        after=lambda e: e.what == "output-checks" and renamed_status(404, 422)(e),
    ),
    Fault(
        "a stored check has another digest",
        ("verify-output-check",),
        after=setting("check-verify", contentDigest="sha-256:0"),
    ),
    Fault("every stored check passed", ("verify-failed-check",), after=setting("check-verify", passed=True)),
    Fault("releases aren't listed", ("releases",), after=on("releases", lambda _, answer: answer.clear())),
    Fault("a bad pack has no lines", ("bad-pack",), after=on("packs", lambda _, a: a.update(errors=[]), status=422)),
    Fault("a search finds everything", ("executions",), before=every_execution, beside=("decide",)),
    Fault("revoking does nothing", ("revoke",), before=revokes_nothing),
    Fault("an array gives a 500", ("never-5xx", "bad-json", "verify-body"), after=fails_on_arrays),
    Fault("a 429 doesn't say when", ("too-many", "list-jobs"), before=first_is_429),
    Fault("refusals are plain JSON", ("problems",), after=plain_json, beside=("bad-json",)),
    Fault("caches may keep a replay", ("nothing-kept",), after=kept_by_caches, beside=("verify",)),
    Fault("the key is in an answer", ("no-keys-shown",), after=shows_the_key, beside=("list-jobs",)),
    Fault("a report is kept each time that it comes", ("report-verdict",), before=forgets_keys),
    Fault("a report may hold arguments", ("report-verdict",), before=takes_arguments),
    Fault("a report gets no time", ("report-verdict",), after=lacking("verdicts", "receivedAt")),
]

MCP_FAULTS: Final = [
    Fault("any key will do over MCP", ("mcp-keys",), before=any_key_over_mcp),
    Fault("a tool isn't there", ("mcp-tools",), after=on("mcp", lacks_a_tool)),
    Fault("a description over MCP differs", ("mcp-tools",), after=tool_says("describe_job", title="Another")),
    Fault("no refusal over MCP is an error", ("mcp-tools",), after=on("mcp", refuses_nothing)),
    Fault(
        "a decision over MCP isn't the one that is kept",
        ("mcp-decides",),
        after=tool_says("get_job_decision", outcome={"id": "refund-review", "title": ""}),
    ),
    Fault("a check over MCP isn't kept", ("mcp-decides",), after=tool_says("check_output", checkId="chk_none")),
]
"""Where there are tools over MCP: `test_mcp_lines`."""
