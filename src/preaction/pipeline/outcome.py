"""What comes out: a disposition, a stable code, and the only text that goes to the model.

The words are ours and fixed: no argument, object, policy or error of the system behind is in them (P6, P10).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

Disposition: TypeAlias = Literal["execute", "repair", "ask", "confirm", "deny"]

Code: TypeAlias = Literal[
    "executed",
    "replayed",
    "unknown_tool",
    "invalid_json",
    "arguments_too_large",
    "invalid_arguments",
    "repairs_exhausted",
    "not_visible",
    "not_authorized",
    "gate_denied",
    "values_unknown",
    "needs_confirmation",
    "confirmation_expired",
    "in_progress",
    "outcome_unknown",
    "key_conflict",
    "tool_error",
    "tool_failed",
    "timed_out",
    "result_invalid",
    "result_too_large",
    "limit_reached",
    "audit_failed",
    "internal",
]

_DISPOSITIONS: Final[dict[Code, Disposition]] = {
    **dict.fromkeys(("executed", "replayed", "result_invalid", "result_too_large"), "execute"),
    **dict.fromkeys(("unknown_tool", "invalid_json", "arguments_too_large", "invalid_arguments"), "repair"),
    "tool_error": "repair",
    "values_unknown": "ask",
    "needs_confirmation": "confirm",
    "confirmation_expired": "confirm",
}

TEXTS: Final[dict[Code, str]] = {
    "executed": "Done.",
    "replayed": "Done already, by the same call before; it was not done again.",
    "unknown_tool": "Not executed, nothing was done: there is no tool of that name. Choose an available tool.",
    "invalid_json": "Not executed, nothing was done: the arguments are not valid JSON. Send one complete JSON object.",
    "arguments_too_large": "Not executed, nothing was done: the arguments are too large. Send fewer or shorter values.",
    "invalid_arguments": "Not executed, nothing was done: the arguments don't fit the tool's schema.",
    "repairs_exhausted": "Not executed, nothing was done: too many calls of this tool were wrong. Don't try it again.",
    "not_visible": "Not executed, nothing was done: no such object is available here.",
    "not_authorized": "Not executed, nothing was done: this action is not allowed.",
    "gate_denied": "Not executed, nothing was done: the gate denied this action.",
    "values_unknown": "Not executed, nothing was done: values are missing that only the user can give. Ask the user.",
    "needs_confirmation": "Not executed yet, nothing was done: a person has to confirm this first.",
    "confirmation_expired": "Not executed yet, nothing was done: the confirmation is over, a new one is needed.",
    "in_progress": "Not executed again: the same action is in progress. Don't repeat it.",
    "outcome_unknown": "It is not known whether this was done. Don't repeat it; a person has to look.",
    "key_conflict": "Not executed, nothing was done: this request's key belongs to another action.",
    "tool_error": "Not executed, nothing was done.",
    "tool_failed": "The tool failed. Nothing can be said about why.",
    "timed_out": "The tool did not answer in time.",
    "result_invalid": "Done, but the result can't be shown. Don't repeat it.",
    "result_too_large": "Done, but the result is too large to be shown. Don't repeat it.",
    "limit_reached": "Not executed, nothing was done: this run has made too many calls.",
    "audit_failed": "Not executed, nothing was done: the action could not be recorded.",
    "internal": "Not executed, nothing was done: the call could not be handled.",
}


def disposition_of(code: Code) -> Disposition:
    """What a loop does with this code; everything that isn't listed as something else is a denial."""
    return _DISPOSITIONS.get(code, "deny")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a person is asked to confirm: `summary` for them, `digest` of the exact command, until when."""

    id: str
    summary: str
    digest: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a proposal. `disposition` "execute" means that the act is done, now or (`replayed`) before.

    `for_model` is the only text that may go to the model. `result` is what the tool gave as plain JSON, validated and
    sanitised, and None unless it ran and its result could be read.
    """

    disposition: Disposition
    code: Code
    for_model: str
    result: Any = None
    confirmation: Confirmation | None = None
    idempotency_key: str | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a step ended the way of a proposal. `text` is for the model; `detail` for the record, never for the model."""

    code: Code
    text: str = ""
    detail: str | None = None
    result: Any = None
    confirmation: Confirmation | None = None

    def for_model(self) -> str:
        """The text, or that of the code."""
        return self.text or TEXTS[self.code]
