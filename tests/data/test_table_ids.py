"""Ids of tables and frames: different ids stay different, whatever their type."""

import json
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from rankwise.data import (
    TableBlocks,
    as_run,
    from_frame,
    read_battles,
    read_comparisons,
    read_samples,
    read_table,
    write_letor,
)
from rankwise.data.table_columns import Roles
from rankwise.data.table_files import TableFile
from rankwise.errors import DataError

LARGE = [1234567890123456789 + k for k in (0, 0, 1, 2, 3)]
HUGE = [2**64 + k for k in (0, 0, 1, 2, 3)]


def json_table(path, ids):
    rows = [{"qid": name, "label": k, "a": k} for k, name in enumerate(ids)]
    text = "\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows)
    path.write_text(text)
    return path


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize("ids", [LARGE, HUGE, [1.0, *HUGE[1:]]], ids=["large", "huge", "float"])
def test_whole_numbers_of_json_keep_all_digits(tmp_path, suffix, ids):
    path = json_table(tmp_path / f"t{suffix}", ids)
    data = read_table(path)
    assert data.qid.tolist() == ids
    assert "4 queries of 1 to 2 rows" in repr(data) or ids[0] == 1.0
    assert data.columns.rows[0][:3] == ("qid", "number", "query (guessed)")
    assert read_table(path, id="qid").ids.tolist() == ids
    blocks = [name for block in TableBlocks(path, block_bytes=8) for name in block.qid.tolist()]
    assert [int(name) for name in blocks] == ids


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1.5, *LARGE], r"1: the column 'qid' has the float 1\.5: ids are whole numbers or text"),
        ([1, 1e20], r"2: the column 'qid' has the float 1e\+20: floats of this size stand for"),
        ([1, 10**80], r"2: the column 'qid' has a number of more than 76 digits"),
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_floats_in_json_are_no_ids(tmp_path, suffix, ids, words):
    with pytest.raises(DataError, match=words):
        read_table(json_table(tmp_path / f"t{suffix}", ids))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal(name) for name in LARGE], pa.decimal128(38, 0)),
        pa.array([Decimal(name) for name in HUGE], pa.decimal128(38, 2)),
        pa.array(HUGE, pa.decimal256(76, 0)),
        pa.array([2**63 + k for k in (0, 0, 1)], pa.uint64()),
        pa.array(LARGE).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_numbers_of_parquet_keep_all_digits(tmp_path, column):
    rows = list(range(len(column)))
    parquet.write_table(pa.table({"qid": column, "label": rows, "a": rows}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").qid.tolist() == column.to_pylist()
    assert read_table(tmp_path / "t.parquet", id="qid").ids.tolist() == column.to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.Categorical(LARGE)),
        pd.Series(LARGE, dtype="Int64"),
        pd.Series(HUGE, dtype=object),
        pd.Series([Decimal(name) for name in HUGE]),
        pl.Series([Decimal(name) for name in HUGE]),
        pl.Series(HUGE, dtype=pl.Int128),
        pl.Series(["a", "b", "a"], dtype=pl.Categorical),
    ],
    ids=lambda column: f"{type(column).__module__.partition('.')[0]} {column.dtype}",
)
def test_ids_of_frames_are_what_they_were(column):
    rows = list(range(len(column)))
    make = pd.DataFrame if isinstance(column, pd.Series) else pl.DataFrame
    frame = make({"qid": column, "label": rows, "a": rows})
    assert from_frame(frame, verbose=False).qid.tolist() == column.to_list()


def test_floats_of_frames_are_integers_or_refused():
    frame = pd.DataFrame({"qid": [1.0, 1.0, 2.0], "label": [0, 1, 2], "a": [1, 2, 3]})
    assert from_frame(frame, verbose=False).qid.dtype == np.int64
    with pytest.raises(DataError, match=r"row 2: the column 'qid' has the float 0\.5"):
        from_frame(frame.assign(qid=[1.0, 2.0, 0.5]), verbose=False)
    with pytest.raises(DataError, match="row 1: the column 'qid' has no value here"):
        from_frame(frame.assign(qid=[1.0, None, 2.0]), verbose=False)


