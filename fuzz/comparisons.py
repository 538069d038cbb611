"""Files of comparisons against the csv module of Python."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from rankwise import RankRLS
from rankwise.data import read_comparisons
from rankwise.errors import RankwiseError

ITEMS = {"id": ["a", "b", "c"], "size": [1.0, 2.0, 4.0], "age": [0.0, 3.0, 1.0]}
WINS = {"first": 1.0, "second": -1.0, "tie": 0.0}


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """A file is refused in words, or every row of it is the comparison that it says."""
    path = folder / "input.csv"
    path.write_bytes(data)
    try:
        found = read_comparisons(ITEMS, path)
        ranker = RankRLS(1.0).fit_pairs(found.X, found.comparisons)
    except RankwiseError:
        return
    assert np.isfinite(ranker.coef_).all()
    text = data.decode("utf-8-sig")
    names, *lines = [line for line in csv.reader(io.StringIO(text, newline="")) if any(line)]
    rows = [dict(zip(names, line, strict=False)) for line in lines]
    made = found.comparisons
    assert len(made) == len(rows), f"{len(made)} comparisons for {len(rows)} rows"
    if rows and {"winner", "loser"} <= rows[0].keys():
        pairs = [[row["winner"].strip(), row["loser"].strip()] for row in rows]
        assert np.asarray(ITEMS["id"])[made.pairs].tolist() == pairs
    elif rows and rows[0].get("outcome") in WINS:
        words = [row["outcome"].strip().lower() for row in rows]
        if set(words) <= WINS.keys():
            assert np.asarray(made.margin).tolist() == [WINS[word] for word in words]
