"""Pages of the repository outside docs/, with links that work on the site.

The Markdown files link to each other as files of the repository, so that a code host shows them.
On the site, READMEs and other pages outside docs/ are copied to docs/repository/, and links to them
and to the examples lead to these copies and to the gallery.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
COPIES = DOCS / "repository"
COPIED = [
    *(
        ROOT / name
        for name in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
    ),
    *sorted((ROOT / "reproduce").glob("*/README.md")),
]
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^]]*)\]\((?P<path>(?!https?:|#|mailto:)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)


def site_links(text: str, file: Path, page: Path) -> str:
    """The text of a Markdown file as that of a page, with the links changed that need it.

    Parameters
    ----------
    text : str
    file : Path
        Where the text is in the repository.
    page : Path
        Where the site has it, under docs/.
    """

    def changed(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(file.parent / link["path"]))
        if not target.exists():
            return link[0]
        if target == ROOT / "README.md":
            target = DOCS / "index.md"
        elif target in COPIED:
            target = COPIES / target.relative_to(ROOT)
        elif target.parent == ROOT / "examples" and target.suffix == ".py":
            target = DOCS / "auto_examples" / f"{target.stem}.rst"
        elif target.is_dir() or (target.suffix == ".py" and not link["image"]):
            return link["text"]  # code that is not on the site
        path = os.path.relpath(target, page.parent)
        return f"{link['image']}[{link['text']}]({path}{link['anchor'] or ''})"

    return LINK.sub(changed, text)


def copy_pages(app: Any) -> None:
    """Write all copies again."""
    shutil.rmtree(COPIES, ignore_errors=True)
    for file in COPIED:
        page = COPIES / file.relative_to(ROOT)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(site_links(file.read_text(encoding="utf-8"), file, page), encoding="utf-8")


def change_links(app: Any, name: str, source: list[str]) -> None:
    """Change the links of a page that is in docs/ itself."""
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md" and not page.is_relative_to(COPIES):
        source[0] = site_links(source[0], page, page)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", copy_pages)
    app.connect("source-read", change_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
