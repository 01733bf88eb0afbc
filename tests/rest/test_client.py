"""A client as an object: what it shows, what makes one, the time that it gives, and its end."""

import asyncio
import copy
import pickle
import subprocess
import sys
import traceback
from typing import Any

import httpx
import pytest

from preaction.errors import AuthorityError, ConfigurationError
from preaction.rest import Felspar
from preaction.rest.exchange import Request
from preaction.rest.headers import Headers
from preaction.rest.origin import read_origin
from rest.answers import JOBS, KEY, REPLAY
from rest.ways import Way, call, client, every_way

ORIGIN = "http://127.0.0.1:9"


def test_a_client_shows_its_origin_and_never_its_key() -> None:
    felspar = Felspar("https://Felspar.example/", KEY)
    assert repr(felspar) == str(felspar) == "Felspar('https://felspar.example')"
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"^a Felspar holds a key and connections: it cannot be pickled or copied$"):
            copied(felspar)
    felspar.close()


def test_no_traceback_shows_the_key_even_with_local_variables() -> None:
    with Felspar("http://127.0.0.1:9", KEY) as felspar, pytest.raises(AuthorityError) as raised:
        felspar.verify("exe_1")
    report = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    assert KEY not in "".join(report.format())
    assert raised.value.__context__ is None


def test_the_header_that_carries_the_key_does_not_show_it() -> None:
    headers = Headers(read_origin(ORIGIN), KEY).of(Request("list_jobs", "GET", "/v0/jobs"))
    assert KEY not in repr(headers) + str(headers)
    assert "(b'Authorization', <hidden>)" in repr(headers)


def test_the_headers_of_a_request_in_the_order_in_which_they_travel() -> None:
    headers = Headers(read_origin(ORIGIN), KEY)
    common = [
        (b"Host", b"127.0.0.1:9"),
        (b"Authorization", f"Bearer {KEY}".encode()),
        (b"Accept", b"application/json"),
        (b"Accept-Encoding", b"identity"),
        (b"User-Agent", b"preaction"),
    ]
    body = [(b"Content-Type", b"application/json"), (b"Content-Length", b"2")]
    assert headers.of(Request("list_jobs", "GET", "/v0/jobs")) == common
    assert headers.of(Request("verify_execution", "POST", "/v0/x", b"{}")) == common + body
    assert headers.of(Request("decide_job", "POST", "/v0/x", b"{}", "k")) == [
        *common,
        *body,
        (b"Idempotency-Key", b"k"),
    ]


@pytest.mark.parametrize("way", ["thread", "transport of the loop"])
@pytest.mark.parametrize(("options", "seconds"), [({}, 5.0), ({"deadline_s": 20}, 20.0), ({"deadline_s": 60}, 60.0)])
def test_a_method_has_the_seconds_of_its_client(way: Way, options: Any, seconds: float) -> None:
    told: list[dict[str, float]] = []

    def answers(request: httpx.Request) -> httpx.Response:
        told.append(request.extensions["timeout"])
        return httpx.Response(200, json=JOBS)

    transport = httpx.MockTransport(answers)
    if way == "thread":
        with Felspar(ORIGIN, KEY, transport=transport, **options) as felspar:
            felspar.warm()
    else:
        with Felspar(ORIGIN, KEY, async_transport=transport, **options) as felspar:
            asyncio.run(felspar.awarm())
    [waits] = told
    assert waits.keys() == {"connect", "read", "write", "pool"}
    assert all(seconds / 2 < wait <= seconds for wait in waits.values())


def test_a_client_is_made_of_a_mapping_with_exactly_two_names() -> None:
    with (
        Felspar.of({"origin": ORIGIN, "agent_key": KEY}) as one,
        Felspar.of({"origin": ORIGIN, "agentKey": KEY}) as two,
    ):
        assert repr(one) == repr(two)
        assert Felspar.of(one) is one


@pytest.mark.parametrize(
    ("value", "why"),
    [
        *((value, "felspar: needs a Felspar, or a mapping with origin and agent_key") for value in (None, ORIGIN, 5)),
        ({}, "felspar: needs origin and agent_key, each once"),
        ({"origin": ORIGIN}, "felspar: needs origin and agent_key, each once"),
        ({"agent_key": "k"}, "felspar: needs origin and agent_key, each once"),
        ({"origin": ORIGIN, "agent_key": "k", "agentKey": "k"}, "felspar: needs origin and agent_key, each once"),
        ({"agent_key": "k", "agentKey": "k"}, "felspar: needs origin and agent_key, each once"),
        (
            {"origin": ORIGIN, "agent_key": "k", "proxy": None},
            "felspar: 'proxy' is not an option here, only origin and agent_key",
        ),
        ({1: 2}, "felspar: '1' is not an option here, only origin and agent_key"),
        ({"x" * 41: 2}, f"felspar: '{'x' * 40}' is not an option here, only origin and agent_key"),
        (
            {"origin": ORIGIN, "agent_key": ""},
            "agent_key: needs a text of visible ASCII characters, without white space",
        ),
        (
            {"origin": "http://example.com", "agent_key": "k"},
            "origin: http is for loopback only; anything else needs https",
        ),
    ],
)
def test_any_other_value_makes_no_client(value: object, why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Felspar.of(value)
    assert str(raised.value) == why


@every_way
async def test_a_closed_client_asks_nothing(way: Way) -> None:
    async with client(way, ORIGIN) as felspar:
        assert not felspar.closed
        await felspar.aclose()
        felspar.close()
        assert felspar.closed
        with pytest.raises(AuthorityError, match="the client is closed") as raised:
            await call(way, felspar, "verify", "exe_1")
        assert raised.value.kind == "closed"


def test_a_transport_handed_in_is_used_and_left_open() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=REPLAY))
    with Felspar("https://felspar.example", KEY, transport=transport) as felspar:
        assert felspar.verify("exe_1") == REPLAY
        assert not felspar.keeps_deadline
    with Felspar("https://felspar.example", KEY, transport=transport) as felspar:
        assert felspar.verify("exe_1") == REPLAY
    with Felspar("https://felspar.example", KEY) as felspar:
        assert felspar.keeps_deadline


def test_importing_the_room_imports_no_http_library() -> None:
    code = "import preaction.rest, sys; print({'httpx', 'httpcore'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
