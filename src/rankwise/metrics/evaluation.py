"""All metrics of one ranking, and paired tests of whether rankers differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rankwise.errors import DataError, ParameterError
from rankwise.metric_names import (
    METRICS,
    Metric,
    Undefined,
    are_grades,
    described,
    find_name,
    get_metric,
    is_gain,
    look_up,
    metric_label,
)
from rankwise.metrics._compiled_loops import Array
from rankwise.metrics.ranked_queries import RankedQueries
from rankwise.metrics.ranking_metrics import (
    OPTIONS,
    UNDEFINED,
    Cutoffs,
    QueryValues,
    settle_undefined,
)
from rankwise.parameters import AnyOf, Choice, Number, Whole, as_generator, check_value
from rankwise.tables import Column, Table, TableMixin, plural, require_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TESTS = {"wilcoxon": "Wilcoxon", "permutation": "permutation"}
_SIGNS = 2**20  # signs drawn at a time


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
        Whether a larger value wins. None: as the metric declares, and True for unknown names.
    method : {"wilcoxon", "permutation"}, default="wilcoxon"
        The signed-rank test, or the randomization test of the mean difference: if the rankers do
        not differ, a and b could be exchanged on any query, so the signs of the differences are
        drawn at random.
    n_permutations : int, default=10_000
        Number of draws. If there are at most this many ways to choose the signs, all are counted,
        and the p-value is exact; otherwise the smallest possible p-value is 1 / (n_permutations +
        1).
    random_state : int or Generator, default=0
        For these draws.

    Returns
    -------
    PairedTest

    Notes
    -----
    Wilcoxon: queries with equal values are dropped before ranking, as Wilcoxon did. The p-value is
    SciPy's: exact for few queries, a normal approximation for many. If many metrics or rankers are
    compared, some differences look significant by chance: `compare_rankings` corrects for this.

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
        greater_is_better = metric is None or is_gain(metric)
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


@dataclass(frozen=True)
class RankerPair:
    """Two rankers, compared by one metric.

    Attributes
    ----------
    metric, first, second : str
    test : PairedTest
        A permutation test; its difference is the first mean minus the second.
    adjusted_p_value : float
        Its p-value by Holm's method, for all pairs and metrics of the comparison.

    Examples
    --------
    >>> from rankwise.metrics import compare_rankings
    >>> y, qid = [0, 1, 0, 1, 0, 1], [1, 1, 2, 2, 3, 3]
    >>> scores = {"good": y, "bad": [1, 0, 1, 0, 0, 1]}
    >>> compare_rankings(y, scores, qid, metrics=["map"]).pairs[0].first
    'good'
    """

    metric: str
    first: str
    second: str
    test: PairedTest
    adjusted_p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class RankingComparison(TableMixin):
    """Several rankers on the same queries.

    Print it, show it in a notebook, or call `means_table`, `to_table`, `to_frame` or `plot`.

    Attributes
    ----------
    rankers : tuple of str
    values : mapping of str to mapping of str to QueryValues
        ``values[metric][ranker]``: the value of each query.
    pairs : tuple of RankerPair
        Every pair of rankers, by every metric.
    level : float
        Of the intervals.
    n_permutations : int

    Examples
    --------
    >>> from rankwise.metrics import compare_rankings
    >>> y, qid = [0, 1, 0, 1, 0, 1], [1, 1, 2, 2, 3, 3]
    >>> compare_rankings(y, {"good": y, "bad": [1, 0, 1, 0, 0, 1]}, qid, metrics=["map"])
    <RankingComparison of good, bad on 3 queries in MAP>
    """

    rankers: tuple[str, ...]
    values: Mapping[str, Mapping[str, QueryValues]]
    pairs: tuple[RankerPair, ...]
    level: float
    n_permutations: int

    def means_table(self) -> Table:
        """The mean of each ranker in each metric, the best in bold."""
        means = {
            metric: [values[ranker].mean() for ranker in self.rankers]
            for metric, values in self.values.items()
        }
        best = set()
        for c, (metric, column) in enumerate(means.items(), 1):
            choose = max if get_metric(metric).greater_is_better else min
            shown = [round(value, 4) for value in column]
            best |= {(r, c) for r, value in enumerate(shown) if value == choose(shown)}
        columns = (Column("ranker", ""), *(Column(described(metric)) for metric in means))
        rows = zip(self.rankers, *means.values(), strict=True)
        return Table(columns, tuple(rows), best=frozenset(best), title=f"Means over {self._size}")

    def to_table(self) -> Table:
        """A row for every pair of rankers and every metric; clear differences in bold.

        Intervals and p are of a row alone. Several tests have a column of adjusted p-values, and
        these decide what is clear.
        """
        several = len(self.pairs) > 1
        signed = (Column(name, "+.4f") for name in ("diff.", "from", "to"))
        columns = [Column("metric", ""), Column("rankers", ""), *signed, Column("p", ".2g")]
        columns += [Column("p adjusted", ".2g")] if several else []
        rows = tuple(
            (
                metric_label(pair.metric),
                f"{pair.first} − {pair.second}",
                pair.test.difference,
                *pair.test.interval(self.level),
                pair.test.p_value,
                *([pair.adjusted_p_value] if several else []),
            )
            for pair in self.pairs
        )
        clear = [r for r, pair in enumerate(self.pairs) if pair.adjusted_p_value < 1 - self.level]
        alone = "from, to, p: of each row alone. " if several else ""
        adjusted = f" p adjusted: for {len(rows)} tests, by Holm's method." if several else ""
        note = (
            f"Differences on the same queries, with {self.level:.0%} intervals by Student's t. "
            f"{alone}p: permutation test ({self._permutations}).{adjusted}"
        )
        best = frozenset((r, c) for r in clear for c in (2, len(columns) - 1))
        return Table(tuple(columns), rows, "Paired differences", note, best)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries, ready for JSON."""
        columns = {
            name: np.asarray(column).tolist() for name, column in self._frame_columns().items()
        }
        rows = zip(*columns.values(), strict=True)
        return {
            "means": {
                metric: {ranker: found.mean() for ranker, found in values.items()}
                for metric, values in self.values.items()
            },
            "pairs": [dict(zip(columns, row, strict=True)) for row in rows],
            "level": self.level,
            "n_permutations": self.n_permutations,
        }

    def _frame_columns(self) -> dict[str, Any]:
        tests = [pair.test for pair in self.pairs]
        ends = np.array([test.interval(self.level) for test in tests])
        return {
            "metric": [pair.metric for pair in self.pairs],
            "first": [pair.first for pair in self.pairs],
            "second": [pair.second for pair in self.pairs],
            "mean_first": [test.mean_a for test in tests],
            "mean_second": [test.mean_b for test in tests],
            "difference": [test.difference for test in tests],
            "standard_error": [test.standard_error for test in tests],
            "low": ends[:, 0],
            "high": ends[:, 1],
            "wins": [test.wins for test in tests],
            "ties": [test.ties for test in tests],
            "losses": [test.losses for test in tests],
            "p_value": [test.p_value for test in tests],
            "adjusted_p_value": [pair.adjusted_p_value for pair in self.pairs],
        }

    def __str__(self) -> str:
        return f"{self.means_table()}\n\n{self.to_table()}"

    def _repr_html_(self) -> str:
        return self.means_table().to_html() + self.to_table().to_html()

    def __repr__(self) -> str:
        metrics = ", ".join(map(metric_label, self.values))
        listed = f"{', '.join(self.rankers)} on {self._size} in {metrics}"
        return f"<RankingComparison of {listed}>"

    def plot(self, metric: str | None = None, **options: Any) -> Axes:
        """Draw how far each ranker is behind the best, with intervals of these differences.

        Parameters
        ----------
        metric : str, optional
            By default the first.
        **options
            Options of `rankwise.plots.plot_differences_from_best`.

        Returns
        -------
        matplotlib Axes
        """
        from rankwise.plots import plot_differences_from_best

        metric = next(iter(self.values)) if metric is None else metric
        metric = find_name(self.values, metric) or metric
        check_value("metric", metric, Choice(*self.values))
        values = {ranker: found.values for ranker, found in self.values[metric].items()}
        greater = get_metric(metric).greater_is_better
        return plot_differences_from_best(
            values, metric=metric, greater_is_better=greater, **options
        )

    @property
    def _permutations(self) -> str:
        """How the permutation tests were done, for the note of the table."""
        exact = {
            _takes_all(pair.test.wins + pair.test.losses, self.n_permutations)
            for pair in self.pairs
        }
        if exact == {False}:
            return f"{self.n_permutations:,} permutations"
        return "exact" if exact == {True} else f"exact, or {self.n_permutations:,} permutations"

    @property
    def _size(self) -> str:
        return plural(max(pair.test.n_queries for pair in self.pairs), "query")


