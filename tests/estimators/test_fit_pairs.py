"""Least-squares rankers on comparisons: context, paths, parts that nothing links."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.gaussian_process.kernels import WhiteKernel

from rankwise import (
    ComponentOptions,
    KPCRank,
    PairwiseGP,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    load_model,
    save_model,
)
from rankwise.data import Comparisons
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.model_selection import leave_comparison_out

RANKERS = {
    "primal": RankRLS(2.0),
    "dual": RankRLS(2.0, solver="dual"),
    "rbf": RankRLS(2.0, kernel="rbf", gamma=0.2),
    "landmarks": SparseRankRLS(2.0, n_landmarks=15, gamma=0.2, random_state=0),
}


def shown(n=40, n_pairs=400, bias=0.8, seed=0):
    """Comparisons in which being shown on the left is worth something."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, 3)), np.array([1.0, -0.5, 0.0])
    first = rng.integers(0, n, n_pairs)
    second = (first + rng.integers(1, n, n_pairs)) % n
    left = rng.choice([-1.0, 1.0], n_pairs)
    margin = (X[first] - X[second]) @ w + bias * left + 0.3 * rng.standard_normal(n_pairs)
    return X, np.column_stack((first, second)), margin, left[:, None], w


@pytest.mark.parametrize("name", RANKERS)
def test_the_weight_of_the_context_is_found_and_left_out_of_scores(name, tmp_path):
    X, pairs, margin, left, w = shown()
    ranker = clone(RANKERS[name]).fit_pairs(X, pairs, margin=margin, context=left)
    assert ranker.context_coef_ == pytest.approx([0.8], abs=0.05)
    if name == "primal":
        assert_allclose(ranker.coef_, w, atol=0.05)
    # without it, position is noise in the scores
    f, truth = ranker.predict(X), X @ w
    assert np.corrcoef(f, truth)[0, 1] > 0.97
    loaded = load_model(save_model(ranker, tmp_path / "model.rankwise"))
    assert_allclose(loaded.context_coef_, ranker.context_coef_)
    assert_allclose(loaded.predict(X), f)
    if ranker.preference_slope_ is not None:
        even = ranker.predict_preference(X[:5], X[5:10])
        ahead = ranker.predict_preference(X[:5], X[5:10], context=np.ones((5, 1)))
        assert (ahead > even).all()
        a, gap = ranker.preference_slope_, f[:5] - f[5:10]
        assert_allclose(ahead, 1 / (1 + np.exp(-a * (gap + ranker.context_coef_[0]))))


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_units_of_features_and_context_do_not_matter(unit):
    X, pairs, margin, left, _ = shown()
    one = RankRLS(2.0).fit_pairs(X, pairs, margin=margin, context=left)
    two = RankRLS(2.0 * unit**2).fit_pairs(unit * X, pairs, margin=margin, context=100 * left)
    assert_allclose(two.predict(unit * X), one.predict(X))
    assert_allclose(100 * two.context_coef_, one.context_coef_)


def test_a_model_without_context_has_no_trace_of_an_earlier_one():
    X, pairs, margin, left, _ = shown()
    ranker = RankRLS().fit_pairs(X, pairs, margin=margin, context=left)
    assert hasattr(ranker, "context_coef_")
    assert not hasattr(ranker.fit_pairs(X, pairs, margin=margin), "context_coef_")
    with pytest.raises(ParameterError, match="fitted without context"):
        ranker.predict_preference(X, X, context=np.ones((40, 1)))
    with pytest.raises(ParameterError, match="KPCRank has no context"):
        KPCRank(3).fit_pairs(X, pairs, context=left)
    ranker.fit_pairs(X, pairs, margin=margin, context=left)
    with pytest.raises(DataError, match="context has 2 columns, but the ranker was fitted with 1"):
        ranker.predict_preference(X, X, context=np.ones((40, 2)))


