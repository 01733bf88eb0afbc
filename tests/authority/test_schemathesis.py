"""Schemathesis over the published OpenAPI document of a running server: no 5xx, and nothing that isn't in the contract.

It wants other versions of what the authority is built on, so it has an environment of its own: `make schemathesis`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from authority.asking import evidence
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.server.operations import OPERATIONS

PROGRAM = ".venv-schemathesis/bin/st"
OPTIONS = ["--seed", "1", "--generation-deterministic", "--max-examples", "40", "--max-time", "60", "--no-color"]
# That what fits the schema is accepted: a job or a case that there isn't fits it, and is 404 or 422.
OPTIONS += ["--exclude-checks", "positive_data_acceptance", "--continue-on-failure", "--suppress-health-check", "all"]


@pytest.mark.long
@pytest.mark.parametrize("role", ["agent", "operator"])
def test_no_request_that_the_document_can_make_gives_a_5xx_or_breaks_it(
    role: str, repository: Path, tmp_path: Path
) -> None:
    program = repository / PROGRAM
    if not program.exists():
        assert "CI" not in os.environ, "CI must have schemathesis: make schemathesis"
        pytest.skip("schemathesis has an environment of its own, which isn't there: make schemathesis")
    names = [each.name for each in OPERATIONS if each.role == role]
    with LocalAuthority.from_pack(HELPDESK) as authority, authority.serve() as served:
        authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
        key = authority.agent_key if role == "agent" else authority.operator_key
        chosen = [word for name in names for word in ("--include-operation-id", name)]
        header = ["--header", f"Authorization: Bearer {key}"]
        command = [str(program), "run", f"{served.origin}/openapi.json", *header, *chosen, *OPTIONS]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-8000:].replace(key, "[key]") + done.stderr[-2000:]
    assert f"{len(names)} selected" in done.stdout
