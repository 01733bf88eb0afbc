"""A gate's rules as a file: `gate.yaml`, `gate.toml` or `gate.json` → the options of `create_action_gate`.

It holds everything but functions, and no key: those come from the environment, by the name that the file gives.
Every error has its line and column. The JSON Schema of the file is made from the models here.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from preaction._core.company import plain_address
from preaction._core.rule import read_rule
from preaction._core.tool_rule import EntityField, TextCheck, ToolRule
from preaction.audit.in_file import AuditInFile, trail_in
from preaction.audit.trail import AuditTrail
from preaction.errors import ConfigurationError
from preaction.options import MAX_AGE, name_of
from preaction.rest.origin import read_origin
from preaction.stores import Store
from preaction.wire.models import PackProblem
from preaction.wire.places import PlacedError, place_in, read_json, toml_marks

MAX_BYTES: Final = 128 * 1024
SCHEMA_ID: Final = "https://json-schema.org/draft/2020-12/schema"
CALLABLES: Final = ("verify", "describe", "verify_output_check")

_DURATION: Final = re.compile(r"P(?=.)(\d{1,5}D)?(T(?=\d)(\d{1,6}H)?(\d{1,8}M)?(\d{1,9}S)?)?", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLACE: Final = re.compile(r"(?P<path>[a-z_]+(?:\.[a-z_]+|\[[0-9]+\])*): (?P<detail>.*)", re.DOTALL)


class RulesFileError(PlacedError):
    """A rules file can't be right. `problems` has the line and column (from 1) of each error, up to 100."""


_A_FILE: Final[dict[str, Any]] = {"required": ["sqlite"], "not": {"required": ["prefix"]}}
_UNSET: Final = "the environment variable that is named here is not set, or empty"

# The models -----------------------------------------------------------------------------------------------------------


def _name(value: str) -> str:
    return name_of(value, "")


def _tool(value: str) -> str:
    return name_of(value, "", tool=True)


def _address(value: str) -> str:
    if plain_address(value) is None:
        raise ValueError(f"{value!r} is not one plain address")
    return value


def _origin(value: str) -> str:
    read_origin(value)
    return value


def _duration(value: object) -> object:
    if isinstance(value, str) and _DURATION.fullmatch(value) and re.search("[1-9]", value):
        return value
    raise ValueError("an ISO 8601 duration above zero is needed, such as PT24H or P2D")


def _below_a_century(value: timedelta) -> timedelta:
    if value < MAX_AGE:
        return value
    raise ValueError("a duration below a hundred years is needed")


def _variable(value: str) -> str:
    if _VARIABLE.fullmatch(value):
        return value
    raise ValueError("the name of an environment variable is needed, never the key itself")  # so it isn't quoted


Name = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_name)]
Tool = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_tool)]
Seconds = Annotated[float, Field(strict=True, gt=0, lt=1e9)]
_AS_WRITTEN: Final = ConfigDict(frozen=True, extra="forbid", validate_by_alias=False, alias_generator=None)


class EntityInFile(EntityField):
    """The field of the call that names the case."""

    model_config = _AS_WRITTEN


class TextInFile(TextCheck):
    """The fields whose text an output check must have passed; `output` names the kind, for rules with outcomes."""

    model_config = _AS_WRITTEN


class RuleInFile(ToolRule):
    """What one tool may do: see the page on rules. Keys are snake_case here."""

    model_config = _AS_WRITTEN

    entity: EntityInFile | None = None
    output_check: TextInFile | None = None

    __init__ = BaseModel.__init__  # its errors keep their places, which a `ConfigurationError` would lose


