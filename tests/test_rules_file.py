"""Rules files: the same gate from YAML, TOML and JSON; every error at its line and column; no key in a file."""

import json
import sys
import tomllib
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import REPLY, SESSION, decided, reply
from preaction import ActionGate, ConfigurationError, ToolRule, create_action_gate
from preaction._core.facts import Memory, Recall
from preaction.audit import AuditTrail
from preaction.audit.reading import record_of
from preaction.audit.replaying import differences, own_book, replay_record
from preaction.rules_file import CALLABLES, MAX_BYTES, RulesFileError, RulesInFile, json_schema, read_rules_file
from preaction.stores import Slot
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority
from preaction.wire.places import PlacedError, json_marks, toml_marks
from preaction.wire.yaml_text import read_yaml
from redis_server import PASSWORD, RedisServer

YAML = """\
origin: https://authority.example
agent_key_env: HELPDESK_KEY
job: triage-ticket
decision_tool: felspar__get_job_decision
output_check_tool: felspar__check_output
tools:
  helpdesk__reply:
    writes: billing-team-reply
    entity: {field: ticketId}
    fields: [ticketId, body]
    output_check: {fields: [body]}
    fixed: {public: false}
unlisted: deny
max_decision_age: PT1H30M
deadline_s: 2
"""

TOML = """\
origin = "https://authority.example"
agent_key_env = 'HELPDESK_KEY'
job = "triage-ticket"
decision_tool = "felspar__get_job_decision"
output_check_tool = "felspar__check_output"
unlisted = "deny"
max_decision_age = "PT1H30M"
deadline_s = 2

[tools.helpdesk__reply]  # what it may do
writes = "billing-team-reply"
entity = {field = "ticketId"}
fields = [
    "ticketId",
    "body",
]
output_check.fields = ["body"]
fixed.public = false
"""

JSON = json.dumps({"$schema": "gate.schema.json", **tomllib.loads(TOML)}, indent=2)

TEXTS = {"yaml": YAML, "yml": YAML, "toml": TOML, "json": JSON, "JSON": JSON}
ENVIRON = {"HELPDESK_KEY": "fsp_agent_1"}


def written(folder: Path, text: str | bytes, suffix: str = "yaml") -> Path:
    path = folder / f"gate.{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(folder: Path, text: str | bytes, suffix: str = "yaml", **options: Any) -> list[tuple[int, int, str]]:
    """What is wrong with a file, each with its place."""
    path = written(folder, text, suffix)
    with pytest.raises(RulesFileError) as caught:
        ActionGate.from_file(path, environ=ENVIRON, **options)
    assert str(caught.value).startswith(f"{path}:")
    return [(each.line, each.column, each.detail) for each in caught.value.problems]


# ---------------------------------------------------------------- what is read


@pytest.mark.parametrize("suffix", TEXTS)
def test_the_same_gate_comes_from_every_form(tmp_path: Path, suffix: str) -> None:
    file = read_rules_file(written(tmp_path, TEXTS[suffix], suffix))
    options = file.options(ENVIRON, {})
    assert all(callable(options.pop(name)) for name in CALLABLES)
    rule = options.pop("tools")["helpdesk__reply"]
    assert ToolRule(**rule.model_dump(exclude_unset=True)) == ToolRule(
        writes="billing-team-reply",
        entity={"field": "ticketId"},
        fields=["ticketId", "body"],
        output_check={"fields": ["body"]},
        fixed={"public": False},
    )
    assert options == {
        "job": "triage-ticket",
        "decision_tool": "felspar__get_job_decision",
        "output_check_tool": "felspar__check_output",
        "unlisted": "deny",
        "max_decision_age": timedelta(hours=1, minutes=30),
        "deadline_s": 2,
    }
    gate = ActionGate.from_file(file.file, environ=ENVIRON)
    assert (gate.problems, gate.warnings, gate.time_limit_s) == ((), (), 3.0)


