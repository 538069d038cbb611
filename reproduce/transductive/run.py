"""Do rows without labels help? RankRLS and TransductiveRankRLS with few labelled queries.

Random queries of OHSUMED and MQ2008 have labels; the rows of all others are known, and are ranked.
RankRLS learns from the labelled rows alone, TransductiveRankRLS from all rows. Alpha and smoothness
are chosen by leave-query-out on the labelled queries.

Usage: RANKWISE_DATA=folder python -m reproduce.transductive.run [--write] [PART ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from rankwise import RankingSearchCV, RankRLS, SparseRankRLS, TransductiveRankRLS
from rankwise.data import load_dataset, normalize_per_query
from rankwise.graph import QueryGroups
from rankwise.metrics import disagreement_error, ndcg
from rankwise.problem.smooth_space import neighbor_laplacian
from rankwise.report import Column, Table
from reproduce.command import run_parts

HERE = Path(__file__).parent
TITLES = {"ohsumed": "OHSUMED", "mq2008": "MQ2008"}
SHARES = (0.05, 0.1, 0.2)
SEEDS = 10
SMOOTHNESS = [1.0, 10.0, 100.0]
ALPHAS = np.geomspace(1e-3, 1e4, 15)
KERNEL = {"kernel": "rbf", "n_landmarks": 100, "random_state": 0, "scale": None}


def rankers() -> dict:
    """Each with its grid, and whether it sees the rows without labels."""
    smooth = {"alpha": ALPHAS, "smoothness": SMOOTHNESS}
    return {
        "RankRLS": (RankRLS(scale=None), {"alpha": ALPHAS}, False),
        "TransductiveRankRLS": (TransductiveRankRLS(scale=None), smooth, True),
        "SparseRankRLS, rbf": (SparseRankRLS(**KERNEL), {"alpha": ALPHAS}, False),
        "TransductiveRankRLS, rbf": (TransductiveRankRLS(**KERNEL), smooth, True),
    }


def rows_of(name: str):
    """All rows, scaled to [0, 1] within queries."""
    data = load_dataset(name)
    return normalize_per_query(data.X, data.qid), data.y.astype(float), data.qid


def figures(name: str, share: float, seed: int) -> list[tuple[float, float]]:
    """NDCG@10 and disagreement error of each ranker on the queries without labels."""
    X, y, qid = rows_of(name)
    queries = np.unique(qid)
    rng = np.random.default_rng(seed)
    known = np.isin(qid, rng.choice(queries, round(share * len(queries)), replace=False))
    found = []
    for ranker, grid, sees_all in rankers().values():
        search = RankingSearchCV(ranker, grid, scoring="ndcg@10")
        if sees_all:
            search.fit(X, np.where(known, y, np.nan), qid=qid)
        else:
            search.fit(X[known], y[known], qid=qid[known])
        scores = search.predict(X[~known])
        new = y[~known], scores, qid[~known]
        found.append((ndcg(*new, k=10), disagreement_error(*new)))
    return found


def labels(quick: bool) -> list[Table]:
    """Test figures by share of labelled queries."""
    tables = []
    n_seeds = 2 if quick else SEEDS
    for name, title in TITLES.items():
        rows = []
        for share in SHARES:
            found = np.array([figures(name, share, seed) for seed in range(n_seeds)])
            spread = found.std(axis=0, ddof=1) / np.sqrt(n_seeds)
            for k, ranker in enumerate(rankers()):
                gain = found[:, k] - found[:, k - k % 2]
                error = gain.std(axis=0, ddof=1) / np.sqrt(n_seeds)
                beside = [f"{gain[:, m].mean():+.4f} ± {error[m]:.4f}" for m in (0, 1)]
                row = [f"{share:.0%}", ranker]
                for m in (0, 1):
                    row.append(f"{found[:, k, m].mean():.4f} ± {spread[k, m]:.4f}")
                    row.append(beside[m] if k % 2 else "–")
                rows.append(tuple(row))
        columns = ("labelled", "ranker", "NDCG@10", "gain", "disagreement error", "change")
        tables.append(
            Table(
                tuple(Column(name, "") for name in columns),
                tuple(rows),
                title=f"{title}, {n_seeds} draws of labelled queries: mean ± s.e.",
            )
        )
    return tables


def timing(quick: bool) -> list[Table]:
    """CPU time of a fit at one alpha, given the graph, and of RankRLS on the same rows."""
    rows = []
    for name, title in TITLES.items():
        X, y, qid = rows_of(name)
        groups = QueryGroups.of(qid)
        M = neighbor_laplacian(X, groups, 10)

        def graph(X=X, groups=groups):
            neighbor_laplacian(X, groups, 10)

        def plain(X=X, y=y, qid=qid):
            RankRLS(1.0, scale=None).fit(X, y, qid=qid)

        def smooth(X=X, y=y, qid=qid, M=M):
            with patch("rankwise.problem.smooth_space.neighbor_laplacian", lambda *_: M):
                TransductiveRankRLS(1.0, scale=None).fit(X, y, qid=qid)

        found = [_seconds(call, 3 if quick else 15) for call in (plain, graph, smooth)]
        rows.append((title, *(f"{s:.3f}" for s in found), f"{found[2] / found[0]:.2f}"))
    names = ("data", "RankRLS, s", "graph, s", "fit with the graph, s", "/ RankRLS")
    columns = tuple(Column(name, "") for name in names)
    return [Table(columns, tuple(rows), title="CPU time of a fit to all rows, all labelled")]


def _seconds(call, repeats: int) -> float:
    """The shortest of several calls."""
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


if __name__ == "__main__":
    sys.exit(run_parts(HERE, str(__doc__), {"labels": labels, "time": timing}))
