"""Parse ranking as in the RankRLS and the sparse RankRLS papers.

500 sentences with 20 candidates each are for choosing parameters, by ten folds of whole sentences,
and for training; all other sentences are for validation. The basic rankers use 5 random candidates
of each training sentence. The sparse ones use these as landmarks, and all 20 candidates: m = 10,000
and r = 2500.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise import RLS, RankRLS, SparseRankRLS, SparseRLS
from rankwise.metrics import (
    QueryValues,
    disagreement_error,
    get_metric,
    kendall_tau,
    paired_test,
)
from rankwise.model_selection import leave_query_out
from reproduce.parses.candidates import PER_SENTENCE, Corpus, Parsed
from reproduce.parses.features import WalkCounts

TRAINING_SENTENCES, BASIC, FOLDS = 500, 5, 10
ALPHAS = 2.0 ** np.arange(-8, 3, 2)
SPARSE_ALPHAS = 2.0 ** np.arange(-4, 7, 2)  # more pairs of a sentence ask for larger ones
KERNELS = [{"max_length": length, "decay": 1.0, "cosine": True} for length in (1, 2)]
METRICS = {"kendall_tau": kendall_tau, "disagreement": disagreement_error}


@dataclass(frozen=True)
class Rows:
    """Candidates of some sentences: rows of the features, scores and sentences."""

    index: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    place: np.ndarray  # rank in Link Grammar's own order


@dataclass(frozen=True)
class Task:
    """Training and validation sentences of a corpus."""

    parsed: tuple[Parsed, ...]
    training: np.ndarray
    validation: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus, seed: int = 0) -> Task:
        """Draw training sentences among those with enough candidates of different scores."""
        scores = [p.scores() for p in corpus.parsed]
        useful = np.array([np.ptp(s) > 0 for s in scores])
        full = np.array([len(s) == PER_SENTENCE for s in scores])
        rng = np.random.default_rng(seed)
        training = np.sort(rng.permutation(np.flatnonzero(useful & full))[:TRAINING_SENTENCES])
        validation = np.setdiff1d(np.flatnonzero(useful), training)
        return cls(corpus.parsed, training, validation)

    @cached_property
    def offsets(self) -> np.ndarray:
        """The first feature row of each sentence."""
        return np.concatenate(([0], np.cumsum([len(p.linkages) for p in self.parsed])))

    @cached_property
    def counts(self) -> WalkCounts:
        """Walks of the candidates of all sentences."""
        longest = max(kernel["max_length"] for kernel in KERNELS)
        linkages = list(chain.from_iterable(p.linkages for p in self.parsed))
        return WalkCounts(linkages, max_length=longest)

    def rows(self, sentences: np.ndarray, per_sentence: int | None = None) -> Rows:
        """The first candidates of sentences; their order is random, so these are random ones."""
        index, y, qid, place = [], [], [], []
        for s in sentences:
            parsed = self.parsed[s]
            n = min(len(parsed.linkages), per_sentence or len(parsed.linkages))
            index.append(self.offsets[s] + np.arange(n))
            y.append(parsed.scores()[:n])
            qid.append(np.full(n, s))
            place.append(parsed.places[:n])
        return Rows(*(np.concatenate(column) for column in (index, y, qid, place)))


@dataclass(frozen=True)
class Chosen:
    """The choice by ten folds of the training sentences."""

    kernel: dict
    alpha: float
    held_out: float


@dataclass(frozen=True)
class Method:
    """A ranker; `sparse` ones use all candidates, with those of the basic ones as landmarks."""

    name: str
    make: Callable[..., Any]
    sparse: bool

    @property
    def alphas(self) -> np.ndarray:
        return SPARSE_ALPHAS if self.sparse else ALPHAS

    def train_rows(self, task: Task) -> Rows:
        return task.rows(task.training, None if self.sparse else BASIC)

    def ranker(self, rows: Rows, alpha: float = 1.0) -> Any:
        if not self.sparse:
            return self.make(alpha)
        first = np.concatenate([np.flatnonzero(rows.qid == s)[:BASIC] for s in np.unique(rows.qid)])
        return self.make(alpha, kernel="linear", n_landmarks=None, landmarks=first)


METHODS = (
    Method("RLS", RLS, sparse=False),
    Method("sparse RLS", SparseRLS, sparse=True),
    Method("RankRLS", partial(RankRLS, weighting="pairs"), sparse=False),
    Method("sparse RankRLS", partial(SparseRankRLS, weighting="pairs"), sparse=True),
)


def choose(
    method: Method,
    task: Task,
    features: dict[int, sp.csr_array],
    progress: Callable[[str], None],
) -> dict[str, Chosen]:
    """The best kernel and alpha for each metric."""
    rows = method.train_rows(task)
    best: dict[str, Chosen] = {}
    for number, kernel in enumerate(KERNELS):
        of_kernel = chosen_of(method, features[number][rows.index], rows, kernel)
        for metric, found in of_kernel.items():
            larger = get_metric(metric).greater_is_better
            if metric not in best or (found.held_out > best[metric].held_out) == larger:
                best[metric] = found
        progress(f"{method.name}, kernel {number + 1} of {len(KERNELS)}")
    return best


def chosen_of(
    method: Method, X: Any, rows: Rows, kernel: dict, alphas: np.ndarray | None = None
) -> dict[str, Chosen]:
    """The best alpha for each metric, with one kernel."""
    alphas = method.alphas if alphas is None else alphas
    held_out = leave_query_out(
        method.ranker(rows), X, rows.y, qid=rows.qid, alphas=alphas, n_splits=FOLDS
    )
    best = {}
    for metric, function in METRICS.items():
        values = [function(rows.y, scores, rows.qid) for scores in held_out.predictions]
        larger = get_metric(metric).greater_is_better
        at = int(np.argmax(values) if larger else np.argmin(values))
        best[metric] = Chosen(kernel, float(alphas[at]), float(values[at]))
    return best


def run(task: Task, progress: Callable[[str], None]) -> dict:
    """Validation figures of every method, what was chosen, and paired tests over sentences."""
    progress(f"features of {task.offsets[-1]} parses")
    features = {k: task.counts.features(**kernel) for k, kernel in enumerate(KERNELS)}
    validation = task.rows(task.validation)
    found: dict[str, dict] = {metric: {} for metric in METRICS}
    values: dict[str, dict[str, QueryValues]] = {metric: {} for metric in METRICS}
    for method in METHODS:
        rows = method.train_rows(task)
        chosen = choose(method, task, features, progress)
        for metric, choice in chosen.items():
            phi = features[KERNELS.index(choice.kernel)]
            ranker = method.ranker(rows, choice.alpha).fit(phi[rows.index], rows.y, qid=rows.qid)
            scores = ranker.predict(phi[validation.index])
            values[metric][method.name] = per_sentence(metric, validation, scores)
            found[metric][method.name] = asdict(choice) | {"rows": len(rows.y)}
    for metric in METRICS:
        own = per_sentence(metric, validation, -validation.place.astype(float))
        values[metric]["Link Grammar"] = own
        found[metric]["Link Grammar"] = {}
    return {metric: summarize(metric, found[metric], values[metric]) for metric in METRICS}


def per_sentence(metric: str, rows: Rows, scores: np.ndarray) -> QueryValues:
    """The metric of each sentence."""
    return METRICS[metric](rows.y, scores, rows.qid, per_query=True)


def summarize(metric: str, chosen: dict[str, dict], values: dict[str, QueryValues]) -> dict:
    """Means with standard errors, and Wilcoxon tests between rankers."""
    methods = {}
    for name, found in values.items():
        v = found.values
        spread = float(v.std(ddof=1) / np.sqrt(len(v)))
        methods[name] = {"mean": float(v.mean()), "error": spread, **chosen[name]}
    tests = {}
    for ours, others in (
        ("RankRLS", ("RLS", "Link Grammar")),
        ("sparse RankRLS", ("RankRLS", "sparse RLS", "RLS", "Link Grammar")),
    ):
        for other in filter(values.__contains__, others):
            test = paired_test(values[ours], values[other], metric)
            tests[f"{ours} against {other}"] = asdict(test)
    return {"methods": methods, "tests": tests}
