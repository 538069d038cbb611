"""A check on the features of the authors: the sample of BioInfer, 100 parses a side."""

from __future__ import annotations

import numpy as np

from rankwise import RLS, RankRLS
from rankwise.data import load_dataset
from rankwise.metrics import disagreement_error, kendall_tau, paired_test
from rankwise.model_selection import leave_query_out

ALPHAS = 2.0 ** np.arange(-12, 23, 2)
KERNELS = ("linear", "cosine")


def run() -> dict:
    """Test figures of RLS and RankRLS; kernel and alpha by leaving each training sentence out."""
    train, test = load_dataset("bioinfer", part="train"), load_dataset("bioinfer", part="test")
    found: dict[str, dict] = {}
    values = {}
    for make in (RLS, RankRLS):
        best = None
        for kernel in KERNELS:
            ranker = make(kernel=kernel)
            held_out = leave_query_out(ranker, train.X, train.y, qid=train.qid, alphas=ALPHAS)
            at = held_out.best_index
            if best is None or held_out.score[at] < best[0]:
                best = (held_out.score[at], kernel, float(ALPHAS[at]))
        error, kernel, alpha = best
        scores = make(alpha, kernel=kernel).fit(train.X, train.y, qid=train.qid).predict(test.X)
        truth = (test.y, scores, test.qid)
        values[make.__name__] = disagreement_error(*truth, per_query=True)
        found[make.__name__] = {
            "kendall_tau": kendall_tau(*truth),
            "disagreement": disagreement_error(*truth),
            "kernel": kernel,
            "alpha": alpha,
            "held-out": float(error),
        }
    test_of = paired_test(values["RankRLS"], values["RLS"], "disagreement")
    found["p"] = {"p_value": test_of.p_value, "sentences": test_of.n_queries}
    return found
