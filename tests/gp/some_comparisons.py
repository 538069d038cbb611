"""Comparisons that a Gaussian process learns from quickly, and processes with any options."""

from dataclasses import fields

import numpy as np

from rankwise import GPOptions, PairwiseGP

OPTIONS = {field.name for field in fields(GPOptions)}


def make_gp(kernel=None, **settings):
    """A process from parameters and options."""
    given = {name: settings.pop(name) for name in OPTIONS & settings.keys()}
    return PairwiseGP(kernel, **{"options": GPOptions(**given), **settings})


def some_comparisons(seed=0, n_rows=15, n_pairs=40, n_features=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, n_features))
    f = 3 * np.sin(X).sum(axis=1)
    i = rng.integers(0, n_rows, n_pairs)
    j = (i + rng.integers(1, n_rows, n_pairs)) % n_rows
    win = f[i] - f[j] + rng.standard_normal(n_pairs) > 0
    return X, np.where(win[:, None], np.column_stack((i, j)), np.column_stack((j, i)))