def test_a_gate_of_a_file_decides_as_one_of_the_same_options(tmp_path: Path) -> None:
    authority = FakeAuthority()
    functions = dict.fromkeys(CALLABLES, authority)
    gate = ActionGate.from_file(written(tmp_path, YAML), environ={}, clock=authority.clock, **functions)
    decided(gate, authority)
    assert gate.check(SESSION, "helpdesk__reply", reply(public=False)).allow
    assert gate.check(SESSION, "helpdesk__reply", reply()).code == "field_value_not_allowed"
    assert gate.check(SESSION, "other", {}).code == "tool_not_listed"


EVERY_KEY: dict[str, Any] = {
    "writes": "billing-team-reply",
    "outcomes": ["billing-question"],  # beside `writes` a flaw, and recorded all the same
    "entity": {"field": "ticketId"},
    "fields": ["ticketId", "body", "to", "subject", "cc", "public"],
    "output_check": {"fields": ["body"], "output": "billing-team-reply"},
    "recipients": ["to"],
    "recipients_at": ["acme.example"],
    "subject": "subject",
    "null_only": ["cc"],
    "fixed": {"public": False},
    "once": "case",
    "unchecked": ["subject"],
}


@pytest.mark.parametrize("key", [None, *(key for key in EVERY_KEY if key != "fields")])
def test_a_gate_of_a_file_records_its_rules_as_one_of_the_same_options(tmp_path: Path, key: str | None) -> None:
    assert EVERY_KEY.keys() == ToolRule.model_fields.keys()
    rule = {name: value for name, value in EVERY_KEY.items() if name != key}
    options: dict[str, Any] = {"job": "triage-ticket", "tools": {"helpdesk__reply": rule}}
    recorded = list[dict[str, Any]]()
    more: dict[str, Any] = {"clock": lambda: datetime(2026, 11, 3, tzinfo=UTC), "audit": AuditTrail(recorded.append)}
    more |= dict.fromkeys(CALLABLES, FakeAuthority())
    ActionGate.from_file(written(tmp_path, json.dumps(options), "json"), environ={}, **more).check(SESSION, REPLY, {})
    create_action_gate(**options, **more).check(SESSION, REPLY, {})
    of_file, of_options = (each["rules"] for each in recorded)
    assert of_file == of_options
    assert own_book(record_of(recorded[0])).rules[REPLY].source == ToolRule(**rule)


def test_what_a_gate_of_a_file_allowed_is_judged_again(tmp_path: Path) -> None:
    authority, recorded = FakeAuthority(), list[dict[str, Any]]()
    functions = dict.fromkeys(CALLABLES, authority)
    audit = AuditTrail(recorded.append)
    path = written(tmp_path, YAML)
    gate = ActionGate.from_file(path, environ={}, clock=authority.clock, audit=audit, **functions)
    decided(gate, authority)
    assert gate.check(SESSION, "helpdesk__reply", reply(public=False)).allow
    [record] = map(record_of, recorded)
    assert differences(record, replay_record(record)) == []


def test_every_option_that_is_no_function_has_its_key_and_its_default(tmp_path: Path) -> None:
    import inspect

    parameters = inspect.signature(create_action_gate).parameters
    functions = (*CALLABLES, "on_verdict", "audit", "telemetry", "clock", "unknown")
    keys = {name for name in parameters if name not in functions}
    assert keys == RulesInFile.model_fields.keys() - {"origin", "agent_key_env", "audit"}
    for name in keys - {"job", "tools"}:
        default = RulesInFile.model_fields[name].default
        assert (tuple(default) if isinstance(default, list) else default) == parameters[name].default


