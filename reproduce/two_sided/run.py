"""Kinase inhibitors and their targets: TwoSidedRankRLS and Kronecker ridge regression.

Davis et al. (2011) measured the affinities of 68 drugs to 442 targets. Drugs have two kernels (2D
structures and ECFP4 fingerprints), targets have one (normalized Smith-Waterman scores). Ten folds
of drugs, of targets or of cells are new. Alpha and the weights of the kernels of drugs are chosen
by hold-outs within the training part.

Usage: RANKWISE_DATA=folder python -m reproduce.two_sided.run [--write] [PART ...]
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from rankwise import TwoSidedRankRLS
from rankwise.errors import DataError
from rankwise.metrics import disagreement_error
from rankwise.report import Column, Table
from reproduce.command import run_parts

HERE = Path(__file__).parent
FILES = {
    "Y": "drug-target_interaction_affinities_Kd__Davis_et_al.2011",
    "2D": "drug-drug_similarities_2D",
    "ECFP4": "drug-drug_similarities_ECFP4",
    "G": "target-target_similarities_WS",
}
FOLDS, SEED = 10, 0
ALPHAS = 10.0 ** np.arange(-6, 2.1, 0.5)
MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)  # weight of the first kernel of the drugs
KERNELS = {"2D": ("2D",), "2D and ECFP4": ("2D", "ECFP4")}


def davis() -> dict[str, Any]:
    """Affinities as -log10(Kd / 1e9), and kernels of drugs and targets."""
    folder = os.environ.get("RANKWISE_DATA")
    if folder is None:
        raise DataError("Set RANKWISE_DATA to the folder of the data.")
    found = {}
    for name, file in FILES.items():
        with gzip.open(Path(folder, "drug_target", "davis", f"{file}.txt.gz")) as text:
            found[name] = np.loadtxt(text)
    found["Y"] = -np.log10(found["Y"] / 1e9)
    size = np.sqrt(np.diagonal(found["G"]))
    found["G"] = found["G"] / size[:, None] / size
    for name in ("2D", "ECFP4", "G"):
        found[name] = (found[name] + found[name].T) / 2
    return found


def folds(n: int) -> list[Any]:
    """Ten random folds."""
    return np.array_split(np.random.default_rng(SEED).permutation(n), FOLDS)


def splits(n: int) -> Iterator[tuple[Any, Any]]:
    """Training part and held-out part of each fold."""
    for fold in folds(n):
        yield np.setdiff1d(np.arange(n), fold), fold


def concordance(Y: Any, scores: Any) -> Any:
    """Of each row with different affinities; NaN for others."""
    n, m = Y.shape
    found = disagreement_error(
        Y.ravel(), scores.ravel(), np.repeat(np.arange(n), m), per_query=True
    )
    out = np.full(n, np.nan)
    out[found.qid] = 1.0 - found.values
    return out


def ridge(K: Any, G: Any, Y: Any, alphas: Any, K_new: Any, G_new: Any) -> list[Any]:
    """Kronecker ridge regression of all cells, as plain NumPy: scores for each alpha."""
    mean = Y.mean()
    (s, P), (t, Q) = np.linalg.eigh(K), np.linalg.eigh(G)
    Z = P.T @ (Y - mean) @ Q
    left, right = K_new @ P, Q.T @ G_new.T
    return [mean + left @ (Z / (np.outer(s, t) + alpha)) @ right for alpha in alphas]


def chosen_ridge(kernels: list[Any], G: Any, Y: Any, new: str, score: Callable) -> tuple[Any, Any]:
    """The kernel of drugs and the alpha whose scores of held-out training parts are best."""
    tried = []
    for weight in MIXES if len(kernels) > 1 else (1.0,):
        K = weight * kernels[0] + (1 - weight) * kernels[-1]
        by_alpha = []
        for train, fold in splits(len(K) if new == "rows" else len(G)):
            if new == "rows":
                found = ridge(K[np.ix_(train, train)], G, Y[train], ALPHAS, K[fold][:, train], G)
                by_alpha.append([np.nanmean(score(Y[fold], f)) for f in found])
            else:
                inner = G[np.ix_(train, train)]
                found = ridge(K, inner, Y[:, train], ALPHAS, K, G[fold][:, train])
                by_alpha.append([np.nanmean(score(Y[:, fold], f)) for f in found])
        means = np.mean(by_alpha, axis=0)
        tried.append((means.max(), weight, ALPHAS[means.argmax()]))
    _, weight, alpha = max(tried)
    return weight * kernels[0] + (1 - weight) * kernels[-1], alpha


def within_drugs(Y: Any, scores: Any) -> Any:
    return concordance(Y, scores)


def within_targets(Y: Any, scores: Any) -> Any:
    return concordance(Y.T, scores.T)


def new_drugs(data: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The concordance within each drug that was held out, of both methods."""
    Y, G, kernels = data["Y"], data["G"], [data[name] for name in names]
    found = {"ridge": np.full(len(Y), np.nan), "ranking": np.full(len(Y), np.nan)}
    for train, fold in splits(len(Y)):
        old = [K[np.ix_(train, train)] for K in kernels]
        K, alpha = chosen_ridge(old, G, Y[train], "rows", within_drugs)
        weight = _weight(K, old)
        new = weight * kernels[0] + (1 - weight) * kernels[-1]
        (scores,) = ridge(K, G, Y[train], [alpha], new[fold][:, train], G)
        found["ridge"][fold] = within_drugs(Y[fold], scores)
        ranker = ranker_of(len(names), compare="columns", for_new="rows").fit(old, G, Y[train])
        scores = ranker.predict([K[fold][:, train] for K in kernels])
        found["ranking"][fold] = within_drugs(Y[fold], scores)
    return found


