"""Authorities for tests, over each kind of database, and a clock that they can set."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from authority.asking import evidence
from authority.packs import HELPDESK
from authority.postgres import Postgres, postgres  # noqa: F401 (a fixture)
from preaction.authority import LocalAuthority

FAST_OVER_POSTGRESQL = ("test_storage", "test_shared", "test_again", "test_search")
"""What the fast suite runs over PostgreSQL as well; the other modules do it in `make test-nightly`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that runs over each kind of database is long over PostgreSQL, but for some."""
    for item in items:
        over = "postgres" in item.name.partition("[")[2] and "authority" in item.path.parts
        if over and item.path.stem not in FAST_OVER_POSTGRESQL:
            item.add_marker(pytest.mark.long)


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


@dataclass(frozen=True)
class Place:
    """A database that starts empty: the URL, and the file of its signing key."""

    url: str | Path | None
    key: Path | None


@pytest.fixture
def kind() -> str:
    """What a test's database is; a module that runs over several overrides it with `params`."""
    return "memory"


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """A new database of that kind."""
    if kind == "memory":
        return Place(None, None)
    if kind == "sqlite":
        return Place(f"sqlite:///{tmp_path / 'decisions.db'}", tmp_path / "decisions.db-key")
    server: Postgres = request.getfixturevalue("postgres")
    return Place(server.new_database(), tmp_path / "signing-key")


@pytest.fixture
def opened(clock: Clock, place: Place) -> Iterator[Callable[..., LocalAuthority]]:
    """Opens an authority, by default over the test's own database; it is closed when the test ends."""

    def at(pack: str | Path = HELPDESK, db: str | Path | None = None) -> LocalAuthority:
        where = Place(db, None) if db is not None else place
        return stack.enter_context(LocalAuthority.from_pack(pack, where.url, clock, signing_key=where.key))

    with ExitStack() as stack:
        yield at


@pytest.fixture
def helpdesk(opened: Callable[..., LocalAuthority]) -> LocalAuthority:
    return opened()


@pytest.fixture
def billing(helpdesk: LocalAuthority) -> dict[str, Any]:
    """A decision that lets the reply be written."""
    return helpdesk.decide("triage-ticket", entity_id="HC-1201", evidence=evidence())
