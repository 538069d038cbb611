"""Expectation propagation, Laplace and the Gaussian model against dense oracles."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from rankwise.gp import inference
from rankwise.gp.inference import (
    Differences,
    PairObservations,
    WeightPosterior,
    covariance_gradient,
    expectation_propagation,
    factor_gradient,
    gaussian,
    laplace,
    pivoted_cholesky,
    precision_gradient,
    weights_of_pairs,
    weights_of_rows,
)
from rankwise.graph.comparisons import Comparisons
from tests.gp.problems import make_problem
from tests.oracles.pairwise_gp import dense_ep, elliptical_slice, log_likelihood
from tests.strategies import comparisons, seeds

TIGHT = {"tol": 1e-11, "max_sweeps": 1000}
FORMS = ("rows", "pairs")


@st.composite
def gp_problems(draw, max_rows=7, max_pairs=9):
    return make_problem(
        draw(seeds),
        draw(st.integers(2, max_rows)),
        draw(st.integers(1, max_pairs)),
        scale=draw(st.sampled_from([0.3, 4.0, 100.0])),
        repeats=draw(st.booleans()),
        ties=draw(st.booleans()),
    )


def moments_of_pairs(mean, covariance, pairs):
    i, j = pairs.T
    spread = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    return mean[i] - mean[j], spread


@settings(max_examples=15)
@given(gp_problems())
def test_ep_agrees_with_dense_matrices(p):
    mean, covariance, evidence = dense_ep(p.K, p.pairs, p.counts, p.threshold)
    want = moments_of_pairs(mean, covariance, p.pairs)
    for form, large in product(FORMS, (2, 256)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inference, "_FEW_WEIGHTS", large)
            found = expectation_propagation(p.differences(form), p.counts, p.threshold, **TIGHT)
        assert found.converged
        assert_allclose((found.mean, found.variance), want, rtol=1e-4, atol=1e-5)
        assert found.log_evidence == pytest.approx(evidence, abs=1e-4)


@settings(max_examples=10)
@given(gp_problems())
def test_slopes_multiply_differences(p):
    slopes = np.random.default_rng(len(p.pairs)).uniform(0.3, 3.0, len(p.pairs))
    mean, covariance, evidence = dense_ep(p.K, p.pairs, p.counts, p.threshold, slopes=slopes)
    mean, spread = moments_of_pairs(mean, covariance, p.pairs)
    for form in FORMS:
        differences = replace(p.differences(form), slopes=slopes)
        found = expectation_propagation(differences, p.counts, p.threshold, **TIGHT)
        assert_allclose(found.mean, slopes * mean, rtol=1e-4, atol=1e-5)
        assert_allclose(found.variance, slopes**2 * spread, rtol=1e-4, atol=1e-5)
        assert found.log_evidence == pytest.approx(evidence, abs=1e-4)


@given(gp_problems(max_rows=12, max_pairs=40))
def test_both_weight_spaces_agree(p):
    one, two = (
        expectation_propagation(p.differences(form), p.counts, p.threshold, **TIGHT)
        for form in FORMS
    )
    assert_allclose(one.mean, two.mean, atol=1e-6)
    assert_allclose(one.variance, two.variance, rtol=1e-6)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-7)


@given(gp_problems())
def test_laplace_finds_the_mode(p):
    found = laplace(p.differences("rows"), p.counts, p.threshold, **TIGHT)
    root = np.linalg.cholesky(p.K)

    def loss(u):
        f = root @ u
        d = f[p.pairs[:, 0]] - f[p.pairs[:, 1]]
        fit = sum(
            float(log_likelihood(x, *c, p.threshold)) for x, c in zip(d, p.counts, strict=True)
        )
        return 0.5 * u @ u - fit

    best = minimize(loss, np.zeros(len(p.K)), method="BFGS", options={"gtol": 1e-7})
    f = root @ best.x
    assert_allclose(found.mean, f[p.pairs[:, 0]] - f[p.pairs[:, 1]], atol=1e-3)
    assert found.converged


@given(gp_problems(max_rows=10, max_pairs=25))
def test_the_gaussian_model_agrees_with_the_textbook(p):
    rng = np.random.default_rng(len(p.pairs))
    margin, weight = rng.standard_normal(len(p.pairs)), rng.integers(1, 4, len(p.pairs))
    noise, each = rng.uniform(0.5, 1.0, len(p.pairs)), np.repeat(np.arange(len(p.pairs)), weight)
    B = np.zeros((len(p.pairs), len(p.K)))
    B[np.arange(len(B)), p.pairs[:, 0]] = 1
    B[np.arange(len(B)), p.pairs[:, 1]] = -1
    G, D = B @ p.K @ B.T, np.diag(noise**2 / weight)
    for form in FORMS:
        found = gaussian(p.differences(form), margin, weight, noise)
        assert_allclose(found.mean, G @ np.linalg.solve(G + D, margin), atol=1e-8)
        want = G - G @ np.linalg.solve(G + D, G)
        assert_allclose(found.variance, np.diagonal(want), rtol=1e-6, atol=1e-9)
        S = G[np.ix_(each, each)] + np.diag(noise[each] ** 2)
        evidence = multivariate_normal(np.zeros(len(S)), S).logpdf(margin[each])
        assert found.log_evidence == pytest.approx(float(evidence), rel=1e-8)
        near = [
            gaussian(p.differences(form), margin, weight, noise * np.exp(s)).log_evidence
            for s in (1e-5, -1e-5)
        ]
        assert -precision_gradient(found, weight).sum() == pytest.approx(
            (near[0] - near[1]) / 2e-5, rel=1e-5, abs=1e-5
        )


@settings(max_examples=15)
@given(gp_problems(max_rows=10, max_pairs=25))
def test_gradients_agree_with_finite_differences(p):
    rng = np.random.default_rng(len(p.pairs))
    V = rng.standard_normal(p.K.shape)
    dK = p.K[0, 0] * V @ V.T / len(V)

    def at(step, infer, threshold=p.threshold):
        C = np.linalg.cholesky(p.K + step * dK)
        differences = Differences(C, *p.pairs.T.copy())
        return differences, infer(differences, p.counts, threshold, **TIGHT)

    for infer in (expectation_propagation, laplace):
        differences, found = at(0.0, infer)
        M = covariance_gradient(differences, found)
        steps = (1e-5, -1e-5, 2e-5, -2e-5)
        up, down, far_up, far_down = (at(step, infer)[1].log_evidence for step in steps)
        slope = (8 * (up - down) - (far_up - far_down)) / 12e-5
        assert (M * dK).sum() == pytest.approx(slope, rel=1e-5, abs=1e-6)
        assert_allclose(factor_gradient(differences, found), M @ differences.C, atol=1e-8)
        if p.threshold:
            (_, up), (_, down) = (at(0.0, infer, p.threshold + s) for s in (1e-5, -1e-5))
            slope = (up.log_evidence - down.log_evidence) / 2e-5
            assert found.threshold_slope == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_evidence_is_close_to_the_orthant_probability(seed):
    """The exact evidence of single wins is a normal orthant probability."""
    p = make_problem(seed, 5, 4, repeats=False, ties=False)
    found = expectation_propagation(p.differences("rows"), p.counts, **TIGHT)
    sign = p.counts[:, 0] - p.counts[:, 1]
    B = np.zeros((len(p.pairs), len(p.K)))
    B[np.arange(len(B)), p.pairs[:, 0]] = sign
    B[np.arange(len(B)), p.pairs[:, 1]] = -sign
    exact = multivariate_normal(cov=B @ p.K @ B.T + np.eye(len(B)), seed=0).cdf(np.zeros(len(B)))
    assert found.log_evidence == pytest.approx(np.log(exact), abs=0.04)


@pytest.mark.slow
def test_ep_is_close_to_slice_sampling_and_laplace_is_not():
    """Six problems; `reproduce/pairwise_gp` has the table for twelve, with longer runs."""
    off = {"ep": [], "laplace": []}
    for seed in range(6):
        p = make_problem(seed, 10 + seed, 25 + 3 * seed, scale=2.0 + 2 * (seed % 4), ties=False)
        differences = p.differences("rows")
        found = {}
        for name, infer in (("ep", expectation_propagation), ("laplace", laplace)):
            found[name] = p.posterior(infer(differences, p.counts).weights)
        mean, std = elliptical_slice(
            p.K, p.pairs, p.counts, reference=found["ep"], n_steps=10_000, seed=seed
        )
        for name, (f, covariance) in found.items():
            spread = np.sqrt(np.diagonal(covariance))
            off[name].append((np.mean(np.abs(f - mean) / std), np.mean(np.abs(spread / std - 1))))
    ep, laplaces = np.mean(off["ep"], axis=0), np.mean(off["laplace"], axis=0)
    assert (ep < 0.03).all()
    assert laplaces[0] > 2 * ep[0]


@given(gp_problems(max_rows=8, max_pairs=20))
def test_sites_are_proper_and_the_posterior_is_narrower_than_the_prior(p):
    found = expectation_propagation(p.differences("rows"), p.counts, p.threshold)
    assert (found.tau >= 0).all()
    assert (found.variance <= p.differences("rows").prior_variances * (1 + 1e-9)).all()


def test_starting_from_converged_sites_takes_no_sweep():
    p = make_problem(3, 12, 30)
    problem = p.differences("rows"), p.counts, p.threshold
    first = expectation_propagation(*problem)
    again = expectation_propagation(*problem, start=(first.tau, first.nu))
    assert first.n_sweeps > 2
    assert again.n_sweeps == 0
    assert again.log_evidence == pytest.approx(first.log_evidence, abs=1e-12)


def test_many_weights_take_few_sweeps():
    p = make_problem(0, 300, 900, repeats=False, ties=False)
    differences = p.differences("rows")
    assert differences.rank == 300
    found = expectation_propagation(differences, p.counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "_FEW_WEIGHTS", np.inf)
        want = expectation_propagation(differences, p.counts)
    assert found.n_sweeps < want.n_sweeps
    assert_allclose((found.mean, found.variance), (want.mean, want.variance), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("n_context", [0, 2])
def test_first_sites_in_single_precision_do_not_change_the_posterior(scale, n_context):
    p = make_problem(0, 60, 150)
    differences, found = p.differences("rows"), []
    differences = replace(differences, C=np.sqrt(scale) * differences.C)
    if n_context:
        Z = np.random.default_rng(0).standard_normal((150, n_context))
        differences = differences.in_context(Z)
    for few in (16, np.inf):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inference, "_FEW_WEIGHTS", few)
            a = expectation_propagation(differences, p.counts, p.threshold, **TIGHT)
        assert a.converged
        found.append(a)
    one, two = found
    assert_allclose((one.mean, one.variance), (two.mean, two.variance), rtol=1e-8)


def test_covariances_beyond_single_precision():
    p = make_problem(0, 60, 150)
    differences = p.differences("rows")
    differences = replace(differences, C=1e40 * differences.C)
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore", invalid="ignore"):
        patch.setattr(inference, "_FEW_WEIGHTS", 16)
        found = expectation_propagation(differences, p.counts, p.threshold, max_sweeps=5)
    assert np.isfinite(found.log_evidence)


def test_means_for_other_sites():
    p = make_problem(1, 20, 60)
    differences, rng = p.differences("rows"), np.random.default_rng(0)
    tau, nu = rng.uniform(0.1, 1.0, (2, len(differences)))
    weights = WeightPosterior.of(differences, tau, nu)
    tau, nu = tau * rng.uniform(0.9, 1.1, len(tau)), nu * rng.uniform(0.9, 1.1, len(tau))
    want = WeightPosterior.of(differences, tau, nu).mean
    found = weights.mean_for(differences, tau, nu)
    assert np.linalg.norm(found - want) < 0.1 * np.linalg.norm(weights.mean - want)


@pytest.mark.parametrize("infer", [expectation_propagation, laplace])
def test_too_few_sweeps_are_reported(infer):
    p = make_problem(0, 12, 40, scale=100.0)
    found = infer(p.differences("rows"), p.counts, p.threshold, max_sweeps=1)
    assert not found.converged
    assert found.residual > 1e-6
    assert np.isfinite(found.log_evidence)


def test_a_singular_covariance_has_few_weights():
    X = np.repeat(np.linspace(0, 1, 6), 5)[:, None]
    K = np.exp(-0.5 * (X - X.T) ** 2)
    C, order = pivoted_cholesky(K.copy())
    assert C.shape[1] <= 6
    assert_allclose(C @ C.T, K[np.ix_(order, order)], atol=1e-10)
    assert_allclose(C, np.tril(C))
    assert pivoted_cholesky(np.zeros((3, 3)))[0].shape == (3, 0)


def test_weights_without_sites_are_the_prior():
    p = make_problem(0, 5, 4)
    weights = WeightPosterior.of(p.differences("rows"), np.zeros(4), np.zeros(4))
    assert_allclose(weights.mean, 0.0)
    assert weights.log_det == 0.0


def test_repeated_pairs_are_counted_once():
    pairs = np.array([[4, 7], [7, 4], [2, 4], [4, 2], [4, 7]])
    outcome, weight = np.array([1.0, 1.0, 1.0, 0.0, -1.0]), np.array([1.0, 2.0, 1.0, 1.0, 0.5])
    comparisons = Comparisons(pairs, outcome, weight)
    counted = PairObservations.from_outcomes(comparisons, half_ties=False)
    assert counted.rows.tolist() == [4, 7, 2]
    assert counted.first.tolist() == [0, 0]
    assert counted.second.tolist() == [1, 2]
    assert counted.values.tolist() == [[1.0, 2.5, 0.0], [0.0, 1.0, 1.0]]
    halved = PairObservations.from_outcomes(comparisons, half_ties=True)
    assert halved.values.tolist() == [[1.0, 2.5, 0.0], [0.5, 1.5, 0.0]]


@given(comparisons(max_rows=8, max_pairs=20), st.integers(0, 20))
def test_further_comparisons_leave_the_order_of_pairs_and_rows(c, n_first):
    whole = Comparisons(c.pairs, np.ones(len(c.pairs)), c.weight)
    for make in (
        PairObservations.from_margins,
        lambda some: PairObservations.from_outcomes(some, half_ties=True),
    ):
        part, all_of_them = make(whole.take(slice(n_first))), make(whole)
        n = len(part)
        assert part.rows.tolist() == all_of_them.rows[: len(part.rows)].tolist()
        assert part.first.tolist() == all_of_them.first[:n].tolist()
        assert part.second.tolist() == all_of_them.second[:n].tolist()


@pytest.mark.parametrize(("n_rows", "n_pairs", "rank"), [(300, 500, 300), (350, 500, 290)])
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("slopes", [False, True])
def test_blocks_of_stairs_agree_with_dense_matrices(n_rows, n_pairs, rank, negative, slopes):
    """Sizes at which the last block is not full."""
    rng = np.random.default_rng(0)
    F = rng.standard_normal((n_rows, rank)) / np.sqrt(rank)
    K = F @ F.T
    first = rng.integers(0, n_rows, n_pairs)
    second = (first + rng.integers(1, n_rows, n_pairs)) % n_rows
    tau, nu = rng.uniform(0.1, 3.0, n_pairs), rng.standard_normal(n_pairs)
    if negative:
        tau[::9] = -0.02
    G = K[first] - K[second]
    G = G[:, first] - G[:, second]
    scale = rng.uniform(0.5, 2.0, n_pairs) if slopes else np.ones(n_pairs)
    G *= scale * scale[:, None]
    inner = np.linalg.inv(np.eye(n_pairs) + G * tau)
    want = inner @ G
    for build in (weights_of_rows, weights_of_pairs):
        differences = replace(build(K.copy(), first, second).differences, slopes=scale)
        assert differences.stairs == differences.rank > 256
        weights = WeightPosterior.of(differences, tau, nu)
        mean, variance = weights.moments(differences)
        assert_allclose(differences.prior_variances, np.diagonal(G), atol=1e-9)
        assert_allclose(variance, np.diagonal(want), atol=1e-8)
        assert_allclose(mean, want @ nu, atol=1e-8)
        assert weights.log_det == pytest.approx(np.linalg.slogdet(np.eye(n_pairs) + G * tau)[1])
        plain = WeightPosterior.of(replace(differences, stairs=0), tau, nu)
        assert_allclose(plain.mean, weights.mean, atol=1e-9)
        assert_allclose(np.tril(plain.root), np.tril(weights.root), atol=1e-9)


@given(gp_problems(), st.sampled_from(FORMS))
def test_squared_norms_of_few_and_of_many_differences(p, form):
    differences, found = p.differences(form), []
    for few in (0, 10**9):  # a compiled loop, or array expressions
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inference, "FEW_GAPS", few)
            found.append(differences.squared_norms(differences.C))
    assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-300)
