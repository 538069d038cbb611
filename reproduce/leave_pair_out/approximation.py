"""An approximation of leave-pair-out as that of Cortes, Mohri and Rastogi, and its error.

Two rows are held out of ridge regression on rows and labels that were centred once. So the means,
and the number of pairs against which alpha is weighed, stay those of all rows. This takes O(m^2)
time after the same factorization, and its error vanishes with the number of rows.
"""

from __future__ import annotations

import numpy as np

from rankwise import RankRLS
from rankwise.model_selection import leave_pair_out
from rankwise.report import Column, Table

ROWS, ALPHA, FEATURES, SETS = (10, 20, 40, 80, 160, 320), 10.0, 5, 20


def approximate_differences(X: np.ndarray, y: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """f(first) - f(second) of linear RankRLS that compares all pairs, with weight 1 each."""
    X, y = X - X.mean(axis=0), y - y.mean()
    G = np.linalg.inv(X @ X.T + ALPHA / len(y) * np.eye(len(y)))
    a, (i, j) = G @ y, pairs.T
    det = G[i, i] * G[j, j] - G[i, j] ** 2
    first = (G[j, j] * a[i] - G[i, j] * a[j]) / det
    second = (G[i, i] * a[j] - G[i, j] * a[i]) / det
    return (y[i] - y[j]) - (first - second)


def approximation() -> dict:
    """Errors of the approximation over samples of scores with noise."""
    found: dict[str, dict] = {}
    for m in ROWS:
        rng = np.random.default_rng(0)
        size, error, swapped, exact_error, near_error = [], [], [], [], []
        for _ in range(SETS):
            X = rng.standard_normal((m, FEATURES))
            y = X @ rng.standard_normal(FEATURES) + 2.0 * rng.standard_normal(m)
            ranker = RankRLS(ALPHA, weighting="pairs", scale=None)
            held = leave_pair_out(ranker, X, y, return_differences=True)
            exact, near = held.differences[0], approximate_differences(X, y, held.pairs)
            gap = y[held.pairs[:, 0]] - y[held.pairs[:, 1]]
            size.append(np.mean(exact**2))
            error.append(np.mean((near - exact) ** 2))
            swapped.append(np.mean(np.sign(near) != np.sign(exact)))
            exact_error.append(np.mean((gap - exact) ** 2))
            near_error.append(np.mean((gap - near) ** 2))
        found[str(m)] = {
            "error": float(np.sqrt(np.mean(error) / np.mean(size))),
            "swapped": float(np.mean(swapped)),
            "exact": float(np.mean(exact_error)),
            "near": float(np.mean(near_error)),
        }
    return found


def approximation_text(found: dict) -> str:
    header = (
        Column("rows"), Column("relative error", ".1e"), Column("pairs in another order", ".2%"),
        Column("squared error, exact", ".3f"), Column("approximate", ".3f"),
    )  # fmt: skip
    rows = tuple(
        (int(m), v["error"], v["swapped"], v["exact"], v["near"]) for m, v in found.items()
    )
    first, last = (found[str(m)]["error"] for m in (ROWS[0], ROWS[-1]))
    words = (
        f"The root mean square error of held-out differences is {first:.2f} of their size with "
        f"{ROWS[0]} rows, and {last:.1e} with {ROWS[-1]}: means over {SETS} samples."
    )
    return f"{words}\n\n{Table(header, rows, 'An approximation of leave-pair-out').to_markdown()}"
