"""Checks before the pages: of the host and of sizes, headers, keys and signatures."""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse

from rankwise.asking.session import Session, same, signature

LARGEST_BODY = 25 * 2**20
MOST_FILES = 500  # in a form
HOST = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
FAULT = (
    "This did not work, because of an error in rankwise ask. Answers that were saved are safe. The "
    "terminal in which it was started shows the details."
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without one, browsers send no Origin with forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware: refuses foreign hosts and large bodies, and adds headers.

    The Host header is checked before anything else. A page of another site whose name was made to
    point to this machine (DNS rebinding) sends that name. An unexpected error is logged, and
    answered with a short text.
    """

    def __init__(self, app: Any, hosts: Sequence[str], largest: int = LARGEST_BODY) -> None:
        self.app, self.largest = app, largest
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = HOST.fullmatch(headers.get("host", ""))
        length = as_number(headers.get("content-length", "0"))
        too_large = f"At most {self.largest // 2**20} MiB can be sent."
        refusal = None
        if host is None or host["name"].strip("[]").lower() not in self.hosts:
            refusal = PlainTextResponse("This page does not have that name.", 421)
        elif length is None or length > self.largest:
            refusal = PlainTextResponse(too_large, 413)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        seen, started = 0, False

        async def counted() -> Any:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.largest:
                raise HTTPException(413, too_large)
            return message

        async def with_headers(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, counted, with_headers)
        except ClientDisconnect:  # nobody waits for an answer
            pass
        except Exception:
            logging.getLogger("rankwise.asking").exception("A request failed: %r", scope["path"])
            if not started:
                api = scope["path"].startswith("/api/")
                said = JSONResponse({"error": FAULT}, 500) if api else PlainTextResponse(FAULT, 500)
                await said(scope, receive, with_headers)


def as_number(text: str) -> int | None:
    """A whole number that a visitor sent; None if it is not one, or has more than 15 digits."""
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None


@dataclass(frozen=True)
class Visitor:
    """Who sends a request."""

    rater: str
    is_organizer: bool
    cookie: str  # "" if the key came with the request itself


class NoItemsYet:
    """Stands for a session before its items are known: signs with the key that it will have."""

    raters = ()

    def __init__(self) -> None:
        self.secret = secrets.token_hex(32)

    def sign(self, kind: str, text: str = "") -> str:
        """A signature, as of `Session.sign`."""
        return signature(self.secret, kind, text)


class Doorkeeper:
    """Knows visitors by their keys and cookies, and checks that writes come from our own pages."""

    ORGANIZER = "me"  # as a rater

    def __init__(self, session: Session | NoItemsYet) -> None:
        self.session = session
        self.cookie_name = f"rankwise_{session.sign('cookie name')[:8]}"
        self._one_time: set[str] = set()

    @property
    def organizer_key(self) -> str:
        """The key of the organizer's address."""
        return self.session.sign("organizer")

    def one_time_key(self) -> str:
        """A key of the organizer that opens one page, once.

        It is part of the command that starts the browser, which all users of a machine can see.
        """
        key = secrets.token_urlsafe(24)
        self._one_time.add(key)
        return key

    def cookie_of(self, key: str) -> str | None:
        """The cookie that a key is swapped for; None if it is not a key."""
        if key in self._one_time:
            self._one_time.remove(key)
            return self._cookie("organizer")
        who = self._who(key)
        return None if who is None else self._cookie(who)

    def visitor(self, request: Request, *, organizer: bool = False) -> Visitor:
        """Who sends a request, by its cookie or its Authorization header."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            cookie, who = "", self._who(key.strip())
            if who is None:
                raise HTTPException(403, "This key is not known.")
        else:
            cookie = request.cookies.get(self.cookie_name, "")
            who = cookie.rpartition(".")[0]
            if not cookie or not same(cookie, self._cookie(who)):
                raise HTTPException(
                    403,
                    "Open the link that rankwise ask printed when it started, or the personal link "
                    "that you were sent.",
                )
        if who == "organizer":
            return Visitor(self.ORGANIZER, True, cookie)
        if organizer:
            raise HTTPException(403, "This page is for the organizer.")
        return Visitor(self.session.raters[int(who.removeprefix("rater"))].name, False, cookie)

    async def read_form(
        self, request: Request, *, organizer: bool = False
    ) -> tuple[Visitor, dict[str, Any]]:
        """Who sent a form of ours, and its fields; "files" has names and bytes of files."""
        visitor = self.visitor(request, organizer=organizer)
        try:
            async with request.form(max_files=MOST_FILES, max_fields=20) as form:
                self.check_write(request, visitor, str(form.get("csrf", "")))
                files = [f for f in form.getlist("file") if not isinstance(f, str)]
                found = [(file.filename or "", await file.read()) for file in files]
                values: dict[str, Any] = {k: v for k, v in form.items() if isinstance(v, str)}
        except FormParserError as error:  # older versions of starlette do not catch it
            raise HTTPException(400, "Invalid multipart data.") from error
        # A form without a chosen file has one without a name.
        return visitor, values | {"files": [file for file in found if any(file)]}

    async def read_json(self, request: Request) -> tuple[Visitor, dict[str, Any]]:
        """Who sent a body of JSON, and the object in it."""
        visitor = self.visitor(request)
        self.check_write(request, visitor, request.headers.get("x-csrf-token", ""))
        body = await request.body()
        try:
            values = json.loads(body) if body else {}
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise HTTPException(400, f"The body is not JSON: {why}.") from error
        if not isinstance(values, dict):
            raise HTTPException(400, "The body must be an object.")
        return visitor, values

    def csrf(self, visitor: Visitor) -> str:
        """What a form of ours contains."""
        return self.session.sign("csrf", visitor.cookie)

    def check_write(self, request: Request, visitor: Visitor, given: str) -> None:
        """Refuse a write that another site's page sends in the name of the visitor."""
        if not visitor.cookie:
            return
        host = request.headers.get("host")
        origin = request.headers.get("origin", f"://{host}").partition("://")[2]
        site = request.headers.get("sec-fetch-site", "same-origin")
        if origin != host or site not in ("same-origin", "none"):
            raise HTTPException(403, "This was sent from the page of another site.")
        if not same(given, self.csrf(visitor)):
            raise HTTPException(403, "This form is too old. Load the page again.")

    def _who(self, key: str) -> str | None:
        if same(key, self.organizer_key):
            return "organizer"
        for number, rater in enumerate(self.session.raters):
            if same(key, rater.key):
                return f"rater{number}"
        return None

    def _cookie(self, who: str) -> str:
        return f"{who}.{self.session.sign('cookie', who)}"
