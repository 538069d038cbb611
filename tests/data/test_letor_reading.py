"""read_letor against a slow oracle."""

import gzip
import math
import re
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from rankwise.data import LetorBlocks, letor, qid_from_groups, read_letor
from rankwise.data.query_rows import group_file_beside
from rankwise.errors import DataError, LetorFormatError, ParameterError
from tests.oracles.letor import parse_letor

finite = st.floats(allow_nan=False, allow_infinity=False)
digits = st.text("0123456789", min_size=1, max_size=30)
signs = st.sampled_from(["", "-", "+"])


@st.composite
def decimals(draw: st.DrawFn) -> str:
    """Any way to write a finite number."""
    style = draw(st.sampled_from(["repr", "fixed", "scientific", "free"]))
    if style == "repr":
        return repr(draw(finite))
    if style == "fixed":
        return f"{draw(st.floats(-1e6, 1e6)):.{draw(st.integers(0, 25))}f}"
    if style == "scientific":
        return f"{draw(finite):.{draw(st.integers(0, 25))}{draw(st.sampled_from('eE'))}}"
    mantissa = draw(
        st.one_of(
            digits,
            st.builds("{}.{}".format, digits, digits),
            st.builds("{}.".format, digits),
            st.builds(".{}".format, digits),
        )
    )
    exponent = draw(st.one_of(st.just(""), st.integers(-330, 270).map(lambda e: f"e{e:+}")))
    return draw(signs) + mantissa + exponent


numbers = decimals().filter(lambda text: math.isfinite(float(text)))
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=8)
blanks = st.sampled_from([" ", "  ", "\t", " \t "])
text_ids = texts.map(lambda text: text.replace("#", "") or "x")
integer_ids = st.integers(-(2**63) + 1, 2**63 - 1).map(str) | st.sampled_from(["007", "+3", "-0"])


@st.composite
def letor_texts(draw: st.DrawFn) -> str:
    """A file: rows, blank lines, comments, either line end, perhaps no last newline."""
    ids = draw(st.sampled_from([st.none(), integer_ids, integer_ids | text_ids]))
    lines = []
    for _ in range(draw(st.integers(1, 6))):
        for _ in range(draw(st.integers(0, 1))):
            lines.append(draw(st.sampled_from(["", "  ", "\t", "# only a comment", " #"])))
        parts = [draw(numbers)]
        if (qid := draw(ids)) is not None:
            parts.append(f"qid:{qid}")
        for index in sorted(draw(st.sets(st.integers(1, 12), max_size=6))):
            parts.append(f"{index}:{draw(numbers)}")
        comment = draw(st.one_of(st.just(""), texts.map("#{}".format), texts.map(" # {} ".format)))
        lines.append(draw(st.sampled_from(["", " "])) + draw(blanks).join(parts) + comment)
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end, end + end]))


def as_bits(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.float64).view(np.int64)


def expected_ids(ids: list[str]) -> list[int] | list[str]:
    if all(re.fullmatch("-?[1-9][0-9]*|0", i) for i in ids):
        return [int(i) for i in ids]
    return ids


@pytest.mark.slow
@pytest.mark.ci
@given(
    letor_texts(),
    st.sampled_from([8, 64, 1 << 20]),
    st.booleans(),
    st.sampled_from(["dense", "sparse", "auto"]),
)
@example("1 1:0.1 # a\r\n0 2:5", 8, True, "dense")
def test_agrees_with_split_and_float(text, block_bytes, packed, layout):
    rows = parse_letor(text)
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(letor, "BLOCK_BYTES", block_bytes),
    ):
        path = Path(folder, "data")  # no suffix: gzip is recognized by its first bytes
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        data = read_letor(path, layout=layout, comments=True)
    X = np.zeros((len(rows), max((max(r[2], default=0) for r in rows), default=0)))
    for i, (_, _, features, _) in enumerate(rows):
        for index, value in features.items():
            X[i, index - 1] = value
    assert_array_equal(as_bits(data.y), as_bits([r[0] for r in rows]))
    assert data.comments == [r[3] for r in rows]
    if rows[0][1] is None:
        assert data.qid is None
    else:
        want = expected_ids([r[1] for r in rows])
        assert data.qid.tolist() == want
        assert (
            data.qid.dtype == np.int64 if isinstance(want[0], int) else data.qid.dtype.kind == "U"
        )
    if layout == "dense":
        assert_array_equal(as_bits(data.X), as_bits(X))
    else:
        assert_array_equal(data.X.toarray() if sparse.issparse(data.X) else data.X, X)
        assert sparse.issparse(data.X) or layout == "auto"


def read_numbers(tmp_path: Path, numbers: list[str]) -> np.ndarray:
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"0 1:{number}\n" for number in numbers))
    return read_letor(path, layout="dense").X[:, 0]


