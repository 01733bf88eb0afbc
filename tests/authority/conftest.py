"""Authorities for tests, and a clock that they can set."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from authority.asking import evidence
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)

    def text(self, **by: float) -> str:
        return (self.now + timedelta(**by)).isoformat().replace("+00:00", "Z")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> Iterator[Callable[..., LocalAuthority]]:
    """Opens an authority that is closed when the test ends."""
    with ExitStack() as stack:
        yield lambda pack=HELPDESK, db=None: stack.enter_context(LocalAuthority.from_pack(pack, db, clock))


@pytest.fixture
def helpdesk(opened: Callable[..., LocalAuthority]) -> LocalAuthority:
    return opened()


@pytest.fixture
def billing(helpdesk: LocalAuthority) -> dict[str, Any]:
    """A decision that lets the reply be written."""
    return helpdesk.decide("triage-ticket", entity_id="HC-1201", evidence=evidence())
