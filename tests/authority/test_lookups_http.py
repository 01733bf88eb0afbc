"""Facts from a real HTTP server: which request is sent, and which answers count."""

import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authority.looking import Web, response, web
from certificates import Certified, certified
from preaction.authority.expressions.schemas import Validator
from preaction.authority.facts.lookups import LookupFailed
from preaction.authority.facts.lookups_http import MAX_BYTES, HttpLookup
from preaction.errors import ConfigurationError

FACTS = {"plan": Validator({"type": "string"})}


def answering(*parts: bytes) -> Any:
    def answer(_web: Web, _target: str) -> Iterator[bytes]:
        yield from parts

    return answer


def reason(server: Web, seconds: float = 30.0, case: Any = "HC-1", path: str = "/t/{case_id}") -> str:
    """Why it fails."""
    lookup = HttpLookup(server.origin + path)
    try:
        with pytest.raises(LookupFailed) as caught:
            lookup.read({"case_id": case}, FACTS, seconds)
    finally:
        lookup.close()
    return caught.value.reason


def test_each_value_is_at_its_pointer() -> None:
    body = '{"customer": {"plans": [{"na/me~": "gold"}]}, "amount": 38.5, "": {"": 1}}'
    facts = dict.fromkeys(("plan", "amount", "root", "deep", "none", "odd", "far"), FACTS["plan"])
    values = {
        "plan": "/customer/plans/0/na~1me~0",
        "root": "",
        "deep": "//",
        "none": "/customer/plans/1",
        "odd": "/customer/plans/00",
        "far": "/amount/0",
    }
    with web(answering(response(body))) as server:
        lookup = HttpLookup(server.origin + "/t/{case_id}", values=values)
        found = dict(lookup.read({"case_id": "HC-1"}, facts, 30))
        lookup.close()
    assert found.pop("root")["amount"] == 38.5
    assert found == {"plan": "gold", "amount": 38.5, "deep": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("tls"))


def test_a_private_authority_vouches_for_a_server(made: Certified) -> None:
    with web(answering(response('{"plan": "gold"}')), made.server) as server:
        lookup = HttpLookup(server.origin + "/t/{case_id}", ca=made.ca)
        assert lookup.read({"case_id": "HC-1"}, FACTS, 30) == {"plan": "gold"}
        lookup.close()


@pytest.mark.parametrize("trust", ["the public ones", "another private one", "for another name"])
def test_a_server_that_none_vouches_for_is_told_nothing(
    made: Certified, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
    ca = {"the public ones": None, "for another name": made.ca}.get(trust, certified(tmp_path).ca)
    with web(answering(response('{"plan": "gold"}')), made.server) as server:
        origin = server.origin.replace("127.0.0.1", "localhost") if trust == "for another name" else server.origin
        lookup = HttpLookup(origin + "/t/{case_id}", ca=ca, headers={"Authorization": "Bearer s3cret"})
        with pytest.raises(LookupFailed, match="unreachable"):
            lookup.read({"case_id": "HC-1"}, FACTS, 30)
        lookup.close()
        assert server.heads == []


def test_the_request_is_what_was_configured_and_no_more() -> None:
    headers = {"Authorization": "Bearer s3cret"}
    with web(answering(response('{"plan": "gold"}'))) as server:
        lookup = HttpLookup(server.origin + "/v1/{vendor}/x?id={case_id}&full=1", headers=headers)
        assert lookup.needs == {"case_id", "vendor"}
        ids = {"case_id": "a&b=c#d", "vendor": "ä/é"}
        assert lookup.read(ids, FACTS, 30) == {"plan": "gold"}
        lookup.close()
    assert server.targets == ["/v1/%C3%A4%2F%C3%A9/x?id=a%26b%3Dc%23d&full=1"]
    lines = server.heads[0].split("\r\n")
    assert lines[0].startswith("GET ")
    assert "Authorization: Bearer s3cret" in lines
    assert {line.partition(":")[0].lower() for line in lines[1:] if line} == {
        "host",
        "accept",
        "accept-encoding",
        "authorization",
    }


@given(st.text(max_size=20))
@example("../../admin")
@example("..")
@example(".")
@example("%2e%2e")
@example("a/b?c#d")
@example("\\..\\x")
@example("x\r\nHost: evil")
def test_any_id_is_exactly_one_segment_or_is_not_sent(case: str) -> None:
    lookup = HttpLookup("https://erp.example/tickets/{case_id}/facts")
    if not case or {".", ".."} & set(case.replace("\\", "/").split("/")):
        with pytest.raises(LookupFailed, match="unusable_id"):
            lookup.target({"case_id": case})
        return
    target = lookup.target({"case_id": case}).decode("ascii")
    before, segment, after = target.rsplit("/", 2)
    assert (before, after) == ("/tickets", "facts")
    assert unquote(segment) == case
    assert not set(segment) & set("/?#\\ \r\n&=:@")


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (True, "true"), (1.5, "1.5"), (1e21, "1e%2B21")])
def test_a_part_of_the_key_that_is_no_text_is_sent_as_json(value: Any, text: str) -> None:
    assert HttpLookup("https://erp.example/{n}").target({"n": value}) == f"/{text}".encode()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (response("", "404 Not Found"), "not_found"),
        (response("{}", "500 Internal Server Error"), "status"),
        (response("{}", "201 Created"), "status"),
        (response("", "401 Unauthorized"), "status"),
        (response("not JSON"), "not_json"),
        (response('{"plan": 1, "plan": 2}'), "not_json"),
        (response('{"plan": NaN}'), "not_json"),
        (response(b"\xff"), "not_json"),
        (response('{"plan": "gold"}', "200 OK", "Content-Encoding: gzip"), "not_json"),
        (response(b" " * (MAX_BYTES + 1)), "too_large"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", "unreachable"),
        (b"nonsense\r\n\r\n", "unreachable"),
        (b"", "unreachable"),
    ],
)
def test_an_answer_that_does_not_count(answer: bytes, why: str) -> None:
    with web(answering(answer)) as server:
        assert reason(server) == why


