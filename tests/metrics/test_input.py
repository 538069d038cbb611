"""What may come in, and the words of every refusal."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rankwise.errors import DataError, ParameterError
from rankwise.metrics import (
    METRICS,
    average_precision,
    concordance_index,
    disagreement_error,
    evaluate_ranking,
    get_metric,
    kendall_tau,
    ndcg,
    precision_at_k,
    reciprocal_rank,
)

PAIRWISE = [disagreement_error, concordance_index, kendall_tau]
LISTWISE = [average_precision, reciprocal_rank, precision_at_k, ndcg]
ALL = [*PAIRWISE, *LISTWISE, evaluate_ranking]

Y = [1, 0, 1, 0, 0, 1]
F = [0.5, 0.25, 0.75, 0.5, 1.0, 0.5]
QID = ["a", "a", "b", "a", "b", "b"]


@pytest.mark.parametrize("function", [*PAIRWISE, *LISTWISE])
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
def test_containers(function, convert):
    want = function(Y, F, QID)
    assert function(convert(Y), convert(F), QID) == want
    assert function(Y, F, convert(QID)) == want


@pytest.mark.parametrize("function", [*PAIRWISE, *LISTWISE])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.float64])
def test_dtypes_and_strides(function, dtype):
    want = function(Y, F, QID)
    y = np.array(Y, dtype=dtype)
    wide = np.repeat(y, 2)[::2]
    assert function(y, np.array(F, dtype=np.float32), QID) == want
    assert function(wide, F, QID) == want
    y.flags.writeable = False
    assert function(y, F, QID) == want


def test_input_is_not_changed():
    y, f = np.array(Y, dtype=float), np.array(F)
    evaluate_ranking(y, f, QID)
    assert y.tolist() == Y
    assert f.tolist() == F


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize(
    ("y", "f", "qid", "words"),
    [
        ([1, 0, 1], [1.0, 2.0], None, r"scores needs one entry per row of y: got 2 for 3 rows"),
        ([1, 0], [1.0, 2.0], [1, 2, 3], r"qid needs one entry per row.*got 3 for 2 rows"),
        ([1, 0], [1.0, np.nan], None, r"scores is nan in row 1 \(1 rows are not finite\): drop"),
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
def test_rows_that_cannot_be_used(function, y, f, qid, words):
    with pytest.raises(DataError, match=words):
        function(y, f, qid)


@pytest.mark.parametrize("function", PAIRWISE)
def test_no_query_with_two_labels(function):
    with pytest.raises(
        DataError,
        match=r"not defined for any of the 2 queries: each has no two different labels\. "
        r"Check y and qid, or give such queries a value, as in undefined=0\.0",
    ):
        function([1, 1, 0], [1.0, 2.0, 3.0], [1, 1, 2])
    with pytest.raises(DataError, match=r"for query q \(1 of 2 queries\).*Leave such queries out"):
        function([1, 0, 0], [1.0, 2.0, 3.0], ["p", "p", "q"], undefined="raise")
    assert function([1, 1, 0], [1.0, 2.0, 3.0], [1, 1, 2], undefined=0.25) == 0.25


def test_single_rows_have_no_pair():
    with pytest.raises(DataError, match=r"each has fewer than two rows"):
        disagreement_error([1, 0], [1.0, 2.0], [1, 2], label_ties="half")


@pytest.mark.parametrize("function", LISTWISE)
def test_no_relevant_row_at_all(function):
    assert function([0, 0], [1.0, 2.0]) == 0.0
    with pytest.raises(DataError, match=r"not defined for any of the 1 queries: each has no row"):
        function([0, 0], [1.0, 2.0], undefined="skip")


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("undefined", ["drop", np.nan, np.inf, True, [0.0], np.zeros(2)])
def test_undefined_must_say_something(function, undefined):
    with pytest.raises(ParameterError, match=r"undefined must be 'skip', 'raise' or the number"):
        function(Y, F, undefined=undefined)


@pytest.mark.parametrize(
    ("function", "name", "choices"),
    [
        (disagreement_error, "score_ties", "'half', 'wrong'"),
        (disagreement_error, "label_ties", "'exclude', 'half'"),
        (average_precision, "score_ties", "'average', 'order'"),
        (reciprocal_rank, "score_ties", "'average', 'order'"),
        (precision_at_k, "score_ties", "'average', 'order'"),
        (ndcg, "score_ties", "'average', 'order'"),
        (ndcg, "gain", "'exponential', 'linear'"),
        (ndcg, "discount", "'log2', 'letor'"),
        (evaluate_ranking, "score_ties", "'average', 'order'"),
        (evaluate_ranking, "gain", "'exponential', 'linear'"),
        (evaluate_ranking, "discount", "'log2', 'letor'"),
    ],
)
def test_unknown_names_list_the_choices(function, name, choices):
    with pytest.raises(ParameterError, match=rf"{name} must be one of {choices}: got 'other'"):
        function(Y, F, **{name: "other"})


@pytest.mark.parametrize("function", [precision_at_k, ndcg, evaluate_ranking])
@pytest.mark.parametrize("k", [0, -3, 2.5, "10", True, [], [3, 0], [[1]]])
def test_cutoffs_below_one(function, k):
    with pytest.raises(ParameterError, match=r"k must be a whole number of at least 1, or several"):
        function(Y, F, k=k)


@pytest.mark.parametrize(
    "function", [average_precision, reciprocal_rank, precision_at_k, evaluate_ranking]
)
@pytest.mark.parametrize("relevant", ["1", None, np.nan])
def test_relevant_must_be_a_label(function, relevant):
    with pytest.raises(ParameterError, match=r"relevant must be the smallest label that counts"):
        function(Y, F, relevant=relevant)


def test_ndcg_needs_labels_with_a_gain():
    for gain in ("exponential", "linear"):
        with pytest.raises(DataError, match=r"labels of 0 and above: got -1\. Shift.*pairwise"):
            ndcg([1, -1], [1.0, 2.0], gain=gain)
    with pytest.raises(DataError, match=r"up to 1200 are too large for gain='exponential': use"):
        ndcg([1200, 0], [1.0, 2.0])
    assert ndcg([1200, 0], [1.0, 2.0], gain="linear") == pytest.approx(1 / np.log2(3))
    with pytest.raises(DataError, match=r"too large for gain='linear': divide them"):
        ndcg([1e308, 1e308], [1.0, 2.0], gain="linear")


def test_metrics_by_name():
    for name, metric in METRICS.items():
        assert get_metric(name) == metric
        assert get_metric(name.upper()).function(Y, F, QID) == metric.function(Y, F, QID)
        assert metric.greater_is_better is (name != "disagreement")
    assert get_metric("NDCG@2").function(Y, F, QID) == ndcg(Y, F, QID, k=2)
    assert get_metric("precision@3").function(Y, F, QID) == precision_at_k(Y, F, QID, k=3)
    assert get_metric("ndcg@2").greater_is_better


@pytest.mark.parametrize("name", ["ndgc", "map@5", "ndcg@0", "ndcg@", "ndcg@x", "", None])
def test_unknown_metrics_list_the_choices(name):
    with pytest.raises(ParameterError, match=r"metric must be one of 'disagreement', .*: got"):
        get_metric(name)
