"""Ridge regression with weights of given signs, by trying all sets of weights that are 0."""

from itertools import product

import numpy as np


def best_signed_weights(Z, t, lam, signs):
    """The best weights with these signs among the solutions for all sets of zeros."""
    n, best, least = Z.shape[1], None, np.inf
    for zero in product([False, True], repeat=n):
        free = ~np.array(zero)
        w = np.zeros(n)
        rows = np.vstack((Z[:, free], np.sqrt(lam) * np.eye(int(free.sum()))))
        target = np.concatenate((t, np.zeros(int(free.sum()))))
        w[free] = np.linalg.lstsq(rows, target, rcond=None)[0]
        if (np.array(signs) * w < 0).any():
            continue
        loss = np.sum((t - Z @ w) ** 2) + lam * w @ w
        if loss < least:
            best, least = w, loss
    return best