def test_a_redirect_is_not_followed() -> None:
    def answer(server: Web, target: str) -> Iterator[bytes]:
        yield response('{"plan": "gold"}', "302 Found", f"Location: {server.origin}/other")

    with web(answer) as server:
        assert reason(server) == "redirect"
    assert server.targets == ["/t/HC-1"]


def test_an_answer_of_the_largest_size_counts() -> None:
    body = b'{"plan": "gold"}'
    with web(answering(response(body + b" " * (MAX_BYTES - len(body))))) as server:
        lookup = HttpLookup(server.origin + "/{case_id}")
        assert lookup.read({"case_id": "1"}, FACTS, 30) == {"plan": "gold"}
        lookup.close()


def hanging(server: Web, _target: str) -> Iterator[bytes]:
    server.over.wait(60)
    yield b""


def dripping_head(server: Web, _target: str) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX: "
    while not server.over.wait(0.005):
        yield b"x"


def dripping_body(server: Web, _target: str) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    while not server.over.wait(0.005):
        yield b" "


@pytest.mark.parametrize("answer", [hanging, dripping_head, dripping_body])
def test_one_that_hangs_or_drips_is_cut_off(answer: Any) -> None:
    with web(answer) as server:
        for seconds in (0.1, 1.0, 10.0):  # again where a busy machine didn't even get to the server
            began = monotonic()
            assert reason(server, seconds) == "timeout"
            assert monotonic() - began < 30
            if server.heads:
                break
        if answer is not hanging:
            assert server.gone.wait(30)  # the connection is closed, and its thread is free


def test_a_port_that_nobody_listens_on() -> None:
    with web(hanging) as server:
        pass
    assert reason(server) == "unreachable"


def test_closing_ends_what_is_read() -> None:
    asked = threading.Event()

    def answer(server: Web, _target: str) -> Iterator[bytes]:
        asked.set()
        server.over.wait(60)
        yield b""

    why: list[str] = []

    def read() -> None:
        try:
            lookup.read({"case_id": "1"}, FACTS, 60)
        except LookupFailed as failed:
            why.append(failed.reason)

    with web(answer) as server:
        lookup = HttpLookup(server.origin + "/{case_id}")
        thread = threading.Thread(target=read)
        thread.start()
        assert asked.wait(30)
        lookup.close()
        thread.join(30)
    assert why == ["unreachable"]


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("http://erp.example/{case_id}", "http is for loopback only"),
        ("http://127.0.0.1.example/{case_id}", "http is for loopback only"),
        ("ftp://127.0.0.1/{case_id}", "https://host/path"),
        ("https://user:s3cret@erp.example/{case_id}", "without user-info"),
        ("https://{case_id}.example/", "https://host/path"),
        ("https:///{case_id}", "https://host/path"),
        ("https://erp.example:99999/{case_id}", "not a URL"),
        ("https://[::1/{case_id}", "not a URL"),
        ("https://erp.example/a{case_id}", "segment 1 of the path is either one"),
        ("https://erp.example/{case_id}{case_id}", "segment 1 of the path is either one"),
        ("https://erp.example/{case-id}", "segment 1 of the path is either one"),
        ("https://erp.example/a?x=1{case_id}", "the value of 'x' is either one"),
        ("https://erp.example/a?{case_id}=1", "the name of a parameter is either one"),
        ("https://erp.example/a/../{case_id}", "means another one"),
        ("https://erp.example/{case_id}#x", "without"),
        ("https://erp.example\\@evil.example/{case_id}", "without"),
        ("https://erp.example/ {case_id}", "visible"),
    ],
)
def test_a_url_that_cannot_be(url: str, detail: str) -> None:
    with pytest.raises(ConfigurationError, match=detail) as caught:
        HttpLookup(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://erp.example"])
def test_https_or_this_machine(origin: str) -> None:
    assert HttpLookup(origin + "/{case_id}").target({"case_id": "1"}) == b"/1"


@pytest.mark.parametrize(
    "headers",
    [{"X": "s3cret\r\nY: 1"}, {"X": ""}, {"X": " s3cret"}, {"X": "s3crét"}, {"Host": "s3cret"}, {"a b": "s3cret"}],
)
def test_a_header_that_cannot_be_is_told_without_its_value(headers: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="headers") as caught:
        HttpLookup("https://erp.example/{case_id}", headers=headers)
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize("pointer", ["plan", "/a~2", "/a~", "#/plan"])
def test_a_pointer_that_cannot_be(pointer: str) -> None:
    with pytest.raises(ConfigurationError, match=r"values\.plan: a JSON pointer is needed"):
        HttpLookup("https://erp.example/{case_id}", values={"plan": pointer})
