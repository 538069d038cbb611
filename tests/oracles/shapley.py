"""Shapley values from their definition, one set of players at a time."""

from itertools import chain, combinations
from math import factorial

import numpy as np


def all_sets(d):
    """Every set of d players."""
    sizes = (combinations(range(d), size) for size in range(d + 1))
    return [frozenset(some) for some in chain.from_iterable(sizes)]


def shapley_values(value, d):
    """The values of d players; `value` takes a list of sets of players."""
    sets = all_sets(d)
    v = dict(zip(sets, np.asarray(value(sets), dtype=float).tolist(), strict=True))
    found = []
    for j in range(d):
        total = 0.0
        for some in sets:
            if j not in some:
                size = len(some)
                weight = factorial(size) * factorial(d - 1 - size) / factorial(d)
                total += weight * (v[some | {j}] - v[some])
        found.append(total)
    return np.array(found)


def against_row(predict, x, z):
    """Shapley values of f(x) - f(z), where features that are not those of x come from z."""

    def value(sets):
        rows = [[x[j] if j in some else z[j] for j in range(len(x))] for some in sets]
        return np.asarray(predict(np.array(rows))).ravel()

    return shapley_values(value, len(x))


def against_rows(predict, x, z, background):
    """The mean over rows b of the values of f(x) - f(b), less those of f(z) - f(b)."""
    parts = [against_row(predict, x, b) - against_row(predict, z, b) for b in background]
    return np.mean(parts, axis=0)
