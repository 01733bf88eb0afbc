"""The table of `wire/`: by hand, the request that puts an ask, and what a response to it means."""

import json
from typing import Any

JOB, RELEASE, EXECUTION, CHECK = "triage-ticket", "2026-11-03.1", "exe_1", "chk_1"

VERIFY = {"kind": "verify", "executionId": EXECUTION}
DESCRIBE = {"kind": "describe", "job": JOB, "release": RELEASE}
TEXT = {"kind": "verifyOutputCheck", "checkId": CHECK}

REPLAY: dict[str, Any] = {
    "valid": True,
    "problems": [],
    "executionId": EXECUTION,
    "verifiedAt": "2026-11-30T09:05:00Z",
    "replay": {
        "job": JOB,
        "release": RELEASE,
        "case": {"id": "HC-1201", "identity": "provided"},
        "entity_id": "HC-1201",
        "status": "decided",
        "outcome": "billing-question",
        "escalation": None,
        "decidedAt": "2026-11-30T09:00:00Z",
        "evidenceFreshUntil": "2026-11-30T10:00:00Z",
    },
}
DESCRIPTION: dict[str, Any] = {
    "job": JOB,
    "release": RELEASE,
    "subject": {"kind": "ticket", "identity": "provided", "match": "exact"},
    "outcomes": [{"id": "billing-question", "nextStep": "Answer.", "outputs": ["billing-team-reply"]}],
    "whenUnresolved": {"nextStep": "Leave it.", "escalation": "triage-desk"},
    "escalations": [{"id": "triage-desk", "trigger": "it fits no outcome", "why": "Somebody has to read it."}],
}
CHECKED: dict[str, Any] = {
    "valid": True,
    "passed": True,
    "checkId": CHECK,
    "executionId": EXECUTION,
    "output": "billing-team-reply",
    "release": RELEASE,
    "contentDigest": "sha-256:" + "0" * 64,
    "verifiedAt": "2026-11-30T09:05:00Z",
}


def _verify(execution_id: str) -> dict[str, str]:
    return {"kind": "verify", "executionId": execution_id}


def _describe(job: str, release: str) -> dict[str, str]:
    return {"kind": "describe", "job": job, "release": release}


def _post(path: str) -> dict[str, Any]:
    return {"method": "POST", "path": path, "body": {}}


def _get(path: str) -> dict[str, Any]:
    return {"method": "GET", "path": path, "body": None}


REQUESTS: dict[str, tuple[dict[str, str], dict[str, Any] | str]] = {
    "a receipt": (VERIFY, _post("/v0/executions/exe_1/verify")),
    "an output check": (TEXT, _post("/v0/output-checks/chk_1/verify")),
    "a release of a job": (DESCRIBE, _get("/v0/jobs/triage-ticket/releases/2026-11-03.1")),
    "every character of an id": (_verify("aZ9_:~.-x"), _post("/v0/executions/aZ9_%3A~.-x/verify")),
    "an id of 200 characters": (_verify("a" * 200), _post(f"/v0/executions/{'a' * 200}/verify")),
    "names are one path segment each": (
        _describe("a b/\u00fc?#%", "1+2"),
        _get("/v0/jobs/a%20b%2F%C3%BC%3F%23%25/releases/1%2B2"),
    ),
    "an id of 201 characters": (_verify("a" * 201), "invalid_id"),
    "an empty id": (_verify(""), "invalid_id"),
    "an id that climbs": (_verify("../admin"), "invalid_id"),
    "an id with two dots": (_verify("a..b"), "invalid_id"),
    "an id that starts with a dot": (_verify(".a"), "invalid_id"),
    "an id that is escaped already": (_verify("%2e%2e%2fadmin"), "invalid_id"),
    "an id with a query": (_verify("exe_1?status=approved"), "invalid_id"),
    "an id with a line break": (_verify("exe_1\n"), "invalid_id"),
    "an id that isn't ASCII": (_verify("ex\u00e9_1"), "invalid_id"),
    "a check's id with a slash": ({"kind": "verifyOutputCheck", "checkId": "a/b"}, "invalid_id"),
    "a job that is the place itself": (_describe(".", "1"), "invalid_id"),
    "a job that is the place above": (_describe("..", "1"), "invalid_id"),
    "an empty release": (_describe(JOB, ""), "invalid_id"),
}