def compare_rankings(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    metrics: Sequence[str] | None = None,
    relevant: float = 1,
    gain: str = "exponential",
    level: float = 0.95,
    n_permutations: int = 10_000,
    random_state: Any = 0,
) -> RankingComparison:
    """Compare the scores of several rankers for the same rows, by paired tests over queries.

    A query that is hard for one ranker is usually hard for the others. Rankers are therefore
    compared query by query: each pair of rankers gets the mean difference in each metric, an
    interval for it by Student's t distribution, and a randomization (permutation) test. Beside the
    p-value of each test, a second one is adjusted for the number of tests by Holm's method; the
    intervals are not adjusted.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, or qrels as a dictionary.
    scores : mapping of str to array-like of shape (n_rows,), or data frame
        The scores of at least two rankers by name, or runs as dictionaries.
    qid : array-like of shape (n_rows,), optional
    metrics : sequence of str, optional
        Names of `rankwise.metrics.METRICS`, such as "ndcg@10" or "recall@5". None: ndcg@10, map and
        disagreement for grades (whole numbers from 0); otherwise disagreement.
    relevant : float, default=1
        Rows with at least this label are relevant, for the metrics that need it.
    gain : {"exponential", "linear"}, default="exponential"
        Of NDCG, as in `ndcg`; trec_eval's is linear.
    level : float, default=0.95
        Of the intervals.
    n_permutations : int, default=10_000
        As in `paired_test`.
    random_state : int or Generator, default=0

    Returns
    -------
    RankingComparison

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(n_queries=50, rows_per_query=10, n_features=3, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> truth = data.X @ data.coef
    >>> noise = rng.standard_normal(len(truth))
    >>> scores = {"precise": truth + 0.1 * noise, "noisy": truth + 2.0 * noise}
    >>> comparison = compare_rankings(data.y, scores, data.qid, metrics=["disagreement"])
    >>> print(comparison.to_table())
    Paired differences
    <BLANKLINE>
    metric        rankers            diff.     from       to       p
    ------------  ---------------  -------  -------  -------  ------
    disagreement  precise − noisy  -0.3107  -0.3401  -0.2812  0.0001
    <BLANKLINE>
    Differences on the same queries, with 95% intervals by Student's t. p: permutation test \
(10,000 permutations).
    """
    options = {"relevant": relevant, "gain": gain}
    for option, value in options.items():
        check_value(option, value, OPTIONS[option])
    check_value("level", level, Number(0, 1, open_low=True, open_high=True))
    if hasattr(scores, "columns"):
        scores = {str(name): scores[name] for name in scores.columns}
    if not isinstance(scores, Mapping) or len(scores) < 2:
        raise ParameterError(
            "scores must be a dictionary with the scores of at least two rankers by name: got "
            f"{type(scores).__name__}{f' of {len(scores)}' if isinstance(scores, Mapping) else ''}."
        )
    if metrics is None:
        graded = isinstance(y, Mapping) or (y is not None and are_grades(y))
        metrics = ("ndcg@10", "map", "disagreement") if graded else ("disagreement",)
    if isinstance(metrics, str) or not len(metrics):
        raise ParameterError(
            f'metrics must be a list of names, as in ["ndcg@10", "map"]: got {metrics!r}.'
        )
    values: dict[str, dict[str, QueryValues]] = {}
    for metric in metrics:
        found = get_metric(metric)
        function = partial(found.function, **found.options_from(OPTIONS, options))
        values[metric] = {
            str(name): function(y, column, qid, per_query=True) for name, column in scores.items()
        }
        if len(next(iter(values[metric].values()))) < 2:
            raise DataError(
                f"Rankers are compared over queries, and {metric} has a value on one query only."
            )
    tests = {
        (metric, first, second): paired_test(
            found[first], found[second], metric,
            greater_is_better=get_metric(metric).greater_is_better, method="permutation",
            n_permutations=n_permutations, random_state=random_state,
        )
        for metric, found in values.items()
        for first, second in combinations(found, 2)
    }  # fmt: skip
    adjusted = holm(np.array([test.p_value for test in tests.values()]))
    pairs = tuple(
        RankerPair(*names, test, p)
        for (names, test), p in zip(tests.items(), adjusted.tolist(), strict=True)
    )
    return RankingComparison(tuple(map(str, scores)), values, pairs, level, n_permutations)


