"""The pages that ask: of raters, of the organizer, and the same as JSON for other front ends."""

from __future__ import annotations

import html
import io
import json
import socket
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import cache, lru_cache, partial
from importlib.resources import files
from threading import Lock
from typing import Any

import segno
import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from rankwise import __version__
from rankwise.asking import session_exports
from rankwise.asking.background import Background
from rankwise.asking.goals import Goal
from rankwise.asking.items import Item, check_items, sent_items, typed_items
from rankwise.asking.log import Log, NotSavedError
from rankwise.asking.session import AlreadyAnswered, Question, Refused, Session
from rankwise.asking.standings import ranks
from rankwise.asking.web.guards import (
    LARGEST_BODY,
    Doorkeeper,
    Guard,
    NoItemsYet,
    Visitor,
    as_number,
)
from rankwise.errors import ParameterError, RankwiseError
from rankwise.tables import plural

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
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
GOALS = {
    "order": ("the whole order", Goal()),
    "best": ("the best one", Goal("top", k=1)),
    "top3": ("the best three", Goal("top", k=3)),
    "top10": ("the best ten", Goal("top", k=10)),
}
LONGEST = 20_000  # letters; the worst text of this length that we know takes 0.6 s
_NESTED = 20  # quotes and lists within each other
_KEPT = 256  # texts
_HOURS = 12
_PAGE = 50  # answers on a page
_SHOWN = 200  # items, the best ones: the page is loaded every few seconds
Fields = dict[str, Any]
Show = Callable[[Request, Visitor], Response]
Read = Callable[[Request], Awaitable[tuple[Visitor, Fields]]]
Act = Callable[[Request, Visitor, Fields], Response]
Begin = Callable[[list[Item], Log, str, Goal], Session]


def make_app(
    session: Session | None,
    *,
    hosts: Sequence[str] = LOCAL_HOSTS,
    largest: int = LARGEST_BODY,
    door: Doorkeeper | None = None,
    begin: Begin | None = None,
    elsewhere: str = "rankwise ask FILE --host 0.0.0.0 --names ADDRESS",
) -> Starlette:
    """The page that asks, as an ASGI application.

    Parameters
    ----------
    session : Session, optional
        Updated in the background while the application runs. None: the first page asks for items.
    hosts : sequence of str
        Names under which the page may be called.
    largest : int
        Bytes that a request may have.
    door : Doorkeeper, optional
        Knows the one-time keys that it made. Needed without a session.
    begin : callable, optional
        Makes the session of items, a log with their pictures, a question and a goal. Needed without
        a session.
    elsewhere : str
        The command that goes on so that other machines can open the page.
    """
    if session is None and (door is None or begin is None):
        raise ParameterError("Without a session, door and begin are needed.")
    pages = Pages(session, door or Doorkeeper(session or NoItemsYet()), begin, elsewhere)

    @asynccontextmanager
    async def running(app: Any) -> Any:
        pages.start_computing()
        try:
            yield
        except CancelledError:  # Ctrl-C, twice
            pass
        finally:
            if pages.background is not None:
                await run_in_threadpool(pages.background.close)

    return Starlette(
        routes=pages.routes(),
        middleware=[Middleware(Guard, hosts=hosts, largest=largest)],
        exception_handlers={HTTPException: pages.refuse, RankwiseError: pages.refuse},
        lifespan=running,
    )


