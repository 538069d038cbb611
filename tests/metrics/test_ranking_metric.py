"""What all metrics share: their signatures, the checks of their options, undefined queries."""

import inspect
import pickle
import re

import numpy as np
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


@pytest.mark.parametrize("function", ALL)
def test_signature_and_docstring_name_every_parameter(function):
    parameters = inspect.signature(function).parameters
    assert list(parameters)[:3] == ["y", "scores", "qid"]
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    assert all(
        p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is not inspect.Parameter.empty
        for p in list(parameters.values())[3:]
    )
    for name in parameters:
        assert re.search(rf"^(\w+, )*{name}(, \w+)* : ", inspect.getdoc(function), re.MULTILINE)
    function(Y, F, QID, **{name: p.default for name, p in list(parameters.items())[3:]})


@pytest.mark.parametrize("function", ALL)
def test_every_metric_checks_its_rows_and_the_names_of_its_options(function):
    with pytest.raises(DataError, match=r"y is nan in row 1 \(1 row is not finite\)"):
        function([1, np.nan], [1.0, 2.0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        function(Y, F, QID, other=1)


@pytest.mark.parametrize("function", [*PAIRWISE, *LISTWISE])
def test_metrics_can_be_pickled(function):
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("function", PAIRWISE)
def test_no_query_with_two_labels(function):
    with pytest.raises(
        DataError,
        match=r"not defined for any of the 2 queries: each has only one row or only one distinct "
        r"label\. Check y and qid, or give such queries a value, as in undefined=0\.0",
    ):
        function([1, 1, 0], [1.0, 2.0, 3.0], [1, 1, 2])
    with pytest.raises(DataError, match=r"for query q \(1 of 2 queries\).*Leave such queries out"):
        function([1, 0, 0], [1.0, 2.0, 3.0], ["p", "p", "q"], undefined="raise")
    assert function([1, 1, 0], [1.0, 2.0, 3.0], [1, 1, 2], undefined=0.25) == 0.25


@pytest.mark.parametrize("function", LISTWISE)
def test_no_relevant_row_at_all(function):
    assert function([0, 0], [1.0, 2.0]) == 0.0
    with pytest.raises(DataError, match=r"not defined for any of the 1 queries: each has no row"):
        function([0, 0], [1.0, 2.0], undefined="skip")


@pytest.mark.parametrize(
    ("function", "option", "wrong", "words"),
    [
        (disagreement_error, "score_ties", "average", "one of half, wrong"),
        (disagreement_error, "label_ties", "other", "one of exclude, half"),
        *((f, "score_ties", "half", "one of average, order") for f in [*LISTWISE, ALL[-1]]),
        *((f, "gain", "other", "one of exponential, linear") for f in [ndcg, evaluate_ranking]),
        *((f, "discount", "other", "one of log2, letor") for f in [ndcg, evaluate_ranking]),
        *((f, "relevant", "1", "a finite number") for f in [*LISTWISE[:3], evaluate_ranking]),
        *((f, "k", 0, "an integer of at least 1") for f in [*LISTWISE[2:], evaluate_ranking]),
        *((f, "undefined", "drop", "one of skip, raise, or a finite number") for f in ALL),
        *((f, "per_query", "yes", "True or False") for f in ALL[:-1]),
    ],
)
def test_invalid_options(function, option, wrong, words):
    with pytest.raises(ParameterError, match=f"^{option} must be {words}.*: got {wrong!r}"):
        function(Y, F, **{option: wrong})


@pytest.mark.parametrize("k", [-3, 2.5, "10", True, [], [3, 0], [[1]], 2**63, 2**64])
def test_invalid_cutoffs(k):
    with pytest.raises(ParameterError, match=r"k must be an integer of at least 1 or a seq"):
        precision_at_k(Y, F, k=k)


def test_tiny_labels_have_gains():
    assert ndcg([1e-17, 0, 2e-17], [1, 2, 3]) == pytest.approx(
        ndcg([1, 0, 2], [1, 2, 3], gain="linear")
    )


@pytest.mark.parametrize("undefined", [np.nan, np.inf, True, [0.0], np.zeros(2)])
def test_invalid_values_of_undefined(undefined):
    with pytest.raises(ParameterError, match=r"undefined must be one of skip, raise, or a finite"):
        ndcg(Y, F, undefined=undefined)


def test_metrics_by_name():
    for name, metric in METRICS.items():
        assert get_metric(name) == get_metric(name.upper()) == metric
        assert metric.greater_is_better is (name != "disagreement")
    assert get_metric("NDCG@2").function(Y, F, QID) == ndcg(Y, F, QID, k=2)
    assert get_metric("precision@3").function(Y, F, QID) == precision_at_k(Y, F, QID, k=3)
    assert get_metric("ndcg@2").greater_is_better


def test_names_as_tables_print_them():
    assert get_metric("P@5").function.func is get_metric("precision").function
    assert get_metric("Kendall tau_b") == get_metric("kendall_tau")


@pytest.mark.parametrize("name", ["ndgc", "rbp@5", "ndcg@0", "ndcg@", "ndcg@x", "", None])
def test_unknown_names_list_the_metrics(name):
    with pytest.raises(ParameterError, match=r"metric must be one of 'map', .*: got"):
        get_metric(name)
