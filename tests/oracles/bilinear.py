"""Algorithm 1 of the sparse bilinear paper on a dense W, shrinking all entries every T steps."""

import numpy as np


def naive_sgd(
    W, Q, D, triplets, *, lam, eta0, schedule, T, support=None, prior=None, grouped=False
):
    """W after one step for each triplet; `support` freezes all other entries (section III.B).

    W shrinks to `prior`, or to 0; with `grouped`, the norms of its rows do.
    """
    W = np.array(W, dtype=float)
    prior = np.zeros_like(W) if prior is None else prior
    squares = np.zeros(len(W))
    threshold = np.zeros(len(W))
    for t, (q, better, worse) in enumerate(triplets, start=1):
        difference = D[better] - D[worse]
        gradient = np.zeros_like(W)
        if Q[q] @ W @ difference < 1:
            gradient = -np.outer(Q[q], difference)
        if schedule == "adagrad":
            squares += (gradient**2).sum(axis=1)
            rate = np.array([eta0 / np.sqrt(s) if s > 0 else 0.0 for s in squares])
        elif schedule == "constant":
            rate = np.full(len(W), eta0)
        else:
            rate = np.full(len(W), eta0 / np.sqrt(t))
        step = rate[:, None] * gradient
        W -= step if support is None else np.where(support, step, 0.0)
        threshold += lam * rate
        if t % T == 0:
            away = W - prior
            size = np.linalg.norm(away, axis=1)[:, None] if grouped else np.abs(away)
            left = np.maximum(size - threshold[:, None], 0.0)
            W = prior + np.where(size > 0, away / np.where(size > 0, size, 1.0), 0.0) * left
            threshold[:] = 0.0
    return W


def naive_scores(W, Q, D):
    """q'Wd for all pairs: three loops."""
    scores = np.zeros((len(Q), len(D)))
    for k, q in enumerate(Q):
        for m, d in enumerate(D):
            for i in np.flatnonzero(q):
                scores[k, m] += q[i] * (W[i] @ d)
    return scores


def mean_precisions(scores, triplets, *, pool):
    """Average precision of each query by its definition, over all orders of equal scores.

    With `pool`, the documents are all preferred ones; otherwise those of the query's triplets.
    """
    found = []
    for query in np.unique(triplets[:, 0]):
        own = triplets[triplets[:, 0] == query]
        relevant = set(own[:, 1].tolist())
        ranked = set((triplets[:, 1] if pool else own[:, 1:].ravel()).tolist())
        total = 0.0
        for d in relevant:
            s = scores[query]
            above = [e for e in ranked if s[e] > s[d] + 1e-12]
            tied = [e for e in ranked if e != d and abs(s[e] - s[d]) <= 1e-12]
            n_above, n_tied = len(above), len(tied)
            good_above, good_tied = (len(relevant & set(part)) for part in (above, tied))
            # d is at each place among the tied with equal chance, the others at random
            for k in range(n_tied + 1):
                share = good_tied * k / n_tied if n_tied else 0.0
                total += (good_above + share + 1) / (n_above + k + 1) / (n_tied + 1)
        found.append(total / len(relevant))
    return found
