"""Validated arguments as JSON: nothing that a body gets is left out."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import PydanticSerializationError, to_jsonable_python

from preaction.adapters._plain import plain


class Line(BaseModel, extra="allow"):
    text: str
    hidden: str = Field("", exclude=True)


class Lines(RootModel[list[Line]]):
    pass


@dataclass
class Data:
    line: Line


@pydantic_dataclass
class Hides:
    text: str
    hidden: str = Field("", exclude=True)


class Colour(StrEnum):
    RED = "red"


LINE, SEEN = Line(text="a", hidden="b"), {"text": "a", "hidden": "b"}


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (LINE, SEEN),
        (Line.model_validate({"text": "a", "more": 1}), {"text": "a", "hidden": "", "more": 1}),
        (Lines([LINE]), [SEEN]),
        (Data(LINE), {"line": SEEN}),
        (Hides("a", "b"), SEEN),
        ({"a": [LINE, (LINE,)]}, {"a": [SEEN, [SEEN]]}),
        (Colour.RED, "red"),
        (date(2026, 12, 1), "2026-12-01"),
        (datetime(2026, 12, 1, tzinfo=UTC), "2026-12-01T00:00:00Z"),
        *((same, same) for same in ("a", 1, 1.5, True, None)),
    ],
)
def test_every_field_is_seen(value: Any, seen: Any) -> None:
    assert plain(value) == seen


def test_a_dump_would_leave_fields_out() -> None:
    assert to_jsonable_python([LINE, Hides("a", "b")]) == [{"text": "a"}, {"text": "a"}]


@pytest.mark.parametrize("value", [object(), Data, [object()]])
def test_what_has_no_form_in_json_raises(value: Any) -> None:
    with pytest.raises(PydanticSerializationError):
        plain(value)
