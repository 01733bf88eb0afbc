"""Where a key may be sent: G21, and what two URL readers could read differently."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.errors import ConfigurationError
from preaction.rest import Felspar
from preaction.rest.origin import Origin, read_agent_key, read_origin, read_proxy

HTTPS = Origin("https", "api.example.com", 443)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("https://api.example.com/", "https://api.example.com"),
        ("HTTPS://API.Example.COM:443", "https://api.example.com"),
        ("https://api.example.com:8443/", "https://api.example.com:8443"),
        ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
        ("https://203.0.113.7", "https://203.0.113.7"),
        ("https://[2001:DB8:0::1]:8443", "https://[2001:db8::1]:8443"),
        ("https://0xbeef.example", "https://0xbeef.example"),
        ("https://authority", "https://authority"),
        ("https://" + "a." * 126 + "b", "https://" + "a." * 126 + "b"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.8.9.10", "http://127.8.9.10"),
        ("http://[::1]", "http://[::1]"),
        ("http://[0:0:0:0:0:0:0:1]:80", "http://[::1]"),
        ("http://LOCALHOST:65535", "http://localhost:65535"),
    ],
)
def test_g21_an_origin_is_a_scheme_a_host_and_a_port(text: str, spelled: str) -> None:
    assert str(read_origin(text)) == spelled


FORM = "needs the form https://host or https://host:port, without user-info, path, query or fragment"
PORT = "the port is not between 1 and 65535"
ADDRESS = "the host is not a plain IP address"
NAME = "the host is not a plain host name"
HTTP = "http is for loopback only; anything else needs https"

REFUSED = {
    FORM: [
        "",
        "https://",
        "https:///",
        "api.example.com",
        "//api.example.com",
        "ftp://api.example.com",
        "http\u017f://api.example.com",
        "http\u017f://api.example.com:443",
        "https:api.example.com",
        "https:/api.example.com",
        "https://api.example.com/v0",
        "https://api.example.com//",
        "https://api.example.com?x=1",
        "https://api.example.com/?",
        "https://api.example.com#",
        "https://api.example.com/#x",
        "https://user@api.example.com",
        "https://user:secret@api.example.com",
        "https://@api.example.com",
        "https://api.example.com:x@attacker.example.net/",
        "https://api.example.com\\@attacker.example.net",
        "https://api.example.com%2eattacker.example.net",
        "https://api.example.com%00",
        "https://api.example.com\x00",
        " https://api.example.com",
        "https://api.example.com ",
        "https://api.example.com\n",
        "https://api.exa\tmple.com",
        "https://api.example.com\r\nX: y",
        "https://\u212aelvin.example",
        "https://b\u00fccher.example",
        "https://api\u3002example.com",
        "https://api.example.com:\u0661",
        "https://a_b.example.com",
        "https://api.example.com:",
        "https://api.example.com:999999",
        "https://api.example.com:-1",
        "https://api.example.com:80:80",
        "https://[::1",
        "https://::1",
        "https://[::g]",
        "https://[fe80::1%25eth0]",
        "https://[]",
        "https://\uff11\uff12\uff17.0.0.1",
    ],
    NAME: [
        "https://api..example.com",
        "https://.example.com",
        "https://api.example.com.",
        "https://-api.example.com",
        "https://api-.example.com",
        "https://" + "a" * 64 + ".com",
        "https://" + "a." * 126 + "bc",
        "https://" + "a." * 127 + "com",
        "http://localhost.",
    ],
    PORT: [
        "https://api.example.com:0",
        "https://api.example.com:65536",
    ],
    ADDRESS: [
        "https://2130706433",
        "https://127.1",
        "https://0x7f.1",
        "https://0x7f000001",
        "https://0X7F000001",
        "https://a.0x",
        "https://127.0.0.256",
        "https://0127.0.0.1",
        "https://[127.0.0.1]",
    ],
    HTTP: [
        "http://api.example.com",
        "http://192.0.2.1",
        "http://0.0.0.0",
        "http://[::]",
        "http://[::ffff:127.0.0.1]",
        "http://[::2]",
        "http://128.0.0.1",
        "http://localhost.example.com",
        "http://foo.localhost",
        "http://127.0.0.1.example.com",
    ],
}


@pytest.mark.parametrize(("why", "text"), [(why, text) for why, texts in REFUSED.items() for text in texts])
def test_g21_anything_else_is_refused_and_the_place_named(why: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(f'origin: {why}')}$"):
        read_origin(text)


@pytest.mark.parametrize("value", [None, b"https://api.example.com", 5, ["https://api.example.com"]])
def test_an_origin_is_a_text(value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"^origin: {FORM}$"):
        read_origin(value)


@given(st.text())
def test_no_text_at_all_breaks_the_reader(text: str) -> None:
    for tried in (text, f"https://{text}", f"https://a{text}.example"):
        try:
            origin = read_origin(tried)
        except ConfigurationError:
            continue
        assert read_origin(str(origin)) == origin


@pytest.mark.parametrize("key", ["k", "fk_live-0.9~!", "A" * 500])
def test_a_key_is_visible_ascii(key: str) -> None:
    assert read_agent_key(key) == key


@pytest.mark.parametrize("key", ["", " ", "a b", "a\n", "\r\nX: y", "a\x7f", "caf\u00e9", "\u200bk", None, b"k", 7])
def test_any_other_key_is_refused_and_not_repeated(key: object) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_agent_key(key)
    assert str(raised.value) == "agent_key: needs a text of visible ASCII characters, without white space"


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "auth"),
    [
        ("http://proxy.example:3128", "http", "proxy.example", 3128, None),
        ("HTTPS://Proxy.example/", "https", "proxy.example", 443, None),
        ("http://10.0.0.1", "http", "10.0.0.1", 80, None),
        ("http://[::1]:1", "http", "::1", 1, None),
        ("http://proxy.example:65535", "http", "proxy.example", 65535, None),
        ("http://:@proxy.example", "http", "proxy.example", 80, ("", "")),
        ("http://me:p%40ss%2F@proxy.example:3128", "http", "proxy.example", 3128, ("me", "p@ss/")),
    ],
)
def test_a_proxy_is_used_when_it_is_asked_for(
    text: str, scheme: str, host: str, port: int, auth: tuple[str, str] | None
) -> None:
    proxy = read_proxy(text, HTTPS)
    assert (proxy.scheme, proxy.host, proxy.port, proxy.auth) == (scheme, host, port, auth)
    assert "ss" not in repr(proxy).replace("class", "")


PROXY_FORM = "proxy: needs the form http://host:port or http://user:password@host:port"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", PROXY_FORM),
        ("proxy.example:3128", PROXY_FORM),
        ("socks5://proxy.example", PROXY_FORM),
        ("http\u017f://proxy.example", PROXY_FORM),
        ("http://", PROXY_FORM),
        ("http://a@proxy.example", PROXY_FORM),
        ("http://a:b:c@proxy.example", PROXY_FORM),
        ("http://proxy.example/x", PROXY_FORM),
        ("http://proxy.example//", PROXY_FORM),
        ("http://a b:c@proxy.example", PROXY_FORM),
        ("http://proxy.example?x", PROXY_FORM),
        ("http://proxy_1.example", PROXY_FORM),
        (5, PROXY_FORM),
        ("http://proxy.example:0", "proxy: the port is not between 1 and 65535"),
        ("http://proxy.example:65536", "proxy: the port is not between 1 and 65535"),
        ("http://-proxy.example", f"origin: {NAME}"),
    ],
)
def test_a_proxy_that_cannot_be_right_is_refused(text: object, why: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_proxy(text, HTTPS)
    assert str(raised.value) == why


def test_loopback_is_never_asked_through_a_proxy() -> None:
    with pytest.raises(ConfigurationError, match=r"^proxy: an origin on loopback is asked directly$"):
        Felspar("http://127.0.0.1:1", "k", proxy="http://proxy.example:3128")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "5", None])
def test_a_deadline_is_some_seconds(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match=r"^deadline_s: needs a number of seconds above zero$"):
        Felspar("http://127.0.0.1:1", "k", deadline_s=seconds)


def test_case_h25() -> None:
    """User-info in the base URL: the client would pick a host that the reader doesn't see."""
    with pytest.raises(ConfigurationError, match=f"^origin: {FORM}$"):
        Felspar("https://api.example.com:x@attacker.example.net/", "k")
