"""What the test modules of several adapters share besides the contract: a desk behind MCP, traps, pages, the cost."""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from adapters.contract import BODY, OTHER, REPLY, RULE, SESSION, TICKET, Desk
from preaction._core.facts import Verify

ROOT = Path(__file__).resolve().parents[2]


def canned_server(desk: Desk, ran: Path) -> dict[str, Any]:
    """How to start an MCP server over stdio whose decision and check the desk's authority knows."""
    decision = desk.authority.decide(TICKET)
    answers = {"DECISION": decision, "CHECK": desk.authority.check_output(decision, {"body": BODY})}
    prepared = {name: json.dumps(answer) for name, answer in answers.items()}
    environment = {"PATH": os.environ["PATH"], "RAN": str(ran), **prepared}
    return {"command": sys.executable, "args": [str(Path(__file__).with_name("canned_desk.py"))], "env": environment}


OF_AN_EXAMPLE = re.compile(r"sent on HC-1201: |(first )?told: |(reply|decide|check_output): ")


def run_example(runtime: str) -> str:
    """What an example prints, with a script in place of the model."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    example = ROOT / "examples" / runtime / "desk.py"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(example)],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    # What a runtime prints itself may come from another of its threads and break into a line: an example silences it
    assert [line for line in ran.stdout.splitlines() if not OF_AN_EXAMPLE.match(line)] == []
    return ran.stdout


def run_page(page: str) -> dict[str, Any]:
    """Run the Python of a page; the names that it leaves."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adapters" / page).read_text("utf-8"), re.DOTALL):
        exec(compile(block, page, "exec"), names)
    return names


def import_without(module: str, adapter: str) -> str:
    """What the import of an adapter says where its runtime is missing."""
    code = f"import sys; sys.modules[{module!r}] = None; import preaction.adapters.{adapter}"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    ).stderr


# Traps: what a gate in a runtime's hook may do wrong, and what comes of it --------------------------------------------

HANGS = "hangs"
FAILURES: dict[str, Any] = {
    "raises": RuntimeError("secret"), "hangs": HANGS, "none": None, "empty": {}, "empty text": "", "text": "denied",
    "false": False,
}  # fmt: skip
"""What a hook, or the gate itself, does in place of an answer."""


def answering(answer: Any) -> Callable[..., Awaitable[Any]]:
    """An `async def` that takes anything and answers so: it raises an exception, hangs, or returns what else it is."""

    async def hook(*_: Any, **__: Any) -> Any:
        if answer is HANGS:
            await asyncio.sleep(30)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return hook


def broken(desk: Desk, answer: Any) -> Desk:
    """The desk, with a gate that answers so; one that hangs isn't waited for long."""
    vars(desk.gate).update(acheck=answering(answer), _deadline_s=0.5)
    return desk


async def until(holds: Callable[[], Any]) -> None:
    """Wait for what another task or thread does."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


async def how_it_ends(run: Awaitable[Any], *, hangs: bool = False) -> str:
    """`ended` for a run that came to its final answer, `stopped` for one that didn't, `hangs`, or what it raised.

    One that `hangs`, as expected, is waited for only so long.
    """
    within = 3 if hangs else 25  # less than what hangs takes
    try:
        return "ended" if await asyncio.wait_for(run, within) else "stopped"
    except TimeoutError:
        return HANGS
    except Exception as error:
        return type(error).__name__


NO_CHECK = {name: value for name, value in RULE.items() if name != "output_check"}
"""The rule without a check of the text: a decision alone allows the reply."""


def undecided() -> Desk:
    """A desk where a decision is all that the reply lacks."""
    return Desk(options={"tools": {REPLY: NO_CHECK}})


def changing(sent: list[dict[str, Any]]) -> Desk:
    """A desk whose reply is allowed, and where all of `sent` is changed to another ticket while the gate checks."""
    desk = Desk()

    def verify(execution_id: str) -> Any:
        for arguments in sent:
            arguments["ticket_id"] = OTHER
        return desk.authority.good_answer(Verify(execution_id))

    desk.options.update(verify=verify)
    desk.__post_init__()
    return desk.prepared()


# The example, the page, the cost --------------------------------------------------------------------------------------


def checks_of(desk: Desk) -> list[str]:
    """Every tool that the gate is asked about from now on."""
    asked: list[str] = []
    vars(desk.gate).update(_on_verdict=lambda tool, _: asked.append(tool))
    return asked


async def cost(desk: Desk, guarded: Callable[[], Awaitable[Any]], bare: Callable[[], Awaitable[Any]]) -> float:
    """What the adapter and the check cost, in plain checks: (guarded call - bare call) / one `gate.acheck`.

    A figure to read, never to test by: machines are noisy. What is tested is that a guarded call asks the gate once.
    """
    asked = checks_of(desk)
    await guarded()
    assert len(asked) == 1
    await bare()
    assert len(asked) == 1

    async def check() -> None:
        assert (await desk.gate.acheck(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY})).allow

    async def timed(step: Callable[[], Awaitable[Any]]) -> float:
        start = time.perf_counter()
        for _ in range(40):
            await step()
        return time.perf_counter() - start

    found = []
    for _ in range(9):
        with_gate, without, plain = await timed(guarded), await timed(bare), await timed(check)
        found.append((with_gate - without) / plain)
        await asyncio.sleep(0)
    return statistics.median(found)
