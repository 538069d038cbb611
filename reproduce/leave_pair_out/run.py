"""Measure the claims of the leave-pair-out paper: exactness, time, and unbiasedness.

Usage: python -m reproduce.leave_pair_out.run [--write] [steps ...]

Steps are "exactness", "approximation", "timing", "bias", "coverage", "null", "nested", "auto" and
"microarray"; all by default. Data are generated, except those of the last, which need
RANKWISE_DATA.
Results are stored in results.json; ``--write`` writes the tables to the README and the figure.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from rankwise import RLS, RankRLS
from rankwise.metrics import concordance_index
from rankwise.model_selection import k_fold, leave_one_out, leave_pair_out
from rankwise.plots import COLORS, INK, MARKERS, new_axes, save_figure
from rankwise.report import Column, Table
from reproduce.command import run_steps
from reproduce.leave_pair_out import approximation, certainty, levels

HERE = Path(__file__).parent
CLAIMS = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))

EXACT_ROWS, EXACT_ALPHAS = 40, (0.01, 1.0, 100.0)
SIZES, REFIT_SIZES, REFITS = (100, 200, 400, 800, 1600), (100, 200, 400, 800), 20
ROWS, FEATURES, ALPHA, SAMPLES = 30, 10, 30.0, 5000


def largest_error(ranker: Any, X: np.ndarray, y: np.ndarray, qid: np.ndarray | None) -> dict:
    """The largest distance between a held-out difference and that of a refit, over all pairs."""
    result = leave_pair_out(ranker, X, y, qid=qid, alphas=EXACT_ALPHAS, return_differences=True)
    worst, size = 0.0, 0.0
    for a, alpha in enumerate(EXACT_ALPHAS):
        for (i, j), found in zip(result.pairs, result.differences[a], strict=True):
            left = np.setdiff1d(np.arange(len(y)), (i, j))
            refit = type(ranker)(**(ranker.get_params() | {"alpha": alpha}))
            refit.fit(X[left], y[left], qid=None if qid is None else qid[left])
            first, second = refit.predict(X[[i, j]])
            worst = max(worst, float(np.max(np.abs(found - (first - second)))))
            size = max(size, float(np.max(np.abs(first - second))))
    return {"pairs": len(result.pairs) * len(EXACT_ALPHAS), "error": worst, "largest": size}


def exactness() -> dict:
    """Kernels, losses and queries; every pair of each is also refitted."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((EXACT_ROWS, 5))
    scores = X @ rng.standard_normal(5) + rng.standard_normal(EXACT_ROWS)
    classes = (scores > np.median(scores)).astype(float)
    queries = np.arange(EXACT_ROWS) // 8
    outputs = np.column_stack((scores, classes, rng.standard_normal(EXACT_ROWS)))
    cases = {
        "linear, scores": (RankRLS(1.0, weighting="pairs"), scores, None),
        "linear, dual, scores": (RankRLS(1.0, solver="dual", weighting="pairs"), scores, None),
        "rbf, scores": (RankRLS(1.0, kernel="rbf", weighting="pairs", scale=None), scores, None),
        "linear, two classes, ties excluded": (
            RankRLS(1.0, ties="exclude", weighting="pairs"), classes, None,
        ),
        "rbf, two classes, ties excluded": (
            RankRLS(1.0, kernel="rbf", ties="exclude", weighting="pairs", scale=None),
            classes, None,
        ),
        "rbf, scores, five queries": (
            RankRLS(1.0, kernel="rbf", weighting="pairs", scale=None), scores, queries,
        ),
        "rbf, scores, RLS": (RLS(1.0, kernel="rbf", scale=None), scores, None),
        "rbf, three outputs": (
            RankRLS(1.0, kernel="rbf", weighting="pairs", scale=None), outputs, None,
        ),
        "rbf, three outputs, five queries": (
            RankRLS(1.0, kernel="rbf", weighting="pairs", scale=None), outputs, queries,
        ),
    }  # fmt: skip
    return {name: largest_error(ranker, X, y, qid) for name, (ranker, y, qid) in cases.items()}


