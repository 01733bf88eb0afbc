"""The commands put together. Each imports what it needs when it runs, so that `--help` needs no server."""

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

app = typer.Typer(
    name="preaction",
    help="The gate in front of a tool that acts, and its embedded authority.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
audit = typer.Typer(help="Work on the audit of the tool pipeline or of a gate.", no_args_is_help=True)
pack = typer.Typer(help="Work on packs.", no_args_is_help=True)
keys = typer.Typer(help="Work on keys.", no_args_is_help=True)

app.command("init")(init.init)
app.command("lint")(lint.lint)
app.command("check")(check.check)
app.command("explain")(explain.explain)
app.command("replay")(replay.replay)
app.command("backtest")(backtest.backtest)
app.command("watch")(watch.watch)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("proxy")(proxy.proxy)
app.command("mcp")(mcp.mcp)
app.command("conformance")(conformance.conformance)
app.command("hook")(hook.hook)
app.command("retain")(retain.retain)
app.command("verify")(verify.verify)
app.command("audit-chain")(audit_chain.audit_chain)
audit.command("verify")(audit_verify.verify)
pack.command("check")(pack_check.check)
pack.command("diff")(pack_diff.diff)
keys.command("create")(keys_create.create)
keys.command("revoke")(keys_revoke.revoke)
keys.command("rotate")(keys_rotate.rotate)
app.add_typer(audit, name="audit")
app.add_typer(pack, name="pack")
app.add_typer(keys, name="keys")
