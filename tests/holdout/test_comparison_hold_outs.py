"""Comparisons that are held out without refitting, compared with refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from scipy.special import expit

from rankwise import KPCRank, PairwiseGP, RankRLS, SparseRankRLS
from rankwise.backends.arrays import EPS
from rankwise.data import Comparisons
from rankwise.errors import DataError, ParameterError
from rankwise.holdout.scores import logistic_slope
from rankwise.model_selection import leave_comparison_out, leave_item_out
from tests.oracles.comparisons import clustered_error, differences, precise_refits, refit
from tests.strategies import comparisons

ALPHAS = [0.3, 4.0]


@st.composite
def votes(draw):
    """Comparisons with ties, repetitions, contradictions, weights of 0, often in several parts."""
    c = draw(comparisons(max_rows=12, max_pairs=24))
    rng = np.random.default_rng(len(c.pairs))
    pairs = np.vstack((c.pairs, c.pairs[:2], c.pairs[:1, ::-1]))
    margin = np.append(np.round(c.margin), [1.0] * (len(pairs) - len(c.pairs)))
    weight = np.append(c.weight, [1.0] * (len(pairs) - len(c.pairs)))
    weight[len(weight) // 2] *= draw(st.sampled_from([0.0, 1.0]))
    groups = rng.integers(0, draw(st.integers(2, 6)), len(pairs))
    groups[:2] = 0, 1
    context = rng.standard_normal((len(pairs), 2)) if draw(st.booleans()) else None
    return c.X, pairs, {"margin": margin, "weight": weight, "groups": groups, "context": context}


def scaled_context(D, given, out=()):
    """The context, scaled as in a fit without some comparisons."""
    context, rest = given["context"], np.setdiff1d(np.flatnonzero(given["weight"]), out)
    if context is None or len(rest) == 0:
        return context
    share = given["weight"][rest] / given["weight"][rest].sum()
    distance = share @ (D[rest] ** 2).sum(axis=1) or 1.0
    return context * np.sqrt(distance / (share @ context[rest] ** 2))


def design(F, pairs, given, out=()):
    D = differences(F, pairs)
    return differences(F, pairs, scaled_context(D, given, out))


ZEROS = pytest.mark.filterwarnings("ignore:margin has only 1 and 0")


@ZEROS
@pytest.mark.parametrize("solver", ["primal", "dual"])
@given(votes())
def test_single_comparisons_groups_and_items(solver, problem):
    X, pairs, given = problem
    ranker, n = RankRLS(solver=solver), len(pairs)
    args = given["margin"], given["weight"]
    alone = leave_comparison_out(ranker, X, pairs, alphas=ALPHAS, **{**given, "groups": None})
    grouped = leave_comparison_out(ranker, X, pairs, alphas=ALPHAS, **given)
    both = leave_item_out(ranker, X, pairs, alphas=ALPHAS, **given)
    one = leave_item_out(ranker, X, pairs, new="one", alphas=ALPHAS, **given)
    for a, lam in enumerate(ALPHAS):
        for k, (i, j) in list(enumerate(pairs))[a::2]:

            def check(found, out, lam=lam, k=k):
                D = design(X, pairs, given, out)
                want = refit(D, *args, set(out.tolist()), lam)[np.searchsorted(out, k)]
                assert found == pytest.approx(want, rel=1e-8, abs=1e-8)

            check(alone.differences[a, k], np.array([k]))
            check(grouped.differences[a, k], np.flatnonzero(given["groups"] == given["groups"][k]))
            check(both.differences[a, k], np.flatnonzero(np.isin(pairs, (i, j)).any(axis=1)))
            check(one.differences[a, k], np.flatnonzero((pairs == i).any(axis=1)))
            check(one.differences[a, n + k], np.flatnonzero((pairs == j).any(axis=1)))
    assert one.compared.tolist() == [*range(n), *range(n)]


@pytest.mark.parametrize("kind", ["kernel", "features"])
@pytest.mark.parametrize("n_pairs", [6, 9, 16])
@pytest.mark.parametrize("lam", [1e-4, 1e-8])
def test_small_alphas(kind, n_pairs, lam):
    rng = np.random.default_rng(n_pairs)
    X = rng.standard_normal((9, 4 if kind == "kernel" else 20))
    pairs = rng.integers(0, 4, (n_pairs, 2))
    pairs[:, 1] += 4
    pairs[0] = 8, 0  # in no cycle
    margin, weight = rng.standard_normal(n_pairs), rng.uniform(0.2, 2.0, n_pairs)
    weight[2] = 0.0
    K = np.exp(-cdist(X, X, "sqeuclidean") / 4) if kind == "kernel" else X @ X.T
    ranker = RankRLS(lam, kernel="precomputed" if kind == "kernel" else "linear", scale=None)
    given = {"margin": margin, "weight": weight}
    found = leave_comparison_out(ranker, K if kind == "kernel" else X, pairs, **given)
    want = precise_refits(K, pairs, margin, weight, np.arange(n_pairs), lam)
    assert_allclose(found.differences[0], want, rtol=1e-4, atol=1e-4)


def test_groups_at_tiny_alphas_are_right_or_unreliable():
    rng = np.random.default_rng(0)
    X, pairs, fold = rng.standard_normal((8, 3)), rng.integers(0, 4, (14, 2)), np.arange(14) % 5
    pairs[:, 1] += 4
    K, margin, weight = np.exp(-cdist(X, X, "sqeuclidean")), rng.standard_normal(14), np.ones(14)
    given = {"margin": margin, "groups": fold}
    for lam in (1e-8, 1e-10):
        found = leave_comparison_out(
            RankRLS(lam, kernel="precomputed", scale=None), K, pairs, **given
        )
        want = precise_refits(K, pairs, margin, weight, fold, lam)
        assert_allclose(found.differences[0], want, rtol=1e-3, atol=1e-3)
    with pytest.raises(DataError, match="alpha is too small"):
        leave_comparison_out(RankRLS(1e-16, kernel="precomputed", scale=None), K, pairs, **given)


def test_a_singular_kernel_has_right_hold_outs():
    """Twelve comparisons of three features: nine eigenvalues of their Gram matrix are 0."""
    rng = np.random.default_rng(0)
    X, margin = rng.integers(-9, 9, (13, 3)).astype(float), rng.standard_normal(12)
    pairs = np.column_stack((np.arange(12), np.arange(12) + 1))
    K, size = X @ X.T, EPS * np.linalg.norm(np.diff(X, axis=0), 2) ** 2
    for error in (1e-5, 1e-3, 0.02, 2.0, 1e6):
        ranker = RankRLS(size / error, kernel="precomputed", scale=None)
        found = leave_comparison_out(ranker, K, pairs, margin=margin).differences[0]
        want = precise_refits(K, pairs, margin, np.ones(12), np.arange(12), size / error)
        assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@ZEROS
@given(votes())
def test_scores(problem):
    X, pairs, given = problem
    found = leave_comparison_out(RankRLS(), X, pairs, alphas=ALPHAS, metric="log_loss", **given)
    margin, weight, groups = (given[name] for name in ("margin", "weight", "groups"))
    won = np.where(margin > 0, 1.0, np.where(margin < 0, 0.0, 0.5))
    numbers = np.unique(groups, return_inverse=True)[1]
    # groups are numbered in the order of their first appearance
    first = [list(groups).index(g) for g in np.unique(groups)]
    fold = np.argsort(np.argsort(first))[numbers] % min(5, len(first))
    for a, d in enumerate(found.differences):
        right = np.where(d * margin > 0, 1.0, np.where(d * margin < 0, 0.0, 0.5))
        assert found.accuracy[a] == pytest.approx(np.average(right, weights=weight))
        error = clustered_error(right, weight, groups)
        assert found.scores("accuracy")[1][a] == pytest.approx(error, abs=1e-12)
        p = np.empty(len(d))
        for k in np.unique(fold):
            slope = logistic_slope(d[fold != k], margin[fold != k], weight[fold != k])
            p[fold == k] = expit(slope * d[fold == k])
        p = np.clip(p, 1e-15, 1 - 1e-15)
        assert_allclose(found.probabilities[a], p, atol=1e-12)
        loss = -won * np.log(p) - (1 - won) * np.log(1 - p)
        assert found.score[a] == pytest.approx(np.average(loss, weights=weight))
        assert found.brier[a] == pytest.approx(np.average((p - won) ** 2, weights=weight))
        assert found.squared_error[a] == pytest.approx(
            np.average((margin - d) ** 2, weights=weight)
        )
    assert found.best_alpha == ALPHAS[int(np.argmin(found.score))] or np.ptp(found.score) < 1e-9
    guess = found.baselines()
    assert guess["random"]["accuracy"] == pytest.approx(0.5)
    assert guess["first wins"]["accuracy"] == pytest.approx(np.average(won, weights=weight))


RANKERS = {
    "linear, scaled": RankRLS(scale="standard"),
    "rbf": RankRLS(kernel="rbf", gamma=0.3),
    "duplicates": RankRLS(kernel="polynomial", gamma=0.1, degree=2),
    "landmarks": SparseRankRLS(landmarks=np.arange(0, 20, 2), gamma=0.3, scale=None),
    "all landmarks": SparseRankRLS(landmarks=np.arange(20), gamma=0.3, scale=None),
}


def fixed_votes(n=20, n_pairs=60):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 3))
    X[7] = X[3]
    first = rng.integers(0, n, n_pairs)
    second = (first + rng.integers(1, n, n_pairs)) % n
    given = {
        "margin": rng.choice(["first", "second", "tie"], n_pairs),
        "weight": rng.uniform(0.5, 2, n_pairs),
        "groups": rng.integers(0, 8, n_pairs),
        "context": rng.standard_normal((n_pairs, 2)) + 0.5,
    }
    return X, np.column_stack((first, second)), given


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", RANKERS)
def test_every_space_agrees_with_refits_of_the_estimator(name, sparse):
    X, pairs, given = fixed_votes()
    if sparse:
        from scipy.sparse import csr_array

        X = csr_array(X)
    found = leave_comparison_out(RANKERS[name], X, pairs, alphas=ALPHAS, **given)
    for k in (0, 17, 40):
        kept = given["groups"] != given["groups"][k]
        rest = {option: values[kept] for option, values in given.items()}
        path = RANKERS[name].path_pairs(X, pairs[kept], ALPHAS, **rest)
        f, (i, j) = path.predict(X), pairs[k]
        for a in range(len(ALPHAS)):
            effect = given["context"][k] @ path.estimator(a).context_coef_
            want = f[a, i] - f[a, j] + effect
            assert found.differences[a, k] == pytest.approx(want, rel=1e-8, abs=1e-8)


def test_a_precomputed_kernel_and_many_coordinates():
    """More coordinates than have one eigendecomposition for all alphas."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 230))
    pairs = rng.permutation(240).reshape(120, 2)
    pairs = np.vstack((pairs, rng.permutation(240).reshape(120, 2), pairs[:40, ::-1]))
    groups = np.arange(len(pairs)) // 4
    one = leave_comparison_out(RankRLS(solver="primal"), X, pairs, alphas=[50.0], groups=groups)
    two = leave_comparison_out(
        RankRLS(kernel="precomputed"), X @ X.T, pairs, alphas=[50.0], groups=groups
    )
    assert_allclose(one.differences, two.differences, atol=1e-8)
    D, k = differences(X, pairs), 33
    want = refit(D, np.ones(len(D)), np.ones(len(D)), set(range(32, 36)), 50.0)
    assert_allclose(one.differences[0, 32:36], want, atol=1e-8)
    alone = leave_comparison_out(RankRLS(solver="dual"), X, pairs, alphas=[50.0])
    want = refit(D, np.ones(len(D)), np.ones(len(D)), {k}, 50.0)
    assert_allclose(alone.differences[0, k], want, atol=1e-8)


