"""Hold-outs of estimators, compared with refits of the same estimators."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel

from rankwise import RLS, RankRLS, SparseRankRLS
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.holdout.engine import hold_out
from rankwise.holdout.hold_out_problem import Queries, Rows
from rankwise.metrics import disagreement_error, ndcg
from rankwise.model_selection import (
    auc_interval,
    k_fold,
    leave_one_out,
    leave_pair_out,
    leave_query_out,
    permutation_test,
    tournament_scores,
)
from rankwise.model_selection.hold_outs import hold_out_problem
from tests.oracles.laplacian import grouped_laplacian
from tests.strategies import problems, ties, weightings

ALPHAS = [0.2, 4.0]
KERNELS = [
    {"kernel": "linear"},
    {"solver": "dual"},
    {"kernel": "rbf", "scale": None},
    {"kernel": "poly", "scale": None},
]
kernels = st.sampled_from(KERNELS)


def refit(estimator, X, y, qid, out):
    """Predictions for the rows `out` by the estimator fitted to the others."""
    rest = np.setdiff1d(np.arange(len(y)), out)
    fitted = clone(estimator).fit(X[rest], y[rest], qid=None if qid is None else qid[rest])
    return fitted.predict(X[out])


def make(seed, n=24, n_queries=4, n_levels=3, outputs=()):
    """Random rows; two labels occur at least three times, so that any pair can be held out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = rng.integers(0, n_levels, (n, *outputs)).astype(float)
    y[:6:2], y[1:6:2] = 0.0, 1.0
    return X, y, np.arange(n) % n_queries


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_held_out_rows_only_leave_the_loss(ties):
    """Theorem 1 of the paper: K of all rows stays, and the Laplacian loses the held-out rows."""
    rng = np.random.default_rng(0)
    X, y = 2 * rng.standard_normal((14, 4)), np.arange(14) // 3.0
    settings = {"kernel": "rbf", "gamma": 0.5, "weighting": "pairs", "scale": None}
    ranker = RankRLS(0.7, ties=ties, **settings)
    K = rbf_kernel(X, gamma=0.5)

    def values(rest):
        """The minimizer of the loss on some rows plus lambda v'K^-1 v: equations (11), (26)."""
        L = np.zeros((14, 14))
        L[np.ix_(rest, rest)] = grouped_laplacian(y[rest], np.zeros(len(rest)), ties, "pairs")
        return np.linalg.solve(L + 0.7 * np.linalg.inv(K), L @ y)

    everything = np.arange(14)
    assert_allclose(clone(ranker).fit(X, y).predict(X), values(everything), atol=1e-8)
    result = leave_pair_out(ranker, X, y, return_differences=True)
    for (i, j), difference in zip(result.pairs, result.differences[0], strict=True):
        rest = np.setdiff1d(everything, [i, j])
        v = values(rest)
        assert difference == pytest.approx(v[i] - v[j], abs=1e-8)
        if j == i + 1:
            assert_allclose(refit(ranker, X, y, None, [i, j]), v[[i, j]], atol=1e-8)


@given(st.integers(0, 10**6), ties, weightings, kernels)
def test_leave_pair_out_within_queries_equals_refitting(seed, ties, weighting, kernel):
    X, y, qid = make(seed)
    ranker = RankRLS(1.0, ties=ties, weighting=weighting, **kernel)
    result = leave_pair_out(ranker, X, y, qid=qid, alphas=ALPHAS, return_differences=True)
    for k, alpha in enumerate(ALPHAS):
        for (i, j), d in list(zip(result.pairs, result.differences[k], strict=True))[::17]:
            f = refit(clone(ranker).set_params(alpha=alpha), X, y, qid, [i, j])
            assert d == pytest.approx(f[0] - f[1], abs=1e-8)
        errors = []
        for q in range(4):
            inside = qid[result.pairs[:, 0]] == q
            gaps = np.diff(y[result.pairs[inside]], axis=1)[:, 0]
            wrong = result.differences[k][inside][gaps != 0] * gaps[gaps != 0] > 0
            if len(wrong):
                errors.append(wrong.mean())
        assert result.error[k] == pytest.approx(np.mean(errors))


