"""Logs as lines of JSON: one for each request, and one for each warning. No values of requests, and no traces."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from preaction.authority.server.watch import Seen
from preaction.wire.times import write_time

_REQUESTS: Final = logging.getLogger("preaction.requests")


class JsonLines(logging.Formatter):
    """A record as one line: `time`, `level`, `logger`, `message`, or what a request's record brings instead."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a trace: it would hold values."""
        said = {"time": write_time(datetime.fromtimestamp(record.created, UTC)), "level": record.levelname.lower()}
        noted = record.__dict__.get("request")
        said |= noted if noted is not None else {"logger": record.name, "message": record.getMessage()}
        return json.dumps(said, ensure_ascii=False)


def log_as_json(stream: TextIO | None = None) -> None:
    """Let all that this process logs, from warnings on, and each request go to `stream` (stderr) as lines of JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.raiseExceptions = False  # what can't be written isn't, and no trace takes its place
    _REQUESTS.setLevel(logging.INFO)


def log_request(seen: Seen) -> None:
    """One request as a record. `ms` is the time until the last byte was handed over; `status` 0: nobody waited."""
    noted = {
        "method": seen.method,
        "route": seen.route,
        "status": seen.status,
        "ms": round(seen.seconds * 1000, 2),
        "keyId": seen.key_id,
        "executionId": seen.execution_id,
    }
    _REQUESTS.info("request", extra={"request": noted})
