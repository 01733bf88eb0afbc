"""The key `audit` of a rules file: where the gate's records go."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from preaction.audit.trail import AuditTrail
from preaction.errors import ConfigurationError

_Name = Annotated[str, Field(strict=True, min_length=1)]


class AuditInFile(BaseModel):
    """A file with a record of every verdict, chained. A call whose record it doesn't take is denied, if `required`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    jsonl: Annotated[_Name, Field(description="A file on this machine, from the rules file's folder.")]
    key_env: Annotated[
        str,
        Field(
            strict=True,
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
            description="The environment variable that holds the chain's key, 32 bytes at least.",
        ),
    ] | None = None  # fmt: skip
    daily: Annotated[bool, Field(strict=True, description="A new file for each day in UTC.")] = False
    max_bytes: (
        Annotated[int, Field(strict=True, gt=0, description="A new file before this one gets larger.")] | None
    ) = None
    keep: Annotated[list[_Name], Field(description="Fields of a call whose values a record may hold.")] = []
    arguments: Annotated[
        Literal["redacted", "whole"], Field(description="whole: a record holds every value, texts among them.")
    ] = "redacted"
    required: Annotated[bool, Field(strict=True, description="Whether a call without its record is denied.")] = True


def trail_in(folder: Path, given: AuditInFile, key: str | None) -> AuditTrail:
    """The trail that a rules file in `folder` describes; `ConfigurationError` where it can't be."""
    try:
        from preaction.audit.jsonl_audit import JsonlAudit
    except ImportError:
        raise ConfigurationError("audit: it needs one more package: pip install 'preaction[pipeline]'") from None
    path = os.fspath(folder / given.jsonl)
    sink = JsonlAudit(path, max_bytes=given.max_bytes, daily=given.daily, key=key)
    return AuditTrail(sink, keep=given.keep, arguments=given.arguments, required=given.required)
