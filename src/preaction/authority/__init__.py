"""The embedded authority: decides, keeps receipts, replays them, checks texts. The other side of the wire.

    from preaction.authority import LocalAuthority

It imports `preaction.wire` and `preaction.errors` and nothing else of this package. Read in this order: `yaml_text`
and `pack` (what a team writes), `conditions` and `patterns` and `schemas` (what is compiled), `release` (a pack made
ready), `decide` and `outputs` (pure), `lookups` (what is read elsewhere), `receipts`, `keys` and `storage` (what is
kept), `deciding`, `service` and `operators` (what is answered), `api` and `openapi` and `serve` (over HTTP), `local`
(in Python).
"""

from preaction.authority.local import LocalAuthority
from preaction.authority.lookups import FixedLookup, Lookup, LookupFailed, Lookups
from preaction.authority.lookups_file import LookupsError, read_lookups
from preaction.authority.lookups_http import HttpLookup
from preaction.authority.lookups_sql import SqlLookup
from preaction.authority.yaml_text import PackError

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
