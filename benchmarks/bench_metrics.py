"""Claim: tau_b, disagreement, AP, NDCG and NDCG@10 of a million rows in 10,000 queries take at most
0.5 s each, AP and NDCG no longer than in ranx, and NDCG@10 at most twice as long.

The input of ranx is in its fastest form: each query as sorted arrays of (row, value), without rows
that are not relevant, so only its own computation is timed. The input of rankwise is labels, scores
and query ids: validation, grouping and sorting are timed. At a cut-off of 10, ranx reads only ten
of a hundred rows; rankwise finds them among the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Result, best_times, seconds
from rankwise.metrics import average_precision, disagreement_error, kendall_tau, ndcg

N_QUERIES, PER_QUERY = 10_000, 100
SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)  # grades 0 to 4, about those of web search data


def make_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Grades, scores and query ids of a million rows."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(SHARES), size=N_QUERIES * PER_QUERY, p=SHARES).astype(float)
    scores = 0.5 * y + rng.standard_normal(len(y))
    return y, scores, np.repeat(np.arange(N_QUERIES), PER_QUERY)


def ranx_input(y: np.ndarray, scores: np.ndarray) -> tuple[object, object]:
    """Typed lists of (row, value) by descending value: relevant rows, and all rows."""
    from numba.typed import List

    truth, run = List(), List()
    for labels, values in zip(y.reshape(-1, PER_QUERY), scores.reshape(-1, PER_QUERY), strict=True):
        best = np.argsort(-values, kind="stable")
        run.append(np.column_stack((best, values[best])).astype(np.float64))
        ideal = np.argsort(-labels, kind="stable")[: np.count_nonzero(labels)]
        truth.append(np.column_stack((ideal, labels[ideal])).astype(np.float64))
    return truth, run


def cases() -> list[Result]:
    """Each metric compared with half a second, and with ranx if ranx has it."""
    y, scores, qid = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ranx import evaluate
    truth, run = ranx_input(y, scores)
    ours: dict[str, Callable[[], object]] = {
        "Kendall tau_b": lambda: kendall_tau(y, scores, qid),
        "disagreement": lambda: disagreement_error(y, scores, qid),
        "AP": lambda: average_precision(y, scores, qid),
        "NDCG": lambda: ndcg(y, scores, qid),
        "NDCG@10": lambda: ndcg(y, scores, qid, k=10),
    }
    peers: dict[str, Callable[[], object]] = {
        "AP": lambda: evaluate(truth, run, "map"),
        "NDCG": lambda: evaluate(truth, run, "ndcg_burges"),
        "NDCG@10": lambda: evaluate(truth, run, "ndcg_burges@10"),
    }
    calls = [*ours.values(), *peers.values()]
    for call in calls:  # compile
        call()
    times = best_times(*calls, repeats=7)
    mine = dict(zip(ours, times, strict=False))
    theirs = dict(zip(peers, times[len(ours) :], strict=True))
    size = f"{N_QUERIES * PER_QUERY:,} rows, {N_QUERIES:,} queries"
    results = [
        Result(f"{name}, {size}", seconds(mine[name]), "half a second", mine[name] / 0.5, 1.0)
        for name in ours
    ]
    for name, peer in theirs.items():
        ratio = mine[name] / peer
        words, limit = f"ranx: {seconds(peer)}", 2.0 if name == "NDCG@10" else 1.0
        results.append(Result(f"{name}, {size}", seconds(mine[name]), words, ratio, limit))
    return results
