"""Variants of the basic rankers, both conventions of ties, and other training sentences.

For each variant, alpha is chosen by the disagreement error in ten folds of the training sentences.
It is validated on all sentences, on those with as many candidates as the training sentences, and on
the others. Other samples of training sentences use the parameters chosen with the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise import RLS, RankRLS
from rankwise.metrics import disagreement_error, kendall_tau, paired_test
from rankwise.model_selection import leave_query_out
from reproduce.parses.candidates import PER_SENTENCE, Corpus
from reproduce.parses.experiment import (
    BASIC,
    FOLDS,
    METHODS,
    Rows,
    Task,
    per_sentence,
)

ALPHAS = 2.0 ** np.arange(-8, 5, 2)
VARIANTS = {
    "unit length": {"max_length": 2, "decay": 1.0, "cosine": True},
    "unscaled counts": {"max_length": 2, "decay": 1.0, "cosine": False},
}
CENTRED = "RLS, centred within sentences"  # no differences between sentences
RANKERS = {
    "RLS": RLS(alpha=1.0),
    CENTRED: RLS(alpha=1.0),
    "RankRLS": RankRLS(alpha=1.0, weighting="pairs"),
    "RankRLS, ties excluded": RankRLS(alpha=1.0, ties="exclude", weighting="pairs"),
}
SEEDS = (1, 2, 3)
GROUPS = ("all sentences", f"{PER_SENTENCE} candidates", f"fewer than {PER_SENTENCE}")


def centred(rows: Rows) -> Rows:
    """Scores minus the mean of their sentence."""
    _, sentence = np.unique(rows.qid, return_inverse=True)
    means = np.bincount(sentence, weights=rows.y) / np.bincount(sentence)
    return replace(rows, y=rows.y - means[sentence])


def scores_of(
    ranker: Any, phi: sp.csr_array, rows: Rows, validation: Rows
) -> tuple[np.ndarray, dict]:
    """Validation scores at the chosen alpha, and what was chosen."""
    X = phi[rows.index]
    held_out = leave_query_out(ranker, X, rows.y, qid=rows.qid, alphas=ALPHAS, n_splits=FOLDS)
    path = ranker.path(X, rows.y, [held_out.best_alpha], qid=rows.qid)
    chosen = {"alpha": held_out.best_alpha, "held-out": float(held_out.score.min())}
    return path.predict(phi[validation.index])[0], chosen


def run(task: Task, progress: Callable[[str], None]) -> dict:
    """Mean tau_b of each variant in each group of sentences, and p-values against RLS."""
    rows, validation = task.rows(task.training, BASIC), task.rows(task.validation)
    sizes = np.array([len(parsed.linkages) for parsed in task.parsed])
    full = sizes[validation.qid] == PER_SENTENCE
    groups = dict(zip(GROUPS, (np.ones(len(full), dtype=bool), full, ~full), strict=True))
    found: dict[str, dict] = {}
    for kernel, parameters in VARIANTS.items():
        phi = task.counts.features(**parameters)
        if not parameters["cosine"]:  # so that the same alphas suit it
            phi = phi / np.sqrt(phi[rows.index].power(2).sum(axis=1).mean())
        values: dict[str, dict] = {}
        for name, ranker in RANKERS.items():
            train = centred(rows) if name == CENTRED else rows
            scores, chosen = scores_of(ranker, phi, train, validation)
            entry: dict[str, Any] = dict(chosen)
            for group, part in groups.items():
                truth = (validation.y[part], scores[part], validation.qid[part])
                value = kendall_tau(*truth, per_query=True)
                values.setdefault(group, {})[name] = value
                p = paired_test(value, values[group]["RLS"], "kendall_tau").p_value
                entry[group] = {"mean": float(value.values.mean()), "p": p, "n": len(value)}
            found[f"{name}; {kernel}"] = entry
            progress(f"tried: {name}, {kernel}")
    return found


def ties(corpus: Corpus, chosen: dict[str, dict], progress: Callable[[str], None]) -> dict:
    """Disagreement errors of all four rankers with and without pairs of equal scores."""
    task = Task.of(corpus)
    validation = task.rows(task.validation)
    found: dict[str, dict] = {"share": {"tied": _tied_share(validation)}}
    for method in METHODS:
        rows = method.train_rows(task)
        phi = task.counts.features(**chosen[method.name]["kernel"])
        ranker = method.ranker(rows, chosen[method.name]["alpha"])
        scores = ranker.fit(phi[rows.index], rows.y, qid=rows.qid).predict(phi[validation.index])
        entry = {}
        for convention in ("half", "exclude"):
            values = disagreement_error(
                validation.y, scores, validation.qid, label_ties=convention, per_query=True
            )
            entry[convention] = float(values.values.mean())
            entry[f"{convention}, s.e."] = float(values.standard_error())
        found[method.name] = entry
        progress(f"ties: {method.name}")
    return found


def _tied_share(rows: Rows) -> float:
    """The mean share of pairs of equal scores in a sentence."""
    shares = []
    for s in np.unique(rows.qid):
        _, counts = np.unique(rows.y[rows.qid == s], return_counts=True)
        n = counts.sum()
        shares.append((counts * (counts - 1)).sum() / (n * (n - 1)))
    return float(np.mean(shares))


def draws(corpus: Corpus, chosen: dict[str, dict], progress: Callable[[str], None]) -> dict:
    """Disagreement errors of all four rankers, and paired tests, for each draw of sentences."""
    features = Task.of(corpus).counts
    found: dict[str, dict] = {}
    for seed in SEEDS:
        task = Task.of(corpus, seed)
        validation = task.rows(task.validation)
        values = {}
        for method in METHODS:
            rows = method.train_rows(task)
            phi = features.features(**chosen[method.name]["kernel"])
            ranker = method.ranker(rows, chosen[method.name]["alpha"])
            ranker.fit(phi[rows.index], rows.y, qid=rows.qid)
            scores = ranker.predict(phi[validation.index])
            values[method.name] = per_sentence("disagreement", validation, scores)
            progress(f"draw {seed}: {method.name}")
        entry: dict[str, Any] = {name: float(v.values.mean()) for name, v in values.items()}
        for ours, other in (("RankRLS", "RLS"), ("sparse RankRLS", "RankRLS")):
            test = paired_test(values[ours], values[other], "disagreement")
            entry[f"{ours} against {other}"] = test.p_value
        found[str(seed)] = entry
    return found
