"""Preflight: every argument has a source, or the user is asked. For actions that can't be undone.

`lookup_field` stands alone; `create_preflight` puts a gate before it (is this the tool, and when?) and one behind it
(is anything missing?). Reading order: `values`, `record`, `source`, `lookup`, `hooks`, `fixed`, `checklist`, `run`,
`preflight`.
"""

from preaction.preflight.hooks import Hooks
from preaction.preflight.lookup import lookup_field, lookup_field_sync
from preaction.preflight.record import State
from preaction.preflight.source import Segment

__all__ = ["Hooks", "Segment", "State", "lookup_field", "lookup_field_sync"]
