"""What has to be known of a job to try it: a request that decides, a text that passes, a text that doesn't."""

import json
import secrets
from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from preaction.errors import ConfigurationError, InvalidJSON
from preaction.wire.models import DecisionRequest, JobDescription
from preaction.wire.strict_json import loads

MAX_TRIES: Final = 16
"""Decisions that are made at most to find a request that decides, where no file gives one."""


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSample(_Given):
    """One job. What is left out is found by describing the job, where it can be; else its lines aren't checked."""

    request: Annotated[dict[str, Any] | None, Field(description="A decision's request, without entity_id.")] = None
    entity_id: Annotated[str | None, Field(description="A case that may be decided again; else new ones.")] = None
    output: Annotated[str | None, Field(description="An output that the outcome of the request lists.")] = None
    passes: Annotated[dict[str, str] | None, Field(description="Its fields, with texts that follow the rules.")] = None
    fails: Annotated[dict[str, str] | None, Field(description="The same, with texts that break a rule.")] = None


class Samples(_Given):
    """A file of samples, by job."""

    jobs: dict[str, JobSample] = {}


def read_samples(path: Path) -> Samples:
    """Read a `.json` or a `.yaml` file; `ConfigurationError` names what is wrong with it."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path.name} can't be read: it is not valid UTF-8") from None
    except OSError as error:
        raise ConfigurationError(f"{path.name} can't be read: {error.strerror}") from None
    try:
        samples = Samples.model_validate(loads(text) if path.suffix == ".json" else _yaml(text))
        for job, sample in samples.jobs.items():
            _check_request(job, sample)
    except InvalidJSON as error:
        raise ConfigurationError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{path}: {place or 'the file'}: {first['msg']}") from None
    return samples


def _check_request(job: str, sample: JobSample) -> None:
    if sample.request is not None:
        try:
            DecisionRequest.model_validate(sample.request)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise ConfigurationError(f"jobs.{job}.request.{place}: {first['msg']}") from None


def _yaml(text: str) -> Any:
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ModuleNotFoundError:
        raise ConfigurationError("a YAML file needs more packages: pip install 'preaction[rules]'") from None
    try:
        return json.loads(json.dumps(YAML(typ="safe", pure=True).load(text)))
    except (YAMLError, TypeError, ValueError) as error:
        raise ConfigurationError(f"not YAML of plain values: {str(error).splitlines()[0]}") from None


def new_case() -> str:
    """An id that no case of anybody's has; with letters in both cases."""
    return f"Conformance-{secrets.token_hex(8)}"


def requests(description: JobDescription) -> Iterator[dict[str, Any]]:
    """Requests that may decide, made up from what a description says of its facts: `MAX_TRIES` at most."""
    names = [name for name, schema in description.facts.items() if not _plain(schema).get("readOnly")]
    choices = [list(_values(_plain(description.facts[name]))) for name in names]
    for values in islice(product(*choices), MAX_TRIES):
        given = zip(names, values, strict=True)
        yield {"evidence": {name: {"value": value, "source": "human"} for name, value in given}}


def _plain(schema: object) -> Mapping[str, Any]:
    return schema if isinstance(schema, Mapping) else {}


def _values(schema: Mapping[str, Any]) -> Iterator[Any]:
    if isinstance(schema.get("enum"), list):
        yield from schema["enum"][:4]
        return
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    low = low if isinstance(low, int | float) else 0
    match schema.get("type"):
        case "boolean":
            yield from (True, False)
        case "integer":
            yield from (int(low) + 1, int(low) + 100_000)
        case "number":
            yield from (low + 1.5, low + 100_000.5)
        case "array":
            yield []
        case "object":
            yield {}
        case _:
            yield "conformance"


def wrong_value(schema: object) -> Any:
    """A value that a fact can't have, by its schema: of another type."""
    return 7 if _plain(schema).get("type") == "string" or "enum" in _plain(schema) else "conformance"
