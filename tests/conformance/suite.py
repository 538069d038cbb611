"""Checks that every ranker gives the same results in all places.

A check computes named results from arrays in a place. The same check with NumPy is the reference:
results agree to `TOLERANCE`, relative to the largest entry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from rankwise import KPCR, RLS, KPCRank, RankingSearchCV, RankRLS, SparseRankRLS, SparseRLS
from rankwise.model_selection import (
    k_fold,
    leave_comparison_out,
    leave_item_out,
    leave_one_out,
    leave_pair_out,
    leave_query_out,
    permutation_test,
    tournament_scores,
)
from tests.conformance.places import NUMPY, Place, to_numpy

TOLERANCE = 1e-9
ALPHAS = np.geomspace(1e-2, 1e2, 3)
MANY = np.geomspace(1e-2, 1e2, 45)  # enough to share a reduction on all devices

Check = Callable[[Place], dict[str, Any]]
CHECKS: dict[str, Check] = {}


def rows(m: int = 240, n: int = 5) -> tuple[Any, Any, Any]:
    """Unsorted rows of queries of different sizes, with ties in the labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n)) + np.arange(n)
    qid = rng.integers(0, 15, m) ** 2
    y = np.round(X @ rng.standard_normal(n) + 0.3 * rng.standard_normal(m))
    return X, y, qid


def fitted(estimator: Any, *, outputs: bool = False) -> Check:
    """Scores of training rows and new rows, and those of a path."""

    def check(place: Place) -> dict[str, Any]:
        X, y, qid = rows()
        if outputs:
            y = np.column_stack((y, np.sin(X[:, 0])))
        new, new_qid = X[::3] + 0.1, place.give(qid[::3])
        ranker = place.of(clone_of(estimator))
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


def clone_of(estimator: Any) -> Any:
    from sklearn.base import clone

    return clone(estimator)


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


def named(check: Check) -> Check:
    CHECKS[check.__name__.replace("_", " ")] = check
    return check


@named
def query_weights(place: Place) -> dict[str, Any]:
    X, y, qid = rows()
    given, weight = (place.give(X), place.give(y)), place.give(1.0 + qid % 3)
    queries = {"qid": place.give(qid), "query_weight": weight}
    ranker = place.of(RankRLS(1.0, ties="exclude"))
    pairs = leave_pair_out(ranker, *given, **queries, return_differences=True)
    return {
        "scores": ranker.fit(*given, **queries).predict(place.give(X)),
        "queries": leave_query_out(ranker, *given, **queries).predictions,
        "pairs": pairs.differences,
    }


@named
def row_weights(place: Place) -> dict[str, Any]:
    X, y, qid = rows()
    given, ids = (place.give(X), place.give(y)), place.give(qid)
    weight = np.arange(len(y)) % 4 / 2.0  # some of them 0
    found: dict[str, Any] = {}
    for name in (
        "RankRLS, no ties",
        "RankRLS, rbf",
        "RLS, standardized",
        "SparseRankRLS",
        "SparseRLS",
    ):
        ranker = place.of(FITTED[name]).fit(*given, qid=ids, sample_weight=place.give(weight))
        found[name] = ranker.predict(place.give(X), qid=ids)
    for kernel in ("linear", "rbf"):
        ranker = place.of(RankRLS(1.0, kernel=kernel, gamma=0.1))
        held = leave_query_out(ranker, *given, qid=ids, sample_weight=place.give(weight + 0.5))
        found[f"queries, {kernel}"] = held.predictions
    return found


@named
def permutations(place: Place) -> dict[str, Any]:
    X, y, _ = rows(40)
    given, found = (place.give(X), place.give((y > np.median(y)).astype(float))), {}
    for ties in ("include", "exclude"):
        ranker = place.of(RankRLS(1.0, kernel="rbf", gamma=0.1, ties=ties))
        test = permutation_test(
            ranker, *given, strata=np.arange(40) % 2, n_permutations=5, random_state=0
        )
        found |= {f"{ties}, {k}": float(value) for k, value in enumerate(test.null)}
        found[ties] = test.score
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
        stack.enter_context(patch("rankwise.solvers.moments.BLOCK_BYTES", 1))
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
def held_out_comparisons(place: Place) -> dict[str, Any]:
    X, y, _ = rows(60)
    rng = np.random.default_rng(3)
    first = rng.integers(0, 60, 90)
    pairs = np.column_stack((first, (first + rng.integers(1, 60, 90)) % 60))
    given = {
        "margin": place.give(np.sign(y[pairs[:, 0]] - y[pairs[:, 1]])),
        "groups": place.give(rng.integers(0, 12, 90)),
        "context": place.give(rng.standard_normal((90, 2))),
    }
    found: dict[str, Any] = {}
    for name, estimator in (
        ("primal", RankRLS(1.0, scale=None)),
        ("dual", RankRLS(1.0, kernel="rbf", gamma=0.1)),
        ("sparse", SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None)),
    ):
        ranker, rows_ = place.of(estimator), place.give(X)
        path = ranker.path_pairs(rows_, place.give(pairs), ALPHAS, **given)
        found[f"{name}, path"] = path.predict(rows_)
        found[f"{name}, context"] = place.give(path.estimator(1).context_coef_)
        held_out = leave_comparison_out(ranker, rows_, place.give(pairs), alphas=ALPHAS, **given)
        found[f"{name}, groups"] = place.give(held_out.differences)
        items = leave_item_out(ranker, rows_, place.give(pairs), alphas=ALPHAS, **given)
        found[f"{name}, items"] = place.give(items.differences)
        fitted = ranker.fit_pairs(rows_, place.give(pairs), **given)
        chances = {"context": given["context"][:30]}
        if fitted.preference_slope_ is not None:
            found[f"{name}, chances"] = fitted.predict_preference(rows_[:30], rows_[30:], **chances)
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
        path = place.of(clone_of(estimator)).path_blocks(blocks, ALPHAS)
        found[f"path, {name}"] = path.predict(place.give(X))
    step = place.of(SparseRankRLS(1.0, n_landmarks=30, random_state=0, scale=None))
    for block in blocks:
        step.partial_fit(block[0], block[1], qid=block[2])
    found["step by step"] = step.predict(place.give(X))
    return found


