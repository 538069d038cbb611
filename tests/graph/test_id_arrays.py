"""Ids that NumPy would merge stay apart, and what is no id is refused."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rankwise import RankRLS, SparseRankRLS
from rankwise.data import Battles, Comparisons
from rankwise.errors import DataError
from rankwise.graph import QueryGroups, query_groups
from rankwise.metrics import ndcg
from rankwise.model_selection import cross_validate, leave_query_out

X = np.random.default_rng(0).normal(size=(6, 2))
y = np.array([0, 1, 1, 0, 2, 1])


@pytest.mark.parametrize(
    "ids",
    [
        [2**63, 2**63 + 1, -1],
        [1, "1", 2],
        [2**53, 2**53 + 1, 1.0],
        [2**64, 2**64 + 1, 1.0],
        [Decimal(2**53), Decimal(2**53 + 1), Decimal("0.5")],
        ["a", "a\0", "b"],
        (True, "True", 2),
        np.array([1, "1", 2], dtype=object),
        pl.Series(["a", "a\0", "b"]),
        pd.Series(["a", "a\0", "b"]),
    ],
    ids=str,
)
def test_different_ids_are_different_queries(ids):
    assert QueryGroups.of(ids).n_groups == 3


@pytest.mark.parametrize("ids", [[3, 1, 3], ["b", "a", "b"], [5.0, 7.0, 5.0], [np.int64(3), 1, 3]])
def test_ids_of_one_type_are_a_plain_array(ids):
    groups = QueryGroups.of(ids)
    assert groups.codes.tolist() == [0, 1, 0]
    assert groups.names.dtype.kind in "iU"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1], [2], [3, 4]], "lists of several lengths"),
        ([{1}, {2}, {3}], "numbers or text: .*unhashable"),
        (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), "masked"),
    ],
)
def test_what_is_no_id_is_refused(ids, message):
    with pytest.raises(DataError, match=message):
        QueryGroups.of(ids)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 1.5, 2], r"qid has the float 1\.5 in row 1: ids are whole numbers or text"),
        ([1.5, 2**60 + 1], r"the float 1\.5 in row 0"),
        (np.array([2**60, 2**60 + 1], dtype=float), "in row 0: floats of this size stand for"),
        (np.array([1, 2**24], dtype=np.float32), "in row 1: floats of this size stand for"),
        (np.array(["a", np.inf], dtype=object), "the float inf in row 1"),
        ([True, 1], "truth values beside 0 or 1"),
        ([1.0, np.nan], "qid is missing in row 1"),
        ([Decimal(1), Decimal("sNaN")], "qid is missing in row 1"),
    ],
    ids=str,
)
def test_floats_that_may_be_several_ids_are_refused(ids, message):
    with pytest.raises(DataError, match=message):
        QueryGroups.of(ids)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([5.0, 7.0, 5.0]),
        np.array([5, 7, 5], dtype=np.float16),
        np.array([5.0, 7, 5], dtype=object),
        pd.Series([5, 7, 5], dtype="float64"),
        pd.Series(pd.Categorical([5.0, 7.0, 5.0])),
    ],
    ids=lambda ids: f"{type(ids).__name__} {ids.dtype}",
)
def test_whole_floats_are_integers(ids):
    groups = QueryGroups.of(ids)
    assert groups.names.tolist() == [5, 7]
    assert {type(name) for name in groups.names.tolist()} == {int}
    assert groups.codes.tolist() == [0, 1, 0]


def test_integers_of_128_bits():
    ids = pl.Series([2**64 + 1, 2**64, 2**64 + 1], dtype=pl.Int128)
    assert QueryGroups.of(ids).names.tolist() == [2**64 + 1, 2**64]


def test_joined_ids_are_what_they_were():
    parts = [np.array([-1, 2]), np.array([2**63], dtype=np.uint64), np.array(["2"])]
    assert query_groups.join_ids(parts).tolist() == [-1, 2, 2**63, "2"]
    assert query_groups.join_ids(parts[:1] * 2).dtype == np.int64


CLOSE = [2**53, 2**53, 2**53 + 1, 2**53 + 1, 1.0, 1.0]
WITHIN = [2**53 + k for k in (0, 0, 1, 1)] + [0.5] * 2


@pytest.mark.parametrize(
    "use",
    [
        lambda qid: RankRLS().fit(X, y, qid=qid).predict(X),
        lambda qid: SparseRankRLS().partial_fit(X, y, qid=qid).predict(X, qid=qid),
        lambda qid: leave_query_out(RankRLS(1.0), X, y, qid=qid).predictions,
        lambda qid: cross_validate(RankRLS(1.0), X, y, qid=qid, cv=3).predictions,
        lambda qid: ndcg(y, X[:, 0], qid),
        lambda qid: Battles.of(qid, list("abcdef"), [1] * 6, groups=qid, judge=qid).pairs,
        lambda qid: (
            Comparisons.of(qid, ["x"] * 6, items=[*dict.fromkeys(qid), "x"], groups=qid).pairs
        ),
    ],
    ids=[
        "fit",
        "partial_fit",
        "leave_query_out",
        "cross_validate",
        "ndcg",
        "Battles",
        "Comparisons",
    ],
)
def test_ids_are_the_same_everywhere(use):
    """Ids beside a float are not rounded, and floats that may be several ids are refused."""
    np.testing.assert_allclose(use(CLOSE), use([4, 4, 5, 5, 1, 1]))
    with pytest.raises(DataError, match=r"the float 0\.5 in row 4"):
        use(WITHIN)


@pytest.mark.parametrize("ids", [np.array([1 + 0j, 2]), [1 + 0j, "a"], [1j, 2]])
def test_complex_ids_are_refused(ids):
    with pytest.raises(DataError, match="qid has complex numbers: ids are whole numbers or text"):
        RankRLS().fit([[1.0], [2.0]], [0, 1], qid=ids)
