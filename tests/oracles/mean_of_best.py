"""The mean of the best candidates, written out with loops."""

import numpy as np
from scipy.stats import t

from rankwise.metrics import disagreement_error, ndcg

METRICS = {
    "ndcg@10": lambda *ranking: ndcg(*ranking, k=10, per_query=True).values,
    "disagreement": lambda *ranking: -disagreement_error(*ranking, per_query=True).values,
}


def standardized(scores, qid):
    """Scores of one candidate with mean 0 and standard deviation 1 in each query."""
    out = np.zeros(len(scores))
    for query in set(qid.tolist()):
        rows = qid == query
        spread = scores[rows].std()
        if spread > 1e-9 * np.abs(scores).max():
            out[rows] = (scores[rows] - scores[rows].mean()) / spread
    return out


def values(y, qid, scores, metric):
    """The metric of a ranking, greater is better, on each query on which it is defined."""
    return METRICS[metric](y, scores, qid)


def choose(table, batches, n_best, per_batch=2, errors=False):
    """Indices of candidates, from a table of candidates by queries; `errors` are negated."""
    order = sorted(range(len(table)), key=lambda c: -table[c].mean())
    best, chosen = table[order[0]], []
    score = best.mean() + errors
    margin = max(0.05 * min(score, 1 - score), 0)
    for c in order:
        gap = best - table[c]
        n = len(gap)
        worse = n > 1 and gap.mean() > t.ppf(0.975, n - 1) * gap.std(ddof=1) / np.sqrt(n)
        worse = worse and gap.mean() > margin
        same = sum(batches[other] == batches[c] for other in chosen)
        if len(chosen) < n_best and same < per_batch and not worse:
            chosen.append(c)
    return chosen


def outer_values(y, qid, scores, batches, n_best, metric, per_batch=2, n_folds=10):
    """On each query, the metric of the mean that is chosen by the queries of other folds."""
    table = np.array([values(y, qid, f, metric) for f in scores])
    found = np.empty(table.shape[1])
    for fold in range(min(n_folds, len(found))):
        others = [q for q in range(len(found)) if q % n_folds != fold]
        errors = metric == "disagreement"
        chosen = choose(table[:, others], batches, n_best, per_batch, errors)
        mean = np.mean(scores[chosen], axis=0)
        found[fold::n_folds] = values(y, qid, mean, metric)[fold::n_folds]
    return found
