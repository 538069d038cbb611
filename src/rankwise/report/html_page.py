"""A page of results in one HTML file, without scripts, fonts or pictures from elsewhere."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from rankwise.files import replacing

ENLARGED = 1.25  # text of 10 points in a figure is then as large as that of the page
_SIZE = re.compile(r'(<svg[^>]*?) width="([\d.]+)pt" height="[\d.]+pt"')


class PageElement(Protocol):
    """Anything that can stand on a page."""

    def to_html(self) -> str: ...


@dataclass(frozen=True)
class Text:
    """A paragraph; ``words in backticks`` are set as code."""

    text: str

    def to_html(self) -> str:
        return f"<p>{_inline(self.text)}</p>"


@dataclass(frozen=True)
class Code:
    """Lines of code."""

    text: str

    def to_html(self) -> str:
        return f"<pre><code>{html.escape(self.text)}</code></pre>"


@dataclass(frozen=True)
class Facts:
    """A few important numbers, each with a label."""

    facts: tuple[tuple[str, str], ...]

    def to_html(self) -> str:
        items = "".join(
            f"<div><dt>{html.escape(label)}</dt><dd>{html.escape(value)}</dd></div>"
            for value, label in self.facts
        )
        return f'<dl class="facts">{items}</dl>'


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Parameters
    ----------
    svg : str
        The drawing as SVG, as `rankwise.plots.figure_svg` gives it.
    alt : str
        A description, for readers who cannot see it.
    caption : str
        Text below it.
    """

    svg: str
    alt: str
    caption: str = ""

    def to_html(self, name: str = "figure") -> str:
        """Its HTML, with ids that begin with `name`: two drawings on a page must not share ids."""
        svg = re.sub(r"^.*?(?=<svg)", "", self.svg, count=1, flags=re.DOTALL)
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
        svg = _SIZE.sub(lambda size: f'{size[1]} width="{ENLARGED * float(size[2]):.0f}pt"', svg, 1)
        label = html.escape(self.alt, quote=True)
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
        caption = f"<figcaption>{_inline(self.caption)}</figcaption>" if self.caption else ""
        return f"<figure>{svg}{caption}</figure>"


@dataclass(frozen=True)
class Section:
    """A heading, which may be empty, and the elements below it."""

    heading: str
    blocks: Sequence[PageElement] = ()


@dataclass(frozen=True)
class Page:
    """A self-contained HTML page, light or dark as the reader's system is set.

    Parameters
    ----------
    title : str
    summary : str
        One or two sentences on what was done and what came out.
    sections : sequence of Section
    footer : str
    remark : str
        For programs that read the page; readers do not see it.

    Examples
    --------
    >>> how = Section("How", [Text("With `rankwise demo`.")])
    >>> page = Page("Two rankers", "On 30 queries they agree.", [how])
    >>> "<h2>How</h2>" in page.to_html()
    True
    """

    title: str
    summary: str
    sections: Sequence[Section] = field(default_factory=tuple)
    footer: str = ""
    remark: str = ""

    def to_html(self) -> str:
        """The whole document."""
        footer = f"<footer>{_inline(self.footer)}</footer>" if self.footer else ""
        remark = f"<!-- {html.escape(self.remark)} -->\n" if self.remark else ""
        body = "\n".join(self._sections())
        title = html.escape(self.title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n<main>\n"
            f'<header><h1>{title}</h1>\n<p class="summary">{_inline(self.summary)}</p></header>\n'
            f"{body}\n{footer}</main>\n{remark}</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the document to a file; an existing file is replaced at the end."""
        path = Path(path)
        with replacing(path) as beside:
            beside.write_text(self.to_html(), encoding="utf-8")
        return path

    def _sections(self) -> Iterator[str]:
        n_figures = 0
        for section in self.sections:
            parts = [f"<h2>{html.escape(section.heading)}</h2>"] if section.heading else []
            for block in section.blocks:
                if isinstance(block, Figure):
                    n_figures += 1
                    parts.append(block.to_html(f"figure-{n_figures}"))
                else:
                    parts.append(block.to_html())
            yield "<section>\n" + "\n".join(parts) + "\n</section>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


@cache
def _style() -> str:
    return files("rankwise.report").joinpath("html_page.css").read_text(encoding="utf-8")