def test_numbers_near_a_tie_are_exact(tmp_path):
    """Decimals right at, just below and just above the middle between two doubles."""
    rng = np.random.default_rng(0)
    numbers = []
    for bits in rng.integers(1 << 52, 1 << 53, size=300).tolist():
        shift = int(rng.integers(-60, 8))
        middle = 2 * bits + 1
        exact = middle * 2**shift if shift >= 0 else middle * 5**-shift
        text = f"{exact}e{min(shift, 0)}"
        numbers += [text, text.replace("e", "1e"), f"{exact - 1}e{min(shift, 0)}"]
    numbers += [f"{w}e{q}" for w in (9007199254740993, 2**63, 2**64 - 1, 1) for q in range(-30, 30)]
    numbers += ["1e23", "8.5e22", "4.9e-324", "2.2250738585072011e-308", "1.7976931348623157e308"]
    assert_array_equal(
        as_bits(read_numbers(tmp_path, numbers)), as_bits([float(n) for n in numbers])
    )


def test_every_power_of_ten_is_exact(tmp_path):
    rng = np.random.default_rng(1)
    numbers = [f"{w}e{q}" for q in range(-320, 290) for w in rng.integers(1, 10**18, 5).tolist()]
    assert_array_equal(
        as_bits(read_numbers(tmp_path, numbers)), as_bits([float(n) for n in numbers])
    )


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "data.txt"
    path.write_text(text)
    return path


def test_auto_is_dense_from_a_third_of_the_cells_on(tmp_path):
    dense = write(tmp_path, "1 1:1 2:1 3:1\n0 1:1\n1\n0\n")  # 4 of 12
    assert isinstance(read_letor(dense).X, np.ndarray)
    thin = write(tmp_path, "1 1:1 2:1 3:1\n0 1:1\n1\n0\n0\n")  # 4 of 15
    X = read_letor(thin).X
    assert isinstance(X, sparse.csr_array)
    assert X.shape == (5, 3)


