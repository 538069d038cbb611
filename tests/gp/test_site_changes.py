"""Comparisons held out of a posterior, against dense posteriors without their sites."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.gp import evidence
from rankwise.gp.evidence import LeftOut
from rankwise.gp.inference import (
    PairObservations,
    expectation_propagation,
    gaussian,
    weights_of_pairs,
    weights_of_rows,
)
from rankwise.graph.comparisons import Comparisons
from tests.gp.problems import covariance
from tests.oracles.pairwise_gp import tilted_moments
from tests.strategies import seeds


@st.composite
def votes(draw):
    """A covariance, comparisons that may repeat pairs, and their groups."""
    rng = np.random.default_rng(draw(seeds))
    n, N = draw(st.integers(3, 7)), draw(st.integers(2, 14))
    K = covariance(rng.uniform(-2, 2, (n, 1)), 4.0, 1.0)
    first = rng.integers(0, n, N)
    pairs = np.column_stack((first, (first + rng.integers(1, n, N)) % n))
    weight = rng.choice([0.5, 1.0, 2.0], N)
    margin = rng.choice([-1.0, 0.0, 1.0], N)
    return K, Comparisons(pairs, margin, weight), rng.integers(0, draw(st.integers(1, 4)), N)


def moments_without(K, observed, tau, nu, changed):
    """Moments of all differences with the sites of some pairs changed, by dense matrices."""
    tau, nu = tau.copy(), nu.copy()
    for k, site in changed.items():
        tau[k], nu[k] = site
    B = np.zeros((len(observed), len(K)))
    B[np.arange(len(B)), observed.rows[observed.first]] = 1.0
    B[np.arange(len(B)), observed.rows[observed.second]] = -1.0
    G = B @ K @ B.T
    S = np.linalg.inv(np.eye(len(G)) + G * tau) @ G
    return S @ nu, np.diagonal(S)


def site_without(K, observed, a, k, members, threshold):
    """The site of what is left of a pair, from the cavity of its whole site."""
    left = observed.values[k] - observed.parts[members][observed.pair[members] == k].sum(axis=0)
    if left.max() < 1e-9:
        return 0.0, 0.0
    mean, variance = (part[k] for part in moments_without(K, observed, a.tau, a.nu, {k: (0, 0)}))
    _, m, v = tilted_moments(mean, variance, *np.maximum(left, 0.0), threshold)
    return 1 / v - 1 / variance, m / v - mean / variance


@given(votes(), st.booleans(), st.booleans())
def test_sites_are_taken_out_of_the_posterior(problem, half_ties, few_rows):
    """With one sweep over the sites that are held out, and no other."""
    K, comparisons, groups = problem
    observed = PairObservations.from_outcomes(comparisons, half_ties=half_ties)
    likelihood = (0.0 if half_ties else 0.4, 0.0)
    rows = K[np.ix_(observed.rows, observed.rows)]
    build = weights_of_rows if few_rows else weights_of_pairs
    differences = build(rows.copy(), observed.first, observed.second).differences
    a = expectation_propagation(differences, observed.values, *likelihood, tol=1e-9)
    out = LeftOut(a, differences, observed, likelihood)
    alone = [np.array([k]) for k in range(len(groups))]
    members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "_MOVED", np.inf)
        patch.setattr(evidence, "_SWEEPS", 1)
        patch.setattr(LeftOut, "_without_many", LeftOut._without_few)
        each = out.each()
        assert_allclose(out.groups(alone), each, atol=1e-7)
        together = out.groups(members)
    for cases, (mean, variance) in ((alone, each), (members, together)):
        for some in cases:
            changed = {
                k: site_without(K, observed, a, k, some, likelihood[0])
                for k in np.unique(observed.pair[some])
            }
            want = moments_without(K, observed, a.tau, a.nu, changed)
            at = observed.pair[some]
            assert_allclose(mean[some], want[0][at], atol=1e-4)
            assert_allclose(variance[some], want[1][at], rtol=1e-4)


@given(votes(), st.booleans())
def test_sites_that_are_matched_again_are_those_of_a_fit(problem, many):
    """If all sites are matched, until nothing changes, what is held out makes no difference."""
    K, comparisons, groups = problem
    observed = PairObservations.from_outcomes(comparisons, half_ties=True)
    rows = K[np.ix_(observed.rows, observed.rows)]
    space = weights_of_rows(rows.copy(), observed.first, observed.second)
    a = expectation_propagation(space.differences, observed.values, tol=1e-9)
    members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "_MOVED", -1.0)
        patch.setattr(evidence, "_SWEEPS", 100)
        way = LeftOut._without_many if many else LeftOut._without_few
        for name in ("_without_many", "_without_few"):
            patch.setattr(LeftOut, name, way)
        mean, variance = LeftOut(a, space.differences, observed, (0.0, 0.0)).groups(members)
    for some in members:
        left = observed.values.copy()
        np.subtract.at(left, observed.pair[some], observed.parts[some])
        refit = expectation_propagation(
            space.differences, np.where(left > 1e-9, left, 0.0), tol=1e-9
        )
        at = observed.pair[some]
        assert_allclose(mean[some], refit.mean[at], atol=1e-4)
        assert_allclose(variance[some], refit.variance[at], atol=1e-4)


@given(votes())
def test_a_gaussian_likelihood_is_exact(problem):
    K, comparisons, groups = problem
    observed = PairObservations.from_margins(comparisons)
    margin, weight = observed.values.T
    space = weights_of_rows(
        K[np.ix_(observed.rows, observed.rows)], observed.first, observed.second
    )
    a = gaussian(space.differences, margin, weight, 0.7)
    members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    mean, variance = LeftOut(a, space.differences, observed, None).groups(members)
    for some in members:
        tau = np.where(np.isin(np.arange(len(margin)), some), 0.0, weight / 0.49)
        want = moments_without(K, observed, tau, tau * margin, {})
        assert_allclose(mean[some], want[0][some], atol=1e-7)
        assert_allclose(variance[some], want[1][some], atol=1e-7)
