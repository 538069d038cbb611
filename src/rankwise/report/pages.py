"""Pages of results, as one HTML file or as Markdown, and tables that compare rankers.

HTML pages need no scripts, fonts or pictures from elsewhere.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from rankwise.errors import DataError
from rankwise.files import replacing, write_text
from rankwise.metric_names import described, is_gain
from rankwise.metrics import RankingEvaluation, paired_test
from rankwise.plots import figure_svg
from rankwise.tables import Column, Table

ENLARGED = 1.25  # text of 10 points in a figure is then as large as the text of the page
_SIZE = re.compile(r'(<svg[^>]*?) width="([\d.]+)pt" height="[\d.]+pt"')


class PageElement(Protocol):
    """Anything that can stand on a page."""

    def to_html(self) -> str: ...


@dataclass(frozen=True)
class Text:
    """A paragraph; ``words in backticks`` are set as code.

    Examples
    --------
    >>> from rankwise.report import Text
    >>> Text("Run `rankwise demo`.").to_html()
    '<p>Run <code>rankwise demo</code>.</p>'
    """

    text: str

    def to_html(self) -> str:
        return f"<p>{_inline(self.text)}</p>"

    def to_markdown(self) -> str:
        return self.text


@dataclass(frozen=True)
class Code:
    """Lines of code.

    Examples
    --------
    >>> from rankwise.report import Code
    >>> Code("rankwise demo").to_html()
    '<pre><code>rankwise demo</code></pre>'
    """

    text: str

    def to_html(self) -> str:
        return f"<pre><code>{html.escape(self.text)}</code></pre>"

    def to_markdown(self) -> str:
        return f"```\n{self.text.rstrip()}\n```"


@dataclass(frozen=True)
class Facts:
    """A few important numbers, each with a label.

    Examples
    --------
    >>> from rankwise.report import Facts
    >>> Facts((("0.98", "NDCG@10"), ("75", "queries"))).to_markdown().splitlines()
    ['- NDCG@10: **0.98**', '- queries: **75**']
    """

    facts: tuple[tuple[str, str], ...]

    def to_html(self) -> str:
        items = "".join(
            f"<div><dt>{html.escape(label)}</dt><dd>{html.escape(value)}</dd></div>"
            for value, label in self.facts
        )
        return f'<dl class="facts">{items}</dl>'

    def to_markdown(self) -> str:
        return "\n".join(f"- {label}: **{value}**" for value, label in self.facts)


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Parameters
    ----------
    svg : str
        The drawing as SVG, as returned by `rankwise.plots.figure_svg`.
    alt : str
        A description, for readers who cannot see it.
    caption : str
        Text below it.

    Examples
    --------
    >>> from rankwise.report import Figure
    >>> Figure("<svg></svg>", alt="A curve", caption="It rises.").to_markdown("curve.svg")
    '![A curve](curve.svg)\\n\\n*It rises.*'
    """

    svg: str
    alt: str
    caption: str = ""

    @classmethod
    def of(cls, ax: Any, alt: str, caption: str = "") -> Figure:
        """The figure of matplotlib Axes."""
        return cls(figure_svg(ax.figure), alt, caption)

    def to_html(self, name: str = "figure") -> str:
        """Its HTML, with ids that begin with `name`: two drawings on a page must not share ids."""
        svg = re.sub(r"^.*?(?=<svg)", "", self.svg, count=1, flags=re.DOTALL)
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
        svg = _SIZE.sub(lambda size: f'{size[1]} width="{ENLARGED * float(size[2]):.0f}pt"', svg, 1)
        label = html.escape(self.alt, quote=True)
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
        caption = f"<figcaption>{_inline(self.caption)}</figcaption>" if self.caption else ""
        return f"<figure>{svg}{caption}</figure>"

    def to_markdown(self, name: str = "figure.svg") -> str:
        """A link to the drawing in the file `name`, and the caption."""
        caption = f"\n\n*{self.caption}*" if self.caption else ""
        return f"![{self.alt}]({name}){caption}"


@dataclass(frozen=True)
class Folded:
    """Elements that are shown when the reader opens them.

    Examples
    --------
    >>> from rankwise.report import Folded, Text
    >>> Folded("2026-11", [Text("On 30 queries.")]).to_html()
    '<details><summary>2026-11</summary><p>On 30 queries.</p></details>'
    """

    heading: str
    blocks: Sequence[PageElement]

    def to_html(self) -> str:
        inner = "".join(block.to_html() for block in self.blocks)
        return f"<details><summary>{html.escape(self.heading)}</summary>{inner}</details>"


@dataclass(frozen=True)
class Section:
    """A heading, which may be empty, and the elements below it.

    Examples
    --------
    >>> from rankwise.report import Page, Section, Text
    >>> page = Page("Two rankers", "They agree.", [Section("How", [Text("On 30 queries.")])])
    >>> "<h2>How</h2>" in page.to_html()
    True
    """

    heading: str
    blocks: Sequence[PageElement] = ()


