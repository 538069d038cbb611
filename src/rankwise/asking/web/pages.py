"""The pages of a session, rendered."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rankwise.asking.session import Question, Session
from rankwise.asking.web.guards import Doorkeeper, Visitor
from rankwise.asking.web.markdown import markdown
from rankwise.tables import plural

TEMPLATES = (
    *("base.html", "ask.html", "asking.html", "error.html"),
    *("organizer.html", "live.html", "answers.html"),
)


@cache
def environment() -> Environment:
    """The templates; everything that is put into them is escaped."""
    folder = files("rankwise.asking.web").joinpath("templates")
    loaded = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in TEMPLATES}
    made = Environment(
        loader=DictLoader(loaded),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["markdown"] = markdown
    made.filters["plural"] = plural
    return made


class Pages:
    """Renders pages for visitors."""

    def __init__(self, session: Session, door: Doorkeeper) -> None:
        self.session, self.door = session, door

    def ask(
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
        session = self.session
        progress = session.progress()
        done = session.n_answers()
        left = progress.answers_left
        template = "asking.html" if part else "ask.html"
        return self.render(
            template,
            status,
            visitor=visitor,
            csrf=self.door.csrf(visitor),
            question=question,
            settings=session.settings,
            paused=session.paused,
            progress=progress,
            done=done,
            mine=session.n_answers(visitor.rater),
            undoable=session.can_undo(visitor.rater),
            total=done + (left or 0),
            said=said,
            alert=alert,
        )

    def error(self, request: Request, words: str, status: int) -> Response:
        """A page that says what went wrong."""
        return self.render("error.html", status, words=words, status=status)

    def render(self, template: str, code: int = 200, /, **values: Any) -> Response:
        """A template with values."""
        return HTMLResponse(environment().get_template(template).render(**values), code)