def test_all_keys_at_once(tmp_path: Path) -> None:
    text = f"{YAML}releases: ['2026-11-03.1']\nrefuse_fields: [attachmentUrl]\ntest_recipients: [t@acme.example]\n"
    text += "mode: observe\nown_suffixes: [corp]\nshared_domains: [shared.example]\nmax_clock_skew_s: 10\n"
    gate = ActionGate.from_file(written(tmp_path, text), environ=ENVIRON)
    verdict = gate.check(SESSION, "helpdesk__reply", {"attachmentUrl": 1})
    assert (verdict.code, verdict.enforced) == ("field_refused", False)


def test_a_store_stands_beside_the_file_and_is_made_only_where_none_is_given(tmp_path: Path) -> None:
    path = written(tmp_path, YAML + "store: {sqlite: kept/sessions.db}\n")
    own = MemoryStore()
    assert read_rules_file(path).options(ENVIRON, {"store": own})["store"] is own
    (problem,) = problems(tmp_path, YAML + "store: {sqlite: kept/sessions.db}\n")
    assert problem[:2] == (16, 17)
    assert problem[2].startswith(f"{tmp_path}/kept/sessions.db can't be a store: ")
    (tmp_path / "kept").mkdir()
    gates = [ActionGate.from_file(path, environ=ENVIRON) for _ in range(2)]
    gates[0].decisions.record(SESSION, result=FakeAuthority().decide("HC-1201"))
    assert (tmp_path / "kept" / "sessions.db").is_file()
    found = gates[1]._sessions.answer(SESSION, Recall("triage-ticket", (), whole=True))
    assert isinstance(found, Memory)
    assert [known.case_id for known in found.first] == ["HC-1201"]


def test_a_store_in_redis_takes_its_url_from_the_environment(tmp_path: Path, redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    text = f"{YAML}store: {{redis_env: REDIS_URL, prefix: {prefix}}}\n"
    environ = {**ENVIRON, "REDIS_URL": redis_server.url}
    path = written(tmp_path, text)
    stores = [read_rules_file(path).options(environ, {})["store"] for _ in range(2)]
    stores[0].put(SESSION, [Slot("g", "a", "value")])
    assert stores[1].read(SESSION, "g") == [("a", "value")]
    with redis_server.client() as client:
        assert client.exists(f"{{{prefix}}}:marker")
    for store in stores:
        store.close()
    away = {**ENVIRON, "REDIS_URL": f"redis://:{PASSWORD}@127.0.0.1:1"}
    for environ, why in (
        (ENVIRON, "is not set, or empty"),
        ({**ENVIRON, "REDIS_URL": ""}, "is not set, or empty"),
        ({**ENVIRON, "REDIS_URL": f"https://:{PASSWORD}@h"}, "the URL of Redis is"),
        (away, "Redis can't be asked: ConnectionError"),
    ):
        with pytest.raises(RulesFileError) as refused:
            read_rules_file(path).options(environ, {})
        (problem,) = refused.value.problems
        assert (problem.line, problem.column) == (16, 20)
        assert why in str(refused.value)
        assert PASSWORD not in str(refused.value)


def test_windows_line_ends_and_explicit_nulls(tmp_path: Path) -> None:
    assert problems(tmp_path, YAML.replace("\n", "\r\n") + "jobb: 1\r\n")[0][:2] == (16, 1)
    assert ActionGate.from_file(written(tmp_path, YAML + "releases: null\n"), environ=ENVIRON)


# ---------------------------------------------------------------- keys and overrides


def test_the_key_comes_from_the_environment_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, YAML)
    monkeypatch.delenv("HELPDESK_KEY", raising=False)
    with pytest.raises(RulesFileError, match=r":2:16: the environment variable that is named here is not set"):
        ActionGate.from_file(path)
    monkeypatch.setenv("HELPDESK_KEY", "fsp_agent_1")
    assert ActionGate.from_file(path).problems == ()


def test_a_key_never_stands_in_the_file_and_is_never_shown(tmp_path: Path) -> None:
    for line in ("agent_key: sk-very-secret", "agentKey: sk-very-secret"):
        assert problems(tmp_path, YAML + line) == [
            (16, 1, "a key never stands in the file: name its environment variable in 'agent_key_env'")
        ]
    found = problems(tmp_path, YAML.replace("HELPDESK_KEY", "sk-very-secret"))
    assert found == [(2, 16, "the name of an environment variable is needed, never the key itself")]


