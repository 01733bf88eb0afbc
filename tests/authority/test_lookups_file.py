"""The operator's file of look-ups: read strictly, with a place for each error, and without a secret anywhere."""

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authority.looking import LOOKED_UP, TOPIC, Told, Web, desk, response, web
from certificates import certified
from preaction.authority import LocalAuthority
from preaction.authority.expressions.schemas import Validator
from preaction.authority.facts.lookups import Lookups
from preaction.authority.facts.lookups_file import LookupsError, json_schema, read_lookups
from preaction.errors import ConfigurationError
from preaction.wire.yaml_text import read_yaml

SECRET = "s3cret-sentinel"

FILE = """
deadline: PT5S
lookups:
  ledger:
    sql:
      url_env: DESK_URL
      query: SELECT charged AS amount, charged_twice AS flag FROM tickets WHERE id = :case_id
      columns: {twice: flag}
    cache: PT30S
  crm:
    http:
      url: https://crm.example/v1/tickets/{case_id}
      headers: {Authorization: {env: CRM_AUTHORIZATION}}
      values: {plan: /customer/plan}
    timeout: PT1S
""".lstrip()

ENVIRONMENT = {"DESK_URL": "sqlite:///desk.db", "CRM_AUTHORIZATION": f"Bearer {SECRET}"}


def errors(tmp_path: Path, text: str) -> list[tuple[int, int, str]]:
    """Line, column and detail of each error of a file."""
    file = tmp_path / "lookups.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(LookupsError) as caught:
        read_lookups(file, ENVIRONMENT)
    assert all(line.startswith("lookups.yaml:") for line in str(caught.value).splitlines())
    return [(each.line, each.column, each.detail) for each in caught.value.problems]


def test_a_file_of_both_kinds(tmp_path: Path) -> None:
    file = tmp_path / "lookups.yaml"
    file.write_text(FILE)
    lookups = read_lookups(file, ENVIRONMENT)
    assert lookups.known == {"ledger": {"case_id"}, "crm": {"case_id"}}
    lookups.close()


@pytest.mark.parametrize(
    ("old", "new", "at", "detail"),
    [
        ("deadline: PT5S", "deadline: 5", "5", "ISO 8601"),
        ("deadline: PT5S", "deadline: PT61S", "deadline", "at most PT60S"),
        ("deadline: PT5S", "deadlin: PT5S", "deadlin", "not known here"),
        ("cache: PT30S", "cache: 30 s", "30 s", "ISO 8601"),
        ("    cache: PT30S", "    http: {url: 'https://crm.example/'}", "sql:", "one of sql and http is needed"),
        ("url_env: DESK_URL", "url_env: NO_SUCH", "url_env", "the environment variable NO_SUCH isn't set"),
        ("url_env: DESK_URL", "url_env: a b", "a b", "match pattern"),
        ("url_env: DESK_URL", "title: x", "title", "not known here"),
        ("      url_env: DESK_URL\n", "", "query", "one of url and url_env is needed"),
        ("url_env: DESK_URL", "url: nonsense", "url_env", "a database URL is needed"),
        ("url_env: DESK_URL", f"url: 'postgresql://u:{SECRET}@h/d'", "'postgresql", "a password doesn't stand"),
        ("url_env: DESK_URL", f"url: 'postgresql://h/d?password={SECRET}'", "'postgresql", "a password doesn't stand"),
        ("query: SELECT", "query: DELETE", "DELETE", "one SELECT is needed"),
        ("{twice: flag}", "{twice: 1}", "1}", "valid string"),
        ("https://crm", "http://crm", "http://crm", "http is for loopback only"),
        ("{env: CRM_AUTHORIZATION}", f"Bearer {SECRET}", "Bearer", ""),
        ("{env: CRM_AUTHORIZATION}", "{env: DESK_URL}, Host: {env: DESK_URL}", "{Authorization", "not a name"),
        ("/customer/plan", "customer", "customer}", "a JSON pointer is needed"),
        ("  crm:\n", "  c/m:\n", "c/m", "match pattern"),
    ],
)
def test_each_error_has_its_line_and_column(tmp_path: Path, old: str, new: str, at: str, detail: str) -> None:
    assert old in FILE
    text = FILE.replace(old, new, 1)
    found = errors(tmp_path, text)
    assert SECRET not in str(found)
    line, column, said = next(each for each in found if detail in each[2])
    if at in text:
        before = text[: text.index(at)]
        assert line == before.count("\n") + 1, (line, column, said)


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    found = errors(tmp_path, FILE.replace("SELECT", "DROP").replace("https", "http"))
    assert [(line, detail.partition(":")[0]) for line, _, detail in found] == [(6, "query"), (11, "url")]


@pytest.mark.parametrize("text", ["", "lookups: {}", "lookups:", "[]", "a: &b 1", "deadline: PT1S", "\ud800"])
def test_what_is_no_such_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "lookups.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigurationError):
        read_lookups(file)
    with pytest.raises(ConfigurationError, match=r"the lookups none\.yaml can't be read"):
        read_lookups(tmp_path / "none.yaml")


