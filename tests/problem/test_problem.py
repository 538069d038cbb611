"""All combinations of losses, spaces and systems, compared with the papers' objective."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwise.kernels import NamedKernel
from rankwise.problem import (
    BlockSums,
    FeatureSpace,
    FeatureSystem,
    KernelSpace,
    LandmarkSpace,
    LandmarkSystem,
    PairLoss,
    Problem,
    RampSpace,
    RowLoss,
)
from rankwise.problem.landmarks import LandmarkChoice
from tests.oracles.laplacian import pair_weights
from tests.oracles.objective import minimize_linear, minimize_regression
from tests.strategies import problems, ties, weightings

LINEAR = NamedKernel("linear")
ALPHAS = [0.5, 20.0]


def scores(problem, X):
    """Predictions for each alpha."""
    fit = problem.solve(ALPHAS)
    return [fit.basis.products(X, s.weights) + s.intercept for s in fit.solutions]


def landmark_space(X):
    return LandmarkSpace(LINEAR, LandmarkChoice.of(X, None))


@given(problems(max_rows=10, max_features=3, min_pairs=1), ties, weightings)
def test_linear_functions_minimize_the_pairwise_objective(p, ties, weighting):
    loss = PairLoss(ties, weighting)
    W = pair_weights(p.y, p.qid, ties, weighting)
    found = scores(Problem(p.X, loss.tasks(p.y, p.qid), loss, FeatureSpace(), p.qid), p.X)
    for f, alpha in zip(found, ALPHAS, strict=True):
        assert_allclose(f, p.X @ minimize_linear(p.X, p.y, W, alpha), atol=1e-5)


@given(problems(max_rows=12, max_features=3, min_pairs=1))
def test_linear_functions_minimize_the_regression_objective(p):
    loss = RowLoss()
    found = scores(Problem(p.X, loss.tasks(p.y, None), loss, FeatureSpace()), p.X)
    for f, alpha in zip(found, ALPHAS, strict=True):
        w, intercept = minimize_regression(p.X, p.y, alpha)
        assert_allclose(f, p.X @ w + intercept, atol=1e-5)


@given(problems(min_pairs=1), st.sampled_from([PairLoss(), PairLoss("exclude"), RowLoss()]))
def test_all_spaces_of_linear_functions_agree(p, loss):
    tasks = loss.tasks(p.y, p.qid)
    want = scores(Problem(p.X, tasks, loss, FeatureSpace("primal"), p.qid), p.X)
    for space in (FeatureSpace("dual"), KernelSpace(LINEAR), landmark_space(p.X)):
        assert_allclose(scores(Problem(p.X, tasks, loss, space, p.qid), p.X), want, atol=1e-7)


@pytest.mark.parametrize("loss", [PairLoss(), PairLoss("exclude", "queries"), RowLoss()])
@pytest.mark.parametrize("landmarks", [True, False])
def test_moments_of_blocks_add_up(loss, landmarks):
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((60, 4)), rng.integers(0, 3, 60), np.arange(60) // 6
    y = y.astype(float)
    space = landmark_space(X[:20]) if landmarks else FeatureSpace("primal")
    want = scores(Problem(X, loss.tasks(y, qid), loss, space, qid), X)
    system = space.system(X, qid) if landmarks else FeatureSystem(4)
    sums = []
    for block in (slice(0, 24), slice(24, 60)):
        tasks = loss.tasks(y[block], qid[block])
        sums.append([system.moments(X[block], task, loss) for task in tasks])
    solutions = system.solve([a + b for a, b in zip(*sums, strict=True)], ALPHAS)
    found = [system.basis.products(X, s.weights) + s.intercept for s in solutions]
    assert_allclose(found, want, atol=1e-9)


def test_block_sums_count_rows_queries_and_pairs():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((12, 2)), np.arange(12.0), np.arange(12) // 4
    loss, system = PairLoss(), landmark_space(X[:3]).system(X, qid)
    assert isinstance(system, LandmarkSystem)
    sums = BlockSums.of(system, loss, X[:4], y[:4], qid[:4])
    sums = sums.with_block(loss, X[4:], y[4:], qid[4:])
    assert (sums.n_rows, sums.n_queries, sums.n_pairs) == (12, 3, [18])


def test_value_objects_with_arrays_compare_by_identity():
    loss, X, y = PairLoss(), np.eye(3), np.arange(3.0)
    problem = Problem(X, loss.tasks(y, None), loss, FeatureSpace())
    fit = problem.solve([1.0])
    for value in (problem, problem.tasks[0], fit, fit.solutions[0]):
        assert value == value
        assert len({value}) == 1


@pytest.mark.parametrize("loss", [PairLoss(), PairLoss("exclude"), RowLoss()])
@pytest.mark.parametrize(
    "space",
    [
        FeatureSpace(),
        RampSpace(3),
        LandmarkSpace(NamedKernel("rbf", gamma=0.3), LandmarkChoice.of([0, 5, 9, 20], None)),
        LandmarkSpace(NamedKernel("rbf", gamma=1e-5), LandmarkChoice.of([0, 5, 9, 20], None)),
    ],
    ids=["features", "ramps", "landmarks", "similar landmarks"],
)
def test_moments_of_the_coordinates_give_the_same_solutions(space, loss):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 3, (60, 2)).astype(float)
    tasks = loss.tasks(y, np.arange(60) // 6)
    new, seen = (Problem(X, tasks, loss, space).settled() for _ in range(2))
    assert seen.coordinate_moments() is seen.coordinate_moments()  # summed once
    want, found = new.solve(ALPHAS), seen.solve(ALPHAS)
    assert type(found.basis) is type(want.basis)
    assert_allclose(scores(seen, X), scores(new, X), rtol=1e-8, atol=1e-8)
    again = seen.solve(ALPHAS)  # the moments are not overwritten
    for one, other in zip(found.solutions, again.solutions, strict=True):
        assert_array_equal(one.weights, other.weights)


def test_kernels_and_signed_weights_have_no_moments_of_coordinates():
    X, y, loss = np.arange(12.0).reshape(6, 2), np.arange(6.0), PairLoss()
    for space in (KernelSpace(NamedKernel("rbf", gamma=1.0)), FeatureSpace(signs=(1, 0))):
        assert Problem(X, loss.tasks(y, None), loss, space).coordinate_moments() is None
