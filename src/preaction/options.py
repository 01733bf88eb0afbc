"""The options of a gate, read into what decision and drivers go by. What can't be right raises, with its place."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from preaction._core.company import Address, plain_address
from preaction._core.facts import Source
from preaction._core.rule import Rule, RuleBook, read_rule, squash, wide_fold
from preaction._core.tool_rule import ToolRule
from preaction.domains import domains
from preaction.drive import CallableSource, Facts
from preaction.errors import ConfigurationError
from preaction.stores import Store

MAX_AGE = timedelta(days=36_500)


def read_book(
    *,
    job: str,
    tools: Mapping[str, ToolRule | Mapping[str, Any]],
    own_tools: frozenset[str] = frozenset(),
    releases: Sequence[str] | None,
    refuse_fields: Sequence[str],
    test_recipients: Sequence[str] | None,
    unlisted: str,
    own_suffixes: Sequence[str],
    shared_domains: Sequence[str],
    max_decision_age: timedelta,
    max_clock_skew_s: float,
) -> RuleBook:
    """The rule book of a gate."""
    if not isinstance(tools, Mapping):
        raise ConfigurationError("tools: a mapping from tool names to rules is needed")
    rules = {name_of(tool, "tools", tool=True): read_rule(tool, rule) for tool, rule in tools.items()}
    if unlisted not in ("allow", "deny"):
        raise ConfigurationError(f"unlisted: 'allow' or 'deny', not {unlisted!r}")
    pinned = None if releases is None else frozenset(names_of(releases, "releases"))
    if pinned is not None and not pinned:
        raise ConfigurationError("releases: empty, so no release may allow anything; None is for all releases")
    return RuleBook(
        job=name_of(job, "job"),
        rules=rules,
        squashed=frozenset(map(squash, rules)),
        releases=pinned,
        refused=frozenset(map(wide_fold, names_of(refuse_fields, "refuse_fields"))),
        test_recipients=None if test_recipients is None else _addresses(test_recipients),
        deny_unlisted=unlisted == "deny",
        own_tools=own_tools,
        domains=domains(names_of(own_suffixes, "own_suffixes"), names_of(shared_domains, "shared_domains")),
        max_decision_age=_positive(max_decision_age, "max_decision_age"),
        max_clock_skew=timedelta(seconds=seconds_of(max_clock_skew_s, "max_clock_skew_s")),
    )


def name_of(value: object, where: str, *, tool: bool = False) -> str:
    """`value` if it is a name: a string, not empty, on one line, without blanks around it; for tools in ASCII."""
    if not isinstance(value, str) or not value or value != value.strip() or not value.isprintable():
        raise ConfigurationError(f"{where}: {value!r} is not a name")
    if tool and not (value.isascii() and squash(value)):
        raise ConfigurationError(f"{where}: the tool name {value!r} must be ASCII and hold a letter or digit")
    return value


def names_of(values: object, where: str) -> list[str]:
    """`values` as names; a lone string is refused, since it would be read letter by letter."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{where}: a list of names is needed")
    return [name_of(value, f"{where}[{index}]") for index, value in enumerate(values)]


def seconds_of(value: object, where: str) -> float:
    """`value` as a number of seconds, finite and above zero."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9:
        return float(value)
    raise ConfigurationError(f"{where}: a number of seconds above 0 is needed")


def _positive(value: object, where: str) -> timedelta:
    if isinstance(value, timedelta) and timedelta(0) < value < MAX_AGE:
        return value
    raise ConfigurationError(f"{where}: a timedelta above 0 and below a hundred years is needed")


def _addresses(values: Sequence[str]) -> frozenset[Address]:
    found = []
    for index, text in enumerate(names_of(values, "test_recipients")):
        address = plain_address(text)
        if address is None:
            raise ConfigurationError(f"test_recipients[{index}]: {text!r} is not one plain address")
        found.append(address)
    return frozenset(found)


def is_enforced(mode: object) -> bool:
    """Whether verdicts are binding."""
    if mode not in ("enforce", "observe"):
        raise ConfigurationError(f"mode: 'enforce' or 'observe', not {mode!r}")
    return mode == "enforce"


def read_clock(clock: Any) -> Callable[[], datetime]:
    """The clock to go by, UTC by default. One without a zone is refused here rather than at the first call."""
    if clock is None:
        return lambda: datetime.now(UTC)
    try:
        now = clock() if callable(clock) else None
    except Exception as error:  # noqa: BLE001
        raise ConfigurationError(f"clock: it failed with {type(error).__name__}") from None
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise ConfigurationError("clock: a function is needed that gives an aware datetime")
    checked: Callable[[], datetime] = clock
    return checked


def read_store(store: object) -> Store:
    """`store` if it has every method of one."""
    if isinstance(store, Store) and not isinstance(store, type):
        return store
    raise ConfigurationError("store: an object with the methods of preaction.stores.Store is needed")


def read_on_verdict(on_verdict: object) -> Any:
    """`on_verdict` if it is a plain function or None; what must be awaited would never run (G40)."""
    if on_verdict is None:
        return None
    if not callable(on_verdict) or is_async(on_verdict):
        raise ConfigurationError("on_verdict: a plain function (tool, verdict) is needed, not a coroutine function")
    return on_verdict


def is_async(function: object) -> bool:
    """Whether calling `function` gives something to await: a coroutine function, or an object whose call is one."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@dataclass(frozen=True, slots=True)
class _NoSource:
    """Stands where no `verify_output_check` was given: no rule needs it, or its rule stands in `problems`."""

    keeps_deadline: bool = True

    def fetch(self, asks: Sequence[Any], deadline_s: float) -> Mapping[Any, object]:
        return {}

    async def afetch(self, asks: Sequence[Any], deadline_s: float) -> Mapping[Any, object]:
        return {}


def read_facts(verify: object, describe: object, verify_output_check: object) -> Facts:
    """Where the facts come from, from what was given for the three callables."""
    texts: Source = _NoSource() if verify_output_check is None else _source(verify_output_check, "verify_output_check")
    return Facts(_source(verify, "verify"), _source(describe, "describe"), texts)


def _source(given: Any, where: str) -> Source:
    """A shared source (a `Felspar` behind a port), a source of the user's own, or a callable as a one-kind source."""
    for source in (getattr(given, "source", None), given):
        if callable(getattr(source, "fetch", None)) and callable(getattr(source, "afetch", None)):
            return cast("Source", source)
    if not callable(given):
        raise ConfigurationError(f"{where}: a function, a coroutine function or an object with both is needed")
    if is_async(given):
        return CallableSource(None, given)
    acall = getattr(given, "acall", None)
    if acall is not None and not callable(acall):
        raise ConfigurationError(f"{where}: its acall is no coroutine function")
    return CallableSource(given, acall)


def problems_of(rules: Mapping[str, Rule], *, can_check_texts: bool) -> tuple[str, ...]:
    """Everything that keeps a rule from ever allowing, in words."""
    missing = "the rule checks a text, but the gate was given no verify_output_check"
    return tuple(
        problem
        for tool, rule in rules.items()
        for problem in (*rule.problems, *(() if can_check_texts or not rule.texts else (f"tools.{tool}: {missing}",)))
    )
