"""write_letor: its text, round trips, and errors."""

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse

from rankwise.data import read_letor, write_letor
from rankwise.errors import DataError
from tests.oracles.letor import parse_letor

finite = st.floats(allow_nan=False, allow_infinity=False)
shapes = st.tuples(st.integers(1, 8), st.integers(1, 6))
words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=6)


@settings(max_examples=50, deadline=None)
@given(st.data(), hnp.arrays(np.float64, shapes, elements=finite | st.integers(0, 3).map(float)))
def test_round_trip(data, X):
    n, d = X.shape
    y = data.draw(hnp.arrays(np.float64, n, elements=finite))
    ids = data.draw(
        st.sampled_from(
            [st.integers(-(2**62), 2**62), words.map(lambda word: "q" + word.replace("#", ""))]
        )
    )
    qid = data.draw(st.none() | st.lists(ids, min_size=n, max_size=n))
    comments = data.draw(st.none() | st.lists(words, min_size=n, max_size=n))
    kind = data.draw(st.sampled_from([np.asarray, sparse.csr_array, sparse.csc_matrix]))
    name = data.draw(st.sampled_from(["data.txt", "data.gz"]))
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        write_letor(path, kind(X), y, qid, comments=comments)
        assert os.listdir(folder) == [name]
        back = read_letor(path, n_features=d, layout="dense", comments=comments is not None)
    assert_array_equal(back.X, X)
    assert_array_equal(back.y, y)
    assert (back.qid is None) if qid is None else (back.qid.tolist() == qid)
    assert back.comments == comments


def test_text_is_short_and_skips_zeros(tmp_path):
    path = tmp_path / "data.txt"
    X = [[0.1, 0, 3, 1e22], [0, 0, 0, 0], [-10, 0.5, 1e-7, 100]]
    write_letor(path, X, [2, 0.5, -1], qid=[1.0, 1.0, 2.0], comments=["a", "", "b # c"])
    assert path.read_text() == (
        "2 qid:1 1:0.1 3:3 4:1e+22 # a\n0.5 qid:1\n-1 qid:2 1:-10 2:0.5 3:1e-07 4:100 # b # c\n"
    )


def test_more_rows_than_are_written_at_once(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.random_array((2500, 30), density=0.1, format="csr", rng=rng)
    y = rng.integers(0, 3, 2500)
    write_letor(tmp_path / "data.txt", X, y, np.arange(2500) // 7)
    rows = parse_letor((tmp_path / "data.txt").read_text())
    assert [row[0] for row in rows] == y.tolist()
    assert [{i + 1: v for i, v in r.items()} for r in rows_of(X)] == [row[2] for row in rows]


def rows_of(X: sparse.csr_array) -> list[dict[int, float]]:
    rows: list[dict[int, float]] = [{} for _ in range(X.shape[0])]
    for i, j, value in zip(*X.nonzero(), X.data.tolist(), strict=True):
        rows[i][int(j)] = value
    return rows


def test_float32_integers_and_duplicates_are_written_exactly(tmp_path):
    path = tmp_path / "data.txt"
    X = np.array([[0.1, 1.0]], dtype=np.float32)
    write_letor(path, X, [1])
    assert_array_equal(read_letor(path).X, X.astype(np.float64))
    write_letor(path, np.array([[7, -2]]), [1])
    assert read_letor(path).X.tolist() == [[7, -2]]
    twice = sparse.csr_array(([1.0, 2.0, 5.0], [1, 1, 0], [0, 3]), shape=(1, 2))
    write_letor(path, twice, [1])
    assert read_letor(path).X.tolist() == [[5, 3]]


def test_gzip_is_deterministic(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_letor(tmp_path / name, [[1.0]], [1])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[np.nan], [1.0]], [1, 2]), "X contains NaN or infinite"),
        ((sparse.csr_array([[np.inf], [1.0]]), [1, 2]), "X contains NaN or infinite"),
        (([1.0, 2.0], [1, 2]), "numbers in two dimensions"),
        (([["a"]], [1]), "X must contain numbers"),
        (([[1.0]], [1, 2]), r"y needs one entry per row of X: got shape \(2,\) for 1 rows"),
        (([[1.0], [2.0]], [1, np.inf]), "y must be finite: entry 1 is inf"),
        (([[1.0]], [1], [1, 2]), "qid needs one entry per row of X: got 2 for 1 rows"),
        (([[1.0]], [1], ["a b"]), "The query id 'a b' cannot be written: an id must not"),
        (([[1.0]], [1], ["a#b"]), "The query id 'a#b' cannot be written"),
        (([[1.0]], [1], [""]), "The query id '' cannot be written"),
        (([[1.0]], [1], ["a\n"]), r"The query id 'a\\n' cannot be written"),
    ],
)
def test_errors_for_rows(tmp_path, arguments, words):
    path = tmp_path / "data.txt"
    path.write_text("old")
    with pytest.raises(DataError, match=words):
        write_letor(path, *arguments)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["data.txt"]


@pytest.mark.parametrize(
    ("comments", "words"),
    [
        (["a"], "comments must have one entry per row of X: got 1 for 2 rows"),
        (["a", "b\nc"], r"The comment of row 1 contains a line break: 'b\\nc'"),
    ],
)
def test_errors_for_comments(tmp_path, comments, words):
    with pytest.raises(DataError, match=words):
        write_letor(tmp_path / "data.txt", [[1.0], [2.0]], [1, 2], comments=comments)


@pytest.mark.parametrize("name", ["data.txt", "data.gz"])
def test_an_error_while_writing_leaves_no_file(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")
    surrogate = "\udc80"  # cannot be encoded, which only writing shows
    with pytest.raises(UnicodeEncodeError):
        write_letor(path, np.ones((3000, 1)), np.ones(3000), comments=[""] * 2999 + [surrogate])
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions on Windows")
def test_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "plain").touch()
    write_letor(tmp_path / "data.txt", [[1.0]], [1])
    plain, written = ((tmp_path / name).stat().st_mode for name in ("plain", "data.txt"))
    assert stat.S_IMODE(written) == stat.S_IMODE(plain)
