"""1 · What comes in: the model's proposal, the caller's identity (never the model's: P4), and the ceilings."""

from dataclasses import dataclass, fields
from typing import Final

from preaction.errors import ConfigurationError

MAX_KEY: Final = 255
"""Characters of an idempotency key (P8)."""


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """What the model wants. `arguments`: raw JSON as text or bytes, or a mapping that was parsed already.

    `idempotency_key` may only come from trusted code: 1 to 255 characters, anything else raises `ValueError`. It is
    handed on as it is to the tool and to `reconcile`, so it has to tell tenants apart where the system behind does not.
    """

    id: str
    name: str
    arguments: object = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        key: object = self.idempotency_key
        if key is not None and not (isinstance(key, str) and len(key) <= MAX_KEY and is_text(key)):
            raise ValueError(f"idempotency_key: 1 to {MAX_KEY} characters are needed, and never fewer or cut ones")


@dataclass(frozen=True, slots=True)
class TrustedContext:
    """Who is asking, as the authenticated session says. Nothing of it comes from the model.

    `request_id` names what the person asked for once, and stays the same when it is tried again; `run_id` names one run
    of the agent's loop, which `Limits.repairs` and `Limits.calls_per_run` count over. `session_id` is the gate's.
    """

    subject: str
    tenant: str
    request_id: str
    run_id: str
    roles: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    policy_version: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The ceilings (P12). Sizes in bytes of UTF-8 JSON, times in seconds; `repairs` per run and tool, and may be 0."""

    argument_bytes: int = 16_384
    repairs: int = 2
    calls_per_run: int = 100
    execution_s: float = 30
    result_bytes: int = 262_144
    confirmation_s: float = 900

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name == "repairs" else 1e-9
            whole = isinstance(value, int) or field.name.endswith("_s")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not whole or not least <= value < 1e9:
                raise ConfigurationError(f"limits.{field.name}: {value!r} is no such limit")


def is_text(value: object) -> bool:
    """Whether `value` is a text with something in it that UTF-8 can write."""
    if not isinstance(value, str) or not value.strip():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_attributable(call: object, context: object) -> bool:
    """Whether a proposal says who asks for what, in which request and run: without that nothing is asked."""
    if not isinstance(call, ProposedCall) or not isinstance(context, TrustedContext):
        return False
    return all(map(is_text, (call.id, context.subject, context.tenant, context.request_id, context.run_id)))
