"""The first call in a new process, without loops that were compiled before: small data, and more.

CPU time beyond the imports, relative to ``import sklearn.linear_model`` in the same run. Of the
first PairwiseGP, most is compiling the quadrature of its likelihood.
"""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

from benchmarks.harness import Result, seconds

DATA = """
import time
import numpy as np
import rankwise
rng = np.random.default_rng(0)
X = rng.standard_normal((600, 8))
y = np.clip(np.round(X[:, 0] + rng.standard_normal(600)), 0, 4)
qid = np.arange(600) // 10
first, second = rng.integers(0, 50, (2, 200))
pairs = np.column_stack([first, second])[first != second]
names = np.array([f"item {k}" for k in range(50)])
"""
MORE = """
X = rng.standard_normal((20_000, 20))
y = np.clip(np.round(X[:, 0] + rng.standard_normal(len(X))), 0, 4)
qid = np.arange(len(X)) // 100
first, second = rng.integers(0, 50, (2, len(X)))
pairs = np.column_stack([first, second])[first != second]
"""
FIRST = """
before = time.process_time()
{call}
print(time.process_time() - before)
"""
CALLS = {
    # name: (what is imported before, the call)
    "RankRLS": ("from rankwise import RankRLS", "RankRLS().fit(X, y, qid=qid)"),
    "RankRLS(1.0)": ("from rankwise import RankRLS", "RankRLS(1.0).fit(X, y, qid=qid)"),
    "RankSVM": ("from rankwise import RankSVM", "RankSVM().fit(X, y, qid=qid)"),
    "Leaderboard": (
        "from rankwise import Leaderboard",
        'Leaderboard().fit(*names[pairs.T], ["first"] * len(pairs))',
    ),
    "evaluate_ranking": (
        "from rankwise.metrics import evaluate_ranking",
        "evaluate_ranking(y, X[:, 0], qid=qid)",
    ),
    "leave_query_out": (
        "from rankwise import RankRLS; from rankwise.model_selection import leave_query_out",
        "leave_query_out(RankRLS(1.0), X, y, qid=qid)",
    ),
    "leave_pair_out": (
        "from rankwise import RankRLS; from rankwise.model_selection import leave_pair_out",
        "leave_pair_out(RankRLS(1.0), X, y)",
    ),
    "SparseRankRLS": (
        "from rankwise import SparseRankRLS",
        "SparseRankRLS(n_landmarks=50, random_state=0).fit(X, y, qid=qid)",
    ),
    "KPCRank": ("from rankwise import KPCRank", "KPCRank().fit(X, y, qid=qid)"),
    "permutation_test": (
        "from rankwise import RankRLS; from rankwise.model_selection import permutation_test",
        "permutation_test(RankRLS(1.0), X, y)",
    ),
    "PairwiseGP.fit_pairs": (
        "from rankwise import PairwiseGP",
        "PairwiseGP().fit_pairs(X[:50], pairs)",
    ),
    "AutoRanker": (
        "from rankwise import AutoRanker",
        "AutoRanker(boosted=False).fit(X, y, qid=qid)",
    ),
}
LIMITS = {
    "RankRLS": 0.3,
    "RankSVM": 0.3,
    "Leaderboard": 0.3,
    "evaluate_ranking": 0.3,
    "leave_pair_out": 1.0,
    "SparseRankRLS": 1.0,
    "KPCRank": 1.0,
    "permutation_test": 1.0,
    "PairwiseGP.fit_pairs": 3.0,
    "AutoRanker": 2.0,
}
MORE_LIMITS = {
    "RankRLS": 2.0,
    "RankRLS(1.0)": 0.3,
    "RankSVM": 2.0,
    "Leaderboard": 0.3,
    "evaluate_ranking": 0.3,
    "leave_query_out": 0.3,
    "SparseRankRLS": 2.0,
}
REPEATS = 3


def cpu_seconds(program: str) -> float:
    """The number that a program prints, the smallest of some runs with an empty cache."""
    best = float("inf")
    for _ in range(REPEATS):
        with TemporaryDirectory() as folder:
            run = subprocess.run(
                [sys.executable, "-c", program],
                check=True,
                capture_output=True,
                text=True,
                env=os.environ | {"NUMBA_CACHE_DIR": folder},
            )
        best = min(best, float(run.stdout.split()[-1]))
    return best


def cases() -> list[Result]:
    peer = cpu_seconds("import time" + FIRST.format(call="import sklearn.linear_model"))
    results = []
    for shape, more, limits in (("600 x 8", "", LIMITS), ("20,000 x 20", MORE, MORE_LIMITS)):
        for name, limit in limits.items():
            imports, call = CALLS[name]
            ours = cpu_seconds(DATA + more + imports + FIRST.format(call=call))
            results.append(
                Result(
                    f"first call of {name}, {shape}",
                    f"{seconds(ours)} of CPU",
                    f"import sklearn.linear_model: {seconds(peer)}",
                    ours / peer,
                    limit,
                )
            )
    return results