def test_a_key_that_cannot_travel_is_told_at_its_variable(tmp_path: Path) -> None:
    path = written(tmp_path, YAML)
    with pytest.raises(RulesFileError, match=r":2:16: agent_key: needs a text of visible ASCII") as caught:
        ActionGate.from_file(path, environ={"HELPDESK_KEY": "sk very\nsecret"})
    assert "secret" not in str(caught.value)


def test_what_is_missing_to_ask_an_authority(tmp_path: Path) -> None:
    without_origin = YAML.replace("origin: https://authority.example\n", "")
    without_key = YAML.replace("agent_key_env: HELPDESK_KEY\n", "")
    assert problems(tmp_path, without_origin) == [(1, 1, "'origin' is needed: where the authority is")]
    assert problems(tmp_path, without_key)[0][2].startswith("'agent_key_env' is needed")
    assert problems(tmp_path, without_key, verify=FakeAuthority())
    path = written(tmp_path, without_origin)
    given: dict[str, Any] = {"origin": "https://other.example", "agent_key": "fsp_agent_2"}
    assert ActionGate.from_file(path, environ={}, **given).problems == ()
    with pytest.raises(RulesFileError, match="origin: needs the form"):
        ActionGate.from_file(path, environ={}, **{**given, "origin": "ftp://x"})


def test_functions_of_ones_own_need_no_origin(tmp_path: Path) -> None:
    authority = FakeAuthority()
    text = YAML.replace("origin: https://authority.example\n", "").replace("agent_key_env: HELPDESK_KEY\n", "")
    gate = ActionGate.from_file(written(tmp_path, text), verify=authority, describe=authority)
    assert "verify_output_check" in gate.problems[0]
    path = written(tmp_path, YAML.replace("agent_key_env: HELPDESK_KEY\n", ""))
    with pytest.raises(RulesFileError, match="'agent_key_env' is needed"):  # the origin is to confirm output checks
        ActionGate.from_file(path, verify=authority, describe=authority)


def test_overrides_go_before_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, YAML)
    seen: list[str] = []
    gate = ActionGate.from_file(path, environ=ENVIRON, unlisted="allow", on_verdict=lambda tool, _: seen.append(tool))
    assert gate.check(SESSION, "other", {}).code == "not_gated"
    gate.check(SESSION, "helpdesk__reply", {})
    assert seen == ["helpdesk__reply"]
    with pytest.raises(RulesFileError, match=r":1:1: unknown option: nonsense"):
        ActionGate.from_file(path, environ=ENVIRON, nonsense=1)


# ---------------------------------------------------------------- what is refused, and where


