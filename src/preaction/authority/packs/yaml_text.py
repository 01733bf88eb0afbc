"""A pack's text → plain data and its places: `wire.yaml_text`, with errors of the pack's own."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from preaction.wire.places import Path, PlacedError
from preaction.wire.yaml_text import MAX_CHARS, Places
from preaction.wire.yaml_text import read_yaml as read_any_yaml

__all__ = ["MAX_CHARS", "PackError", "Path", "Places", "read_yaml", "shape_errors"]


class PackError(PlacedError):
    """A pack can't be released; `problems` has the line and column (from 1) of each error, up to 100."""


def read_yaml(text: str) -> tuple[Any, Places]:
    """The data of one YAML document and its places, or `PackError`."""
    return read_any_yaml(text, "a pack", PackError)


def shape_errors(error: ValidationError) -> Iterator[tuple[list[str | int], str, bool]]:
    """Each error of a shape: its path, what is wrong in words without the value, and whether it is about the name."""
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        unknown = each["type"] == "extra_forbidden" or each["loc"][-1:] == ("[key]",)
        path = [part for part in each["loc"] if part != "[key]"]
        if each["type"] == "extra_forbidden":
            detail = f"{path[-1]!r} is not known here"
        elif each["type"] == "missing":
            detail = f"{path[-1]!r} is needed here"
        else:
            detail = each["msg"].removeprefix("Value error, ")
        yield path, detail, unknown
