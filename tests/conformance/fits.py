"""Checks of fits and predictions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from rankwise import (
    KPCR,
    RLS,
    ComponentOptions,
    KPCRank,
    RankRLS,
    SparseRankRLS,
    SparseRLS,
    TwoSidedRankRLS,
)
from tests.conformance.checks import ALPHAS, CHECKS, MANY, Check, named, rows
from tests.conformance.places import Place


def fitted(estimator: Any, *, outputs: bool = False) -> Check:
    """Scores of training rows and new rows, and those of a path."""

    def check(place: Place) -> dict[str, Any]:
        X, y, qid = rows()
        if outputs:
            y = np.column_stack((y, np.sin(X[:, 0])))
        new, new_qid = X[::3] + 0.1, place.give(qid[::3])
        ranker = place.of(clone(estimator))
        ranker.fit(place.give(X), place.give(y), qid=place.give(qid))
        path = ranker.path(place.give(X), place.give(y), ALPHAS, qid=place.give(qid))
        return {
            "scores": ranker.predict(place.give(X), qid=place.give(qid)),
            "new": ranker.predict(place.give(new), qid=new_qid),
            "path": path.predict(place.give(new), qid=new_qid),
            "of path": path.estimator(1).predict(place.give(new), qid=new_qid),
            "intercept": getattr(ranker, "intercept_", 0.0),
        }

    return check


def wave(a: Any, b: Any) -> float:
    """A kernel function of two rows, in Python."""
    return float(np.exp(-0.1 * ((a - b) ** 2).sum()))


FITTED = {
    "RankRLS": RankRLS(1.0),
    "RankRLS, no ties": RankRLS(1.0, ties="exclude"),
    "RankRLS, weights of queries": RankRLS(1.0, ties="exclude", weighting="queries"),
    "RankRLS, linear dual": RankRLS(10.0, solver="dual"),
    "RankRLS, rbf": RankRLS(1.0, kernel="rbf"),
    "RankRLS, rbf, no ties": RankRLS(1.0, kernel="rbf", ties="exclude", weighting="rows"),
    "RankRLS, laplacian": RankRLS(1.0, kernel="laplacian"),
    "RankRLS, polynomial": RankRLS(1.0, kernel="polynomial", degree=2),
    "RankRLS, cosine": RankRLS(1.0, kernel="cosine"),
    "RankRLS, a scikit-learn kernel": RankRLS(1.0, kernel=RBF(2.0)),
    "RankRLS, standardized": RankRLS(1.0, scale="standard"),
    "RankRLS, standardized rbf": RankRLS(1.0, kernel="rbf", scale="standard", gamma="scale"),
    "RankRLS, monotone": RankRLS(1.0, monotone={0: 1, 1: -1, 2: 1}),
    "RankRLS, ranks": RankRLS(1.0, scale="query-ranks"),
    "RankRLS, standardized in queries": RankRLS(1.0, scale="query-standard", solver="dual"),
    "RLS": RLS(1.0),
    "RLS, standardized": RLS(1.0, scale="standard"),
    "RLS, rbf": RLS(1.0, kernel="rbf"),
    "SparseRankRLS": SparseRankRLS(1.0, n_landmarks=40, random_state=0),
    "SparseRankRLS, no ties": SparseRankRLS(1.0, n_landmarks=40, random_state=0, ties="exclude"),
    "SparseRankRLS, whitened": SparseRankRLS(n_landmarks=40, random_state=0, gamma=0.01, alpha=0.1),
    "SparseRankRLS, leverage": SparseRankRLS(
        1.0, n_landmarks=30, landmarks="leverage", random_state=0
    ),
    "SparseRankRLS, rpcholesky": SparseRankRLS(
        1.0, n_landmarks=30, landmarks="rpcholesky", random_state=0
    ),
    "SparseRankRLS, stratified": SparseRankRLS(
        1.0, n_landmarks=30, landmarks="stratified", random_state=0
    ),
    "SparseRLS": SparseRLS(1.0, n_landmarks=40, random_state=0),
}
for name, estimator in FITTED.items():
    CHECKS[name] = fitted(estimator)
for name in ("RankRLS", "RankRLS, no ties", "RankRLS, rbf", "RLS", "SparseRankRLS", "SparseRLS"):
    CHECKS[f"{name}, two outputs"] = fitted(FITTED[name], outputs=True)


@named
def defaults(place: Place) -> dict[str, Any]:
    """Alpha and scale are chosen, from all rows or, if there are many, from a sample."""
    sparse = {"n_landmarks": 40, "random_state": 0}
    few = RankRLS(kernel="rbf"), RankRLS(), RLS(kernel="rbf"), RLS(), SparseRLS(**sparse), KPCRank()
    many = RankRLS(), SparseRankRLS(**sparse)
    found = {}
    for m, estimators in ((240, few), (1300, many)):
        X, y, qid = (place.give(values) for values in rows(m))
        for estimator in estimators:
            ranker = place.of(estimator).fit(X, y, qid=qid)
            found[f"{type(ranker).__name__}, {ranker.kernel}, {m}"] = ranker.predict(X, qid=qid)
    return found


@named
def a_kernel_in_Python(place: Place) -> dict[str, Any]:
    X, y, qid = rows(60)
    ranker = place.of(RankRLS(1.0, kernel=wave, scale=None))
    ranker.fit(place.give(X), place.give(y), qid=place.give(qid))
    return {"scores": ranker.predict(place.give(X[:20]))}


@named
def float32_rows(place: Place) -> dict[str, Any]:
    X, y, qid = rows()
    X = X.astype(np.float32)
    given, labels, ids = place.give(X), place.give(y), place.give(qid)
    found = {}
    for name, estimator in (
        ("primal", RankRLS(1.0)),
        ("dual", RankRLS(1.0, kernel="rbf", scale=None)),
        ("sparse", SparseRankRLS(1.0, n_landmarks=30, random_state=0, scale=None)),
    ):
        ranker = place.of(estimator).fit(given, labels, qid=ids)
        scores = ranker.predict(given)
        assert "float32" in str(scores.dtype)
        found[name] = ranker.dual_coef_ if hasattr(ranker, "dual_coef_") else ranker.coef_
    return found


@named
def many_alphas(place: Place) -> dict[str, Any]:
    X, y, qid = rows()
    found = {}
    for name, estimator in (
        ("dual", RankRLS(1.0, kernel="rbf", scale=None)),
        ("sparse", SparseRankRLS(1.0, landmarks=np.arange(220), kernel="laplacian", scale=None)),
    ):
        path = place.of(estimator).path(place.give(X), place.give(y), MANY, qid=place.give(qid))
        found[name] = path.predict(place.give(X))
    return found


@named
def one_ranking(place: Place) -> dict[str, Any]:
    X, y, _ = rows()
    found = {}
    for ties in ("include", "exclude"):
        for name, estimator in (
            ("primal", RankRLS(1.0, ties=ties)),
            ("dual", RankRLS(1.0, kernel="rbf", ties=ties, scale=None)),
            ("sparse", SparseRankRLS(1.0, n_landmarks=30, random_state=0, ties=ties, scale=None)),
        ):
            ranker = place.of(estimator).fit(place.give(X), place.give(y))
            found[f"{name}, {ties}"] = ranker.predict(place.give(X))
    return found


@named
def queries_longer_than_a_block(place: Place) -> dict[str, Any]:
    """Queries longer than a block are combined from the means of their parts."""
    rng = np.random.default_rng(1)
    m = 2500
    X = rng.standard_normal((m, 3))
    y, qid = np.round(3 * X[:, 0] + rng.standard_normal(m)), (np.arange(m) % 40 == 0).astype(int)
    found = {}
    with small_blocks():
        for ties in ("include", "exclude"):
            sparse = SparseRankRLS(
                landmarks=np.arange(0, m, 25), kernel="laplacian", ties=ties, scale=None
            )
            ranker = place.of(sparse).fit(place.give(X), place.give(y), qid=place.give(qid))
            found[ties] = ranker.predict(place.give(X[:50]))
    return found


@contextmanager
def small_blocks() -> Iterator[None]:
    """The smallest blocks of rows: 256."""
    with ExitStack() as stack:
        stack.enter_context(patch("rankwise.solvers.ridge_path.BLOCK_BYTES", 1))
        if "rankwise.backends._torch" in sys.modules:
            stack.enter_context(patch("rankwise.backends._torch.DEVICE_BLOCK_BYTES", 1))
        yield


@named
def a_precomputed_kernel(place: Place) -> dict[str, Any]:
    X, y, qid = rows()
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    found = {}
    for name, estimator in (
        ("dual", RankRLS(1.0, kernel="precomputed")),
        ("sparse", SparseRankRLS(1.0, kernel="precomputed", landmarks=np.arange(0, 240, 6))),
    ):
        ranker = place.of(estimator).fit(place.give(K), place.give(y), qid=place.give(qid))
        found[name] = ranker.predict(place.give(K[:20]))
    return found


@named
def comparisons(place: Place) -> dict[str, Any]:
    X, y, _ = rows(80)
    rng = np.random.default_rng(2)
    found = {}
    for n_pairs in (60, 400):
        pairs = rng.integers(0, 80, (n_pairs, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        margin, weight = y[pairs[:, 0]] - y[pairs[:, 1]], rng.uniform(0.5, 2.0, len(pairs))
        for name, estimator in (
            ("primal", RankRLS(1.0)),
            ("dual", RankRLS(1.0, kernel="rbf", scale=None)),
            ("sparse", SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None)),
            ("components", KPCRank(5, scale=None)),
        ):
            ranker = place.of(estimator).fit_pairs(
                place.give(X),
                place.give(pairs),
                margin=place.give(margin),
                weight=place.give(weight),
            )
            found[f"{name}, {n_pairs} pairs"] = ranker.predict(place.give(X))
    return found


@named
def blocks_of_rows(place: Place) -> dict[str, Any]:
    X, y, _ = rows()
    qid = np.arange(240) // 8
    parts = [slice(start, start + 80) for start in (0, 80, 160)]
    blocks = [(place.give(X[p]), place.give(y[p]), place.give(qid[p])) for p in parts]
    found = {}
    for name, estimator in (
        ("pairwise", SparseRankRLS(1.0, n_landmarks=30, random_state=0, scale=None)),
        ("pointwise", SparseRLS(1.0, landmarks=np.arange(0, 240, 8), scale=None)),
        (
            "leverage",
            SparseRankRLS(1.0, n_landmarks=20, landmarks="leverage", random_state=0, scale=None),
        ),
        ("points", SparseRankRLS(1.0, landmarks=X[:25], ties="exclude", scale=None)),
    ):
        ranker = place.of(estimator).fit_blocks(blocks)
        found[name] = ranker.predict(place.give(X))
        path = place.of(clone(estimator)).path_blocks(blocks, ALPHAS)
        found[f"path, {name}"] = path.predict(place.give(X))
    step = place.of(SparseRankRLS(1.0, n_landmarks=30, random_state=0, scale=None))
    for block in blocks:
        step.partial_fit(block[0], block[1], qid=block[2])
    found["step by step"] = step.predict(place.give(X))
    return found


@named
def duplicates_and_constants(place: Place) -> dict[str, Any]:
    """Singular kernels give finite scores."""
    X, y, qid = rows()
    X = np.column_stack((X[np.arange(240) // 3], np.full(240, 7.0)))
    found = {}
    for name, estimator in (
        ("primal", RankRLS(1e-3)),
        ("dual", RankRLS(1.0, kernel="rbf", scale=None)),
        ("sparse", SparseRankRLS(1.0, n_landmarks=100, random_state=0, scale=None)),
    ):
        ranker = place.of(estimator).fit(place.give(X), place.give(y), qid=place.give(qid))
        found[name] = ranker.predict(place.give(X))
    return found


@named
def conjugate_gradients(place: Place) -> dict[str, Any]:
    """Dense tensors; NumPy's sparse rows, which are copied to the device."""
    X, y, qid = rows(n=12)
    X[abs(X - np.arange(12)) < 1.0] = 0.0
    is_tensor = place.give(y) is not y
    given, labels, ids = place.give(X) if is_tensor else sp.csr_array(X), place.give(y), qid
    pairs = np.array([(i, i + 1) for i in range(239) if y[i] > y[i + 1]])
    steps = {"solver": "cg", "tol": 1e-13, "scale": None}
    found = {}
    for ties in ("include", "exclude"):
        ranker = place.of(RankRLS(1.0, ties=ties, **steps)).fit(given, labels, qid=ids)
        found[ties] = ranker.predict(given)
        found[f"{ties}, path"] = ranker.path(given, labels, ALPHAS, qid=ids).predict(given)
    auto = place.of(RankRLS(**steps)).fit(given, labels, qid=ids)
    found["alpha"], found["chosen"] = auto.alpha_, auto.predict(given)
    found["pairs"] = place.of(RankRLS(1.0, **steps)).fit_pairs(given, pairs).predict(given)
    found["regression"] = place.of(RLS(1.0, **steps)).fit(given, labels).predict(given)
    return found


