"""How many comparisons are needed, if they are chosen actively or at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from rankwise import PairwiseGP
from rankwise.data import load_dataset
from rankwise.metrics import disagreement_error
from rankwise.plots import COLORS, INK, new_axes, save_figure
from rankwise.report import Column, Table

STRATEGIES = ("bald", "eubo", "random")
ROUNDS = 100
POOL = 60
DASHES = {"bald": "-", "eubo": (0, (5, 1.5)), "random": (0, (1, 1))}


@dataclass(frozen=True)
class Pool:
    """Rows to compare, and their true scores in units of the noise of a comparison."""

    X: np.ndarray
    f: np.ndarray
    kernel: object


def sinc(seed: int) -> Pool:
    X = np.random.default_rng(seed).uniform(-4, 4, (POOL, 1))
    return Pool(X, 8 * np.sinc(X.ravel()), 10.0 * RBF(0.8))


def plane(seed: int) -> Pool:
    """A draw from the prior on a square."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (POOL, 2))
    kernel = 16.0 * RBF(1.0)
    root = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(POOL))
    return Pool(X, root @ rng.standard_normal(POOL), kernel)


def diabetes(seed: int) -> Pool:
    """Patients, by the progression of their disease as predicted by a linear model."""
    data = load_dataset("diabetes")
    rows = np.random.default_rng(seed).choice(len(data.y), POOL, replace=False)
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    w = np.linalg.lstsq(X, data.y - data.y.mean(), rcond=None)[0]
    f = X @ w
    return Pool(X[rows], 5 * f[rows] / f.std(), 25.0 * RBF(8.0))


POOLS = {"sinc": sinc, "plane": plane, "diabetes": diabetes}


def ask(pool: Pool, strategy: str, seed: int) -> list[float]:
    """Pair error after each comparison."""
    rng = np.random.default_rng([seed, 1])
    gp = PairwiseGP(pool.kernel, optimizer=None).fit_pairs(pool.X, [])
    errors = []
    for _ in range(ROUNDS):
        i, j = gp.suggest_pair(pool.X, strategy=strategy, random_state=rng)
        ahead = pool.f[i] - pool.f[j] + rng.standard_normal() > 0
        gp.tell([i, j] if ahead else [j, i])
        errors.append(disagreement_error(pool.f, gp.predict(pool.X)))
    return errors


def curves(n_seeds: int) -> dict[str, dict[str, np.ndarray]]:
    """Mean pair error of every pool and strategy after each comparison."""
    return {
        name: {
            strategy: np.mean([ask(make(seed), strategy, seed) for seed in range(n_seeds)], axis=0)
            for strategy in STRATEGIES
        }
        for name, make in POOLS.items()
    }


def needed(curve: np.ndarray, level: float) -> int | None:
    """Comparisons until the error stays at or below a level."""
    above = np.flatnonzero(curve > level)
    first = int(above[-1]) + 2 if len(above) else 1
    return first if first <= len(curve) else None


def table(found: dict[str, dict[str, np.ndarray]], n_seeds: int) -> Table:
    rows = []
    for name, by_strategy in found.items():
        level = float(by_strategy["random"][-1])
        asked = {s: needed(by_strategy[s], level) for s in STRATEGIES}
        best = min(asked[s] or np.inf for s in STRATEGIES if s != "random")
        rows.append((name, level, asked["random"], asked["bald"], asked["eubo"], best / ROUNDS))
    columns = (
        Column("pool"),
        Column("pair error", ".3f"),
        Column("random"),
        Column("bald"),
        Column("eubo"),
        Column("share", ".2f"),
    )
    return Table(
        columns,
        tuple(rows),
        f"Comparisons until the pair error of {ROUNDS} random ones, mean of {n_seeds} seeds",
        note="share: comparisons of the better of bald and eubo, relative to random.",
    )


def figure(found: dict[str, dict[str, np.ndarray]], path) -> None:
    axes = new_axes(columns=len(found), size=(3.6, 3.2))
    for ax, (name, by_strategy) in zip(axes, found.items(), strict=True):
        for k, strategy in enumerate(STRATEGIES):
            ax.plot(
                np.arange(1, ROUNDS + 1), by_strategy[strategy], lw=1.8, label=strategy,
                color=COLORS[k], ls=DASHES[strategy],
            )  # fmt: skip
        ax.axhline(by_strategy["random"][-1], color=INK, lw=0.8, alpha=0.5)
        ax.set(xlabel="comparisons", title=name, ylim=(0, 0.5))
    axes[0].set_ylabel("pair error")
    axes[0].legend(frameon=False)
    save_figure(axes[0].figure, path)