def holm(p_values: Array) -> Array:
    """Holm's adjusted p-values: with k tests, the smallest times k, the next times k - 1, ...

    If hypotheses are rejected at 5%, the probability of any wrong rejection is at most 5%.
    """
    k = len(p_values)
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(k)
    adjusted[order] = np.maximum.accumulate((k - np.arange(k)) * p_values[order])
    return adjusted.clip(max=1.0)


def _takes_all(n: int, n_permutations: int) -> bool:
    """Whether a permutation test of n differences that are not 0 takes all signs: it is exact."""
    return n < 64 and 2**n <= n_permutations


def _permutation_p(gap: Array, n_permutations: int, rng: np.random.Generator) -> float:
    """The probability of a mean difference at least as large if all signs are random.

    The draw that was observed counts as one of the draws, so that the p-value is never 0.
    """
    n = len(gap)
    limit = abs(gap.sum()) - 1e-12 * abs(gap).sum()  # equal sums may differ in rounding
    if _takes_all(n, n_permutations):
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


@dataclass(frozen=True, eq=False, repr=False)
class RankingEvaluation(TableMixin):
    """All metrics of one ranking, with the values of each query.

    Print it, show it in a notebook, or call `plot`, `to_table`, `to_frame`, `per_query_frame` or
    `to_dict`; `compare` tests it against another ranker on the same queries.

    Attributes
    ----------
    means : mapping of str to float
        The mean over queries of each metric, in the order of the table.
    per_query : mapping of str to QueryValues
        The values behind the means, without the queries that were left out.
    n_undefined : mapping of str to int
        On how many queries a metric was undefined, whether or not they were counted.
    n_rows, n_queries : int
        How many rows and queries were evaluated.
    qid : ndarray of shape (n_queries,)
        The query ids, in the order in which they first appear.
    settings : mapping of str to object
        The conventions: relevant, gain, discount, score_ties.
    notes : tuple of str
        Which metrics are missing, and why; what became of queries where one is undefined.

    Examples
    --------
    >>> from rankwise.metrics import evaluate_ranking
    >>> evaluate_ranking([2, 1, 0], [0.9, 0.5, 0.1])["NDCG@10"]
    1.0
    """

    means: Mapping[str, float]
    per_query: Mapping[str, QueryValues]
    n_undefined: Mapping[str, int]
    n_rows: int
    qid: NDArray[Any]
    settings: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def n_queries(self) -> int:
        return len(self.qid)

    def __getitem__(self, metric: str) -> float:
        """The mean of a metric, by any of its names: "NDCG@10" or "ndcg@10"."""
        return look_up(self.means, metric, self.notes)

    def __str__(self) -> str:
        return str(self._described_table())

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4f}" for name, value in self.means.items())
        return f"<RankingEvaluation of {plural(self.n_queries, 'query')}: {values}>"

    def _repr_html_(self) -> str:
        return self._described_table().to_html()

    def to_table(self, *, title: str = "", note: str = "") -> Table:
        """A table with a row per metric: mean, standard error, queries in it and undefined."""
        names = ("mean", "s.e.", "queries", "undefined")
        columns = (Column("metric", ""), *map(Column, names))
        listed = zip(*self._frame_columns().values(), strict=True)
        rows = tuple((described(name), *row) for name, *row in listed)
        return Table(columns, rows, title, note)

    def _frame_columns(self) -> dict[str, Any]:
        by_metric = [self.per_query[name] for name in self.means]
        return {
            "metric": list(self.means),
            "mean": list(self.means.values()),
            "standard_error": [float(values.standard_error()) for values in by_metric],
            "queries": list(map(len, by_metric)),
            "undefined": [self.n_undefined[name] for name in self.means],
        }

    def per_query_frame(self) -> Any:
        """A pandas frame with a row per query and a column per metric; NaN where left out."""
        pandas = require_pandas("to_dict()")
        columns = {
            name: pandas.Series(values.values, index=values.qid)
            for name, values in self.per_query.items()
        }
        frame = pandas.DataFrame(columns, index=self.qid)
        frame.index.name = "qid"
        return frame

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries, ready for JSON."""
        columns, metrics = self._frame_columns(), dict[str, dict[str, Any]]()
        for name, *row in zip(*columns.values(), strict=True):
            found = dict(zip(list(columns)[1:], row, strict=True))
            if not np.isfinite(found["standard_error"]):
                found["standard_error"] = None
            if per_query:
                values = self.per_query[name]
                found |= {"qid": values.qid.tolist(), "values": values.values.tolist()}
            metrics[name] = found
        return {
            "n_rows": self.n_rows,
            "n_queries": self.n_queries,
            "settings": dict(self.settings),
            "metrics": metrics,
            "notes": list(self.notes),
        }

    def compare(self, other: RankingEvaluation) -> dict[str, PairedTest]:
        """A `paired_test` on each metric that both have; this ranker is a, `other` is b."""
        return {name: paired_test(self, other, name) for name in self.means if name in other.means}

    def plot(self, metric: str | None = None, **options: Any) -> Axes:
        """Draw a metric on every query.

        Parameters
        ----------
        metric : str, optional
            By default "NDCG@10", or the first metric if there is no such metric.
        **options
            Options of `rankwise.plots.plot_query_values`.
        """
        from rankwise.plots import plot_query_values

        if metric is None:
            metric = "NDCG@10" if "NDCG@10" in self.means else next(iter(self.means))
        metric = find_name(self.means, metric) or metric
        check_value("metric", metric, Choice(*self.means))
        found = self.per_query[metric]
        return plot_query_values(found.values, names=found.qid.tolist(), metric=metric, **options)

    def _described_table(self) -> Table:
        """The table, with what was evaluated above it and the conventions below it."""
        rows, queries = plural(self.n_rows, "row"), plural(self.n_queries, "query")
        note = "\n".join((self._conventions(), *self.notes))
        return self.to_table(title=f"Ranking of {rows} in {queries}", note=note)

    def _conventions(self) -> str:
        gains = {"exponential": "2^y - 1", "linear": "y"}
        discounts = {"log2": "1/log2(rank + 1)", "letor": "1/log2(rank), 1 at rank one"}
        ties = {"average": "the mean over their orders", "order": "in the order of the rows"}
        s = self.settings
        return (
            f"Relevant: label of at least {s['relevant']:g}. Gain {gains[s['gain']]}, "
            f"discount {discounts[s['discount']]}. Tied scores: {ties[s['score_ties']]}; "
            "half an error in pairs."
        )


def evaluate_ranking(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    k: int | Sequence[int] = (1, 3, 5, 10),
    relevant: float = 1,
    gain: str = "exponential",
    discount: str = "log2",
    score_ties: str = "average",
    undefined: Undefined | None = None,
) -> RankingEvaluation:
    """The usual metrics at once: MAP, MRR, P@k, NDCG, NDCG@k, disagreement and Kendall's tau_b.

    Parameters
    ----------
    y, scores, qid : array-like of shape (n_rows,)
        Labels, predicted scores, and optionally queries: as for every metric. Or qrels and a run,
        as dictionaries.
    k : int or sequence of int, default=(1, 3, 5, 10)
        Cut-offs of NDCG@k and P@k.
    relevant : float, default=1
        Rows with at least this label are relevant (MAP, MRR, P@k).
    gain, discount, score_ties : str
        As for `ndcg`. In pairwise metrics a tie between scores always counts as half an error.
    undefined : {"skip", "raise"} or float, optional
        What to do with a query where a metric is undefined: leave it out of the mean, raise an
        error, or count it as this number. None: the default of each metric, which is 0 for MAP,
        MRR, P@k and NDCG, and "skip" for pairwise metrics.

    Notes
    -----
    Metrics that are not meaningful for the labels are left out and listed in `notes`: NDCG if a
    label is negative or too large; MAP, MRR and P@k if a label is negative or none reaches
    `relevant`; any metric that would leave out every query.

    O(n log n) time in the rows of a query, O(n) memory; the rows are sorted once.

    Examples
    --------
    >>> evaluation = evaluate_ranking(
    ...     [2, 0, 1, 0, 1, 0], [0.9, 0.5, 0.1, 0.2, 0.8, 0.4], ["a", "a", "a", "b", "b", "b"], k=2
    ... )
    >>> print(evaluation)
    Ranking of 6 rows in 2 queries
    <BLANKLINE>
    metric                            mean    s.e.  queries  undefined
    ------------------------------  ------  ------  -------  ---------
    MAP                             0.9167  0.0833        2          0
    MRR                             1.0000  0.0000        2          0
    P@2                             0.5000  0.0000        2          0
    NDCG                            0.9820  0.0180        2          0
    NDCG@2                          0.9131  0.0869        2          0
    disagreement (lower is better)  0.1667  0.1667        2          0
    Kendall tau_b                   0.5749  0.2416        2          0
    <BLANKLINE>
    Relevant: label of at least 1. Gain 2^y - 1, discount 1/log2(rank + 1). Tied scores: the mean \
