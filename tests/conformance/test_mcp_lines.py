"""The lines on tools over MCP, against our own authority with the SDK, and against ones that are wrong on purpose."""

import pytest

pytest.importorskip("mcp_types", reason="runs in its own environment: make test-runtimes")

from authority.packs import HELPDESK
from conformance.faults import MCP_FAULTS, Fault
from conformance.test_conformance import SAMPLES, faulty, keys_of, states
from preaction.authority import LocalAuthority
from preaction.conformance.report import examine

pytestmark = pytest.mark.filterwarnings("ignore:.* as of 2026-07-28")

LINES = ["mcp-keys", "mcp-tools", "mcp-decides"]


def test_our_tools_over_mcp_keep_every_line() -> None:
    with LocalAuthority.from_pack(HELPDESK) as local, local.serve() as served:
        report = examine(served.origin, keys_of(local), samples=SAMPLES)
    assert [each for each in report.outcomes if each.state != "holds"] == []
    assert set(LINES) <= {each.line for each in report.outcomes}
    assert (report.decisions, report.checks) == (15, 10)


@pytest.mark.parametrize("fault", MCP_FAULTS, ids=lambda fault: fault.name)
def test_a_wrong_authority_fails_at_the_right_line(fault: Fault) -> None:
    report = faulty(fault, tuple(LINES))
    assert states(report, "differs") == list(fault.lines)