COMPONENTS = {
    "KPCRank": KPCRank(8, scale=None),
    "KPCRank, a ridge, no ties": KPCRank(8, alpha=0.1, ties="exclude", scale=None),
    "KPCRank, a share": KPCRank(0.8, kernel="polynomial", degree=2, scale=None),
    "KPCRank, all": KPCRank("auto", alpha=0.1, kernel="linear"),
    "KPCRank, spectral": KPCRank(
        4, alpha=0.1, kernel="linear", options=ComponentOptions(selection="spectral")
    ),
    "KPCRank, landmarks": KPCRank(8, n_landmarks=40, random_state=0, scale=None),
    "KPCRank, by folds": KPCRank(scale=None, options=ComponentOptions(cv=3, max_components=10)),
    "KPCRank, by queries": KPCRank(
        scale=None, options=ComponentOptions(cv="leave_query_out", max_components=10)
    ),
    "KPCR": KPCR(8, scale=None),
    "KPCR, by queries": KPCR(
        scale=None, options=ComponentOptions(cv="leave_query_out", max_components=10)
    ),
}
for name, estimator in COMPONENTS.items():
    CHECKS[name] = fitted(estimator)
CHECKS["KPCRank, two outputs"] = fitted(COMPONENTS["KPCRank"], outputs=True)
CHECKS["KPCR, two outputs"] = fitted(COMPONENTS["KPCR"], outputs=True)


