"""A pack's text → plain data and its places: `wire.yaml_text`, with errors of the pack's own."""

from typing import Any

from preaction.wire.places import Path, PlacedError
from preaction.wire.yaml_text import MAX_CHARS, Places
from preaction.wire.yaml_text import read_yaml as read_any_yaml

__all__ = ["MAX_CHARS", "PackError", "Path", "Places", "read_yaml"]


class PackError(PlacedError):
    """A pack can't be released; `problems` has the line and column (from 1) of each error, up to 100."""


def read_yaml(text: str) -> tuple[Any, Places]:
    """The data of one YAML document and its places, or `PackError`."""
    return read_any_yaml(text, "a pack", PackError)
