"""Many sparse features: RankRLS costs as much as ridge regression by conjugate gradients."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import RankRLS, RankSVM

ROWS, FEATURES, PER_ROW, PER_QUERY = 500_000, 500_000, 50, 20
ALPHA, TOL = 1.0, 1e-6  # some 50 steps
SMALLER_ROWS, SMALLER_FEATURES = 60_000, 100_000
DIRECT_ROWS, DIRECT_FEATURES = 3000, 1500


def problem(n_rows: int, n_features: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows with random features, and graded labels of a linear function with noise."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, n_features, (n_rows, PER_ROW), dtype=np.int32), axis=1)
    values = rng.uniform(0.5, 1.5, n_rows * PER_ROW)
    ends = np.arange(0, n_rows * PER_ROW + 1, PER_ROW, dtype=np.int32)
    X = sp.csr_array((values, columns.ravel(), ends), shape=(n_rows, n_features))
    X.sum_duplicates()
    y = X @ rng.standard_normal(n_features) + 3.0 * rng.standard_normal(n_rows)
    return X, np.round(y / 5).clip(-2, 2) + 2, np.arange(n_rows) // PER_QUERY


def large_problem() -> tuple[Any, np.ndarray, np.ndarray]:
    X, y, qid = problem(ROWS, FEATURES)
    RankRLS(ALPHA, solver="cg", max_iter=50).fit(X[:2000], y[:2000], qid=qid[:2000])  # compile
    return X, y, qid


def fit_large(state: Any) -> None:
    X, y, qid = state
    RankRLS(ALPHA, tol=TOL).fit(X, y, qid=qid)


def large() -> list[Result]:
    X, y, qid = large_problem()
    ranker, ridge = (
        RankRLS(ALPHA, tol=TOL),
        Ridge(ALPHA, solver="sparse_cg", fit_intercept=False, tol=TOL),
    )
    alphas = np.geomspace(ALPHA, 1e3 * ALPHA, 10)
    ours, path, theirs = best_times(
        lambda: ranker.fit(X, y, qid=qid),
        lambda: ranker.path(X, y, alphas, qid=qid),
        lambda: ridge.fit(X, y),
        repeats=2,
    )
    size = f"{ROWS:,} x {FEATURES:,}, {PER_ROW} values a row"
    return [
        Result(
            f"RankRLS by conjugate gradients, {size}, residual {TOL:g}",
            f"{seconds(ours)}, {ranker.n_iter_} steps",
            f"Ridge(solver='sparse_cg') {seconds(theirs)}",
            ours / theirs,
            1.3,
        ),
        Result(
            f"ten alphas, {size}", seconds(path), f"one alpha {seconds(ours)}", path / ours, 1.6
        ),
    ]


def memory() -> Result:
    extra, vectors = extra_memory(large_problem, fit_large), 8 * (ROWS + FEATURES)
    return Result(
        f"extra memory, {ROWS:,} x {FEATURES:,}",
        megabytes(extra),
        f"a vector of rows and one of features: {megabytes(vectors)}",
        extra / vectors,
        12.0,
    )


def smaller() -> Result:
    X, y, qid = problem(SMALLER_ROWS, SMALLER_FEATURES)
    some = slice(0, 2000)
    for ranker in (RankRLS(ALPHA), RankSVM(ALPHA)):
        ranker.fit(X[some], y[some], qid=qid[some])  # compile
    svm, rls = best_times(
        lambda: RankSVM(ALPHA).fit(X, y, qid=qid), lambda: RankRLS(ALPHA).fit(X, y, qid=qid)
    )
    return Result(
        f"RankSVM, {SMALLER_ROWS:,} x {SMALLER_FEATURES:,}",
        seconds(svm),
        f"RankRLS {seconds(rls)}",
        svm / rls,
        5.0,
    )


def choice_of_alpha() -> Result:
    X, y, qid = problem(SMALLER_ROWS, SMALLER_FEATURES)
    RankRLS(solver="cg").fit(X[:2000], y[:2000], qid=qid[:2000])  # compile
    start = time.perf_counter()
    ranker = RankRLS().fit(X, y, qid=qid)
    chosen = time.perf_counter() - start
    (fixed,) = best_times(lambda: RankRLS(ranker.alpha_).fit(X, y, qid=qid), repeats=2)
    return Result(
        f'alpha="auto" by folds of queries, {SMALLER_ROWS:,} x {SMALLER_FEATURES:,}',
        seconds(chosen),
        f"its alpha given {seconds(fixed)}",
        chosen / fixed,
        12.0,
    )


def agreement() -> Result:
    X, y, qid = problem(DIRECT_ROWS, DIRECT_FEATURES)
    steps = RankRLS(ALPHA, solver="cg", tol=1e-10).fit(X, y, qid=qid).coef_
    direct = RankRLS(ALPHA, solver="primal").fit(X, y, qid=qid).coef_
    gap = float(np.linalg.norm(steps - direct) / np.linalg.norm(direct))
    return Result(
        f"weights at tol=1e-10, {DIRECT_ROWS:,} x {DIRECT_FEATURES:,}",
        f"differ by {gap:.1e}",
        "direct form",
        gap,
        1e-6,
    )


def cases() -> list[Result]:
    return [agreement(), smaller(), choice_of_alpha(), *large(), memory()]