@named
def components_of_rows(place: Place) -> dict[str, Any]:
    X, y, qid = rows()
    ranker = place.of(KPCRank(8, scale=None)).fit(place.give(X), place.give(y), qid=place.give(qid))
    one = place.of(
        KPCRank(
            scale=None, options=ComponentOptions(cv="leave_pair_out", max_components=6, rule="best")
        )
    )
    one.fit(place.give(X[:80]), place.give(y[:80]))
    return {
        "path": ranker.predict_path(place.give(X[:20])),
        "size": abs(ranker.transform(place.give(X[:20]))),  # signs are arbitrary
        "one ranking": one.predict(place.give(X)),
    }


@named
def few_of_many_components(place: Place) -> dict[str, Any]:
    """Enough rows to use the Lanczos method."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1600, 3))
    ranker = place.of(KPCRank(10, scale=None)).fit(place.give(X), place.give(np.sin(X[:, 0])))
    return {"scores": ranker.predict(place.give(X[:50])), "eigenvalues": ranker.eigenvalues_}


@named
def tables_with_two_sides(place: Place) -> dict[str, Any]:
    """Complete tables: scores and hold-outs. The ranker has no `device`: it takes tensors."""
    rng = np.random.default_rng(3)
    R, C = rng.standard_normal((20, 3)), rng.standard_normal((15, 4))
    Y = place.give(R @ rng.standard_normal((3, 4)) @ C.T + 0.1 * rng.standard_normal((20, 15)))
    given, found = (place.give(R), place.give(C)), {}
    for compare in ("columns", "rows", "all"):
        for kernel in ("linear", "rbf"):
            ranker = TwoSidedRankRLS(0.1, row_kernel=kernel, column_kernel="rbf", compare=compare)
            found[f"{compare}, {kernel}"] = ranker.fit(*given, Y).predict(given[0], given[1])
            for leave in ("rows", "columns", "both", "cells"):
                held = ranker.hold_out(*given, Y, leave=leave)
                found |= {
                    f"{compare}, {kernel}, {leave}, {k}": float(value)
                    for k, value in enumerate(held.predictions[0, ::7].ravel())
                }
    return found
