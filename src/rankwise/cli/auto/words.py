"""The results of `rankwise auto` in words."""

from __future__ import annotations

from typing import Any


def conclusions(ranker: Any) -> list[str]:
    """What to expect, what the mean gains, and whether the data could tell the best apart."""
    estimate, results, n_parts = ranker.score_estimate_, ranker.results_, len(ranker.parts_)
    lines = [
        f"Expected on new queries: {estimate}.",
        f"On the queries that it was chosen by, the mean has {estimate.optimistic:.4f}, which is "
        "optimistic.",
    ]
    if n_parts > 1:
        gain = ranker.gain_over_best_
        mean = f"On queries that neither was chosen by, the mean of {n_parts}"
        lines.append(gain.words(mean, "the best single ranker", estimate.metric))
    runner_up = results.runner_up
    if runner_up is not None:
        best, second, gap = runner_up
        lines.append(
            gap.words(f"The best single ranker ({best})", f"the next ({second})", estimate.metric)
        )
    return lines
