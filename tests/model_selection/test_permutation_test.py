"""Permutation tests of held-out pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold

from rankwise import RLS, RankRLS, SparseBilinearRanker
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.holdout.permuted_labels import permuted
from rankwise.metric_names import metric_label
from rankwise.model_selection import (
    PermutationTest,
    cross_validate,
    leave_pair_out,
    permutation_test,
    permutations,
)
from rankwise.model_selection.rows import stratified_folds
from rankwise.plots import plot_null
from tests.oracles.holdout import refit_predictions
from tests.strategies import seeds, ties

rng = np.random.default_rng(0)
X = rng.standard_normal((16, 3))
Y = (X[:, 0] + 0.5 * rng.standard_normal(16) > 0).astype(float)


GROUPS = np.arange(16) // 2
GROUP_LABELS = (np.arange(16) // 4 % 2).astype(float)


def refit_auc(K, y, lam, pairs, ties):
    """The share of pairs in the right order, each by a refit without its rows."""
    right = []
    for i, j in pairs:
        if y[i] != y[j]:
            f = refit_predictions(K, y, np.zeros(len(y)), [i, j], lam, ties)
            right.append((1 + np.sign((f[0] - f[1]) * (y[i] - y[j]))) / 2)
    return np.mean(right)


@given(seeds, st.sampled_from(["linear", "rbf"]), st.booleans(), ties, st.sampled_from([2, 3, 9]))
def test_every_permutation_is_held_out_exactly(seed, kernel, with_strata, ties, n_labels):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((9, 2)), rng.permutation(np.arange(9) % n_labels)
    strata = np.arange(9) % 2 if with_strata else None
    ranker = RankRLS(0.7, kernel=kernel, gamma=0.5, scale=None, weighting="pairs", ties=ties)
    result = permutation_test(ranker, X, y, strata=strata, n_permutations=3, random_state=seed)
    K = X @ X.T if kernel == "linear" else np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    pairs = np.argwhere(np.triu(np.ones((9, 9)), 1))
    if with_strata:
        pairs = pairs[strata[pairs[:, 0]] == strata[pairs[:, 1]]]
    assert result.score == pytest.approx(refit_auc(K, y, 0.7, pairs, ties))
    units = QueryGroups.of(strata, 9)
    columns = permuted(y.astype(float), units, 3, np.random.default_rng(seed))[:, 1:]
    for labels, score in zip(columns.T, result.null, strict=True):
        assert score == pytest.approx(refit_auc(K, labels, 0.7, pairs, ties))


@pytest.mark.parametrize("strata", [None, np.arange(40) % 3])
def test_rows_that_are_almost_the_same(strata):
    """Differences of 1e-12 have a sign in double precision, and none in single precision."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((20, 2)), 2, axis=0)
    rows += 1e-5 * rng.standard_normal(rows.shape)
    y, ranker = np.arange(40) % 2, RankRLS(1.0, kernel="rbf", gamma=0.5, scale=None)
    options = {"n_permutations": 20, "random_state": 0}
    result = permutation_test(ranker, rows, y, strata=strata, **options)
    columns = permuted(y.astype(float), QueryGroups.of(strata, 40), 20, np.random.default_rng(0))
    want = [leave_pair_out(ranker, rows, labels, strata=strata).auc[0] for labels in columns.T]
    assert_allclose([result.score, *result.null], want)


def test_constant_features_tie_all_pairs():
    options = {"n_permutations": 5, "random_state": 0}
    result = permutation_test(RankRLS(1.0, scale=None), np.ones((16, 2)), Y, **options)
    assert_allclose([result.score, *result.null], 0.5)


def test_permutations_within_units_are_uniform():
    units = QueryGroups.of([0, 1, 0, 1, 0])
    labels = np.array([0.0, 3.0, 1.0, 4.0, 2.0])
    columns = permuted(labels, units, 6000, np.random.default_rng(0))
    assert_allclose(columns[:, 0], labels)
    seen, counts = np.unique(columns[:, 1:], axis=1, return_counts=True)
    assert seen.shape == (5, 12)  # 3! orders of one unit, 2! of the other
    assert (np.sort(seen[[0, 2, 4]], axis=0) == [[0], [1], [2]]).all()
    assert abs(counts - 500).max() < 5 * np.sqrt(500)


@pytest.mark.parametrize(
    ("ranker", "qid"),
    [
        (RLS(1.0), None),
        (RankRLS(1.0, ties="exclude"), None),
        (RankRLS(1.0, ties="exclude"), np.arange(16) % 4),
        (RankRLS(1.0), np.arange(16) % 4),
        (RLS(1.0), np.arange(16) % 4),
    ],
)
def test_the_score_is_that_of_leave_pair_out(ranker, qid):
    result = permutation_test(ranker, X, Y, qid=qid, n_permutations=2, random_state=0)
    assert_allclose(result.score, leave_pair_out(ranker, X, Y, qid=qid).auc[0])
    assert result.null.shape == (2,)


