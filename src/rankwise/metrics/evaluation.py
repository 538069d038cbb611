"""The whole table of metrics for one ranking, as an object that prints well."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.metrics._ranking import (
    Array,
    QueryValues,
    Ranking,
    Undefined,
    check_cutoffs,
    check_undefined,
    mean,
    settle,
)
from rankwise.metrics.gain import NO_CUTOFF, NO_GAIN, check_gain_options, ndcgs
from rankwise.metrics.pairwise import ONE_LABEL, count_pairs, disagreements, tau_bs
from rankwise.metrics.relevance import (
    average_precisions,
    check_relevant,
    no_relevant,
    precisions,
    reciprocal_ranks,
)
from rankwise.metrics.significance import LOWER_IS_BETTER, PairedTest, paired_test


@dataclass(frozen=True, eq=False)
class RankingEvaluation:
    """Every metric of one ranking, with its value for every query.

    Print it, show it in a notebook, or take `to_frame`, `per_query_frame` and `to_dict`;
    `compare` tests it against another ranker on the same queries.

    Attributes
    ----------
    means : mapping of str to float
        The mean over queries of every metric, in the order of the table.
    per_query : mapping of str to QueryValues
        The values behind the means; queries that were left out are not among them.
    n_undefined : mapping of str to int
        On how many queries a metric was not defined, whatever these then contributed.
    n_rows, n_queries : int
        What was evaluated.
    qid : ndarray of shape (n_queries,)
        The query ids, in the order in which they first appear.
    settings : mapping of str to object
        The conventions: relevant, gain, discount, score_ties.
    notes : tuple of str
        Which metrics are missing, and why.
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
        """The mean of a metric, as in ``evaluation["NDCG@10"]``."""
        return self.means[metric]

    def __str__(self) -> str:
        rows = [("metric", "mean", "queries", "undefined"), *self._rows()]
        widths = [max(len(row[c]) for row in rows) for c in range(4)]
        lines = [self._title(), ""]
        for row in rows:
            first, *others = row
            cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]))
        lines.insert(3, "  ".join("-" * width for width in widths))
        lines += ["", self._conventions(), *self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.4f}" for name, value in self.means.items())
        return f"<RankingEvaluation of {self.n_queries} queries: {values}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("metric", "mean", "queries", "undefined"))
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        remarks = "<br>".join(html.escape(line) for line in (self._conventions(), *self.notes))
        return (
            f"<table><caption>{html.escape(self._title())}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{remarks}</p>"
        )

    def to_frame(self) -> Any:
        """A pandas frame with a row per metric: its mean, queries in it, queries undefined."""
        frame = _pandas().DataFrame(
            {
                "mean": list(self.means.values()),
                "queries": [len(values) for values in self.per_query.values()],
                "undefined": list(self.n_undefined.values()),
            },
            index=list(self.means),
        )
        frame.index.name = "metric"
        return frame

    def per_query_frame(self) -> Any:
        """A pandas frame with a row per query, a column per metric; NaN where left out."""
        pandas = _pandas()
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
        for name, values in self.per_query.items():
            metrics[name] = {
                "mean": self.means[name],
                "queries": len(values),
                "undefined": self.n_undefined[name],
            }
            if per_query:
                metrics[name]["qid"] = values.qid.tolist()
                metrics[name]["values"] = values.values.tolist()
        return {
            "n_rows": self.n_rows,
            "n_queries": self.n_queries,
            "settings": dict(self.settings),
            "metrics": metrics,
            "notes": list(self.notes),
        }

    def compare(self, other: RankingEvaluation) -> dict[str, PairedTest]:
        """A paired Wilcoxon test on every metric that both have; this ranker is a, `other` is b.

        See `paired_test`, which does one metric.
        """
        return {name: paired_test(self, other, name) for name in self.means if name in other.means}

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (
                f"{name} (lower is better)" if name in LOWER_IS_BETTER else name,
                f"{value:.4f}",
                str(len(self.per_query[name])),
                str(self.n_undefined[name]),
            )
            for name, value in self.means.items()
        ]

    def _title(self) -> str:
        return f"Ranking of {_plural(self.n_rows, 'row')} in {_plural(self.n_queries, 'query')}"

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
    """Every metric at once: MAP, MRR, NDCG, NDCG@k, P@k, disagreement error and Kendall's tau_b.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    k : int or sequence of int, default=(1, 3, 5, 10)
        Cut-offs of NDCG@k and P@k.
    relevant : float, default=1
        Rows with at least this label are relevant (MAP, MRR, P@k).
    gain, discount : str
        See `ndcg`.
    score_ties : {"average", "order"}, default="average"
        See `average_precision`. In pairs a tie in the scores always counts as half an error.
    undefined : {"skip", "raise"} or float, optional
        What becomes of a query where a metric is not defined. None: the default of each metric,
        which is 0 for MAP, MRR, P@k and NDCG, and leaves the query out of pairwise metrics.

    Returns
    -------
    RankingEvaluation
        The means, the values per query, and how to print them.

    Notes
    -----
    Metrics that the labels give no meaning to are left out, and a note says so: NDCG where a
    label is negative or too large; MAP, MRR and P@k where a label is negative or none reaches
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
    metric                            mean  queries  undefined
    ------------------------------  ------  -------  ---------
    MAP                             0.9167        2          0
    MRR                             1.0000        2          0
    P@2                             0.5000        2          0
    NDCG                            0.9820        2          0
    NDCG@2                          0.9131        2          0
    disagreement (lower is better)  0.1667        2          0
    Kendall tau_b                   0.5749        2          0
    <BLANKLINE>
    Relevant: label of at least 1. Gain 2^y - 1, discount 1/log2(rank + 1). Tied scores: the mean \
over their orders; half an error in pairs.
    >>> round(evaluation["MAP"], 4)
    0.9167
    """
    check_gain_options(gain, discount, score_ties)
    check_relevant(relevant)
    if undefined is not None:
        check_undefined(undefined)
    cutoffs = check_cutoffs(k)
    ranking = Ranking.of(y, scores, qid)
    families: dict[str, Callable[[], list[_Column]]] = {
        "MAP, MRR and P@k": lambda: _of_relevance(ranking, cutoffs, relevant, score_ties),
        "NDCG": lambda: _of_gain(ranking, cutoffs, gain, discount, score_ties),
        "Pairwise metrics": lambda: _of_pairs(ranking),
    }
    columns: list[_Column] = []
    notes: list[str] = []
    for family, compute in families.items():
        try:
            columns += compute()
        except DataError as error:
            notes.append(f"{family} left out: {error}")
    per_query: dict[str, QueryValues] = {}
    n_undefined: dict[str, int] = {}
    for name, values, default, lacks in columns:
        missing = int(np.isnan(values).sum())
        chosen = default if undefined is None else undefined
        if chosen == "skip" and missing == len(values):
            notes.append(f"{name} left out: every query has {lacks}.")
            continue
        per_query[name] = settle(ranking, values, chosen, metric=name, lacks=lacks)
        n_undefined[name] = missing
    if not per_query:
        raise DataError(f"No metric is defined. {' '.join(notes)}")
    settings = {"relevant": relevant, "gain": gain, "discount": discount, "score_ties": score_ties}
    return RankingEvaluation(
        means={name: mean(values) for name, values in per_query.items()},
        per_query=per_query,
        n_undefined=n_undefined,
        n_rows=len(ranking.labels),
        qid=ranking.groups.names,
        settings=settings,
        notes=tuple(notes),
    )