class Pages:
    """What a session answers to requests.

    A request for JSON has the header ``Authorization: Bearer KEY``, with the key of a link; or the
    cookie of the page, and then writes need the header ``X-CSRF-Token``.
    """

    background: Background | None = None

    def __init__(
        self, session: Session | None, door: Doorkeeper, begin: Begin | None, elsewhere: str
    ) -> None:
        self._session, self.door, self._make, self.elsewhere = session, door, begin, elsewhere
        self._beginning = Lock()
        self._computes = False

    @property
    def session(self) -> Session:
        """The session, which has begun."""
        if self._session is None:
            raise HTTPException(409, "There are no items yet: the organizer's page asks for them.")
        return self._session

    def start_computing(self) -> None:
        """Compute in the background from now on, or from the beginning of the session on."""
        self._computes = True
        if self._session is not None:
            self.background = Background(self._session)

    def routes(self) -> list[Route]:
        for_all: dict[str, Show] = {
            "/": self.ask,
            "/image/{name}": self.image,
            "/api/schema": lambda request, visitor: JSONResponse(schema()),
            "/api/progress": self.api_progress,
        }
        for_organizer: dict[str, Show] = {
            "/share": self.share,
            "/export/{name}": self.download,
            "/organizer": partial(self.overview, "organizer.html"),
            "/organizer/live": partial(self.overview, "live.html"),
            "/organizer/qr/{number}": self.qr,
            "/begin": self.beginning,
            "/organizer/answers": self.answers,
            "/api/ranking": self.api_ranking,
            "/api/answers": self.api_answers,
        }
        of_raters, of_organizer = self.door.read_form, partial(self.door.read_form, organizer=True)
        writes: dict[str, tuple[Read, Act]] = {
            "/answer": (of_raters, self.save),
            "/undo": (of_raters, self.undo),
            "/begin": (of_organizer, self.begin),
            "/organizer/rater": (of_organizer, self.rater),
            "/organizer/drop": (of_organizer, self.drop),
            "/organizer/item": (of_organizer, self.item),
            "/organizer/upload": (of_organizer, self.upload),
            "/organizer/pause": (of_organizer, self.pause),
            "/organizer/withdraw": (of_organizer, self.withdraw),
            "/organizer/change": (of_organizer, self.change),
            "/api/question": (self.door.read_json, self.api_question),
            "/api/answer": (self.door.read_json, self.api_answer),
            "/api/undo": (self.door.read_json, self.api_undo),
        }
        return [
            Route("/start", self.start),
            Route("/static/{name}", self.static),
            *(Route(path, self._reading(act)) for path, act in for_all.items()),
            *(
                Route(path, self._reading(act, organizer=True))
                for path, act in for_organizer.items()
            ),
            *(Route(path, self._writing(*how), methods=["POST"]) for path, how in writes.items()),
        ]

    def _reading(self, act: Show, *, organizer: bool = False) -> Callable[[Request], Response]:
        def route(request: Request) -> Response:
            visitor = self.door.visitor(request, organizer=organizer)
            if self._session is None and request.url.path in ("/", "/organizer"):
                return _go_to("/begin")
            return act(request, visitor)

        return route

    def _writing(self, read: Read, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def route(request: Request) -> Response:
            return await run_in_threadpool(act, request, *await read(request))

        return route

    # For everybody

    async def start(self, request: Request) -> Response:
        """Swap the key in the first address for a cookie."""
        cookie = self.door.cookie_of(request.query_params.get("token", ""))
        if cookie is None:
            raise HTTPException(
                403,
                "This link is not known, or it was for one use. Ask the organizer for a new one; "
                "the organizer's link is in the terminal where rankwise ask was started.",
            )
        response = _go_to("/organizer" if cookie.startswith("organizer.") else "/")
        response.set_cookie(
            self.door.cookie_name,
            cookie,
            max_age=90 * 24 * 3600,
            httponly=True,
            samesite="lax",  # strict would not let a link in a mail open the page
            secure=request.scope["scheme"] == "https",
        )
        return response

    def static(self, request: Request) -> Response:
        """Style and scripts, which need no key."""
        name = request.path_params["name"]
        if name not in ASSETS:
            raise HTTPException(404, "There is no such file.")
        data = files("rankwise.asking.web").joinpath("static", name).read_bytes()
        headers = {"Cache-Control": "max-age=3600"}
        return Response(data, media_type=ASSETS[name], headers=headers)

    def image(self, request: Request, visitor: Visitor) -> Response:
        """The picture of an item, by the name that the log gave it."""
        kept = self.session.log.get_file(request.path_params["name"])
        if kept is None:
            raise HTTPException(404, "There is no such image.")
        data, media_type = kept
        headers = {
            "Content-Security-Policy": IMAGE_POLICY,
            "Cache-Control": "private, max-age=86400, immutable",
        }
        return Response(data, media_type=media_type, headers=headers)

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
        asked = self._session is not None and request.method == "POST"
        if asked and path in ("/answer", "/undo") and status != 403:
            with suppress(HTTPException, RankwiseError):  # nothing to ask: the words alone
                visitor = self.door.visitor(request)
                question = self.session.ask(visitor.rater)
                return self._asking(request, visitor, question, alert=words, status=status)
        return render("error.html", status, words=words, status=status)

    def _page(self, template: str, visitor: Visitor, code: int = 200, /, **values: Any) -> Response:
        """A template with what all pages show, and more values."""
        common = {"session": self.session, "settings": self.session.settings, "visitor": visitor}
        return render(template, code, **common, csrf=self.door.csrf(visitor), **values)

    # Before there are items

    def beginning(self, request: Request, visitor: Visitor) -> Response:
        """The page that asks for items."""
        return self._items_page(visitor) if self._session is None else _go_to("/organizer")

    def begin(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        """Begin the session with items that were typed, pasted or sent as files.

        Nothing is kept unless all of them can be.
        """
        with self._beginning:
            if self._session is None:
                try:
                    self._session = self._begun(form)
                except RankwiseError as error:
                    given = {name: _text(form, name) for name in ("question", "goal", "items")}
                    return self._items_page(
                        visitor, 400, alert=str(error), files=form["files"], **given
                    )
                self.door.session = self._session
                if self._computes:
                    self.start_computing()
        return _go_to("/organizer")

    def _begun(self, form: Fields) -> Session:
        pictures = Log()  # in memory
        made = typed_items(_text(form, "items"), pictures.put_file)
        for name, data in form["files"]:
            made += sent_items(name, data, pictures.put_file)
        made = check_items(made)
        if len(made) < 2:
            raise Refused(f"Two or more items are needed: got {plural(len(made), 'item')}.")
        goal = GOALS.get(_text(form, "goal"), GOALS["order"])[1]
        goal.check_items(len(made))
        assert self._make is not None
        return self._make(made, pictures, _text(form, "question").strip(), goal)

    def _items_page(self, visitor: Visitor, code: int = 200, /, **given: Any) -> Response:
        empty = {"question": "", "goal": "order", "items": "", "alert": "", "files": []}
        shown = {**empty, **given, "goals": {name: words for name, (words, _) in GOALS.items()}}
        return render("begin.html", code, csrf=self.door.csrf(visitor), **shown)

    # For raters

    def ask(self, request: Request, visitor: Visitor) -> Response:
        """The next pair."""
        return self._asking(request, visitor, self.session.ask(visitor.rater))

    def save(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        """Save an answer, and show the next pair."""
        token, outcome = str(form.get("token", "")), str(form.get("outcome", ""))
        self.session.answer(token, outcome, rater=visitor.rater)
        return self._asking(request, visitor, self.session.ask(visitor.rater), said="Saved.")

    def undo(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        """Take the last answer back, and ask again."""
        question = self.session.undo(visitor.rater)
        return self._asking(request, visitor, question, said="Taken back. Answer again.")

    def _asking(
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
            return _go_to("/")  # to load the page again is not to send it again
        template, progress = "asking.html" if part else "ask.html", self.session.progress()
        shown = {"question": question, "progress": progress, "said": said, "alert": alert}
        return self._page(template, visitor, status, **shown)

    # For the organizer

    def share(self, request: Request, visitor: Visitor) -> Response:
        """The page for sharing, to look at."""
        headers = {"Content-Security-Policy": SHARE_POLICY}
        return HTMLResponse(session_exports.share_page(self.session), headers=headers)

    def download(self, request: Request, visitor: Visitor) -> Response:
        """A file with results."""
        name = request.path_params["name"]
        if name not in DOWNLOADS:
            raise HTTPException(404, "There is no such file.")
        make, media_type = DOWNLOADS[name]
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Security-Policy": SHARE_POLICY,
        }
        return Response(make(self.session), media_type=media_type, headers=headers)

    def answers(self, request: Request, visitor: Visitor) -> Response:
        """Who answered what, the last first."""
        rater = request.query_params.get("rater", "")
        found = [a for a in reversed(self.session.answers) if not rater or a.rater == rater]
        pages = max(1, -(-len(found) // _PAGE))
        page = min(pages, max(1, as_number(request.query_params.get("page", "1")) or 1))
        shown = {"answers": found[(page - 1) * _PAGE : page * _PAGE], "total": len(found)}
        place = {"page": page, "pages": pages, "rater": rater, "when": _when}
        return self._page("answers.html", visitor, **shown, **place)

    def overview(self, template: str, request: Request, visitor: Visitor) -> Response:
        """Everything at a glance, or the part of it that changes by itself."""
        session = self.session
        ranking, progress = session.ranking(), session.progress()
        rows = ranking.rows(_SHOWN)
        for row in rows:
            row["score"] = round(row["score"], 2) + 0.0  # not "-0.00"
            row["p_top"], row["ranks"] = row[f"p_top_{ranking.k}"], ranks(row)
        times = [a.time for a in session.answers if a.outcome != "skip" and not a.withdrawn]
        return self._page(
            template,
            visitor,
            progress=progress,
            ranking=ranking,
            rows=rows,
            reports={report.name: report for report in session.rater_reports()},
            base=_start(request),
            reachable=request.url.hostname not in LOCAL_HOSTS,
            elsewhere=self.elsewhere,
            hours=_per_hour(times),
            error=self.background.error if self.background else "",
        )

    def qr(self, request: Request, visitor: Visitor) -> Response:
        """The link of a rater as a QR code, for phones."""
        number, raters = as_number(request.path_params["number"]), self.session.raters
        if number is None or number >= len(raters):
            raise HTTPException(404, "There is no such rater.")
        headers = {"Content-Security-Policy": IMAGE_POLICY}
        link = f"{_start(request)}{raters[number].key}"
        image = io.BytesIO()
        code = segno.make(link, error="m", mode="byte", boost_error=False, micro=False)
        code.save(image, kind="svg", scale=4, light="#fff")
        return Response(image.getvalue(), media_type="image/svg+xml", headers=headers)

    def rater(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        self.session.add_rater(_text(form, "name"))
        return _go_to("/organizer#raters")

    def drop(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        self.session.drop_rater(_text(form, "rater"), dropped=_text(form, "dropped") == "1")
        return _go_to("/organizer#raters")

    def pause(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        self.session.pause(_text(form, "paused") == "1")
        return _go_to("/organizer")

    def withdraw(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        self.session.withdraw(_number(form, "answer"))
        return _go_to("/organizer/answers")

    def change(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        self.session.change(_number(form, "answer"), _text(form, "outcome"))
        return _go_to("/organizer/answers")

    def item(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        name, text = _text(form, "id"), _text(form, "text").strip()
        return self._add([Item(name, text=text, markdown=_text(form, "markdown") == "1")])

    def upload(self, request: Request, visitor: Visitor, form: Fields) -> Response:
        """Add the items of tables, and images and texts as items."""
        pictures, given = Log(), []  # in memory, until all items can be kept
        for name, data in form["files"]:
            given += sent_items(name, data, pictures.put_file)
        if not given:
            raise Refused("Choose a file with something in it.")
        known = {item.id for item in self.session.items}
        new = check_items(item for item in given if item.id not in known)
        if not new:
            raise Refused("All of these items are here already.")
        self.session.log.take_files(pictures, {item.image for item in new})
        return self._add(new)

    def _add(self, items: list[Item]) -> Response:
        if self.session.items[0].features:
            raise Refused(
                "These items have features, which a new item needs too: add it to the file, and "
                "start rankwise ask again."
            )
        self.session.add_items(items)
        return _go_to("/organizer#items")

    # As JSON

    def api_progress(self, request: Request, visitor: Visitor) -> Response:
        session, left = self.session, self.session.progress().answers_left
        state = {"answers_left": left, "paused": session.paused}
        found = session_exports.how_far(session)
        return JSONResponse({"advice": session.settings.advice, **found, **state})

    def api_ranking(self, request: Request, visitor: Visitor) -> Response:
        found = self.session.ranking()
        return JSONResponse({"interval": found.level, "ranking": found.rows()})

    def api_answers(self, request: Request, visitor: Visitor) -> Response:
        return JSONResponse({"answers": [asdict(answer) for answer in self.session.answers]})

    def api_question(self, request: Request, visitor: Visitor, body: Fields) -> Response:
        return JSONResponse({"question": _question(self.session.ask(visitor.rater))})

    def api_answer(self, request: Request, visitor: Visitor, body: Fields) -> Response:
        token, outcome = str(body.get("token")), body.get("outcome", "")
        saved = self.session.answer(token, outcome, rater=visitor.rater)
        following = _question(self.session.ask(visitor.rater))
        return JSONResponse({"answer": asdict(saved), "question": following})

    def api_undo(self, request: Request, visitor: Visitor, body: Fields) -> Response:
        return JSONResponse({"question": _question(self.session.undo(visitor.rater))})


def _question(question: Question | None) -> dict[str, Any] | None:
    if question is None:
        return None
    sides = {"first": _item(question.first), "second": _item(question.second)}
    return {"token": question.token, "rater": question.rater, **sides}


def _item(item: Item) -> dict[str, Any]:
    image = f"/image/{item.image}" if item.image else ""
    shown = {"text": item.shown, "markdown": item.markdown, "image": image, "facts": item.facts}
    return {"id": item.id, **shown}


@cache
def schema() -> dict[str, Any]:
    """The routes in the words of OpenAPI, from the file ``schema.json``.

    Examples
    --------
    >>> from rankwise.asking.web.app import schema
    >>> sorted(schema()["paths"])[:2]
    ['/api/answer', '/api/answers']
    """
    text = files("rankwise.asking.web").joinpath("schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    found["info"]["version"] = __version__
    return found


def _go_to(address: str) -> RedirectResponse:
    return RedirectResponse(address, status_code=303)


def _start(request: Request) -> str:
    """What links of raters begin with."""
    return f"{request.url.scheme}://{request.url.netloc}/start?token="


def _text(form: Fields, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _number(form: Fields, name: str) -> int:
    number = as_number(text := _text(form, name))
    if number is None:
        raise Refused(f"{name} must be a number: got {text[:40]!r}.")
    return number


def _per_hour(times: list[float]) -> list[int]:
    """Answers in each of the last hours; answers from a clock that was set back count as now."""
    ago = [max(0, int((time.time() - when) // 3600)) for when in times]
    return [ago.count(hours) for hours in reversed(range(_HOURS))]


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@cache
def environment() -> Environment:
    """The templates; everything that is put into them is escaped."""
    made = Environment(
        loader=PackageLoader("rankwise.asking.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"markdown": markdown, "plural": plural}
    return made


def render(template: str, code: int = 200, /, **values: Any) -> Response:
    """A template with values."""
    return HTMLResponse(environment().get_template(template).render(**values), code)


@lru_cache(maxsize=_KEPT)
def markdown(text: str) -> Markup:
    """Headings, paragraphs, lists, quotes, code and emphasis as HTML; all else is escaped.

    HTML, links and images are shown as they are written: nothing is loaded from elsewhere. So is a
    text of more than 20,000 letters. The time is proportional to the length, whatever the text,
    and the last 256 results are kept.

    Examples
    --------
    >>> print(markdown("# Tea\\n\\n*Smoky* & `<b>`"))
    <h3>Tea</h3>
    <p><em>Smoky</em> &amp; <code>&lt;b&gt;</code></p>
    """
    if len(text) > LONGEST:
        return Markup(f"<pre>{html.escape(text)}</pre>")
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:  # no tag has an attribute, and headings are below the page's headings
        token.attrs, token.info = {}, ""
        if token.type.startswith("heading"):
            token.tag = f"h{min(6, 2 + int(token.tag[1:]))}"
    return Markup(parser.renderer.render(tokens, parser.options, {}).strip())


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": _NESTED, "xhtmlOut": False}
    found = MarkdownIt("commonmark", options)
    return found.disable(["reference", "link", "image", "autolink"])


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ParameterError(
            f"The page cannot be served at {host}, port {port}: {error.strerror}. Use another "
            "port, or port 0 for any that is free."
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