@pytest.mark.parametrize(
    ("old", "new", "place", "detail"),
    [
        ("unlisted: deny", "unlistet: deny", (13, 1), "unknown key 'unlistet'; did you mean 'unlisted'?"),
        ("unlisted: deny", "Zzz: deny", (13, 1), "unknown key 'Zzz'"),
        ("unlisted: deny", "unlisted: perhaps", (13, 11), "Input should be 'allow' or 'deny'"),
        ("    output_check:", "    outputCheck:", (11, 5), "unknown key 'outputCheck'; did you mean 'output_check'?"),
        ("{field: ticketId}", "{feld: ticketId}", (9, 14), "unknown key 'feld'; did you mean 'field'?"),
        ("{field: ticketId}", "{feld: ticketId}", (9, 13), "'field' is needed"),
        ("{field: ticketId}", "ticketId", (9, 13), "a mapping is needed"),
        ("{fields: [body]}", "{fields: [body], more: 1}", (11, 36), "unknown key 'more'"),
        ("{fields: [body]}", "{fields: []}", (11, 28), "Tuple should have at least 1 item after validation, not 0"),
        ("[ticketId, body]", "[ticketId, 7]", (10, 24), "Input should be a valid string"),
        ("[ticketId, body]", "[ticketId, a..b]", (10, 13), "'a..b' is no field name"),
        ("job: triage-ticket\n", "", (1, 1), "'job' is needed"),
        ("job: triage-ticket", "job: ' x'", (3, 6), "' x' is not a name"),
        ("  helpdesk__reply:", "  hélpdesk:", (7, 3), "the tool name 'hélpdesk' must be ASCII"),
        ("https://authority.example", "http://a.example", (1, 9), "origin: http is for loopback only"),
        ("PT1H30M", "90 minutes", (14, 19), "an ISO 8601 duration above zero is needed, such as PT24H or P2D"),
        ("PT1H30M", "PT0S", (14, 19), "an ISO 8601 duration above zero"),
        ("PT1H30M", "P99999D", (14, 19), "below a hundred years"),
        ("PT1H30M", "7", (14, 19), "an ISO 8601 duration above zero"),
        ("deadline_s: 2", "deadline_s: 0", (15, 13), "Input should be greater than 0"),
        ("deadline_s: 2", "deadline_s: '2'", (15, 13), "Input should be a valid number"),
        ("deadline_s: 2", "releases: []", (15, 11), "List should have at least 1 item after validation, not 0"),
        ("deadline_s: 2", "releases: 1.2", (15, 11), "Input should be a valid list"),
        ("deadline_s: 2", "test_recipients: ['A <a@b.example>']", (15, 19), "is not one plain address"),
        ("deadline_s: 2", "job: again", (15, 1), "the key 'job' is repeated"),
        ("deadline_s: 2", "store: sessions.db", (15, 8), "a mapping is needed"),
        ("deadline_s: 2", "store: {}", (15, 8), "either 'sqlite' or 'redis_env' is needed"),
        ("deadline_s: 2", "store: {sqlite: a.db, redis_env: A}", (15, 8), "either 'sqlite' or 'redis_env' is needed"),
        ("deadline_s: 2", "store: {sqlite: a.db, prefix: a}", (15, 8), "'prefix' is for 'redis_env'"),
        ("deadline_s: 2", "store: {redis_env: 'redis://:pw@h'}", (15, 20), "the name of an environment variable"),
        ("deadline_s: 2", "store: {redis_env: A, prefix: 'a b'}", (15, 31), "String should match pattern"),
        ("deadline_s: 2", "store: {sqlite: null, redis_env: A}", (15, 17), "Input should be a valid string"),
        ("deadline_s: 2", "store: {redis: a.db}", (15, 9), "unknown key 'redis'"),
        ("deadline_s: 2", "store: {sqllite: a.db}", (15, 9), "unknown key 'sqllite'; did you mean 'sqlite'?"),
        ("felspar__check_output", "helpdesk__reply", (5, 20), "can't be gated by the decisions that it makes"),
        ("felspar__check_output", "felspar__get_job_decision", (5, 20), "the decision tool can't be"),
        ("{public: false}", "{public: &x false}", (12, 21), "anchors"),
        ("{public: false}", "{'public[].x': 1}", (12, 12), "'public[].x'"),
    ],
)  # fmt: skip
def test_an_error_stands_at_its_place(tmp_path: Path, old: str, new: str, place: tuple[int, int], detail: str) -> None:
    assert YAML.count(old) == 1
    found = problems(tmp_path, YAML.replace(old, new))
    assert any((line, column) == place and detail in what for line, column, what in found), found


def test_all_errors_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = YAML.replace("deny", "maybe").replace("writes:", "wries:").replace("deadline_s: 2", "deadline_s: -1")
    assert [each[:2] for each in problems(tmp_path, text)] == [(8, 5), (13, 11), (15, 13)]
    rules = YAML.replace(
        "unlisted: deny\n", "  more:\n    fields: ['b..c']\n  third:\n    fields: [x]\n    recipients_at: ['@']\n"
    ).replace("[ticketId, body]", "['a..b']")
    assert [each[:2] for each in problems(tmp_path, rules)] == [(10, 13), (14, 13), (17, 20)]


