"""All metrics of one ranking, as a printable object."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.metric_names import METRICS, Metric, Undefined, described, find_name, look_up
from rankwise.metrics.comparison import PairedTest, paired_test
from rankwise.metrics.ranked_queries import Array, RankedQueries
from rankwise.metrics.ranking_metric import UNDEFINED, QueryValues, settle_undefined
from rankwise.metrics.ranking_metrics import OPTIONS, Cutoffs
from rankwise.parameters import AnyOf, Choice, check_value
from rankwise.tables import Column, Table, plural, require_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class RankingEvaluation:
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
        Which metrics are missing, and why.

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
        rows = tuple((described(name), *row) for name, *row in self._rows())
        return Table(columns, rows, title, note)

    def to_frame(self) -> Any:
        """A pandas frame with a row per metric: mean, standard_error, queries and undefined."""
        columns = ["metric", "mean", "standard_error", "queries", "undefined"]
        frame = require_pandas("to_dict()").DataFrame(self._rows(), columns=columns)
        return frame.set_index("metric")

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                name,
                mean,
                float(self.per_query[name].standard_error()),
                len(self.per_query[name]),
                self.n_undefined[name],
            )
            for name, mean in self.means.items()
        ]

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
        metrics: dict[str, dict[str, Any]] = {}
        for name, mean, error, queries, undefined in self._rows():
            metrics[name] = {
                "mean": mean,
                "standard_error": error if np.isfinite(error) else None,
                "queries": queries,
                "undefined": undefined,
            }
            if per_query:
                values = self.per_query[name]
                metrics[name] |= {"qid": values.qid.tolist(), "values": values.values.tolist()}
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
    notes = [f"{_joined(labels)} left out: {error}" for error, labels in refused.items()]
    notes += skipped
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
