"""PairwiseGP.leave_one_out: agreement with fits without each comparison, and its cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel

from benchmarks.harness import Result, best_times, seconds
from rankwise import PairwiseGP

PROBLEMS: dict[str, tuple[int, int, float, dict[str, Any]]] = {
    "40 rows, 80 comparisons": (40, 80, 0.0, {}),
    "80 rows, 100 comparisons": (80, 100, 0.0, {}),
    "15 items without features, 200 comparisons": (15, 200, 0.0, {"kernel": WhiteKernel(1.0)}),
    "25 rows, 150 comparisons with ties": (25, 150, 0.6, {"tie_model": "threshold"}),
    "a linear kernel, 60 rows, 100 comparisons": (
        60, 100, 0.3, {"kernel": 1.0 * DotProduct(0.0, "fixed")}
    ),
}  # fmt: skip


def comparisons(n_rows: int, n_pairs: int, threshold: float) -> tuple[Any, Any, Any]:
    """Rows, pairs, and which row won, or a tie where the difference is below a threshold."""
    rng = np.random.default_rng(n_rows)
    X = rng.uniform(-2, 2, (n_rows, 2))
    f = 1.5 * np.sin(2 * X).sum(axis=1)
    first = rng.integers(0, n_rows, n_pairs)
    second = (first + rng.integers(1, n_rows, n_pairs)) % n_rows
    gap = f[first] - f[second] + rng.standard_normal(n_pairs)
    outcome = np.where(np.abs(gap) < threshold, "tie", np.where(gap > 0, "first", "second"))
    return X, np.column_stack((first, second)), outcome


def refits(gp: PairwiseGP, X: Any, pairs: Any, outcome: Any) -> float:
    """Log-loss of fits without each comparison, with the same hyperparameters."""
    given = {"noise": gp.noise_, "flips": gp.flips_, "optimizer": None}
    if gp.threshold_:
        given["tie_model"] = gp.threshold_
    model = clone(gp).set_params(kernel=gp.kernel_, **given)
    total = 0.0
    for k in range(len(pairs)):
        kept = np.arange(len(pairs)) != k
        model.fit_pairs(X, pairs[kept], margin=outcome[kept])
        win, tie, loss = model.predict_outcomes(*X[pairs[[k]].T])[0]
        if outcome[k] == "tie" and not gp.threshold_:
            total -= 0.5 * np.log(win * loss)
        else:
            total -= np.log({"first": win, "tie": tie, "second": loss}[outcome[k]])
    return total / len(pairs)


def cases() -> list[Result]:
    results = []
    for what, (n_rows, n_pairs, threshold, settings) in PROBLEMS.items():
        X, pairs, outcome = comparisons(n_rows, n_pairs, threshold)
        gp = PairwiseGP(**settings).fit_pairs(X, pairs, margin=outcome)
        gp.leave_one_out()
        losses: dict[str, float] = {}
        (fast,) = best_times(
            lambda gp=gp, losses=losses: losses.update(ours=gp.leave_one_out().log_loss), repeats=5
        )
        (slow,) = best_times(
            lambda given=(gp, X, pairs, outcome), losses=losses: losses.update(
                refits=refits(*given)
            ),
            repeats=1,
        )
        ours, theirs = losses["ours"], losses["refits"]
        results += [
            Result(
                f"log-loss of held-out comparisons, {what}",
                f"{ours:.4f}",
                f"refits: {theirs:.4f}; at most 0.005 apart",
                abs(ours - theirs) / 0.005,
                1.0,
            ),
            Result(
                f"leave_one_out, {what}",
                seconds(fast),
                f"refits: {seconds(slow)}",
                fast / slow,
                0.01,
            ),
        ]
    return results