def test_texts_that_begin_with_several_minus_signs(tmp_path):
    (tmp_path / "t.csv").write_text("qid,label,a\n--5,1,1\n-5,0,2\n")
    assert read_table(tmp_path / "t.csv").qid.tolist() == ["--5", "-5"]


def test_a_column_is_looked_at_a_few_times_only(tmp_path):
    """Neither the roles of columns nor blocks of a few rows take time by the square of columns."""

    class Name(str):
        n_compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Name.n_compared += 1
            return str.__eq__(self, other)

    names = [Name(f"f{k}") for k in range(3000)]
    Roles.of("The table", [Name("qid"), Name("label"), *names])
    assert Name.n_compared < 100 * len(names)
    rows = np.random.default_rng(0).normal(size=(40, 3000)).astype(str)
    path = tmp_path / "t.csv"
    path.write_text("\n".join(map(",".join, [names, *rows])))
    assert TableFile.of(path).read(names).column(0).num_chunks == 1


def test_battles_keep_ids_apart(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"winner": name, "loser": "x"} for name in (*HUGE, 1.0)]))
    items = read_battles(path).battles.items.tolist()
    assert items == [*dict.fromkeys(HUGE), 1, "x"]
    frame = pd.DataFrame({"winner": pd.Series([LARGE[0], None, LARGE[2]], dtype="Int64")})
    found = read_battles(frame.assign(loser="x"))
    assert found.battles.items.tolist() == [LARGE[0], LARGE[2], "x"]
    assert found.dropped == {"without an item": 1}
    assert read_battles(pa.table({"winner": [1, 2], "loser": [2, 3]})).battles.items.tolist() == [
        1, 2, 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b'"winner":"b","winner":"a"', "row 2: the key 'winner' appears twice"),
        (b'"winner":"\\ud800"', "row 2: the text .* has half of a surrogate pair"),
        (b'"winner":"\\u0000"', "row 2: the column 'winner' has a NUL character"),
        (b'"winner":0.5', r"first has the float 0\.5 in row 1"),
    ],
)
def test_battles_and_comparisons_refuse_odd_json(tmp_path, row, words):
    path = tmp_path / "t.json"
    path.write_bytes(b'[{"winner":"a","loser":"b"},{%b,"loser":"b"}]' % row)
    with pytest.raises(DataError, match=words):
        read_battles(path)
    with pytest.raises(DataError, match=words):
        read_comparisons({"id": ["a", "b"], "size": [1, 2]}, path)


def test_counts_in_a_column_of_battles_have_every_name_once():
    table = {"winner": ["a"], "loser": ["b"], "conv_metadata": ['{"n_a": 1, "n_b": 2, "n_b": 3}']}
    with pytest.raises(DataError, match=r"row 0: conv_metadata must .*the key 'n_b' appears twice"):
        read_battles(table, style=["conv_metadata"])


def test_groups_of_samples_keep_all_digits(tmp_path):
    path = tmp_path / "t.csv"
    names = ["9007199254740992", "9007199254740993", "1", "1.0", "0.5", "1e400"]
    rows = [f"{name},{k % 2},{k}" for k, name in enumerate(names)]
    path.write_text("\n".join(["patient,ill,age", *rows]))
    groups = read_samples(path, "ill", group="patient").groups.tolist()
    assert groups == [*names[:2], "1", "1", "0.5", "1e400"]


def test_ids_of_runs_are_text_of_whole_numbers():
    frame = pd.DataFrame({"qid": [1.0, 2.0], "docid": [7.0, 8.0], "score": [0.5, 1.0]})
    assert as_run(frame) == {"1": {"7": 0.5}, "2": {"8": 1.0}}
    with pytest.raises(DataError, match=r"queries has the float 1e\+20 in row 0"):
        as_run(frame.assign(qid=[1e20, 1.0]))
    with pytest.raises(DataError, match="documents has no value in row 1"):
        as_run(frame.assign(docid=["a", None]))
    with pytest.raises(DataError, match="differ in their type only"):
        as_run({1: {"a": 1.0}, "1": {"b": 1.0}})