@pytest.mark.parametrize("alpha", [1e-9, 1e-12])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("ties", ["include", "exclude"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_scores_of_tiny_alphas(alpha, kernel, ties, n_labels):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(24, 5)), np.arange(24.0) % n_labels
    ranker = RankRLS(alpha, kernel=kernel, ties=ties)
    result = permutation_test(ranker, rows, labels, n_permutations=2, random_state=0)
    expected = leave_pair_out(RankRLS(1e-9, kernel=kernel, ties=ties), rows, labels).auc[0]
    assert_allclose(result.score, expected, atol=0.02)


def test_the_best_alpha_is_chosen_for_every_permutation():
    alphas = [0.1, 10.0, 1000.0]
    result = permutation_test(RankRLS(), X, Y, alpha=alphas, n_permutations=20, random_state=0)
    single = [
        permutation_test(RankRLS(), X, Y, alpha=a, n_permutations=20, random_state=0)
        for a in alphas
    ]
    assert_allclose(result.null, np.max([test.null for test in single], axis=0))
    assert_allclose(result.score, max(test.score for test in single))


@pytest.mark.parametrize("ties", ["include", "exclude"])
@pytest.mark.parametrize("strata", [None, np.arange(16) // 8])
def test_labels_of_groups_are_permuted_together(ties, strata):
    ranker = RankRLS(1.0, ties=ties)
    given = {"groups": GROUPS, "strata": strata}
    result = permutation_test(ranker, X, GROUP_LABELS, n_permutations=4, random_state=3, **given)
    assert_allclose(result.score, leave_pair_out(ranker, X, GROUP_LABELS, **given).auc[0])
    units = QueryGroups.of(None if strata is None else strata[::2], 8)
    columns = permuted(GROUP_LABELS[::2], units, 4, np.random.default_rng(3))[GROUPS, 1:]
    want = [leave_pair_out(ranker, X, labels, **given).auc[0] for labels in columns.T]
    assert_allclose(result.null, want)


@pytest.mark.parametrize(
    ("ranker", "cv", "qid", "scoring"),
    [
        (RankRLS(1.0), "leave_query_out", np.arange(16) % 4, "ndcg@3"),
        (RankRLS(1.0, ties="exclude"), 2, np.arange(16) % 4, "disagreement"),
        (RLS(1.0), 2, None, "disagreement"),
        (LinearRegression(), KFold(2), None, "kendall_tau"),
    ],
)
def test_other_held_out_scores(ranker, cv, qid, scoring):
    given = {"qid": qid, "cv": cv, "scoring": scoring}
    result = permutation_test(ranker, X, Y, n_permutations=3, random_state=0, **given)
    columns = permuted(Y, QueryGroups.of(qid, 16), 3, np.random.default_rng(0))
    found = [cross_validate(ranker, X, labels, **given) for labels in columns.T]
    want = [one.means[scoring] for one in found]
    assert_allclose([result.score, *result.null], want)
    assert result.metric == scoring
    assert result.greater_is_better == (scoring != "disagreement")
    better = np.array(want[1:]) >= want[0] if result.greater_is_better else want[1:] <= want[:1]
    assert result.n_as_good == np.sum(better)
    assert metric_label(scoring) in str(result)


def test_folds_with_one_label_are_left_out():
    y = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0] + [0.0] * 6)
    permutations = {"n_permutations": 20, "random_state": 0}
    result = permutation_test(RLS(1.0), X[:12], y, cv=KFold(4), scoring="auc", **permutations)
    assert np.isfinite(result.null).all()


def test_folds_of_whole_groups():
    result = permutation_test(
        LinearRegression(), X, GROUP_LABELS, groups=GROUPS, cv=2, n_permutations=2, random_state=0
    )
    splits = list(GroupKFold(2).split(X, GROUP_LABELS, GROUPS))
    want = cross_validate(LinearRegression(), X, GROUP_LABELS, cv=splits)
    assert_allclose(result.score, next(iter(want.means.values())))


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_labels_of_any_size(scale):
    one, other = (
        permutation_test(RankRLS(1.0), X, labels, n_permutations=5, random_state=0)
        for labels in (Y, scale * Y)
    )
    assert_allclose([one.score, *one.null], [other.score, *other.null])


def refit_nested_auc(K, y, alphas, tests, pairs, ties):
    """The share of held-out pairs in the right order, with alpha chosen by refits."""
    right = []
    for out in tests:
        train = np.setdiff1d(np.arange(len(y)), out)
        inner = [(i, j) for i, j in pairs if i in train and j in train]
        scores = [refit_auc_of(K, y, alpha, train, inner, ties) for alpha in alphas]
        best = max(k for k, score in enumerate(scores) if score > max(scores) - 1e-9)
        f = np.full(len(y), np.nan)
        f[out] = refit_predictions(K, y, np.zeros(len(y)), out, alphas[best], ties)
        right += [
            (1 + np.sign((f[i] - f[j]) * (y[i] - y[j]))) / 2
            for i, j in pairs
            if i in out and j in out and y[i] != y[j]
        ]
    return np.mean(right)


def refit_auc_of(K, y, alpha, rows, pairs, ties):
    """`refit_auc` among some rows."""
    place = {row: k for k, row in enumerate(rows)}
    inner = [(place[i], place[j]) for i, j in pairs]
    return refit_auc(K[np.ix_(rows, rows)], y[rows], alpha, inner, ties)


@pytest.mark.parametrize(
    ("ties", "strata", "n_features"),
    [("include", None, 3), ("exclude", None, 3), ("exclude", None, 20),
     ("include", np.arange(12) // 6, 3)],
)  # fmt: skip
def test_nested_hold_outs_of_permuted_labels(monkeypatch, ties, strata, n_features):
    monkeypatch.setattr(permutations, "NESTED_FOLDS", (3, 2))
    X = np.random.default_rng(3).standard_normal((12, n_features))
    y, alphas = Y[:12], [0.01, 30.0]
    words = np.where(y > 0, "ill", "well")
    ranker = RankRLS(alphas[0], scale=None, weighting="pairs", ties=ties)
    result = permutation_test(
        ranker, X, words, positive="ill", strata=strata, alpha=alphas,
        cv="nested_leave_pair_out", n_permutations=4, random_state=7,
    )  # fmt: skip
    rng = np.random.default_rng(7)
    tests = stratified_folds(y, None, 3, 2, rng).tests
    columns = permuted(y, QueryGroups.of(strata, 12), 4, rng)
    pairs = [(i, j) for i in range(12) for j in range(i) if strata is None or i // 6 == j // 6]
    given = X @ X.T, alphas, tests, pairs, ties
    expected = [refit_nested_auc(given[0], labels, *given[1:]) for labels in columns.T]
    assert_allclose([result.score, *result.null], expected)
    assert "nested AUC" in repr(result)


def test_a_class_that_permuted_labels_leave_to_one_fold():
    """Predictions of a ranker that has seen one class are tied."""
    y = (np.arange(16) < 2).astype(float)
    options = {"cv": "nested_leave_pair_out", "n_permutations": 30, "random_state": 0}
    result = permutation_test(RankRLS(1.0), X, y, **options)
    assert np.isfinite(result.null).all()
    assert len(np.unique(result.null)) > 5
    with pytest.raises(ParameterError, match="is for one ranking"):
        permutation_test(RankRLS(1.0), X, Y, qid=np.arange(16) // 8, **options)


def test_p_values():
    result = PermutationTest(0.8, np.array([0.5, 0.8, 0.9, 0.2]))
    assert result.p_value == 3 / 5
    assert result.standard_error == pytest.approx(np.sqrt(0.6 * 0.4 / 5))
    assert "p = 0.6" in repr(result)
    assert result.to_frame()["auc"].tolist() == [0.5, 0.8, 0.9, 0.2]
    assert result.plot().get_xlabel() == "AUC of held-out pairs"


def test_what_cannot_be_tested():
    with pytest.raises(DataError, match="One label per row is needed: got 2 columns"):
        permutation_test(RankRLS(1.0), X, np.column_stack((Y, Y)))
    with pytest.raises(DataError, match="single row"):
        permutation_test(RankRLS(1.0), X, np.arange(16) == 3)
    with pytest.raises(ParameterError, match="strata or qid, not both"):
        permutation_test(RankRLS(1.0), X, Y, qid=np.arange(16) % 4, strata=Y)
    with pytest.raises(ParameterError, match="n_permutations must be an integer"):
        permutation_test(RankRLS(1.0), X, Y, n_permutations=0)
    with pytest.raises(ParameterError, match="need a least-squares ranker"):
        permutation_test(SparseBilinearRanker(), X, Y)
    for strata in (np.arange(16), Y):
        with pytest.raises(DataError, match="No pair with different labels"):
            permutation_test(RankRLS(1.0), X, Y, strata=strata)
    with pytest.raises(ParameterError, match="scoring='ndcg' needs another cv"):
        permutation_test(RankRLS(1.0), X, Y, scoring="ndcg")
    with pytest.raises(ParameterError, match="set the alpha of the estimator"):
        permutation_test(RankRLS(1.0), X, Y, alpha=1.0, cv=3)
    with pytest.raises(ParameterError, match="with groups, use a number of folds"):
        permutation_test(RankRLS(1.0), X, Y, cv="leave_query_out", groups=Y)
    with pytest.raises(DataError, match=r"have different labels.*give them as strata"):
        permutation_test(RankRLS(1.0), X, Y, groups=np.arange(16) % 3)
    with pytest.raises(DataError, match="have different strata"):
        permutation_test(RankRLS(1.0), X, GROUP_LABELS, groups=GROUPS, strata=np.arange(16) % 2)
    with pytest.raises(DataError, match=r"of shape \(16, 2\)"):
        permutation_test(RankRLS(1.0), X, np.column_stack((Y, Y)), cv=3)
    with pytest.raises(DataError, match=r"y has the classes 'ill', 'well': name .* positive='ill'"):
        permutation_test(RankRLS(1.0), X, np.where(Y > 0, "ill", "well"), cv=3)
    with pytest.raises(DataError, match="draws a result of permutation_test"):
        plot_null([0.5])
