"""Check that every link inside the built site leads somewhere; uses no network.

Usage: python docs/site_parts/check_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and tag != "use":
                self.links.append(value)
            elif name == "srcset":
                self.links += [part.split()[0] for part in value.split(",") if part.strip()]


def pages_of(site: Path) -> list[Path]:
    """The pages of the site; themes keep templates in _static."""
    return [path for path in site.rglob("*.html") if "_static" not in path.parts]


def dead_links(site: Path) -> list[str]:
    """Every link to a page, a file or an anchor of the site that does not exist."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in pages_of(site)}
    found = []
    for path, page in sorted(pages.items()):
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            missing = not target.exists() or not target.is_relative_to(site.resolve())
            if missing or (anchor and target in pages and anchor not in pages[target].anchors):
                found.append(f"{path.relative_to(site.resolve())}: {link}")
    return found


def main(folder: str) -> int:
    site = Path(folder)
    dead = dead_links(site)
    pages = len(pages_of(site))
    print("\n".join([*dead, f"{pages} pages, {len(dead)} links inside the site lead nowhere"]))
    return 1 if dead or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