@pytest.mark.parametrize("kind", [np.asarray, csr_array, np.float32, pd.DataFrame])
@pytest.mark.parametrize("with_context", [False, True])
@pytest.mark.parametrize("name", RANKERS)
def test_a_path_has_the_fits_of_every_alpha(name, with_context, kind):
    X, pairs, margin, left, _ = shown(n=20, n_pairs=30)
    X, context, ranker = kind(X), left if with_context else None, clone(RANKERS[name])
    alphas = [0.5, 3.0, 40.0]
    path = ranker.path_pairs(X, pairs, alphas, margin=margin, context=context)
    for k, alpha in enumerate(alphas):
        one = ranker.set_params(alpha=alpha).fit_pairs(X, pairs, margin=margin, context=context)
        assert_allclose(path.predict(X)[k], one.predict(X), rtol=2e-5)
        if with_context:
            assert_allclose(path.estimator(k).context_coef_, one.context_coef_, rtol=1e-6)
    assert len(ranker.path_pairs(X, pairs, margin=margin, context=context)) > 5


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    "ranker",
    [
        *RANKERS.values(),
        RankRLS("auto"),
        RankSVM(1.0),
        KPCRank("cv", options=ComponentOptions(cv=4)),
    ],
    ids=str,
)
def test_comparisons_of_weight_0_are_left_out(ranker, grouped):
    X, pairs, margin, context, _ = shown()
    weight = np.where(np.arange(400) % 3, 1.5, 0.0)
    context = context * np.where(weight > 0, 1.0, 100.0)[:, None]
    given = {"margin": margin, "weight": weight, "context": context}
    if grouped and not isinstance(ranker, RankSVM):
        given["groups"] = np.arange(400) % 11
    if isinstance(ranker, KPCRank):
        del given["context"]
    counted = {name: values[weight > 0] for name, values in given.items()}
    with_all = clone(ranker).fit_pairs(X, pairs, **given)
    without = clone(ranker).fit_pairs(X, pairs[weight > 0], **counted)
    assert_allclose(with_all.predict(X), without.predict(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", RANKERS)
def test_hold_outs_of_comparisons_with_context_and_weights_of_0(name):
    X, pairs, margin, context, _ = shown(n_pairs=60)
    weight = np.where(np.arange(60) % 4, 1.5, 0.0)
    context = context * np.where(weight > 0, 1.0, 100.0)[:, None]
    ranker = clone(RANKERS[name])
    if name == "landmarks":
        ranker.set_params(landmarks=X[:15], n_landmarks=None)
    given = {"margin": margin, "weight": weight, "context": context}
    held = leave_comparison_out(ranker, X, pairs, alphas=[2.0], **given)
    for k in (0, 1, 2):
        rest = np.delete(np.arange(60), k)
        counted = {what: values[rest] for what, values in given.items()}
        refit = clone(ranker).set_params(alpha=2.0).fit_pairs(X, pairs[rest], **counted)
        scores = refit.predict(X)[pairs[k]]
        want = scores[0] - scores[1] + context[k] @ refit.context_coef_
        assert_allclose(held.differences[0, k], want, rtol=1e-6)


def in_context(n_pairs, seed=3):
    """Comparisons with weights, lengths of differences, and a context that depend on each other."""
    X, pairs, margin, left, _ = shown(n_pairs=n_pairs, seed=seed)
    X[::2] *= 5.0
    rng = np.random.default_rng(seed)
    weight = np.where(pairs.min(axis=1) % 2, 1.0, 3.0)
    context = np.column_stack((left[:, 0], weight * rng.lognormal(size=n_pairs)))
    return X, pairs, {"margin": margin, "weight": weight, "context": context}


@pytest.mark.parametrize("n_pairs", [60, 500])  # all pairs, or a sample, set the scale
@pytest.mark.parametrize("name", RANKERS)
def test_a_weight_counts_as_copies_in_the_scale_of_the_context(name, n_pairs):
    X, pairs, given = in_context(n_pairs)
    copies = np.random.default_rng(0).permutation(
        np.repeat(np.arange(n_pairs), given["weight"].astype(int))
    )
    ranker = clone(RANKERS[name]).set_params(alpha=200.0)
    weighted = clone(ranker).fit_pairs(X, pairs, **given)
    copied = {"margin": given["margin"][copies], "context": given["context"][copies]}
    repeated = clone(ranker).fit_pairs(X, pairs[copies], **copied)
    assert_allclose(weighted.context_coef_, repeated.context_coef_, rtol=1e-9)
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("n_pairs", [60, 500])
@pytest.mark.parametrize("name", ["primal", "rbf"])
def test_hold_outs_with_weights_and_context_equal_refits(name, n_pairs):
    X, pairs, given = in_context(n_pairs)
    given["weight"] *= np.random.default_rng(1).lognormal(size=n_pairs)
    group = np.arange(n_pairs) % 7
    ranker = clone(RANKERS[name]).set_params(alpha=200.0)
    alone = leave_comparison_out(ranker, X, pairs, **given)
    grouped = leave_comparison_out(ranker, X, pairs, groups=group, **given)
    cases = [(alone, np.arange(n_pairs) == k) for k in (0, 7, 59)] + [(grouped, group == 3)]
    for held, out in cases:
        rest = {what: values[~out] for what, values in given.items()}
        refit = clone(ranker).fit_pairs(X, pairs[~out], **rest)
        scores = refit.predict(X)[pairs[out]]
        want = scores[:, 0] - scores[:, 1] + given["context"][out] @ refit.context_coef_
        assert_allclose(held.differences[0, out], want, rtol=1e-7, atol=1e-9)


def test_words_are_no_reason_to_warn_of_margins():
    X, pairs, margin, _, _ = shown()
    words = np.where(abs(margin) < 0.2, "tie", "first")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RankwiseWarning)
        KPCRank("cv").fit_pairs(X, pairs, margin=words)


def test_several_outputs_with_context():
    X, pairs, margin, left, _ = shown()
    both = RankRLS(1.0).fit_pairs(X, pairs, margin=np.column_stack((margin, -margin)), context=left)
    one = RankRLS(1.0).fit_pairs(X, pairs, margin=margin, context=left)
    assert_allclose(both.context_coef_, np.column_stack((one.context_coef_, -one.context_coef_)))


def test_groups_choose_alpha_without_what_repeats_within_them():
    """Comparisons that are repeated within a group make small alphas look good."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    pairs = np.repeat(np.arange(60).reshape(30, 2), 4, axis=0)
    groups = np.repeat(np.arange(30), 4)
    flipped = rng.random(30) < 0.5
    margin = np.repeat(np.where(flipped, -1.0, 1.0), 4)  # nothing to learn
    alone = RankRLS(scale=None).fit_pairs(X, pairs, margin=margin).alpha_curve_
    whole = RankRLS(scale=None).fit_pairs(X, pairs, margin=margin, groups=groups).alpha_curve_
    assert alone.score.min() < 0.05
    assert whole.score.min() > 0.3
    assert whole.standard_error[0] > 2 * 0.5 / np.sqrt(120)


def test_alpha_is_not_the_largest_of_many_with_the_same_accuracy():
    rng = np.random.default_rng(3)
    X, new = rng.standard_normal((25, 4)), rng.standard_normal((300, 4))
    pairs = rng.integers(0, 25, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    gap = (X[pairs[:, 0]] - X[pairs[:, 1]]) @ [1, 1, 0, 0] + rng.standard_normal(len(pairs))
    ranker = RankRLS().fit_pairs(X, pairs, margin=gap > 0)
    assert ranker.alpha_ < 100
    assert ranker.score(new, new @ [1, 1, 0, 0]) > 0.92


@pytest.mark.parametrize(
    "ranker", [RankRLS(1.0), SparseRankRLS(1.0, landmarks=[0, 5, 9]), RankSVM()]
)
def test_margins_of_one_and_zero_are_refused(ranker):
    X, pairs, margin, _, _ = shown(n=20, n_pairs=30)
    won = margin > 0
    with pytest.raises(DataError, match=r"only 1 and 0, and 0 stands for a tie.* booleans"):
        ranker.fit_pairs(X, pairs, margin=won.astype(int))
    with pytest.warns(RankwiseWarning, match="0 stands for a tie"):
        ranker.fit_pairs(X, pairs, margin=won.astype(float))
    words = np.where(won, "first", "tie")
    plain = clone(ranker).fit_pairs(X, pairs, margin=words)
    assert_allclose(plain.predict(X), ranker.predict(X))
    with pytest.raises(DataError, match="pairs is empty"):
        ranker.fit_pairs(X, [])


def test_groups_choose_components_as_well():
    X, pairs, margin, _, _ = shown(n=20, n_pairs=60)
    groups = np.arange(60) % 4
    found = (
        KPCRank(options=ComponentOptions(cv=9))
        .fit_pairs(X, pairs, margin=margin, groups=groups)
        .component_errors_
    )
    assert found.method == "4 folds of groups of comparisons, refitted"


NAMES = list("abcdefg")


def test_items_of_unlinked_parts_are_named():
    votes = Comparisons.of(list("abdf"), list("bceg"), items=NAMES)
    words = r"3 parts .*: 'a', 'b', 'c'; 'd', 'e'; 'f', 'g'\. Compare items of different parts"
    with pytest.warns(RankwiseWarning, match=words):
        RankRLS(alpha=1.0).fit_pairs(np.eye(7), votes)
    with pytest.warns(RankwiseWarning, match=words):
        PairwiseGP(WhiteKernel(), optimizer=None).fit_pairs(np.arange(7.0)[:, None], votes)
    with pytest.warns(RankwiseWarning, match="0, 1, 2; 3, 4; 5, 6"):
        RankRLS(alpha=1.0, kernel="precomputed").fit_pairs(np.eye(7), votes.pairs)
    never = Comparisons.of(list("abcde"), list("bcdef"), items=NAMES)
    with pytest.warns(RankwiseWarning, match=r"'a', 'b', 'c' and 3 more; 'g'\."):
        RankRLS(alpha=1.0).fit_pairs(np.eye(7), never)


def test_features_link_parts():
    votes = [[0, 1], [2, 3], [5, 4]]
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (rng.standard_normal((6, 2)), np.array([[1.0], [0], [1], [0], [0], [1]])):
            for kernel in ("linear", "rbf"):
                scores = RankRLS(alpha=1.0, kernel=kernel).fit_pairs(X, votes).predict(X)
                assert all(scores[winner] > scores[loser] for winner, loser in votes)
            PairwiseGP(optimizer=None).fit_pairs(X, votes)
        indicators = np.hstack((np.eye(6), np.arange(6.0)[:, None]))
        RankRLS(alpha=1.0).fit_pairs(indicators, votes)
