"""The gate in front of a tool that acts. Whatever acts, verifies.

`create_action_gate` makes the gate, `Felspar` is the client of an authority, `preaction.authority.LocalAuthority` an
authority of your own. Importing this package imports no agent runtime, no server and no HTTP client.
"""

from preaction._core.tool_rule import ToolRule
from preaction._core.verdict import ActionDenied, Verdict, denial_text
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate, create_action_gate
from preaction.reporting import felspar_verdict_reporter
from preaction.rest import Felspar, felspar_job_describer, felspar_output_check_verifier, felspar_verifier
from preaction.script import acheck_action, check_action
from preaction.wire.models import Escalation

__all__ = [
    "ActionDenied",
    "ActionGate",
    "ConfigurationError",
    "Escalation",
    "Felspar",
    "ToolRule",
    "Verdict",
    "acheck_action",
    "check_action",
    "create_action_gate",
    "denial_text",
    "felspar_job_describer",
    "felspar_output_check_verifier",
    "felspar_verdict_reporter",
    "felspar_verifier",
]
