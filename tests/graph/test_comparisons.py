"""Comparisons as users have them: ids, words, weights, groups, context."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rankwise import PairwiseGP, RankRLS
from rankwise.data import Comparisons
from rankwise.errors import DataError, ParameterError

ITEMS = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "items",
    [
        ITEMS,
        np.array(ITEMS),
        pd.DataFrame({"x": range(4)}, index=ITEMS),
        pd.Index(ITEMS),
        pl.Series(ITEMS),
    ],
    ids=lambda items: type(items).__name__,
)
def test_ids_are_found_among_the_items(items):
    votes = Comparisons.of(["b", "d"], pd.Series(["a", "c"]), items=items)
    assert votes.pairs.tolist() == [[1, 0], [3, 2]]
    assert votes.margin.tolist() == [1.0, 1.0]
    assert votes.items.tolist() == ITEMS


def test_ids_may_be_numbers_or_mixed():
    assert Comparisons.of([30, 10], [10, 20], items=[10, 20, 30]).pairs.tolist() == [[2, 0], [0, 1]]
    ids = np.array(["x", 1, 2.0], dtype=object)
    assert Comparisons.of(ids[:2], ids[1:], items=ids).pairs.tolist() == [[0, 1], [1, 2]]
    days = pd.to_datetime(["2024-01-01", "2024-01-02"])
    assert Comparisons.of(days[1:], days[:1], items=days).pairs.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    "outcome",
    [
        ["win", "tie", "loss"],
        ["first", "tie", "second"],
        ["A", " draw ", "b"],
        ["left", "neither", "right"],
        ["model_a", "tie (bothbad)", "model_b"],
        pd.Categorical(["win", "tie", "loss"]),
        [1, 0.5, 0],
        np.array([1.0, 0.5, 0.0], dtype=np.float32),
        np.array([True, "tie", False], dtype=object),
    ],
    ids=str,
)
def test_outcomes(outcome):
    votes = Comparisons.of([0, 1, 2], [1, 2, 0], outcome)
    assert votes.margin.tolist() == [1.0, 0.0, -1.0]


def test_outcomes_may_be_ids_of_winners():
    votes = of(first=["c", "d"], second=["d", "c"], outcome=["d", "d"])
    assert votes.margin.tolist() == [-1.0, 1.0]
    votes = Comparisons.of([10, 20], [20, 30], [20, "tie"], items=[10, 20, 30])
    assert votes.margin.tolist() == [-1.0, 0.0]
    # Truth values are never ids, and row numbers are not ids of winners.
    votes = Comparisons.of([2, 1], [1, 2], [True, True], items=[0, 1, 2])
    assert votes.margin.tolist() == [1.0, 1.0]
    assert Comparisons.of([0, 2], [1, 1], [1, 0.5]).margin.tolist() == [1.0, 0.0]
    with pytest.raises(DataError, match="Comparison 0: the outcome 1 is both an item and the name"):
        Comparisons.of([2, 1], [1, 2], [1, 1], items=[0, 1, 2])


def test_rankers_take_comparisons_with_everything_in_them():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((4, 2)), index=ITEMS, columns=["u", "v"])
    first, second, won = ["a", "b", "c", "a"], ["b", "c", "a", "d"], [1, 0, 0.5, 1]
    weight = [1.0, 2.0, 0.5, 1.0]
    votes = Comparisons.of(first, second, won, items=X, weight=weight, groups=[1, 1, 2, 2])
    pairs, margin = [[0, 1], [1, 2], [2, 0], [0, 3]], [1.0, -1.0, 0.0, 1.0]
    one = RankRLS(alpha=1.0).fit_pairs(X, votes)
    two = RankRLS(alpha=1.0).fit_pairs(X, pairs, margin=margin, weight=weight, groups=[1, 1, 2, 2])
    np.testing.assert_allclose(one.coef_, two.coef_)
    assert one.preference_slope_ == pytest.approx(two.preference_slope_)
    gp = PairwiseGP(optimizer=None).fit_pairs(X, votes)
    other = PairwiseGP(optimizer=None).fit_pairs(X, pairs, margin=margin, weight=weight)
    np.testing.assert_allclose(gp.predict(X), other.predict(X))


def test_parts_and_repr():
    votes = Comparisons.of(
        ["a", "c"], ["b", "d"], ["win", "tie"], items=ITEMS, context=[[1.0], [0.0]], groups=[1, 2]
    )
    assert [part.tolist() for part in votes.parts()] == [["a", "b"], ["c", "d"]]
    assert repr(votes) == "Comparisons(2 comparisons of 4 items, 1 tie, 2 groups, 1 context column)"
    kept = votes.take([True, False])
    assert (len(kept), kept.groups.tolist(), kept.context.tolist()) == (1, [1], [[1.0]])


def of(**given):
    first, second = given.pop("first", ["a", "b"]), given.pop("second", ["b", "c"])
    return Comparisons.of(first, second, **{"items": ITEMS, **given})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: of(first=["a", "z"]), "Comparison 1 has the unknown item 'z'"),
        (
            lambda: of(first=["1"], second=["2"], items=[1, 2]),
            "'1' .*The items have 1, of type int: use this type",
        ),
        (lambda: of(first=list("vwxyz"), second=list("aaaaa")), "5 such comparisons"),
        (
            lambda: of(first=["a", "b"], second=["b", "b"]),
            "Pair 1 compares item 'b' with itself",
        ),
        (lambda: of(outcome=["win", "won"]), "Comparison 1: the outcome .won. is unknown"),
        (lambda: of(outcome=["x", "y"]), r"the outcome 'x' is unknown \(others: 'y'\)"),
        (lambda: of(outcome=[1, -1]), "outcome -1 is unknown.* belong in margin"),
        (lambda: of(outcome=["win", None]), "Comparison 1: the outcome is missing"),
        (lambda: of(outcome=["win"]), r"outcome needs one entry per comparison: got shape \(1,\)"),
        (lambda: of(weight=[1, -1]), "must not be negative: pair 1"),
        (lambda: of(groups=["x"]), "groups needs one entry per comparison"),
        (lambda: of(groups=["x", None]), "groups has no value for comparison 1"),
        (lambda: of(context=[[1.0]]), "context needs one entry per pair"),
        (lambda: of(context=[["x"], ["y"]]), "get_dummies"),
        (lambda: of(context=[[1.0], [np.inf]]), "context must be finite: entry 1 is"),
        (lambda: of(first=[], second=[]), "there is no comparison"),
        (lambda: of(second=["b"]), r"one item per comparison: got shapes \(2,\) and \(1,\)"),
        (lambda: of(items=["a", "b", "a"]), "items 0 and 2 have the same id, 'a'"),
        (lambda: of(items=["a", None, "b"]), "id of item 1 is missing"),
        (lambda: of(items=["a"]), "two or more items"),
        (lambda: of(items=pl.DataFrame({"id": ITEMS})), "items needs a column of ids"),
        (lambda: of(items=None), "use rankwise.data.Comparisons.of"),
        (lambda: Comparisons.of([0, -1], [1, 2]), "points outside X"),
    ],
)
def test_bad_input_is_explained(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_comparisons_and_rows_must_belong_together():
    votes, X = of(), pd.DataFrame(np.eye(4), index=ITEMS)
    with pytest.raises(DataError, match="0 stands for a tie"):
        of(margin=[1, 0])
    with pytest.raises(ParameterError, match="outcome or margin"):
        of(outcome=[1, 0], margin=[1, 2])
    ranker = RankRLS(alpha=1.0)
    with pytest.raises(ParameterError, match=r"weight belongs to the comparisons: pass it to"):
        ranker.fit_pairs(X, votes, weight=[1, 2])
    with pytest.raises(DataError, match="a row for each of the 4 items: got 3"):
        ranker.fit_pairs(X[:3], votes)
    with pytest.raises(DataError, match=r"row 0 is 'd', where item 'a' was expected. Use X.loc"):
        ranker.fit_pairs(X[::-1], votes)
    with pytest.raises(DataError, match=r"pairs\[1\] = \[5, 1\] points outside X"):
        ranker.fit_pairs(X, Comparisons.of([0, 5], [1, 1]))
