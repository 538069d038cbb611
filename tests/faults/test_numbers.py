"""Rankers at the edges of floating point: right to 120 digits, or refused in words."""

import warnings
from functools import cache

import numpy as np
import pytest

from rankwise import RLS, RankRLS, SparseRankRLS
from rankwise.errors import RankwiseError
from tests.faults.problems import ALPHAS, LEAST, PROBLEMS
from tests.oracles.precise import PreciseRanker, centred

GAMMA = 0.5
RANKERS = {
    "primal": lambda alpha: RankRLS(alpha, solver="primal", scale=None),
    "dual": lambda alpha: RankRLS(alpha, solver="dual", scale=None),
    "rbf": lambda alpha: RankRLS(alpha, kernel="rbf", gamma=GAMMA, scale=None),
    "regression": lambda alpha: RLS(alpha, scale=None),
    "landmarks": lambda alpha: SparseRankRLS(
        alpha, kernel="linear", landmarks=np.arange(7), scale=None
    ),
}
TOLERANCES = {"dual": 1e-4}  # of the largest label, from their mean; 1e-5 for others


@cache
def precise(problem, *, rbf):
    return PreciseRanker(*PROBLEMS[problem], gamma=GAMMA if rbf else None)


@cache
def precise_scores(problem, alpha, *, rbf):
    """Scores less their mean."""
    return centred(precise(problem, rbf=rbf).scores(range(7), range(7), alpha))


def check(problem, name, alphas=ALPHAS):
    X, y = PROBLEMS[problem]
    size = np.abs(y - np.mean(y, dtype=np.float64)).max()
    for alpha in alphas:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                scores = RANKERS[name](alpha).fit(X, y).predict(X)
            except RankwiseError:
                continue
        assert np.isfinite(scores).all()
        if alpha == LEAST:
            continue
        if any("which it hardly distinguishes" in str(w.message) for w in caught):
            assert np.ptp(scores) <= 1e-5 * size  # all kernel values are 1 in double precision
            continue
        want = precise_scores(problem, alpha, rbf=name == "rbf")
        error = np.abs(scores - scores.mean() - want).max() / size
        assert error <= TOLERANCES.get(name, 1e-5), f"alpha {alpha:g}: {error:.1e}"


@pytest.mark.slow
@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_scores_are_right_or_refused(problem, name):
    check(problem, name)


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        ("far from zero", "primal"),
        ("one feature far from zero", "dual"),
        ("features of 1e150", "rbf"),
        ("labels of 1e150", "landmarks"),
        ("subnormal features", "regression"),
    ],
)
def test_some_of_these(problem, name):
    check(problem, name, (0.0, 1.0))
