"""What keeps the console's browser safe: headers of every answer, cookies, and whether a form came from our own page.

Nothing here trusts a proxy's headers. Whether a cookie is `Secure` hangs on the name that the browser asked for: plain
HTTP is for loopback only, and there a browser would not send a `Secure` cookie back.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from hmac import compare_digest
from time import monotonic
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from cachetools import TTLCache
from starlette.requests import Request
from starlette.responses import Response

from preaction.authority.console.sessions import LASTS, csrf_of
from preaction.authority.hosts import is_loopback
from preaction.authority.refusal import Refused

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

SESSION: Final = "preaction_session"
FORM: Final = "preaction_form"
"""The cookie that ties the sign-in form to the browser that asked for it, before there is a session."""

MAX_FORM: Final = 4096
FORGET_S: Final = 60
_FAILURES: Final = 10
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class Attempts:
    """Failed sign-ins by address, forgotten after a minute: from the tenth on, none is looked at.

    One that isn't over counts as failed, so that no more of them are looked at because they come at once.

    A key has 256 random bits: this keeps guessing from costing the server anything, no more.
    """

    def __init__(self, timer: Callable[[], float] = monotonic) -> None:
        self._failed: TTLCache[str, int] = TTLCache(maxsize=10_000, ttl=FORGET_S, timer=timer)

    def begin(self, address: str) -> None:
        """One more; 429 for an address that failed too often."""
        failed = self._failed.get(address, 0)
        if failed >= _FAILURES:
            title = f"Too many failed sign-ins. Try again in {FORGET_S} seconds."
            raise Refused(429, title, retry_after_s=FORGET_S)
        self._failed[address] = failed + 1

    def succeeded(self, address: str) -> None:
        """One that began had an operator's key."""
        self._failed[address] = max(0, self._failed.get(address, 0) - 1)


def new_secret() -> str:
    """What a browser without a session is known by: 256 random bits."""
    return secrets.token_urlsafe(32)


def is_secret(value: str) -> bool:
    """Whether a cookie holds what `new_secret` may have made."""
    return _SECRET.fullmatch(value) is not None


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie of ours, or an empty text."""
    return request.cookies.get(_cookie_name(request, name), "")


def set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    """Give the browser a cookie that no script sees and no other site sends; an empty value takes it away."""
    response.set_cookie(
        _cookie_name(request, name),
        value,
        max_age=int(LASTS.total_seconds()) if value else 0,
        path="/",
        secure=not _on_loopback(request),
        httponly=True,
        samesite="strict",
    )


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that our own page sent; 403 for any other sender, 422 for what is no such form."""
    _check_sender(request)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FORM:
            raise Refused(413, "The form is too large.")
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=10, errors="strict")
    except ValueError:
        raise Refused(422, "The form can't be read.") from None
    if len(dict(pairs)) != len(pairs):
        raise Refused(422, "The form can't be read.")
    return dict(pairs)


def check_token(form: Mapping[str, str], secret: str) -> None:
    """403 unless the form carries the token of this browser's cookie."""
    if not secret or not compare_digest(form.get("csrf", "").encode(), csrf_of(secret).encode()):
        raise Refused(403, "This form is out of date. Go back, reload the page, and send it again.")


def _check_sender(request: Request) -> None:
    """403 unless the browser itself says that the form stood on a page of ours.

    A page with the referrer policy `no-referrer` sends `Origin: null`, so then `Sec-Fetch-Site` must say it.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    ours = origin is not None and origin.partition("://")[2] == request.headers.get("host")
    if site == "same-origin":
        ours = ours or origin in (None, "null")
    elif site is not None:
        ours = False
    if not ours:
        raise Refused(403, "This form was sent from another site.")


def _cookie_name(request: Request, name: str) -> str:
    return name if _on_loopback(request) else f"__Host-{name}"


def _on_loopback(request: Request) -> bool:
    """Whether the browser asked for a name of its own machine; a name that can't be read is none."""
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
