"""A page of results as Markdown, with its pictures as files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from rankwise.files import replacing
from rankwise.report.html_page import Code, Facts, Figure, Page, PageElement, Text
from rankwise.tables import Table


def write_markdown(page: Page, path: str | os.PathLike[str]) -> Path:
    """Write a page as Markdown, and its pictures beside it.

    Parameters
    ----------
    page : Page
    path : path-like
        Pictures are written beside it: those of card.md are card-1.svg, card-2.svg, ...

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
                parts.append(f"![{block.alt}]({picture.name})")
                if block.caption:
                    parts.append(f"*{block.caption}*")
            else:
                parts.append(_markdown(block))
    if page.footer:
        parts.append(f"*{page.footer}*")
    with ExitStack() as stack:
        for picture, svg in pictures:
            beside = stack.enter_context(replacing(picture))
            beside.write_text(svg, encoding="utf-8")
        beside = stack.enter_context(replacing(path))
        beside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _markdown(block: PageElement) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Code):
        return f"```\n{block.text.rstrip()}\n```"
    if isinstance(block, Facts):
        return "\n".join(f"- {label}: **{value}**" for value, label in block.facts)
    if isinstance(block, Table):
        return block.to_markdown().rstrip()
    raise TypeError(f"There is no Markdown for {type(block).__name__}.")
