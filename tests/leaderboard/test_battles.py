"""Penalized likelihood of battles: derivatives, maxima, penalties, covariance."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse as sp
from scipy import stats

from rankwise.leaderboard import battle_likelihood
from rankwise.leaderboard.battle_likelihood import (
    DenseCurvature,
    GroupScores,
    Layout,
    Likelihood,
    by_evidence,
    by_held_out,
    maximize,
    spread,
    tally,
)
from rankwise.leaderboard.board_tables import range_quantile
from rankwise.leaderboard.curvature import Arrow
from tests.oracles.battles import battle_log_likelihood, dense_newton, evidence_penalty


def drawn(seed, n=5, n_battles=40, n_columns=1):
    """Battles with signal: first, second, outcome, weight, covariates, judge."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n, n_battles)
    second = (first + rng.integers(1, n, n_battles)) % n
    chance = 1 / (1 + np.exp(0.8 * (second - first)))
    outcome = np.where(rng.random(n_battles) < 0.25, 2, rng.random(n_battles) > chance)
    weight = rng.integers(1, 4, n_battles) / 2
    x = rng.integers(-1, 2, (n_battles, n_columns)).astype(float)
    return first, second, outcome.astype(np.intp), weight, x, rng.integers(0, 3, n_battles)


def singles(first, second, outcome, x):
    return list(zip(first, second, outcome, x, strict=True))


def as_array(matrix):
    """Dense second derivatives, from a dense or sparse matrix or an `Arrow`."""
    if isinstance(matrix, np.ndarray):
        return matrix
    if not isinstance(matrix, Arrow):
        return matrix.toarray()
    nc, found = len(matrix.C), np.diag(matrix.diagonal())
    found[:nc, :nc] = matrix.C
    for part in matrix.blocks:
        found[part.at[:, :, None], part.at[:, None]] = part.B
        X = part.X.toarray() if sp.issparse(part.X) else part.X.reshape(-1, nc)
        found[part.at.ravel(), :nc], found[:nc, part.at.ravel()] = X, X.T
    return found


def check_derivatives(likelihood, slow, at, *, bends=True):
    """The likelihood, its gradient and its second derivatives, beside differences of `slow`."""
    value, g, h = likelihood.expansion(at)
    assert_allclose([value, likelihood.value(at)], slow(at))
    steps = 1e-5 * np.eye(len(at))
    slope = [(slow(at + e) - slow(at - e)) / 2e-5 for e in steps]
    assert_allclose(likelihood.gather(at, g), slope, atol=1e-6)
    gradients = [
        [likelihood.gather(point, likelihood.expansion(point)[1]) for point in (at + e, at - e)]
        for e in steps
    ]
    bend = np.array([(up - down) / 2e-5 for up, down in gradients])
    dense = as_array(likelihood.gram(at, g, h, dense=10**6))
    if bends:
        assert_allclose(dense, -bend, atol=1e-5)
    assert_allclose(likelihood.gram(at, g, h, dense=0).toarray(), dense, atol=1e-10)


problems = st.tuples(st.integers(0, 10**6), st.booleans())


