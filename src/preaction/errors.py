"""Exceptions, by who must act on them. A denial is a value (`Verdict`) until something has to be stopped.

PreactionError
├── ConfigurationError   the developer: an option, a rule, an origin or a pack that can't be right; raised at creation
├── MisuseError          the developer: a call of ours that contradicts itself, such as recording for another job
├── InvalidJSON          whoever sent it: a text that isn't strict JSON, or an answer that isn't of the wire's shape
├── AuthorityError       the operator: the authority could not be asked, or refused
├── StoreUnavailable     the operator: the store of sessions can't be asked, or no longer holds what it was told
├── RecordMismatch       the auditor: a recorded decision is not one on this call under these rules
├── SessionFull          the operator: a session, or the store of uses, is at its bound and takes no more
└── ActionDenied         the agent: a guarded call was denied; defined beside `Verdict`, which it carries

No message holds a key, a header or a body that came over the network.
"""

__all__ = [
    "AuthorityError",
    "ConfigurationError",
    "InvalidJSON",
    "MisuseError",
    "PreactionError",
    "RecordMismatch",
    "SessionFull",
    "StoreUnavailable",
]


class PreactionError(Exception):
    """Any error that this package raises on purpose."""


class ConfigurationError(PreactionError, ValueError):
    """An option or a rule can't be right. The message names the place, such as `tools.reply.fields[1]`."""


class MisuseError(PreactionError):
    """The caller contradicted itself; nothing was recorded and nothing was done."""


class InvalidJSON(PreactionError, ValueError):
    """Not strict JSON, or JSON of another shape than the one needed. The message names the place."""


class AuthorityError(PreactionError):
    """The authority gave no answer that can be used.

    `kind` is one of `timeout`, `connection`, `redirect`, `status`, `too_large`, `not_json`, `wrong_shape`,
    `invalid_id`, `closed`; `status` is the HTTP status when there was one. `problem` is the authority's own
    `title` and `errors` for a request that it refused (4xx), for the developer who sent it.
    """

    def __init__(
        self, message: str, *, kind: str, status: int | None = None, problem: dict[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.problem = problem


class SessionFull(PreactionError):
    """A session or a store is at its bound. What it could not take is not known, so its calls are denied."""


class StoreUnavailable(PreactionError):
    """A store can't be asked, or lost what it held. What was asked of it may or may not have been done."""


class RecordMismatch(PreactionError):
    """A record does not hold what the decision asks for: another call, other rules, or it was altered."""