_Column = tuple[str, Array, Undefined, str]  # name, values, undefined, what a query lacks


def _of_relevance(
    ranking: Ranking, cutoffs: NDArray[np.int64], relevant: float, score_ties: str
) -> list[_Column]:
    smallest, largest = ranking.labels.min(), ranking.labels.max()
    if smallest < 0:
        raise DataError(
            f"labels go down to {smallest:g} and are no grades. Call average_precision with the "
            "label from which a row is relevant."
        )
    if largest < relevant:
        raise DataError(
            f"no label reaches relevant={relevant:g}, the largest is {largest:g}. Give the label "
            "from which a row is relevant."
        )
    lacks = no_relevant(relevant)
    curves = precisions(ranking, cutoffs, relevant, score_ties)
    return [
        ("MAP", average_precisions(ranking, relevant, score_ties), 0.0, lacks),
        ("MRR", reciprocal_ranks(ranking, relevant, score_ties), 0.0, lacks),
        *((f"P@{n}", curves[:, j], 0.0, lacks) for j, n in enumerate(cutoffs)),
    ]


def _of_gain(
    ranking: Ranking, cutoffs: NDArray[np.int64], gain: str, discount: str, score_ties: str
) -> list[_Column]:
    curves = ndcgs(ranking, np.append(cutoffs, NO_CUTOFF), gain, discount, score_ties)
    return [
        ("NDCG", curves[:, -1], 0.0, NO_GAIN),
        *((f"NDCG@{n}", curves[:, j], 0.0, NO_GAIN) for j, n in enumerate(cutoffs)),
    ]


def _of_pairs(ranking: Ranking) -> list[_Column]:
    pairs = count_pairs(ranking)
    return [
        ("disagreement", disagreements(pairs, "half", "exclude"), "skip", ONE_LABEL),
        ("Kendall tau_b", tau_bs(pairs), "skip", ONE_LABEL),
    ]


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "A data frame needs pandas, which is not installed: pip install pandas. "
            "to_dict() needs nothing."
        ) from error


def _plural(count: int, word: str) -> str:
    many = "queries" if word == "query" else f"{word}s"
    return f"{count:,} {word if count == 1 else many}"
