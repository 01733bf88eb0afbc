"""`check_action`: the same checks without a session, for a nightly job or a script (G37)."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from preaction._core.tool_rule import ToolRule
from preaction._core.verdict import Verdict
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate, create_action_gate
from preaction.stores import Store
from preaction.stores.memory import MemoryStore

SESSION = "check_action"


def check_action(
    rule: ToolRule | Mapping[str, Any],
    args: Mapping[str, Any],
    *,
    decision: object,
    output_checks: Sequence[object] = (),
    job: str,
    tool: str = "action",
    store: Store | None = None,
    **options: Any,
) -> Verdict:
    """The verdict on one action under `rule`, by this `decision` and these `output_checks` of the authority.

    `verify`, `describe` and the other `options` are those of `create_action_gate`. A rule with `once` keeps its use in
    `store`, and raises `ConfigurationError` without one.
    """
    return _gate(rule, decision, output_checks, job, tool, store, options).check(SESSION, tool, args)


async def acheck_action(
    rule: ToolRule | Mapping[str, Any],
    args: Mapping[str, Any],
    *,
    decision: object,
    output_checks: Sequence[object] = (),
    job: str,
    tool: str = "action",
    store: Store | None = None,
    **options: Any,
) -> Verdict:
    """As `check_action`, from an event loop."""
    return await _gate(rule, decision, output_checks, job, tool, store, options).acheck(SESSION, tool, args)


class _OneCall(MemoryStore):
    """Records for one call only; uses are kept in the store of the caller."""

    def __init__(self, uses: Store) -> None:
        super().__init__()
        self._uses = uses

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """See `Store.claim`."""
        return self._uses.claim(name, keep, take=take)


def _gate(
    rule: ToolRule | Mapping[str, Any],
    decision: object,
    output_checks: Sequence[object],
    job: str,
    tool: str,
    store: Store | None,
    options: Mapping[str, Any],
) -> ActionGate:
    records = MemoryStore() if store is None else _OneCall(store)
    gate = create_action_gate(job=job, tools={tool: rule}, store=records, **options)
    if store is None and gate.acts_once(tool):
        raise ConfigurationError("store: a rule with 'once' needs one that outlives the script, to keep its use in")
    gate.decisions.record(SESSION, result=decision)
    for check in output_checks:
        gate.output_checks.record(SESSION, check)
    return gate