@named
def chosen_alphas(place: Place) -> dict[str, Any]:
    """alpha="auto": every kind of hold-out, with all rows and with a sample."""
    X, y, qid = rows(90, 4)
    pairs = np.column_stack((np.arange(80), np.arange(80) + 7))
    given, labels, ids = place.give(X), place.give(y), place.give(qid)
    limits = {"SECONDS": 0.0, "FLOPS": 1e30, "STORED": 0, "KERNEL_ROWS": 10}
    found = {}
    for size in ("small", "large"):
        for name, estimator in (
            ("primal", RankRLS()),
            ("dual, no ties", RankRLS(kernel="rbf", ties="exclude", scale=None)),
            ("regression", RLS()),
            ("dual regression", RLS(kernel="rbf", scale=None)),
            ("sparse", SparseRankRLS(landmarks=np.arange(0, 90, 5), scale=None)),
        ):
            with ExitStack() as stack:
                for limit, value in limits.items() if size == "large" else ():
                    stack.enter_context(patch(f"rankwise.holdout.choice_budget.{limit}", value))
                ranker = place.of(estimator)
                curves = [ranker.fit(given, labels, qid=ids).alpha_curve_]
                curves.append(ranker.fit(given, labels).alpha_curve_)
                if hasattr(ranker, "fit_pairs"):
                    curves.append(ranker.fit_pairs(given, place.give(pairs)).alpha_curve_)
                if isinstance(ranker, SparseRankRLS):
                    curves.append(ranker.fit_blocks([(given, labels, ids)]).alpha_curve_)
            for k, curve in enumerate(curves):
                # A squared error of comparisons without regularization is badly conditioned.
                clear = curve.alphas > 1e-4 * curve.alphas.max()
                kept = clear if curve.metric == "squared_error" else slice(None)
                found[f"{name}, {size}, {k}"] = place.give(curve.score[kept])
                found[f"{name}, {size}, {k}, alphas"] = place.give(curve.alphas)
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
    "KPCRank, spectral": KPCRank(4, alpha=0.1, kernel="linear", selection="spectral"),
    "KPCRank, landmarks": KPCRank(8, n_landmarks=40, random_state=0, scale=None),
    "KPCRank, by folds": KPCRank(cv=3, max_components=10, scale=None),
    "KPCRank, by queries": KPCRank(cv="leave_query_out", max_components=10, scale=None),
    "KPCR": KPCR(8, scale=None),
    "KPCR, by queries": KPCR(cv="leave_query_out", max_components=10, scale=None),
}
for name, estimator in COMPONENTS.items():
    CHECKS[name] = fitted(estimator)
CHECKS["KPCRank, two outputs"] = fitted(COMPONENTS["KPCRank"], outputs=True)
CHECKS["KPCR, two outputs"] = fitted(COMPONENTS["KPCR"], outputs=True)


@named
def components_of_rows(place: Place) -> dict[str, Any]:
    X, y, qid = rows()
    ranker = place.of(KPCRank(8, scale=None)).fit(place.give(X), place.give(y), qid=place.give(qid))
    one = place.of(KPCRank(cv="leave_pair_out", max_components=6, rule="best", scale=None))
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
def searches(place: Place) -> dict[str, Any]:
    X, y, qid = rows(90, 4)
    given, labels, ids = place.give(X), place.give(y), place.give(qid)
    found = {}
    for name, cv, grid in (
        ("queries", "leave_query_out", {"alpha": [0.1, 10.0]}),
        ("folds", 3, {"alpha": [0.1, 10.0], "kernel": ["linear", "rbf"]}),
        ("pairs", "leave_pair_out", {"alpha": [0.1, 10.0]}),
    ):
        search = RankingSearchCV(place.of(RankRLS(1.0)), grid, cv=cv)
        search.fit(given, labels, qid=ids)
        found[name] = search.predict(given)
        found[f"score, {name}"] = search.score(given, labels, qid=ids)
        found[f"best, {name}"] = search.best_score_
    found["score"] = search.best_estimator_.score(given, labels, qid=ids)
    return found


