"""The authority as a process of its own, on a free port of this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass(frozen=True)
class Server:
    """A running `preaction serve`, with the keys that it made for this run."""

    origin: str
    agent_key: str
    operator_key: str
    process: subprocess.Popen

    def revoke(self, execution_id: str) -> None:
        """What a person does at the authority: take a decision back. An agent's key can't."""
        path = f"{self.origin}/v0/executions/{execution_id}/revoke"
        headers = {"Authorization": f"Bearer {self.operator_key}"}
        httpx.post(path, headers=headers, json={}, trust_env=False).raise_for_status()

    def stop(self) -> None:
        """Ask it to end, and wait until it has; more than one stop does no harm."""
        _stop(self.process)


@contextmanager
def preaction_serve(pack: Path, database: Path, lookups: Path, helpdesk: str) -> Iterator[Server]:
    """Start `preaction serve` and stop it at the end of the block, whatever happens inside.

    `helpdesk` is the URL of the database that `lookups` read; only this process gets to know it.
    """
    command = [Path(sys.executable).with_name("preaction"), "serve", "--pack", pack, "--port", "0", "--dev-keys"]
    command += ["--db", f"sqlite:///{database}", "--lookups", lookups]
    environment = {**os.environ, "HELPDESK_DATABASE": helpdesk}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            line = process.stdout.readline()  # one line of JSON when it is ready; nothing if it could not start
            if not line:
                raise SystemExit("The authority did not start; its reason stands above.")
            told = json.loads(line)
            yield Server(told["origin"], told["agentKey"], told["operatorKey"], process)
        finally:
            _stop(process)


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
