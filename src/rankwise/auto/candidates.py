"""The rankers that AutoRanker tries by default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.errors import ParameterError
from rankwise.estimators.least_squares.additive_rankrls import AdditiveRankRLS
from rankwise.estimators.least_squares.rankrls import RankRLS
from rankwise.estimators.least_squares.sparse_rankrls import SparseRankRLS

WITHIN_QUERIES = ("query-minmax", "query-standard", "query-ranks")
OVERALL = ("standard",)
LANDMARKS = 300
WIDTHS = (0.3, 1.0)  # gamma times the number of features
RAMPS = 8
KINDS = ("linear", "additive", "kernel")


@dataclass(frozen=True)
class Candidate:
    """A ranker to try, under a name."""

    name: str
    ranker: Any

    def n_bytes(self, n_rows: int, n_features: int) -> int:
        """About the memory for a hold-out: its features in float64, and a copy of them."""
        ranker = self.ranker
        columns = n_features
        if isinstance(ranker, AdditiveRankRLS):
            columns = n_features * ranker.n_ramps
        elif isinstance(ranker, SparseRankRLS):
            columns = ranker.n_landmarks or min(n_rows, 1000)
        return 2 * 8 * n_rows * columns


def default_candidates(
    kinds: tuple[str, ...], has_queries: bool, n_features: int, rng: np.random.Generator
) -> Iterator[Candidate]:
    """Cheap ones first: linear, additive and Gaussian rankers, each on several scalings."""
    scalings = WITHIN_QUERIES if has_queries else OVERALL
    seed = int(rng.integers(2**31))
    if "linear" in kinds:
        for scale in scalings:
            yield Candidate(f"linear, {scale}", RankRLS(scale=scale))
    if "additive" in kinds:
        for scale in scalings:
            yield Candidate(f"additive, {scale}", AdditiveRankRLS(n_ramps=RAMPS, scale=scale))
    if "kernel" in kinds:
        for width in WIDTHS:
            for scale in scalings:
                ranker = SparseRankRLS(
                    n_landmarks=LANDMARKS, gamma=width / n_features, scale=scale, random_state=seed
                )
                yield Candidate(f"rbf {width:g}, {scale}", ranker)


def named(rankers: Sequence[Any]) -> Iterator[Candidate]:
    """The user's own rankers, under names that tell them apart."""
    seen: dict[str, int] = {}
    for ranker in rankers:
        if isinstance(ranker, type) or not (hasattr(ranker, "fit") and hasattr(ranker, "predict")):
            raise ParameterError(
                f"Each of candidates must be an object with fit and predict: got {ranker!r}."
            )
        name = " ".join(repr(ranker).split())
        seen[name] = seen.get(name, 0) + 1
        yield Candidate(name if seen[name] == 1 else f"{name} ({seen[name]})", ranker)
