"""2 · ToolRule: what a tool may do, as its developer writes it. Nothing unknown, empty or of a wrong type gets in."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError
from pydantic.alias_generators import to_camel

from preaction.errors import ConfigurationError

Name = Annotated[StrictStr, Field(min_length=1, pattern=r"^\S(.*\S)?$")]
Names = Annotated[tuple[Name, ...], Field(strict=False)]


class _Config(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
        loc_by_alias=False,
    )


class EntityField(_Config):
    """The field of the call that names the case."""

    field: Name


class TextCheck(_Config):
    """The fields whose text must be what an output check passed; `output` names the kind, for rules with outcomes."""

    fields: Annotated[Names, Field(min_length=1)]
    output: Name | None = None


class ToolRule(_Config):
    """What one tool may do. Keys are read in snake_case and camelCase; anything unknown raises `ConfigurationError`.

    Exactly one of `writes` (an output that the released pack must list under the decided outcome) and `outcomes` (the
    outcomes that let this tool act) is set; every other key narrows: the call sets only `fields`, is about the case in
    `entity` or the one that the job's subject tells, and carries the text that an output check passed. The page on
    rules has all keys.
    """

    writes: Name | None = None
    outcomes: Names | None = None
    entity: EntityField | None = None
    fields: Names
    output_check: TextCheck | None = None
    recipients: Names | None = None
    recipients_at: Names | None = None
    subject: Name = "subject"
    null_only: Names = ()
    fixed: Annotated[dict[Name, Any], Field(strict=True)] = {}
    once: Literal["decision", "case"] | None = None
    unchecked: Names = ()

    if TYPE_CHECKING:
        pass  # the signature is that of the fields
    else:

        def __init__(self, /, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:  # pydantic takes any ValueError out of a validator for its own
                raise ConfigurationError(_explained(error)) from None


def _explained(error: ValidationError) -> str:
    lines = []
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one["loc"]).lstrip(".")
        what = "unknown key" if one["type"] == "extra_forbidden" else one["msg"]
        lines.append(f"{place}: {what}")
    return "; ".join(lines)
