"""Chaos: a gate over real HTTP, between it and a good authority whatever a network, a proxy or a server may do.

One table of what happens to an answer. Alone or together, wherever it strikes, no call is allowed and none waits longer
than it may; and when it is over, the same client gets the same call allowed.
"""

import asyncio
import gzip
import itertools
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit import REPLY, SESSION, decided, gate_for, reply, reply_rule
from preaction import ActionGate, Verdict, felspar_job_describer, felspar_output_check_verifier, felspar_verifier
from preaction._core.facts import Ask, Describe, Verify, VerifyOutputCheck
from preaction.rest import Felspar
from preaction.testing import FakeAuthority
from rest.answers import KEY
from rest.authority_server import Asked, AuthorityServer, Behaviour, resets, response, says, sends

DEADLINE_S = 0.15
Way: TypeAlias = Literal["thread", "loop"]
Part: TypeAlias = Literal["verify", "describe", "output check"]
PARTS: list[Part] = ["verify", "describe", "output check"]

Fault: TypeAlias = Callable[[bytes, float], Behaviour]
"""What happens to an answer, given its body and where: a share of its bytes, from 0.0 up to but not including 1.0."""


def at(data: bytes, where: float) -> int:
    return int(where * len(data))


def cut(body: bytes, where: float) -> Behaviour:
    whole = response(body)
    return sends(whole[: at(whole, where)])


def cut_by_a_reset(body: bytes, where: float) -> Behaviour:
    half = cut(body, where)

    def behave(connection: socket.socket, asked: Asked) -> bool:
        half(connection, asked)
        return resets(connection, asked)

    return behave


def stops(body: bytes, where: float) -> Behaviour:
    """Sends a part, and then nothing; what comes after the deadline is the rest."""

    def behave(connection: socket.socket, asked: Asked) -> bool:
        whole = response(body)
        connection.sendall(whole[: at(whole, where)])
        connection.settimeout(2 * DEADLINE_S)
        try:
            connection.recv(1)
        except TimeoutError:
            connection.sendall(whole[at(whole, where) :])
        return False

    return behave


def drips(body: bytes, where: float) -> Behaviour:
    """Never silent, never done: piece by piece until whoever waits has gone."""

    def behave(connection: socket.socket, asked: Asked) -> bool:
        whole = response(body)
        start = at(whole, where)
        connection.sendall(whole[:start])
        for place in range(start, len(whole) - 1):
            connection.sendall(whole[place : place + 1])
            time.sleep(0.05)
        return False

    return behave


def cut_but_whole(body: bytes, where: float) -> Behaviour:
    return says(body[: at(body, where)])


def struck(body: bytes, where: float) -> Behaviour:
    """One byte is another."""
    place = at(body, where)
    return says(body[:place] + b"\xff" + body[place + 1 :])


def called(kind: str) -> Fault:
    return lambda body, where: says(body, 200, f"Content-Type: {kind}".encode())


def with_status(status: int) -> Fault:
    return lambda body, where: says(body, status, b"Location: /")


def framed(head: bytes) -> Fault:
    return lambda body, where: sends(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body)


FAULTS: dict[str, Fault] = {
    "cut": cut,
    "cut by a reset": cut_by_a_reset,
    "stops": stops,
    "in drops": drips,
    "cut, but whole for HTTP": cut_but_whole,
    "a byte is another": struck,
    **{f"called {kind}": called(kind) for kind in ("text/html", "text/plain; charset=utf-8", "image/png", "*/*")},
    **{f"status {status}": with_status(status) for status in (100, 101, 201, 202, 204, 206, 301, 304, 307, 400, 401)},
    **{f"status {status}": with_status(status) for status in (403, 404, 409, 410, 422, 429, 500, 502, 503, 504, 599)},
    "an HTML page": lambda body, where: says(b"<html>" + body + b"</html>"),
    "a page of a captive network": lambda body, where: says(b"<html>", 200, b"Content-Type: text/html"),
    "twice in one body": lambda body, where: says(body + body),
    "in a list": lambda body, where: says(b"[" + body + b"]"),
    "as a text": lambda body, where: says(json.dumps(body.decode())),
    "for a callback": lambda body, where: says(b"f(" + body + b")"),
    "in UTF-16": lambda body, where: says(body.decode().encode("utf-16")),
    "null": lambda body, where: says(b"null"),
    "true": lambda body, where: says(b"true"),
    "an empty object": lambda body, where: says({}),
    "nothing": lambda body, where: says(b""),
    "an error with status 200": lambda body, where: says({"error": "upstream timed out"}),
    "compressed": lambda body, where: says(gzip.compress(body), 200, b"Content-Encoding: gzip"),
    "compressed in silence": lambda body, where: says(gzip.compress(body)),
    "longer than it says": framed(b"Content-Length: 9"),
    "of two lengths": framed(b"Content-Length: 9\r\nContent-Length: 10"),
    "of no known length": framed(b"Content-Length: many"),
    "in no known chunks": framed(b"Transfer-Encoding: chunked"),
    "in an unknown coding": framed(b"Transfer-Encoding: rot13, chunked"),
    "no HTTP": lambda body, where: sends(b"220 mail.example ESMTP\r\n", body),
    "no head": lambda body, where: sends(body),
}  # fmt: skip