def _weight(K: Any, kernels: list[Any]) -> float:
    """The weight of the first kernel in a mixture of two."""
    gap = kernels[0] - kernels[-1]
    return float(((K - kernels[-1]) * gap).sum() / (gap**2).sum()) if gap.any() else 1.0


def ranker_of(n_kernels: int, **options: Any) -> TwoSidedRankRLS:
    """The ranker of this library with precomputed kernels."""
    return TwoSidedRankRLS(
        row_kernel=["precomputed"] * n_kernels, column_kernel="precomputed",
        row_weights="auto", random_state=SEED, **options,
    )  # fmt: skip


def new_targets(data: dict[str, Any], names: tuple[str, ...], within: str) -> dict[str, Any]:
    """The concordance of new targets within drugs, or within each new target."""
    Y, G, kernels = data["Y"], data["G"], [data[name] for name in names]
    score = within_drugs if within == "drug" else within_targets
    parts: dict[str, list[Any]] = {"ridge": [], "ranking": []}
    for train, fold in splits(len(G)):
        old, new = G[np.ix_(train, train)], G[fold][:, train]
        K, alpha = chosen_ridge(kernels, old, Y[:, train], "columns", score)
        (scores,) = ridge(K, old, Y[:, train], [alpha], K, new)
        parts["ridge"].append(score(Y[:, fold], scores))
        compare = "columns" if within == "drug" else "rows"
        ranker = ranker_of(len(names), compare=compare, for_new="columns")
        scores = ranker.fit(kernels, old, Y[:, train]).predict(kernels, new)
        parts["ranking"].append(score(Y[:, fold], scores))
    if within == "drug":  # the mean over folds, for each drug
        return {name: np.nanmean(found, axis=0) for name, found in parts.items()}
    return {name: np.concatenate(found) for name, found in parts.items()}


def drugs(quick: bool) -> list[Table]:
    """New drugs."""
    data = davis()
    rows = []
    for name, names in list(KERNELS.items())[: 1 if quick else None]:
        rows += compared("within a drug", name, new_drugs(data, names))
    return [table("New drugs: ten folds of 68 drugs", rows)]


def targets(quick: bool) -> list[Table]:
    """New targets."""
    data = davis()
    rows = []
    for within in ("drug", "target"):
        for name, names in list(KERNELS.items())[: 1 if quick else None]:
            rows += compared(f"within a {within}", name, new_targets(data, names, within))
    return [table("New targets: ten folds of 442 targets", rows)]


def cells(quick: bool) -> list[Table]:
    """Random cells, as in most papers: each drug and each target is known."""
    data = davis()
    Y, G, kernels = data["Y"], data["G"], [data["2D"], data["ECFP4"]]
    fold_of = np.random.default_rng(SEED).permutation(np.arange(Y.size) % FOLDS).reshape(Y.shape)
    found: dict[str, list[float]] = {"ranking, all cells": [], "ranking, within drugs": []}
    for k in range(2 if quick else FOLDS):
        known, held = np.where(fold_of == k, np.nan, Y), fold_of == k
        for name, compare in zip(found, ("all", "columns"), strict=True):
            ranker = TwoSidedRankRLS(
                row_kernel=["precomputed"] * 2, column_kernel="precomputed", compare=compare,
                for_new="cells", random_state=SEED, max_iter=300, tol=1e-4,
            )  # fmt: skip
            scores = ranker.fit(kernels, G, known).predict(kernels, G)
            drug = np.nonzero(held)[0] if compare == "columns" else None
            found[name].append(1.0 - disagreement_error(Y[held], scores[held], drug))
    rows = [
        (name, f"{np.mean(c):.3f} ± {np.std(c, ddof=1) / np.sqrt(len(c)):.3f}")
        for name, c in found.items()
    ]
    rows.append(("KronRLS of RLScore, all cells (quoted)", "0.87"))
    columns = Column("", ""), Column("concordance, ± s.e. over folds", "")
    return [Table(columns, tuple(rows), title="Random cells: ten folds")]


def compared(what: str, kernels: str, found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Rows of a table: both methods, their difference and the p-value of a paired test."""
    ours, theirs = found["ranking"], found["ridge"]
    kept = np.isfinite(ours) & np.isfinite(theirs)
    gain = (ours - theirs)[kept]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    p = wilcoxon(ours[kept], theirs[kept]).pvalue
    means = (f"{part[kept].mean():.3f}" for part in (theirs, ours))
    return [(what, kernels, *means, f"{gain.mean():+.4f} ± {error:.4f}", f"{p:.2g}")]


def table(title: str, rows: list[tuple[str, ...]]) -> Table:
    names = ("concordance", "kernels of drugs", "ridge", "ranking loss", "gain, ± s.e.", "p")
    return Table(tuple(Column(name, "") for name in names), tuple(rows), title=title)


if __name__ == "__main__":
    parts = {"new drugs": drugs, "new targets": targets, "random cells": cells}
    sys.exit(run_parts(HERE, str(__doc__), parts))
