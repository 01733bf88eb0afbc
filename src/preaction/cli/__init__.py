"""The command line: `preaction serve`, `preaction pack check`, `preaction keys create`. One module per command."""

import os
import sys


def main() -> None:
    """Run the command that the arguments name."""
    if len(sys.argv) > 1:  # else the shell asks how to complete a line; left set, it would keep a hook from answering
        os.environ.pop("_PREACTION_COMPLETE", None)
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        sys.stderr.write("preaction: the command line needs more packages: pip install 'preaction[cli]'\n")
        sys.exit(2)
    from preaction.cli.app import app

    app()
