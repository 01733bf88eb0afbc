"""The options that name a database, for every command that opens one. A URL may hold a password, so it may come from
the environment, where no list of processes shows it.
"""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

_URL = "Database URL: sqlite:///decisions.db or postgresql://user@host/name"

Db: TypeAlias = Annotated[str, typer.Option(envvar="PREACTION_DB", help=f"{_URL}.")]
DbOrBeside: TypeAlias = Annotated[
    str | None, typer.Option(envvar="PREACTION_DB", help=f"{_URL}; the default is a file beside the pack.")
]
SigningKey: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        envvar="PREACTION_SIGNING_KEY",
        help="The file of the database's signing key, made with a new database; beside SQLite's file by default.",
    ),
]
