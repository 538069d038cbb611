"""Problems at the edges of floating point, against 120 digits."""

import warnings
from functools import cache

import mpmath
import numpy as np
import pytest

from rankwise import RLS, RankRLS, SparseRankRLS
from rankwise.errors import RankwiseError

rng = np.random.default_rng(0)
X = rng.standard_normal((7, 3)).round(3)
Y = (X @ [2.0, -1.0, 0.5] + 0.3 * rng.standard_normal(7)).round(3)
INTEGERS = np.abs(8 * X).round()

PROBLEMS = {
    "plain": (X, Y),
    "duplicates": (X[[0, 0, 0, 1, 2, 2, 3]], Y),
    "a constant feature": (np.column_stack((X[:, :2], np.full(7, 3.0))), Y),
    "rank one": (np.outer(X[:, 0], [1.0, -2.0, 0.25]), Y),
    "far from zero": (X + 1e8, Y),
    "one feature far from zero": (X + np.array([0.0, 1e8, 0.0]), Y),
    "features of 1e150": (1e150 * X, Y),
    "features of 1e-150": (1e-150 * X, Y),
    "subnormal features": (1e-310 * X, Y),
    "features on different scales": (X * [1e-2, 1.0, 1e2], Y),
    "labels of 1e150": (X, 1e150 * Y),
    "labels of 1e-150": (X, 1e-150 * Y),
    "labels far from zero": (X, Y + 1e9),
    "few different labels": (X, np.sign(Y)),
    **{f"{t} features": (X.astype(t), Y) for t in ("float16", "float32")},
    **{
        f"{t} features": (INTEGERS.astype(t), Y)
        for t in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
    },
    "int8 labels": (X, (20 * Y).round().astype("int8")),
    "uint64 labels": (X, np.abs(20 * Y).round().astype("uint64")),
}
LEAST = 1e-300  # so small that 120 digits do not suffice
ALPHAS = (0.0, LEAST, 1e-9, 1.0, 1e9, 1e300)
RANKERS = {
    "primal": lambda alpha: RankRLS(alpha, solver="primal", scale=None),
    "dual": lambda alpha: RankRLS(alpha, solver="dual", scale=None),
    "rbf": lambda alpha: RankRLS(alpha, kernel="rbf", gamma=0.5, scale=None),
    "regression": lambda alpha: RLS(alpha, scale=None),
    "landmarks": lambda alpha: SparseRankRLS(
        alpha, kernel="linear", landmarks=np.arange(7), scale=None
    ),
}
BEYOND = {
    # Kernel values of 1e16 have no digits left for differences of 1.
    ("far from zero", "landmarks"),
    ("one feature far from zero", "landmarks"),
    # The distance of a row to itself is a difference of numbers of 1e300.
    ("features of 1e150", "rbf"),
}
"""Known limits: scores are finite, and not compared."""

TOLERANCES = {"dual": 1e-4}  # of the largest label, from their mean; 1e-5 for others


@cache
def precise_scores(problem, alpha, *, rbf):
    """Scores less their mean: (C K + alpha I) a = C y, where C subtracts means."""
    X, y = PROBLEMS[problem]
    with mpmath.workdps(120):
        rows = [[mpmath.mpf(float(x)) for x in row] for row in X]
        n, mean = len(rows), [mpmath.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        rows = [[x - m for x, m in zip(row, mean, strict=True)] for row in rows]

        def kernel(p, q):
            if rbf:
                return mpmath.exp(-mpmath.fsum((a - b) ** 2 for a, b in zip(p, q, strict=True)) / 2)
            return mpmath.fsum(a * b for a, b in zip(p, q, strict=True))

        K = mpmath.matrix([[kernel(p, q) for q in rows] for p in rows])
        size = max(abs(K[i, i]) for i in range(n))
        lam = max(mpmath.mpf(alpha), size * mpmath.mpf(10) ** -60)  # the limit of small ones
        C = mpmath.eye(n) - mpmath.ones(n, n) / n
        labels = mpmath.matrix([mpmath.mpf(float(label)) for label in y])
        scores = K * mpmath.lu_solve(C * K + lam * mpmath.eye(n), C * labels)
        centre = mpmath.fsum(scores) / n
        return np.array([float(score - centre) for score in scores])


@pytest.mark.slow
@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_scores_are_right_or_refused(problem, name):
    X, y = PROBLEMS[problem]
    given = X.copy(), y.copy()
    size = np.abs(y - np.mean(y, dtype=np.float64)).max()
    for alpha in ALPHAS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                scores = RANKERS[name](alpha).fit(X, y).predict(X)
            except RankwiseError:
                continue
        assert np.isfinite(scores).all()
        if alpha == LEAST or (problem, name) in BEYOND:
            continue
        want = precise_scores(problem, alpha, rbf=name == "rbf")
        error = np.abs(scores - scores.mean() - want).max() / size
        assert error <= TOLERANCES.get(name, 1e-5), f"alpha {alpha:g}: {error:.1e}"
    np.testing.assert_array_equal(X, given[0])
    np.testing.assert_array_equal(y, given[1])