@given(problems)
def test_the_maximum_is_that_of_single_battles(problem):
    seed, ties = problem
    first, second, outcome, weight, x, _ = drawn(seed)
    counts, row = tally(first, second, outcome, weight, x)
    likelihood = Likelihood(counts, Layout.of(5, 1, ties=ties), "logit")
    want, _, scores = dense_newton(
        singles(first, second, outcome, x), weight, 5, 0.7, ties=ties, n_columns=1
    )
    for dense in (battle_likelihood.DENSE, 0):  # by Cholesky, by conjugate gradients
        mode = maximize(likelihood, {"items": 0.7}, dense=dense)
        assert mode.converged
        assert_allclose(mode.params, want, atol=1e-8)
    group = np.unique(np.arange(len(first)) // 3, return_inverse=True)[1]
    sums = np.array([scores[group == k].sum(axis=0) for k in range(group.max() + 1)])
    for groups, rows in ((None, scores), (group, sums)):
        found = GroupScores.of(likelihood, want, row, outcome, weight, groups)
        factor = len(rows) / (len(rows) - 1)
        M = found.gram(maximize(likelihood, {"items": 0.7}).curvature)
        assert_allclose(M, factor * rows.T @ rows, atol=1e-8)


@pytest.mark.parametrize("ties", [True, False])
def test_the_evidence_chooses_the_penalty_of_the_oracle(ties):
    first, second, outcome, weight, x, _ = drawn(0)
    likelihood = Likelihood(
        tally(first, second, outcome, weight, x)[0], Layout.of(5, 1, ties=ties), "logit"
    )
    battles = singles(first, second, outcome, x)
    want = evidence_penalty(battles, weight, 5, ties=ties, n_columns=1)
    mode = by_evidence(likelihood, {})
    assert_allclose(mode.penalties["items"], want, rtol=1e-7)
    assert_allclose(
        mode.params, dense_newton(battles, weight, 5, want, ties=ties, n_columns=1)[0], atol=1e-8
    )


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_derivatives_are_those_of_single_battles(link, ties):
    first, second, outcome, weight, x, _ = drawn(1)
    counts, _ = tally(first, second, outcome, weight, x)
    likelihood = Likelihood(counts, Layout.of(5, 1, ties=ties), link)
    at = 0.5 * np.random.default_rng(2).standard_normal(likelihood.layout.size)

    def slow(params):
        return sum(
            w * battle_log_likelihood(params, battle, 5, link, ties)
            for *battle, w in zip(first, second, outcome, x, weight, strict=True)
        )

    check_derivatives(likelihood, slow, at)
    assert by_evidence(likelihood, {}).converged


def test_draws_have_the_covariance_with_and_without_a_matrix():
    first, second, outcome, weight, x, _ = drawn(3)
    counts, row = tally(first, second, outcome, weight, x)
    likelihood = Likelihood(counts, Layout.of(5, 1, ties=True), "logit")
    found = []
    for dense in (battle_likelihood.DENSE, 0):
        mode = maximize(likelihood, {"items": 0.7}, dense=dense)
        scores = GroupScores.of(likelihood, mode.params, row, outcome, weight, None)
        found.append(spread(mode, scores, likelihood.layout.items, 4000, np.random.default_rng(0)))
        traces = mode.curvature.traces(likelihood.layout.groups)
        assert traces["items"] > 0
    want = found[0][0]
    assert found[1][0] is None
    for _, draws in found:
        # 4,000 draws: a standard error of about 0.02 of each variance
        assert_allclose(np.cov(draws.T), want, atol=0.12 * want.diagonal().max())


def test_tallies_do_not_depend_on_whether_columns_are_continuous():
    first, second, outcome, weight, _, _ = drawn(4, n_battles=200)
    x = np.random.default_rng(0).standard_normal((200, 1))
    own, row = tally(first, second, outcome, weight, x)
    assert len(own) == 200
    assert_allclose(own.counts.sum(axis=0), np.bincount(outcome, weights=weight))
    few, where = tally(first, second, outcome, weight, np.zeros((200, 0)))
    assert len(few) <= 20
    assert_allclose(few.first[where], first)
    assert_allclose(few.counts.sum(), weight.sum())
    assert row.tolist() == list(range(200))


def test_held_out_groups_choose_a_penalty_of_the_grid():
    first, second, outcome, weight, x, _ = drawn(5, n_battles=200)
    counts, row = tally(first, second, outcome, weight, x)
    likelihood = Likelihood(counts, Layout.of(5, 1, ties=True), "logit")
    group = np.arange(200) // 2

    def without(out):
        code = np.bincount(3 * row[out] + outcome[out], weight[out], 3 * len(counts))
        held = code.reshape(-1, 3)
        return likelihood.with_counts(counts.counts - held), likelihood.with_counts(held)

    mode = by_held_out(likelihood, without, group, np.random.default_rng(0))
    losses = []
    fold = np.random.default_rng(0).permutation(100) % 5
    for penalty in battle_likelihood.GRID:  # refits without each fold
        loss = 0.0
        for k in range(5):
            out = fold[group] == k
            parts = []
            for part in (~out, out):
                chosen, _ = tally(first[part], second[part], outcome[part], weight[part], x[part])
                parts.append(Likelihood(chosen, likelihood.layout, "logit"))
            loss -= parts[1].value(maximize(parts[0], {"items": penalty}).params)
        losses.append(loss)
    assert mode.penalties["items"] == battle_likelihood.GRID[int(np.argmin(losses))]


@pytest.mark.parametrize(("level", "n", "df"), [(0.95, 2, 5), (0.9, 20, 30), (0.95, 150, 10**6)])
def test_quantiles_of_the_range_are_those_of_scipy(level, n, df):
    want = stats.studentized_range.ppf(level, n, df)
    assert_allclose(range_quantile(level, n, df), want, rtol=1e-4)


def test_ratings_of_choix():
    choix = pytest.importorskip("choix")
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, 120)
    second = (first + rng.integers(1, 6, 120)) % 6
    wins = [(a, b) if rng.random() < 0.6 else (b, a) for a, b in zip(first, second, strict=True)]
    winner, loser = np.array(wins).T
    counts, _ = tally(winner, loser, np.zeros(120, dtype=int), np.ones(120), np.zeros((120, 0)))
    found = maximize(Likelihood(counts, Layout.of(6, 0), "logit"), {"items": 0.0}).params
    want = choix.ilsr_pairwise(6, wins, max_iter=1000, tol=1e-12)
    assert_allclose(found - found.mean(), want - want.mean(), atol=1e-8)


def test_two_kinds_of_groups_may_have_less_variance_than_what_they_share():
    wide, shared = (sp.csr_array(np.array(rows)) for rows in ([[0.1, 1.0]] * 2, [[2.0, 0.0]] * 2))
    one = GroupScores(wide, 2)
    both = replace(one, other=one, shared=GroupScores(shared, 2))
    found = both.gram(DenseCurvature.of(np.eye(2)))  # of -15.96 and 8, with 0.8 beside them
    assert_allclose(found, [[0.02, 0.402], [0.402, 8.01]], atol=1e-3)
