"""Calls that use every compiled loop, with the types that it has in the calls of users."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rankwise import (
    GPOptions,
    PairwiseGP,
    RankRLS,
    RankSVM,
    SparseBilinearRanker,
    TwoSidedRankRLS,
    WalkKernel,
)
from rankwise.backends.jit import LOOPS, Loop
from rankwise.data import read_letor, write_letor
from rankwise.estimators.pair_strategies import bald
from rankwise.metrics import evaluate_ranking, expected_reciprocal_rank
from rankwise.model_selection import (
    auc_interval,
    leave_pair_out,
    leave_query_out,
    permutation_test,
    tournament_scores,
)
from rankwise.preprocessing import QueryMinMaxScaler, QueryRanks, QueryStandardScaler
from rankwise.progress import Show

# Array expressions take the place of loops on small data: these are larger.
RNG = np.random.default_rng(0)
X = RNG.standard_normal((140_000, 8))
Y = np.clip(np.round(X[:, 0] + RNG.standard_normal(len(X))), 0, 4)
QID = np.arange(len(X)) // 20
SOME, MORE = slice(0, 800), slice(0, 40_000)


def _fit_linear() -> None:
    leave_query_out(RankRLS(), X, Y, qid=QID, alphas=[0.1, 1.0])
    many = np.tile(X[MORE], 14)  # more features than rows of a query, and many numbers
    leave_query_out(RankRLS(), many, Y[MORE], qid=QID[MORE], alphas=[0.1, 1.0])
    for ranker in (RankRLS(1.0), RankSVM()):
        ranker.fit(many, Y[MORE], qid=QID[MORE])


def _fit_kernels() -> None:
    RankRLS(kernel="rbf").fit(X[:1100], Y[:1100], qid=QID[:1100])


def _fit_comparisons() -> None:
    PairwiseGP(optimizer=None).fit_pairs(X[:600], np.arange(600).reshape(300, 2))
    pairs = RNG.integers(0, 60, (600, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    for inference in ("laplace", "ep"):
        options = GPOptions(inference=inference)
        ranker = PairwiseGP(options=options).fit_pairs(X[:60], pairs)
    ranker.suggest_pair(X[:60])
    bald(X[:, 0], np.ones(len(X)), 1.0)


def _fit_tables() -> None:
    scores = X[:60, :3] @ X[60:100, :3].T
    scores[::2, ::2] = np.nan  # missing cells
    TwoSidedRankRLS(1.0).fit(X[:60], X[60:100], scores)


def _compare_graphs() -> None:
    graphs = [("CCO", [(0, 1), (1, 2)]), ("CCC", [(0, 1), (1, 2)])]
    for labels in ("all", "ends"):
        WalkKernel(labels=labels, max_length=3)(graphs)


def _fit_words() -> None:
    words, triplets = np.abs(np.round(X[:200, :8])), np.array([(k, k, 199 - k) for k in range(200)])
    for settings in ({}, {"alpha": 0.01, "eta0": 1.0, "init": "zeros"}):
        ranker = SparseBilinearRanker(n_iter=200, random_state=0).set_params(**settings)
        ranker.fit(words, words, triplets).score(words, words, triplets)


def _hold_out() -> None:
    ranker = RankRLS(1.0)
    leave_pair_out(ranker, X[SOME], Y[SOME])
    leave_pair_out(RankRLS(1.0, ties="exclude"), X[SOME], Y[SOME])
    tournament_scores(ranker, X[:400], Y[:400])
    auc_interval(ranker, X[:400], Y[:400] > 1)
    for labels in (Y, 1.0 * (Y > 1)):
        permutation_test(ranker, X[SOME], labels[SOME], n_permutations=2)


def _evaluate() -> None:
    evaluate_ranking(Y, X[:, 0], qid=QID)
    expected_reciprocal_rank(Y, X[:, 0], qid=QID)


def _scale() -> None:
    for rows in (X, X.astype(np.float32)):
        for scaler in (QueryMinMaxScaler(), QueryStandardScaler(), QueryRanks()):
            scaler.fit(rows).transform(rows, qid=QID)


def _read_files() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.txt"
        write_letor(path, X[:100], Y[:100], QID[:100])
        read_letor(path)


WORK: dict[str, Callable[[], None]] = {
    "linear rankers": _fit_linear,
    "kernels": _fit_kernels,
    "comparisons": _fit_comparisons,
    "tables": _fit_tables,
    "graphs": _compare_graphs,
    "words": _fit_words,
    "hold-outs": _hold_out,
    "metrics": _evaluate,
    "scaling": _scale,
    "files": _read_files,
}


def loops_of_calls() -> list[Loop]:
    """The loops that no other loop calls."""
    called: list[Any] = []
    for loop in LOOPS:
        function = loop.__wrapped__
        called += [function.__globals__.get(name) for name in function.__code__.co_names]
    return [loop for loop in LOOPS if not any(loop is other for other in called)]


def fill_cache(show: Show) -> Path:
    """Compile every loop that is not in the cache; return the folder with the cache."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the rows, which are only examples
        for done, (words, call) in enumerate(WORK.items()):
            show(done, words)
            call()
    folders = [loop.stats.cache_path for loop in loops_of_calls()]
    if None in folders:
        raise OSError(
            "No folder for compiled loops can be written to. Name one in NUMBA_CACHE_DIR."
        )
    return Path(os.path.commonpath(folders))