def _without(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != name}


def _text(value: Any) -> str:
    return json.dumps(value)


RESPONSES: dict[str, tuple[dict[str, str], int, str, dict[str, Any] | str]] = {
    "a replay": (VERIFY, 200, _text(REPLAY), REPLAY),
    "a description": (DESCRIBE, 200, _text(DESCRIPTION), DESCRIPTION),
    "an output check": (TEXT, 200, _text(CHECKED), CHECKED),
    "unknown fields are ignored": (VERIFY, 200, _text({**REPLAY, "more": [1]}), REPLAY),
    "snake case is read": (
        VERIFY,
        200,
        _text({**_without("executionId", REPLAY), "execution_id": EXECUTION}),
        REPLAY,
    ),
    "a time in another zone": (TEXT, 200, _text({**CHECKED, "verifiedAt": "2026-11-30T07:05:00-02:00"}), CHECKED),
    "a receipt that is not valid": (
        VERIFY,
        200,
        _text({"valid": False, "problems": ["revoked"], "executionId": EXECUTION}),
        {"valid": False, "problems": ["revoked"], "executionId": EXECUTION},
    ),
    "false as a text": (VERIFY, 200, _text({**REPLAY, "valid": "false"}), "wrong_shape"),
    "true as a number": (VERIFY, 200, _text({**REPLAY, "valid": 1}), "wrong_shape"),
    "no valid": (VERIFY, 200, _text(_without("valid", REPLAY)), "wrong_shape"),
    "no problems": (VERIFY, 200, _text(_without("problems", REPLAY)), "wrong_shape"),
    "problems are null": (VERIFY, 200, _text({**REPLAY, "problems": None}), "wrong_shape"),
    "a time without a zone": (VERIFY, 200, _text({**REPLAY, "verifiedAt": "2026-11-30T09:05:00"}), "wrong_shape"),
    "a time as a number": (VERIFY, 200, _text({**REPLAY, "verifiedAt": 1796029500000}), "wrong_shape"),
    "an unknown identity": (
        VERIFY,
        200,
        _text({**REPLAY, "replay": {**REPLAY["replay"], "case": {"id": "HC-1201", "identity": "guessed"}}}),
        "wrong_shape",
    ),
    "a list": (VERIFY, 200, "[]", "wrong_shape"),
    "no outcomes": (DESCRIBE, 200, _text(_without("outcomes", DESCRIPTION)), "wrong_shape"),
    "no digest": (TEXT, 200, _text(_without("contentDigest", CHECKED)), "wrong_shape"),
    "a page": (VERIFY, 200, "<!doctype html><h1>not found</h1>", "not_json"),
    "nothing": (VERIFY, 200, "", "not_json"),
    "a name twice": (VERIFY, 200, '{"valid":false,' + _text(REPLAY)[1:], "not_json"),
    "a constant that isn't JSON": (VERIFY, 200, '{"valid":true,"problems":[],"executionId":NaN}', "not_json"),
    "a redirect": (VERIFY, 302, "", "redirect"),
    "a redirect with a good answer": (VERIFY, 307, _text(REPLAY), "redirect"),
    "created is not what was asked for": (VERIFY, 201, _text(REPLAY), "status"),
    "no content": (VERIFY, 204, "", "status"),
    "a refusal with a good answer": (VERIFY, 401, _text(REPLAY), "status"),
    "unknown": (VERIFY, 404, _text({"title": "not found", "status": 404}), "status"),
    "used up": (VERIFY, 410, "", "status"),
    "broken": (VERIFY, 503, _text(REPLAY), "status"),
}

