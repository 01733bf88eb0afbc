"""Whatever stands in a file of look-ups: it is read, or refused with a place; and reading it asks nobody anything."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from authority.test_lookups_file import ENVIRONMENT, FILE, SECRET
from preaction.authority.facts.lookups_file import LookupsError, read_lookups
from preaction.errors import ConfigurationError

WORDS = sorted({*FILE.replace("{", " ").replace("}", " ").replace(",", " ").split(), "url:", "url_env:", "lookups:"})
MARKS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "&a ",
    "*a",
    "!!",
    "!!python/object:os.system ",
    "|\n",
    "? ",
    "%",
    "#",
    "\t",
]
MARKS += [
    "'",
    '"',
    "\\x",
    "\n---\n",
    "\n",
    "  ",
    "\x00",
    "\ufeff",
    "\u2028",
    "\x85",
    "<<: ",
    "~",
    "0x1",
    ".inf",
    "12:30",
]
URLS = [
    "",
    "sqlite://",
    "sqlite:///",
    "sqlite:///desk.db",
    "sqlite:///file:desk.db?mode=rw&uri=true",
    "sqlite+pysqlcipher://:x@/desk.db",
    "sqlite+no_such://x",
    "postgresql://h:99999999999/d",
    "postgresql://h:port/d",
    "postgresql://[::1/d",
    "postgresql://u@h,h2:1,2/d?host=a&host=b",
    "postgresql+asyncpg://h/d",
    f"postgresql://u:{SECRET}@h/d",
    f"postgresql://h/d?sslpassword={SECRET}",
    "mysql://h/d",
    "oracle+cx_oracle://h",
    "\udcff://x".encode("utf-8", "replace").decode(),
    "http://crm.example/{case_id}",
    "https://[::1",
    "https://crm.example:port/{case_id}",
    "https://crm.example:99999/{case_id}",
    "https://xn--/{case_id}",
    "https://{case_id}.example/",
    "https://crm.example/{",
    "https://crm.example/{}/{0}/{a.b}/{a!r}",
    f"https://u:{SECRET}@crm.example/{{case_id}}",
    "ftp://crm.example/{case_id}",
    "https://crm.example/\x01{case_id}",
    "//crm.example",
]
TEXTS = [
    *URLS,
    "SELECT 1",
    "WITH",
    "SELECT :1a, :é, ::x, :case_id",
    "SELECT '",
    "PT1S",
    "P9999999999999999Y",
    "PT-1S",
    "-PT1S",
]
TEXTS += ["/a/~2", "/~", "/", "DESK_URL", "NO_SUCH", "PATH=", "__class__", "{}", "%s", "a" * 3000]

texts = st.sampled_from(TEXTS) | st.text(max_size=20)
NAMES = [
    "deadline",
    "lookups",
    "ledger",
    "sql",
    "http",
    "url",
    "url_env",
    "query",
    "columns",
    "headers",
    "env",
    "values",
]
NAMES += ["timeout", "cache", "amount", "Authorization", "a b", "ca"]
names = st.sampled_from(NAMES) | st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5))
durations = st.sampled_from(["PT1S", "PT0S", "P1D", 5, None, "x"]) | scalars
sql = st.fixed_dictionaries(
    {"query": texts | anything},
    optional={
        "url": texts | anything,
        "url_env": texts | anything,
        "columns": st.dictionaries(names, texts, max_size=2),
    },
)
http = st.fixed_dictionaries(
    {"url": texts | anything},
    optional={
        "headers": st.dictionaries(names, st.fixed_dictionaries({"env": texts}) | anything, max_size=3),
        "values": st.dictionaries(names, texts, max_size=3) | anything,
        "ca": texts | anything,
    },
)
lookup = st.fixed_dictionaries({}, optional={"sql": sql, "http": http, "timeout": durations, "cache": durations})
near = st.fixed_dictionaries(
    {"lookups": st.dictionaries(names, lookup | anything, max_size=3)}, optional={"deadline": durations}
)

cuts = st.tuples(
    st.integers(0, len(FILE)), st.integers(0, 30), st.sampled_from(WORDS + MARKS + TEXTS) | st.text(max_size=5)
)


@pytest.fixture(autouse=True, scope="module")
def nobody_is_asked() -> Iterator[None]:
    """Every way out raises what no reader of a file expects."""

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise AssertionError("a connection was opened")

    patch = pytest.MonkeyPatch()
    for name in ("connect", "connect_ex", "sendto"):
        patch.setattr(socket.socket, name, refuse)
    patch.setattr(socket, "getaddrinfo", refuse)
    sa.event.listen(sa.Engine, "do_connect", refuse)
    yield
    sa.event.remove(sa.Engine, "do_connect", refuse)
    patch.undo()


def told(source: Path | dict[str, Any]) -> ConfigurationError | None:
    """What is wrong with these look-ups; None when they could be read. Any other error comes out."""
    wrong = None
    try:
        read_lookups(source, ENVIRONMENT).close()
    except ConfigurationError as error:
        wrong = error
    assert SECRET not in str(wrong)
    if isinstance(source, Path) and wrong is not None and "not valid UTF-8" not in str(wrong):
        assert isinstance(wrong, LookupsError)
        assert str(wrong).startswith("any.yaml:")
        lines = source.read_text("utf-8").count("\n") + 1
        assert all(1 <= each.line <= lines + 1 and each.column >= 1 and each.detail for each in wrong.problems)
    return wrong


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "any.yaml"


def test_the_good_file_is_read(file: Path) -> None:
    file.write_text(FILE)
    assert told(file) is None


@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS + MARKS), max_size=30).map("".join))
def test_any_text(file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    told(file)


@given(st.binary(max_size=100))
def test_any_bytes(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    told(file)


@given(anything | near)
def test_any_structure(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data), "utf-8")  # which is YAML
    said = told(file)
    if isinstance(data, dict) and data:
        assert (told(data) is None) == (said is None) or "NaN" in json.dumps(data) or "Infinity" in json.dumps(data)


@given(st.lists(cuts, min_size=1, max_size=3))
def test_a_good_file_that_was_changed_somewhere(file: Path, changes: list[tuple[int, int, str]]) -> None:
    text = FILE
    for at, length, instead in changes:
        text = text[:at] + instead + text[at + length :]
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    told(file)


VALUES = [
    "SELECT charged AS amount, charged_twice AS flag FROM tickets WHERE id = :case_id",
    "flag",
    "DESK_URL",
    "PT30S",
]
VALUES += [
    "https://crm.example/v1/tickets/{case_id}",
    "/customer/plan",
    "CRM_AUTHORIZATION",
    "url_env: DESK_URL",
    "ledger",
]


@pytest.mark.parametrize("value", VALUES)
def test_any_value_in_any_place(file: Path, value: str) -> None:
    assert value in FILE
    for text in TEXTS:
        instead = json.dumps(text)
        file.write_text(FILE.replace(value, f"url: {instead}" if ": " in value else instead, 1), "utf-8")
        told(file)
        file.write_text(FILE.replace("      values:", f"      ca: {instead}\n      values:"), "utf-8")
        told(file)
    assert list(file.parent.iterdir()) == [file]  # nor was a database's file made
