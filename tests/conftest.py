"""What every test has: no way off this machine, and Hypothesis profiles.

A fixture that one room alone needs lives in that room's own `conftest.py`.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from redis_server import own_redis, redis_binary, redis_server  # noqa: F401 (fixtures of several rooms)

REPOSITORY = Path(__file__).resolve().parent.parent

# `fast` repeats itself exactly, so that a red run is red again; `nightly` looks for what nobody has seen yet.
# A test that names its own `max_examples` keeps it in both.
settings.register_profile(
    "fast",
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # as slow as the machine is
)
settings.register_profile(
    "nightly",
    max_examples=500,
    deadline=None,
    derandomize="CI" in os.environ,  # there a run is about the change, and repeats itself exactly
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(  # `make mutation`: runs for each of thousands of changes
    "mutation",
    settings.get_profile("fast"),
    max_examples=10,
    stateful_step_count=10,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An object's address in a test's name differs in each worker, and then none of them begins."""
    if moving := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"give it an id that stays the same: {moving[0]}")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def only_this_machine() -> Iterator[None]:
    """Refuse every connection and look-up that would leave the machine: no test may need, or reach, a network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _guarded(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", _guarded(socket.socket.connect_ex))
        patch.setattr(socket, "getaddrinfo", _guarded_look_up(socket.getaddrinfo))
        yield


def _guarded(connect: Any) -> Any:
    def connect_here(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_unless_here(address[0])
        return connect(self, address)

    return connect_here


def _guarded_look_up(look_up: Any) -> Any:
    def look_up_here(host: Any, *args: Any, **options: Any) -> Any:
        try:
            _refuse_unless_here(host)
        except OSError as error:
            raise socket.gaierror(socket.EAI_NONAME, str(error)) from error
        return look_up(host, *args, **options)

    return look_up_here


def _refuse_unless_here(host: Any) -> None:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        here = ipaddress.ip_address(name).is_loopback or ipaddress.ip_address(name).is_unspecified
    except ValueError:
        here = False
    if not here:
        raise OSError(f"a test tried to reach {name!r}, which is not this machine")
