"""Try each mutant: a plugin of pytest that collects once, and runs a mutant's tests in a fork of its own.

Nothing has run in the process that is forked, so no cache holds an answer of the code as it was.
"""

import functools
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

Outcome = Literal["killed", "survived", "timeout", "no tests", "broken"]

SLOWER, LEAST_S = 10, 2
"""A mutant times out when a test takes `SLOWER` times the processor's seconds that it takes as it is, and `LEAST_S`."""
WAITS_S = 120
"""One that waits takes none: it times out after these seconds by the clock, and `SLOWER` times what all tests take."""
MEMORY = 4 << 30
REMEMBERED = 30
"""How many of the tests that noticed a mutant are tried first on the next."""
LONG_S, LONGEST_S = 0.2, 60
ALIVE, DEAD = 0, 1


class Timed(NamedTuple):
    """A test, and the processor's seconds that it takes as it is."""

    item: pytest.Item
    seconds: float


class Unfit(Exception):
    """The tests can't tell anything about mutants, in words."""


@dataclass
class Trials:
    """The plugin. `names` are the mutants' in mutmut; `outcomes` holds what became of each once pytest has returned.

    `at_most` is how many tests a mutant gets; None gives it all that reach its function. Those that `doubted` names,
    once all have been tried, are tried again, each alone, and that counts.
    """

    names: Sequence[str]
    children: int
    at_most: int | None
    scratch: Path
    doubted: Callable[[Mapping[str, Outcome]], Iterable[str]]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    unfit: str | None = None
    noticing: list[str] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of pytest's own loop."""
        if session.testsfailed:
            self.unfit = "a test's module can't be imported without a mutant"
            return True
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all, or each removes the other's
        try:
            reached = self._reached(session)
            self._try(session, reached)
        except Unfit as why:
            self.unfit = str(why)
        return True

    def _reached(self, session: pytest.Session) -> dict[str, list[Timed]]:
        """The tests that reach each function, by its name in mutmut; all must pass as it is."""
        told = self.scratch / "reached.json"
        if _waited(_forked("stats", lambda: _measured(session, told))) != ALIVE:
            raise Unfit(f"a test fails without a mutant: {told.read_text() if told.exists() else 'nothing said'}")
        measured = json.loads(told.read_text())
        for module in measured["modules"]:
            importlib.import_module(module)
        gc.freeze()
        every = [Timed(*both) for both in zip(session.items, measured["seconds"], strict=True)]
        order = _varied(every)
        if _waited(_forked("none", lambda: _run(session, [every[place] for place in order]))) != ALIVE:
            raise Unfit("a test fails without a mutant, in another order")
        if _waited(_forked("fail", lambda: _run(session, every))) != DEAD:
            raise Unfit("no test fails where every mutated function raises: another copy of the code is tested")
        found: dict[str, list[Timed]] = {}
        for place in order:
            for function in measured["functions"][place]:
                found.setdefault(function, []).append(every[place])
        return found

    def _try(self, session: pytest.Session, reached: dict[str, list[Timed]]) -> None:
        running: dict[int, tuple[str, float]] = {}
        for number, name in enumerate(self.names, 1):
            while len(running) >= self.children:
                self._reap(running)
            self._begin(session, name, reached, running)
            if number % 100 == 0:
                print(f"  {number} of {len(self.names)}", file=sys.__stderr__, flush=True)
        while running:
            self._reap(running)
        for name in list(self.doubted(self.outcomes)):
            self._begin(session, name, reached, running)
            while running:
                self._reap(running)

    def _begin(
        self,
        session: pytest.Session,
        name: str,
        reached: dict[str, list[Timed]],
        running: dict[int, tuple[str, float]],
    ) -> None:
        tests = self._likely_first(reached.get(name.partition("__mutmut_")[0], []))[: self.at_most]
        if not tests:
            self.outcomes[name] = "no tests"
            return
        until = time.monotonic() + WAITS_S + SLOWER * sum(test.seconds for test in tests)
        running[_forked(name, functools.partial(_run, session, tests, self.scratch))] = (name, until)

    def _reap(self, running: dict[int, tuple[str, float]]) -> None:
        """Note one that has ended, and end what waits for ever."""
        while True:
            for pid, (name, until) in running.items():
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.outcomes[name] = _outcome(os.waitstatus_to_exitcode(status))
                    self._keep_noticing(self.scratch / f"noticed-{pid}")
                    del running[pid]
                    return
                if time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def _likely_first(self, tests: list[Timed]) -> list[Timed]:
        """What lately noticed a mutant is likely to notice the next one, which stands beside it."""
        known = {test.item.nodeid: test for test in tests}
        likely = [known.pop(nodeid) for nodeid in self.noticing if nodeid in known]
        return [*likely, *known.values()]

    def _keep_noticing(self, told: Path) -> None:
        if told.exists():
            nodeid = told.read_text("utf-8")
            self.noticing = [nodeid, *(other for other in self.noticing if other != nodeid)][:REMEMBERED]
            told.unlink()


def _outcome(code: int) -> Outcome:
    if code in (ALIVE, DEAD):
        return "survived" if code == ALIVE else "killed"
    return "timeout" if -code in (signal.SIGPROF, signal.SIGKILL) else "broken"


def _varied(tests: Sequence[Timed]) -> list[int]:
    """An order that soon meets what fails: of each parametrised test one, then of each another; long ones last."""
    before: Counter[str] = Counter()
    turns = []
    for place, test in enumerate(tests):
        function = test.item.nodeid.partition("[")[0]
        turns.append((test.seconds > LONG_S, before[function], test.seconds, place))
        before[function] += 1
    return [place for *_, place in sorted(turns)]


def _forked(mutant: str, work: Callable[[], int]) -> int:
    """Start `work` in a fork in which `mutant` is the code, and give its process."""
    pid = os.fork()
    if pid:
        return pid
    code = DEAD
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        set_mutant_under_test(mutant)
        code = work()
    finally:
        os._exit(code)


def _waited(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(session: pytest.Session, tests: Sequence[Timed], scratch: Path | None = None) -> int:
    """Run the tests until one fails, and say in `scratch` which did."""
    for test, following in zip(tests, [*tests[1:], None], strict=True):
        signal.setitimer(signal.ITIMER_PROF, LEAST_S + SLOWER * test.seconds)
        test.item.config.hook.pytest_runtest_protocol(item=test.item, nextitem=following and following.item)
        if session.testsfailed:
            if scratch is not None:
                (scratch / f"noticed-{os.getpid()}").write_text(test.item.nodeid, "utf-8")
            return DEAD
    return ALIVE


def _measured(session: pytest.Session, told: Path) -> int:
    """Run all tests and write what they reach, how long each takes, and what they import late."""
    before = set(sys.modules)
    measured: dict[str, Any] = {"functions": [], "seconds": []}
    for place, item in enumerate(session.items):
        state()._stats.clear()
        begun = time.process_time()
        code = _run(session, [Timed(item, LONGEST_S)])
        measured["seconds"].append(time.process_time() - begun)
        measured["functions"].append(sorted(state()._stats))
        if code != ALIVE:
            told.write_text(f"{item.nodeid} (number {place})")
            return code
    measured["modules"] = sorted(name for name in set(sys.modules) - before if _plain(name))
    told.write_text(json.dumps(measured))
    return ALIVE


def _plain(name: str) -> bool:
    """Whether a module can be imported by its name alone."""
    spec = getattr(sys.modules[name], "__spec__", None)
    return spec is not None and spec.name == name and bool(spec.origin) and not name.startswith("preaction")