@dataclass(frozen=True)
class Page:
    """A self-contained HTML page, light or dark as the reader's system is set.

    Parameters
    ----------
    title : str
    summary : str
        One or two sentences on what was done and what was found.
    sections : sequence of Section
    footer : str

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

    def to_html(self) -> str:
        """The whole document."""
        footer = f"<footer>{_inline(self.footer)}</footer>" if self.footer else ""
        body = "\n".join(self._sections())
        title = html.escape(self.title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n<main>\n"
            f'<header><h1>{title}</h1>\n<p class="summary">{_inline(self.summary)}</p></header>\n'
            f"{body}\n{footer}</main>\n</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the document to a file; an existing file is replaced at the end."""
        write_text(path, self.to_html())
        return Path(path)

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


def write_markdown(page: Page, path: str | os.PathLike[str]) -> Path:
    """Write a page as Markdown, and its pictures beside it.

    Parameters
    ----------
    page : Page
    path : path-like
        Pictures are written beside it: for card.md, they are card-1.svg, card-2.svg, ...

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from rankwise.report import Page, Section, Text, write_markdown
    >>> page = Page("Two rankers", "They agree.", [Section("How", [Text("By `demo`.")])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(write_markdown(page, f"{folder}/page.md").read_text())
    # Two rankers
    <BLANKLINE>
    They agree.
    <BLANKLINE>
    ## How
    <BLANKLINE>
    By `demo`.
    <BLANKLINE>
    """
    path = Path(path)
    pictures: list[tuple[Path, str]] = []
    parts = [f"# {page.title}", page.summary]
    for section in page.sections:
        if section.heading:
            parts.append(f"## {section.heading}")
        for block in section.blocks:
            if isinstance(block, Figure):
                picture = path.with_name(f"{path.stem}-{len(pictures) + 1}.svg")
                pictures.append((picture, block.svg))
                parts.append(block.to_markdown(picture.name))
            elif hasattr(block, "to_markdown"):
                parts.append(block.to_markdown())
            else:
                raise TypeError(f"There is no Markdown for {type(block).__name__}.")
    if page.footer:
        parts.append(f"*{page.footer}*")
    with ExitStack() as stack:
        for picture, svg in pictures:
            beside = stack.enter_context(replacing(picture))
            beside.write_text(svg, encoding="utf-8")
        beside = stack.enter_context(replacing(path))
        beside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def comparison_table(
    evaluations: Mapping[str, RankingEvaluation],
    *,
    metrics: Sequence[str] | None = None,
    title: str = "",
    note: str = "",
) -> Table:
    """Rankers side by side, the best mean of each metric in bold.

    Every other ranker is compared with the first by the two-sided p-value of a paired Wilcoxon
    signed-rank test over queries.

    Parameters
    ----------
    evaluations : mapping of str to RankingEvaluation
        Names and evaluations on the same rows, the ranker of interest first.
    metrics : sequence of str, optional
        Which metrics, in which order. By default all that every ranker has.
    title, note : str, optional
        Text above and below the table.

    Examples
    --------
    >>> from rankwise.metrics import evaluate_ranking
    >>> y, qid = [1, 0, 0, 1], ["a", "a", "b", "b"]
    >>> good, bad = evaluate_ranking(y, y, qid), evaluate_ranking(y, [1, 0, 1, 0], qid)
    >>> print(comparison_table({"good": good, "bad": bad}, metrics=["MAP", "disagreement"]))
    metric                            good     bad  p
    ------------------------------  ------  ------  -
    MAP                             1.0000  0.7500  1
    disagreement (lower is better)  0.0000  0.5000  1
    """
    if not evaluations:
        raise DataError("There is nothing to compare: give at least one evaluation.")
    (first_name, first), *others = evaluations.items()
    names = _common_metrics(evaluations, metrics)
    columns = [Column("metric", ""), Column(first_name)]
    for name, _ in others:
        columns += [Column(name), Column("p" if len(others) == 1 else f"p ({name})", ".2g")]
    rows: list[tuple[Any, ...]] = []
    best: set[tuple[int, int]] = set()
    for metric in names:
        row: list[Any] = [described(metric), first[metric]]
        for _, other in others:
            row += [other[metric], _p_value(first, other, metric)]
        best |= {(len(rows), c) for c in _best(row, metric)}
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows), title, note, frozenset(best))


def _common_metrics(
    evaluations: Mapping[str, RankingEvaluation], metrics: Sequence[str] | None
) -> list[str]:
    (first, *others) = evaluations.values()
    common = [name for name in first.means if all(name in other.means for other in others)]
    if metrics is None:
        return common
    unknown = [name for name in metrics if name not in common]
    if unknown:
        raise DataError(
            f"Not every ranker has {unknown[0]!r}. All have {', '.join(map(repr, common))}."
        )
    return list(metrics)


def _p_value(a: RankingEvaluation, b: RankingEvaluation, metric: str) -> float | None:
    """The p-value of a paired test; None for a single query."""
    if len(a.per_query[metric]) < 2:
        return None
    return paired_test(a, b, metric).p_value


def _best(row: Sequence[Any], metric: str) -> list[int]:
    """Columns with the best mean, as rounded in the table; none if there is a single mean."""
    columns = [1, *range(2, len(row), 2)]
    if len(columns) == 1:
        return []
    choose = max if is_gain(metric) else min
    shown = {c: round(float(row[c]), 4) for c in columns}
    return [c for c in columns if shown[c] == choose(shown.values())]
