"""Kernels of labelled graphs: matrices of 2,000 trees of 25 nodes, such as parses of sentences."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Result, best_times, seconds
from rankwise import WalkKernel, WeisfeilerLehman

GRAPHS, NODES, LABELS, EDGE_LABELS = 2_000, 25, 40, 20


def trees(n: int) -> list[tuple[list[int], list[tuple[int, int, int]]]]:
    """Trees with frequent and rare labels, in which neighbours are near each other."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        labels = np.minimum(rng.geometric(0.1, NODES), LABELS).tolist()
        edges = [
            (int(rng.integers(max(0, i - 4), i)), i, int(rng.integers(EDGE_LABELS)))
            for i in range(1, NODES)
        ]
        found.append((labels, edges))
    return found


def cases() -> list[Result]:
    graphs = trees(GRAPHS)
    whole, ends = WalkKernel(0.02), WalkKernel(0.02, labels="ends")
    for kernel in (whole, ends):
        kernel(graphs[:2])  # compiles

    def neighbourhoods() -> None:
        X = WeisfeilerLehman(3).fit_transform(graphs)
        (X @ X.T).toarray()

    times = best_times(lambda: whole(graphs), lambda: ends(graphs), neighbourhoods, repeats=1)
    what = ("walks, all labels", "walks, labels of ends", "Weisfeiler-Lehman, 3 rounds")
    limits = (60.0, 60.0, 2.0)
    return [
        Result(
            f"{name}: matrix of {GRAPHS:,} trees of {NODES} nodes",
            seconds(time),
            f"{limit:g} s wanted",
            time / limit,
            1.0,
        )
        for name, time, limit in zip(what, times, limits, strict=True)
    ]
