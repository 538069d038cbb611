"""Paired tests over queries: whether two rankers differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from rankwise.errors import DataError, ParameterError
from rankwise.metric_labels import metric_label
from rankwise.metrics.metric_names import find_name
from rankwise.metrics.ranked_queries import Array
from rankwise.metrics.ranking_metric import QueryValues
from rankwise.parameters import Choice, Whole, as_generator, check_value

if TYPE_CHECKING:
    from rankwise.metrics.evaluation import RankingEvaluation

LOWER_IS_BETTER = ("disagreement",)
TESTS = {"wilcoxon": "Wilcoxon", "permutation": "permutation"}
_SIGNS = 2**20  # signs drawn at a time


def described(metric: str) -> str:
    """The name of a metric in a table."""
    label = metric_label(metric)
    return f"{label} (lower is better)" if metric in LOWER_IS_BETTER else label


@dataclass(frozen=True)
class PairedTest:
    """Outcome of a paired test between rankers a and b.

    Attributes
    ----------
    metric : str
        What was compared; empty if it has no name.
    n_queries : int
        Queries on which both were evaluated.
    mean_a, mean_b, difference : float
        The means, and the mean of a minus the mean of b.
    wins, ties, losses : int
        Queries on which a is better than, equal to and worse than b.
    statistic : float
        Wilcoxon: the smaller of the sums of ranks of positive and negative differences, ties
        dropped. Permutation: the mean difference.
    p_value : float
        Two-sided; 1 if all differences are 0.
    standard_error : float
        Of `difference`, over queries; NaN if there is only one query.
    method : {"wilcoxon", "permutation"}

    Examples
    --------
    >>> from rankwise.metrics import disagreement_error, paired_test
    >>> y, qid = [0, 1, 0, 1, 0, 1], [1, 1, 2, 2, 3, 3]
    >>> scores = y, [1, 0, 1, 0, 0, 1]
    >>> a, b = (disagreement_error(y, s, qid, per_query=True) for s in scores)
    >>> paired_test(a, b, "disagreement").wins
    2
    """

    metric: str
    n_queries: int
    mean_a: float
    mean_b: float
    difference: float
    wins: int
    ties: int
    losses: int
    statistic: float
    p_value: float
    standard_error: float
    method: str

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the difference, by Student's t distribution.

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        tuple of two floats
            NaN if there is only one query.
        """
        if self.n_queries < 2:
            return float("nan"), float("nan")
        width = float(stdtrit(self.n_queries - 1, 0.5 + level / 2)) * self.standard_error
        return self.difference - width, self.difference + width

    def __str__(self) -> str:
        name = f"{metric_label(self.metric)}: " if self.metric else ""
        return (
            f"{name}{self.mean_a:.4f} against {self.mean_b:.4f} ({self.difference:+.4f}) on "
            f"{self.n_queries} queries: {self.wins} won, {self.ties} tied, {self.losses} lost; "
            f"{TESTS[self.method]} p = {self.p_value:.3g}"
        )