over their orders; half an error in pairs.
    >>> round(evaluation["MAP"], 4)
    0.9167
    """
    settings = {"relevant": relevant, "gain": gain, "discount": discount, "score_ties": score_ties}
    for option, value in settings.items():
        check_value(option, value, OPTIONS[option])
    check_value("k", k, Cutoffs())
    check_value("undefined", undefined, AnyOf(UNDEFINED, None))
    ranked = RankedQueries.of(y, scores, qid)
    per_query: dict[str, QueryValues] = {}
    n_undefined: dict[str, int] = {}
    refused: dict[str, list[str]] = defaultdict(list)
    skipped: list[str] = []
    settled: dict[str, list[str]] = defaultdict(list)
    no_relevance = _why_not_relevant(ranked.labels, relevant)
    for metric in METRICS.values():
        if not metric.evaluated:
            continue
        options = metric.options_from(OPTIONS, settings)
        names, cutoffs = _shown(metric, np.atleast_1d(k), len(ranked.labels))
        try:
            if metric.counts_relevant and no_relevance:
                raise DataError(no_relevance)
            values = metric.function.of_ranked(ranked, **options, **cutoffs)
        except DataError as error:
            has_whole = "whole" in metric.evaluated
            refused[str(error)].append(metric.shown if has_whole else f"{metric.shown}@k")
            continue
        lacks = metric.lacks.format(**options)
        chosen = metric.undefined if undefined is None else undefined
        for name, column in zip(names, values.reshape(-1, len(names)).T, strict=True):
            missing = int(np.isnan(column).sum())
            if chosen == "skip" and missing == len(column):
                skipped.append(f"{name} left out: every query has {lacks}.")
                continue
            column = column.copy()
            per_query[name] = settle_undefined(ranked, column, chosen, metric=name, lacks=lacks)
            n_undefined[name] = missing
            if missing:
                verb = "has" if missing == 1 else "have"
                become = "left out of" if chosen == "skip" else f"counted as {chosen:g} in"
                settled[f"{plural(missing, 'query')} {verb} {lacks}, {become}"].append(name)
    notes = [f"{_joined(labels)} left out: {error}" for error, labels in refused.items()]
    notes += skipped
    notes += [f"{words} {_joined(names)}." for words, names in settled.items()]
    if not per_query:
        raise DataError(f"No metric is defined. {' '.join(notes)}")
    return RankingEvaluation(
        means={name: values.mean() for name, values in per_query.items()},
        per_query=per_query,
        n_undefined=n_undefined,
        n_rows=len(ranked.labels),
        qid=ranked.groups.names,
        settings=settings,
        notes=tuple(notes),
    )


def _shown(metric: Metric, ks: NDArray[Any], whole: int) -> tuple[list[str], dict[str, Any]]:
    """The labels under which an evaluation shows a metric, and its cut-offs if it takes any.

    No query has more rows than `whole`.
    """
    if not metric.takes_cutoff:
        return [metric.shown], {}
    names, cutoffs = [], []
    if "whole" in metric.evaluated:
        names, cutoffs = [metric.shown], [whole]
    if "cutoffs" in metric.evaluated:
        names += [f"{metric.shown}@{k}" for k in ks]
        cutoffs += ks.tolist()
    return names, {"k": np.array(cutoffs)}


def _why_not_relevant(labels: Array, relevant: float) -> str:
    """Why no row can be relevant by these labels, or an empty string."""
    smallest, largest = labels.min(), labels.max()
    if smallest < 0:
        return (
            f"labels go down to {smallest:g}, so they are not grades. Call average_precision with "
            "the label from which a row is relevant."
        )
    if largest < relevant:
        return (
            f"no label reaches relevant={relevant:g}, the largest is {largest:g}. Give the label "
            "from which a row is relevant."
        )
    return ""


def _joined(words: Sequence[str]) -> str:
    """Words as in "a, b and c"."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