def test_folds_of_groups_are_never_split():
    X, pairs, given = fixed_votes()
    found = leave_comparison_out(RankRLS(), X, pairs, alphas=[1.0], n_splits=3, **given)
    codes = {}
    fold = np.array([codes.setdefault(g, len(codes)) for g in given["groups"]]) % 3
    same = leave_comparison_out(RankRLS(), X, pairs, alphas=[1.0], **{**given, "groups": fold})
    assert_allclose(found.differences, same.differences)
    assert_allclose(found.scores("accuracy")[1] > 0, True)


def test_alpha_and_slope_hold_out_whole_groups():
    """Repeated comparisons of the same prompt say nothing about another prompt."""
    X, pairs, given = fixed_votes()
    ranker = RankRLS().fit_pairs(X, pairs, **given)
    found = leave_comparison_out(RankRLS(), X, pairs, alphas=ranker.alpha_curve_.alphas, **given)
    decided = given["margin"] != "tie"
    margin = np.where(given["margin"] == "first", 1.0, -1.0)
    curve = ranker.alpha_curve_
    assert curve.metric == found.metric == "squared_error"
    # The choice of alpha keeps the scale of the context, and says so.
    assert curve.shared == ("scale of the context",)
    assert found.shared == ()
    assert_allclose(curve.score, found.score, rtol=1e-3)
    assert_allclose(curve.standard_error, found.standard_error, rtol=1e-2)
    assert ranker.alpha_ == found.best_alpha
    at = list(found.alphas).index(ranker.alpha_)
    signs = np.where(decided, margin, 0.0)
    slope = logistic_slope(found.differences[at], signs, given["weight"])
    assert ranker.preference_slope_ == pytest.approx(slope, rel=1e-2)


