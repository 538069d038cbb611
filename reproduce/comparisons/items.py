"""Binding affinities as comparisons of proteins: items held out, compared with refits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from rankwise import RankRLS
from rankwise.data import Comparisons
from rankwise.errors import DataError
from rankwise.model_selection import leave_comparison_out, leave_item_out
from rankwise.report import Column, Table

N_PAIRS, REFITS, ALPHAS = 4000, 40, np.array([0.1, 1.0, 10.0, 100.0])


def folder() -> Path:
    root = Path(os.environ.get("RANKWISE_DATA", ""), "drug_target", "davis")
    if not os.environ.get("RANKWISE_DATA") or not root.is_dir():
        raise DataError("RANKWISE_DATA must name the folder that holds drug_target/davis.")
    return root


def load(n_pairs: int = N_PAIRS) -> tuple[np.ndarray, Comparisons]:
    """The similarity of proteins, and comparisons of two of them by their affinity to a drug.

    The drug of a comparison is its group. The margin is the difference of -log10 Kd. Pairs with
    equal affinities, most of which are below what was measured, are not compared.
    """
    root = folder()
    similar, affinity = (
        np.loadtxt(root / name)
        for name in (
            "target-target_similarities_WS.txt.gz",
            "drug-target_interaction_affinities_Kd__Davis_et_al.2011.txt.gz",
        )
    )
    size = np.sqrt(np.diag(similar))
    K = (similar + similar.T) / 2 / size / size[:, None]
    s, V = np.linalg.eigh(K)
    K = (V * s.clip(min=0.0)) @ V.T  # similarities need not be a kernel
    strength = -np.log10(affinity)
    rng = np.random.default_rng(0)
    drug = rng.integers(0, len(strength), 20 * n_pairs)
    first, second = rng.integers(0, len(K), (2, len(drug)))
    margin = strength[drug, first] - strength[drug, second]
    some = np.flatnonzero(margin != 0)[:n_pairs]
    drug, first, second, margin = (part[some] for part in (drug, first, second, margin))
    return K, Comparisons.of(first, second, margin=margin, groups=drug)


def refit(K: np.ndarray, given: Comparisons, out: np.ndarray, k: int) -> np.ndarray:
    """The predicted margin of comparison k for each alpha, from a fit without those in `out`."""
    kept = given.take(~out)
    f = RankRLS(kernel="precomputed").path_pairs(K, kept, ALPHAS).predict(K)
    i, j = given.pairs[k]
    return f[:, i] - f[:, j]


def table(n_pairs: int = N_PAIRS, n_refits: int = REFITS) -> Table:
    K, given = load(n_pairs)
    ranker = RankRLS(kernel="precomputed")
    alone = Comparisons.of(*given.pairs.T, margin=given.margin)
    pairs = given.pairs

    def known(k: int) -> np.ndarray:
        return np.arange(len(pairs)) == k

    def group(k: int) -> np.ndarray:
        return given.groups == given.groups[k]

    def one(k: int) -> np.ndarray:
        return (pairs == pairs[k, 0]).any(axis=1)

    def both(k: int) -> np.ndarray:
        return np.isin(pairs, pairs[k]).any(axis=1)

    cases = (
        ("a comparison", lambda: leave_comparison_out(ranker, K, alone, alphas=ALPHAS), known),
        (
            "the comparisons of a drug",
            lambda: leave_comparison_out(ranker, K, given, alphas=ALPHAS),
            group,
        ),
        (
            "a protein, with all its comparisons",
            lambda: leave_item_out(ranker, K, given, new="one", alphas=ALPHAS),
            one,
        ),
        ("both proteins", lambda: leave_item_out(ranker, K, given, alphas=ALPHAS), both),
    )
    checked = np.linspace(0, len(pairs) - 1, n_refits).round().astype(int)
    rows = []
    for name, hold_out, out in cases:
        start = time.process_time()
        found = hold_out()
        seconds = time.process_time() - start
        start = time.process_time()
        again = np.array([refit(K, given, out(k), k) for k in checked]).T
        each = (time.process_time() - start) / n_refits
        gap = np.abs(found.differences[:, checked] - again).max()
        score, error = found.scores("accuracy")
        best = int(np.argmax(score))
        share = each * len(found.compared) / seconds
        rows.append((name, score[best], error[best], found.alphas[best], gap, share))
    columns = (
        Column("held out"),
        Column("accuracy", ".3f"),
        Column("s.e.", ".3f"),
        Column("best alpha", ".3g"),
        Column("difference from refits", ".0e"),
        Column("times faster than refits", ".0f"),
    )
    return Table(
        columns,
        tuple(rows),
        f"Davis: {len(pairs):,} comparisons of {len(K)} proteins by their affinity to a drug",
        note=f"The largest difference of {n_refits} predicted margins from refits, at "
        f"{len(ALPHAS)} alphas. Refits of every prediction are extrapolated from these.",
    )
