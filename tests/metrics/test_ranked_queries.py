"""The input of every metric: which containers it takes, how it ranks rows, what it refuses."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import DataError
from rankwise.metrics import evaluate_ranking
from rankwise.metrics.ranked_queries import RankedQueries

Y = [1, 0, 1, 0, 0, 1]
F = [0.5, 0.25, 0.75, 0.5, 1.0, 0.5]
QID = ["a", "a", "b", "a", "b", "b"]


def contents(ranked):
    return ranked.groups.names.tolist(), ranked.labels.tolist(), ranked.tied.tolist()


@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        tuple,
        pd.Series,
        pl.Series,
        lambda v: np.array(v)[:, None],
        lambda v: np.array(v, dtype=object),
        lambda v: pd.DataFrame({"column": v}),
        lambda v: pd.Series(v, index=range(10, 10 + len(v))),
    ],
)
def test_containers(convert):
    want = contents(RankedQueries.of(Y, F, QID))
    assert contents(RankedQueries.of(convert(Y), convert(F), convert(QID))) == want


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.float64])
def test_dtypes_strides_and_read_only_arrays(dtype):
    want = contents(RankedQueries.of(Y, F, QID))
    y = np.array(Y, dtype=dtype)
    assert contents(RankedQueries.of(y, np.array(F, dtype=np.float32), QID)) == want
    assert contents(RankedQueries.of(np.repeat(y, 2)[::2], F, QID)) == want
    y.flags.writeable = False
    assert contents(RankedQueries.of(y, F, QID)) == want


def test_input_is_not_changed():
    y, f = np.array(Y, dtype=float), np.array(F)
    evaluate_ranking(y, f, QID)
    assert y.tolist() == Y
    assert f.tolist() == F


@pytest.mark.parametrize(
    ("y", "f", "qid", "words"),
    [
        ([1, 0, 1], [1.0, 2.0], None, r"scores needs one entry per row of y: got 2 for 3 rows"),
        ([1, 0], [1.0, 2.0], [1, 2, 3], r"qid needs one entry per row.*got 3 for 2 rows"),
        ([1, 0], [1.0, np.nan], None, r"scores is nan in row 1 \(1 row is not finite\): drop"),
        ([1, -np.inf, np.nan], [1.0, 2, 3], None, r"y is -inf in row 1 \(2 rows are not finite\)"),
        (["x", "y"], [1.0, 2.0], None, r"y needs one real number per row: got dtype <U1"),
        ([1, 0], [1j, 2], None, r"scores needs one real number per row: got dtype complex128"),
        (
            np.array([1, None, "x"], dtype=object),
            [1.0, 2, 3],
            None,
            r"y is not a number in row 1: got None\. Drop such rows",
        ),
        (pd.Series([1, pd.NA], dtype="Int64"), [1.0, 2.0], None, r"y is .* in row 1"),
        ([[1, 0], [0, 1]], [1.0, 2.0], None, r"y needs one number per row.*got shape \(2, 2\)"),
        ([1, 0], 3.0, None, r"scores needs one number per row.*got shape \(\)"),
        ([], [], None, r"There are no rows to evaluate: y is empty"),
        ([2**60, 0], [1.0, 2.0], None, r"y has whole numbers beyond 2\*\*53"),
        (np.ma.array([1, 0], mask=[0, 1]), [1.0, 2.0], None, r"y has masked entries"),
    ],
)
def test_invalid_rows(y, f, qid, words):
    with pytest.raises(DataError, match=words):
        RankedQueries.of(y, f, qid)


def ranked_rows(f, qid=None):
    """Row numbers in the order of the scores, and the ties."""
    ranked = RankedQueries.of(np.arange(len(f)), f, qid)
    return ranked.labels.astype(int), ranked.tied


@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 60, 2**50]))
def test_scores_that_differ_in_their_last_bits(n, seed, spread):
    """Scores that agree in the leading bits, which are sorted first, of both signs."""
    rng = np.random.default_rng(seed)
    start = rng.choice([np.float64(1.0), np.float64(-3.7), np.float64(1e-300)], n)
    f = (start.view(np.int64) + rng.integers(0, spread, n)).view(np.float64)
    rows, tied = ranked_rows(f)
    want = np.argsort(-f, kind="stable")
    assert rows.tolist() == want.tolist()
    assert tied.tolist() == [False, *(f[want][1:] == f[want][:-1]).tolist()]


def test_extreme_scores():
    f = np.array([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, np.finfo(float).max, -1.0])
    rows, tied = ranked_rows(f)
    assert f[rows].tolist() == sorted(f.tolist(), reverse=True)
    assert tied.tolist() == [False, False, False, False, True, False, False, False]


def test_shuffled_queries():
    rows, tied = ranked_rows([0.1, 0.4, 0.3, 0.4, 0.3], ["b", "a", "b", "a", "b"])
    assert rows.tolist() == [2, 4, 0, 1, 3]
    assert tied.tolist() == [False, True, False, False, True]
