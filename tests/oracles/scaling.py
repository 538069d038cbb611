"""Scalings within queries, with a loop over queries and features."""

import numpy as np
from scipy.stats import rankdata


def minmax(values):
    span = values.max() - values.min()
    return (values - values.min()) / span if span > 0 else np.zeros(len(values))


def standard(values):
    """In units of the range, whose squares do not underflow."""
    values = minmax(values.astype(float))
    return (values - values.mean()) / values.std() if values.any() else values


def ranks(values):
    n = len(values)
    return (rankdata(values) - (n + 1) / 2) / (n - 1) if n > 1 else np.zeros(1)


ORACLES = {"query-minmax": minmax, "query-standard": standard, "query-ranks": ranks}


def scaled_by_loops(name, X, qid):
    """The scaling with this name, one query and one feature at a time."""
    out = np.zeros_like(X)
    for query in set(qid):
        rows = [i for i in range(len(qid)) if qid[i] == query]
        for j in range(X.shape[1]):
            out[rows, j] = ORACLES[name](X[rows, j])
    return out