@pytest.mark.parametrize(
    ("suffix", "text", "place", "detail"),
    [
        ("toml", TOML.replace('"deny"', '"maybe"'), (6, 12), "'allow' or 'deny'"),
        ("toml", TOML.replace('    "body",', "    7,"), (15, 5), "valid string"),
        ("toml", TOML.replace("output_check.fields", "output_check.feelds"), (17, 14), "did you mean 'fields'"),
        ("toml", TOML.replace("field =", "feld ="), (12, 11), "unknown key 'feld'"),
        ("toml", TOML.replace("helpdesk__reply]", '"a b".x]'), (10, 14), "unknown key 'x'"),
        ("toml", TOML.replace("[tools.helpdesk__reply]", "[[tools.helpdesk__reply]]"), (10, 1), "a mapping is needed"),
        ("toml", TOML.replace("job =", "origin =", 1), (3, 25), "not TOML: Cannot overwrite a value"),
        ("toml", TOML + "fixed.when = 1979-05-27 07:32:00\n", (19, 14), "datetime"),
        ("toml", TOML + "fixed.size = nan\n", (19, 14), "finite"),
        ("toml", "a = " + "[" * 3000, (1, 1), "not TOML"),
        ("json", JSON.replace('"deny"', '"maybe"'), (8, 15), "'allow' or 'deny'"),
        ("json", JSON.replace('"writes"', '"wries"'), (13, 7), "unknown key 'wries'; did you mean 'writes'?"),
        ("json", JSON.replace('"job"', '"origin"'), (5, 3), "the key 'origin' is repeated"),
        ("json", JSON.replace("2,", "2,,", 1), (10, 19), "not strict JSON"),
        ("json", JSON.replace(": 2,", ": NaN,", 1), (10, 17), "not strict JSON"),
        ("json", "", (1, 1), "not strict JSON"),
        ("json", "[" * 500 + "]" * 500, (1, 202), "recursion"),
        ("json", "[1]", (1, 1), "a mapping is needed"),
        ("yaml", "", (1, 1), "the rules file is empty"),
        ("yaml", "- 1", (1, 1), "a mapping is needed"),
        ("yaml", "a: [", (1, 5), "expected the node content"),
        ("yaml", b"a: \xff", (1, 1), "not valid UTF-8"),
        ("yaml", "#" * (MAX_BYTES + 1), (1, 1), f"at most {MAX_BYTES} bytes"),
    ],
)
def test_each_form_has_its_own_places(
    tmp_path: Path, suffix: str, text: str, place: tuple[int, int], detail: str
) -> None:
    found = problems(tmp_path, text, suffix)
    assert any((line, column) == place and detail in what for line, column, what in found), found