class Between:
    """A good authority over HTTP, and what happens to its answers, by the part that is asked for."""

    def __init__(self, server: AuthorityServer) -> None:
        self._server = server
        self.authority = FakeAuthority()
        self.faults: Mapping[Part, tuple[str, float]] = {}
        server.behave = self.behave

    def behave(self, connection: socket.socket, asked: Asked) -> object:
        part, ask = self._read(asked.target.decode())
        body = json.dumps(self.authority.good_answer(ask)).encode()
        name, where = self.faults.get(part, ("", 0.0))
        return (FAULTS[name](body, where) if name else says(body))(connection, asked)

    def _read(self, target: str) -> tuple[Part, Ask]:
        match target.split("/")[2:]:
            case ["executions", execution_id, "verify"]:
                return "verify", Verify(execution_id)
            case ["output-checks", check_id, "verify"]:
                return "output check", VerifyOutputCheck(check_id)
            case ["jobs", job, "releases", release]:
                return "describe", Describe(job, release)
        raise AssertionError(target)

    def gate(self, felspar: Felspar, deadline_s: float) -> ActionGate:
        gate = gate_for(
            self.authority,
            {REPLY: reply_rule()},
            verify=felspar_verifier(felspar),
            describe=felspar_job_describer(felspar),
            verify_output_check=felspar_output_check_verifier(felspar),
            deadline_s=deadline_s,
        )
        decided(gate, self.authority)
        return gate


@pytest.fixture(scope="module")
def server() -> Iterator[AuthorityServer]:
    with AuthorityServer(sends()) as running:
        yield running


async def verdict(way: Way, gate: ActionGate) -> Verdict:
    return await gate.acheck(SESSION, REPLY, reply()) if way == "loop" else gate.check(SESSION, REPLY, reply())


async def strike(server: AuthorityServer, way: Way, faults: Mapping[Part, tuple[str, float]]) -> None:
    """Denied in time with these faults, allowed without them."""
    between = Between(server)
    async with Felspar(server.origin, KEY) as felspar:
        gate = between.gate(felspar, DEADLINE_S)
        between.faults = faults
        began = time.monotonic()
        denied = await verdict(way, gate)
        took = time.monotonic() - began
        between.faults = {}
        allowed = await verdict(way, between.gate(felspar, 30))
    assert (denied.allow, denied.code) == (False, "verify_failed"), denied.reason
    assert took < gate.time_limit_s + 5
    assert allowed.allow, allowed.reason


@pytest.mark.parametrize(("fault", "part"), list(zip(FAULTS, itertools.cycle(PARTS))))
@pytest.mark.parametrize("way", ["thread", "loop"])
def test_g21_each_fault_alone_denies_in_time_and_leaves_nothing_behind(
    server: AuthorityServer, way: Way, fault: str, part: Part
) -> None:
    asyncio.run(strike(server, way, {part: (fault, 0.6)}))


wheres = st.floats(0, 1, exclude_max=True)


@given(
    st.sampled_from(["thread", "loop"]),
    st.dictionaries(st.sampled_from(PARTS), st.tuples(st.sampled_from(sorted(FAULTS)), wheres), min_size=1),
)
@example("thread", {"verify": ("cut", 0.999)})
@example("loop", {"describe": ("stops", 0.999), "output check": ("cut by a reset", 0.999)})
def test_g21_faults_together_wherever_they_strike_deny_in_time(
    server: AuthorityServer, way: Way, faults: dict[Part, tuple[str, float]]
) -> None:
    asyncio.run(strike(server, way, faults))


def test_nothing_strikes_and_it_is_allowed(server: AuthorityServer) -> None:
    between = Between(server)
    with Felspar(server.origin, KEY) as felspar:
        assert between.gate(felspar, 30).check(SESSION, REPLY, reply()).allow
