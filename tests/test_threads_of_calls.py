"""Results do not depend on the number of threads, and calls restore the threads of BLAS."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg  # noqa: F401  (its BLAS is loaded before threads are counted)
from threadpoolctl import threadpool_info, threadpool_limits

from rankwise import (
    RLS,
    AdditiveRankRLS,
    AutoRanker,
    BoostedRanker,
    KPCRank,
    Leaderboard,
    MeanRanker,
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    TransductiveRankRLS,
)
from rankwise.backends import parallel
from rankwise.export import distil
from rankwise.holdout import leave_query_out as folds_of_queries
from rankwise.inspection import explain, explain_ranking, feature_effects
from rankwise.metrics import evaluate_ranking, group_exposure, ndcg
from rankwise.model_selection import (
    cross_validate,
    k_fold,
    leave_pair_out,
    leave_query_out,
    permutation_test,
)
from rankwise.svm import newton

pytestmark = pytest.mark.ci
RNG = np.random.default_rng(0)
ROWS = 6000
X = RNG.standard_normal((ROWS, 12)) * np.linspace(1, 3, 12)
Y = np.round(X[:, 0] + RNG.standard_normal(ROWS)).clip(0, 4)
QID = np.sort(RNG.integers(0, 300, ROWS))
UP = {0: 1, 3: -1}
BATTLES = RNG.integers(0, 20, (2, 3000))
BATTLES = BATTLES[:, BATTLES[0] != BATTLES[1]]
OUTCOMES = np.where(RNG.random(BATTLES.shape[1]) < 0.5, "first", "second")


def curves(rows=slice(0, 1500)):
    """A fitted ranker, and its rows."""
    return AdditiveRankRLS(1.0).fit(X[rows], Y[rows], qid=QID[rows]), X[rows], QID[rows]


def linear_copy():
    ranker, rows, qid = curves()
    return distil(ranker, rows, qid=qid).ranker


def effects():
    ranker, rows, qid = curves()
    return feature_effects(ranker, rows, Y[: len(rows)], qid=qid, n_points=5).effects


def ratings(**options):
    return Leaderboard(n_draws=100).fit(*BATTLES, OUTCOMES, **options).ratings_


RANKINGS = {
    "primal": lambda: RankRLS(1.0, scale=None).fit(X, Y, qid=QID).coef_,
    "without ties": lambda: RankRLS(1.0, ties="exclude").fit(X, Y, qid=QID).coef_,
    "one long query": lambda: RankRLS(1.0, ties="exclude", scale=None).fit(X, Y).coef_,
    "standardized": lambda: RankRLS(1.0, scale="standard").fit(X, Y, qid=QID).coef_,
    "scaled queries": lambda: RankRLS(1.0, scale="query-standard").fit(X, Y, qid=QID).coef_,
    "ranks": lambda: RankRLS(1.0, scale="query-ranks").fit(X, Y, qid=QID).coef_,
    "regression": lambda: RLS(1.0).fit(X, Y).coef_,
    "chosen alpha": lambda: RankRLS().fit(X, Y, qid=QID).coef_,
    "landmarks": lambda: (
        SparseRankRLS(1.0, n_landmarks=40, random_state=0)
        .fit(X, Y, qid=QID)
        .predict(X[:50], qid=QID[:50])
    ),
    "queries": lambda: leave_query_out(RankRLS(1.0, scale=None), X, Y, qid=QID).predictions,
    "pairs": lambda: leave_pair_out(RankRLS(1.0, kernel="rbf"), X[:800], X[:800, 1]).error,
    "hinge": lambda: RankSVM().fit(X, Y, qid=QID).coef_,
    "hinge of mixed queries": lambda: RankSVM().fit(X, Y, qid=QID[::-1] % 7).coef_,
    "metrics": lambda: ndcg(Y, X[:, 0], qid=QID, k=10),
    "functions of single features": lambda: AdditiveRankRLS(1.0).fit(X, Y, qid=QID).coef_,
    "conjugate gradients": lambda: (
        RankRLS(1.0, solver="cg", tol=1e-14, scale=None).fit(X, Y, qid=QID).coef_
    ),
    "folds": lambda: leave_query_out(RankRLS(1.0), X, Y, qid=QID, n_splits=5).predictions,
    "search": lambda: (
        RankingSearchCV(RankRLS(scale=None), {"alpha": [0.1, 1.0]}).fit(X, Y, qid=QID).query_scores_
    ),
    "many rankers": lambda: (
        AutoRanker(candidates="linear").fit(X[:900], Y[:900], qid=QID[:900]).results_.scores
    ),
    "permutations": lambda: (
        permutation_test(RankRLS(1.0), X[:100], Y[:100] > 1, n_permutations=5, random_state=0).null
    ),
    "monotone": lambda: RankRLS(1.0, monotone=UP, scale=None).fit(X, Y, qid=QID).coef_,
    "monotone functions": lambda: AdditiveRankRLS(1.0, monotone=UP).fit(X, Y, qid=QID).coef_,
    "explanation": lambda: explain(curves()[0], X[0], X[1], background=X[:500]).contributions,
    "effects": lambda: np.concatenate([one.effect for one in effects()]),
    "attention": lambda: group_exposure(Y, X[:, 0], X[:, 1] > 0, qid=QID).attention,
    "linear copy": lambda: linear_copy().coef_,
    "ratings": ratings,
    "ratings with judges": lambda: ratings(judge=BATTLES[0] % 7),
    "ratings of rankings": lambda: (
        Leaderboard(n_draws=100).fit_rankings(BATTLES.T[:400].tolist()).ratings_
    ),
}

# The others take longer: `make test-docs` runs them.
FAST = {
    "primal",
    "scaled queries",
    "landmarks",
    "queries",
    "hinge",
    "metrics",
    "folds",
    "attention",
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(parallel, "LEAST", 2000)
    monkeypatch.setattr(newton, "PART_ROWS", 1000)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in RANKINGS],
)
def test_results_do_not_depend_on_the_number_of_threads(name):
    found = {}
    for n in (1, 2, 5):
        with threadpool_limits(n, user_api="blas"):
            found[n] = np.asarray(RANKINGS[name]())
            assert_array_equal(found[n], np.asarray(RANKINGS[name]()))
    scale = abs(found[1]).max()
    assert_allclose(found[2] / scale, found[1] / scale, atol=1e-12)
    assert_allclose(found[5] / scale, found[1] / scale, atol=1e-12)


def test_all_pairs_have_the_losses_of_listed_pairs():
    y = np.round(X[:750, 0] + X[:750, 1])
    ranker = RankRLS(1.0, scale="standard")
    listed = leave_pair_out(ranker, X[:750], y, return_differences=True)
    found = leave_pair_out(ranker, X[:750], y)
    assert_array_equal(found.error, listed.error)
    assert_array_equal(found.standard_error, listed.standard_error)


@pytest.mark.slow  # compiles
def test_a_loop_over_folds_predicts_as_arrays_do(monkeypatch):
    alphas = [1e-9, 0.1, 10.0]  # at the first, rounding errors may matter: arrays check it
    problem = np.cos(X @ RNG.standard_normal((12, 60))), Y  # more features than rows in a query
    want = leave_query_out(RankRLS(scale=None), *problem, qid=QID, alphas=alphas).predictions
    monkeypatch.setattr(folds_of_queries, "MANY_NUMBERS", 0)
    found = leave_query_out(RankRLS(scale=None), *problem, qid=QID, alphas=alphas).predictions
    assert_allclose(found, want, rtol=0, atol=1e-12)


def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


FEW = slice(0, 60)
PAIRS = [[0, 1], [2, 1], [3, 4], [0, 4]]
CALLS = {
    "RankRLS": lambda y: RankRLS(kernel="rbf").fit(X[FEW], y, qid=QID[FEW]).predict(X[FEW]),
    "SparseRankRLS": lambda y: SparseRankRLS(n_landmarks=5).fit(X[FEW], y, qid=QID[FEW]),
    "KPCRank": lambda y: KPCRank().fit(X[FEW], y),
    "RankSVM": lambda y: RankSVM().fit(X[FEW], y),
    "AutoRanker": lambda y: AutoRanker(boosted=False).fit(X[FEW], y, qid=np.arange(60) // 6),
    "leave_pair_out": lambda y: leave_pair_out(RankRLS(kernel="rbf"), X[FEW], y),
    "PairwiseGP": lambda y: PairwiseGP().fit(X[:10], y[:10]),
    "AdditiveRankRLS": lambda y: AdditiveRankRLS().fit(X[FEW], y, qid=QID[FEW]),
    "leave_query_out": lambda y: leave_query_out(RankRLS(), X[FEW], y, qid=np.arange(60) // 6),
    "k_fold": lambda y: k_fold(RLS(), X[FEW], y, n_splits=3),
    "path": lambda y: RankRLS().path(X[FEW], y, [0.1, 1.0]),
    "permutation_test": lambda y: permutation_test(
        RankRLS(1.0), X[FEW], y, n_permutations=3, random_state=0
    ),
    "cross_validate": lambda y: cross_validate(RankSVM(), X[FEW], y, qid=np.arange(60) // 6, cv=3),
    "RankingSearchCV": lambda y: RankingSearchCV(RankRLS(), {"alpha": [1.0, 2.0]}).fit(
        X[FEW], y, qid=np.arange(60) // 6
    ),
    "MeanRanker": lambda y: MeanRanker([RankRLS(), RankSVM()]).fit(X[FEW], y, qid=QID[FEW]),
    "TransductiveRankRLS": lambda y: TransductiveRankRLS().fit(X[FEW], y[FEW]),
    "fit_pairs": lambda y: RankRLS().fit_pairs(X[FEW], PAIRS, margin=y[:4]),
    "evaluate_ranking": lambda y: evaluate_ranking(Y[FEW], y, qid=QID[FEW]),
    "Leaderboard": lambda y: Leaderboard().fit(list("abc"), list("bca"), list(y[:3])),
    "judges of battles": lambda y: Leaderboard(half_life=3.0).fit(
        list("abcab"), list("bcaca"), [1, 0, 1, 1, 0], judge=list("xyxyx"), time=y[:5]
    ),
    "fit_rankings": lambda y: Leaderboard().fit_rankings(
        [["a", "b", "c"], ["b", "a", "c"]], weight=y[:2] + 1
    ),
    "monotone": lambda y: RankRLS(monotone=UP).fit(X[FEW], y, qid=QID[FEW]),
    "monotone trees": lambda y: BoostedRanker(3, monotone=UP).fit(
        X[FEW], y, qid=np.arange(60) // 6
    ),
    "explain": lambda y: explain(curves(FEW)[0], y[:12], X[1], background=X[FEW]),
    "explain_ranking": lambda y: explain_ranking(curves(FEW)[0], y.reshape(5, 12)),
    "plot_effects": lambda y: feature_effects(*curves(FEW)[:2], y, qid=QID[FEW], cv=2).plot(),
    "group_exposure": lambda y: group_exposure(Y[FEW], y, X[FEW, 1] > 0, qid=QID[FEW]),
    "distil into trees": lambda y: distil(
        curves(FEW)[0], X[FEW] + y[:, None], qid=np.arange(60) // 6, into="trees"
    ),
}


SLOW_CALLS = {"plot_effects", "distil into trees"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW_CALLS else []) for name in CALLS],
)
@pytest.mark.filterwarnings("ignore")
def test_calls_leave_the_threads_of_blas_as_they_were(name):
    good = ["first", "second", "first"] if name == "Leaderboard" else Y[FEW]
    bad = ["first", "?", "first"] if name == "Leaderboard" else np.full(60, np.nan)
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        CALLS[name](good)
        assert blas_threads() == before
        with pytest.raises(ValueError, match=r"."):
            CALLS[name](bad)
        assert blas_threads() == before