def test_zeros_in_front_of_an_index_do_not_count(tmp_path):
    path = write(tmp_path, f"1 qid:1 {'0' * 24}1:1.5 {'0' * 5000}4:2.5\n")
    assert_array_equal(read_letor(path, layout="dense").X, [[1.5, 0.0, 0.0, 2.5]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_auto_changes_the_layout_if_the_first_blocks_are_misleading(tmp_path, dtype):
    full, wide = "1 1:1 2:2 3:3\n" * 20, "0 2:1.5 1000:0 2000:4\n" * 20
    with mock.patch.object(letor, "BLOCK_BYTES", 64):
        late_wide = read_letor(write(tmp_path, full + wide), dtype=dtype).X
        assert isinstance(late_wide, sparse.csr_array)
        assert late_wide.has_canonical_format
        assert late_wide.nnz == 20 * 3 + 20 * 2  # the written zero is not stored
        wanted = read_letor(write(tmp_path, full + wide), layout="dense", dtype=dtype).X
        assert_array_equal(late_wide.toarray(), wanted)
        late_full = read_letor(write(tmp_path, "0 3:7\n" * 20 + full * 5), dtype=dtype).X
        assert isinstance(late_full, np.ndarray)
        assert late_full[:, 2].tolist() == [7] * 20 + [3] * 100
        assert late_full.dtype == late_wide.dtype == dtype


def test_features_that_first_appear_late_widen_the_dense_rows(tmp_path):
    text = "".join(
        f"0 {' '.join(f'{j}:{i + j}' for j in range(1, 2 + i // 9))}\n" for i in range(90)
    )
    with mock.patch.object(letor, "BLOCK_BYTES", 64):
        X = read_letor(write(tmp_path, text), layout="dense").X
    i, j = np.indices(X.shape)
    assert_array_equal(X, np.where(j < 1 + i // 9, i + j + 1, 0))


def test_n_features_sets_the_width(tmp_path):
    path = write(tmp_path, "1 1:1\n0 2:1\n")
    assert read_letor(path, n_features=5).X.shape == (2, 5)
    assert read_letor(path, n_features=5, layout="sparse").X.shape == (2, 5)


def test_rows_without_features(tmp_path):
    data = read_letor(write(tmp_path, "1 qid:1\n0 qid:1 # nothing\n"))
    assert data.X.shape == (2, 0)
    assert data.y.tolist() == [1, 0]


def test_float32_rounds_the_double(tmp_path):
    X = read_letor(write(tmp_path, "1 1:0.1 2:16777217\n"), dtype=np.float32).X
    assert X.dtype == np.float32
    assert X.tolist() == [[np.float32(0.1), np.float32(16777217)]]


def test_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"\xef\xbb\xbf1 qid:2 1:3\n")
    assert read_letor(path).y.tolist() == [1]


def test_integers_before_text_ids_keep_their_text(tmp_path):
    with mock.patch.object(letor, "BLOCK_BYTES", 16):
        qid = read_letor(write(tmp_path, "".join(f"1 qid:{q}\n" for q in ["7", "007", "é7"]))).qid
    assert qid.tolist() == ["7", "007", "é7"]


def test_ids_are_told_apart_as_they_are_written(tmp_path):
    path = write(tmp_path, "1 qid:01 1:1\n0 qid:1 1:0\n2 qid:1 1:3\n")
    assert read_letor(path).qid.tolist() == ["01", "1", "1"]
    assert LetorBlocks(path).survey.n_queries == 2
    for ids in ("a", "a\0"), ("\0a", "b"):
        path = write(tmp_path, "".join(f"1 qid:{i} 1:1\n" for i in ids))
        with pytest.raises(LetorFormatError, match="the query id has a null byte"):
            read_letor(path)
    path = write(tmp_path, "1 qid:a 1:1 # \0\n")
    assert read_letor(path).qid.tolist() == ["a"]


def test_a_long_id_takes_no_more_memory_than_it_has(tmp_path):
    ids = [f"x{k // 2}" for k in range(2000)] + ["y" * 100_000]
    path = write(tmp_path, "".join(f"1 qid:{i} 1:1\n" for i in ids))
    tracemalloc.start()
    try:
        qid = read_letor(path).qid
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert qid.tolist() == ids
    assert peak < 100_000_000  # 800 MB, if all were as long
    assert LetorBlocks(path).survey.n_queries == 1001


def test_comments_are_kept_only_if_asked_for_and_may_be_any_bytes(tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"1 1:2 #docid = 4 # inc = 1 \n0 1:1 # caf\xe9\n0 1:1\n")
    assert read_letor(path).comments is None
    assert read_letor(path, comments=True).comments == ["docid = 4 # inc = 1", "caf\ufffd", ""]


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_rows_that_take_more_room_than_the_first_ones_suggest(tmp_path, layout):
    short, long = f"1 2:5 # {'-' * 50}\n", "0 1:3 2:4\n"
    path = write(tmp_path, short + long * 20_000)
    with mock.patch.object(letor, "BLOCK_BYTES", 64):
        X = read_letor(path, layout=layout).X
    assert_array_equal(X if layout == "dense" else X.toarray(), [[0, 5], *[[3, 4]] * 20_000])


def test_sparse_indices_take_four_bytes(tmp_path):
    X = read_letor(write(tmp_path, "1 1:2 5:1\n0 3:1\n"), layout="sparse").X
    assert X.indices.dtype == X.indptr.dtype == np.int32


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_memory_is_the_result_and_a_few_blocks(tmp_path, layout):
    """8 MB of text in blocks of 64 kB; X is 6 or 9 MB, and the text is never held."""
    rng = np.random.default_rng(0)
    pairs = [
        " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(row)) for row in rng.random((200, 100))
    ]
    path = write(tmp_path, "".join(f"1 qid:{i // 50} {pairs[i % 200]}\n" for i in range(7000)))
    with mock.patch.object(letor, "BLOCK_BYTES", 1 << 16):
        read_letor(path, layout=layout)
        tracemalloc.start()
        try:
            X = read_letor(path, layout=layout).X
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    arrays = [X] if layout == "dense" else [X.data, X.indices, X.indptr]
    result = sum(array.nbytes for array in arrays)
    assert peak - result < 0.3 * result + 5_000_000


@pytest.mark.parametrize("fill", [0.0, -1.5, np.nan])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_missing_values(tmp_path, fill, layout):
    path = tmp_path / "null.txt"
    path.write_text("1 qid:1 1:NULL 2:3 3:NULL\n0 qid:1 2:NULL\n2 qid:1 1:2 3:NULL # NULL\n")
    want = [[fill, 3.0, fill], [0.0, fill, 0.0], [2.0, 0.0, fill]]
    found = read_letor(path, fill=fill, layout=layout).X
    assert_array_equal(found.toarray() if layout == "sparse" else found, want)
    (block,) = LetorBlocks(path, fill=fill)
    assert_array_equal(block.X, want)


@pytest.mark.parametrize("word", ["NULLS", "NUL", "null", "NULL:1", "N"])
def test_only_null_is_missing(tmp_path, word):
    path = tmp_path / "null.txt"
    path.write_text(f"1 qid:1 1:2 2:{word}\n")
    with pytest.raises(LetorFormatError, match="line 1"):
        read_letor(path, fill=0.0)


@pytest.mark.parametrize("fill", ["0", np.inf, True])
def test_invalid_fill(tmp_path, fill):
    with pytest.raises(ParameterError, match="fill must be"):
        read_letor(tmp_path / "null.txt", fill=fill)


def test_query_ids_from_group_sizes():
    assert qid_from_groups([1, 2]).tolist() == [0, 1, 1]
    assert qid_from_groups(np.array([2.0, 1.0])).tolist() == [0, 0, 1]
    for sizes, message in (
        ([2, 0], "got 0 for group 1"),
        ([1.5], "got 1.5 for group 0"),
        (["a"], "got a for group 0"),
        ([[1]], "list of group sizes"),
        ([], "list of group sizes"),
    ):
        with pytest.raises(DataError, match=message):
            qid_from_groups(sizes)


def test_the_file_of_group_sizes_of_a_gzipped_file(tmp_path):
    assert group_file_beside(tmp_path / "a.txt.gz") is None
    (tmp_path / "a.txt.query").touch()
    assert group_file_beside(tmp_path / "a.txt.gz") == tmp_path / "a.txt.query"
