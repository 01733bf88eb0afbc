"""The console at `/`: what was decided and why, for people, as pages that need no script.

An operator signs in with a key and sees what that key may see: its pack and jobs. The pages only look; the forms are
for signing in and out. Every answer carries `guard.HEADERS`; templates escape all that they print.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from preaction.authority.console import guard
from preaction.authority.console.marking import pieces
from preaction.authority.console.pages import PATHS, Desk, Page, View, as_json
from preaction.authority.console.sessions import Sessions, Visitor, csrf_of
from preaction.authority.refusal import Refused
from preaction.wire.times import read_time

SIGN_IN: Final = "/console/sign-in"
_SIGN_OUT: Final = "/console/sign-out"
_CSS: Final = "/console/console.css"
_NAVIGATION: Final = (
    ("/", "Decisions"),
    ("/console/output-checks", "Output checks"),
    ("/console/verdicts", "Verdicts"),
    ("/console/releases", "Releases"),
    ("/console/keys", "Keys"),
)
_INSIDE: Final = {"/": "/console/decisions", "/console/releases": "/console/changes"}
"""Pages of the navigation → where the pages below them start, when that isn't their own path."""


def console_routes(desk: Desk, clock: Callable[[], datetime], take: Callable[[str], None]) -> list[Route]:
    """The routes of the console, to stand after all others. `take` refuses the id of a key that asks too often."""
    console = _Console(desk, Sessions(desk.storage, desk.keyring, clock), take)
    css = files("preaction.authority.console").joinpath("console.css").read_bytes()

    def style(_request: Request) -> Response:
        headers = {**guard.HEADERS, "Cache-Control": "no-cache"}
        return Response(css, headers=headers, media_type="text/css; charset=utf-8")

    return [
        Route(_CSS, style, methods=["GET"]),
        Route(SIGN_IN, console.sign_in_form, methods=["GET"]),
        Route(SIGN_IN, console.sign_in, methods=["POST"]),
        Route(_SIGN_OUT, console.sign_out, methods=["POST"]),
        *(Route(path, console.page(view), methods=["GET"]) for path, view in PATHS.items()),
    ]


class _Console:
    def __init__(self, desk: Desk, sessions: Sessions, take: Callable[[str], None]) -> None:
        self._desk = desk
        self._sessions = sessions
        self._take = take
        self._attempts = guard.Attempts()
        self._templates = _environment()

    def page(self, view: View) -> Callable[[Request], Response]:
        """The endpoint of a page; whoever isn't signed in is shown the way. Starlette runs it in a thread."""

        def endpoint(request: Request) -> Response:
            visitor = None
            try:
                visitor = self._sessions.visitor(guard.cookie_of(request, guard.SESSION))
                if visitor is None:
                    return RedirectResponse(SIGN_IN, 303, guard.HEADERS)
                self._take(visitor.caller.key_id)
                page = view(self._desk, visitor.caller, request.query_params, request.path_params)
            except Refused as refused:
                page = _refusal(refused)
            return self._answer(request, page, visitor)

        return endpoint

    def sign_in_form(self, request: Request) -> Response:
        """The form, and the cookie that ties it to this browser."""
        secret = guard.cookie_of(request, guard.FORM)
        return self._sign_in_page(request, secret if guard.is_secret(secret) else guard.new_secret())

    async def sign_in(self, request: Request) -> Response:
        """Open a session for an operator's key, and end the one that the browser had."""
        secret = guard.cookie_of(request, guard.FORM)
        address = request.client.host if request.client else ""
        try:
            form = await guard.read_form(request)
            guard.check_token(form, secret)
            self._attempts.begin(address)
            session_id = await run_in_threadpool(self._sessions.open, form.get("key", "").strip(), self._take)
            if session_id is None:
                return self._sign_in_page(request, secret, wrong=True)
            self._attempts.succeeded(address)
            await run_in_threadpool(self._sessions.close, guard.cookie_of(request, guard.SESSION))
        except Refused as refused:
            return self._answer(request, _refusal(refused), None)
        response = RedirectResponse("/", 303, guard.HEADERS)
        guard.set_cookie(request, response, guard.SESSION, session_id)
        guard.set_cookie(request, response, guard.FORM, "")
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session, here and in the browser."""
        session_id = guard.cookie_of(request, guard.SESSION)
        try:
            guard.check_token(await guard.read_form(request), session_id)
            # Whoever has no session writes nothing.
            if await run_in_threadpool(self._sessions.visitor, session_id) is not None:
                await run_in_threadpool(self._sessions.close, session_id)
        except Refused as refused:
            return self._answer(request, _refusal(refused), None)
        response = RedirectResponse(SIGN_IN, 303, guard.HEADERS)
        guard.set_cookie(request, response, guard.SESSION, "")
        return response

    def _sign_in_page(self, request: Request, secret: str, *, wrong: bool = False) -> Response:
        values = {"csrf": csrf_of(secret), "wrong": wrong}
        response = self._answer(request, Page("sign_in.html", "Sign in", values, 401 if wrong else 200), None)
        guard.set_cookie(request, response, guard.FORM, secret)
        return response

    def _answer(self, request: Request, page: Page, visitor: Visitor | None) -> Response:
        common: Mapping[str, Any] = {
            "title": page.title,
            "visitor": visitor,
            "navigation": _NAVIGATION if visitor else (),
            "inside": _INSIDE,
            "here": request.url.path,
            "css": _CSS,
            "sign_in": SIGN_IN,
            "sign_out": _SIGN_OUT,
        }
        text = self._templates.get_template(page.template).render({**common, **page.values})
        headers = dict(guard.HEADERS)
        if page.retry_after_s is not None:
            headers["Retry-After"] = str(page.retry_after_s)
        return Response(text.encode("utf-8", "replace"), page.status, headers, "text/html; charset=utf-8")


def _refusal(refused: Refused) -> Page:
    return Page("refused.html", "Not shown", {"said": refused.problem.title}, refused.status, refused.retry_after_s)


@cache
def _environment() -> Environment:
    templates = Environment(
        loader=PackageLoader("preaction.authority.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"pieces": pieces, "as_json": as_json, "time": _time}
    return templates


def _time(value: datetime | str) -> str:
    """A time for people, in UTC, to the second."""
    return f"{read_time(value):%Y-%m-%d %H:%M:%S} UTC"
