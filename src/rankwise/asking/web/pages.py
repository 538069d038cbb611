"""The pages of a session, rendered."""

from __future__ import annotations

import html
from collections.abc import MutableMapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined, select_autoescape
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rankwise.asking.session import Question, Session
from rankwise.asking.web.guards import Doorkeeper, Visitor
from rankwise.tables import plural

LONGEST = 20_000  # letters; the worst text of this length that we know takes 0.6 s
_NESTED = 20  # quotes and lists within each other
_KEPT = 256  # texts


@lru_cache(maxsize=_KEPT)
def markdown(text: str) -> Markup:
    """Headings, paragraphs, lists, quotes, code and emphasis as HTML; all else is escaped.

    HTML in the text is shown as text. Links and images are shown as their words with the address
    in parentheses: nothing is loaded from elsewhere. A text of more than 20,000 letters is shown
    as it is written. The time is proportional to the length, whatever the text, and the last 256
    results are kept.

    Examples
    --------
    >>> print(markdown("# Tea\\n\\n*Smoky* & `<b>`"))
    <h3>Tea</h3>
    <p><em>Smoky</em> &amp; <code>&lt;b&gt;</code></p>
    """
    if len(text) > LONGEST:
        return Markup(f"<pre>{html.escape(text)}</pre>")
    return Markup(_parser().render(text).strip())


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": _NESTED, "xhtmlOut": False}
    return MarkdownIt("commonmark", options, renderer_cls=_Plain).disable("reference")


class _Plain(RendererHTML):
    """HTML in which no tag has an attribute."""

    def link_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        return ""

    def link_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        depth = 0
        for at in range(place, -1, -1):
            token = tokens[at]
            depth += (token.type == "link_close") - (token.type == "link_open")
            if depth == 0:
                written_out = token.info == "auto"  # the words are the address
                return "" if written_out else _address(str(token.attrGet("href") or ""))
        return ""

    def image(
        self, tokens: Sequence[Token], idx: int, options: Any, env: MutableMapping[str, Any]
    ) -> str:
        words = self.renderInlineAsText(tokens[idx].children, options, env)
        return html.escape(words) + _address(str(tokens[idx].attrGet("src") or ""))

    def heading_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        return f"<{_lowered(tokens[place])}>"

    def heading_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        return f"</{_lowered(tokens[place])}>\n"

    def ordered_list_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        return "<ol>\n"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<pre><code>{html.escape(tokens[idx].content)}</code></pre>\n"


def _address(address: str) -> str:
    return f" ({html.escape(address)})" if address else ""


def _lowered(heading: Token) -> str:
    """The tag of a heading, below the headings of the page."""
    return f"h{min(6, 2 + int(heading.tag[1:]))}"


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
