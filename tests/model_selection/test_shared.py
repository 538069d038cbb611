"""Hold-outs equal refits of the estimator, or name what they share with the held-out rows."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from rankwise import (
    RLS,
    AdditiveRankRLS,
    KPCRank,
    RankingSearchCV,
    RankRLS,
    SparseRankRLS,
    TransductiveRankRLS,
    load_model,
    save_model,
)
from rankwise.holdout import engine
from rankwise.model_selection import (
    auc_difference,
    auc_interval,
    cross_validate,
    k_fold,
    leave_comparison_out,
    leave_item_out,
    leave_one_out,
    leave_pair_out,
    leave_query_out,
    permutation_test,
)
from rankwise.scaling import SCALINGS

ALPHAS = [0.1, 10.0]
# Of refits, which see features in different units, an outlier, or comparisons in several parts.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{words}")
    for words in ("values far outside", "deviations of features differ", "fall into", "nearly")
]


@pytest.fixture
def data():
    """Features in different units; without query 2, one has no outlier, and one is constant."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((48, 5)) * [1.0, 100.0, 0.01, 5.0, 1.0] + [0.0, 1e3, 0.0, 0.0, 7.0]
    y = np.round(X[:, 1] / 100.0 + rng.standard_normal(48))
    qid = np.arange(48) // 6
    X[13, 0], X[:, 4] = 1e6, np.where(qid == 2, X[:, 4], 7.0)
    return X, y, qid


def refitted(ranker, alpha, X, y, qid, out, weights=None):
    """Predictions for rows by the estimator, fitted to the others."""
    given = {} if qid is None else {"qid": qid[~out]}
    if weights is not None:
        given["sample_weight"] = weights[~out]
    part = clone(ranker).set_params(alpha=alpha).fit(X[~out], y[~out], **given)
    return part.predict(X[out], qid=None if qid is None else qid[out])


def assert_refits(found, ranker, X, y, qid, fold, weights=None):
    for a, alpha in enumerate(ALPHAS):
        for k in np.unique(fold):
            want = refitted(ranker, alpha, X, y, qid, fold == k, weights)
            size = np.abs(want).max()
            assert_allclose(found.predictions[a][fold == k], want, rtol=1e-9, atol=1e-10 * size)
    assert found.shared == ()


LINEAR = [
    RankRLS(solver="primal"),
    RankRLS(solver="dual"),
    RankRLS(ties="exclude", weighting="pairs"),
    RankRLS(ties="exclude", solver="dual"),
    RLS(solver="primal"),
    RLS(solver="dual"),
]


@pytest.mark.parametrize("scale", [None, *SCALINGS])
@pytest.mark.parametrize("ranker", LINEAR, ids=repr)
def test_linear_hold_outs_of_queries_equal_refits(ranker, scale, data):
    X, y, qid = data
    X[13, 0] = 1.0 if scale is None else X[13, 0]  # unscaled, an outlier takes digits
    ranker = clone(ranker).set_params(scale=scale)
    found = leave_query_out(ranker, X, y, qid=qid, alphas=ALPHAS, n_splits=3)
    assert_refits(found, ranker, X, y, qid, qid % 3)
    if scale in (None, "standard"):
        found = leave_query_out(ranker, X, y, qid=qid, alphas=ALPHAS)
        assert_refits(found, ranker, X, y, qid, qid)


@pytest.mark.parametrize("scale", [None, "standard"])
@pytest.mark.parametrize("ranker", LINEAR, ids=repr)
def test_linear_hold_outs_of_rows_equal_refits(ranker, scale, data):
    X, y, _ = data
    X[13, 0] = 1.0 if scale is None else X[13, 0]
    ranker = clone(ranker).set_params(scale=scale)
    found = k_fold(ranker, X, y, n_splits=4, alphas=ALPHAS)
    assert_refits(found, ranker, X, y, None, np.arange(48) % 4)
    if isinstance(ranker, RLS):
        X, y = X[::3], y[::3]
        found = leave_one_out(ranker, X, y, alphas=ALPHAS)
        assert_refits(found, ranker, X, y, None, np.arange(16))


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_weights_of_rows_count_in_the_deviations(solver, data):
    X, y, qid = data
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    ranker = RankRLS(scale="standard", solver=solver)
    found = leave_query_out(ranker, X, y, qid=qid, alphas=ALPHAS, sample_weight=weights)
    assert_refits(found, ranker, X, y, qid, qid, weights)


