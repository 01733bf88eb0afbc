"""Run each adapter's tests in an environment that holds its runtime and nothing of the others.

    python tests/adapters/run_runtimes.py [RUNTIME …] [--newest | --oldest] [--within SECONDS] [--verbose]

Reads `runtimes.toml`. An environment is kept under `.venv-runtimes/` and used again while what it was made from stands.
All newest versions come first, then the oldest ones. A runtime that can't be installed, or whose module collects
nothing, has failed. With `--within`, what there is no time for is skipped and named; that alone is no failure.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-runtimes"
LISTED = Path(__file__).with_name("runtimes.toml")
TEST_TOOLS = ("pytest>=9", "pytest-asyncio>=1.5", "hypothesis>=6.120", "sybil>=10.1")
SETS = ("newest", "oldest")
LEAST_S = 60
"""An environment isn't started with less time left than this."""
LONGEST_S = 2400
"""A command that takes longer hangs, and has failed."""


class Failed(Exception):
    """An environment that could not be made or gave no result, in words."""


class OutOfTime(Exception):
    """The time given by `--within` is over."""


@dataclass(frozen=True)
class Environment:
    """One runtime at one of its two sets of pins."""

    runtime: str
    which: str
    extra: str
    pins: tuple[str, ...]
    packages: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.runtime}-{self.which}"

    @property
    def path(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def wanted(self) -> list[str]:
        """What is installed besides this package."""
        return [*self.pins, *TEST_TOOLS, *self.packages]

    def fingerprint(self, project: Mapping[str, Any]) -> str:
        """Changes when the environment has to be made again."""
        further = [part for one in self.packages if one.startswith("preaction[") for part in re.findall(r"[\w-]+", one)]
        extras = [project["optional-dependencies"].get(extra, []) for extra in (self.extra, *further[1:])]
        own = [project["dependencies"], *extras, project.get("scripts")]
        made_from = [sys.version, str(ROOT), self.wanted, own]
        return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()


@dataclass
class Outcome:
    """What the tests of one environment came to."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    said: str = ""


def read(listed: Mapping[str, Any]) -> list[Environment]:
    """Every environment of the list, all newest ones first."""
    found = []
    for which in SETS:
        for runtime, entry in listed.items():
            unknown = entry.keys() - {"extra", "newest", "oldest", "tests", "packages"}
            if unknown:
                raise SystemExit(f"runtimes.toml: [{runtime}] has unknown keys: {', '.join(sorted(unknown))}")
            tests = entry["tests"]
            found.append(
                Environment(
                    runtime,
                    which,
                    entry["extra"],
                    tuple(entry[which]),
                    tuple(entry.get("packages", ())),
                    (tests,) if isinstance(tests, str) else tuple(tests),
                )
            )
    return found


def run(command: Sequence[str | Path], until: float | None) -> tuple[int, str]:
    """The exit status and all output. At the end of the time the command and what it started are killed."""
    keep = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_AGENT_KEY"))}
    # Without its compiled code a large runtime takes twice as long to import, in each process that a test starts
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE"):
        keep.pop(name, None)
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        env=keep,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    left = LONGEST_S if until is None else min(LONGEST_S, max(0.0, until - time.monotonic()))
    try:
        output, _ = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        raise (OutOfTime() if left < LONGEST_S else Failed(f"still running after {LONGEST_S} s")) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, output


def prepare(uv: str, env: Environment, until: float | None) -> None:
    """Make the environment, unless it stands as it should."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    if env.extra not in project["optional-dependencies"]:
        raise Failed(f"pyproject.toml has no extra {env.extra!r}")
    ready, fingerprint = env.path / ".made-from", env.fingerprint(project)
    if ready.is_file() and ready.read_text("utf-8") == fingerprint:
        return
    ready.unlink(missing_ok=True)
    commands: tuple[list[str | Path], ...] = (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, env.path],
        [uv, "pip", "install", "--quiet", "--python", env.python, "-e", f"{ROOT}[{env.extra}]", *env.wanted],
    )
    for command in commands:
        status, output = run(command, until)
        if status:
            raise Failed(f"could not be installed\n{output}")
    ready.write_text(fingerprint, "utf-8")


def versions(env: Environment, until: float | None) -> str:
    """The installed versions of what is pinned."""
    names = [re.split(r"[\[=<>!~ ]", pin, maxsplit=1)[0] for pin in env.pins]
    code = "import importlib.metadata as m, sys; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    return run([env.python, "-c", code, *names], until)[1].strip()


def test(env: Environment, until: float | None, *, verbose: bool) -> Outcome:
    """Run the tests there."""
    report = env.path / "report.xml"
    report.unlink(missing_ok=True)
    status, output = run([env.python, "-m", "pytest", "-q", f"--junit-xml={report}", *env.tests], until)
    if not report.is_file():
        raise Failed(f"pytest ended with status {status}\n{output}")
    count = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ET.parse(report).getroot().iter("testsuite"):
        for name in count:
            count[name] += int(suite.get(name, 0))
    failed = count["failures"] + count["errors"]
    outcome = Outcome(count["tests"] - failed - count["skipped"], failed, count["skipped"])
    if status or failed or verbose:
        outcome.said = output
    if not failed and (status or not outcome.passed):
        raise Failed(f"no test ran (pytest ended with status {status})\n{output}")
    return outcome


def one(uv: str, env: Environment, until: float | None, *, verbose: bool) -> Outcome:
    """Make one environment, run its tests, and print its line."""
    start, about = time.monotonic(), ", ".join(env.pins)
    try:
        prepare(uv, env, until)
        about = versions(env, until)
        outcome = test(env, until, verbose=verbose)
        word = f"{outcome.failed} failed, " if outcome.failed else ""
        word += f"{outcome.passed} passed" + (f", {outcome.skipped} skipped" if outcome.skipped else "")
    except Failed as failure:
        first, _, rest = str(failure).partition("\n")
        outcome, word = Outcome(failed=1, said=rest), f"failed: {first}"
    print(f"{env.name:28} {about:44} {word} ({time.monotonic() - start:.0f} s)", flush=True)
    if outcome.said:
        print(outcome.said.rstrip(), flush=True)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; the exit status is 1 when anything failed."""
    known = tomllib.loads(LISTED.read_text("utf-8"))
    parser = argparse.ArgumentParser(description="Run each adapter's tests with its own runtime.")
    parser.add_argument("runtimes", nargs="*", metavar="RUNTIME", help=f"all, or some of: {', '.join(known)}")
    parser.add_argument("--newest", dest="which", action="append_const", const="newest", help="newest versions only")
    parser.add_argument("--oldest", dest="which", action="append_const", const="oldest", help="oldest versions only")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="start and run no longer than this")
    parser.add_argument("--verbose", action="store_true", help="print the output of what passed as well")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.runtimes) - known.keys():
        parser.error(f"no such runtime: {', '.join(sorted(unknown))}")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        parser.error("uv is needed: make setup")
    until = None if asked.within is None else time.monotonic() + asked.within

    total, skipped = Outcome(), []
    for env in read(known):
        if env.which not in (asked.which or SETS) or (asked.runtimes and env.runtime not in asked.runtimes):
            continue
        try:
            if until is not None and until - time.monotonic() < LEAST_S:
                raise OutOfTime
            outcome = one(uv, env, until, verbose=asked.verbose)
        except OutOfTime:
            skipped.append(env.name)
            continue
        total.passed += outcome.passed
        total.failed += outcome.failed
    if skipped:
        print(f"SKIPPED, no time left: {', '.join(skipped)}")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