def test_the_same_as_data_has_paths_for_places() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_lookups({"lookups": {"a": {"sql": {"url": "sqlite:///x", "query": "DROP"}}, "b": {}}})
    assert "lookups.b: one of sql and http is needed" in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"lookups\.a\.sql\.query: query: one SELECT is needed"):
        read_lookups({"lookups": {"a": {"sql": {"url": "sqlite:///x", "query": "DROP"}}}})
    with pytest.raises(ConfigurationError):
        read_lookups({"ledger": "sqlite:///x"})


def test_ready_ones_are_taken_as_they_are() -> None:
    told = Told({})
    assert read_lookups({"ledger": told}).known == {"ledger": {"case_id"}}
    ready = Lookups({"ledger": told})
    assert read_lookups(ready) is ready
    assert read_lookups(None).known == read_lookups({}).known == {}


@given(st.text(max_size=200) | st.sampled_from(FILE.splitlines()).map(lambda line: FILE.replace(line, line + " :")))
def test_any_text_is_read_or_refused_with_places(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(ConfigurationError):
        read_lookups(file, ENVIRONMENT).close()


def test_certificates_are_read_from_where_the_file_is(tmp_path: Path) -> None:
    with_ca = FILE.replace("values: {plan: /customer/plan}", "ca: tls/ca.pem")
    (tmp_path / "tls").mkdir()
    no_pem = "ca: no certificates in PEM can be read there"
    assert errors(tmp_path, with_ca) == [(13, 11, f"{no_pem} (FileNotFoundError)")]
    (tmp_path / "tls" / "ca.pem").write_text(f"no certificate, but {SECRET}")
    assert errors(tmp_path, with_ca) == [(13, 11, f"{no_pem} (SSLError)")]
    on_loopback = with_ca.replace("https://crm.example", "http://127.0.0.1")
    assert errors(tmp_path, on_loopback) == [(13, 11, "ca: certificates are for https")]
    certified(tmp_path / "tls")
    (tmp_path / "lookups.yaml").write_text(with_ca, "utf-8")
    read_lookups(tmp_path / "lookups.yaml", ENVIRONMENT).close()


def test_the_schema_takes_what_the_reader_takes(repository: Path) -> None:
    schema = json_schema()
    assert not list(Validator(schema).errors(read_yaml(FILE)[0]))
    assert list(Validator(schema).errors({"lookups": {"a": {"mongo": {}}}}))
    assert json.loads((repository / "docs/lookups.schema.json").read_text()) == schema, "make schema"


# ---------------------------------------------------------------- from the file to the decision


@pytest.fixture
def everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LocalAuthority, Web]]:
    """An authority that reads one fact from a database and one from a service, both named in a file."""
    pack = LOOKED_UP.replace("    evidence:", "      plan: {type: string, from: lookup, lookup: crm}\n    evidence:")

    def answer(server: Web, target: str) -> Iterator[bytes]:
        assert f"Bearer {SECRET}" in server.heads[-1]
        yield response(f'{{"customer": {{"plan": "{SECRET if target.endswith("odd") else "gold"}"}}}}', status[0])

    status = ["200 OK"]
    with web(answer) as server:
        file = tmp_path / "lookups.yaml"
        patient = FILE.replace("PT5S", "PT60S").replace("PT1S", "PT30S")
        file.write_text(patient.replace("https://crm.example", server.origin))
        monkeypatch.setenv("DESK_URL", desk(tmp_path / f"{SECRET}.db", ("HC-1", 38, 1), ("odd", "x", 1)))
        monkeypatch.setenv("CRM_AUTHORIZATION", f"Bearer {SECRET}")
        with LocalAuthority.from_pack(pack, tmp_path / "a.db", lookups=file) as authority:
            yield authority, server
            status[0] = f"500 {SECRET}"


def test_a_decision_on_facts_from_both(everything: tuple[LocalAuthority, Web]) -> None:
    authority, server = everything
    assert authority.decide("refund", entity_id="HC-1", evidence=TOPIC)["status"] == "decided"
    assert server.targets == ["/v1/tickets/HC-1"]


@pytest.mark.parametrize("case", ["HC-1", "HC-9", "odd", "..", "' OR 1=1 --", "a/b?c#d", "é"])
def test_no_secret_is_in_an_answer_a_log_or_a_record(
    everything: tuple[LocalAuthority, Web], case: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    authority, server = everything
    decision = authority.decide("refund", entity_id=case, evidence=TOPIC)
    server.close()
    after: list[Any] = [
        authority.decide("refund", entity_id=f"{case}2", evidence=TOPIC),
        authority.describe_job("refund"),
        authority.verify(decision["executionId"]),
    ]
    assert after[0]["problems"] == ["lookup_failed"]
    said = repr(after) + repr(decision) + caplog.text + repr([vars(each) for each in caplog.records])
    assert SECRET not in said
    if case != "odd":  # that one's plan is the word itself
        assert SECRET.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("a.db*"))