_JOINT = {
    "method": "POST",
    "path": "/v0/executions/exe_1/verify",
    "body": {"include": {"description": True, "outputChecks": [CHECK]}},
}
_ALL = {**REPLAY, "description": DESCRIPTION, "outputChecks": {CHECK: CHECKED}}
_NONE: dict[str, Any] = {"valid": False, "problems": ["revoked"], "executionId": EXECUTION}

BATCHES: dict[str, dict[str, Any]] = {
    "everything in one request": {
        "rounds": [[(_JOINT, 200, _ALL)]],
        "answers": [REPLAY, DESCRIPTION, CHECKED],
    },
    "an authority that can't include is asked again for the rest": {
        "rounds": [
            [(_JOINT, 200, REPLAY)],
            [
                (_get("/v0/jobs/triage-ticket/releases/2026-11-03.1"), 200, DESCRIPTION),
                (_post("/v0/output-checks/chk_1/verify"), 200, CHECKED),
            ],
        ],
        "answers": [REPLAY, DESCRIPTION, CHECKED],
    },
    "a check that the authority doesn't know is left out": {
        "rounds": [[(_JOINT, 200, {**_ALL, "outputChecks": {}})]],
        "answers": [REPLAY, DESCRIPTION, "unavailable"],
    },
    "a description of another release answers nothing": {
        "rounds": [
            [(_JOINT, 200, {**_ALL, "description": {**DESCRIPTION, "release": "2026-12-01.1"}})],
            [(_get("/v0/jobs/triage-ticket/releases/2026-11-03.1"), 200, DESCRIPTION)],
        ],
        "answers": [REPLAY, DESCRIPTION, CHECKED],
    },
    "a failure is the answer to all": {
        "rounds": [[(_JOINT, 503, _ALL)]],
        "answers": ["unavailable", "unavailable", "unavailable"],
    },
    "an authority that refuses the wish is asked without it": {
        "rounds": [
            [(_JOINT, 422, {"title": "unknown field", "status": 422})],
            [
                (_post("/v0/executions/exe_1/verify"), 200, REPLAY),
                (_get("/v0/jobs/triage-ticket/releases/2026-11-03.1"), 200, DESCRIPTION),
                (_post("/v0/output-checks/chk_1/verify"), 200, CHECKED),
            ],
        ],
        "answers": [REPLAY, DESCRIPTION, CHECKED],
    },
}


def _exchange(request: dict[str, Any], status: int, value: Any) -> dict[str, Any]:
    return {"request": request, "response": {"status": status, "body": _text(value)}}


def files() -> dict[str, Any]:
    """The files of `wire/`."""
    return {
        "requests.json": {
            "title": "Asks and the requests that put them",
            "vectors": [
                {
                    "name": name,
                    "ask": ask,
                    "expect": {"request": put} if isinstance(put, dict) else {"unavailable": put},
                }
                for name, (ask, put) in REQUESTS.items()
            ],
        },
        "responses.json": {
            "title": "Responses and what they mean for the ask",
            "vectors": [
                {
                    "name": name,
                    "ask": ask,
                    "response": {"status": status, "body": body},
                    "expect": {"answer": means} if isinstance(means, dict) else {"unavailable": means},
                }
                for name, (ask, status, body, means) in RESPONSES.items()
            ],
        },
        "batches.json": {
            "title": "A batch of asks in as few requests as the authority can do with",
            "vectors": [
                {
                    "name": name,
                    "asks": [VERIFY, DESCRIBE, TEXT],
                    "rounds": [[_exchange(*one) for one in together] for together in batch["rounds"]],
                    "expect": [
                        {"answer": answer} if isinstance(answer, dict) else {"unavailable": None}
                        for answer in batch["answers"]
                    ],
                }
                for name, batch in BATCHES.items()
            ],
        },
    }
