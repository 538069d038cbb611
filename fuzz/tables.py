"""Tables against the csv module of Python."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from rankwise.data import read_table
from rankwise.errors import RankwiseError


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """A table is refused in words, or has the rows and numbers that Python finds in it."""
    path = folder / "input.csv"
    path.write_bytes(data)
    try:
        table = read_table(path)
    except RankwiseError:
        return
    text = data.decode("utf-8-sig")
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    names, rows = rows[0], rows[1:]
    assert len(rows) == len(table.X), f"{len(table.X)} rows for {len(rows)}"
    for name in table.X.columns:
        cells = [row[names.index(name)] for row in rows]
        assert table.X[name].tolist() == [_number(cell) for cell in cells], name
    assert np.isfinite(table.X.to_numpy(dtype=np.float64)).all()
    if table.y is not None:
        assert table.y.tolist() == [_number(row[names.index(table.roles.label)]) for row in rows]


def _number(cell: str) -> float:
    """A number, which Arrow also takes in hexadecimal digits, or a truth value."""
    word = cell.strip().lower()
    if word in ("true", "false"):
        return float(word == "true")
    return float(int(word, 16)) if word.startswith("0x") else float(cell)
