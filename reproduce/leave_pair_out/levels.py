"""How often intervals of held-out AUCs, and of their differences, miss the truth.

Classes are normal with unit covariance. Held-out AUCs are unbiased, so that the truth is their mean
over all samples of a case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
from scipy.stats import norm

from rankwise import RankRLS
from rankwise.model_selection import auc_difference, auc_interval
from rankwise.report import Column, Table

SETS = {20: 1000, 30: 1000, 60: 1000, 200: 400}  # samples of each case, by the number of rows
AUCS = (0.5, 0.6, 0.7, 0.8, 0.9)
POWER_ROWS, POWER_AUCS = 60, (0.8, 0.65)
ALPHA = 10.0
Sample = tuple[RankRLS, np.ndarray, RankRLS, np.ndarray, np.ndarray]


def rows(
    n: int, share: float, features: int, auc: float, rng: np.random.Generator, *, spread: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels whose best possible AUC is `auc`, by the first feature or by all."""
    y = np.zeros(n)
    y[: round(share * n)] = 1.0
    shift = np.zeros(features)
    shift[: features if spread else 1] = 1.0
    shift *= np.sqrt(2.0) * norm.ppf(auc) / np.linalg.norm(shift)
    return rng.standard_normal((n, features)) + np.outer(y, shift), y


def linear(alpha: float = ALPHA) -> RankRLS:
    return RankRLS(alpha, scale=None)


def two_sets(features: int, share: float = 0.5, alpha: float = ALPHA) -> Callable[..., Sample]:
    """Rankers on two sets of features that say equally much, or `other` for the second."""

    def sample(n: int, auc: float, rng: np.random.Generator, other: float | None = None) -> Sample:
        spread = features > n
        X, y = rows(n, share, features, auc, rng, spread=spread)
        Z, _ = rows(n, share, features, auc if other is None else other, rng, spread=spread)
        return linear(alpha), X, linear(alpha), Z, y

    return sample


def added_noise(n: int, auc: float, rng: np.random.Generator) -> Sample:
    """The second ranker has five features more, which say nothing."""
    X, y = rows(n, 0.5, 10, auc, rng, spread=False)
    return linear(), X[:, :5], linear(), X, y


def two_kernels(n: int, auc: float, rng: np.random.Generator) -> Sample:
    X, y = rows(n, 0.5, 5, auc, rng, spread=False)
    return linear(), X, RankRLS(1.0, kernel="rbf", gamma=0.2, scale=None), X, y


def two_alphas(n: int, auc: float, rng: np.random.Generator) -> Sample:
    X, y = rows(n, 0.5, 20, auc, rng, spread=False)
    return linear(0.1), X, linear(100.0), X, y


CASES: dict[str, Callable[..., Sample]] = {
    "5 features each": two_sets(5),
    "5 features each, 20% positive": two_sets(5, share=0.2),
    "1 feature each": two_sets(1, alpha=1.0),
    "300 features each": two_sets(300, alpha=100.0),
    "5 features, and 5 more of noise": added_noise,
    "linear and rbf kernel": two_kernels,
    "alpha 0.1 and 100, 20 features": two_alphas,
}


def measured(case: str, n: int, auc: float, n_sets: int, other: float | None = None) -> dict:
    """Shares of samples whose intervals miss the mean over samples, and in which p < 0.05."""
    rng = np.random.default_rng([n, round(100 * auc), *case.encode()])
    options = {} if other is None else {"other": other}
    intervals, gaps = [], []
    for _ in range(n_sets):
        first, X, second, Z, y = CASES[case](n, auc, rng, **options)
        intervals.append(auc_interval(first, X, y))
        gaps.append(auc_difference(first, second, X, y, X_second=Z))
    truth = np.mean([found.auc for found in intervals])
    gap = np.mean([found.difference for found in gaps])
    return {
        "auc": float(truth),
        "interval misses": float(np.mean([not i.low <= truth <= i.high for i in intervals])),
        "difference": float(gap),
        "difference misses": float(np.mean([not g.low <= gap <= g.high for g in gaps])),
        "p below 0.05": float(np.mean([g.p_value < 0.05 for g in gaps])),
    }


def coverage() -> dict:
    """All cases, in a process for each core."""
    calls = [(case, n, auc, SETS[n]) for n, case, auc in product(SETS, CASES, AUCS)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = [pool.submit(measured, *call) for call in reversed(calls)]
        strong, weak = POWER_AUCS
        power = pool.submit(measured, "5 features each", POWER_ROWS, strong, SETS[POWER_ROWS], weak)
        cells = {
            f"{case}|{n}|{auc}": cell.result()
            for (case, n, auc, _), cell in zip(reversed(calls), found, strict=True)
        }
    return {"cells": cells, "power": power.result(), "sets": {str(n): k for n, k in SETS.items()}}


def coverage_text(found: dict) -> str:
    cells = found["cells"]
    tables = []
    for key, title in (
        ("interval misses", "Share of samples whose interval of 95% misses the mean AUC"),
        ("difference misses", "Share of samples whose interval misses the mean difference of AUCs"),
    ):
        lines = [
            (case, n, *(cells[f"{case}|{n}|{auc}"][key] for auc in AUCS))
            for case, n in product(CASES, found["sets"])
        ]
        header = (Column("rankers"), Column("rows"), *(Column(f"AUC {a}", ".3f") for a in AUCS))
        tables.append(Table(header, tuple(lines), title).to_markdown())
    sets = ", ".join(
        f"{k:,} samples of {n} rows (standard error {np.sqrt(0.05 * 0.95 / k):.3f})"
        for n, k in found["sets"].items()
    )
    power, (strong, weak) = found["power"], POWER_AUCS
    words = (
        f"{sets}. Columns have the best possible AUC. Where both rankers are equally good (the "
        "first four cases), a share in the second table is about that of p below 0.05.\n\n"
        f"Power: with five features each, {POWER_ROWS} rows, and a best possible AUC of {strong} "
        f"for the one and {weak} for the other, p is below 0.05 in {power['p below 0.05']:.0%} of "
        f"all samples (mean difference of held-out AUCs: {power['difference']:.3f})."
    )
    return "\n\n".join((words, *tables))
