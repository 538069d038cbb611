"""Fitted rankers, compared on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwise.backends.arrays import to_host
from rankwise.errors import ParameterError
from rankwise.metrics import RankingComparison, compare_rankings
from rankwise.routing import predict_with_queries


def compare_rankers(
    rankers: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    metrics: Sequence[str] | None = None,
    relevant: float = 1,
    level: float = 0.95,
    n_permutations: int = 10_000,
    random_state: Any = 0,
) -> RankingComparison:
    """Compare fitted rankers on rows that none of them was fitted to, by paired tests over queries.

    Each ranker scores the rows; see `rankwise.metrics.compare_rankings` for the tests.

    Parameters
    ----------
    rankers : mapping of str to estimator
        At least two fitted rankers, pipelines or regressors, by name.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,)
        The query of every row.
    metrics, relevant, level, n_permutations, random_state
        As for `rankwise.metrics.compare_rankings`.

    Returns
    -------
    RankingComparison

    Examples
    --------
    >>> from rankwise import RLS, RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import compare_rankers
    >>> data = make_ranking(n_queries=80, n_features=20, query_effect=1.0, random_state=0)
    >>> train = data.qid < 40
    >>> rankers = {
    ...     "RankRLS": RankRLS().fit(data.X[train], data.y[train], qid=data.qid[train]),
    ...     "RLS": RLS().fit(data.X[train], data.y[train], qid=data.qid[train]),
    ... }
    >>> X, y, qid = data.X[~train], data.y[~train], data.qid[~train]
    >>> comparison = compare_rankers(rankers, X, y, qid=qid, metrics=["disagreement"])
    >>> comparison.pairs[0].adjusted_p_value < 0.05
    True
    """
    if not isinstance(rankers, Mapping):
        raise ParameterError(
            "rankers must be a dictionary of fitted rankers by name, as in "
            f'{{"mine": ranker, "theirs": other}}: got {type(rankers).__name__}.'
        )
    scores = {
        name: to_host(predict_with_queries(ranker, X, qid)) for name, ranker in rankers.items()
    }
    return compare_rankings(
        to_host(y), scores, to_host(qid), metrics=metrics, relevant=relevant, level=level,
        n_permutations=n_permutations, random_state=random_state,
    )  # fmt: skip
