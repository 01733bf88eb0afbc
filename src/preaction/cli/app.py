"""The commands put together. Each imports what it needs when it runs, so that `--help` needs no server."""

import inspect
import re
from collections.abc import Callable

import typer

from preaction.cli import (
    audit_chain,
    audit_verify,
    backtest,
    check,
    conformance,
    explain,
    hook,
    init,
    keys_create,
    keys_revoke,
    keys_rotate,
    lint,
    mcp,
    pack_check,
    pack_diff,
    proxy,
    replay,
    report,
    retain,
    serve,
    verify,
    watch,
)
from preaction.cli.exit_codes import in_words
from preaction.cli.failing import Command

app = typer.Typer(
    name="preaction",
    help="The gate in front of a tool that acts, and its embedded authority.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
GROUPS = {
    "audit": "Work on the audit of the tool pipeline or of a gate.",
    "pack": "Work on packs.",
    "keys": "Work on keys.",
}
COMMANDS: dict[str, Callable[..., None]] = {
    "init": init.init,
    "lint": lint.lint,
    "check": check.check,
    "explain": explain.explain,
    "watch": watch.watch,
    "replay": replay.replay,
    "backtest": backtest.backtest,
    "report": report.report,
    "serve": serve.serve,
    "proxy": proxy.proxy,
    "mcp": mcp.mcp,
    "conformance": conformance.conformance,
    "hook": hook.hook,
    "retain": retain.retain,
    "verify": verify.verify,
    "audit-chain": audit_chain.audit_chain,
    "audit verify": audit_verify.verify,
    "pack check": pack_check.check,
    "pack diff": pack_diff.diff,
    "keys create": keys_create.create,
    "keys revoke": keys_revoke.revoke,
    "keys rotate": keys_rotate.rotate,
}


def _help(run: Callable[..., None]) -> str:
    """A docstring in paragraphs, in which brackets are brackets and no markup."""
    text = re.sub(r"(\[[a-z#/@])", r"\\\1", inspect.getdoc(run) or "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _add_commands() -> None:
    groups = {name: typer.Typer(help=words, no_args_is_help=True) for name, words in GROUPS.items()}
    for words, run in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        (groups[group] if group else app).command(name, cls=Command, help=_help(run), epilog=in_words(words))(run)
    for name, group_app in groups.items():
        app.add_typer(group_app, name=name)


_add_commands()