def test_letor_files_do_not_merge_ids(tmp_path):
    with pytest.raises(DataError, match="Two query ids are both written as qid:1"):
        write_letor(tmp_path / "t.txt", np.ones((2, 1)), [0, 1], qid=[1, "1"])
    for name in ("\ud800", b"\xff"):
        with pytest.raises(DataError, match="cannot be written"):
            write_letor(tmp_path / "t.txt", np.ones((2, 1)), [0, 1], qid=[name, name])


def csv_table(path, ids):
    lines = [f"{name},{k % 2},{k}" for k, name in enumerate(ids)]
    path.write_text("\n".join(["qid,label,a", *lines]))
    return path


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["1", "2", "1234567890123456781"], [1, 2, 1234567890123456781]),
        (["1", "18446744073709551617"], [1, 2**64 + 1]),
        (["1.0", "2.0", "1.0"], [1, 2, 1]),
        (["1.0", "2"], [1, 2]),
        (["1.10", "1.1"], ["1.10", "1.1"]),
        (["01", "1"], ["01", "1"]),
        (["1e3", "ab"], ["1e3", "ab"]),
    ],
)
def test_ids_of_text_files_are_whole_numbers_where_all_are(tmp_path, texts, ids):
    found = read_table(csv_table(tmp_path / "t.csv", texts)).qid
    assert found.tolist() == ids


def test_ids_with_an_exponent_have_lost_digits(tmp_path):
    path = csv_table(tmp_path / "t.csv", ["1", "1.2345678901234568e+18"])
    with pytest.raises(DataError, match=r"line 3: .* a number with an exponent"):
        read_table(path)


def test_whole_numbers_written_in_two_ways_are_refused():
    frame = pd.DataFrame({"qid": ["1", "1.0", "2"], "label": [0, 1, 2], "price": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match=r"'1.0' beside '1': are they the same id"):
        from_frame(frame)
    frame["qid"] = ["1.0", "2.0", "2.0"]  # as pandas writes floats
    assert from_frame(frame).qid.tolist() == [1, 2, 2]


@pytest.mark.parametrize("as_categories", [False, True])
@pytest.mark.parametrize(
    "ids", [[date(2020, 1, 2), Decimal("1.5")], [timedelta(days=1), 0.5], [date(2020, 1, 2), 3]]
)
def test_dates_beside_other_ids_are_refused(ids, as_categories):
    column = pd.Series(ids, dtype=object)
    frame = pd.DataFrame({"qid": column.astype("category") if as_categories else column})
    with pytest.raises(DataError, match="'qid' holds values of several types"):
        from_frame(frame.assign(label=[0, 1], a=[1.0, 2.0]))


@pytest.mark.parametrize("n_rows", range(1, 6))
def test_blocks_keep_ids_apart_that_differ_in_their_digits(n_rows, tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.data.table_files.BLOCK", 64)
    path = tmp_path / "rows.csv"
    rows = ["x1,1,0"] * 3 + ["1,1,2"] * n_rows + ["1.0,2,3"] * 30 + ["2.0,1,1"] * 20
    path.write_text("\n".join(["qid,label,x", *rows]))
    blocks = [name for block in TableBlocks(path) for name in block.qid.tolist()]
    assert blocks == read_table(path).qid.tolist()
    path.write_text("\n".join(["qid,label,x", *rows[-50:]]))
    blocks = [name for block in TableBlocks(path) for name in block.qid.tolist()]
    assert blocks == read_table(path).qid.tolist() == [1] * 30 + [2] * 20


def test_many_ids_that_are_whole_floats(tmp_path):
    path = tmp_path / "rows.csv"
    n = 200_000  # comparing each two of them would take an hour
    path.write_text("qid,label,x\n" + "".join(f"{k}.0,{k % 3},{k % 7}\n" for k in range(n)))
    assert read_table(path).qid.tolist() == list(range(n))
