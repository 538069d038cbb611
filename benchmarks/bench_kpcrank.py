"""KPCRank: all numbers of components cost as much as one, without a full eigendecomposition."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from benchmarks.harness import Result, best_times, seconds
from rankwise import ComponentOptions, KPCRank, SparseRankRLS
from rankwise.kernels import NamedKernel
from rankwise.model_selection import component_errors
from rankwise.solvers.kpca import Count, kernel_components

PATH_ROWS, PATH_COMPONENTS = 2000, 200
EIGEN_ROWS, EIGEN_COMPONENTS = 4000, 100
ROWS, LANDMARKS, COMPONENTS = 100_000, 1000, 100
FEATURES, PER_QUERY = 50, 20
SEARCH_ROWS, SEARCH_COMPONENTS, SEARCH_ALPHAS = 16_000, 200, 20


def problem(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, FEATURES))
    return X, X[:, 0] + rng.standard_normal(n_rows), np.arange(n_rows) // PER_QUERY


def path() -> list[Result]:
    X, y, qid = problem(PATH_ROWS)
    new = problem(2 * PATH_ROWS)[0][PATH_ROWS:]
    ranker = KPCRank(PATH_COMPONENTS, scale=None)
    ranker.fit(X[:400], y[:400], qid=qid[:400])  # compile
    every, one = best_times(
        lambda: ranker.fit(X, y, qid=qid).predict_path(new),
        lambda: ranker.fit(X, y, qid=qid).predict(new),
    )
    return [
        Result(
            f"fit and predictions for all p up to {PATH_COMPONENTS}, {PATH_ROWS} rows",
            seconds(every),
            f"p = {PATH_COMPONENTS} alone: {seconds(one)}",
            every / one,
            1.5,
        )
    ]


def eigenvectors() -> list[Result]:
    X, y, qid = problem(EIGEN_ROWS)
    ranker = KPCRank(EIGEN_COMPONENTS, scale=None)
    K = NamedKernel("rbf", gamma=1 / FEATURES)(X)
    fit, components, full = best_times(
        lambda: ranker.fit(X, y, qid=qid),
        lambda: kernel_components(K.copy(), Count(EIGEN_COMPONENTS)),
        lambda: eigh(K, check_finite=False),
        repeats=2,
    )
    size = f"{EIGEN_ROWS} rows, p = {EIGEN_COMPONENTS}"
    peer = f"full eigh: {seconds(full)}"
    return [
        Result(f"KPCRank fit, {size}", seconds(fit), peer, fit / full, 0.5),
        Result(f"its components alone, {size}", seconds(components), peer, components / full, 0.5),
    ]


def landmarks() -> list[Result]:
    X, y, qid = problem(ROWS)
    rows = np.random.default_rng(1).choice(ROWS, LANDMARKS, replace=False)
    components = KPCRank(COMPONENTS, landmarks=rows, scale=None)
    sparse = SparseRankRLS(1.0, landmarks=rows, scale=None)
    ours, peer = best_times(
        lambda: components.fit(X, y, qid=qid), lambda: sparse.fit(X, y, qid=qid)
    )
    return [
        Result(
            f"KPCRank on landmarks, {ROWS:,} rows, r = {LANDMARKS}, p = {COMPONENTS}",
            seconds(ours),
            f"SparseRankRLS: {seconds(peer)}",
            ours / peer,
            1.7,
        )
    ]


def components_and_ridge() -> list[Result]:
    """The size of OHSUMED: 16,000 rows in 107 queries; components of all rows, or of landmarks."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((SEARCH_ROWS, FEATURES))
    y = np.digitize(X[:, 0] + rng.standard_normal(SEARCH_ROWS), [0.5, 1.5]).astype(float)
    qid = np.arange(SEARCH_ROWS) // 150
    alphas = np.concatenate(([0.0], np.geomspace(1e-3, 1e5, SEARCH_ALPHAS - 1)))
    chosen = rng.choice(SEARCH_ROWS, LANDMARKS, replace=False)
    results = []
    for name, rows, at_most in (("all rows", None, 5.0), (f"r = {LANDMARKS}", chosen, np.inf)):
        one = KPCRank(SEARCH_COMPONENTS, landmarks=rows, scale=None)
        every = KPCRank(
            landmarks=rows,
            scale=None,
            options=ComponentOptions(cv="leave_query_out", max_components=SEARCH_COMPONENTS),
        )
        ours, peer = best_times(
            lambda every=every: component_errors(every, X, y, qid=qid, alphas=alphas),
            lambda one=one: one.fit(X, y, qid=qid),
            repeats=1,
        )
        results.append(
            Result(
                f"all p up to {SEARCH_COMPONENTS} and {SEARCH_ALPHAS} alphas by leave-query-out, "
                f"{SEARCH_ROWS:,} rows, {name}",
                seconds(ours),
                f"a fit with p = {SEARCH_COMPONENTS}: {seconds(peer)}",
                ours / peer,
                at_most,
            )
        )
    return results


def cases() -> list[Result]:
    return [*path(), *landmarks(), *eigenvectors(), *components_and_ridge()]
