"""Weights of queries, against repeated queries, refits and the objective."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold

from rankwise import RLS, AdditiveRankRLS, KPCRank, RankRLS, RankSVM, SparseRankRLS
from rankwise.errors import DataError, ParameterError
from rankwise.holdout import alpha_choice
from rankwise.model_selection import leave_pair_out, leave_query_out
from tests.oracles.laplacian import grouped_laplacian

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
QID = RNG.permutation(np.arange(40) % 5)
Y = np.round(X @ [1.0, -1.0, 0.5] + QID + RNG.standard_normal(40))
WEIGHT = np.array([1.0, 3.0, 1.0, 2.0, 1.0])[QID]
RANKERS = [
    RankRLS(2.0),
    RankRLS(2.0, weighting="pairs", ties="exclude"),
    RankRLS(2.0, kernel="rbf", scale=None),
    RankRLS(2.0, kernel="rbf", scale=None, ties="exclude", weighting="queries"),
]
ids = pytest.mark.parametrize("ranker", RANKERS, ids=repr)


def test_weights_multiply_the_pairs_of_a_query():
    L = grouped_laplacian(Y, QID, "exclude", "rows", WEIGHT)
    want = np.linalg.solve(X.T @ L @ X + 2.0 * np.eye(3), X.T @ L @ Y)
    ranker = RankRLS(2.0, ties="exclude").fit(X, Y, qid=QID, query_weight=WEIGHT)
    assert_allclose(ranker.coef_, want)
    path = RankRLS(ties="exclude").path(X, Y, [2.0], qid=QID, query_weight=list(WEIGHT))
    assert_allclose(path.estimator(0).coef_, want)


@pytest.mark.parametrize(
    "ranker",
    [*RANKERS, SparseRankRLS(2.0, landmarks=X[:9], scale=None), RankSVM(tol=1e-9)],
    ids=repr,
)
def test_whole_weights_are_repeated_queries(ranker):
    copies = [np.flatnonzero(k < WEIGHT) for k in range(3)]
    rows, qid = (
        np.concatenate(copies),
        np.concatenate([k * 10 + QID[c] for k, c in enumerate(copies)]),
    )
    repeated = clone(ranker).fit(X[rows], Y[rows], qid=qid)
    weighted = clone(ranker).fit(X, Y, qid=QID, query_weight=WEIGHT)
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-8)
    with pytest.raises(AssertionError):
        assert_allclose(clone(ranker).fit(X, Y, qid=QID).predict(X), repeated.predict(X), rtol=1e-3)


@pytest.mark.parametrize("ranker", [KPCRank(3, alpha=2.0), AdditiveRankRLS(2.0)], ids=repr)
def test_equal_weights_divide_alpha(ranker):
    weighted = clone(ranker).fit(X, Y, qid=QID, query_weight=np.full(40, 4.0))
    plain = clone(ranker).set_params(alpha=0.5).fit(X, Y, qid=QID)
    assert_allclose(weighted.predict(X, qid=QID), plain.predict(X, qid=QID), atol=1e-9)


def refit(ranker, out):
    rest = np.setdiff1d(np.arange(40), out)
    fitted = clone(ranker).fit(X[rest], Y[rest], qid=QID[rest], query_weight=WEIGHT[rest])
    return fitted.predict(X[out])


@ids
def test_queries_held_out_equal_refits(ranker):
    found = leave_query_out(ranker, X, Y, qid=QID, query_weight=WEIGHT).predictions[0]
    for query in range(5):
        out = np.flatnonzero(query == QID)
        assert_allclose(found[out], refit(ranker, out), atol=1e-8)


@ids
def test_pairs_held_out_equal_refits(ranker):
    options = {"qid": QID, "query_weight": WEIGHT, "return_differences": True}
    found = leave_pair_out(ranker, X, Y, **options)
    assert len(found.pairs) == 5 * 28
    for pair, difference in zip(found.pairs[::9], found.differences[0][::9], strict=True):
        first, second = refit(ranker, pair)
        assert difference == pytest.approx(first - second, abs=1e-8)


@pytest.mark.parametrize("budget", [{}, {"SECONDS": 0.0, "FLOPS": 1e30}], ids=["queries", "folds"])
def test_alpha_follows_the_weights(monkeypatch, budget):
    for name, value in budget.items():
        monkeypatch.setattr(alpha_choice, name, value)
    once, more = (
        RankRLS().fit(X, Y, qid=QID, query_weight=factor * WEIGHT) for factor in (1.0, 1024.0)
    )
    assert_allclose(once.coef_, more.coef_, rtol=1e-6)
    assert more.alpha_ == pytest.approx(1024.0 * once.alpha_)
    assert_allclose(once.alpha_curve_.score, more.alpha_curve_.score, atol=1e-9)


def test_the_number_of_components_follows_the_weights():
    once, more = (
        KPCRank(alpha=factor * 2.0).fit(X, Y, qid=QID, query_weight=factor * WEIGHT)
        for factor in (1.0, 1024.0)
    )
    assert_allclose(once.component_errors_.error, more.component_errors_.error, atol=1e-9)


def test_the_chosen_alpha_is_the_best_of_leave_query_out():
    ranker = RankRLS(scale=None).fit(X, Y, qid=QID, query_weight=WEIGHT)
    curve = ranker.alpha_curve_
    options = {"alphas": curve.alphas, "metric": curve.metric}
    found = leave_query_out(ranker, X, Y, qid=QID, query_weight=WEIGHT, **options)
    assert_allclose(curve.score, found.score, atol=1e-9)


def test_weights_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(RankRLS(), {"alpha": [2.0]}, cv=GroupKFold(2))
        search.fit(X, Y, qid=QID, groups=QID, query_weight=WEIGHT)
    want = RankRLS(2.0).fit(X, Y, qid=QID, query_weight=WEIGHT)
    assert_allclose(search.best_estimator_.coef_, want.coef_)


@pytest.mark.parametrize("ranker", [RankRLS(1.0), RankSVM()], ids=repr)
@pytest.mark.parametrize(
    ("qid", "weight", "message"),
    [
        (QID, np.where(np.arange(40) == 7, -1.0, WEIGHT), "above 0: got -1.0 in row 7"),
        (QID, np.where(QID[0] == QID, np.nan, WEIGHT), "must be finite: entry 0 is nan"),
        (QID, np.arange(1.0, 41.0), "the same for all rows of a query: query"),
        (QID, [1.0, 2.0], r"one entry per row of X: got shape \(2,\) for 40 rows"),
        (None, np.ones(40), "needs at least two queries: got one"),
    ],
)
def test_weights_that_cannot_be(ranker, qid, weight, message):
    with pytest.raises(DataError, match=message):
        ranker.fit(X, Y, qid=qid, query_weight=weight)


def test_losses_on_rows_take_none():
    with pytest.raises(ParameterError, match="RLS fits single rows and takes no query_weight"):
        RLS(1.0).fit(X, Y, qid=QID, query_weight=WEIGHT)
    with pytest.raises(TypeError, match="To weight queries, use query_weight="):
        KPCRank().fit(X, Y, sample_weight=WEIGHT)
