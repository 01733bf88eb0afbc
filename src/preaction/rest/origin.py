"""Where an authority lives and with which key it is asked: checked once, when a client is built.

A key goes to exactly the host that was configured. So an origin is a scheme, a host and perhaps a port, spelled
plainly: whatever two URL readers could take for different hosts is refused.
"""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import unquote

from preaction.errors import ConfigurationError

# ASCII: the long s and the Kelvin sign are letters of either case otherwise
_ORIGIN = re.compile(r"(https?)://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?/?", re.I | re.A)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Origin:
    """A scheme, a host (IPv6 without brackets) and a port. `str()` spells it in full, without the default port."""

    scheme: str
    host: str
    port: int

    @property
    def netloc(self) -> str:
        """Host and port as a `Host` header carries them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}"


def read_origin(value: object) -> Origin:
    """The origin that a text names: https, or http on loopback (127.0.0.0/8, ::1, localhost).

    No user-info, path, query or fragment; the host is a plain ASCII name (an A-label where it is internationalised) or
    an IP address as it is usually written. `ConfigurationError` for anything else.
    """
    match = _ORIGIN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ConfigurationError(
            "origin: needs the form https://host or https://host:port, without user-info, path, query or fragment"
        )
    scheme = match[1].lower()
    host, loopback = _host(match[2], match[3])
    port = int(match[4]) if match[4] else _PORTS[scheme]
    if not 0 < port < 65_536:
        raise ConfigurationError("origin: the port is not between 1 and 65535")
    if scheme == "http" and not loopback:
        raise ConfigurationError("origin: http is for loopback only; anything else needs https")
    return Origin(scheme, host, port)


def _host(ipv6: str | None, name: str) -> tuple[str, bool]:
    """The host in lower case, and whether it is this machine."""
    try:
        if ipv6 is not None:
            address = IPv6Address(ipv6)
            return str(address), address == IPv6Address("::1")
        if name.rpartition(".")[2].isdigit():  # a number at the end is an IPv4 address or a trick
            return str(IPv4Address(name)), IPv4Address(name).is_loopback
    except AddressValueError:
        raise ConfigurationError("origin: the host is not a plain IP address") from None
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ConfigurationError("origin: the host is not a plain host name")
    if re.fullmatch(r"0[xX][0-9A-Fa-f]*", labels[-1]):
        raise ConfigurationError("origin: the host is not a plain IP address")
    return name.lower(), name.lower() == "localhost"


def read_agent_key(value: object) -> str:
    """An agent key, which travels as a header: visible ASCII without white space; else `ConfigurationError`."""
    if not isinstance(value, str) or not _VISIBLE.fullmatch(value):
        raise ConfigurationError("agent_key: needs a text of visible ASCII characters, without white space")
    return value


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """An HTTP proxy to go through, with its own credentials when it needs some."""

    scheme: str
    host: str
    port: int
    auth: tuple[str, str] | None


_PROXY = re.compile(r"(https?://)(?:([^\s:@/?#]*):([^\s:@/?#]*)@)?([^\s@/?#]+)/?", re.I | re.A)


def read_proxy(value: object, origin: Origin) -> Proxy:
    """The proxy that `http(s)://[user:password@]host[:port]` names, for an https origin; else `ConfigurationError`.

    User and password are percent-decoded. Through the proxy goes a tunnel: it sees neither key nor answers.
    """
    if origin.scheme != "https":
        raise ConfigurationError("proxy: an origin on loopback is asked directly")
    match = _PROXY.fullmatch(value) if isinstance(value, str) else None
    where = _ORIGIN.fullmatch(match[1] + match[4]) if match else None
    if match is None or where is None:
        raise ConfigurationError("proxy: needs the form http://host:port or http://user:password@host:port")
    scheme = where[1].lower()
    port = int(where[4]) if where[4] else _PORTS[scheme]
    if not 0 < port < 65_536:
        raise ConfigurationError("proxy: the port is not between 1 and 65535")
    auth = None if match[2] is None else (unquote(match[2]), unquote(match[3]))
    return Proxy(scheme, _host(where[2], where[3])[0], port, auth)
