"""The operator's file of look-ups, outside any pack: `lookups.yaml` → look-ups made ready.

It holds no secret: a URL with a password, and the values of headers, come from the environment by the name that the
file gives. Every error has its line and column, and repeats no value that could be a secret.
"""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, StringConstraints, ValidationError, model_validator

from preaction.authority.facts.lookups import DEADLINE, Lookup, Lookups, Settings
from preaction.authority.facts.lookups_http import HttpLookup
from preaction.authority.facts.lookups_sql import SqlLookup, read_url
from preaction.authority.packs.pack import Duration, Identifier, Name, PackModel, Words
from preaction.authority.packs.yaml_text import Places, shape_errors
from preaction.errors import ConfigurationError
from preaction.wire.places import PlacedError
from preaction.wire.yaml_text import read_yaml

Source: TypeAlias = str | Path | Mapping[str, Any] | Lookups | None
"""A file's path; its content as data, or look-ups that are ready, by name; what `read_lookups` gives; or none."""

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_SECRET: Final = re.compile("pass|pwd|secret|token", re.IGNORECASE)
_LONGEST: Final = timedelta(seconds=60)


class LookupsError(PlacedError):
    """A file of look-ups can't be right. `problems` has the line and column (from 1) of each error, up to 100."""


class SqlInFile(PackModel):
    """One query over one database. The URL stands here without a password, or in the environment."""

    url: Words | None = None
    url_env: Variable | None = None
    query: Words
    columns: dict[Identifier, Words] = Field(default={})

    def ready(self, environment: Mapping[str, str], _folder: Path) -> Lookup:
        """The look-up, or `ConfigurationError`."""
        if (self.url is None) == (self.url_env is None):
            raise ConfigurationError("one of url and url_env is needed")
        url = self.url or _from(environment, self.url_env or "", "url_env")
        if self.url is not None:
            read = read_url(self.url)
            if read.password is not None or any(_SECRET.search(name) for name in read.query):
                raise ConfigurationError("url: a password doesn't stand in this file; name a variable in url_env")
        return SqlLookup(url, self.query, columns=self.columns)


class FromEnvironment(PackModel):
    """A value that stands in the environment, by the name of its variable."""

    env: Variable


class HttpInFile(PackModel):
    """One GET. The values of headers stand in the environment; `ca` is a path, from where this file is."""

    url: Words
    headers: dict[Words, FromEnvironment] = Field(default={})
    values: dict[Identifier, Annotated[str, StringConstraints(max_length=2000)]] = Field(default={})
    ca: Words | None = None

    def ready(self, environment: Mapping[str, str], folder: Path) -> Lookup:
        """The look-up, or `ConfigurationError`."""
        headers = {name: _from(environment, value.env, f"headers.{name}") for name, value in self.headers.items()}
        ca = None if self.ca is None else folder / self.ca
        return HttpLookup(self.url, values=self.values, headers=headers, ca=ca)


class LookupInFile(PackModel):
    """One look-up, of exactly one kind."""

    sql: SqlInFile | None = None
    http: HttpInFile | None = None
    timeout: Duration | None = None
    cache: Duration | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "LookupInFile":
        if (self.sql is None) == (self.http is None):
            raise ValueError("one of sql and http is needed")
        return self


class LookupsFile(PackModel):
    """All look-ups by name, and the deadline for all those of one decision together."""

    deadline: Duration = DEADLINE
    lookups: Annotated[dict[Name, LookupInFile], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _soon(self) -> "LookupsFile":
        if self.deadline > _LONGEST:
            raise ValueError("a deadline of at most PT60S is needed: whoever asks for a decision waits for it")
        return self


def read_lookups(source: Source, environment: Mapping[str, str] | None = None) -> Lookups:
    """Make look-ups ready. `LookupsError` with the line and column of each error, or `ConfigurationError`.

    `environment` is where the file's variables are read from, `os.environ` when it is None.
    """
    if isinstance(source, Lookups):
        return source
    if source is None:
        return Lookups({})
    if isinstance(source, Mapping):
        if all(isinstance(getattr(each, "needs", None), frozenset) for each in source.values()):
            return Lookups(source)
        return _ready(source, Places(), None, os.environ if environment is None else environment)
    file = Path(source)
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"the lookups {file.name} are not valid UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file has such a name"
        raise ConfigurationError(f"the lookups {file.name} can't be read: {why}") from None
    try:
        data, places = read_yaml(text, "a lookups file", LookupsError)
    except LookupsError as error:
        raise LookupsError(error.problems, file.name) from None
    return _ready(data, places, file, os.environ if environment is None else environment)


def _ready(data: Any, places: Places, file: Path | None, environment: Mapping[str, str]) -> Lookups:
    def wrong(errors: Sequence[tuple[Sequence[str | int], str, bool]]) -> ConfigurationError:
        if file is not None:
            return LookupsError([places.problem(path, detail, key=key) for path, detail, key in errors], file.name)
        told = (f"{'.'.join(map(str, path)) or 'lookups'}: {detail}" for path, detail, _ in errors)
        return ConfigurationError("\n".join(told))

    try:
        read = LookupsFile.model_validate(data)
    except ValidationError as error:
        raise wrong(list(shape_errors(error))) from None
    folder = Path() if file is None else file.parent
    ready: dict[str, Lookup] = {}
    errors: list[tuple[Sequence[str | int], str, bool]] = []
    for name, each in read.lookups.items():
        try:
            kind = each.sql or each.http
            assert kind is not None  # noqa: S101 - for the type checker; the model has made sure
            ready[name] = kind.ready(environment, folder)
        except ConfigurationError as error:
            place, _, _ = str(error).partition(":")
            errors.append((("lookups", name, "http" if each.http else "sql", *place.split(".")), str(error), False))
    if errors:
        for lookup in ready.values():
            lookup.close()
        raise wrong(errors)
    settings = {name: Settings(each.timeout, each.cache) for name, each in read.lookups.items()}
    return Lookups(ready, deadline=read.deadline, settings=settings)


def _from(environment: Mapping[str, str], name: str, place: str) -> str:
    try:
        return environment[name]
    except KeyError:
        raise ConfigurationError(f"{place}: the environment variable {name} isn't set") from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **LookupsFile.model_json_schema(),
        "title": "lookups.yaml of preaction serve",
    }
