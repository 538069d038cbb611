"""The features of the authors: the sample of BioInfer, with 100 parses in each part."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from rankwise import RLS, RankRLS, SparseRankRLS, SparseRLS
from rankwise.data import LetorData, read_letor
from rankwise.errors import DataError
from rankwise.metrics import disagreement_error, kendall_tau, paired_test
from rankwise.model_selection import leave_query_out

ALPHAS = 2.0 ** np.arange(-12, 23, 2)
KERNELS = ("linear", "cosine")
N_FEATURES = 195_097


def load(part: str) -> LetorData:
    """The candidate parses of the "train" or "test" sentences, with their F-scores as labels."""
    folder = os.environ.get("RANKWISE_DATA")
    path = Path(folder or "", "bioinfer", "parse_sample", f"rank_{part}.light.gz")
    if not folder or not path.exists():
        raise DataError(f"RANKWISE_DATA must name the folder that contains {path}.")
    return read_letor(path, n_features=N_FEATURES)


RANKERS = {
    "RLS": RLS,
    "sparse RLS": SparseRLS,
    "RankRLS": partial(RankRLS, weighting="pairs"),
    "sparse RankRLS": partial(SparseRankRLS, weighting="pairs"),
}
LANDMARKS = 2  # parses of each sentence


def landmarks(qid: np.ndarray) -> np.ndarray:
    """The first parses of each sentence."""
    return np.concatenate([np.flatnonzero(qid == s)[:LANDMARKS] for s in np.unique(qid)])


def run() -> dict:
    """Test figures of the four rankers; kernel and alpha by leave-sentence-out."""
    train, test = load("train"), load("test")
    found: dict[str, dict] = {}
    values = {}
    for name, make in RANKERS.items():
        best = None
        if name.startswith("sparse"):
            make = partial(make, n_landmarks=None, landmarks=landmarks(train.qid))
        for kernel in KERNELS:
            ranker = make(kernel=kernel)
            held_out = leave_query_out(ranker, train.X, train.y, qid=train.qid, alphas=ALPHAS)
            at = held_out.best_index
            if best is None or held_out.score[at] < best[0]:
                best = (held_out.score[at], kernel, float(ALPHAS[at]))
        error, kernel, alpha = best
        scores = make(alpha, kernel=kernel).fit(train.X, train.y, qid=train.qid).predict(test.X)
        truth = (test.y, scores, test.qid)
        values[name] = disagreement_error(*truth, per_query=True)
        found[name] = {
            "kendall_tau": kendall_tau(*truth),
            "disagreement": disagreement_error(*truth),
            "disagreement, all pairs": disagreement_error(*truth, label_ties="half"),
            "kernel": kernel,
            "alpha": alpha,
            "held-out": float(error),
        }
    for prefix, key in (("", "p"), ("sparse ", "sparse p")):
        test_of = paired_test(values[f"{prefix}RankRLS"], values[f"{prefix}RLS"], "disagreement")
        found[key] = {"p_value": test_of.p_value, "sentences": test_of.n_queries}
    return found