class StoreInFile(BaseModel):
    """Where sessions are kept, for several processes; without it, in the memory of each. One place is named."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra={"oneOf": [_A_FILE, {"required": ["redis_env"]}]}
    )

    sqlite: Annotated[
        str, Field(strict=True, min_length=1, description="A file on this machine, from the rules file's folder.")
    ] = ""
    redis_env: Annotated[
        str, Field(strict=True, description="The environment variable that holds the URL of a Redis or Valkey."),
        AfterValidator(_variable), WithJsonSchema({"type": "string", "pattern": f"^{_VARIABLE.pattern}$"}),
    ] = ""  # fmt: skip
    prefix: Annotated[
        str, Field(strict=True, pattern=r"^[A-Za-z0-9_.:-]{1,64}$", description="What keys in Redis begin with.")
    ] = "preaction"


def _one_place(store: StoreInFile) -> StoreInFile:
    if bool(store.sqlite) == bool(store.redis_env):
        raise ValueError("either 'sqlite' or 'redis_env' is needed")
    if store.sqlite and "prefix" in store.model_fields_set:
        raise ValueError("'prefix' is for 'redis_env'; a file needs none")
    return store


class RulesInFile(BaseModel):
    """A rules file: the options of a gate. `agent_key_env` names the environment variable that holds the key."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="A gate's rules (preaction)")

    origin: Annotated[
        str, Field(strict=True, description="Where the authority is: https://host, or http on loopback."),
        AfterValidator(_origin),
    ] | None = None  # fmt: skip
    agent_key_env: Annotated[
        str, Field(strict=True, description="The environment variable that holds the agent key."),
        AfterValidator(_variable), WithJsonSchema({"type": "string", "pattern": f"^{_VARIABLE.pattern}$"}),
    ] | None = None  # fmt: skip
    job: Annotated[Name, Field(description="The one kind of decision that this gate goes by.")]
    decision_tool: Annotated[Tool, Field(description="The authority's decision tool, by its exact name.")] | None = None
    output_check_tool: (
        Annotated[Tool, Field(description="The authority's output-check tool, by its exact name.")] | None
    ) = None
    tools: Annotated[dict[Tool, RuleInFile], Field(description="The tools that act, each with its rule.")]
    releases: Annotated[list[Name], Field(min_length=1, description="Only these releases may allow.")] | None = None
    refuse_fields: Annotated[list[Name], Field(description="Fields that no tool may set, at any depth.")] = []
    test_recipients: (
        Annotated[
            list[Annotated[str, Field(strict=True), AfterValidator(_address)]],
            Field(description="Test mode: only these addresses. An empty list: nobody."),
        ]
        | None
    ) = None
    unlisted: Annotated[Literal["allow", "deny"], Field(description="What happens to a tool without a rule.")] = "allow"
    mode: Annotated[Literal["enforce", "observe"], Field(description="observe lets every call through.")] = "enforce"
    own_suffixes: Annotated[list[Name], Field(description="Top-level names of your own network.")] = []
    shared_domains: Annotated[list[Name], Field(description="Further domains that are never one company.")] = []
    max_decision_age: Annotated[
        timedelta, BeforeValidator(_duration), AfterValidator(_below_a_century),
        WithJsonSchema({"type": "string", "format": "duration", "description": "Older decisions don't count."}),
    ] = timedelta(hours=24)  # fmt: skip
    max_clock_skew_s: Annotated[Seconds, Field(description="How far the clocks may disagree, in seconds.")] = 300.0
    deadline_s: Annotated[Seconds, Field(description="How long a verdict may wait for the authority.")] = 5.0
    store: Annotated[StoreInFile, AfterValidator(_one_place)] | None = None
    audit: AuditInFile | None = None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a rules file, for editors. A `$schema` key in the file itself is let stand."""
    schema: dict[str, Any] = _bare(RulesInFile.model_json_schema())
    schema["properties"] = {"$schema": {"type": "string"}, **schema["properties"]}
    return {"$schema": SCHEMA_ID, **schema}


def _bare(part: Any) -> Any:
    """A part of the schema without titles and null defaults, which say nothing that isn't there already."""
    if isinstance(part, list):
        return [_bare(each) for each in part]
    if not isinstance(part, dict):
        return part
    spared = {"title"} if isinstance(part.get("title"), str) and part.keys() & {"type", "anyOf", "$ref"} else set()
    if part.get("default", 0) is None:
        spared.add("default")
    return {name: _bare(each) for name, each in part.items() if name not in spared}


