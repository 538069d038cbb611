"""The templates of all pages, and Markdown that is safe to show in them."""

from __future__ import annotations

import html
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from rankwise.asking.session import Session
from rankwise.asking.web.guards import Doorkeeper, Visitor
from rankwise.tables import plural

LONGEST = 20_000  # letters; the worst text of this length that we know takes 0.6 s
_NESTED = 20  # quotes and lists within each other
_KEPT = 256  # texts


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


class Pages:
    """Pages of a session for visitors."""

    def __init__(self, session: Session, door: Doorkeeper) -> None:
        self.session, self.door = session, door

    def page(self, template: str, visitor: Visitor, code: int = 200, /, **values: Any) -> Response:
        """A template with what all pages show, and more values."""
        common = {"session": self.session, "settings": self.session.settings, "visitor": visitor}
        return render(template, code, **common, csrf=self.door.csrf(visitor), **values)


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
