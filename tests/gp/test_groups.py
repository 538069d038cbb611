"""Comparisons that depend on each other within their groups."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct

from rankwise import PairwiseGP, load_model, save_model
from rankwise.data import Comparisons
from rankwise.errors import DataError, RankwiseWarning
from rankwise.graph import QueryGroups
from tests.gp.some_comparisons import make_gp
from tests.oracles.pairwise_gp import design_effect

KERNEL = 3.0 * RBF(1.0, "fixed")


def rankings(n_rankings=40, size=7, *, independent=False, seed=0):
    """The pairs of rankings, by utilities with noise that these share, or with their own noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 2))
    f = 2 * np.sin(X).sum(axis=1)
    pairs, margin, groups = [], [], []
    for ranking in range(n_rankings):
        items = rng.choice(20, size, replace=False)
        utility = f[items] + rng.standard_normal(size) / np.sqrt(2)
        for a, b in combinations(range(size), 2):
            gap = utility[a] - utility[b]
            if independent:
                gap = f[items[a]] - f[items[b]] + rng.standard_normal()
            pairs.append((items[a], items[b]))
            margin.append(gap)
            groups.append(f"ranking {ranking}")
    return X, np.array(pairs), np.array(margin), np.array(groups)


def test_pairs_of_rankings_count_less():
    X, pairs, gap, groups = rankings()
    margin = np.sign(gap)
    gp = make_gp(KERNEL, flips=0, tol=1e-9)
    plain = clone(gp).fit_pairs(X, pairs, margin=margin)
    found = clone(gp).fit_pairs(X, pairs, margin=margin, groups=groups)
    assert plain.design_effect_ == 1.0
    assert 1.3 < found.design_effect_ < 4.0
    fewer = clone(gp).fit_pairs(
        X, pairs, margin=margin, weight=np.full(840, 1 / found.design_effect_)
    )
    for one, two in zip(*(g.predict(X, return_std=True) for g in (found, fewer)), strict=True):
        assert_allclose(one, two, atol=1e-6)
    spread = [g.predict(X, contrast="mean", return_std=True)[1].mean() for g in (plain, found)]
    assert spread[1] > 1.1 * spread[0]
    assert_allclose(found.weight_, 1.0)
    votes = Comparisons.of(*pairs.T, margin=margin, groups=groups)
    assert clone(gp).fit_pairs(X, votes).design_effect_ == pytest.approx(found.design_effect_)


def test_independent_comparisons_are_left_as_they_are():
    X, pairs, gap, groups = rankings(independent=True)
    gp = PairwiseGP(KERNEL, flips=0)
    plain = clone(gp).fit_pairs(X, pairs, margin=np.sign(gap))
    for given in (groups, np.arange(840), np.zeros(840, int), np.arange(840) % 2):
        found = clone(gp).fit_pairs(X, pairs, margin=np.sign(gap), groups=given)
        assert found.design_effect_ == 1.0
        assert_allclose(found.predict(X), plain.predict(X))


def test_dependence_does_not_make_raters_differ():
    X, pairs, gap, groups = rankings(n_rankings=12, size=14, seed=1)
    gp = PairwiseGP(KERNEL, flips=0)
    how = {"margin": np.sign(gap), "rater": groups}
    assert clone(gp).fit_pairs(X, pairs, **how).raters_.spread > 0.2
    assert clone(gp).fit_pairs(X, pairs, **how, groups=groups).raters_.spread == 0.0


@pytest.mark.parametrize("settings", [{}, {"tie_model": "threshold"}, {"likelihood": "gaussian"}])
@pytest.mark.parametrize("with_context", [False, True])
def test_the_design_effect_agrees_with_its_definition(settings, with_context):
    X, pairs, gap, _ = rankings(8, 4)
    rng = np.random.default_rng(0)
    tied = 0.5 * ("tie_model" in settings)
    margin = gap if "likelihood" in settings else np.where(np.abs(gap) < tied, 0, np.sign(gap))
    groups, context = np.arange(48) % 5, rng.standard_normal((48, 2))
    kernel = 2.0 * DotProduct(1.0)
    gp = make_gp(kernel, optimizer=None, noise=0.8, tol=1e-10, **settings)
    gp.fit_pairs(X, pairs, margin=margin, context=context if with_context else None)
    process, evidence = gp.posterior_.best, gp._present_evidence()
    found = evidence.design_effect(process, QueryGroups.of(groups))
    scaled = context * gp.context_scale_ if with_context else np.zeros((48, 0))
    features = np.linalg.cholesky(kernel(X) + 1e-12 * np.eye(len(X)))
    A = np.hstack((features[pairs[:, 0]] - features[pairs[:, 1]], scaled)) / 0.8
    a, sign = process.approximation, evidence.observed.sign
    at = evidence.observed.pair
    tau = np.zeros(len(margin))  # each pair has a site: its first comparison carries it
    first = np.unique(at, return_index=True)[1]
    tau[first], push = a.tau, None
    if "likelihood" in settings:
        A, push = 0.8 * A, (margin - a.mean) / 0.64
    want = design_effect(
        A, tau, groups, mean=sign * a.mean[at], variance=a.variance[at],
        margin=margin, threshold=gp.threshold_, push=push,
    )  # fmt: skip
    assert_allclose(found, want, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.ci
def test_groups_are_left_out_together_told_and_saved(tmp_path):
    X, pairs, gap, groups = rankings(25, 8)
    gp = PairwiseGP(KERNEL, flips=0, optimizer=None)
    gp.fit_pairs(X, pairs, margin=np.sign(gap), groups=groups)
    assert gp.design_effect_ > 1
    found = gp.leave_one_out()
    assert_allclose(found.log_loss, gp.leave_one_out(groups=groups).log_loss)
    assert found.log_loss > gp.leave_one_out(groups=np.arange(700)).log_loss
    win, loss = found.probabilities[:, 0], found.probabilities[:, 2]
    assert_allclose(found.log_likelihood, np.log(np.where(gap > 0, win, loss)), atol=1e-9)
    same = load_model(save_model(gp, tmp_path / "model.rankwise"))
    assert same.design_effect_ == gp.design_effect_
    assert_allclose(same.leave_one_out().log_loss, found.log_loss)
    for model in (gp, same):
        model.tell([[0, 1], [1, 2]])
    assert_allclose(same.predict(X), gp.predict(X), atol=1e-8)
    assert gp.group_[-2:].tolist() == [25, 26]


def test_groups_that_cannot_be_used():
    X, pairs, gap, groups = rankings(20, 5)
    margins = PairwiseGP(KERNEL, likelihood="gaussian", optimizer=None)
    with pytest.warns(RankwiseWarning, match=r"Margins of a group .* factor .* are not changed"):
        margins.fit_pairs(X, pairs, margin=gap, groups=groups)
    assert margins.design_effect_ == 1.0
    with pytest.raises(DataError, match="groups needs one entry per comparison"):
        PairwiseGP().fit_pairs(X, pairs, groups=groups[:5])
    assert PairwiseGP().fit_pairs(X, [], groups=[]).design_effect_ == 1.0
