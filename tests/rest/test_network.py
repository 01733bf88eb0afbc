"""Below HTTP: names, addresses, TLS and proxies, connections that are kept, all within one deadline."""

import socket
import ssl
import threading
import time
from types import SimpleNamespace
from typing import Any

import httpcore
import pytest

from certificates import Certified, certified
from preaction._core.facts import Unavailable, Verify
from preaction.rest import Felspar, network
from preaction.rest.budget import Budget
from preaction.rest.network import DeadlineBackend, DeadlineStream
from rest.answers import ANSWERS, ASKS, EVERYTHING, KEY, VERIFY
from rest.authority_server import Asked, AuthorityServer, says, sends

HTTP11 = SimpleNamespace(trailing_data=(b"", False))
LATE = {VERIFY: Unavailable("the authority did not answer in time")}
UNREACHED = {VERIFY: Unavailable("the authority could not be reached")}
DEADLINE_S = 0.3


# Names and addresses --------------------------------------------------------------------------------------------------


def resolves_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    monkeypatch.setattr("preaction.rest.network.look_up", lambda host: list(addresses))


def test_a_resolver_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = threading.Event()
    threads: list[threading.Thread] = []

    def look_up(host: str) -> bool:
        threads.append(threading.current_thread())
        return hung.wait(30)

    monkeypatch.setattr(network, "look_up", look_up)
    with Felspar("https://felspar.example", KEY) as felspar:
        began = time.monotonic()
        assert felspar.fetch([VERIFY], DEADLINE_S) == LATE
        assert time.monotonic() - began < 8
    assert [(thread.name, thread.daemon) for thread in threads] == [("preaction-resolve", True)]
    hung.set()


def test_a_name_without_address_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with Felspar("https://felspar.invalid", KEY) as felspar:
        assert felspar.fetch([VERIFY], 5.0) == UNREACHED
        resolves_to(monkeypatch)
        assert felspar.fetch([VERIFY], 5.0) == UNREACHED


def test_why_a_name_leads_nowhere_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with Budget(time.monotonic() + 60):
        with pytest.raises(httpcore.ConnectError, match=r"^the name could not be resolved$") as raised:
            DeadlineBackend().connect_tcp("felspar.invalid", 443)
        assert isinstance(raised.value.__cause__, OSError)
        resolves_to(monkeypatch)
        with pytest.raises(httpcore.ConnectError, match=r"^the name has no address$"):
            DeadlineBackend().connect_tcp("felspar.example", 443)


class Dials:
    """Instead of sockets: one outcome per address, and the time-outs that each was tried with."""

    def __init__(self, **outcomes: httpcore.NetworkStream | Exception) -> None:
        self.outcomes = outcomes
        self.shares: list[float] = []
        self.rest: set[tuple[object, ...]] = set()

    def connect_tcp(self, host: str, port: int, timeout: float, *rest: object) -> httpcore.NetworkStream:
        self.shares.append(timeout)
        self.rest.add((port, *rest))
        outcome = self.outcomes[host]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_the_next_address_is_tried_and_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "refuses", "hangs", "answers", "spare")
    stream = httpcore.NetworkStream()
    backend = DeadlineBackend()
    dials = Dials(refuses=httpcore.ConnectError(), hangs=httpcore.ConnectTimeout(), answers=stream)
    backend._sockets = dials  # type: ignore[assignment]
    with Budget(time.monotonic() + 60):
        found = backend.connect_tcp("felspar.example", 443, 1.0, "192.0.2.1", ())
    assert dials.rest == {(443, "192.0.2.1", ())}
    assert isinstance(found, DeadlineStream)
    assert found._stream is stream
    assert dials.shares == pytest.approx([60 / 4, 60 / 3, 60 / 2], rel=0.05)


def test_when_no_address_answers_the_last_failure_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "refuses", "hangs")
    backend = DeadlineBackend()
    backend._sockets = Dials(refuses=httpcore.ConnectError(), hangs=httpcore.ConnectTimeout())  # type: ignore[assignment]
    with Budget(time.monotonic() + 60), pytest.raises(httpcore.ConnectTimeout):
        backend.connect_tcp("felspar.example", 443, timeout=1.0)


