"""The three callables of a gate, over a client, a mapping, or anything with the same methods."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from preaction.errors import AuthorityError, ConfigurationError
from preaction.rest import Felspar, felspar_job_describer, felspar_output_check_verifier, felspar_verifier, ports
from rest.answers import CHECKED, DESCRIPTION, KEY, REPLAY
from rest.authority_server import AuthorityServer, by_path

FACTORIES: list[tuple[Callable[[Any], Any], tuple[str, ...], Any]] = [
    (felspar_verifier, ("exe_1",), REPLAY),
    (felspar_job_describer, ("triage-ticket", "2026-11-03.1"), DESCRIPTION),
    (felspar_output_check_verifier, ("chk_1",), CHECKED),
]
every_port = pytest.mark.parametrize(("factory", "args", "answer"), FACTORIES, ids=["verify", "describe", "check"])


@pytest.fixture
def server() -> Iterator[AuthorityServer]:
    with AuthorityServer(by_path(executions=REPLAY, jobs=DESCRIPTION, output_checks=CHECKED)) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_shared() -> Iterator[None]:
    yield
    while ports._SHARED:
        ports._SHARED.popitem()[1].close()


@every_port
async def test_a_port_over_a_client_answers_in_both_ways_and_is_its_source(
    factory: Callable[[Any], Any], args: tuple[str, ...], answer: Any, server: AuthorityServer
) -> None:
    with Felspar(server.origin, KEY) as felspar:
        port = factory(felspar)
        assert port(*args) == await port.acall(*args) == answer
        assert port.source is felspar
        with pytest.raises(dataclasses.FrozenInstanceError):
            port.client = None


@every_port
async def test_a_port_raises_what_the_client_raises(
    factory: Callable[[Any], Any], args: tuple[str, ...], answer: Any, server: AuthorityServer
) -> None:
    with Felspar(server.origin, KEY) as felspar:
        port = factory(felspar)
        with pytest.raises(AuthorityError):
            port(*("other" for _ in args))
        with pytest.raises(AuthorityError):
            await port.acall(*("other" for _ in args))


def test_equal_mappings_share_one_client(server: AuthorityServer) -> None:
    mappings = [
        {"origin": server.origin, "agent_key": KEY},
        {"origin": server.origin + "/", "agentKey": KEY},
        {"agent_key": KEY, "origin": server.origin.upper()},
    ]
    sources = {factory(mapping).source for (factory, _, _), mapping in zip(FACTORIES, mappings, strict=True)}
    assert len(sources) == 1
    assert felspar_verifier({"origin": server.origin, "agent_key": "other"}).source not in sources


def test_a_shared_client_that_was_closed_is_replaced(server: AuthorityServer) -> None:
    mapping = {"origin": server.origin, "agent_key": KEY}
    first = felspar_verifier(mapping).source
    assert first is not None
    first.close()
    assert felspar_verifier(mapping)("exe_1") == REPLAY


def test_the_shared_clients_are_bounded(server: AuthorityServer) -> None:
    held = [felspar_verifier({"origin": server.origin, "agent_key": f"key-{n}"}).source for n in range(20)]
    assert len(ports._SHARED) == 16
    for client in held:
        assert client is not None
        client.close()


class Embedded:
    """An authority in the same process."""

    def verify(self, execution_id: str) -> dict[str, Any]:
        return {"executionId": execution_id}

    async def averify(self, execution_id: str) -> dict[str, Any]:
        return {"executionId": execution_id}

    def describe_job(self, job: str, release: str) -> dict[str, Any]:
        return {"job": job, "release": release}

    async def adescribe_job(self, job: str, release: str) -> dict[str, Any]:
        return {"job": job, "release": release}

    def verify_output_check(self, check_id: str) -> dict[str, Any]:
        return {"checkId": check_id}

    async def averify_output_check(self, check_id: str) -> dict[str, Any]:
        return {"checkId": check_id}


@every_port
async def test_a_port_over_anything_with_the_methods_has_no_source(
    factory: Callable[[Any], Any], args: tuple[str, ...], answer: Any
) -> None:
    port = factory(Embedded())
    assert list(port(*args).values()) == list((await port.acall(*args)).values()) == list(args)
    assert port.source is None


@every_port
@pytest.mark.parametrize(
    "value", [None, "https://felspar.example", object(), {}, {"origin": "https://felspar.example"}, lambda x: x]
)
def test_anything_else_makes_no_port(
    factory: Callable[[Any], Any], args: tuple[str, ...], answer: Any, value: object
) -> None:
    with pytest.raises(ConfigurationError):
        factory(value)


def test_half_of_a_port_makes_none() -> None:
    class OnlyThreads:
        def verify(self, execution_id: str) -> dict[str, Any]:
            return {}

    with pytest.raises(ConfigurationError) as raised:
        felspar_verifier(OnlyThreads())
    assert str(raised.value) == (
        "felspar: needs a Felspar, a mapping with origin and agent_key, or an object with verify and averify"
    )