@pytest.mark.parametrize("name", ["gate.ini", "gate", "none.yaml", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "gate.ini").write_text("")
    with pytest.raises(ConfigurationError, match=r"gate|none|test_a_file"):
        ActionGate.from_file(tmp_path / name)


def test_yaml_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    monkeypatch.delitem(sys.modules, "preaction.wire.yaml_text", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'preaction\[rules\]'"):
        ActionGate.from_file(written(tmp_path, YAML), environ=ENVIRON)
    assert ActionGate.from_file(written(tmp_path, TOML, "toml"), environ=ENVIRON)


# ---------------------------------------------------------------- the schema


WRITES_OTHER_SCHEMAS = tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 14)


@pytest.mark.skipif(WRITES_OTHER_SCHEMAS, reason="published by pydantic 2.14; older ones write others")
def test_the_published_schema_is_that_of_the_models(repository: Path) -> None:
    assert published_schema(repository) == json_schema(), "run make schema"


def published_schema(repository: Path) -> Any:
    return json.loads((repository / "docs/gate.schema.json").read_text("utf-8"))


BAD_STORES: list[Any] = [
    {},
    {"prefix": "a"},
    {"sqlite": ""},
    {"sqlite": "a.db", "redis_env": "A"},
    {"sqlite": "a.db", "prefix": "a"},
    {"redis_env": "redis://:pw@host"},
    {"redis_env": "A", "prefix": "a b"},
    {"redis_env": None},
]


@pytest.mark.parametrize("store", BAD_STORES)
def test_a_store_that_the_schema_refuses_the_reader_refuses(tmp_path: Path, store: object) -> None:
    assert problems(tmp_path, f"{YAML}store: {json.dumps(store)}\n")


def test_the_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses(repository: Path) -> None:
    published = published_schema(repository)
    jsonschema_rs.meta.validate(published)
    validator = jsonschema_rs.validator_for(published)
    good = json.loads(JSON)
    assert validator.is_valid(good)
    changes: list[dict[str, Any]] = [
        {"jobb": 1},
        {"job": 1},
        {"tools": {"a": {"fields": ["x"], "nullOnly": []}}},
        {"unlisted": "x"},
        {"deadline_s": 0},
        {"releases": []},
        {"agent_key_env": "sk-secret"},
        *[{"store": store} for store in BAD_STORES],
    ]
    for change in changes:
        assert not validator.is_valid({**good, **change}), change
    for store in ({"sqlite": "a.db"}, {"redis_env": "REDIS_URL"}, {"redis_env": "A", "prefix": "a"}):
        assert validator.is_valid({**good, "store": store}), store
        assert RulesInFile.model_validate(
            {name: value for name, value in good.items() if name != "$schema"} | {"store": store}
        )
    assert not validator.is_valid({name: value for name, value in good.items() if name != "job"})


# ---------------------------------------------------------------- places


def paths(value: Any, path: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path}.union(*(paths(each, (*path, key)) for key, each in inner))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 2]))
def test_every_part_of_any_json_has_its_place(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    marks = json_marks(text)
    assert marks.values.keys() == paths(value)
    assert not marks.repeated
    for path, offset in marks.values.items():
        part = value
        for step in path:
            part = part[step]
        assert json.JSONDecoder().raw_decode(text, offset)[0] == part


def test_every_part_of_a_toml_text_has_its_place() -> None:
    text = '''\
a = 1979-05-27 07:32:00
b.c = """one " two
""""
"d.e" = {f = [1, {g = 'x'}], h.i = true} # c = 2
[[t]]
n = 1
[[t]]
n = 2
[t.u]
n = 3
[[t.v]]
'w' = """"quoted""""
[x.y]
'''
    value, marks = tomllib.loads(text), toml_marks(text)
    assert marks.values.keys() == paths(value)
    lines = {path: marks.problem(path, "").line for path in marks.values}
    assert (lines[("b", "c")], lines[("t", 0, "n")], lines[("t", 1, "n")]) == (2, 6, 8)
    assert (lines[("t", 1, "u", "n")], lines[("t", 1, "v", 0, "w")]) == (10, 12)
    assert marks.problem(("d.e", "f", 1, "g"), "").column == text.splitlines()[3].index("'x'") + 1
    assert marks.problem(("d.e", "f"), "", key=True).column == text.splitlines()[3].index("f =") + 1
    assert marks.problem(("nowhere", "at all"), "", key=True).line == 1


def test_a_text_without_any_place_is_wrong_at_its_start() -> None:
    error = PlacedError([json_marks("{}").problem(("a",), "b")])
    assert str(error) == "1:1: b"


def test_a_place_inside_a_text_with_escapes_is_its_start() -> None:
    _, places = read_yaml("a: 'it''s'\nb: plain\n")
    assert [places.problem_inside((key,), "", 2).column for key in ("a", "b")] == [4, 6]
