"""Every ranker on problems at the edges of floating point: finite scores, or refused in words."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from rankwise import (
    KPCR,
    RLS,
    AdditiveRankRLS,
    BoostedRanker,
    KPCRank,
    Leaderboard,
    PairwiseGP,
    RankRLS,
    RankSVM,
    Shrinkage,
    SparseBilinearRanker,
    SparseRankRLS,
    SparseRLS,
    TransductiveRankRLS,
    TwoSidedRankRLS,
)
from rankwise.errors import DataError, RankwiseError, RankwiseWarning
from rankwise.metrics import disagreement_error, ndcg
from tests.faults.problems import ALPHAS, PROBLEMS
from tests.registered import least_squares_rankers

RANKERS = {
    "RankSVM": lambda alpha: RankSVM(alpha),
    "SparseRankRLS": lambda alpha: SparseRankRLS(alpha, n_landmarks=4, random_state=0),
    "SparseRLS": lambda alpha: SparseRLS(alpha, n_landmarks=4, random_state=0),
    "KPCRank": lambda alpha: KPCRank(n_components=3, alpha=alpha),
    "KPCR": lambda alpha: KPCR(n_components=3, alpha=alpha),
    "AdditiveRankRLS": lambda alpha: AdditiveRankRLS(alpha),
    "TransductiveRankRLS": lambda alpha: TransductiveRankRLS(alpha),
    "PairwiseGP": lambda alpha: PairwiseGP(optimizer=None, noise=min(max(alpha, 1e-9), 1e9)),
}
SEEN = [make(1.0) for make in RANKERS.values()] + [RankRLS(), RLS()]
RANKERS |= {
    ranker.__name__: (lambda alpha, ranker=ranker: ranker(alpha=alpha))
    for ranker in least_squares_rankers(besides=SEEN)
}
PAIRS = np.array([(i, j) for i in range(7) for j in range(7) if i != j])
TRIPLETS = [(0, 1, 2), (3, 4, 5), (6, 0, 1), (2, 3, 4), (5, 6, 0), (1, 2, 6)]


def boosted(X, y, alpha):
    ranker = BoostedRanker(20, learning_rate=0.3, min_samples_leaf=1, l2_regularization=alpha)
    return ranker.fit(X, y).predict(X)


def learning_rates(X, y, alpha):
    return BoostedRanker(20, learning_rate=alpha, min_samples_leaf=1).fit(X, y).predict(X)


def bilinear(X, y, alpha):
    ranker = SparseBilinearRanker(
        alpha, eta0=0.1, n_iter=20, shrinkage=Shrinkage(every=7), random_state=0
    )
    return ranker.fit(X, X, TRIPLETS).score_all(X, X)


def two_sided(X, y, alpha):
    Y = np.outer(y, np.arange(1.0, len(y) + 1.0))
    return TwoSidedRankRLS(alpha, row_kernel="rbf").fit(X, X, Y).predict(X, X)


def bilinear_rates(X, y, alpha):
    ranker = SparseBilinearRanker(
        1e-3,
        eta0=alpha,
        schedule="invsqrt",
        n_iter=20,
        shrinkage=Shrinkage(every=7),
        random_state=0,
    )
    return ranker.fit(X, X, TRIPLETS).score_all(X, X)


def board(y, penalty="evidence", **more):
    i, j = PAIRS.T
    wins = np.where(y[i] > y[j], 1.0, 0.0)
    wins[::5] = 0.5
    found = Leaderboard(penalty=penalty, n_draws=100).fit(i, j, wins, **more)
    return np.concatenate((found.ratings_, found.rating_std_, found.draws_.ravel(), found.coef_))


OTHERS = {
    "BoostedRanker": boosted,
    "learning rates of BoostedRanker": learning_rates,
    "SparseBilinearRanker": bilinear,
    "TwoSidedRankRLS": two_sided,
    "learning rates of SparseBilinearRanker": bilinear_rates,
    "Leaderboard": lambda X, y, alpha: board(y, alpha),
    "weights of Leaderboard": lambda X, y, alpha: board(y, weight=np.full(len(PAIRS), alpha)),
    "context of Leaderboard": lambda X, y, alpha: board(y, alpha, context=X[PAIRS[:, 0]]),
    "features of Leaderboard": lambda X, y, alpha: board(
        y, alpha, item_features={k: row.tolist() for k, row in enumerate(X)}
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RANKERS, *OTHERS])
def test_scores_are_finite_or_refused(name):
    if "Boosted" in name:
        pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
    n_fitted = 0
    for problem, (X, y) in PROBLEMS.items():
        for alpha in ALPHAS:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    if name in RANKERS:
                        scores = RANKERS[name](alpha).fit(X, y).predict(X)
                    else:
                        scores = OTHERS[name](X, y, alpha)
                except RankwiseError:
                    continue
            assert np.isfinite(scores).all(), f"{problem}, alpha {alpha:g}"
            n_fitted += 1
    assert n_fitted > len(PROBLEMS)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_labels_of_any_size_are_learned_by_trees(scale):
    pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
    X, y = PROBLEMS["plain"]
    assert_allclose(boosted(X, scale * y, 1.0) / scale, boosted(X, y, 1.0), rtol=1e-4)


@pytest.mark.parametrize("scale", ["1e-150", "1e150"])
def test_labels_that_trees_cannot_learn_are_refused(scale):
    pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
    with pytest.raises(DataError, match=r"by a constant\.$"):
        boosted(*PROBLEMS[f"labels of {scale}"], 1.0)


@pytest.mark.parametrize(("penalty", "weight"), [(0.0, 1e-12), (0.0, 1e12), (1e-4, 1e12)])
def test_weights_of_battles_have_no_unit_without_a_penalty(penalty, weight):
    y = PROBLEMS["few different labels"][1]
    some = np.linspace(0.5, 1.0, len(PAIRS))
    want = board(y, 0.0, weight=some)[:14]  # ratings and standard errors
    assert_allclose(board(y, penalty, weight=weight * some)[:14], want, rtol=1e-3)
    with pytest.raises(DataError, match=r"largest weight must be between 1e-12 and 1e\+12: got"):
        board(y, penalty, weight=weight**1.5 * some)


@pytest.mark.parametrize("problem", ["far from zero", "one feature far from zero"])
def test_rows_without_labels_far_from_zero(problem):
    X, y = PROBLEMS[problem]
    near = X - 1e8 * (X > 1e7)
    want = TransductiveRankRLS(1.0, scale=None).fit(near, y).coef_
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(len(y))
        for rows in (X[order], sp.csr_array(X[order])):
            found = TransductiveRankRLS(1.0, scale=None).fit(rows, y[order]).coef_
            assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("shape", [(60, 4), (20, 40)])
def test_neighbours_far_from_zero(shape):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape) + 1e8, rng.standard_normal(shape[0])
    options = {"smoothness": 100.0, "n_neighbors": 5, "scale": None}
    want = TransductiveRankRLS(1.0, **options).fit(X - 1e8, y).coef_
    for rows in (X, sp.csr_array(X), sp.csc_matrix(X)):
        found = TransductiveRankRLS(1.0, **options).fit(rows, y).coef_
        assert_allclose(found, want, atol=1e-5 * abs(want).max())


def test_queries_far_from_each_other():
    rng = np.random.default_rng(0)
    qid = np.arange(40) % 2
    far = rng.standard_normal((40, 2)) + 1e8 * qid[:, None]
    X = far - 1e8 * qid[:, None]
    want = TransductiveRankRLS(1.0, scale=None).fit(X, X[:, 0], qid=qid).coef_
    for rows in (far, sp.csr_array(far)):
        found = TransductiveRankRLS(1.0, scale=None).fit(rows, X[:, 0], qid=qid).coef_
        assert_allclose(found, want, atol=1e-5)


def test_equal_rows_with_many_features_get_equal_scores():
    ranker = TransductiveRankRLS(1.0)
    with pytest.warns(RankwiseWarning, match="all features are constant"):
        ranker.fit(np.ones((3, 5)), [1.0, 2.0, np.nan])
    assert_allclose(ranker.coef_, 0.0)


def test_a_smoothness_beyond_rounding_is_refused():
    X = np.array([[0.0, 0.0], [1.0, 1.0]])  # 2^100 + 1 is 2^100, so the matrix is singular
    with pytest.raises(DataError, match=r"next to 2\.5353e\+30 times.* Use a smaller smoothness"):
        TransductiveRankRLS(1.0, smoothness=2.0**101, scale=None).fit(X, [0.0, 1.0])


def test_columns_of_battles_that_overflow_are_refused():
    X, y = PROBLEMS["subnormal features"]
    with pytest.raises(DataError, match=r"column 'x0' is \de-310.* by a constant"):
        board(y, context=X[PAIRS[:, 0]])


def test_a_learning_rate_that_makes_scores_overflow_is_refused():
    pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
    with pytest.raises(DataError, match="Scores overflow: use a smaller learning_rate"):
        learning_rates(*PROBLEMS["plain"], 1e9)


@pytest.mark.slow
def test_queries_of_one_row_by_the_hundred_thousand():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_040, 3))
    y = X @ [1.0, -1.0, 0.5]
    qid = np.concatenate((np.arange(100_000), 100_000 + np.arange(40) // 10))
    few = slice(100_000, None)
    alone = RankRLS(1.0, scale=None).fit(X[few], y[few], qid=qid[few])
    ranker = RankRLS(1.0, scale=None).fit(X, y, qid=qid)
    np.testing.assert_allclose(ranker.coef_, alone.coef_, rtol=1e-9)
    scores = ranker.predict(X)
    want = disagreement_error(y[few], scores[few], qid[few])
    assert disagreement_error(y, scores, qid) == pytest.approx(want)
    assert ndcg((y > 0).astype(int), scores, qid, undefined="skip") > 0.9