def paired_test(
    a: QueryValues | RankingEvaluation,
    b: QueryValues | RankingEvaluation,
    metric: str | None = None,
    *,
    greater_is_better: bool | None = None,
    method: str = "wilcoxon",
    n_permutations: int = 10_000,
    random_state: Any = 0,
) -> PairedTest:
    """Paired test between two rankers over the same queries.

    Parameters
    ----------
    a, b : RankingEvaluation or QueryValues
        Two evaluations, or the values of one metric with ``per_query=True``. The queries may
        come in different orders.
    metric : str, optional
        Which metric of two evaluations to compare, as in ``"NDCG@10"``. If `a` and `b` are values
        of one metric, this is only its name.
    greater_is_better : bool, optional
        Whether a larger value wins. None: True unless the metric is ``"disagreement"``.
    method : {"wilcoxon", "permutation"}, default="wilcoxon"
        The signed-rank test, or the randomization test of the mean difference: if the rankers do
        not differ, a and b could be exchanged on any query, so the signs of the differences are
        drawn at random.
    n_permutations : int, default=10_000
        Number of draws. If there are no more ways to choose the signs, all are counted, and the
        p-value is exact; otherwise the smallest possible one is 1 / (n_permutations + 1).
    random_state : int or Generator, default=0
        For these draws.

    Returns
    -------
    PairedTest

    Notes
    -----
    Wilcoxon: queries with equal values are dropped before ranking (Wilcoxon's own treatment). The
    p-value is SciPy's: exact for few queries, a normal approximation for many. Where many metrics
    or rankers are compared, some will look significant by chance: `compare_rankings` corrects for
    this.

    O(q log q) for q queries, or O(q n_permutations).

    Examples
    --------
    >>> import numpy as np
    >>> a = QueryValues(np.arange(6), np.array([0.9, 0.8, 0.7, 0.9, 0.6, 0.8]))
    >>> b = QueryValues(np.arange(6), np.array([0.7, 0.5, 0.6, 0.5, 0.55, 0.2]))
    >>> test = paired_test(a, b)
    >>> test.wins, test.losses, test.p_value
    (6, 0, 0.03125)
    >>> paired_test(a, b, method="permutation").p_value
    0.03125
    """
    check_value("method", method, Choice(*TESTS))
    check_value("n_permutations", n_permutations, Whole(1))
    if greater_is_better is None:
        greater_is_better = metric not in LOWER_IS_BETTER
    values_a, values_b = _aligned(_values(a, metric, "a"), _values(b, metric, "b"))
    gap = values_a - values_b
    better = gap if greater_is_better else -gap
    statistic, p_value = 0.0, 1.0  # SciPy's are undefined if all differences are 0
    if method == "permutation":
        statistic = float(gap.mean())
        p_value = _permutation_p(gap[gap != 0], n_permutations, as_generator(random_state))
    elif gap.any():
        from scipy.stats import wilcoxon

        statistic, p_value = map(float, wilcoxon(gap))
    return PairedTest(
        metric=metric or "",
        n_queries=len(gap),
        mean_a=float(values_a.mean()),
        mean_b=float(values_b.mean()),
        difference=float(gap.mean()),
        wins=int((better > 0).sum()),
        ties=int((better == 0).sum()),
        losses=int((better < 0).sum()),
        statistic=statistic,
        p_value=p_value,
        standard_error=float(QueryValues(np.arange(len(gap)), gap).standard_error()),
        method=method,
    )


def holm(p_values: Array) -> Array:
    """Holm's adjusted p-values: with k tests, the smallest times k, the next times k - 1, ...

    Rejecting those below 5% wrongly rejects anything at all with a probability of at most 5%.
    """
    k = len(p_values)
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(k)
    adjusted[order] = np.maximum.accumulate((k - np.arange(k)) * p_values[order])
    return adjusted.clip(max=1.0)


def _permutation_p(gap: Array, n_permutations: int, rng: np.random.Generator) -> float:
    """The probability of a mean difference at least as large if all signs are random.

    The draw that was observed counts as one of the draws, so that the p-value is never 0.
    """
    n = len(gap)
    limit = abs(gap.sum()) - 1e-12 * abs(gap).sum()  # equal sums may differ in rounding
    if n < 64 and 2**n <= n_permutations:
        signs = 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
        return float((abs(signs @ gap) >= limit).mean())
    extreme = 1
    for start in range(0, n_permutations, step := max(1, _SIGNS // n)):
        rows = min(step, n_permutations - start)
        signs = 2.0 * rng.integers(0, 2, (rows, n), dtype=np.int8) - 1.0
        extreme += int((abs(signs @ gap) >= limit).sum())
    return extreme / (n_permutations + 1)


def _values(source: QueryValues | RankingEvaluation, metric: str | None, which: str) -> QueryValues:
    if not isinstance(source, QueryValues):
        known = source.per_query
        name = None if metric is None else find_name(known, metric)
        if name is None:
            listed = ", ".join(repr(name) for name in known)
            raise ParameterError(f"metric must be one of {listed} for {which}: got {metric!r}.")
        source = known[name]
    if source.values.ndim != 1:
        raise DataError(
            f"A paired test needs one value per query: {which} has shape {source.values.shape}. "
            "Take one cut-off k."
        )
    return source


def _aligned(a: QueryValues, b: QueryValues) -> tuple[Array, Array]:
    """The values of both in the order of the queries of a."""
    if np.array_equal(a.qid, b.qid):
        return a.values, b.values
    ids_a, ids_b = a.qid.tolist(), b.qid.tolist()
    alone = set(ids_a).symmetric_difference(ids_b)
    if alone:
        query = next(query for query in ids_a + ids_b if query in alone)
        raise DataError(
            "The two rankers must be evaluated on the same queries: one has "
            f"{len(ids_a)}, the other {len(ids_b)}, and query {query!r} is in only one of them."
        )
    position = {query: i for i, query in enumerate(ids_b)}
    return a.values, np.take(b.values, [position[query] for query in ids_a])
