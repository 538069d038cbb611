"""Names of items through every file that a session writes, and back through our readers."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from itertools import permutations
from pathlib import Path

import numpy as np

from rankwise.asking import Session
from rankwise.asking.items import read_items
from rankwise.asking.session_exports import (
    battles_csv,
    comparisons_csv,
    ranking_csv,
    ranking_json,
    share_page,
)
from rankwise.data import read_battles, read_comparisons
from rankwise.errors import DataError

PARTS = [
    "=", "+", "-", "@", "'", '"', ",", ";", "\t", "\n", "\r", "\r\n", " ", "|", "\\", "\u00a0",
    "NA", "nan", "null", "None", "1", "0", "01", "1.0", "0.5", "true", "win", "loss", "tie", "id",
    "model_a", "model_b", "first", "left", "a", "item", "outcome", "\ufeff", "ä", "a\u0308", "☃",
    "\x1b", "\x1c", "\x85", "\u2028", "\ud800", "\0", "<b>", "&lt;", "</svg>", "</style>",
    "[x](y)", "{{",
]  # fmt: skip
OUTCOMES = {"first": (1.0, 0), "second": (-1.0, 1), "tie": (0.0, 2), "both_bad": (0.0, 3)}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "div",
    "p", "h1", "h2", "h3", "nav", "a", "ul", "li", "dl", "dt", "dd", "figure", "figcaption",
    "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "strong", "small", "code",
    "svg", "g", "path", "line", "rect", "circle", "text", "tspan", "polyline", "desc", "br", "wbr",
}  # fmt: skip


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """Names are refused, or each file has them as they are. The input has them between bars."""
    words = data.decode("utf-8", "replace").split("|")
    names = [
        "".join(rng.permutation([word, *rng.choice(PARTS, rng.integers(0, 3))])) for word in words
    ]
    table, lines = folder / "items.csv", folder / "items.jsonl"
    lines.write_text("\n".join(json.dumps({"id": n, "x": k}) for k, n in enumerate(names)))
    try:
        Session(names)
    except DataError:
        return
    _write(table, _csv([("id", "x"), *((name, k) for k, name in enumerate(names))]))
    items = read_items(table, lambda *given: "")
    session = Session(items, both_bad=True)
    names = [item.id for item in items]
    assert names == [item.id for item in read_items(lines, lambda *given: "")]
    assert len(set(names)) == len(names)
    rater = session.add_rater(f"{rng.choice(PARTS[:15])}r").name
    pairs = list(permutations(names, 2))
    for first, second in (pairs[k] for k in rng.permutation(len(pairs))[:12]):
        token = session._make_token(rater, first, second)
        session.answer(token, str(rng.choice(list(OUTCOMES))))
    answers = session.answers
    try:
        comparisons, battles = comparisons_csv(session), battles_csv(session)
    except DataError:
        assert len(set(names) & set(PARTS)) > 3  # all words for outcomes are items
        return
    sides = [(a.first, a.second) for a in answers]
    _write(folder / "comparisons.csv", comparisons)
    found = read_comparisons(table, folder / "comparisons.csv")
    assert found.names == names
    assert [(names[i], names[j]) for i, j in found.comparisons.pairs] == sides
    assert found.comparisons.margin.tolist() == [OUTCOMES[a.outcome][0] for a in answers]
    assert set(found.comparisons.groups.tolist()) == {rater}
    _write(folder / "battles.csv", battles)
    read = read_battles(folder / "battles.csv", judge="judge").battles
    ids = read.items.tolist()
    assert [(ids[i], ids[j]) for i, j in read.pairs] == sides
    assert read.outcome.tolist() == [OUTCOMES[a.outcome][1] for a in answers]
    assert set(read.judge.tolist()) == {rater}
    if rng.random() < 0.8:  # a ranking takes much longer than all of this
        return
    _write(folder / "ranking.csv", ranking_csv(session))
    order = session.ranking().items
    assert [item.id for item in read_items(folder / "ranking.csv", lambda *given: "")] == order
    assert [row["item"] for row in json.loads(ranking_json(session))["ranking"]] == order
    guarded = ranking_csv(session, for_spreadsheets=True)
    cells = [row["item"] for row in csv.DictReader(io.StringIO(guarded, newline=""))]
    assert len(set(cells)) == len(names)
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in cells)
    _Tags().feed(share_page(session))


class _Tags(HTMLParser):
    """Refuses what a page for sharing does not have."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, f"a tag {tag!r}"
        assert not any(name.startswith("on") for name, _ in attrs), f"a script in {tag!r}"


def _csv(rows: list[tuple[object, ...]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode())
