"""What is known of domains: fresh lists, nothing fetched, nothing written."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from preaction._core.company import company_names
from preaction.domains import RESERVED_SUFFIXES, SHARED_PROVIDERS, TENANT_HOSTS, domains
from preaction.errors import ConfigurationError

KNOWN = domains()

# Private suffixes that tldextract's own snapshot lacks: under it, two tenants of one of these look like one company.
NEW_PRIVATE_SUFFIXES = [
    "claude.app",
    "github.app",
    "chatgpt.site",
    "vercel.run",
    "figma.site",
    "web.core.windows.net",
    "westeurope-01.azurewebsites.net",
    "up.railway.app",
    "gitbook.io",
]


@pytest.mark.parametrize("suffix", NEW_PRIVATE_SUFFIXES)
def test_the_list_of_public_suffixes_is_fresh(suffix: str) -> None:
    assert KNOWN.registrable(suffix) is None
    for tenant in ("one", "other"):
        assert KNOWN.registrable(f"mail.{tenant}.{suffix}") == f"{tenant}.{suffix}"


@pytest.mark.parametrize(
    ("host", "registrable"),
    [
        ("acme.com", "acme.com"),
        ("shop.acme.com", "acme.com"),
        ("a.b.c.acme.co.uk", "acme.co.uk"),
        ("co.uk", None),
        ("com", None),
        ("acme.github.io", "acme.github.io"),
        ("github.io", None),
        ("a.kobe.jp", None),
        ("x.a.kobe.jp", "x.a.kobe.jp"),
        ("city.kobe.jp", "city.kobe.jp"),
        ("www.ck", "www.ck"),
        ("a.ck", None),
        ("xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("shop.xn--80aswg.xn--p1ai", "xn--80aswg.xn--p1ai"),
        ("acme.example", "acme.example"),
        ("shop.acme.example", "acme.example"),
        ("example", None),
        ("acme.test", None),
        ("acme.invalid", None),
        ("acme.internal", None),
        ("acme.notatld", None),
        ("localhost", None),
        ("127.0.0.1", None),
        ("10.1", None),
        ("2130706433", None),
        ("::1", None),
        ("", None),
    ],
)
def test_g14_what_is_registrable_and_what_is_not(host: str, registrable: str | None) -> None:
    assert KNOWN.registrable(host) == registrable


@pytest.mark.parametrize("host", TENANT_HOSTS)
def test_g14_a_host_of_tenants_is_no_company_and_its_tenants_are_apart(host: str) -> None:
    assert KNOWN.registrable(host) is None
    assert KNOWN.shared(host)
    assert company_names(f"mail.one.{host}", KNOWN) == (f"mail.one.{host}", f"one.{host}")


@pytest.mark.parametrize(
    "host", ["gmail.com", "outlook.com", "qq.com", "web.de", "mailinator.com", "guerrillamail.com", *SHARED_PROVIDERS]
)
def test_g14_a_shared_or_disposable_provider_is_no_company(host: str) -> None:
    assert KNOWN.shared(host)
    assert company_names(host, KNOWN) == ()
    assert company_names(f"mail.{host}", KNOWN) == ()


@pytest.mark.parametrize("host", ["acme.example", "felspar.ai", "github.com", "microsoft.com", "sap.com"])
def test_an_ordinary_company_is_not_shared(host: str) -> None:
    assert not KNOWN.shared(host)
    assert company_names(host, KNOWN) == (host,)


def test_the_reserved_suffix_is_the_documentations_only() -> None:
    assert RESERVED_SUFFIXES == ("example",)


# ---------------------------------------------------------------- additions


@pytest.mark.parametrize("own", ["corp", ".corp", "CORP", "corp."])
def test_a_suffix_of_ones_own_network_makes_companies_below_it(own: str) -> None:
    known = domains(own_suffixes=[own])
    assert known.registrable("shop.acme.corp") == "acme.corp"
    assert known.registrable("corp") is None
    assert known.registrable("acme.co.uk") == "acme.co.uk", "the list stays"
    assert KNOWN.registrable("acme.corp") is None, "another gate's addition changes nothing here"


def test_a_suffix_of_ones_own_splits_what_the_list_holds_together() -> None:
    assert KNOWN.registrable("one.tenants.acme.com") == "acme.com"
    assert domains(own_suffixes=["tenants.acme.com"]).registrable("one.tenants.acme.com") == "one.tenants.acme.com"


@pytest.mark.parametrize("label", ["xn--bcher-kva", "xn--a", "ab--cd"])
def test_a_suffix_of_ones_own_splits_whatever_its_labels_look_like(label: str) -> None:
    known = domains(own_suffixes=[f"{label}.acme.com", "xn--bcher-kva.acme.org"])
    assert known.registrable(f"mail.one.{label}.acme.com") == f"one.{label}.acme.com"
    assert known.registrable("other.xn--bcher-kva.acme.org") == "other.xn--bcher-kva.acme.org"


def test_an_internationalised_suffix_is_read_as_its_a_labels() -> None:
    known = domains(own_suffixes=["b\u00fccher"], shared_domains=["B\u00dcCHER.example"])
    assert known.registrable("shop.acme.xn--bcher-kva") == "acme.xn--bcher-kva"
    assert known.registrable("xn--bcher-kva") is None
    assert known.shared("xn--bcher-kva.example")


@pytest.mark.parametrize("added", ["acme.example", ".acme.example", "ACME.Example."])
def test_a_further_shared_domain_is_no_company(added: str) -> None:
    known = domains(shared_domains=[added])
    assert company_names("mail.acme.example", known) == ()
    assert known.shared("gmail.com"), "the lists stay"
    assert not KNOWN.shared("acme.example")


@pytest.mark.parametrize("option", ["own_suffixes", "shared_domains"])
@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a..b", "-a.example", "user@acme.example", "*.acme.example"])
def test_what_is_no_domain_name_is_refused_with_its_place(name: str, option: str) -> None:
    given: dict[str, Any] = {option: [name]}
    with pytest.raises(ConfigurationError, match=option):
        domains(**given)


# ---------------------------------------------------------------- nothing from outside

WATCH = """
import json, os, sys

