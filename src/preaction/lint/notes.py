"""1 · Note: one thing found, at a path of the rules file. `CODES` are all there are, with how bad each is."""

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from preaction._core.denied import quote
from preaction._core.rule import squash

Severity: TypeAlias = Literal["error", "warning", "hint"]

CODES: Final[dict[str, Severity]] = {
    # by itself
    "writes-or-outcomes": "error",
    "no-outcome": "error",
    "entity-not-listed": "error",
    "checked-field-not-listed": "error",
    "two-outputs": "error",
    "no-recipient": "error",
    "field-refused": "error",
    "open-field": "warning",
    "text-not-checked": "warning",
    "recipient-not-listed": "warning",
    "recipients-unlimited": "warning",
    "output-not-named": "warning",
    "shared-domain": "warning",
    "not-enforced": "warning",
    "test-mode": "hint",
    "no-decision-tool": "hint",
    "no-output-check-tool": "hint",
    # against the release
    "unknown-job": "error",
    "unknown-release": "error",
    "release-not-current": "error",
    "unknown-output": "error",
    "output-never-allowed": "error",
    "unknown-outcome": "error",
    "checked-fields-differ": "error",
    "text-never-checked": "error",
    "company-without-recipients": "error",
    "text-seldom-checked": "warning",
    "case-not-named": "warning",
    "age-without-effect": "hint",
    # against the tools
    "unknown-tool": "error",
    "destructive-tool-without-rule": "error",
    "entity-not-in-tool": "error",
    "entity-no-id": "error",
    "checked-field-not-in-tool": "error",
    "checked-field-no-text": "error",
    "fixed-not-in-tool": "error",
    "fixed-not-taken": "error",
    "needed-field-not-listed": "error",
    "look-alike-tool": "warning",
    "acting-tool-without-rule": "warning",
    "field-not-in-tool": "warning",
    "field-holds-more": "warning",
    "read-only-doubted": "hint",
    "default-left-open": "hint",
}
"""Code → severity. An error lets no call through that should go, or one that should not; a hint is to be looked at."""


@dataclass(frozen=True, slots=True)
class Note:
    """One thing found, at `path` in the file: what is wrong, and what to do. `key` is for the name, not its value."""

    code: str
    path: tuple[str | int, ...]
    problem: str
    remedy: str
    key: bool = False


def near(name: str, names: Collection[str]) -> str | None:
    """The one of `names` that was probably meant: the same letters, else the closest spelling, else one around it."""
    others = sorted({*names} - {name})
    same = [other for other in others if squash(other) == squash(name)]
    close = difflib.get_close_matches(name, others, 1, 0.6)
    around = [other for other in others if len(name) > 3 and squash(name) in squash(other)]
    return next(iter((*same, *close, *around)), None)


def instead(name: str, names: Collection[str], otherwise: str) -> str:
    """What to do about a name that isn't there: the near one, else `otherwise`, with what there is."""
    meant = near(name, names)
    if meant is not None:
        return f"write {quote(meant)}"
    return f"{otherwise}; there is {listed(names)}"


def listed(names: Collection[str]) -> str:
    """Names in words, in order, at most eight of them."""
    shown = [quote(name) for name in sorted(names)]
    if not shown:
        return "none"
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
