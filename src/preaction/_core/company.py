"""Companies: one plain address, one host name, and what can be a company at all (G11–G15).

The public suffix list and the lists of shared providers come in as `Domains`: nothing is looked up or loaded here.
Lists only ever take the possibility away: what proves a company is that the authority decided on its domain.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

MAX_ADDRESS: Final = 320
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Address(NamedTuple):
    """One plain address: the local part exactly, the domain as lower-case A-labels."""

    local: str
    domain: str


@dataclass(frozen=True, slots=True)
class Domains:
    """What is known of domains, as two look-ups over lower-case A-label host names.

    `registrable(host)` is the registrable domain under the public suffix list (ICANN and private), or None for a public
    suffix, an IP address or an unknown top-level domain. `shared(host)` says that the host is a mail provider or a host
    of tenants, where two names say nothing about one company.
    """

    registrable: Callable[[str], str | None]
    shared: Callable[[str], bool]


@lru_cache(maxsize=4096)
def plain_address(text: str) -> Address | None:
    """G11: `text` as one plain ASCII address `local@domain`, or None for anything that two mailers could read apart."""
    from email_validator import EmailNotValidError, validate_email  # costs more to import than all else here

    if len(text) > MAX_ADDRESS or not text.isascii() or "%" in text or "!" in text or "=?" in text:
        return None
    try:
        found = validate_email(
            text,
            check_deliverability=False,
            allow_smtputf8=False,
            globally_deliverable=False,  # whether a domain can be a company is not the address's question
            strict=True,
        )
    except EmailNotValidError:
        return None
    host = plain_host(found.ascii_domain)
    # Not `found.local_part`, which is lower case for names such as `Info`: the tool is given the text as it stands.
    return None if host is None else Address(text.rpartition("@")[0], host)


@lru_cache(maxsize=4096)
def plain_host(text: str) -> str | None:
    """G12: a host name as lower-case A-labels, one final dot dropped, or None if it isn't one."""
    if not text.isascii():
        import idna

        try:
            text = idna.encode(text, uts46=True, std3_rules=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            return None
    host = text.lower().removesuffix(".")
    return host if _HOST.match(host) else None


def company_names(host: str, domains: Domains) -> tuple[str, ...]:
    """G13, G14: the domains that `host` can belong to, from itself up to its registrable domain; none if no company.

    No public suffix lies between a host and its registrable domain, so a decided id among these names is its company.
    """
    top = domains.registrable(host)
    if top is None or "." not in host:
        return ()
    names = [host]
    while names[-1] != top:
        names.append(names[-1].partition(".")[2])
    return () if any(map(domains.shared, names)) else tuple(names)


def has_control(text: str) -> bool:
    """G12a: whether `text` holds a control character or a line separator, which would start a header line."""
    return _CONTROL.search(text) is not None


_WORD = re.compile(r"[^\s,;:!?()\[\]{}<>\"'`|/\\@=&#*~^+$%]+")


def hosts_in(subject: str) -> frozenset[str]:
    """G30: the host names that stand in `subject` as whole words; `shop.example` in `my.shop.example` is none."""
    words = (word.strip(".-_") for word in _WORD.findall(subject))
    return frozenset(host for word in words if "." in word and (host := plain_host(word)) is not None)