@given(st.integers(0, 10**6), ties, weightings, kernels, st.sampled_from([2, 3, 30]))
def test_leave_pair_out_of_one_ranking_equals_refitting(seed, ties, weighting, kernel, levels):
    X, y, _ = make(seed, n=14, n_levels=levels)
    ranker = RankRLS(1.0, ties=ties, weighting=weighting, **kernel)
    result = leave_pair_out(ranker, X, y, alphas=ALPHAS, return_differences=True)
    assert len(result.pairs) == 14 * 13 // 2
    for k, alpha in enumerate(ALPHAS):
        for (i, j), d in list(zip(result.pairs, result.differences[k], strict=True))[::11]:
            f = refit(clone(ranker).set_params(alpha=alpha), X, y, None, [i, j])
            assert d == pytest.approx(f[0] - f[1], abs=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("with_queries", [True, False])
def test_leave_pair_out_of_the_pointwise_baseline(kernel, with_queries):
    X, y, qid = make(0, n=11)
    qid = qid if with_queries else None
    result = leave_pair_out(RLS(0.7, **kernel), X, y, qid=qid, return_differences=True)
    assert qid is None or (qid[result.pairs[:, 0]] == qid[result.pairs[:, 1]]).all()
    for (i, j), d in list(zip(result.pairs, result.differences[0], strict=True))[::5]:
        f = refit(RLS(0.7, **kernel), X, y, None, [i, j])
        assert d == pytest.approx(f[0] - f[1], abs=1e-8)


def test_auc_is_the_share_of_correctly_ordered_pairs():
    X, y, _ = make(1, n=30, n_levels=2)
    result = leave_pair_out(RankRLS(1.0, ties="exclude"), X, y, return_differences=True)
    first, second = result.pairs.T
    up = np.where(y[first] > y[second], result.differences[0], -result.differences[0])
    assert result.auc[0] == pytest.approx((up[y[first] != y[second]] > 0).mean())
    assert result.error[0] == pytest.approx(1 - result.auc[0])
    alone = leave_pair_out(RankRLS(1.0, ties="exclude"), X, y)
    assert alone.error == pytest.approx(result.error)
    assert alone.pairs is None


@pytest.mark.parametrize("estimator", [RankRLS(1.0), RankRLS(1.0, ties="exclude"), RLS(1.0)])
def test_listed_and_random_pairs(estimator):
    X, y, qid = make(2, n=30)
    every = leave_pair_out(estimator, X, y, qid=qid, return_differences=True)
    value = dict(zip(map(tuple, every.pairs.tolist()), every.differences[0], strict=True))
    listed = [[9, 1], [0, 4], [28, 0], [2, 6]]
    some = leave_pair_out(estimator, X, y, qid=qid, pairs=listed, return_differences=True)
    assert some.pairs.tolist() == listed
    want = [-value[1, 9], value[0, 4], -value[0, 28], value[2, 6]]
    assert_allclose(some.differences[0], want, atol=1e-10)
    drawn = leave_pair_out(
        estimator, X, y, qid=qid, pairs=20, random_state=0, return_differences=True
    )
    assert len({tuple(p) for p in drawn.pairs.tolist()}) == 20
    assert (y[drawn.pairs[:, 0]] != y[drawn.pairs[:, 1]]).all()
    assert_allclose(drawn.differences[0], [value[tuple(p)] for p in drawn.pairs.tolist()])


@pytest.mark.parametrize("ties", ["include", "exclude"])
@pytest.mark.parametrize("with_queries", [True, False])
def test_several_outputs(ties, with_queries):
    X, Y, qid = make(3, outputs=(2,))
    qid = qid if with_queries else None
    ranker = RankRLS(1.0, ties=ties)
    both = leave_pair_out(ranker, X, Y, qid=qid, alphas=ALPHAS)
    assert both.error.shape == (2, 2)
    for o in range(2):
        alone = leave_pair_out(ranker, X, Y[:, o], qid=qid, alphas=ALPHAS)
        assert_allclose(both.error[:, o], alone.error)
        assert_allclose(both.standard_error[:, o], alone.standard_error)
    if with_queries:
        predictions = leave_query_out(ranker, X, Y, qid=qid, alphas=ALPHAS).predictions
        assert predictions.shape == (2, 24, 2)
        single = leave_query_out(ranker, X, Y[:, 1], qid=qid, alphas=ALPHAS).predictions
        assert_allclose(predictions[..., 1], single, atol=1e-10)


def test_standard_error_agrees_with_delong():
    """For labels 0 and 1: variances of the shares of positives and of negatives in the errors."""
    X, y, _ = make(4, n=60, n_levels=2)
    result = leave_pair_out(RankRLS(1.0), X, y, return_differences=True)
    wrong = np.full((60, 60), np.nan)
    for (i, j), d in zip(result.pairs, result.differences[0], strict=True):
        if y[i] != y[j]:
            wrong[i, j] = wrong[j, i] = (d > 0) != (y[i] > y[j])
    by_row = np.nanmean(wrong, axis=1) - result.error[0]
    parts = [(by_row[y == c] ** 2).sum() / (y == c).sum() ** 2 for c in (0, 1)]
    assert result.standard_error[0] == pytest.approx(np.sqrt(sum(parts)))


def test_auc_of_tournament_scores_is_close_to_leave_pair_out():
    X, y, _ = make(5, n=40, n_levels=2)
    y = (X[:, 0] + 0.5 * np.random.default_rng(0).standard_normal(40) > 0).astype(float)
    for which in ("include", "exclude"):
        ranker = RankRLS(1.0, ties=which)
        scores = tournament_scores(ranker, X, y)
        assert scores.min() >= 0
        assert scores.max() <= 1
        assert scores.mean() == pytest.approx(0.5)
        auc = leave_pair_out(ranker, X, y).auc[0]
        assert roc_auc_score(y, scores) == pytest.approx(auc, abs=0.03)


@given(problems(min_pairs=1, max_rows=30), ties, weightings, kernels, st.booleans())
def test_leave_query_out_equals_refitting(p, ties, weighting, kernel, by_folds):
    qid = np.r_[p.qid, ["one more", "one more", "another", "another"]]  # pairs in either fold
    X, y = np.r_[p.X, p.X[:2] + 1, p.X[:2] - 1], np.r_[p.y, [0.0, 5.0, 1.0, 0.0]]
    n_folds = 2 if by_folds else None
    ranker = RankRLS(1.0, ties=ties, weighting=weighting, **kernel)
    result = leave_query_out(ranker, X, y, qid=qid, alphas=ALPHAS, n_splits=n_folds)
    names = list(dict.fromkeys(qid))
    parts = [names[k::2] for k in range(2)] if by_folds else [[name] for name in names]
    for k, alpha in enumerate(ALPHAS):
        for part in parts:
            out = np.flatnonzero(np.isin(qid, part))
            want = refit(clone(ranker).set_params(alpha=alpha), X, y, qid, out)
            assert_allclose(result.predictions[k, out], want, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_folds", [None, 2])
def test_leave_query_out_of_the_pointwise_baseline(kernel, n_folds):
    X, y, qid = make(6)
    result = leave_query_out(RLS(0.5, **kernel), X, y, qid=qid, n_splits=n_folds)
    for q in range(4):
        out = np.flatnonzero(qid == q if n_folds is None else qid % 2 == q % 2)
        want = refit(RLS(0.5, **kernel), X, y, None, out)
        assert_allclose(result.predictions[0, out], want, atol=1e-8)


def test_scores_by_any_metric():
    X, y, qid = make(7)
    result = leave_query_out(RankRLS(1.0), X, y, qid=qid, alphas=ALPHAS, metric="ndcg@5")
    want = [ndcg(y, f, qid, k=5) for f in result.predictions]
    assert_allclose(result.score, want)
    assert result.greater_is_better
    assert result.score[result.best_index] == result.score.max()
    errors = leave_query_out(RankRLS(1.0), X, y, qid=qid, alphas=ALPHAS)
    assert errors.best_index == 1 - int(np.argmin(errors.score[::-1]))  # the last of tied minima
    assert errors.score[0] == pytest.approx(disagreement_error(y, errors.predictions[0], qid))
    assert "best" in str(result)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("weighting", ["pairs", "rows", "queries"])
@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_k_fold_of_a_global_ranking_equals_refitting(kernel, weighting, ties):
    X, y, _ = make(8, n=23)
    ranker = RankRLS(1.0, ties=ties, weighting=weighting, **kernel)
    result = k_fold(ranker, X, y, n_splits=4, alphas=ALPHAS)
    for k, alpha in enumerate(ALPHAS):
        for fold in range(4):
            out = np.arange(23)[np.arange(23) % 4 == fold]
            want = refit(clone(ranker).set_params(alpha=alpha), X, y, None, out)
            assert_allclose(result.predictions[k, out], want, atol=1e-8)
    folds = np.arange(23) % 4
    assert result.score[0] == pytest.approx(disagreement_error(y, result.predictions[0], folds))


@pytest.mark.parametrize("kernel", KERNELS)
def test_leave_one_out_of_regression_equals_refitting(kernel):
    X, y, _ = make(9, n=12)
    result = leave_one_out(RLS(0.5, **kernel), X, y)
    want = [refit(RLS(0.5, **kernel), X, y, None, [i])[0] for i in range(12)]
    assert_allclose(result.predictions[0], want, atol=1e-8)
    assert result.score[0] == pytest.approx(((y - want) ** 2).mean())


@pytest.mark.parametrize(
    "estimator", [RankRLS(1.0), RankRLS(1.0, kernel="rbf", scale=None), RLS(1.0)]
)
def test_sparse_and_precomputed_input(estimator):
    X, y, qid = make(10)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    want = leave_query_out(estimator, X, y, qid=qid).predictions
    sparse = leave_query_out(estimator, sp.csr_array(X), y, qid=qid).predictions
    assert_allclose(sparse, want, atol=1e-10)
    K = X @ X.T
    if estimator.kernel == "linear":
        precomputed = clone(estimator).set_params(kernel="precomputed")
        assert_allclose(leave_query_out(precomputed, K, y, qid=qid).predictions, want, atol=1e-8)
        assert_allclose(
            leave_pair_out(precomputed, K, y, qid=qid).error,
            leave_pair_out(estimator, sp.csr_array(X), y, qid=qid).error,
        )


def test_hold_outs_do_not_change_the_estimator():
    X, y, qid = make(11)
    ranker = RankRLS(1.0)
    leave_query_out(ranker, X, y, qid=qid, alphas=ALPHAS)
    leave_pair_out(ranker, X, y, qid=qid, alphas=ALPHAS)
    assert vars(ranker) == vars(RankRLS(1.0))


def test_queries_of_two_rows_and_a_query_of_a_third_of_the_data():
    rng = np.random.default_rng(0)
    qid = np.r_[np.zeros(10, int), np.repeat(np.arange(1, 11), 2)]
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    for which in ("include", "exclude"):
        ranker = RankRLS(1.0, ties=which, kernel="rbf", scale=None)
        result = leave_pair_out(ranker, X, y, qid=qid, return_differences=True)
        for (i, j), d in zip(result.pairs, result.differences[0], strict=True):
            f = refit(ranker, X, y, qid, [i, j])
            assert d == pytest.approx(f[0] - f[1], abs=1e-8)


def test_memory_of_the_linear_case_is_not_quadratic():
    import tracemalloc

    data = make_ranking(n_queries=1, rows_per_query=6000, n_features=8, random_state=0)
    leave_pair_out(RankRLS(1.0), data.X[:50], data.y[:50])
    binary = (data.y > np.median(data.y)).astype(float)
    for which, y in (("include", data.y), ("exclude", binary)):
        tracemalloc.start()
        leave_pair_out(RankRLS(1.0, ties=which), data.X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.4 * 6000**2 * 8


X4, Y4, Q4 = make(12, n=8, n_queries=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: leave_query_out(RankRLS(1.0), X4, Y4, qid=None), "needs qid"),
        (lambda: leave_query_out(RankRLS(1.0), X4, Y4, qid=np.zeros(8)), "at least two queries"),
        (
            lambda: leave_query_out(RankRLS(1.0), X4, np.arange(8), qid=[7, 7, 0, 1, 2, 3, 4, 5]),
            "Without query 7 there is no pair to learn from",
        ),
        (
            lambda: leave_pair_out(RankRLS(1.0), X4[:5], Y4[:5], qid=[0, 0, 0, 1, 2]),
            "Holding out a pair of query 0 leaves no pair",
        ),
        (lambda: leave_pair_out(RLS(1.0), X4[:3], [0, 1, 2]), "at least 4 rows: got 3"),
        (lambda: leave_pair_out(RankRLS(1.0), X4[:3], [0, 1, 2]), "leaves no pair to learn"),
        (
            lambda: leave_pair_out(RankRLS(1.0, ties="exclude"), X4, [1, 0, 0, 0, 0, 0, 0, 0]),
            "The label 1 has a single row",
        ),
        (
            lambda: leave_pair_out(RankRLS(1.0), X4, np.column_stack((Y4, np.ones(8)))),
            "held out in output 1",
        ),
        (lambda: leave_pair_out(RLS(1.0), X4, Y4, qid=np.arange(8)), "No query has two rows"),
        (
            lambda: leave_pair_out(
                RankRLS(1.0, kernel="sigmoid", gamma=9.0), X4, Y4, alphas=[1e-3]
            ),
            "not positive semidefinite",
        ),
        (
            lambda: leave_query_out(
                RankRLS(1.0, kernel="sigmoid", gamma=9.0), X4, Y4, qid=Q4, alphas=[1e-3]
            ),
            "not positive semidefinite",
        ),
        (lambda: leave_pair_out(RankRLS(1.0), X4, np.ones(8)), "No query has two different labels"),
        (
            lambda: leave_pair_out(RankRLS(1.0), X4, Y4, pairs=[[0, 8]]),
            "out of range: X has rows 0 to 7",
        ),
        (lambda: leave_pair_out(RankRLS(1.0), X4, Y4, pairs=[[1, 1]]), "two different rows"),
        (lambda: leave_pair_out(RankRLS(1.0), X4, Y4, qid=Q4, pairs=[[0, 1]]), "of the same query"),
        (lambda: leave_pair_out(RankRLS(1.0), X4, Y4, pairs=[0, 1]), "row numbers of shape"),
        (lambda: leave_pair_out(RankRLS(1.0), X4, Y4, qid=[1, 2]), "got 2 for 8 rows"),
    ],
)
def test_data_that_cannot_be_held_out(call, message):
    with pytest.raises(DataError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: leave_pair_out(RankRLS(0.0), X4, Y4), "need alphas above 0"),
        (lambda: leave_pair_out(object(), X4, Y4), "need a least-squares ranker"),
        (lambda: leave_pair_out(RankRLS(1.0), X4, Y4, pairs=0), "at least 1"),
        (lambda: leave_query_out(RankRLS(1.0), X4, Y4, qid=Q4, n_splits=3), "from 2 to"),
        (lambda: leave_query_out(RankRLS(1.0), X4, Y4, qid=Q4, metric="best"), "metric must be"),
        (lambda: leave_query_out(RankRLS(1.0), X4, Y4, qid=Q4, n_splits=2.5), "an integer"),
        (lambda: k_fold(RankRLS(1.0), X4, Y4, n_splits=5), "from 2 to 4"),
        (lambda: leave_one_out(RankRLS(1.0), X4, Y4), "needs a regression, such as RLS"),
    ],
)
def test_invalid_parameters(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_an_alpha_close_to_rounding_errors_gives_a_warning():
    duplicates = np.repeat(X4[:4], 2, axis=0)
    with pytest.warns(RankwiseWarning, match="too small relative to the rounding errors"):
        result = leave_pair_out(
            RankRLS(1.0, kernel="rbf", scale=None), duplicates, Y4, alphas=[5e-14, 1.0]
        )
    assert np.isfinite(result.error).all()


@pytest.mark.parametrize("alphas", [[30.0], [30.0] * 6])
def test_an_indefinite_kernel_with_a_large_alpha_is_held_out_exactly(alphas):
    X, y, qid = make(13)
    ranker = RankRLS(30.0, kernel="sigmoid", gamma=0.2)
    result = leave_query_out(ranker, X, y, qid=qid, alphas=alphas)
    for q in range(4):
        out = np.flatnonzero(qid == q)
        assert_allclose(result.predictions[-1, out], refit(ranker, X, y, qid, out), atol=1e-8)


def test_queries_without_pairs_in_one_output():
    """If ties are excluded, a query may have pairs in one output and none in another."""
    X, Y, qid = make(14, outputs=(2,))
    Y[qid == 1, 0] = 1.0
    Y[qid == 2, 1] = 0.0
    for kernel in ("linear", "rbf"):
        ranker = RankRLS(1.0, ties="exclude", kernel=kernel, scale=None)
        every = leave_pair_out(ranker, X, Y, qid=qid, return_differences=True)
        assert len(every.pairs) == 4 * 15
        drawn = leave_pair_out(
            ranker, X, Y, qid=qid, pairs=12, random_state=0, return_differences=True
        )
        for result in (every, drawn):
            for (i, j), d in list(zip(result.pairs, result.differences[0], strict=True))[::4]:
                f = refit(ranker, X, Y, qid, [i, j])
                assert_allclose(d, f[0] - f[1], atol=1e-8)


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_the_magnitude_error_is_the_mean_square_of_errors_of_differences(n_outputs):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((14, 3)), np.repeat([0, 1, 2], [6, 5, 3])
    y = rng.standard_normal(14 if n_outputs is None else (14, n_outputs))
    result = leave_pair_out(RankRLS(), X, y, qid=qid, alphas=[0.1, 10.0], return_differences=True)
    first, second = result.pairs.T
    squares = (y[first] - y[second] - result.differences) ** 2
    want = [squares[:, qid[first] == q].mean(axis=1) for q in range(3)]
    assert_allclose(result.magnitude_error, np.mean(want, axis=0))
    assert leave_pair_out(RankRLS(), X, y, qid=qid, alphas=[0.1]).magnitude_error is None


def test_fewer_pairs_than_requested_give_a_warning():
    with pytest.warns(RankwiseWarning, match="only"):
        leave_pair_out(RankRLS(1.0), X4, Y4, pairs=1000)


@pytest.mark.parametrize("weighting", ["rows", "queries"])
def test_many_levels_without_ties(weighting):
    """Levels of one to three rows, and pairs of equal labels among the listed ones."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 30, 60)
    ranker = RankRLS(0.5, kernel="rbf", ties="exclude", weighting=weighting, scale=None)
    result = leave_pair_out(ranker, X, y, return_differences=True)
    tied = y[result.pairs[:, 0]] == y[result.pairs[:, 1]]
    assert len(result.pairs) == 60 * 59 // 2
    chosen = np.concatenate([np.flatnonzero(tied)[:4], np.flatnonzero(~tied)[::150]])
    for k in chosen:
        f = refit(ranker, X, y, np.zeros(60), result.pairs[k])
        assert_allclose(result.differences[0, k], f[0] - f[1], atol=1e-8)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_a_column_of_labels_keeps_its_axis(ties):
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((30, 3)), rng.integers(0, 3, (30, 1)), np.arange(30) // 5
    ranker = RankRLS(1.0, ties=ties)
    assert ranker.fit(X, y, qid=qid).coef_.shape == (1, 3)
    assert leave_pair_out(ranker, X, y, qid=qid).error.shape == (1, 1)
    assert leave_query_out(ranker, X, y, qid=qid).predictions.shape == (1, 30, 1)
    assert k_fold(ranker, X, y).predictions.shape == (1, 30, 1)
    assert tournament_scores(ranker, X, y, qid=qid).shape == (30, 1)


def test_folds_without_ties_keep_the_landmarks_of_all_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    by_rows, by_points = (
        k_fold(
            SparseRankRLS(1.0, landmarks=landmarks, ties="exclude", scale=None), X, y
        ).predictions
        for landmarks in (np.arange(8), X[:8])
    )
    assert_allclose(by_rows, by_points, atol=1e-9)


def test_an_invalid_random_state_is_named():
    with pytest.raises(ParameterError, match="random_state must be"):
        k_fold(RankRLS(1.0), X4, Y4, n_splits=2, random_state="x")
    with pytest.raises(ParameterError, match="random_state must be"):
        leave_pair_out(RankRLS(1.0), X4, Y4, pairs=3, random_state="x")


@pytest.mark.parametrize("alpha", [1e-300, 1e-310, 5e-324])
@pytest.mark.parametrize("hold_out", [leave_pair_out, leave_query_out])
def test_alphas_that_leave_only_rounding_errors_are_refused(alpha, hold_out):
    """The kernel of 30 rows of 4 features is singular, and only alpha makes it regular."""
    X = np.random.default_rng(0).standard_normal((30, 4))
    options = {"qid": np.arange(30) // 5} if hold_out is leave_query_out else {}
    with pytest.raises(DataError, match="alpha is too small"):
        hold_out(RankRLS(alpha, solver="dual"), X, X.sum(axis=1), **options)


systems = pytest.mark.parametrize(
    "settings",
    [{}, {"solver": "dual"}, {"kernel": "rbf"}, {"ties": "exclude"}],
    ids=["primal", "dual", "rbf", "without ties"],
)


@systems
@pytest.mark.parametrize("alpha", [1e-6, 1.0])
@pytest.mark.parametrize("n_levels", [2, 3])
def test_rows_with_equal_features_are_tied(settings, alpha, n_levels):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (20, 1)).astype(float), rng.integers(0, n_levels, 20)
    ranker, credit = RankRLS(alpha, scale=None, **settings), []
    for i, j in zip(*np.triu_indices(20, 1), strict=True):
        if y[i] != y[j]:
            first, second = refit(ranker, X, y, None, [i, j])
            tied = X[i, 0] == X[j, 0] or abs(first - second) < 1e-8  # weight 0
            credit.append(0.5 if tied else float((first > second) == (y[i] > y[j])))
    auc = pytest.approx(np.mean(credit))
    assert 1.0 - leave_pair_out(ranker, X, y).error[0] == auc
    assert permutation_test(ranker, X, y, n_permutations=5, random_state=0).score == auc
    if n_levels == 2:
        assert auc_interval(ranker, X, y).auc == auc


@systems
@pytest.mark.parametrize("n_levels", [2, 3])
def test_rows_of_groups_with_equal_features_are_tied(settings, n_levels):
    rng = np.random.default_rng(0)
    X, patient = rng.integers(0, 2, (20, 2)).astype(float), np.arange(20) // 2
    y = np.repeat(rng.permutation(np.arange(10) % n_levels), 2)
    ranker, credit = RankRLS(1.0, scale=None, **settings), []
    for i, j in zip(*np.triu_indices(20, 1), strict=True):
        if y[i] != y[j]:
            rest = (patient != patient[i]) & (patient != patient[j])
            first, second = clone(ranker).fit(X[rest], y[rest]).predict(X[[i, j]])
            tied = abs(first - second) < 1e-8
            credit.append(0.5 if tied else float((first > second) == (y[i] > y[j])))
    auc = pytest.approx(np.mean(credit))
    options = {"groups": patient, "return_differences": True}
    found = leave_pair_out(ranker, X, y, alphas=[1.0], **options)
    equal = (X[found.pairs[:, 0]] == X[found.pairs[:, 1]]).all(axis=1)
    assert not found.differences[0][equal].any()
    assert 1.0 - found.error[0] == auc
    test = permutation_test(ranker, X, y, groups=patient, n_permutations=5, random_state=0)
    assert test.score == auc
    if n_levels == 2:
        assert auc_interval(ranker, X, y, groups=patient).auc == auc


@systems
@pytest.mark.parametrize("n_queries", [1, 10])
def test_differences_of_many_equal_rows_are_zero(settings, n_queries):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (200, 3)).astype(float), rng.integers(0, 2, 200)
    qid, options = np.arange(200) % n_queries, {"return_differences": True}
    ranker = RankRLS(scale=None, **settings)
    found = leave_pair_out(ranker, X, y, qid=qid, alphas=[1e-6, 1.0, 1e3], **options)
    first, second = found.pairs.T
    equal = (X[first] == X[second]).all(axis=1)
    for difference in found.differences:
        assert not difference[equal].any()
        assert difference[~equal].all()


FOLDS = np.array_split(np.random.default_rng(1).permutation(200), 4)
PLANS = [Queries(), Queries(3), Queries(only=np.arange(5)), Rows(FOLDS)]
KERNEL_HOLD_OUTS = [
    *((ranker, plan) for ranker in (RankRLS(), RLS()) for plan in PLANS),
    *((RankRLS(ties="exclude"), plan) for plan in PLANS[:3]),  # rows would be held out by refits
]


@pytest.mark.parametrize(("ranker", "plan"), KERNEL_HOLD_OUTS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_held_out_rows_with_equal_features_have_equal_predictions(ranker, kernel, plan):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (200, 2)).astype(float), rng.integers(0, 20, 200)
    qid = None if isinstance(plan, Rows) else np.arange(200) % 10
    ranker = clone(ranker).set_params(kernel=kernel, solver="dual", scale=None)
    problem = hold_out_problem(ranker, X, y, qid, [1e-6, 1e-3, 1.0, 1e3])
    held = hold_out(problem, plan)
    rows, unit = X[held.held], held.unit
    same = unit[:, None] == unit
    equal = same & (rows[:, None] == rows).all(axis=2)
    for f in held.predictions[..., 0]:
        assert_array_equal((f[:, None] == f)[same], equal[same])
