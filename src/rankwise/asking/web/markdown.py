"""Markdown that is safe to show: CommonMark without HTML, links or images."""

from __future__ import annotations

import html
from collections.abc import MutableMapping, Sequence
from functools import cache, lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

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
