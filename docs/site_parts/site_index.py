"""What programs read about the site: a description of each page, llms.txt and sitemap.xml.

A description is the beginning of the first paragraph of a page. A sitemap needs the address of the
site: it is written only if `html_baseurl` is set, by RANKWISE_SITE in the environment of make.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

MOST = 200  # characters of a description
SECTIONS = {
    "Guide": r"index|choosing|commands|faq|glossary|guide/.+|coming-from/.+",
    "API": r"api/\w+",
    "Examples": r"auto_examples/.+",
    "Results and development": r"(?!api/|auto_examples/|more$).+",
}
"""Headings of llms.txt, and the pages below each: the first that fits."""
SUMMARY = """\
# rankwise

> Preference learning and learning to rank in Python: pairwise regularized least squares, as cheap
> as regression, with exact hold-outs. Rankers are scikit-learn estimators; `qid` holds the query of
> each row.
"""


def shortened(text: str) -> str:
    """Whole sentences of a text, as many as fit; the first is cut if it does not."""
    text = " ".join(text.split())
    if len(text) <= MOST:
        return text
    ends = [end.end() for end in re.finditer(r"[.?!](?= )", text) if end.end() <= MOST]
    return text[: ends[-1]] if ends else f"{text[: text.rindex(' ', 0, MOST)]} ..."


def description(doctree: Any) -> str:
    """The beginning of the first paragraph of a page; empty if there is none."""
    from docutils import nodes

    for paragraph in doctree.findall(nodes.paragraph):
        text = shortened(paragraph.astext())
        if text:
            return text
    return ""


def llms_text(pages: dict[str, tuple[str, str]], base: str = "") -> str:
    """llms.txt from the title and the description of each page."""
    sections: dict[str, list[str]] = {heading: [] for heading in SECTIONS}
    for name, (title, about) in pages.items():
        heading = next((h for h, pattern in SECTIONS.items() if re.fullmatch(pattern, name)), None)
        if heading is not None:
            line = f"- [{title}]({base}{name}.html)"
            sections[heading].append(f"{line}: {about}" if about else line)
    parts = [f"## {heading}\n\n" + "\n".join(lines) for heading, lines in sections.items() if lines]
    return "\n".join([SUMMARY, "\n\n".join(parts), ""])


def sitemap(names: list[str], base: str) -> str:
    """sitemap.xml of pages below an address that ends with a slash."""
    urls = "\n".join(f"  <url><loc>{escape(f'{base}{name}.html')}</loc></url>" for name in names)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{urls}\n</urlset>\n'
    )


def add_description(app: Any, name: str, template: str, context: Any, doctree: Any) -> None:
    """Put the description into the head of a page."""
    about = description(doctree) if doctree is not None else ""
    if about:
        tag = f'<meta name="description" content="{escape(about, quote=True)}">'
        context["metatags"] = f"{context.get('metatags', '')}\n{tag}"


def write_index(app: Any, error: Exception | None) -> None:
    """Write llms.txt and, if the address of the site is known, sitemap.xml."""
    if error is not None or app.builder.format != "html":
        return
    base = app.config.html_baseurl
    base = f"{base.rstrip('/')}/" if base else ""
    pages = {
        name: (app.env.titles[name].astext(), description(app.env.get_doctree(name)))
        for name in sorted(app.env.found_docs)
    }
    folder = Path(app.outdir)
    (folder / "llms.txt").write_text(llms_text(pages, base), encoding="utf-8")
    if base:
        (folder / "sitemap.xml").write_text(sitemap(list(pages), base), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", add_description)
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
