"""Several rankers on the same queries: their means, and which of them differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.errors import DataError, ParameterError
from rankwise.metric_labels import metric_label
from rankwise.metrics.graded_metrics import GAIN_OPTIONS
from rankwise.metrics.metric_names import are_grades, find_name, get_metric
from rankwise.metrics.ranking_metric import QueryValues
from rankwise.metrics.significance import PairedTest, holm, paired_test
from rankwise.parameters import Choice, Number, check_value
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class RankerPair:
    """Two rankers in one metric.

    Attributes
    ----------
    metric, first, second : str
    test : PairedTest
        A permutation test; its difference is the mean of the first minus that of the second.
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
        Every pair of rankers, in every metric.
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
        columns = (Column("ranker", ""), *(Column(_described(metric)) for metric in means))
        rows = zip(self.rankers, *means.values(), strict=True)
        return Table(columns, tuple(rows), best=frozenset(best), title=f"Means over {self._size}")

    def to_table(self) -> Table:
        """A row for every pair of rankers and every metric; clear differences in bold."""
        signed = (Column(name, "+.4f") for name in ("diff.", "from", "to"))
        columns = (Column("metric", ""), Column("rankers", ""), *signed, Column("p", ".2g"))
        rows = tuple(
            (
                metric_label(pair.metric),
                f"{pair.first} − {pair.second}",
                pair.test.difference,
                *pair.test.interval(self.level),
                pair.adjusted_p_value,
            )
            for pair in self.pairs
        )
        clear = [r for r, pair in enumerate(self.pairs) if pair.adjusted_p_value < 1 - self.level]
        adjusted = f", adjusted for {len(rows)} tests by Holm's method" if len(rows) > 1 else ""
        note = (
            f"Differences on the same queries, with {self.level:.0%} intervals by Student's t. p: "
            f"permutation test ({self.n_permutations:,} permutations){adjusted}."
        )
        best = frozenset((r, c) for r in clear for c in (2, 5))
        return Table(columns, rows, "Paired differences", note, best)

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
            Those of `rankwise.plots.plot_differences_from_best`.

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

    A query that is hard for one ranker is usually hard for the others, too. So the rankers are
    compared query by query: each pair of rankers gets the mean difference in each metric, an
    interval for it by Student's t distribution, and a randomization (permutation) test. The
    p-values are adjusted for the number of tests by Holm's method.

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
    check_value("relevant", relevant, Number())
    check_value("gain", gain, GAIN_OPTIONS["gain"])
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
        function = _with_options(get_metric(metric).function, relevant=relevant, gain=gain)
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


def _with_options(function: Any, **options: Any) -> Any:
    """A metric with those of the options that it takes."""
    takes = signature(function).parameters
    return partial(function, **{name: value for name, value in options.items() if name in takes})


def _described(metric: str) -> str:
    greater, label = get_metric(metric).greater_is_better, metric_label(metric)
    return label if greater else f"{label} (lower is better)"
