"""The embedded authority: decides, keeps receipts, replays them, checks texts. The other side of the wire.

    from preaction.authority import LocalAuthority

It imports `preaction.wire` and `preaction.errors` and nothing else of this package. `local` is the authority in this
process, `service` and `operators` are what it answers, `keys` says who asks, `refusal` how it says no. The rooms, each
of which imports only what is listed after it:

    server        over HTTP and MCP; workers, limits, logs, counters
    console       the pages for operators
    deciding      to decide, to decide again, to check a text
    ledger        executions and their chain, releases, verdicts: written down and found again
    facts         what is looked up elsewhere
    storage       the database, its tables and upgrades
    signing       receipts, seals and the keys behind them
    packs         what a team writes, made ready, and what it rules
    expressions   CEL, regular expressions and JSON Schema, compiled and bounded
"""

from preaction.authority.facts.lookups import FixedLookup, Lookup, LookupFailed, Lookups
from preaction.authority.facts.lookups_file import LookupsError, read_lookups
from preaction.authority.facts.lookups_http import HttpLookup
from preaction.authority.facts.lookups_sql import SqlLookup
from preaction.authority.local import LocalAuthority
from preaction.authority.packs.yaml_text import PackError

__all__ = [
    "FixedLookup",
    "HttpLookup",
    "LocalAuthority",
    "Lookup",
    "LookupFailed",
    "Lookups",
    "LookupsError",
    "PackError",
    "SqlLookup",
    "read_lookups",
]
