"""The routes of the page that asks."""

from __future__ import annotations

import socket
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from rankwise.asking import session_exports
from rankwise.asking.background import Background
from rankwise.asking.log import NotSavedError
from rankwise.asking.session import AlreadyAnswered, Question, Session
from rankwise.asking.web.api import ApiRoutes
from rankwise.asking.web.guards import LARGEST_BODY, Doorkeeper, Guard, Visitor
from rankwise.asking.web.organizer import OrganizerRoutes
from rankwise.asking.web.templating import Pages, render
from rankwise.errors import ParameterError, RankwiseError

ASSETS = {
    "ask.css": "text/css; charset=utf-8",
    "ask.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
# An image may be an SVG with scripts: opened by itself, it is a page without any rights.
IMAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
SHARE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
CSV = "text/csv; charset=utf-8"
DOWNLOADS: dict[str, tuple[Callable[[Session], str | bytes], str]] = {
    "ranking.csv": (session_exports.ranking_csv, CSV),
    "ranking-for-spreadsheets.csv": (session_exports.ranking_for_spreadsheets, CSV),
    "ranking.json": (session_exports.ranking_json, "application/json"),
    "comparisons.csv": (session_exports.comparisons_csv, CSV),
    "comparisons-for-spreadsheets.csv": (session_exports.comparisons_for_spreadsheets, CSV),
    "battles.csv": (session_exports.battles_csv, CSV),
    "model.rankwise": (session_exports.model_bytes, "application/octet-stream"),
    "share.html": (session_exports.share_page, "text/html; charset=utf-8"),
}
LOCAL_HOSTS = ("127.0.0.1", "localhost")


def make_app(
    session: Session,
    *,
    hosts: Sequence[str] = LOCAL_HOSTS,
    largest: int = LARGEST_BODY,
    door: Doorkeeper | None = None,
) -> Starlette:
    """The page that asks, as an ASGI application.

    Parameters
    ----------
    session : Session
        Updated in the background while the application runs.
    hosts : sequence of str
        Names under which the page may be called.
    largest : int
        Bytes that a request may have.
    door : Doorkeeper, optional
        Knows the one-time keys that it made.
    """
    routes = _AskRoutes(session, door or Doorkeeper(session))
    organizer = OrganizerRoutes(session, routes.door)
    api = ApiRoutes(session, routes.door)

    @asynccontextmanager
    async def running(app: Any) -> Any:
        background = organizer.background = Background(session)
        try:
            yield
        except CancelledError:  # Ctrl-C, twice
            pass
        finally:
            await run_in_threadpool(background.close)

    return Starlette(
        routes=[*routes.routes(), *organizer.routes(), *api.routes()],
        middleware=[Middleware(Guard, hosts=hosts, largest=largest)],
        exception_handlers={HTTPException: routes.refuse, RankwiseError: routes.refuse},
        lifespan=running,
    )


class _AskRoutes(Pages):
    """The pages of raters."""

    def routes(self) -> list[Route]:
        return [
            Route("/start", self.start),
            Route("/", self.ask),
            Route("/answer", self.writing(self.save), methods=["POST"]),
            Route("/undo", self.writing(self.undo), methods=["POST"]),
            Route("/image/{name}", self.image),
            Route("/static/{name}", self.static),
            Route("/share", self.share),
            Route("/export/{name}", self.download),
        ]

    async def start(self, request: Request) -> Response:
        """Swap the key in the first address for a cookie."""
        cookie = self.door.cookie_of(request.query_params.get("token", ""))
        if cookie is None:
            raise HTTPException(
                403,
                "This link is not known, or it was for one use. Ask the organizer for a new one; "
                "the organizer's link is in the terminal where rankwise ask was started.",
            )
        organizer = cookie.startswith("organizer.")
        response = RedirectResponse("/organizer" if organizer else "/", status_code=303)
        response.set_cookie(
            self.door.cookie_name,
            cookie,
            max_age=90 * 24 * 3600,
            httponly=True,
            samesite="lax",  # strict would not let a link in a mail open the page
            secure=request.scope["scheme"] == "https",
        )
        return response

    def ask(self, request: Request) -> Response:
        """The next pair."""
        visitor = self.door.visitor(request)
        return self._page(request, visitor, self.session.ask(visitor.rater))

    def save(self, request: Request, visitor: Visitor, form: dict[str, Any]) -> Response:
        """Save an answer, and show the next pair."""
        token, outcome = str(form.get("token", "")), str(form.get("outcome", ""))
        self.session.answer(token, outcome, rater=visitor.rater)
        return self._page(request, visitor, self.session.ask(visitor.rater), said="Saved.")

    def undo(self, request: Request, visitor: Visitor, form: dict[str, Any]) -> Response:
        """Take the last answer back, and ask again."""
        question = self.session.undo(visitor.rater)
        return self._page(request, visitor, question, said="Taken back. Answer again.")

    def image(self, request: Request) -> Response:
        """The picture of an item, by the name that the log gave it."""
        self.door.visitor(request)
        kept = self.session.log.get_file(request.path_params["name"])
        if kept is None:
            raise HTTPException(404, "There is no such image.")
        data, media_type = kept
        headers = {
            "Content-Security-Policy": IMAGE_POLICY,
            "Cache-Control": "private, max-age=86400, immutable",
        }
        return Response(data, media_type=media_type, headers=headers)

    def static(self, request: Request) -> Response:
        """Style and scripts, which need no key."""
        name = request.path_params["name"]
        if name not in ASSETS:
            raise HTTPException(404, "There is no such file.")
        data = files("rankwise.asking.web").joinpath("static", name).read_bytes()
        headers = {"Cache-Control": "max-age=3600"}
        return Response(data, media_type=ASSETS[name], headers=headers)

    def share(self, request: Request) -> Response:
        """The page for sharing, to look at."""
        self.door.visitor(request, organizer=True)
        headers = {"Content-Security-Policy": SHARE_POLICY}
        page = session_exports.share_page(self.session)
        return Response(page, media_type="text/html", headers=headers)

    def download(self, request: Request) -> Response:
        """A file with results."""
        self.door.visitor(request, organizer=True)
        name = request.path_params["name"]
        if name not in DOWNLOADS:
            raise HTTPException(404, "There is no such file.")
        make, media_type = DOWNLOADS[name]
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Security-Policy": SHARE_POLICY,
        }
        return Response(make(self.session), media_type=media_type, headers=headers)

    def writing(
        self, act: Callable[[Request, Visitor, dict[str, Any]], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A route for a form of ours, whose signature is checked."""

        async def route(request: Request) -> Response:
            visitor, form = await self.door.read_form(request)
            return await run_in_threadpool(act, request, visitor, form)

        return route

    def _page(
        self,
        request: Request,
        visitor: Visitor,
        question: Question | None,
        *,
        said: str = "",
        alert: str = "",
        status: int = 200,
    ) -> Response:
        """The page with a pair, or only its changing part for htmx."""
        part = request.headers.get("hx-request") == "true"
        if request.method == "POST" and not part and status == 200:
            return RedirectResponse("/", 303)  # to load the page again is not to send it again
        template, progress = "asking.html" if part else "ask.html", self.session.progress()
        shown = {"question": question, "progress": progress, "said": said, "alert": alert}
        return self.page(template, visitor, status, **shown)

    def refuse(self, request: Request, error: Exception) -> Response:
        """An error message, as JSON or as a page."""
        status, words = 400, str(error)
        if isinstance(error, HTTPException):
            status, words = error.status_code, error.detail
        else:
            status = 507 if isinstance(error, NotSavedError) else status
            status = 409 if isinstance(error, AlreadyAnswered) else status
        words = words.encode("utf-8", "backslashreplace").decode()  # halves of letters
        path = request.scope["path"]
        if path.startswith("/api/"):
            return JSONResponse({"error": words}, status)
        if request.method == "POST" and path in ("/answer", "/undo") and status != 403:
            with suppress(HTTPException, RankwiseError):  # nothing to ask: the words alone
                visitor = self.door.visitor(request)
                question = self.session.ask(visitor.rater)
                return self._page(request, visitor, question, alert=words, status=status)
        return render("error.html", status, words=words, status=status)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ParameterError(
            f"The page cannot be served at {host}, port {port}: {error.strerror}. Use another "
            "--port, or --port 0 for any that is free."
        ) from error


def make_server(app: Any) -> uvicorn.Server:
    """A server for an application, without a banner."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=64 * 1024,
    )
    return uvicorn.Server(config)