def test_no_further_address_is_tried_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()

    class Slow(Dials):
        def connect_tcp(self, host: str, port: int, timeout: float, *rest: object) -> httpcore.NetworkStream:
            monkeypatch.setattr("preaction.rest.budget.monotonic", lambda: began + 61)
            return super().connect_tcp(host, port, timeout, *rest)

    resolves_to(monkeypatch, "refuses", "spare")
    backend = DeadlineBackend()
    dials = Slow(refuses=httpcore.ConnectError())
    backend._sockets = dials  # type: ignore[assignment]
    with Budget(began + 60), pytest.raises(httpcore.ConnectTimeout):
        backend.connect_tcp("felspar.example", 443)
    assert len(dials.shares) == 1


def test_a_connection_that_is_made_while_the_client_closes_is_closed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves_to(monkeypatch, "answers")
    near, far = socket.socketpair()
    backend = DeadlineBackend()
    backend._sockets = Dials(answers=Carries(near))  # type: ignore[assignment]
    backend.shut()
    with near, far, Budget(time.monotonic() + 60):
        with pytest.raises(httpcore.ConnectError, match=r"^the client was closed$"):
            backend.connect_tcp("felspar.example", 443, timeout=1.0)
        assert far.recv(1) == b""


def test_a_wait_is_not_begun_without_time() -> None:
    near, far = socket.socketpair()
    stream = DeadlineStream(Carries(near), DeadlineBackend())
    with near, far, Budget(time.monotonic()):
        far.sendall(b"x")
        with pytest.raises(httpcore.ReadTimeout):
            stream.read(1, timeout=5.0)
        with pytest.raises(httpcore.WriteTimeout):
            stream.write(b"x", timeout=5.0)
        with pytest.raises(httpcore.ConnectTimeout):
            DeadlineBackend().connect_tcp("127.0.0.1", 9, timeout=5.0)
        with pytest.raises(httpcore.ConnectTimeout):
            stream.start_tls(ssl.create_default_context(), "127.0.0.1", timeout=5.0)
        stream.close()
        stream.close()


def test_what_a_connection_knows_of_itself_is_told_and_a_spoilt_one_is_not_used_again() -> None:
    class Knows(httpcore.NetworkStream):
        def get_extra_info(self, info: str) -> Any:
            return f"the {info}"

    stream = DeadlineStream(Knows(), DeadlineBackend())
    assert (stream.get_extra_info("socket"), stream.get_extra_info("is_readable")) == ("the socket", "the is_readable")
    stream.spoilt = True
    assert (stream.get_extra_info("socket"), stream.get_extra_info("is_readable")) == ("the socket", True)


class Carries(httpcore.NetworkStream):
    """A stream that knows its socket and must not be asked for more."""

    def __init__(self, carried: socket.socket) -> None:
        self.carried = carried

    def get_extra_info(self, info: str) -> Any:
        return self.carried

    def close(self) -> None:
        self.carried.close()


# TLS ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls(made: Certified) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for 127.0.0.1, and a client's that trusts it."""
    return made.server, ssl.create_default_context(cafile=made.ca)


def secure(server: AuthorityServer) -> str:
    return server.origin.replace("http:", "https:")