def held_out(estimator: Any, *, outputs: bool = False, queries: bool = True) -> Check:
    """Hold out all queries, folds of queries, all pairs, and listed pairs."""

    def check(place: Place) -> dict[str, Any]:
        X, y, qid = rows(90, 4)
        y, qid = np.round(y / 4), qid % 7  # few levels, since each pair of levels needs a system
        if outputs:
            y = np.column_stack((y, np.sin(X[:, 0])))
        ids = qid if queries else None
        given, labels = place.give(X), place.give(y)
        ranker, alphas = place.of(clone_of(estimator)), [1.0, 100.0]
        found: dict[str, Any] = {}
        if queries:
            ids = place.give(ids)
            for n_folds in (None, 3):
                result = leave_query_out(
                    ranker, given, labels, qid=ids, alphas=alphas, n_splits=n_folds
                )
                found[f"queries, {n_folds}"] = result.predictions
        pairs = leave_pair_out(
            ranker, given, labels, qid=ids, alphas=alphas, return_differences=True
        )
        found["pairs"] = pairs.differences
        same = np.flatnonzero(qid == qid[0]) if queries else np.arange(len(qid))
        listed = np.column_stack((same[:-1], same[1:]))
        some = leave_pair_out(
            ranker,
            given,
            labels,
            qid=ids,
            alphas=alphas,
            pairs=listed,
            return_differences=True,
        )
        found["listed"] = some.differences
        if not queries and not outputs:
            found["groups"] = leave_pair_out(
                ranker, given, labels, groups=qid, strata=qid % 2, return_differences=True
            ).differences
        assert_allclose(
            leave_pair_out(ranker, given, labels, qid=ids, alphas=alphas).error, pairs.error
        )
        return found

    return check


HELD_OUT = {
    "primal": RankRLS(1.0),
    "primal, no ties": RankRLS(1.0, ties="exclude"),
    "dual": RankRLS(1.0, kernel="rbf", scale=None),
    "dual, no ties": RankRLS(1.0, kernel="rbf", ties="exclude", weighting="queries", scale=None),
    "landmarks": SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None),
    "regression": RLS(1.0),
    "regression, rbf": RLS(1.0, kernel="rbf", scale=None),
    "components": KPCRank(5, alpha=0.1, scale=None),
}
for name, estimator in HELD_OUT.items():
    CHECKS[f"held out: {name}"] = held_out(estimator)
    CHECKS[f"held out: {name}, one ranking"] = held_out(estimator, queries=False)
for name in ("primal", "dual"):
    CHECKS[f"held out: {name}, two outputs"] = held_out(HELD_OUT[name], outputs=True)


@named
def rows_held_out(place: Place) -> dict[str, Any]:
    X, y, qid = rows(60, 4)
    given, labels = place.give(X), place.give(y)
    found = {}
    for name, estimator in (
        ("primal", RankRLS(1.0)),
        ("dual", RankRLS(1.0, kernel="rbf", scale=None)),
        ("no ties", RankRLS(1.0, ties="exclude")),
        ("regression", RLS(1.0)),
    ):
        ranker = place.of(estimator)
        found[name] = k_fold(ranker, given, labels, alphas=ALPHAS).predictions
        found[f"wins, {name}"] = tournament_scores(ranker, given, labels)
    found["one"] = leave_one_out(place.of(RLS(1.0)), given, labels, alphas=ALPHAS).predictions
    found["one, rbf"] = leave_one_out(
        place.of(RLS(1.0, kernel="rbf", scale=None)), given, labels
    ).predictions
    found["many"] = leave_query_out(
        place.of(RankRLS(1.0, kernel="rbf", scale=None)),
        given,
        labels,
        qid=place.give(qid),
        alphas=MANY[:15],
    ).predictions
    return found


@cache
def reference(check: Check) -> dict[str, Any]:
    """The results with NumPy."""
    return check(NUMPY)


def differences(check: Check, place: Place) -> Iterator[tuple[str, float]]:
    """The difference of each result from that of NumPy, relative to its largest entry."""
    want = reference(check)
    with place.strict():
        got = check(place)
    assert want.keys() == got.keys()
    for name, value in got.items():
        NUMPY.check(want[name])
        place.check(value)
        a, b = to_numpy(value), np.asarray(want[name])
        assert a.shape == b.shape, f"{name}: {a.shape} instead of {b.shape}"
        assert np.isfinite(a).all(), name
        yield name, float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-300))