def timing() -> dict:
    """Seconds for all pairs, and what refits would take: one, timed, for each pair."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((max(SIZES), 20)), rng.standard_normal(max(SIZES))
    ranker = RankRLS(1.0, kernel="rbf", weighting="pairs", scale=None)
    leave_pair_out(ranker, X[:200], y[:200])  # compiles what 100 rows do not need
    ranker.fit(X[:200], y[:200])
    found: dict[str, dict] = {}
    for m in SIZES:
        start = time.perf_counter()
        leave_pair_out(ranker, X[:m], y[:m])
        held_out = time.perf_counter() - start
        start = time.perf_counter()
        ranker.fit(X[:m], y[:m])
        entry = {"held out": held_out, "fit": time.perf_counter() - start}
        if m in REFIT_SIZES:
            rows = list(combinations(range(m), 2))
            chosen = rng.choice(len(rows), REFITS, replace=False)
            start = time.perf_counter()
            for k in chosen:
                left = np.setdiff1d(np.arange(m), rows[k])
                ranker.fit(X[left], y[left]).predict(X[list(rows[k])])
            entry["refits"] = (time.perf_counter() - start) / REFITS * len(rows)
        found[str(m)] = entry
        print(f"{m} rows: {entry}", file=sys.stderr, flush=True)
    return found


def true_auc(w: np.ndarray, shift: np.ndarray) -> float:
    """Of scores w'x between normal classes with unit covariance, `shift` apart."""
    return float(norm.cdf(w @ shift / (np.sqrt(2.0) * np.linalg.norm(w))))


def make_rankers() -> dict[str, Any]:
    """Rankers whose leave-pair-out AUC is compared with that of a fit to two rows less.

    With the same alpha for each row, RankRLS on all pairs of one ranking is RLS with an intercept;
    here it has another alpha. Without tied pairs it is another ranker.
    """
    return {
        "leave-pair-out": RLS(ALPHA),
        "leave-pair-out, RankRLS": RankRLS(ALPHA, weighting="pairs"),
        "leave-pair-out, RankRLS, ties excluded": RankRLS(ALPHA, weighting="pairs", ties="exclude"),
    }


