"""Preflight: every argument has a source, or the user is asked. For actions that can't be undone.

`lookup_field` stands alone; `create_preflight` puts a gate before it (is this the tool, and when?) and one behind it
(is anything missing?). `procedure.STEPS` is the order of a run. Reading order: `values`, `record`, `source`, `lookup`;
`hooks`, `tool`, `run`, `fixed`, `fields`, `checklist`, `procedure`; `storage`, `masking`, `signing`, `lock`,
`execution`, `deferral`; `preflight`. `ready` holds hooks for common cases.
"""

from preaction.preflight.execution import Done
from preaction.preflight.hooks import Hooks
from preaction.preflight.lock import StoreLock
from preaction.preflight.lookup import lookup_field, lookup_field_sync
from preaction.preflight.masking import MaskedStorage
from preaction.preflight.preflight import Preflight, create_preflight
from preaction.preflight.record import State
from preaction.preflight.signing import SignedStorage
from preaction.preflight.source import Segment
from preaction.preflight.sql_storage import SqlStorage
from preaction.preflight.sqlite_storage import SqliteStorage
from preaction.preflight.storage import MemoryStorage

__all__ = [
    "Done",
    "Hooks",
    "MaskedStorage",
    "MemoryStorage",
    "Preflight",
    "Segment",
    "SignedStorage",
    "SqlStorage",
    "SqliteStorage",
    "State",
    "StoreLock",
    "create_preflight",
    "lookup_field",
    "lookup_field_sync",
]
