"""`preaction hook`: the gate for Claude Code's settings hooks. One process for each event."""

import json
import os
import shlex
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from preaction.cli.failing import fail, say, told

if TYPE_CHECKING:
    from preaction.gate import ActionGate
    from preaction.rules_file import RulesFile
    from preaction.stores import Store

MAX_BYTES: Final = 64 * 1024 * 1024
LIMIT_S: Final = 45.0
"""Below the time-out in the settings: a hook that the CLI has to end is taken for no opinion."""


def hook(
    rules: Annotated[Path, typer.Option(help="The rules file, which must name a store: gate.yaml, .toml or .json.")],
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the hooks for Claude Code's settings file, and end.")
    ] = False,
) -> None:
    """Answer one event of Claude Code, from stdin. Any failure blocks the call, with the reason on stderr."""
    if print_config:
        from preaction.adapters.claude_code_hook import settings

        with told(str(rules)):
            _read(rules)
        command = [shutil.which("preaction") or "preaction", "hook", "--rules", str(rules.resolve())]
        say(json.dumps(settings(shlex.join(command)), indent=2))
        return
    watch = threading.Timer(LIMIT_S, _too_late)
    watch.daemon = True
    watch.start()
    try:
        from preaction.adapters.claude_code_hook import answer

        with told(str(rules)):
            answered = answer(*_gate(rules), _event())
    except typer.Exit:
        raise
    except ImportError as error:  # it says what to install
        fail(f"preaction: {error}")
    except Exception as error:  # noqa: BLE001
        fail(f"preaction: the hook failed, and nothing was done: {type(error).__name__}")
    finally:
        watch.cancel()
    if answered is not None:
        say(json.dumps(answered))


def _gate(rules: Path) -> "tuple[ActionGate, Store]":
    """The gate of the rules file, and its store."""
    from preaction.gate import create_action_gate

    file = _read(rules)
    options = file.options(None, {})
    with file.placed():
        return create_action_gate(**options), options["store"]


def _read(rules: Path) -> "RulesFile":
    from preaction.errors import ConfigurationError
    from preaction.rules_file import read_rules_file

    file = read_rules_file(rules)
    if file.given.store is None:
        raise ConfigurationError(
            f"{rules}: the hook needs a store, since each event is a process: store: {{sqlite: …}} or {{redis_env: …}}"
        )
    return file


def _event() -> dict[str, Any]:
    from preaction.errors import MisuseError

    text = sys.stdin.buffer.read(MAX_BYTES + 1)
    given = json.loads(text) if len(text) <= MAX_BYTES else None
    if not isinstance(given, dict):
        raise MisuseError("the event on stdin is no object, or too large")
    return given


def _too_late() -> NoReturn:
    sys.stderr.write("preaction: the hook did not come to an end in time, and nothing was done\n")
    sys.stderr.flush()
    os._exit(2)