def estimates(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    """One AUC of the same ridge regression by each hold-out."""
    ridge = RLS(ALPHA)
    shuffled = k_fold(ridge, X, y, n_splits=5, metric="auc", random_state=seed)
    stratified = k_fold(ridge, X, y, n_splits=5, metric="auc")
    single = leave_one_out(ridge, X, y).predictions[0]
    return {
        "5 stratified folds, averaged": float(stratified.score[0]),
        "5 stratified folds, pooled": concordance_index(y, stratified.predictions[0]),
        "5 shuffled folds, averaged": float(shuffled.score[0]),
        "5 shuffled folds, pooled": concordance_index(y, shuffled.predictions[0]),
        "leave-one-out, pooled": concordance_index(y, single),
    }


def bias() -> dict:
    """Estimates minus the true AUC of a ridge trained on two rows less, over samples."""
    # Sorted, so that every fifth row makes folds of three of each class: the stratified ones.
    y = np.repeat([0.0, 1.0], ROWS // 2)
    found: dict[str, dict] = {}
    for distance in (0.0, 1.0):
        shift = np.full(FEATURES, distance / np.sqrt(FEATURES))
        rng = np.random.default_rng(0)
        errors: dict[str, list[float]] = {}
        truths = []
        for sample in range(SAMPLES):
            X = rng.standard_normal((ROWS, FEATURES)) + np.outer(y, shift)
            left = np.ones(ROWS, dtype=bool)
            left[[rng.choice(np.flatnonzero(y == label)) for label in (0.0, 1.0)]] = False
            for name, ranker in make_rankers().items():
                value = float(leave_pair_out(ranker, X, y).auc[0])
                own = true_auc(ranker.fit(X[left], y[left]).coef_, shift)
                errors.setdefault(name, []).append(value - own)
                if name == "leave-pair-out":
                    truth = own
            truths.append(truth)
            for name, value in estimates(X, y, sample).items():
                errors.setdefault(name, []).append(value - truth)
        found[f"distance {distance:g}"] = {
            "truth": float(np.mean(truths)),
            "estimates": {
                name: {
                    "bias": float(np.mean(values)),
                    "error": float(np.std(values, ddof=1) / np.sqrt(SAMPLES)),
                    "spread": float(np.std(values, ddof=1)),
                }
                for name, values in errors.items()
            },
        }
        print(f"distance {distance:g}: done", file=sys.stderr, flush=True)
    return found


STEPS = {
    "exactness": exactness,
    "approximation": approximation.approximation,
    "timing": timing,
    "bias": bias,
    "coverage": levels.coverage,
    "null": certainty.null,
    "nested": certainty.nested,
    "auto": certainty.auto,
    "microarray": certainty.microarray,
}


def exactness_text(found: dict) -> str:
    header = (
        Column("case"), Column("refits"), Column("largest difference", ".3g"),
        Column("largest error", ".1e"),
    )  # fmt: skip
    rows = tuple((name, v["pairs"], v["largest"], v["error"]) for name, v in found.items())
    worst = max(v["error"] / v["largest"] for v in found.values())
    words = f"Held-out differences equal those of refits to a relative {worst:.0e}."
    title = "Exactness: every pair held out, compared with refits"
    return f"{words}\n\n{Table(header, rows, title).to_markdown()}"


def timing_text(found: dict) -> str:
    header = (
        Column("rows"), Column("pairs"), Column("one fit, s", ".2g"),
        Column("all pairs held out, s", ".2g"), Column("all pairs refitted, s", ".2g"),
        Column("times faster", ",.0f"),
    )  # fmt: skip
    rows = []
    for m, v in found.items():
        refits = v.get("refits")
        ratio = refits / v["held out"] if refits else None
        rows.append((int(m), int(m) * (int(m) - 1) // 2, v["fit"], v["held out"], refits, ratio))
    sizes = sorted(int(m) for m in found)
    last, before = found[str(sizes[-1])], found[str(sizes[-2])]
    exponent = np.log2(last["held out"] / before["held out"])
    most = CLAIMS["largest exponent of time in m"]
    words = (
        f"Between the last two sizes, the time for all pairs grows as m^{exponent:.1f} (paper, "
        f"quoted: an exponent of at most {most}, that of the fit itself). Refits are timed for "
        f"{REFITS} pairs and extrapolated to all pairs."
    )
    table = Table(header, tuple(rows), "Time, rbf kernel").to_markdown()
    return f"{words}\n\n{table}\n\n![time over rows](timing.svg)"


def bias_text(found: dict) -> str:
    parts = []
    for name, result in found.items():
        header = (
            Column(f"distance of classes: {name.split()[1]}"), Column("bias", "+.4f"),
            Column("± s.e.", ".4f"), Column("standard deviation", ".4f"),
        )  # fmt: skip
        rows = tuple(
            (key, v["bias"], v["error"], v["spread"]) for key, v in result["estimates"].items()
        )
        title = f"Estimates of an AUC whose mean is {result['truth']:.3f}"
        parts.append(Table(header, rows, title).to_markdown())
    within = [
        abs(estimate["bias"]) / estimate["error"]
        for r in found.values()
        for name, estimate in r["estimates"].items()
        if name.startswith("leave-pair-out")
    ]
    pooled = min(r["estimates"]["leave-one-out, pooled"]["bias"] for r in found.values())
    words = (
        f"The bias of leave-pair-out is at most {max(within):.1f} standard errors. Rows that do "
        "not name RankRLS are for RLS. The bias of "
        f"pooled leave-one-out is up to {pooled:+.3f}. The standard deviation is that of the "
        "difference between an estimate and the true value for its own sample."
    )
    return f"{words}\n\n" + "\n\n".join(parts)


def draw(found: dict) -> None:
    """Seconds over rows."""
    (ax,) = new_axes(size=(5.2, 3.6))
    lines = (
        ("held out", "all pairs held out"),
        ("refits", "all pairs refitted"),
        ("fit", "one fit"),
    )
    for k, (key, label) in enumerate(lines):
        sizes = [int(m) for m in found if key in found[m]]
        look = {"color": COLORS[k], "marker": MARKERS[k], "ms": 5, "lw": 1.5}
        ax.plot(sizes, [found[str(m)][key] for m in sizes], label=label, **look)
    ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    ax.legend(frameon=False, labelcolor=INK)
    save_figure(ax.figure, HERE / "timing.svg")


TEXTS = {
    "exactness": exactness_text,
    "approximation": approximation.approximation_text,
    "timing": timing_text,
    "bias": bias_text,
    "coverage": levels.coverage_text,
    "null": certainty.null_text,
    "nested": certainty.nested_text,
    "auto": certainty.auto_text,
    "microarray": certainty.microarray_text,
}


def texts(results: dict) -> dict[str, str]:
    """Blocks of the README, of the steps that have results; draws the figures."""
    if "timing" in results:
        draw(results["timing"])
    return {step: TEXTS[step](results[step]) for step in STEPS if step in results}


if __name__ == "__main__":
    sys.exit(run_steps(HERE, __doc__, STEPS, texts))
