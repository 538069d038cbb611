"""Tables in files: formats, roles of columns, blocks, and what is refused."""

import bz2
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose

from rankwise.data import TableBlocks, from_frame, read_table
from rankwise.data.table_columns import Roles, matrix
from rankwise.errors import DataError, MissingExtraError, ParameterError, TableError


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "Doc ID": [f"d{k}" for k in range(30)],
            "query_id": np.repeat(["b", "a", "c"], 10),
            "relevance": rng.integers(0, 3, 30),
            "price": rng.normal(size=30),
            "stars": rng.integers(1, 6, 30),
            "new": rng.integers(0, 2, 30) > 0,
        }
    )


def write(frame, path):
    """Write a frame in the format of the suffix."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    kind = path.suffixes[0]
    if kind in (".csv", ".tsv"):
        with pa.output_stream(path) as out:  # compresses by the suffix
            mark = "\t" if kind == ".tsv" else ","
            pa.csv.write_csv(table, out, pa.csv.WriteOptions(delimiter=mark))
    elif kind == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=7)
    elif kind == ".feather":
        pa.feather.write_feather(table, str(path))
    elif kind == ".arrow":
        with pa.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table, max_chunksize=4)
    elif kind == ".json":
        path.write_text(frame.to_json(orient="records"))
    else:
        text = frame.to_json(orient="records", lines=True).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


NAMES = (
    "t.csv", "t.tsv", "t.csv.gz", "t.csv.zst", "t.csv.bz2", "t.parquet", "t.feather", "t.arrow",
    "t.jsonl", "t.jsonl.gz", "t.json",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_rows(name, frame, tmp_path):
    data = read_table(write(frame, tmp_path / name))
    assert data.feature_names == ("price", "stars", "new")
    assert_allclose(data.X.to_numpy(), frame[["price", "stars", "new"]].to_numpy(float))
    assert data.X.to_numpy().flags.c_contiguous
    assert data.y.tolist() == frame["relevance"].tolist()
    assert data.qid.tolist() == frame["query_id"].tolist()
    assert data.ids.tolist() == frame["Doc ID"].tolist()
    assert data.roles.guessed == {"Doc ID", "query_id", "relevance"}


@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_the_rows_cut_between_queries(name, frame, tmp_path):
    path = write(frame, tmp_path / name)
    whole, blocks = read_table(path), list(TableBlocks(path, block_bytes=100))
    assert len(blocks) > 1
    names = [name for block in blocks for name in dict.fromkeys(block.qid.tolist())]
    assert names == ["b", "a", "c"]  # each in one block
    assert_allclose(np.vstack([block.X for block in blocks]), whole.X)
    assert_allclose(np.concatenate([block.y for block in blocks]), whole.y)
    assert list(blocks[0].X.columns) == ["price", "stars", "new"]


def test_blocks_have_ids_of_one_type(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.data.table_files.BLOCK", 64)
    path = tmp_path / "t.csv"
    rows = [f"{k // 20},{k % 3},{k}" for k in range(100)] + ["x,1,2", "x,0,1"]
    path.write_text("\n".join(["qid,label,a", *rows]))
    blocks = list(TableBlocks(path, block_bytes=200))
    assert len(blocks) > 2
    assert np.concatenate([block.qid for block in blocks]).tolist()[-3:] == ["4", "x", "x"]


def test_a_query_that_comes_again_cannot_be_read_in_blocks(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("qid,label,a\n1,0,1\n2,0,1\n\n1,1,1\n")
    with pytest.raises(DataError, match="line 5: query 1 appears again"):
        list(TableBlocks(path))


def test_integers_that_become_fractions_and_texts_later_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.data.table_files.BLOCK", 64)
    path = tmp_path / "t.csv"
    path.write_text("label,a\n" + "1,1\n0,2\n" * 50 + "1,2.5\n")
    assert list(TableBlocks(path))[-1].X["a"].iloc[-1] == 2.5
    assert read_table(path).X["a"].iloc[-1] == 2.5
    path.write_text("label,a\n" + "1,1\n0,2\n" * 50 + "1,x\n")
    with pytest.raises(DataError, match=r"t.csv, line 102: .*'a' has .*'x'"):
        read_table(path)
    with pytest.raises(DataError, match=r"t.csv cannot be read as CSV: .*#1: .*value 'x'"):
        list(TableBlocks(path))


def test_ids_that_are_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("qid,label,a\n10,0,1\n2,1,1\n")
    assert read_table(path).qid.tolist() == [10, 2]
    path.write_text("qid,label,a\n07,0,1\n7,1,1\n")
    assert read_table(path).qid.tolist() == ["07", "7"]  # they differ
    table = pa.table({"qid": [2**60 + 1, 2**60], "label": [0, 1], "a": [1, 2]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").qid.tolist() == [2**60 + 1, 2**60]


def test_features_are_names_or_patterns():
    names = ["q", "y", "price_a", "price_b", "stars", "url"]
    same = {"query": "q", "label": "y"}
    found = Roles.of("t", names, features=["stars", "price_*"], **same)
    assert found.features == ["price_a", "price_b", "stars"]
    assert found.left_out == {"url": "not among the features asked for"}
    assert Roles.of("t", names, ignore=["url", "price_*"], **same).features == ["stars"]
    assert Roles.of("t", names, like=["stars", "price_a"], **same).features == ["stars", "price_a"]
    assert Roles.of("t", ["label", "user_id", "grid"]).looking_like_ids == ["user_id"]
    found = Roles.of("t", ["qid", "query", "label", "grade", "x", ""])
    assert (found.looking_like_ids, found.looking_like_labels) == (["query"], ["grade"])
    assert "left out: (no name)" in found.words()
    for wrong, words in (
        ({"features": ["prise_a"]}, "matches no column. Is it 'price_a'"),
        ({"ignore": ["nothing"]}, "'nothing' of ignore matches no column"),
        ({"like": ["stars", "size"]}, "lacks 1 feature of the model: size"),
        ({"features": ["q"]}, "'q' cannot be a feature"),
        ({"ignore": ["p*", "stars", "url"]}, "no column of features"),
        ({"id": "q"}, "two of these roles"),
        ({"id": "Q"}, "no column 'Q'. Is it 'q'"),
    ):
        with pytest.raises(DataError, match=words):
            Roles.of("t", names, **same, **wrong)


def test_columns_of_pandas_row_numbers_are_left_out(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv")
    assert "price" in read_table(tmp_path / "t.csv").feature_names
    assert read_table(tmp_path / "t.csv").roles.left_out == {"": "row numbers of pandas"}


def test_text_and_missing_values_are_kept_where_asked(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,a,brand\n1,,x\n0,2,\n")
    data = read_table(path, keep_text=True, keep_missing=True)
    assert data.X["brand"].tolist() == ["x", ""]
    assert np.isnan(data.X["a"].iloc[0])
    with pytest.raises(DataError, match=r"1 missing value in 1 column .*: brand 1 \(50%\)"):
        read_table(path, keep_text=True, ignore=["a"])
    with pytest.raises(TableError) as caught:
        read_table(path, ignore=["a"])
    assert caught.value.settings == {"encode": "auto", "impute": "median"}


def test_blocks_leave_dates_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("qid,label,day,a\n1,1,2024-01-01,2\n1,0,2024-01-02,3\n")
    blocks = TableBlocks(path)
    assert [list(block.X.columns) for block in blocks] == [["a"]]
    assert blocks.roles.left_out == {"day": "a date"}
    words = tmp_path / "w.csv"
    words.write_text("qid,label,a\n1,good,2\n1,bad,3\n")
    (block,) = TableBlocks(words, grades={"good": 2, "bad": 0})
    assert block.y.tolist() == [2, 0]


def test_semicolons_and_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label;a\n1;2,5\n0;1,25\n")
    for separator in (";", None):  # in the first line
        data = read_table(path, separator=separator, decimal=",")
        assert data.X["a"].tolist() == [2.5, 1.25]
        with pytest.raises(DataError, match="decimal=','"):
            read_table(path, separator=separator)
    with pytest.raises(DataError, match="separated by semicolons: leave the separator out"):
        read_table(path, separator=",")


@pytest.mark.parametrize(("name", "mark"), [("t.csv", "\t"), ("t.csv", "|"), ("t.tsv", ",")])
def test_the_separator_is_in_the_first_line(name, mark, tmp_path):
    path = tmp_path / name
    path.write_text(f"label{mark}a\n1{mark}2.5\n\n0{mark}x\n")
    with pytest.raises(DataError, match="line 4: the column 'a'"):
        read_table(path)


MARKED = [
    (["58,300", "1,250,000", ""], {"thousands": ","}, [58300, 1250000, np.nan]),
    (["58.300,5", "950", "NA"], {"decimal": ",", "thousands": "."}, [58300.5, 950, np.nan]),
    (["NA", "58'300", "1'000'000"], {"thousands": "'"}, [np.nan, 58300, 1e6]),
    (["58\u00a0300", "7", "8"], {"thousands": "\u00a0"}, [58300, 7, 8]),
    (["13,1", "-0,5", "2e3"], {"decimal": ","}, [13.1, -0.5, 2000]),
]


@pytest.mark.parametrize(("texts", "marks", "numbers"), MARKED)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_numbers_with_marks(texts, marks, numbers, suffix, tmp_path):
    frame = pd.DataFrame({"label": [1, 0, 1], "city": ["Oslo", "1,5", "Rome"], "a": texts})
    path = write(frame, tmp_path / f"t{suffix}")
    with pytest.raises(TableError) as error:
        read_table(path, keep_text=True, keep_missing=True)
    assert error.value.settings == marks
    assert "such as 'NA'" not in str(error.value)
    data = read_table(path, keep_text=True, keep_missing=True, **marks)
    assert_allclose(data.X["a"], numbers)
    assert data.X["city"].tolist() == ["Oslo", "1,5", "Rome"]  # other text occurs: as it is
    framed = from_frame(frame, keep_text=True, keep_missing=True, verbose=False, **marks)
    assert_allclose(framed.X["a"], numbers)


def test_marks_are_chosen_for_the_whole_table(tmp_path):
    path = tmp_path / "t.csv"  # 58,300 alone would have thousands
    path.write_text('label,a,b\n1,"58,300","13,1"\n0,"7,250","2,5"\n')
    with pytest.raises(TableError, match="decimal=','") as error:
        read_table(path)
    assert error.value.settings == {"decimal": ","}
    data = read_table(path, decimal=",")
    assert data.X.to_numpy().tolist() == [[58.3, 13.1], [7.25, 2.5]]


def test_text_that_only_looks_like_numbers_stays_text():
    for texts in (
        ["1.2.3", "1.10.0"],
        ["040 123 456", "050 1 2"],
        ["10.1.2.3", "::1"],
    ):
        frame = pd.DataFrame({"label": [1, 0], "a": texts})
        assert from_frame(frame, keep_text=True, verbose=False).X["a"].tolist() == texts


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["$1,200", "$900"], "numbers with a unit, '\\$1,200'"),
        (["12 %", "7 %"], "numbers with a unit, '12 %'"),
        (["03/08/2026", "13/08/2026"], "the day or the month may come first"),
    ],
)
def test_columns_that_cannot_be_read_are_left_out(texts, words):
    frame = pd.DataFrame({"label": [1, 0], "a": texts, "b": [1.0, 2.0]})
    with pytest.raises(TableError, match=words) as error:
        from_frame(frame, keep_text=True)
    assert error.value.settings == {"ignore": ["a"]}


def test_dates_with_the_day_first():
    frame = pd.DataFrame({"label": [1, 0, 1], "a": ["3.8.2026", "13.08.2026 9:05", "NA"], "b": 1})
    data = from_frame(frame, dates=True, verbose=False)
    expected = ["2026-08-03T00:00", "2026-08-13T09:05", "NaT"]
    assert data.X["a"].to_numpy().astype("datetime64[m]").astype(str).tolist() == expected
    frame["a"] = ["31.2.2026", "1.2.2026", "NA"]
    with pytest.raises(DataError, match="dates that cannot be read"):
        from_frame(frame, dates=True, verbose=False)


def test_types_of_arrow(tmp_path):
    table = pa.table(
        {
            "label": pa.array([1, 0], pa.uint8()),
            "a": pa.array(["1.5", "2.5"]).cast(pa.decimal128(5, 1)),
            "b": pa.array([7, None], pa.int32()).dictionary_encode(),
            "c": pa.array([True, False]),
            "d": pa.array(np.array([1.5, 2.5], dtype=np.float16)),
        }
    )
    found = matrix(table, ["a", "b", "c", "d"])
    assert_allclose(found, [[1.5, 7, 1, 1.5], [2.5, np.nan, 0, 2.5]])
    pa.parquet.write_table(table.append_column("e", [[[1], [2]]]), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", keep_missing=True).roles.left_out == {
        "e": "a list or object"
    }


HEAD = b"qid,label,a\n"
MALFORMED = [
    ("empty.csv", b"", "is empty"),
    ("blank.csv", b"\n\n", "is empty"),
    ("header.csv", HEAD, "has no rows"),
    ("numbers.csv", b"1,2,3\n4,5,6\n", "line 1: the first line has numbers only"),
    ("ragged.csv", HEAD + b"1,1,1\n1,0\n", "line 3: got 2 values for 3 columns"),
    ("long.csv", HEAD + b"1,1,1,1\n", "line 2: got 4 values for 3 columns"),
    ("twice.csv", b"qid,label,a,a\n1,1,1,1\n", r"2 columns 'a' \(columns 3, 4\)"),
    (
        "pairs.csv",
        b"qid,label,a,b,a,b,b\n1,1,1,1,1,1,1\n",
        r"2 columns 'a' \(columns 3, 5\), 3 columns 'b' \(columns 4, 6, 7\): give each",
    ),
    ("unnamed.csv", b"label,,a\n1,1,1\n", "line 1: column 2 has no name"),
    ("mixed.csv", HEAD + b"1,1,1\n\n1,0,x\n1,0,3\n", "line 4: the column 'a' has .*'x' here"),
    ("text.csv", b"label,a,b\n1,x,1\n0,y,2\n", "keep_text=True"),
    (
        "words.csv",
        b"label,a\ngood,1\nbad,2\n",
        "label 'label' has words without a grade: 'good', 'bad'",
    ),
    ("latin.csv", b"label,a,b\n1,1,\xe9t\xe9\n", "line 2: not UTF-8 text, at byte 5"),
    ("head.csv", b"label,\xe9\n1,1\n", "line 1: not UTF-8"),
    ("wide.csv", "label,a\n1,1\n".encode("utf-16"), "UTF-16"),
    ("wider.csv", "label,a\n1,1\n".encode("utf-32"), "'iconv -f UTF-32 -t UTF-8'"),
    ("quote.csv", b'label,a\n1,"2\n0,3\n1,4\n', "line 2: cannot be read as CSV: unexpected end"),
    ("noquery.csv", HEAD + b"1,1,1\n,0,2\n", "line 3: the column 'qid' has no value"),
    (
        "nolabel.csv",
        HEAD + b"1,1,1\n1,,2\n1,nan,2\n",
        "line 3: the column .label. of labels .*1 more row",
    ),
    ("nofeature.csv", HEAD + b"1,1,1\n1,0,\n1,2,NA\n", r"2 missing values .*: a 2 \(67%\)"),
    ("infinite.csv", HEAD + b"1,1,1\n1,0,inf\n", "line 3: the column 'a' is infinite"),
    (
        "date.csv",
        b"label,a\n1,2024-01-01\n0,2024-01-02\n",
        "no column of features is left: a .a date.",
    ),
    ("cut.csv.gz", gzip.compress(HEAD + b"1,1,1\n" * 999, mtime=0)[:-12], "not a complete gzip"),
    ("cut.csv.bz2", bz2.compress(HEAD + b"1,1,1\n" * 999)[:-12], "not a complete bz2"),
    ("empty.parquet", b"", "cannot be read as Parquet"),
    ("cut.parquet", b"PAR1xxxx", "cannot be read as Parquet"),
    ("cut.arrow", b"ARROW1", "cannot be read as Arrow"),
    ("empty.jsonl", b"", "is empty"),
    ("cut.jsonl", b'{"label": 1, "a": 2}\n{"label":', "line 2: not JSON"),
    ("mixed.jsonl", b'{"label":1,"a":2}\n{"label":1,"a":"x"}\n', "line 2: .*'a' has a text here"),
    ("list.jsonl", b'[{"label": 1}]', "line 1: expected an object"),
    ("object.json", b"{}", "a list of objects"),
    ("twice.json", b'[{"label":1},{"label":2,"label":0}]', "row 2: the key 'label' appears twice"),
    (
        "twice.jsonl",
        b'{"label":1}\n{"label":2,"label":0}',
        "line 2: the key 'label' appears twice",
    ),
    ("half.json", b'[{"label":1,"a":"\\ud800"}]', "row 1: the text '.ud800' has half of a surr"),
    ("half.jsonl", b'{"label":1,"a":"x"}\n{"label":1,"a":"\\ud800"}', "line 2: .* half of a surr"),
    ("deep.json", b'[{"label":' + b"[" * 10**5, "row 1: objects or lists are nested too deeply"),
    ("digits.json", b'[{"label":1},{"label":' + b"1" * 5000 + b"}]", "row 2: .* too many digits"),
    ("large.json", b'[{"label":1,"a":' + b"1" * 400 + b"}]", "row 1: the column 'a' is infinite"),
    ("nul.csv", HEAD + b"x,1,1\nx\0,1,2\n", "line 3: the column 'qid' has a NUL character"),
    ("long.jsonl", b'{"qid":"' + b"x" * 200_000 + b'","label":1,"a":1}', "has 200,000 letters"),
    ("mixed.json", b'[{"label":1,"a":2},{"label":1,"a":[]}]', "row 2: the column 'a' has a list"),
]


@pytest.mark.parametrize(("name", "content", "words"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_tables_are_refused(name, content, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=words) as error:
        read_table(path)
    assert name in str(error.value)
    with pytest.raises(DataError, match=words):
        list(TableBlocks(path))


def test_a_mark_of_the_byte_order_is_no_part_of_a_name(tmp_path):
    for name, text in (("t.csv", "label,a\n1,2\n"), ("t.jsonl", '{"label": 1, "a": 2}\n')):
        (tmp_path / name).write_bytes(text.encode("utf-8-sig"))
        assert read_table(tmp_path / name).y.tolist() == [1]


def test_values_of_several_lines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('qid,label,a\n"two\nlines",1,1\n"two\nlines",0,x\n"z",0,1\n')
    with pytest.raises(DataError, match=r"line 4: the column 'a'"):
        read_table(path)
    path.write_text('qid,label,a\n"two\nlines",1,1\n"two\nlines",0,2\n')
    assert read_table(path).qid.tolist() == ["two\nlines"] * 2


@pytest.mark.parametrize(
    ("text", "slowly"),
    [
        ('"label","a"\n1,2\n', False),
        ('"label","a"\r1,2\r', False),
        ('"label","a"\n1,"2"\n', True),
        ('"label","a"\r1,"2"\r', True),
        ('"la\nbel","a"\n1,2\n', True),
    ],
)
def test_quoted_names_alone_need_no_search_for_values_of_several_lines(
    text, slowly, tmp_path, monkeypatch
):
    path, found, read = tmp_path / "t.csv", [], pa.csv.read_csv

    def record(*, parse_options, **options):
        found.append(parse_options.newlines_in_values)
        return read(parse_options=parse_options, **options)

    monkeypatch.setattr(pa.csv, "read_csv", record)
    path.write_text(text, newline="")
    data = read_table(path, features=["a"])
    assert data.X["a"].tolist() == [2]
    assert found == [slowly]


@pytest.mark.parametrize("head", ["label,a\n", '"label","a"\n'])
def test_a_quotation_mark_without_its_partner_far_from_the_start(head, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(head + "1,word\n" * 200_000 + '1,"word\n' + "0,word\n" * 9)
    with pytest.raises(DataError, match="line 200002: cannot be read as CSV: unexpected end"):
        read_table(path, keep_text=True)


def test_parameters_are_checked(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,a\n1,2\n")
    for wrong, words in (
        ({"format": "xls"}, "format must be one of csv"),
        ({"separator": "::"}, "single character"),
        ({"decimal": ",", "thousands": ","}, "must differ"),
        ({"thousands": "1"}, "no letter or digit"),
        ({"dtype": int}, "float64 or float32"),
    ):
        with pytest.raises(ParameterError, match=words):
            read_table(path, **wrong)
    with pytest.raises(DataError, match="names no format"):
        read_table(tmp_path / "t.txt")
    assert read_table(path, dtype=np.float32).X["a"].dtype == np.float32


def test_without_pyarrow_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.csv").write_text("label,a\n1,2\n")
    with pytest.raises(MissingExtraError, match=r"rankwise\[tables\]"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("suffix", [pytest.param(".json", marks=pytest.mark.slow), ".jsonl"])
def test_many_columns_of_json_are_parsed_in_one_piece(suffix, tmp_path, monkeypatch):
    """Blocks of a few rows would take seconds for thousands of columns."""
    n_blocks, read = [], pa.json.read_json

    def record(*source, **options):
        table = read(*source, **options)
        n_blocks.append(table.column(0).num_chunks)
        return table

    monkeypatch.setattr(pa.json, "read_json", record)
    values = np.random.default_rng(0).normal(size=(9, 6_000))
    rows = [{"label": k, **{f"f{j}": v for j, v in enumerate(row)}} for k, row in enumerate(values)]
    frame = pd.DataFrame(rows)
    path = tmp_path / f"t{suffix}"
    frame.to_json(path, orient="records", lines=suffix == ".jsonl")
    assert read_table(path).X.shape == (9, 6_000)
    assert set(n_blocks) == ({1} if suffix == ".jsonl" else set())


def test_marks_between_thousands_are_read_in_every_column_and_block(tmp_path):
    """Also where all numbers would be others with a decimal point, or where the first are small."""
    path = tmp_path / "quoted.csv"
    path.write_text('qid,label,price,big\n0,0,"1.234,50",1.500\n0,1,"2.234,50",2.500\n')
    table = read_table(path, decimal=",", thousands=".")
    assert np.array_equal(table.X, [[1234.5, 1500.0], [2234.5, 2500.0]])
    path = tmp_path / "long.csv"
    rows = [f"{k // 10};{k % 3};{100 + k % 800}" for k in range(120_000)]
    path.write_text("\n".join(["qid;label;big", *rows, "12000;0;1.100", "12000;1;1.200", ""]))
    *_, last = TableBlocks(path, decimal=",", thousands=".")
    assert np.array_equal(np.ravel(last.X)[-2:], [1100.0, 1200.0])
