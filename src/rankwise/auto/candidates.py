"""The rankers that AutoRanker tries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import is_sparse
from rankwise.errors import ParameterError
from rankwise.estimators.least_squares.additive_rankrls import AdditiveRankRLS
from rankwise.estimators.least_squares.rankrls import RankRLS
from rankwise.estimators.least_squares.sparse_rankrls import SparseRankRLS
from rankwise.graph import QueryGroups
from rankwise.scaling import (
    QUERY_SCALINGS,
    ColumnStandard,
    ColumnStatistics,
    QueryMinMax,
    QueryRank,
)

KINDS = ("linear", "additive", "kernel")
LANDMARKS = 200
SAMPLE = 5000  # rows for the widths of kernels
# The width of a kernel: gamma times the sum over features of the variances (rbf), or of the
# standard deviations (laplacian), of the scaled rows.
WIDTHS = {"rbf": 0.15, "laplacian": 0.25}
OVERALL = ColumnStandard.name  # the scaling that does not know of queries
MANY_FEATURES = 1000  # for functions of single features


@dataclass(frozen=True)
class Candidate:
    """A ranker to try, under a name."""

    name: str
    ranker: Any

    def n_bytes(self, n_rows: int, n_features: int) -> int:
        """About the memory of its hold-out: rows in float64, and a copy of them."""
        ranker, columns = self.ranker, n_features
        if isinstance(ranker, AdditiveRankRLS):
            columns = n_features * ranker.n_ramps
        elif isinstance(ranker, SparseRankRLS):
            columns = min(n_rows, ranker.n_landmarks or 1000)
        elif isinstance(ranker, RankRLS) and (ranker.kernel != "linear" or n_features > n_rows):
            columns = n_rows
        return 2 * 8 * n_rows * columns


def default_candidates(
    kinds: Sequence[str], X: Any, groups: QueryGroups, rng: np.random.Generator
) -> Iterator[Candidate]:
    """Linear, additive and kernel rankers, each on several scalings; cheap ones first.

    Sparse rows, which most scalings would fill, are tried on two scalings, and without additive
    rankers.
    """
    sparse, n_features = is_sparse(X), X.shape[1]
    scalings = [*QUERY_SCALINGS, OVERALL] if groups.n_groups > 1 else [OVERALL]
    if sparse:
        scalings = [scale for scale in scalings if scale in (QueryMinMax.name, OVERALL)]
    if "linear" in kinds:
        for scale in scalings:
            yield Candidate(f"linear, {scale}", RankRLS(scale=scale))
    if "additive" in kinds and not sparse and n_features <= MANY_FEATURES:
        for scale in scalings:
            if scale == OVERALL:  # functions of one feature do not depend on its scale
                yield Candidate("additive", AdditiveRankRLS())
            else:
                yield Candidate(f"additive, {scale}", AdditiveRankRLS(scale=scale))
    if "kernel" in kinds:
        seed = int(rng.integers(2**31))
        for kernel, width in WIDTHS.items():
            for scale in scalings:
                if kernel == "laplacian" and scale not in (QueryRank.name, OVERALL):
                    continue
                deviations = scaled_deviations(X, groups, scale)
                total = np.square(deviations).sum() if kernel == "rbf" else deviations.sum()
                ranker = SparseRankRLS(
                    n_landmarks=min(LANDMARKS, X.shape[0]),
                    kernel=kernel,
                    gamma=float(width / (total or 1.0)),
                    scale=scale,
                    random_state=seed,
                )
                yield Candidate(f"{kernel}, {scale}", ranker)


def scaled_deviations(X: Any, groups: QueryGroups, scale: str) -> Any:
    """The standard deviation of each feature after scaling, from some whole queries."""
    if scale not in QUERY_SCALINGS:
        return np.ones(X.shape[1])
    n_queries = int(np.searchsorted(groups.indptr, SAMPLE))  # the first ones with so many rows
    rows = groups.order[: groups.indptr[min(n_queries, groups.n_groups)]]
    scaled = QUERY_SCALINGS[scale].scale(X[rows], groups.take(rows))
    return ColumnStatistics.of(scaled).deviation


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
