"""A simple LETOR parser with `split` and `float`."""

from __future__ import annotations


def parse_letor(text: str) -> list[tuple[float, str | None, dict[int, float], str]]:
    """Label, query id, features by one-based index and comment of every row."""
    rows = []
    for line in text.split("\n"):
        content, _, comment = line.partition("#")
        tokens = content.split()
        if not tokens:
            continue
        label, *pairs = tokens
        qid = pairs.pop(0).removeprefix("qid:") if pairs and pairs[0].startswith("qid:") else None
        features = {int(i): float(value) for i, value in (pair.split(":") for pair in pairs)}
        rows.append((float(label), qid, features, comment.strip(" \t\r")))
    return rows
