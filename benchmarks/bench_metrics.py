"""Claim: tau_b, disagreement, AP and NDCG of a million rows in 10,000 queries take at most 0.5 s
each, and AP and NDCG no longer than in ranx.

ranx gets its input as it likes it best: every query as arrays of (row, value), already sorted and
without the rows that are not relevant, so that only the work of its threads is timed. rankwise
gets labels, scores and query ids as they are: checking, grouping and sorting are timed. At a
cut-off of 10 ranx then looks at ten rows of a hundred and is faster; it is shown all the same.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from rankwise.metrics import (
    average_precision,
    disagreement_error,
    evaluate_ranking,
    kendall_tau,
    ndcg,
    precision_at_k,
)

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


def measure(repeats: int = 7) -> dict[str, float]:
    """Best seconds of every metric, and of ranx's beside it; interleaved, after a warm-up."""
    y, scores, qid = make_data()
    calls: dict[str, Callable[[], object]] = {
        "kendall_tau": lambda: kendall_tau(y, scores, qid),
        "disagreement_error": lambda: disagreement_error(y, scores, qid),
        "average_precision": lambda: average_precision(y, scores, qid),
        "ndcg": lambda: ndcg(y, scores, qid),
        "ndcg@10": lambda: ndcg(y, scores, qid, k=10),
        "precision@10": lambda: precision_at_k(y, scores, qid, k=10),
        "evaluate_ranking": lambda: evaluate_ranking(y, scores, qid),
        "kendall_tau, one query": lambda: kendall_tau(y, scores),
        "average_precision, one query": lambda: average_precision(y, scores),
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from ranx import evaluate
    except ImportError:
        pass
    else:
        truth, run = ranx_input(y, scores)
        calls["ranx map"] = lambda: evaluate(truth, run, "map")
        calls["ranx ndcg"] = lambda: evaluate(truth, run, "ndcg_burges")
        calls["ranx ndcg@10"] = lambda: evaluate(truth, run, "ndcg_burges@10")
        calls["ranx precision@10"] = lambda: evaluate(truth, run, "precision@10")
    times = {name: float("inf") for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def main() -> None:
    """Print seconds, and the ratio to ranx where it has the metric."""
    times = measure()
    peers = {
        "average_precision": "ranx map",
        "ndcg": "ranx ndcg",
        "ndcg@10": "ranx ndcg@10",
        "precision@10": "ranx precision@10",
    }
    for name, seconds in times.items():
        peer = times.get(peers.get(name, ""))
        ratio = f"   {seconds / peer:5.2f} of ranx" if peer else ""
        print(f"{name:32}{1000 * seconds:8.1f} ms{ratio}")


if __name__ == "__main__":
    main()
