"""Ids of every type through every reader and kind of frame: different ids stay different."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
from pyarrow import feather, parquet

from rankwise.asking.items import read_items
from rankwise.data import (
    Battles,
    Comparisons,
    TableBlocks,
    as_run,
    from_frame,
    read_battles,
    read_comparisons,
    read_samples,
    read_table,
    write_letor,
)
from rankwise.data.sample_files import NOTHING
from rankwise.errors import RankwiseError
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import entries_of

TEXTS = [
    "a", "A", "a ", " a", "a\0", "-5", "'-5", "--5", "=1+1", "1", "01", "+1", "1.0", "1e3", "1_000",
    "true", "True", "nan", "NaN", "None", "null", "NA", "", " ", "é", "e\u0301", "😀", "١", "²",
    "\ud800", "a,b", 'a"b', "a\nb", "a\rb", "\ufeffa", "x" * 70, "x" * 200_000, "x\0y", "inf",
    "9007199254740993", "9007199254740992", "18446744073709551617", "18446744073709551616", "-0",
]  # fmt: skip
NUMBERS = [0, 1, 2**24, 2**31, 2**53, 2**63, 2**64, 1234567890123456789, 10**39, 10**75, 10**400]
FLOATS = [0.0, -0.0, 1.0, 0.5, 2.0**53, 2.0**53 - 1, 1e18, 1e300, float("inf"), float("nan")]
TIMES = [[date(2020, 1, day) for day in (1, 2)], [datetime(2020, 1, 1, hour) for hour in (1, 2)]]
TIMES += [[timedelta(days) for days in (1, 2)]]


class Wrong(AssertionError):
    """What no reader may do with ids."""


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """Ids are refused in words, or different ones stay different, and equal ones stay equal."""
    name = list(WAYS)[rng.integers(len(WAYS))]
    make, read = WAYS[name]
    try:
        made, ids = make(draw_ids(rng), folder / "ids")
    except Exception:  # of another library, or of Python: nobody can have such ids
        return
    try:
        found = read(made)
    except RankwiseError:
        return
    if found is not None:
        _compare(name, ids, found)


def _compare(name: str, ids: list[Any], found: list[Any]) -> None:
    if len(found) != len(ids):
        raise Wrong(f"{name}: {len(ids)} ids became {len(found)}")
    fault = next((fault for fault in map(_fault, ids) if fault), None)
    if fault is not None:
        raise Wrong(f"{name}: {fault} was taken for an id")
    if _numbered(ids) != _numbered(found):
        raise Wrong(f"{name}: {ids!r:.300} became {found!r:.300}")


def draw_ids(rng: np.random.Generator) -> list[Any]:
    """A few ids of one type or of several, some of them twice."""
    near, times = NUMBERS[rng.integers(len(NUMBERS))], TIMES[rng.integers(len(TIMES))]
    kinds: list[Callable[[], Any]] = [
        lambda: int(rng.choice([-1, 1])) * (near + int(rng.integers(3))),
        lambda: near + int(rng.integers(3)),
        lambda: Decimal(near + int(rng.integers(3))),
        lambda: Decimal(int(rng.integers(30))) / 4,
        lambda: TEXTS[rng.integers(len(TEXTS))],
        lambda: str(near + int(rng.integers(3))),
        lambda: FLOATS[rng.integers(len(FLOATS))],
        lambda: float(rng.integers(4)),
        lambda: bool(rng.integers(2)),
        lambda: TEXTS[rng.integers(len(TEXTS))].encode(errors="replace"),
        lambda: times[rng.integers(len(times))],
        lambda: None,
    ]
    n_kinds = 1 if rng.random() < 0.7 else 2
    chosen = [kinds[k] for k in rng.integers(len(kinds), size=n_kinds)]
    some = [chosen[rng.integers(n_kinds)]() for _ in range(int(rng.integers(1, 5)))]
    return [some[k] for k in np.sort(rng.integers(len(some), size=int(rng.integers(2, 8))))]


def _fault(value: Any) -> str | None:
    """Why an id must be refused; None if it may be taken."""
    if value is None or value is pandas.NA or value != value:
        return "a missing value"
    if isinstance(value, float) and (not value.is_integer() or abs(value) >= 2**53):
        return f"the float {value!r}"
    return None


def _numbered(values: Any) -> list[int]:
    """The number of each value among those that differ, in order of appearance."""
    seen: dict[Any, int] = {}
    return [seen.setdefault(value, len(seen)) for value in values]


# Columns, and what their libraries say that they hold.


def _column(make: Callable[[list[Any]], Any]) -> Callable[[list[Any], Path], tuple[Any, list[Any]]]:
    def made(ids: list[Any], path: Path) -> tuple[Any, list[Any]]:
        column = make(ids)
        return column, entries_of(column)

    return made


def _objects(ids: list[Any]) -> Any:
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    return array


COLUMNS = {
    "list": list,
    "tuple": tuple,
    "objects": _objects,
    "NumPy": np.array,
    "pandas": pandas.Series,
    "pandas objects": lambda ids: pandas.Series(ids, dtype=object),
    "Categorical": lambda ids: pandas.Series(pandas.Categorical(ids)),
    "Int64": lambda ids: pandas.Series(ids, dtype="Int64"),
    "pandas Arrow": lambda ids: pandas.Series(
        ids, dtype=pandas.ArrowDtype(pyarrow.array(ids).type)
    ),
    "polars": lambda ids: polars.Series(ids, strict=True),
    "polars Int128": lambda ids: polars.Series(ids, dtype=polars.Int128),
    "polars categories": lambda ids: polars.Series(ids, dtype=polars.Categorical),
    "Arrow": pyarrow.array,
    "Arrow decimals": lambda ids: pyarrow.array(ids, pyarrow.decimal128(38, 2)),
    "Arrow long decimals": lambda ids: pyarrow.array(ids, pyarrow.decimal256(76, 0)),
    "Arrow categories": lambda ids: pyarrow.array(ids).dictionary_encode(),
    "float32": lambda ids: np.array(ids, dtype=np.float32),
}


def _groups(column: Any) -> list[Any]:
    groups = QueryGroups.of(column)
    return groups.names[groups.codes].tolist()


def _battles(column: Any) -> list[Any]:
    battles = Battles.of(column, ["other"] * len(column), [1] * len(column), groups=column)
    if battles.groups is None or _numbered(battles.groups) != _numbered(battles.pairs[:, 0]):
        raise Wrong("groups and items of battles differ")
    return battles.items[battles.pairs[:, 0]].tolist()


def _comparisons(column: Any) -> list[Any]:
    items = [*dict.fromkeys(entries_of(column)), "other"]
    made = Comparisons.of(column, ["other"] * len(column), items=items, groups=column)
    if made.groups is None or _numbered(made.groups) != _numbered(made.pairs[:, 0]):
        raise Wrong("groups and items of comparisons differ")
    return made.pairs[:, 0].tolist()


# Frames of these columns.


def _framed(make: Callable[..., Any], name: str, *numbers: str) -> Callable[..., Any]:
    """A frame of the library of a column, with columns of row numbers."""

    def made(ids: list[Any], path: Path) -> tuple[Any, list[Any]]:
        column, values = _column(make)(ids, path)
        rows = list(range(len(ids)))
        columns = {name: column, **dict.fromkeys(numbers, rows), "other": [f"d{k}" for k in rows]}
        if isinstance(column, polars.Series):
            return polars.DataFrame(columns), values
        if isinstance(column, pyarrow.Array):
            return pyarrow.table(columns), values
        frame = pandas.DataFrame(columns)
        return frame, list(frame[name])

    return made


def _queries_of_frame(frame: Any) -> list[Any]:
    qid = from_frame(frame, ignore=["other"], verbose=False).qid
    ids = from_frame(frame, id="qid", ignore=["other"], verbose=False).ids
    if qid.tolist() != ids.tolist():
        raise Wrong("query ids and row ids differ")
    return qid.tolist()


def _battles_of_frame(frame: Any) -> list[Any] | None:
    found = read_battles(frame, first="first", second="other")
    return None if found.dropped else found.battles.pairs[:, 0].tolist()


def _run(frame: Any) -> list[Any]:
    query_of = {document: query for query, scored in as_run(frame).items() for document in scored}
    return [query_of[str(document)] for document in range(len(frame))]


# Files. What is written is the reference.


def _csv(ids: list[Any], path: Path) -> tuple[Path, list[Any]]:
    path = path.with_suffix(".csv")
    texts = ["" if value is None else str(value) for value in ids]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "price", "other"])
        writer.writerows([text, k % 2, k, f"d{k}"] for k, text in enumerate(texts))
    return path, [text if text.strip() else None for text in texts]


def _json(ids: list[Any], suffix: str, path: Path) -> tuple[Path, list[Any]]:
    path = path.with_suffix(suffix)
    written = [_number(v) if isinstance(v, Decimal) else json.dumps(v) for v in ids]
    rows = [
        f'{{"id": {text}, "label": {k % 2}, "price": {k}, "other": "d{k}"}}'
        for k, text in enumerate(written)
    ]
    text = "\n".join(rows) if suffix == ".jsonl" else f"[{', '.join(rows)}]"
    path.write_text(text, encoding="utf-8")
    values = [json.loads(text) for text in written]
    return path, [None if isinstance(v, str) and not v.strip() else v for v in values]


def _number(value: Decimal) -> str:
    return f"{value:f}"


def _arrow(ids: list[Any], suffix: str, path: Path) -> tuple[Path, list[Any]]:
    path = path.with_suffix(suffix)
    column = pyarrow.array(ids)
    if len(ids) % 2:
        column = column.dictionary_encode()
    rows = range(len(ids))
    more = {"label": [k % 2 for k in rows], "price": list(rows), "other": [f"d{k}" for k in rows]}
    table = pyarrow.table({"id": column, **more})
    (parquet.write_table if suffix == ".parquet" else feather.write_feather)(table, str(path))
    values = column.to_pylist()
    return path, [None if isinstance(v, str) and not v.strip() else v for v in values]


MAKERS = {
    "CSV": _csv,
    "JSON": lambda ids, path: _json(ids, ".json", path),
    "JSON lines": lambda ids, path: _json(ids, ".jsonl", path),
    "Parquet": lambda ids, path: _arrow(ids, ".parquet", path),
    "Feather": lambda ids, path: _arrow(ids, ".arrow", path),
}


def _queries_of_file(path: Path) -> Any:
    qid = read_table(path, qid="id", ignore=["other"]).qid
    ids = read_table(path, id="id", ignore=["other"]).ids
    if qid.tolist() != ids.tolist():
        raise Wrong("query ids and row ids differ")
    return qid.tolist()


def _blocks(path: Path) -> list[Any]:
    blocks = TableBlocks(path, qid="id", ignore=["other"], block_bytes=8)
    return [name for block in blocks for name in block.qid.tolist()]


def _stripped(make: Callable[..., Any]) -> Callable[..., Any]:
    """For readers that take text without the blanks around it, and leave out missing ids."""

    def made(ids: list[Any], path: Path) -> tuple[Any, list[Any]]:
        column, values = make(ids, path)
        return column, [v.strip() if isinstance(v, str) else v for v in values]

    return made


def _once(make: Callable[..., Any]) -> Callable[..., Any]:
    """For readers whose ids are text, each there once."""

    def made(ids: list[Any], path: Path) -> tuple[Any, list[Any]]:
        column, values = make(list(dict.fromkeys(ids)), path)
        return column, [None if value is None else str(value).strip() for value in values]

    return made


def _battles_of_file(path: Path) -> Any:
    found = read_battles(path, first="id", second="other")
    return None if found.dropped else found.battles.items[found.battles.pairs[:, 0]].tolist()


def _comparisons_of_file(path: Path) -> list[Any]:
    items = read_battles(path, first="id", second="other").battles.items
    found = read_comparisons(
        {"id": items, "size": range(len(items))}, path, first="id", second="other", outcome="label"
    )
    return found.comparisons.pairs[:, 0].tolist()


def _items(path: Path) -> list[Any]:
    return [item.id for item in read_items(path, lambda data, kind: "", id_column="id")]


def _samples(path: Path) -> list[Any]:
    return read_samples(path, "label", group="id", ignore=["other"]).groups.tolist()


def _as_samples(make: Callable[..., Any]) -> Callable[..., Any]:
    """For samples, "1" and "1.0" are the same group, and words such as NA are missing."""

    def made(ids: list[Any], path: Path) -> tuple[Any, list[Any]]:
        column, values = make(ids, path)
        return column, [_sample_id(value) for value in values]

    return made


def _sample_id(value: Any) -> Any:
    if isinstance(value, bool | bytes):
        return str(value)
    text = value.strip() if isinstance(value, str) else str(value)
    if isinstance(value, float) and abs(value) >= 2**53:
        return value
    try:
        number = Decimal(text)
        return number if math.isfinite(float(number)) else text
    except (ArithmeticError, OverflowError):
        return None if text.lower() in NOTHING else text


def _letor(column: Any) -> None:
    write_letor("/dev/null", np.ones((len(column), 1)), np.ones(len(column)), qid=column)


READERS = {"read_table": _queries_of_file, "TableBlocks": _blocks}
STRIPPED = {"read_battles": _battles_of_file, "read_comparisons": _comparisons_of_file}
BY_COLUMN = {
    "QueryGroups": _groups,
    "Battles": _battles,
    "Comparisons": _comparisons,
    "write_letor": _letor,
}
WAYS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    **{
        f"{kind} to {reader}": (_column(make), read)
        for kind, make in COLUMNS.items()
        for reader, read in BY_COLUMN.items()
    },
    **{
        f"{kind} to from_frame": (_framed(make, "qid", "label", "price"), _queries_of_frame)
        for kind, make in COLUMNS.items()
    },
    **{
        f"{kind} to as_run": (_framed(make, "qid", "docid", "score"), _run)
        for kind, make in COLUMNS.items()
    },
    **{
        f"{kind} to read_battles": (
            _stripped(_framed(make, "first")),
            _battles_of_frame,
        )
        for kind, make in COLUMNS.items()
    },
    **{
        f"{kind} to {reader}": (make, read)
        for kind, make in MAKERS.items()
        for reader, read in READERS.items()
    },
    **{
        f"{kind} to {reader}": (_stripped(make), read)
        for kind, make in MAKERS.items()
        for reader, read in STRIPPED.items()
    },
    **{f"{kind} to read_samples": (_as_samples(make), _samples) for kind, make in MAKERS.items()},
    **{f"{kind} to read_items": (_once(make), _items) for kind, make in MAKERS.items()},
}
