"""What a command reads whole: a file, or stdin for `-`, never more of it than it needs."""

import sys
from pathlib import Path

from preaction.errors import ConfigurationError


def read_bytes(path: Path, limit: int) -> bytes:
    """All of it; `ConfigurationError` for what can't be read or has more than `limit` bytes."""
    piped = str(path) == "-"
    name = "stdin" if piped else path.name
    try:
        if piped:
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with path.open("rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise ConfigurationError(f"{name} can't be read: {error.strerror}") from None
    if len(data) > limit:
        raise ConfigurationError(f"{name} is too large: at most {limit} bytes are read")
    return data
