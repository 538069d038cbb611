"""Importing rankwise costs little more than importing scikit-learn's base."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.harness import Result, best_times, seconds


def cases() -> list[Result]:
    def importing(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    everything, base, ranker = best_times(
        lambda: importing("import rankwise"),
        lambda: importing("import sklearn.base"),
        lambda: importing("from rankwise import RankRLS"),
        repeats=5,
    )
    peer = f"import sklearn.base: {seconds(base)}"
    return [
        Result("import rankwise", seconds(everything), peer, everything / base, 1.3),
        Result("from rankwise import RankRLS", seconds(ranker), peer, ranker / base, 1.3),
    ]
