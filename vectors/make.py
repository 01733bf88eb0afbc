"""Write the vectors: `python vectors/make.py`; with `--check`, fail where a file is not what would be written.

Every expectation comes from the tables beside this script, where it stands by hand. Those of verdicts are compared with
what the implementation gives before anything is written, since their rounds of asks and answers are recorded from a
run; those of calls and of the wire are compared by the tests.
"""

import argparse
import hashlib
import json
import logging
import sys
from pathlib import Path
from typing import Any, get_args

import _calls
import _wire
from _scenes import HAND_OFFS, REPLY, Scene
from _verdicts import SCENES
from _world import book_of

from preaction._core.denied import Code
from preaction._core.verdict import Verdict

HERE = Path(__file__).parent
NEVER: set[Code] = {"gate_error"}
"""Codes that no procedure gives: the gate's own door does."""


class Wrong(Exception):
    """The implementation gives something else than the table says."""


def sha256(text: str) -> str:
    """The digest of a canonical text."""
    return "sha-256:" + hashlib.sha256(text.encode()).hexdigest()


def verdict_file(name: str, scene: Scene) -> dict[str, Any]:
    """One vector of `verdicts/`, or `Wrong`."""
    rules = {REPLY if scene.tool != "email_send" else scene.tool: dict(scene.rule)}
    verdict, rounds = scene.world().check(
        book_of(scene.job, rules, scene.options), scene.session, scene.tool, scene.args, take=scene.take
    )
    expect = expected(scene)
    given = seen(verdict)
    if given != expect:
        raise Wrong(f"{name}: the table says {expect}, the implementation {given}: {verdict.reason}")
    return {
        "title": scene.about,
        "job": scene.job,
        "rules": rules,
        "options": dict(scene.options),
        "call": {"session": scene.session, "tool": scene.tool, "arguments": scene.args, "take": scene.take},
        "rounds": rounds,
        "expect": expect,
    }


def expected(scene: Scene) -> dict[str, Any]:
    """What the table says of a verdict; the case only where a call is allowed on one."""
    allow = scene.code in ("allowed", "not_gated")
    return {
        "allow": allow,
        "code": scene.code,
        "check": scene.check,
        "escalate": scene.escalate,
        "escalation": None if scene.hand_off is None else HAND_OFFS[scene.hand_off],
        **({"case": scene.case} if allow else {}),
    }


def seen(verdict: Verdict) -> dict[str, Any]:
    """The same of a verdict as it was given."""
    hand_off = verdict.escalation
    return {
        "allow": verdict.allow,
        "code": verdict.code,
        "check": verdict.failed,
        "escalate": verdict.escalate,
        "escalation": None if hand_off is None else hand_off.model_dump(mode="json"),
        **({"case": verdict.case} if verdict.allow else {}),
    }


def all_files() -> dict[Path, str]:
    """Every file with its text."""
    left = set(get_args(Code)) - NEVER - {scene.code for scene in SCENES.values()}
    if left:
        raise Wrong(f"no scene has the code {', '.join(sorted(left))}")
    files: dict[str, Any] = {f"verdicts/{name}.json": verdict_file(name, scene) for name, scene in SCENES.items()}
    files |= {f"calls/{name}": content for name, content in _calls.files(sha256).items()}
    files |= {f"wire/{name}": content for name, content in _wire.files().items()}
    return {HERE / name: json.dumps(content, indent=1) + "\n" for name, content in files.items()}


def differences(files: dict[Path, str]) -> list[str]:
    """What is missing, different or too much, one line each."""
    there = {path for folder in ("calls", "verdicts", "wire") for path in (HERE / folder).glob("*")}
    found = [f"{path.relative_to(HERE)}: not one of the vectors" for path in sorted(there - files.keys())]
    for path, text in files.items():
        if path not in there:
            found.append(f"{path.relative_to(HERE)}: missing")
        elif path.read_bytes() != text.encode():
            found.append(f"{path.relative_to(HERE)}: differs")
    return found


def main() -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and fail on any difference")
    check = parser.parse_args().check
    logging.disable()  # what sessions refuse is the subject of some scenes
    try:
        files = all_files()
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    found = differences(files)
    if check:
        for line in found:
            print(line, file=sys.stderr)
        return 1 if found else 0
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    for line in found:
        if line.endswith("not one of the vectors"):
            (HERE / line.partition(":")[0]).unlink()
    print(f"{len(files)} files, {len(found)} of them new or changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
