"""Checks of hold-outs, of what they choose, and of weights."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.testing import assert_allclose
from sklearn.base import clone

from rankwise import RLS, KPCRank, RankingSearchCV, RankRLS, SparseRankRLS
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
from tests.conformance.checks import ALPHAS, CHECKS, MANY, Check, named, rows
from tests.conformance.fits import FITTED
from tests.conformance.places import Place


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
                    stack.enter_context(patch(f"rankwise.holdout.alpha_choice.{limit}", value))
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
        ranker, alphas = place.of(clone(estimator)), [1.0, 100.0]
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
