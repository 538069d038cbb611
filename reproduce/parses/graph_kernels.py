"""The rankers of the papers with kernels of graphs.

A parse is a graph without directions: each word is a node with its tag as label, joined to a node
with the word itself as label; each link is a node with its type as label, joined to two words. The
kernels are walks of up to eight arcs with the same ends (the papers' kernel, <L A^n L', M B^n M'>
summed over n with a decay) or with the same labels, counts of short walks, and counts of
neighbourhoods (Weisfeiler and Lehman). Kernels are normalized. To save time, there are 250 training
sentences in place of 500, and 600 validation sentences, as many as in the papers.

The basic rankers choose the setting of a kernel and alpha by ten folds of sentences. The sparse
rankers take the setting of their basic form, and choose alpha by the same folds.

For walks with a decay, rows are coordinates on the parses R of the basic rankers: K_MR V s^(-1/2)
with K_RR = V diag(s) V'. Products of these rows are kernel values with R, so that all four rankers
are the same as with the kernel itself, and each value is computed once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, product
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

LONGEST = 8  # arcs
KERNELS: dict[str, list[Any]] = {
    "label pairs": [WalkKernel(decay, "ends", LONGEST) for decay in (0.02, 0.05, 0.1, 0.2)],
    "walks, all labels": [WalkKernel(decay, "all", LONGEST) for decay in (0.1, 0.3, 1.0)],
    "counts of walks": [GraphWalks(length) for length in (2, 3)],
    "Weisfeiler-Lehman": [WeisfeilerLehman(rounds) for rounds in (1, 2, 3)],
}
SETTING = {"WalkKernel": "decay", "GraphWalks": "max_length", "WeisfeilerLehman": "n_rounds"}
TRAINING, VALIDATION = 250, 600  # sentences
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
        if not isinstance(kernel, WalkKernel):
            self.rows = sp.csr_array(normalize(kernel.fit_transform(graphs)))
            self.known = np.ones(len(graphs), dtype=bool)
            return
        self.graphs = kernel.as_rows(graphs)
        self.known = np.zeros(len(graphs), dtype=bool)
        basic = task.rows(task.training, BASIC).index
        self.basic = self.graphs[basic]
        s, V = np.linalg.eigh(kernel(self.basic))
        kept = s > LEAST * s[-1]
        self.to_coordinates = V[:, kept] / np.sqrt(s[kept])
        self.rows = np.empty((len(graphs), kept.sum()))
        self.rows[basic], self.known[basic] = V[:, kept] * np.sqrt(s[kept]), True

    def __getitem__(self, index: np.ndarray) -> Any:
        new = index[~self.known[index]]
        parts = [new[start : start + BLOCK] for start in range(0, len(new), BLOCK)]
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
            for part, values in zip(parts, pool.map(self._values, parts), strict=True):
                self.rows[part], self.known[part] = values @ self.to_coordinates, True
        return self.rows[index]

    def _values(self, index: np.ndarray) -> np.ndarray:
        return self.kernel(self.graphs[index], self.basic)


def run(task: Task, progress: Callable[[str], None], names: Sequence[str] = tuple(KERNELS)) -> dict:
    """Validation figures of every ranker with each kernel, what was chosen, and paired tests."""
    rng = np.random.default_rng(0)
    validation = np.sort(rng.permutation(task.validation)[:VALIDATION])
    training = np.sort(rng.permutation(task.training)[:TRAINING])
    task = replace(task, training=training, validation=validation)
    new = task.rows(task.validation)
    found = {}
    for name in names:
        made = [GraphRows(task, kernel) for kernel in KERNELS[name]]
        progress(f"{name}: values of the basic rows")
        chosen: dict[str, dict[str, Any]] = {metric: {} for metric in METRICS}
        for method in sorted(METHODS, key=lambda method: method.sparse):
            rows = method.train_rows(task)
            alphas = np.append(SMALLER * method.alphas[0], method.alphas)
            basic = method.name.removeprefix("sparse ")
            taken = {metric: chosen[metric].get(basic) for metric in METRICS}
            numbers = {c.kernel["number"] for c in taken.values() if c} or range(len(made))
            for number in numbers:
                kernel = {"number": number}
                tried = chosen_of(method, made[number][rows.index], rows, kernel, alphas)
                progress(f"{name}, {method.name}, {KERNELS[name][number]}: {tried}")
                for metric, choice in tried.items():
                    larger = get_metric(metric).greater_is_better
                    best = chosen[metric].get(method.name)
                    if taken[metric] and taken[metric].kernel != kernel:
                        continue
                    if best is None or (choice.held_out > best.held_out) == larger:
                        chosen[metric][method.name] = choice
        scores: dict[str, dict[str, Any]] = {metric: {} for metric in METRICS}
        for metric, method in product(METRICS, METHODS):
            choice, rows = chosen[metric][method.name], method.train_rows(task)
            phi = made[choice.kernel["number"]]
            ranker = method.ranker(rows, choice.alpha).fit(phi[rows.index], rows.y, qid=rows.qid)
            predicted = ranker.predict(phi[new.index])
            scores[metric][method.name] = per_sentence(metric, new, predicted)
            progress(f"{name}: validated {method.name}, {metric}")
        found[name] = {
            metric: summarize(
                metric,
                {m: _described(name, choice) for m, choice in chosen[metric].items()},
                scores[metric],
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