def test_an_authority_is_asked_over_tls(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with AuthorityServer(says(EVERYTHING), tls=tls[0]) as server:
        with Felspar(secure(server), KEY, ssl_context=tls[1]) as felspar:
            assert felspar.fetch(ASKS, 5.0) == ANSWERS
            assert felspar.fetch(ASKS, 5.0) == ANSWERS
        assert server.connections == 1


def test_a_certificate_that_nobody_vouches_for_is_named(made: Certified, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the environment add to what is trusted."""
    with AuthorityServer(says(EVERYTHING), tls=made.server) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
        with Felspar(secure(server), KEY) as felspar:
            assert felspar.fetch([VERIFY], 5.0) == {
                VERIFY: Unavailable("the certificate of the authority is not trusted")
            }
        assert server.asked == []


def test_headers_in_drops_over_tls_are_not_waited_for(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    def drips(connection: socket.socket, asked: Asked) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(500):
            connection.sendall(b"x")
            time.sleep(0.02)

    with AuthorityServer(drips, tls=tls[0]) as server, Felspar(secure(server), KEY, ssl_context=tls[1]) as felspar:
        began = time.monotonic()
        assert felspar.fetch([VERIFY], DEADLINE_S) == LATE
        assert time.monotonic() - began < 8


def test_a_handshake_that_does_not_end_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        felspar = Felspar(f"https://127.0.0.1:{listener.getsockname()[1]}", KEY)
        began = time.monotonic()
        assert felspar.fetch([VERIFY], DEADLINE_S) == LATE
        assert time.monotonic() - began < 8


# A proxy, when it is asked for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("auth", [None, b"Basic bWU6cEBzcw=="])
def test_a_proxy_is_tunnelled_through_and_sees_no_key(
    tls: tuple[ssl.SSLContext, ssl.SSLContext], auth: bytes | None
) -> None:
    def tunnels(connection: socket.socket, asked: Asked) -> bool:
        host, _, port = asked.target.partition(b":")
        with socket.create_connection((host.decode(), int(port))) as far:
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(target=_pump, args=(far, connection), daemon=True)
            back.start()
            _pump(connection, far)
            back.join(5)
        return False

    with AuthorityServer(says(EVERYTHING), tls=tls[0]) as server, AuthorityServer(tunnels) as proxy:
        where = proxy.origin.replace("//", "//me:p%40ss@") if auth else proxy.origin
        with Felspar(secure(server), KEY, ssl_context=tls[1], proxy=where) as felspar:
            assert felspar.fetch(ASKS, 5.0) == ANSWERS
            assert "p@ss" not in repr(vars(felspar))
        [asked] = proxy.asked
        assert asked.line == f"CONNECT 127.0.0.1:{server.port} HTTP/1.1".encode()
        assert asked.headers.get(b"proxy-authorization") == auth
        assert b"authorization" not in asked.headers
        assert b"proxy-authorization" not in server.asked[0].headers


def test_a_proxy_is_asked_over_tls_when_it_is_named_so(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with AuthorityServer(sends(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"), tls=tls[0]) as proxy:
        with Felspar("https://felspar.example", KEY, ssl_context=tls[1], proxy=secure(proxy)) as felspar:
            felspar.fetch([VERIFY], 5.0)
        assert [asked.line for asked in proxy.asked] == [b"CONNECT felspar.example:443 HTTP/1.1"]


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_a_proxy_that_refuses_is_no_answer(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with AuthorityServer(sends(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")) as proxy:
        felspar = Felspar("https://127.0.0.1:9", KEY, ssl_context=tls[1], proxy=proxy.origin)
        [answer] = felspar.fetch([VERIFY], 5.0).values()
    assert answer == Unavailable("no whole answer came from the authority")


# Connections ----------------------------------------------------------------------------------------------------------


def test_a_connection_that_was_idle_for_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "KEEP_ALIVE_S", 0.02)
    with AuthorityServer(says(EVERYTHING)) as server:
        with Felspar(server.origin, KEY) as felspar:
            for _ in range(2):
                assert felspar.fetch(ASKS, 5.0) == ANSWERS
                time.sleep(0.05)
        assert server.connections == 2


@pytest.mark.parametrize("lacks", ["_stream", "_connection", "_h11_state"])
def test_a_connection_whose_leftovers_cannot_be_looked_for_is_not_used_again(lacks: str) -> None:
    stream: Any = HTTP11
    for name in ("_h11_state", "_connection", "_stream"):
        stream = SimpleNamespace() if name == lacks else SimpleNamespace(**{name: stream})
    whole: Any = SimpleNamespace(_stream=SimpleNamespace(_connection=SimpleNamespace(_h11_state=HTTP11)))
    assert not network._is_followed(SimpleNamespace(stream=whole))  # type: ignore[arg-type]
    assert network._is_followed(SimpleNamespace(stream=stream))  # type: ignore[arg-type]


def test_no_more_connections_are_made_than_may_be_and_a_free_one_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "_CONNECTIONS", 1)
    silent = threading.Event()

    def hangs(connection: socket.socket, asked: Asked) -> bool:
        return silent.wait(30)

    with AuthorityServer(hangs) as server:
        with Felspar(server.origin, KEY) as felspar:
            answers = felspar.fetch([VERIFY, Verify("exe_2")], 2.0)
        assert server.connections == len(server.asked) == 1
        silent.set()
    assert set(answers.values()) == set(LATE.values())
