"""The gate's audit trail: one record a check, from which its verdict can be explained and judged again.

`AuditTrail` is the option `audit` of `create_action_gate`; `records` reads what it wrote.
"""

from preaction.audit.reading import records
from preaction.audit.record import AuditRecord
from preaction.audit.trail import AuditTrail

__all__ = ["AuditRecord", "AuditTrail", "records"]