seen = []
writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
touching = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}

def watch(event, args):
    if event.startswith(("socket.", "urllib.", "http.", "subprocess.")) or event in touching:
        seen.append([event, str(args[:1])])
    elif event == "open" and isinstance(args[2], int) and args[2] & writing:
        seen.append([event, str(args[0])])

import requests  # tldextract imports it, and its urllib3 makes a socket once, to see whether there is IPv6

sys.addaudithook(watch)
from preaction.domains import domains
known = domains(own_suffixes=["corp"], shared_domains=["shared.example"])
found = [known.registrable(host) for host in ("shop.acme.co.uk", "x.claude.app", "acme.corp", "xn--bcher-kva.de")]
found += [known.shared(host) for host in ("gmail.com", "shared.example", "acme.example")]
print(json.dumps([found, seen]))
"""


def test_no_socket_is_opened_and_no_file_is_written(tmp_path: Path) -> None:
    environment = {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TLDEXTRACT_CACHE": str(tmp_path / "tldextract"),
        "TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS": "https://publicsuffix.invalid/list.dat",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(sys.path),
    }
    command = [sys.executable, "-W", "error", "-c", WATCH]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, seen = json.loads(done.stdout)
    assert found == ["acme.co.uk", "x.claude.app", "acme.corp", "xn--bcher-kva.de", True, True, False]
    assert seen == []
    assert list(tmp_path.iterdir()) == []


def test_threads_that_come_first_at_the_same_time_build_one_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import tldextract

    built: list[object] = []
    barrier = threading.Barrier(8, timeout=30)

    class Counted(tldextract.TLDExtract):
        def __init__(self, *args: Any, **options: Any) -> None:
            built.append(self)
            super().__init__(*args, **options)

    monkeypatch.setattr(tldextract, "TLDExtract", Counted)
    known = domains(own_suffixes=["only-in-this-test"])

    def look(number: int) -> str | None:
        barrier.wait()
        return known.registrable(f"shop.acme{number}.only-in-this-test")

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(look, range(8))) == [f"acme{number}.only-in-this-test" for number in range(8)]
    assert len(built) == 1