# Reading --------------------------------------------------------------------------------------------------------------


class _Places(Protocol):
    def problem(self, path: Sequence[object], detail: str, *, key: bool = False) -> PackProblem: ...


@dataclass(frozen=True, slots=True)
class RulesFile:
    """A rules file that was read and is right by itself."""

    file: str
    given: RulesInFile
    places: _Places

    def options(self, environ: Mapping[str, str] | None, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """The options of `create_action_gate`. `overrides` go before what the file says.

        Callables that aren't given come from a client of `origin`, with the key that the environment holds; `origin`
        and `agent_key` may be given, too. `RulesFileError` for what is missing.
        """
        options = {
            name: getattr(self.given, name)
            for name in self.given.model_fields_set
            if name not in ("origin", "agent_key_env", "store", "audit")
        }
        own = {name: value for name, value in overrides.items() if name not in ("origin", "agent_key")}
        if not {"verify", "describe"} <= own.keys() or (self.given.origin and "verify_output_check" not in own):
            options |= self._asked(os.environ if environ is None else environ, overrides)
        if self.given.store is not None and "store" not in own:
            options["store"] = self._store(self.given.store, os.environ if environ is None else environ)
        if self.given.audit is not None and "audit" not in own:
            options["audit"] = self._audit(self.given.audit, os.environ if environ is None else environ)
        return options | own

    def _audit(self, given: AuditInFile, environ: Mapping[str, str]) -> AuditTrail:
        key = environ.get(given.key_env or "") or None
        if given.key_env and key is None:
            raise self._error(("audit", "key_env"), _UNSET)
        try:
            return trail_in(Path(self.file).parent, given, key)
        except ConfigurationError as error:
            raise self._error(("audit",), str(error).removeprefix("audit: ")) from None

    def _store(self, given: StoreInFile, environ: Mapping[str, str]) -> Store:
        url = environ.get(given.redis_env)
        if given.redis_env and not url:
            raise self._error(("store", "redis_env"), _UNSET)
        try:
            if url:
                from preaction.stores.redis import RedisStore

                return RedisStore(url, prefix=given.prefix)
            from preaction.stores.sqlite import SQLiteStore

            return SQLiteStore(Path(self.file).parent / given.sqlite)
        except ConfigurationError as error:
            place = ("store", "redis_env" if url else "sqlite")
            raise self._error(place, str(error).removeprefix("store: ")) from None

    def _asked(self, environ: Mapping[str, str], overrides: Mapping[str, Any]) -> dict[str, Any]:
        from preaction.rest.felspar import Felspar
        from preaction.rest.ports import felspar_job_describer, felspar_output_check_verifier, felspar_verifier

        origin = overrides.get("origin", self.given.origin)
        if origin is None:
            raise self._error((), "'origin' is needed: where the authority is")
        key, variable = overrides.get("agent_key"), self.given.agent_key_env
        if key is None and variable is None:
            raise self._error((), "'agent_key_env' is needed: the environment variable that holds the agent key")
        if key is None and not (key := environ.get(str(variable))):
            raise self._error(("agent_key_env",), _UNSET)
        try:
            felspar = Felspar(origin, key)
        except ConfigurationError as error:
            raise self._error(("origin" if str(error).startswith("origin") else "agent_key_env",), str(error)) from None
        asks = (felspar_verifier, felspar_job_describer, felspar_output_check_verifier)
        return {name: ask(felspar) for name, ask in zip(CALLABLES, asks, strict=True)}

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Around the creation of the gate: what it finds wrong gets its line and column."""
        try:
            yield
        except ConfigurationError as error:
            raise self._error(*_placed((), str(error))) from None

    def _error(self, path: Sequence[object], detail: str) -> RulesFileError:
        return RulesFileError([self.places.problem(path, detail)], self.file)


def read_rules_file(path: str | os.PathLike[str]) -> RulesFile:
    """Read `path` by its suffix (`.yaml`, `.yml`, `.toml`, `.json`), or raise `RulesFileError` with every error.

    A file that can't be read, or has another suffix, is a `ConfigurationError`. YAML needs `preaction[rules]`, and
    raises `ImportError` without it.
    """
    where = Path(path)
    reader = _READERS.get(where.suffix.lower())
    if reader is None:
        raise ConfigurationError(f"{where}: a rules file ends in .yaml, .yml, .toml or .json")
    try:
        with where.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{where}: it can't be read ({error.strerror})") from None
    try:
        if len(data) > MAX_BYTES:
            raise _at_start(f"a rules file has at most {MAX_BYTES} bytes")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise _at_start("the text is not valid UTF-8") from None
        content, places = reader(text.replace("\r\n", "\n"))
        if isinstance(content, dict) and isinstance(content.get("$schema"), str):
            del content["$schema"]
        return RulesFile(str(where), _validated(content, places), places)
    except PlacedError as error:
        raise RulesFileError(error.problems, str(where)) from None


def _at_start(detail: str, line: int = 1, column: int = 1) -> PlacedError:
    return PlacedError([PackProblem(line=line, column=column, detail=detail)])


def _read_yaml(text: str) -> tuple[Any, _Places]:
    try:
        from preaction.wire.yaml_text import read_yaml
    except ImportError:
        raise ImportError("rules in YAML need one more package: pip install 'preaction[rules]'") from None
    return read_yaml(text, "a rules file")


def _read_toml(text: str) -> tuple[Any, _Places]:
    try:
        return tomllib.loads(text), toml_marks(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        detail, line, column = place_in(str(error))
        raise _at_start(f"not TOML: {detail}", line, column) from None


_READERS: Final = {".yaml": _read_yaml, ".yml": _read_yaml, ".toml": _read_toml, ".json": read_json}


def _validated(content: object, places: _Places) -> RulesInFile:
    """The rules, once shape and every single rule are right; else all that is wrong, each at its place."""
    try:
        given = RulesInFile.model_validate(content)
    except ValidationError as error:
        raise PlacedError([_problem(one, places) for one in error.errors(include_url=False)]) from None
    problems = []
    for tool, rule in given.tools.items():
        try:
            read_rule(tool, rule)
        except ConfigurationError as error:
            path, detail = _placed(("tools", tool), str(error).removeprefix(f"tools.{tool}."))
            problems.append(places.problem(path, detail))
    if problems:
        raise PlacedError(problems)
    return given


def _problem(error: Any, places: _Places) -> PackProblem:
    path, kind = [part for part in error["loc"] if part != "[key]"], error["type"]
    if kind == "extra_forbidden":
        return places.problem(path, _unknown(path), key=True)
    if kind == "missing":
        return places.problem(path, f"{path[-1]!r} is needed")
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return places.problem(path, "a mapping is needed")
    detail = error["msg"].removeprefix("Value error, ").removeprefix(": ")
    return places.problem(path, detail, key="[key]" in error["loc"])


def _unknown(path: list[Any]) -> str:
    """What to say of a key that isn't known. A key of an authority is never a part of the file."""
    key = str(path[-1])
    if key in ("agent_key", "agentKey"):
        return "a key never stands in the file: name its environment variable in 'agent_key_env'"
    models: dict[int, type[BaseModel]] = {1: RulesInFile, 2: StoreInFile, 3: RuleInFile}
    model = models.get(len(path), EntityInFile if "entity" in path else TextInFile)
    near = difflib.get_close_matches(re.sub("([A-Z])", r"_\1", key).lower(), model.model_fields, 1)
    return f"unknown key {key[:80]!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _placed(path: tuple[str | int, ...], message: str) -> tuple[tuple[str | int, ...], str]:
    """The place that a message of ours names at its start, under `path`, and the rest of the message."""
    if (found := _PLACE.fullmatch(message)) is None:
        return path, message
    parts = re.findall(r"[a-z_]+|[0-9]+", found["path"])
    return (*path, *(int(part) if part.isdigit() else part for part in parts)), found["detail"]
