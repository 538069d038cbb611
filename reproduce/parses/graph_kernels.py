"""The rankers of the papers with kernels of graphs.

A parse is a graph without directions: each word is a node with its tag as label, joined to a node
with the word itself as label; each link is a node with its type as label, joined to two words. The
kernels are walks of all lengths with the same labels or with the same ends (the papers' kernel,
<L A^n L', M B^n M'> summed over n with a decay), counts of short walks, and counts of
neighbourhoods (Weisfeiler and Lehman). Kernels are normalized. There are 600 validation sentences,
as many as in the papers, to save time.

For walks of all lengths, rows are coordinates on the parses R of the basic rankers: K_MR V s^(-1/2)
with K_RR = V diag(s) V'. Products of these rows are kernel values with R, so that all four rankers
are the same as with the kernel itself, and values are computed once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from rankwise import GraphWalks, WalkKernel, WeisfeilerLehman
from rankwise.metrics import get_metric
from reproduce.parses.experiment import (
    BASIC,
    METHODS,
    METRICS,
    Task,
    chosen_of,
    per_sentence,
    summarize,
)
from reproduce.parses.features import link_type, node
from reproduce.parses.link_grammar import Linkage

KERNELS: dict[str, list[Any]] = {
    "label pairs": [WalkKernel(0.02, labels="ends")],  # chosen, see the README
    "walks, all labels": [WalkKernel(decay) for decay in (0.02, 0.08)],
    "counts of walks": [GraphWalks(length) for length in (2, 3)],
    "Weisfeiler-Lehman": [WeisfeilerLehman(rounds) for rounds in (1, 2, 3)],
}
SETTING = {"WalkKernel": "decay", "GraphWalks": "max_length", "WeisfeilerLehman": "n_rounds"}
VALIDATION = 600  # sentences
BLOCK = 500  # rows of kernel values for a thread at a time
SMALLER = 2.0 ** np.arange(-8, 0, 2)  # alphas below those of the tables, relative to these
LEAST = 1e-10  # of the largest eigenvalue of the kernel matrix of R


def graph(linkage: Linkage) -> tuple[list[str], list[tuple[int, int]]]:
    """Words with tags, and links, as nodes."""
    nodes, n = [node(word) for word in linkage.words], len(linkage.words)
    labels = [at.tag for at in nodes] + [at.word for at in nodes]
    edges = [(i, n + i) for i in range(n)]
    for i, j, label in linkage.links:
        edges += [(i, len(labels)), (j, len(labels))]
        labels.append(link_type(label))
    return labels, edges


class GraphRows:
    """Rows of all candidates for a kernel, as features; kernel values are computed when asked."""

    def __init__(self, task: Task, kernel: Any) -> None:
        self.kernel = kernel
        linkages = chain.from_iterable(parsed.linkages for parsed in task.parsed)
        graphs = [graph(linkage) for linkage in linkages]
        if isinstance(kernel, WalkKernel):
            self.rows = kernel.as_rows(graphs)
            self.basic = self.rows[task.rows(task.training, BASIC).index]
            s, V = np.linalg.eigh(self._values(self.basic))
            kept = s > LEAST * s[-1]
            self.to_coordinates = V[:, kept] / np.sqrt(s[kept])
        else:
            self.rows = sp.csr_array(normalize(kernel.fit_transform(graphs)))

    def __getitem__(self, index: np.ndarray) -> Any:
        rows = self.rows[index]
        return self._values(rows) @ self.to_coordinates if hasattr(self, "basic") else rows

    def _values(self, rows: Any) -> np.ndarray:
        parts = [rows[start : start + BLOCK] for start in range(0, rows.shape[0], BLOCK)]
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
            return np.vstack(list(pool.map(lambda part: self.kernel(part, self.basic), parts)))


def run(task: Task, progress: Callable[[str], None], names: Sequence[str] = tuple(KERNELS)) -> dict:
    """Validation figures of every ranker with each kernel, what was chosen, and paired tests."""
    found = {}
    some = np.random.default_rng(0).permutation(task.validation)[:VALIDATION]
    task = replace(task, validation=np.sort(some))
    basic, every = task.rows(task.training, BASIC), task.rows(task.training)
    validation = task.rows(task.validation)
    for name in names:
        made: dict[int, GraphRows] = {}
        best: dict[str, dict[str, Any]] = {metric: {} for metric in METRICS}
        for number, kernel in enumerate(KERNELS[name]):
            made[number] = GraphRows(task, kernel)
            training = made[number][every.index]
            own = training[np.flatnonzero(np.isin(every.index, basic.index))]
            progress(f"{name}: rows for {kernel}")
            for method in METHODS:
                phi, rows = (training, every) if method.sparse else (own, basic)
                alphas = np.append(SMALLER * method.alphas[0], method.alphas)
                chosen = chosen_of(method, phi, rows, {"number": number}, alphas)
                for metric, choice in chosen.items():
                    best[metric].setdefault(method.name, []).append((choice, method, phi, rows))
                progress(f"{name}, {kernel}: {method.name}")
        numbers: set[int] = set()
        for metric, methods in best.items():
            better = max if get_metric(metric).greater_is_better else min
            for method_name, choices in methods.items():
                methods[method_name] = better(choices, key=lambda entry: entry[0].held_out)
                numbers.add(methods[method_name][0].kernel["number"])
        scores: dict[str, dict[str, Any]] = {metric: {} for metric in METRICS}
        for number in sorted(numbers):
            new = made[number][validation.index]
            for metric, methods in best.items():
                for method_name, (choice, method, phi, rows) in methods.items():
                    if choice.kernel["number"] == number:
                        ranker = method.ranker(rows, choice.alpha).fit(phi, rows.y, qid=rows.qid)
                        values = per_sentence(metric, validation, ranker.predict(new))
                        scores[metric][method_name] = values
            progress(f"{name}: validated {KERNELS[name][number]}")
        found[name] = {
            metric: summarize(
                metric,
                {m: _described(name, best[metric][m][0]) for m in scores[metric]},
                {method.name: scores[metric][method.name] for method in METHODS},
            )
            for metric in METRICS
        }
    return found


def _described(name: str, choice: Any) -> dict:
    kernel = KERNELS[name][choice.kernel["number"]]
    setting = SETTING[type(kernel).__name__]
    return {
        "setting": setting,
        "value": getattr(kernel, setting),
        "alpha": choice.alpha,
        "held_out": choice.held_out,
    }
