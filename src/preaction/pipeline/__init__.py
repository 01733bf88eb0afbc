"""The whole life of a proposed call: one gate in front of every executor, for teams whose agent loop is their own.

To be read in this order: `pipeline` is what a loop holds; `proposal` and `tool` are what comes in, `outcome` what comes
out. `steps.STEPS` is the order of the steps, each a function of `checking` (up to 7) or `acting` (from 8), over the
`work` that they share. What a step knows stands in a module that can be used alone: `parse`, `schema`, `identity`,
`confirm`, `idempotency`, `result`, `audit`, `chain`; what is kept in a store, in `texts`.
"""

from preaction.audit.jsonl_audit import JsonlAudit
from preaction.pipeline.audit import Audits, MemoryAudit
from preaction.pipeline.confirm import ConfirmationError
from preaction.pipeline.otel_audit import OtelAudit
from preaction.pipeline.outcome import Confirmation, Outcome
from preaction.pipeline.pipeline import ToolPipeline
from preaction.pipeline.proposal import Limits, ProposedCall, TrustedContext
from preaction.pipeline.sources import NotExecuted, call_through, sources_of
from preaction.pipeline.sql_audit import SqlAudit
from preaction.pipeline.tool import Allowed, Command, Denied, NothingSent, NotVisible, PublicToolError, Tool

__all__ = [
    "Allowed",
    "Audits",
    "Command",
    "Confirmation",
    "ConfirmationError",
    "Denied",
    "JsonlAudit",
    "Limits",
    "MemoryAudit",
    "NotExecuted",
    "NotVisible",
    "NothingSent",
    "OtelAudit",
    "Outcome",
    "ProposedCall",
    "PublicToolError",
    "SqlAudit",
    "Tool",
    "ToolPipeline",
    "TrustedContext",
    "call_through",
    "sources_of",
]
