"""Public names in code font become links to their pages in the API, which list the guides.

So the guides need no markup that only Sphinx understands, and docstrings none at all.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes

CALL = re.compile(r"\(.*\)$", flags=re.DOTALL)  # `ndcg(y, scores)` is ndcg
KINDS = {"class", "function", "exception", "method", "data"}
# Words such as fit, Text and Item mean something else in most places; only full names are linked.
FULL_NAMES_ONLY = ("rankwise.asking", "rankwise.distributed", "rankwise.problem", "rankwise.report")


def targets(env: Any) -> dict[str, tuple[str, str]]:
    """Page and anchor of every name that can be linked: in full, and its last part or parts."""
    found: dict[str, tuple[str, str]] = {}
    for name, entry in env.domains["py"].objects.items():
        if entry.objtype not in KINDS or not name.startswith("rankwise."):
            continue
        place = entry.docname, entry.node_id
        found[name] = place
        found[name.removeprefix("rankwise.")] = place
        if not name.startswith(FULL_NAMES_ONLY):
            found[".".join(name.split(".")[-2 if entry.objtype == "method" else -1 :])] = place
    return found


def names_in_code(text: str) -> set[str]:
    """Every name, with and without dots, in the code of a Markdown page."""
    code = " ".join(re.findall(r"```.*?```|`[^`]+`", text, flags=re.DOTALL))
    return {name.strip(".") for name in re.findall(r"[\w.]+", code)}


def find_targets(app: Any, env: Any) -> None:
    """Find the names once, when all pages have been read, and the guides that have them."""
    app.name_targets = targets(env)
    app.guides_of = {}
    for guide in sorted(page for page in env.found_docs if page.startswith("guide/")):
        text = Path(env.doc2path(guide)).read_text(encoding="utf-8")
        for name in names_in_code(text) & app.name_targets.keys():
            app.guides_of.setdefault(app.name_targets[name][0], set()).add(guide)


def link_to(app: Any, page: str, target: str, anchor: str = "") -> nodes.reference:
    """A link from one page to another."""
    uri = app.builder.get_relative_uri(page, target) + anchor
    return nodes.reference("", "", internal=True, refuri=uri)


def list_guides(app: Any, tree: nodes.document, page: str) -> None:
    """At the end of a page of the API, the guides that show its object."""
    guides = sorted(app.guides_of.get(page, ()))
    if not guides or not page.startswith("api/generated/"):
        return
    entries = nodes.bullet_list()
    for guide in guides:
        link = link_to(app, page, guide)
        link += nodes.Text(app.env.titles[guide].astext())
        entries += nodes.list_item("", nodes.paragraph("", "", link))
    section = next(iter(tree.findall(nodes.section)))
    section += [nodes.rubric("", "In the guides"), entries]


def link_names(app: Any, tree: nodes.document, page: str) -> None:
    """Put every public name in code font into a link, except on its own page and in links."""
    list_guides(app, tree, page)
    for node in list(tree.findall(nodes.literal)):
        name = CALL.sub("", node.astext().strip())
        inside = node.parent
        while inside is not None and not isinstance(inside, nodes.reference | nodes.title):
            inside = inside.parent
        if inside is not None or name not in app.name_targets:
            continue
        target, anchor = app.name_targets[name]
        if target == page:
            continue
        link = link_to(app, page, target, f"#{anchor}")
        node.replace_self(link)
        link += node


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-check-consistency", find_targets)
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
