"""Mutation testing: change the code in one place at a time, and see that a test fails.

    python tests/mutation/run.py [--children N] [--at-most N] [--root CHECKOUT] [ROOM or FUNCTION …]

A room is one of `rooms.toml`, a function a pattern such as `preaction._core.call.*`; without any, all rooms are done.
Prints each room's score, and each survivor that `survivors.toml` doesn't explain. Exit code: 0 when all are explained,
1 when one isn't, or when an explanation in a whole room is of no use any more, 2 when the tests can't tell.
"""

import argparse
import json
import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

OWN = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(OWN / "tests"))

import pytest  # noqa: E402

from mutation.mutants import Mutant, chosen, copied, mutated  # noqa: E402
from mutation.survivors import KIND, Explanation, as_entry, doubtful, explanations, unexplained, useless  # noqa: E402
from mutation.trials import Outcome, Trials  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, and give the exit code; see the module."""
    asked = _asked(arguments)
    files = asked.root / "tests" / "mutation"
    rooms = tomllib.loads((files / "rooms.toml").read_text("utf-8"))
    explained = explanations((files / "survivors.toml").read_text("utf-8"))
    patterns = [one for one in asked.wanted if one not in rooms]
    tried: dict[Mutant, Outcome] = {}
    wrong = 0
    for room in list(rooms) if patterns else asked.wanted or list(rooms):
        begun = time.monotonic()
        own = [] if patterns else [one for one in explained if one.room == room]
        outcomes = _in_room(room, rooms[room], patterns, asked, own)
        if isinstance(outcomes, str):
            print(f"{room}: {outcomes}")
            return 2
        if outcomes:
            print(f"{room}: {score(outcomes.values())}, {time.monotonic() - begun:.0f} s", flush=True)
        about = [one for one in explained if one.room in (room, KIND)]
        wrong += _said(as_entry(room, outcomes[mutant], mutant) for mutant in unexplained(outcomes, about))
        wrong += _said(useless(outcomes, own))
        tried |= outcomes
    if not asked.wanted:
        wrong += _said(useless(tried, [one for one in explained if one.room not in rooms]))
    print(f"all: {score(tried.values())}; {wrong} to explain, to kill, or to take out")
    return 1 if wrong else 0 if tried else 2


def _said(problems: Iterable[str]) -> int:
    """Print each, and give their number."""
    said = list(problems)
    for problem in said:
        print(f"\n{problem}\n", flush=True)
    return len(said)


def score(outcomes: Iterable[Outcome]) -> str:
    """In words: how many of each outcome, and how many of all were noticed."""
    counted = Counter(outcomes)
    noticed = counted["killed"] + counted["timeout"]
    named = ", ".join(f"{counted[one]} {one}" for one in ("killed", "timeout", "survived", "no tests", "broken"))
    return f"{named}: {noticed / max(counted.total(), 1):.1%} of {counted.total()}"


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wanted", nargs="*", metavar="ROOM or FUNCTION")
    parser.add_argument("--root", type=Path, default=OWN, help="the checkout: src, tests and pyproject.toml are in it")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1, help="how many mutants at once")
    parser.add_argument("--at-most", type=int, help="tests for each mutant, for a quick look: more of them survive")
    return parser.parse_args(arguments)


def _in_room(
    room: str,
    entry: Mapping[str, Any],
    patterns: Sequence[str],
    asked: argparse.Namespace,
    own: Sequence[Explanation],
) -> dict[Mutant, Outcome] | str:
    """What became of the room's mutants, which `own` is about; or why that can't be told."""
    copy = asked.root / "mutants" / room
    copied(asked.root, copy)
    mutants = {mutant.name: mutant for mutant in chosen(mutated(copy, entry["code"], patterns), patterns)}
    if not mutants:
        return {}
    answer = copy / "outcomes.json"

    def doubted(outcomes: Mapping[str, Outcome]) -> list[str]:
        return [one.name for one in doubtful({mutants[name]: outcome for name, outcome in outcomes.items()}, own)]

    trials = Trials(list(mutants), asked.children, asked.at_most, copy, doubted)
    # A process of its own: what one room has imported is not the next one's code
    if (pid := os.fork()) == 0:
        try:
            answer.write_text(json.dumps(_tried(copy, entry["tests"], trials)))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    told = json.loads(answer.read_text()) if answer.exists() else "the tests ended without an answer"
    return told if isinstance(told, str) else {mutants[name]: outcome for name, outcome in told.items()}


def _tried(copy: Path, tests: Sequence[str], trials: Trials) -> dict[str, Outcome] | str:
    source = str(copy / "src")
    os.chdir(copy)
    sys.path[:] = [source, *(path for path in sys.path if Path(path) != OWN / "tests")]
    os.environ["PYTHONPATH"] = source  # for processes that tests start
    options = [
        "--rootdir=.",
        "--config-file=pyproject.toml",
        "-qq",
        "-x",
        "--tb=no",
        "--capture=sys",
        "-p",
        "no:cacheprovider",
    ]
    status = pytest.main([*options, *tests], plugins=[trials])
    if trials.unfit is not None:
        return trials.unfit
    return (
        trials.outcomes
        if len(trials.outcomes) == len(trials.names)
        else f"the tests can't be collected: pytest gave {status}"
    )


if __name__ == "__main__":
    sys.exit(main())