def test_sparse_rows_and_several_outputs(data):
    X, y, qid = data
    rows = sparse.csr_array(np.where(np.abs(X) < 1e5, X, 3.0) * (np.median(X, axis=0) < X))
    ranker = RankRLS(scale="standard", solver="primal")
    found = leave_query_out(ranker, rows, y, qid=qid, alphas=ALPHAS)
    assert_refits(found, ranker, rows, y, qid, qid)
    Y = np.column_stack((y, -y))
    found = leave_query_out(ranker, rows, Y, qid=qid, alphas=ALPHAS)
    assert_refits(found, ranker, rows, Y, qid, qid)
    wide = clone(ranker).set_params(solver="dual")  # its kernel would have to be computed again
    assert leave_query_out(wide, rows, y, qid=qid, alphas=ALPHAS).shared == ("scaling",)


def test_what_costs_too_much_is_shared(data):
    X, y, qid = data
    ranker = RankRLS(1.0, scale="standard")
    with mock.patch.object(engine, "RESCALED_FLOPS", 1.0):
        found = leave_query_out(ranker, X, y, qid=qid)
    assert found.shared == ("scaling",)
    assert str(found).endswith("\n\nGiven the scaling of all rows.")
    assert repr(found).endswith("at alpha = 1, given the scaling of all rows>")
    exact = leave_query_out(ranker, X, y, qid=qid)
    assert np.abs(found.predictions - exact.predictions).max() > 0.01
    assert "iven the" not in str(exact) + repr(exact)


def test_an_outlier_that_takes_all_digits_is_warned_of(data):
    X, y, qid = data
    X[13, 0] = 1e15
    with pytest.warns(UserWarning, match="varies .* times less"):
        leave_query_out(RankRLS(1.0, scale="standard"), X, y, qid=qid)


