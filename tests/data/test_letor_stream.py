"""LetorBlocks: LETOR files in blocks of whole queries."""

import gzip
import os
import tracemalloc
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rankwise.data import LetorBlocks, read_letor, write_letor
from rankwise.errors import DataError, LetorFormatError, ParameterError


def joined(blocks):
    X = [block.X for block in blocks]
    X = sp.vstack(X).toarray() if sp.issparse(X[0]) else np.concatenate(X)
    return X, np.concatenate([b.y for b in blocks]), np.concatenate([b.qid for b in blocks])


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(16, 4000),
    st.booleans(),
    st.sampled_from([0.1, 0.9]),
)
def test_blocks_are_the_file_and_split_no_query(tmp_path_factory, sizes, n_bytes, text, fill):
    rng = np.random.default_rng(0)
    n = sum(sizes)
    X = np.where(rng.random((n, 6)) < fill, rng.standard_normal((n, 6)), 0.0)
    X[0] = 1.0
    qid = np.repeat(np.arange(len(sizes)), sizes)
    qid = np.array([f"q{k}" if k % 3 else str(k) for k in qid]) if text else qid
    path = tmp_path_factory.mktemp("letor") / "data.txt"
    write_letor(path, X, rng.integers(0, 3, n), qid)
    whole = read_letor(path)
    blocks = LetorBlocks(path, block_bytes=n_bytes)
    for _ in range(2):  # it starts again
        with mock.patch("rankwise.data.letor.BLOCK_BYTES", 64):
            parts = list(blocks)
        X_all, y, ids = joined(parts)
        assert_array_equal(X_all, whole.X.toarray() if sp.issparse(whole.X) else whole.X)
        assert_array_equal(y, whole.y)
        assert_array_equal(ids, whole.qid)
        for first, second in pairwise(parts):
            assert not set(first.qid) & set(second.qid)
    survey = blocks.survey
    assert (survey.n_rows, survey.n_queries, survey.n_features) == (n, len(sizes), 6)
    assert survey.n_bytes == path.stat().st_size


def test_ids_that_turn_into_text_are_text_in_every_block(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.data.letor.BLOCK_BYTES", 64)
    path = tmp_path / "data.txt"
    rows = [f"1 qid:{k // 4} 1:{k}\n" for k in range(40)] + ["0 qid:last 1:3\n"]
    path.write_text("".join(rows))
    blocks = list(LetorBlocks(path, block_bytes=64))
    assert len(blocks) > 3
    assert all(block.qid.dtype.kind == "U" for block in blocks)


def test_padded_ids_are_text(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.data.letor.BLOCK_BYTES", 64)
    path = tmp_path / "data.txt"
    rows = [f"1 qid:00{k // 8} 1:{k}\n" for k in range(40)]
    path.write_text("".join(rows))
    assert LetorBlocks(path).survey.n_queries == 5
    path.write_text("".join([*rows, "0 qid:x 1:1\n"]))
    blocks = LetorBlocks(path, block_bytes=64)
    assert blocks.survey.n_queries == 6
    assert joined(list(blocks))[2].tolist() == read_letor(path).qid.tolist()
    path.write_text("1 qid:7 1:1\n1 qid:07 1:2\n1 qid:7 1:2\n1 qid:8 1:1\n")
    with pytest.raises(LetorFormatError, match="line 3: query 7 appears again"):
        LetorBlocks(path).survey  # noqa: B018
    path.write_text("1 qid:7 1:1\n1 qid:8 1:1\n1 qid:07 1:2\n1 qid:x 1:1\n")
    assert LetorBlocks(path).survey.n_queries == 4


def test_a_pipe_is_read_once_or_refused(tmp_path):
    text = "1 qid:1 1:0.5 2:1\n0 qid:1 1:0.25 2:3\n"
    for bad in (False, True):
        end, start = os.pipe()
        os.write(start, (text + "x\n" * bad).encode())
        os.close(start)
        pipe = f"/dev/fd/{end}"
        with pytest.raises(DataError, match="is a pipe or a device"):
            LetorBlocks(pipe).survey  # noqa: B018
        if bad:
            with pytest.raises(LetorFormatError, match="line 3: 'x' has no number"):
                read_letor(pipe)
        else:
            assert read_letor(pipe).X.tolist() == [[0.5, 1.0], [0.25, 3.0]]
        os.close(end)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_a_file_that_changes_is_refused(tmp_path, layout):
    path = tmp_path / "data.txt"

    def write(width):
        step = 1 if layout == "dense" else 37
        rows = [f"1 qid:{k // 3} {1 + k % width * step}:1\n" for k in range(60)]
        path.write_text("".join(rows))

    write(3)
    blocks = LetorBlocks(path)
    assert blocks.survey.layout == layout
    write(500)
    with pytest.raises(LetorFormatError, match="has changed"):
        list(blocks)


@pytest.mark.parametrize("block_bytes", [0, -1, 1.5, "a"])
def test_invalid_block_bytes(tmp_path, block_bytes):
    with pytest.raises(ParameterError, match="block_bytes"):
        LetorBlocks(tmp_path / "x", block_bytes=block_bytes)
    assert repr(LetorBlocks("x.txt")) == "LetorBlocks('x.txt')"


def test_gzip_comments_and_missing_ids(tmp_path):
    path = tmp_path / "data.txt.gz"
    with gzip.open(path, "wt") as file:
        file.write("# head\n\n1 1:2 # a\n0 2:1\n")
    calls = []
    (block,) = LetorBlocks(path, dtype=np.float32, progress=lambda *a: calls.append(a))
    assert block.qid is None
    assert block.X.dtype == np.float32
    assert_array_equal(block.X, [[2, 0], [0, 1]])
    assert calls == [(0, 0), (24, 0), (0, 24), (24, 24)]


def test_a_query_that_is_not_contiguous_is_named_with_its_line(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1 qid:a 1:1\n0 qid:a 1:2\n\n1 qid:b 1:1\n0 qid:a 1:3\n")
    with pytest.raises(LetorFormatError, match=r"line 5: query a appears again.*sort.*or read all"):
        list(LetorBlocks(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:x\n", "line 1"),
        ("# nothing\n", "no rows"),
        ("1 qid:1 1:1\n2 1:1\n", "line 2: this row has no qid"),
        ("1 qid:1 9:1\n", "line 1"),
    ],
)
def test_errors_are_raised_before_the_first_block(tmp_path, text, message):
    path = tmp_path / "data.txt"
    path.write_text(text)
    with pytest.raises(LetorFormatError, match=message):
        next(iter(LetorBlocks(path, n_features=3)))


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.data.letor.BLOCK_BYTES", 2**14)
    rng = np.random.default_rng(0)
    peaks = []
    for n in (4_000, 16_000):
        path = tmp_path / f"{n}.txt"
        write_letor(path, rng.integers(0, 9, (n, 20)), np.zeros(n), np.arange(n) // 50)
        blocks = LetorBlocks(path, block_bytes=2**16)
        blocks.survey  # noqa: B018
        tracemalloc.start()
        for _ in blocks:
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