@pytest.mark.parametrize("alpha", [1e-300, 1e-20])
def test_an_alpha_below_rounding_errors_is_refused(alpha):
    X, pairs, given = fixed_votes()
    X = np.column_stack((X, np.ones(len(X)), X[:, 0]))
    with pytest.raises(DataError, match="alpha is too small"):
        leave_comparison_out(RankRLS(alpha), X, pairs, **given)
    assert RankRLS(alpha).fit_pairs(X, pairs, **given).preference_slope_ is None


def test_tables_and_frames():
    X, pairs, given = fixed_votes()
    found = leave_comparison_out(RankRLS(), X, pairs, **given)
    assert len(found.alphas) > 5
    text = str(found)
    assert "first wins" in text
    assert "best" in text
    assert found.to_frame().shape == (len(found.alphas), 9)
    assert "best squared error" in repr(found)
    best = next(line for line in text.splitlines() if line.endswith("best"))
    assert f"{found.squared_error.min():.4f}" in best


def test_what_cannot_be_held_out():
    X, pairs, _ = fixed_votes()
    for ranker in (PairwiseGP(), KPCRank(3, alpha=1.0)):
        with pytest.raises(ParameterError, match=r"RankingSearchCV.* refit"):
            leave_comparison_out(ranker, X, pairs)
    with pytest.raises(ParameterError, match="alphas above 0"):
        leave_comparison_out(RankRLS(), X, pairs, alphas=[0.0, 1.0])
    with pytest.raises(ParameterError, match="metric must be one of"):
        leave_comparison_out(RankRLS(), X, pairs, metric="auc")
    with pytest.raises(ParameterError, match="new must be one of"):
        leave_item_out(RankRLS(), X, pairs, new="two")
    with pytest.raises(DataError, match="one margin per pair"):
        leave_comparison_out(RankRLS(), X, pairs, margin=np.ones((len(pairs), 2)))
    with pytest.raises(DataError, match="at least two groups: got one"):
        leave_comparison_out(RankRLS(1.0), X, pairs, groups=np.zeros(len(pairs)))
    with pytest.raises(DataError, match="at least two: got one"):
        leave_comparison_out(RankRLS(1.0), X, pairs[:1])
    with pytest.raises(DataError, match="overflow"):
        leave_comparison_out(RankRLS(), 1e200 * X, pairs)
    K = np.diag(np.append(np.ones(19), -1.0))
    with pytest.raises(DataError, match="not positive semidefinite"):
        leave_comparison_out(RankRLS(1.0, kernel="precomputed"), K, pairs)


def test_comparisons_of_named_items():
    X, pairs, given = fixed_votes()
    names = np.array([f"item {k}" for k in range(20)])
    outcome = given.pop("margin")
    voted = Comparisons.of(*names[pairs].T, outcome, items=names, **given)
    found = leave_comparison_out(RankRLS(1.0), X, voted)
    same = leave_comparison_out(RankRLS(1.0), X, pairs, margin=outcome, **given)
    assert_allclose(found.differences, same.differences)
