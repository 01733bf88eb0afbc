"""Links in a text that lead to other hosts than those allowed. What might be a link to somebody is one.

Mail clients and chats make links out of bare names, so `evil.example` and `someone@evil.example` count as links too.
An allowed link is `https` or `http` with exactly an allowed host, or that host's bare name: no user-info and no
back-slash.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

from preaction.authority.expressions.patterns import Span

_TOKEN: Final = re.compile(r"[^\s<>\"'()\[\]{}|,;`]+")
_EDGES: Final = ".:!?*_~"
_AUTHORITY: Final = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]{0,30}):)?([/\\]{2,})|([A-Za-z][A-Za-z0-9+.-]{0,30}):[/\\]")
_BARE_SCHEME: Final = re.compile(r"(?:javascript|vbscript|data|file|blob|mailto|tel|sms|callto|skype):", re.I)
_DOTS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
_DOTTED: Final = re.compile(r"[^\W_]([\w-]*)(\.[\w-]+)*\.([^\W\d_]{2,}|xn--[\w-]+)\.?")


def foreign_links(text: str, hosts: Collection[str]) -> Iterator[Span]:
    """The span, in code points, of each link in `text` that isn't to one of `hosts` (lower-case ASCII)."""
    for match in _TOKEN.finditer(text):
        token = match[0].rstrip(_EDGES)
        start = match.start() + len(token) - len(token.lstrip(_EDGES))
        token = token.lstrip(_EDGES)
        if not _allowed(token.translate(_DOTS), hosts):
            yield start, start + len(token)


def _allowed(token: str, hosts: Collection[str]) -> bool:
    links = list(_AUTHORITY.finditer(token))
    if links:
        return all(_allowed_at(token, link, hosts) for link in links)
    rest = _BARE_SCHEME.sub("", token, count=1)
    if rest != token and not token.lower().startswith("mailto:"):
        return False
    name = re.split(r"[/\\?#:]", rest, maxsplit=1)[0].rpartition("@")[2]
    return not _DOTTED.fullmatch(name) or name.lower() in hosts


def _allowed_at(token: str, link: re.Match[str], hosts: Collection[str]) -> bool:
    if (link[1] or "").lower() not in ("http", "https") or link[2] != "//":
        return False
    authority = re.split(r"[/?#]", token[link.end() :], maxsplit=1)[0]
    return re.sub(r":\d{1,5}$", "", authority).lower() in hosts
