"""The LETOR reader against a parser of split and float."""

from __future__ import annotations

import io
import math
import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.data import read_letor
from rankwise.data.letor import FeatureMatrix, QueryIds, TextBlock, archive
from rankwise.data.letor_parsing import MAX_INDEX, Null
from rankwise.errors import LetorFormatError

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
INTEGER = re.compile(rb"-?[1-9]\d*|0")
Row = tuple[float, "bytes | None", dict[int, float]]


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """The reader gives what the reference gives, and refuses what the reference refuses."""
    if archive(data) or data.startswith(b"\x1f\x8b"):
        return
    want = _reference(data)
    if rng.random() < 0.01:  # from a file, with threads
        path = folder / "input"
        path.write_bytes(data)
        read: Any = partial(_arrays_of_file, path)
    else:
        size = int(rng.choice([16, 100, 4096]))
        read = partial(_arrays, data, size)
    found, words = None, ""
    try:
        found = read()
    except LetorFormatError as error:
        words = str(error)
    assert (found is None) == (want is None), f"refused: {words}" if words else "read, but invalid"
    if found is None or want is None:
        return
    labels, ids, rows = found
    assert labels == [row[0] for row in want], "labels"
    assert rows == [{j: v for j, v in row[2].items() if v} for row in want], "features"
    assert ids == _ids([row[1] for row in want]), "ids"


def _arrays(data: bytes, size: int) -> tuple[list[float], Any, list[dict[int, float]]]:
    """As `parsed_blocks`, but from memory and in this thread."""
    stream = io.BytesIO(data)
    X, labels, ids, has_qid = FeatureMatrix("sparse", None, np.float64), [], QueryIds(), None
    while stream.tell() < len(data):
        block, first = TextBlock("input", size), stream.tell() == 0
        block.fill(stream, len(data))
        if first and block.text.startswith(b"\xef\xbb\xbf"):
            block.text[:3] = b"   "
        block.parse(MAX_INDEX, Null(False, 0.0))
        block.check(None, np.float64, has_qid)
        has_qid = block.has_qid
        X.append(block)
        labels += block.rows.labels.tolist()
        if has_qid:
            ids.append(block)
    if not labels:
        raise LetorFormatError("no rows")
    return labels, ids.finish().tolist() if has_qid else None, _dictionaries(X.finish())


def _arrays_of_file(path: Path) -> tuple[list[float], Any, list[dict[int, float]]]:
    data = read_letor(path, layout="sparse")
    ids = None if data.qid is None else data.qid.tolist()
    return data.y.tolist(), ids, _dictionaries(data.X)


def _dictionaries(X: Any) -> list[dict[int, float]]:
    columns, values, ends = (X.indices + 1).tolist(), X.data.tolist(), X.indptr.tolist()
    return [dict(zip(columns[i:j], values[i:j], strict=True)) for i, j in pairwise(ends)]


def _reference(data: bytes) -> list[Row] | None:
    """Labels, ids and features of the rows; None if some line cannot be read."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    rows: list[Row] = []
    for line in data.split(b"\n"):
        tokens = re.split(rb"[ \t\r]+", line.partition(b"#")[0].strip(b" \t\r"))
        if tokens == [b""]:
            continue
        row = _row(tokens)
        if row is None or (rows and (row[1] is None) != (rows[0][1] is None)):
            return None
        rows.append(row)
    return rows or None


def _row(tokens: list[bytes]) -> Row | None:
    label, *pairs = tokens
    if not _is_number(label):
        return None
    qid = None
    if pairs and pairs[0].startswith(b"qid:"):
        qid = pairs.pop(0)[4:]
        if not qid or b"\0" in qid or not _is_utf8(qid):
            return None
    features: dict[int, float] = {}
    last = 0
    for pair in pairs:
        index, colon, value = pair.partition(b":")
        if not colon or not re.fullmatch(rb"\d{1,18}", index) or not _is_number(value):
            return None
        if not last < int(index) < 2**31:
            return None
        last = int(index)
        features[last] = float(value)
    return float(label), qid, features


def _ids(ids: list[Any]) -> Any:
    if ids[0] is None:
        return None
    if all(INTEGER.fullmatch(i) and abs(int(i)) < 2**63 for i in ids):
        return [int(i) for i in ids]
    return [i.decode() for i in ids]


def _is_number(text: bytes) -> bool:
    return NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