KEPT = {
    "query-minmax": (RankRLS(1.0, scale="query-minmax"), (), ("scaling",)),
    "rbf, query-ranks": (RankRLS(1.0, kernel="rbf", scale="query-ranks"), (), ("scaling",)),
    "rbf, standard": (RankRLS(1.0, kernel="rbf", scale="standard"), ("scaling",), ("scaling",)),
    "gamma": (RankRLS(1.0, kernel="rbf", gamma="scale", scale=None), ("gamma",), ("gamma",)),
    "auto": (RankRLS(), ("choice of scaling",), ("scaling",)),
    "landmarks": (
        SparseRankRLS(1.0, n_landmarks=5, scale="standard"),
        ("scaling", "landmarks"),
        ("scaling", "landmarks"),
    ),
    "points": (SparseRankRLS(1.0, landmarks=np.eye(5), scale=None), (), ()),
    "knots": (AdditiveRankRLS(1.0), ("knots",), ("knots",)),
    "components": (KPCRank(2, alpha=1.0, scale=None), ("components",), ("components",)),
    "graph": (TransductiveRankRLS(1.0, scale="standard"), (), ()),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_all_rows_share_is_named(name, data):
    X, y, qid = data
    ranker, of_queries, of_pairs = KEPT[name]
    found = leave_query_out(ranker, X, y, qid=qid)
    assert found.shared == of_queries
    pairs = leave_pair_out(ranker, X, y, qid=qid, alphas=found.alphas, pairs=20, random_state=0)
    assert pairs.shared == of_pairs
    words = f"iven the {' and the '.join(of_pairs)} of all rows"
    assert (words in str(pairs)) == (words in repr(pairs)) == bool(of_pairs)


def test_a_query_that_is_not_shared_equals_refits(data):
    """As what is named is all that is shared, hold-outs of the others are those of refits."""
    X, y, qid = data
    X[13, 0] = 1.0
    for ranker in (
        RankRLS(kernel="rbf", scale="query-ranks"),
        RankRLS(kernel="rbf", gamma=0.1, scale=None),
        SparseRankRLS(landmarks=X[:5], gamma=0.1, scale=None),
    ):
        found = leave_query_out(ranker, X, y, qid=qid, alphas=ALPHAS)
        assert_refits(found, ranker, X, y, qid, qid)


def test_knots_of_heavy_tails():
    """The knots of all rows make a difference, which is why they are named."""
    rng = np.random.default_rng(0)
    X, qid = np.exp(3.0 * rng.standard_normal((60, 2))), np.arange(60) // 6
    y = np.log(X[:, 0]) + rng.standard_normal(60)
    ranker = AdditiveRankRLS(0.1)
    found = leave_query_out(ranker, X, y, qid=qid)
    out = qid == qid[np.argmax(X[:, 0])]
    want = refitted(ranker, 0.1, X, y, qid, out)
    assert np.abs(found.predictions[0][out] - want).max() > 0.01 * np.ptp(want)
    assert found.shared == ("knots",)


def test_other_results_name_it_too(data):
    X, y, qid = data
    labels = (y > np.median(y)).astype(float)
    linear, rbf = RankRLS(1.0, scale="standard"), RankRLS(1.0, kernel="rbf", scale="standard")
    assert cross_validate(linear, X, y, qid=qid, cv=4).shared == ()
    of_rbf = cross_validate(rbf, X, y, qid=qid, cv=4)
    assert of_rbf.shared == ("scaling",)
    assert "given the scaling of all rows" in repr(of_rbf)
    options = {"n_permutations": 9, "random_state": 0}
    by_folds = permutation_test(rbf, X, y, qid=qid, cv=4, **options)
    by_pairs = permutation_test(linear, X, labels, **options)
    interval = auc_interval(linear, X, labels)
    difference = auc_difference(linear, RankRLS(1.0, scale=None), X, labels)
    for found in (by_folds, by_pairs, interval, difference):
        assert found.shared == ("scaling",)
        assert "given the scaling of all rows" in repr(found)
        assert "Given the scaling of all rows." in str(found)
    grid = {"alpha": ALPHAS, "kernel": ["rbf"], "scale": ["standard"]}
    assert RankingSearchCV(RankRLS(), grid).fit(X, y, qid=qid).shared_ == ("scaling",)
    grid = {"alpha": ALPHAS, "scale": ["standard"]}
    assert RankingSearchCV(RankRLS(), grid).fit(X, y, qid=qid).shared_ == ()
    assert RankingSearchCV(RankRLS(), grid, cv="leave_pair_out").fit(X, y).shared_ == ("scaling",)


def test_the_curve_of_alpha_names_it_and_model_files_keep_it(data, tmp_path):
    X, y, qid = data
    ranker = RankRLS(scale="standard").fit(X, y, qid=qid)
    assert ranker.alpha_curve_.shared == ("scaling",)
    assert load_model(save_model(ranker, tmp_path / "model")).alpha_curve_.shared == ("scaling",)
    assert RankRLS(scale="query-minmax").fit(X, y, qid=qid).alpha_curve_.shared == ()
    assert RankRLS(scale="query-minmax").fit(X, y).alpha_curve_.shared == ("scaling",)
    assert AdditiveRankRLS().fit(X, y, qid=qid).alpha_curve_.shared == ("knots",)
    pairs = np.column_stack((np.arange(24), np.arange(24, 48)))
    assert RankRLS(scale="standard").fit_pairs(X, pairs).alpha_curve_.shared == ()


COMPARED = {
    "linear, scaled": RankRLS(scale="standard"),
    "more features than comparisons": RankRLS(scale=None, solver="dual"),
    "rbf": RankRLS(kernel="rbf", gamma=0.3),
    "gamma": RankRLS(kernel="rbf", gamma="scale"),
    "landmarks": SparseRankRLS(n_landmarks=6, gamma=0.3, random_state=0),
}


@pytest.mark.parametrize("n_pairs", [14, 60])
@pytest.mark.parametrize("name", COMPARED)
def test_comparisons_with_context_equal_refits_of_the_estimator(name, n_pairs):
    ranker, rng = COMPARED[name], np.random.default_rng(2)
    X = rng.standard_normal((12, 3)) * [1.0, 30.0, 0.1]
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(n_pairs)])
    context = np.column_stack((rng.choice([-1.0, 1.0], n_pairs), rng.lognormal(size=n_pairs)))
    margin = X[pairs[:, 0], 0] - X[pairs[:, 1], 0] + 0.5 * context[:, 1]
    given = {"margin": margin, "weight": rng.integers(0, 3, n_pairs) + 0.0, "context": context}

    def without(alpha, out):
        rest = {option: values[~out] for option, values in given.items()}
        fitted = clone(ranker).set_params(alpha=alpha).fit_pairs(X, pairs[~out], **rest)
        f = fitted.predict(X)
        return (f[pairs[:, 0]] - f[pairs[:, 1]] + context @ fitted.context_coef_)[out]

    alone = leave_comparison_out(ranker, X, pairs, alphas=ALPHAS, **given)
    in_folds = leave_comparison_out(ranker, X, pairs, alphas=ALPHAS, n_splits=2, **given)
    items = leave_item_out(ranker, X, pairs, new="one", alphas=ALPHAS, **given)
    assert alone.shared == in_folds.shared == items.shared == ()
    for a, alpha in enumerate(ALPHAS):
        for k in range(0, n_pairs, 12):
            out = np.arange(n_pairs) == k
            assert_allclose(alone.differences[a][out], without(alpha, out), atol=1e-9)
            out = (pairs == pairs[k, 0]).any(axis=1)
            held = items.differences[a, k]
            assert_allclose(held, without(alpha, out)[out[:k].sum()], atol=1e-9)
        out = np.arange(n_pairs) % 2 == 0
        assert_allclose(in_folds.differences[a][out], without(alpha, out), atol=1e-9)
