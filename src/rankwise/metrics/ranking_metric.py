"""What all ranking metrics share: their data, the mean over queries, and undefined queries.

A metric is written as a function of `RankedQueries` that returns one value per query, NaN where
it is undefined. The decorator `ranking_metric` makes it public: it adds the parameters `y`,
`scores`, `qid`, `undefined` and `per_query`, checks all of them, documents them, and registers the
metric by its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import UndefinedMetricError
from rankwise.metric_names import Metric, Undefined, register
from rankwise.metrics.ranked_queries import Array, RankedQueries
from rankwise.parameters import AnyOf, Choice, Flag, Number, Rule, check_value
from rankwise.tables import plural, require_pandas

UNDEFINED = AnyOf(Choice("skip", "raise"), Number())

_DATA = """\
y : array-like of shape (n_rows,) or dict
    Labels; larger is better. Or qrels, ``{query: {document: label}}``.
scores : array-like of shape (n_rows,) or dict
    Predicted scores; larger is better. Two scores tie only if they are exactly equal. Or a run,
    ``{query: {document: score}}``.
qid : array-like of shape (n_rows,), optional
    Query of each row, as integers or text, in any order. None: all rows are one query.
"""
_QUERIES = """\
undefined : {{"skip", "raise"}} or float, default={default}
    What to do with a query that has {lacks}:
    leave it out of the mean, raise an error, or count it as this number.
per_query : bool, default=False
    Return the value of each query instead of the mean.
"""
_RETURNS = """\
float or QueryValues
    The mean over queries, or the values with their query ids.
"""
_RETURNS_CURVE = """\
float, ndarray of shape (n_cutoffs,) or QueryValues
    The mean over queries, one per cut-off if `k` is a sequence; or the values with their
    query ids.
"""


@dataclass(frozen=True, eq=False, repr=False)
class QueryValues:
    """One value per query.

    Attributes
    ----------
    qid : ndarray of shape (n_queries,)
        The query ids, in the order in which they first appear, without the queries that
        ``undefined="skip"`` leaves out.
    values : ndarray of shape (n_queries,) or (n_queries, n_cutoffs)
        The metric, never NaN; a column per cut-off if `k` was a sequence.

    Examples
    --------
    >>> from rankwise.metrics import disagreement_error
    >>> y, scores, qid = [1, 0, 1, 0], [2, 1, 3, 4], ["a", "a", "b", "b"]
    >>> result = disagreement_error(y, scores, qid, per_query=True)
    >>> result.qid.tolist(), result.values.tolist()
    (['a', 'b'], [0.0, 1.0])
    """

    qid: NDArray[Any]
    values: Array

    def __len__(self) -> int:
        return len(self.qid)

    def mean(self) -> Any:
        """The mean over queries; an array with one mean per cut-off if there are several."""
        if self.values.ndim == 1:
            return float(self.values.mean())
        # Column by column, so that each mean equals the mean of its cut-off alone.
        return np.array([column.mean() for column in self.values.T])

    def standard_error(self) -> Any:
        """The standard error of `mean`, over queries; NaN if there is only one query."""
        n = len(self)
        if n < 2:
            return np.full(self.values.shape[1:], np.nan)[()]
        return self.values.std(axis=0, ddof=1) / np.sqrt(n)

    def to_frame(self) -> Any:
        """A pandas frame with a row per query."""
        pandas = require_pandas("values")
        frame = pandas.DataFrame(self.values.reshape(len(self), -1), index=self.qid)
        frame.index.name = "qid"
        return frame.rename(columns={0: "value"}) if self.values.ndim == 1 else frame

    def __repr__(self) -> str:
        shown = zip(np.atleast_1d(self.mean()), np.atleast_1d(self.standard_error()), strict=True)
        means = ", ".join(f"{mean:.4f} ± {error:.4f}" for mean, error in shown)
        return f"<QueryValues: {plural(len(self), 'query')}, mean {means}>"


class RankingMetric(Protocol):
    """A public metric.

    Attributes
    ----------
    of_ranked : callable
        The function that was decorated: one value per query, NaN where it is undefined.
    metric : Metric
        What was registered.
    """

    of_ranked: Callable[..., Array]
    metric: Metric

    def __call__(self, y: Any, scores: Any, qid: Any = ..., **options: Any) -> Any: ...


def ranking_metric(
    name: str,
    *,
    undefined: Undefined,
    lacks: str,
    options: Mapping[str, Rule] | None = None,
    label: str = "",
    other_names: tuple[str, ...] = (),
    greater_is_better: bool = True,
    evaluated: tuple[str, ...] = (),
) -> Callable[[Callable[..., Array]], RankingMetric]:
    """Turn ``function(ranked, *, ...)``, one value per query, into a public metric.

    The metric has the signature and the docstring of the function, with the parameters that all
    metrics share added to both. The arguments are the attributes of `Metric`, which is registered.
    """
    rules = dict(options or {})

    def decorate(function: Callable[..., Array]) -> RankingMetric:
        own = list(inspect.signature(function).parameters.values())[1:]
        defaults = {parameter.name: parameter.default for parameter in own}

        def metric(
            y: Any,
            scores: Any,
            qid: Any = None,
            *,
            undefined: Undefined = undefined,
            per_query: bool = False,
            **chosen: Any,
        ) -> Any:
            settings = {**defaults, **chosen}
            for option, rule in rules.items():
                check_value(option, settings[option], rule)
            check_value("undefined", undefined, UNDEFINED)
            check_value("per_query", per_query, Flag())
            ranked = RankedQueries.of(y, scores, qid)
            values = function(ranked, **settings)
            result = settle_undefined(
                ranked,
                values,
                undefined,
                metric=function.__name__,
                lacks=lacks.format(**settings),
            )
            return result if per_query else result.mean()

        shared = inspect.signature(metric)
        y, scores, qid, *switches, _ = shared.parameters.values()
        public: Any = update_wrapper(metric, function)
        public.__signature__ = shared.replace(parameters=[y, scores, qid, *own, *switches])
        public.__doc__ = _document(function, defaults, undefined, lacks)
        public.of_ranked = function
        public.metric = Metric(
            public, greater_is_better, name, label, other_names, rules, undefined, lacks, evaluated
        )
        register(public.metric)
        return cast(RankingMetric, public)

    return decorate


def _document(
    function: Callable[..., Array], defaults: Mapping[str, Any], undefined: Undefined, lacks: str
) -> str:
    """The docstring of a metric with the shared parameters and what it returns added."""
    text = inspect.cleandoc(function.__doc__ or "")
    before_notes, notes_title, notes = text.partition("Notes\n-----\n")
    intro, _, own = before_notes.partition("Parameters\n----------\n")
    named = lacks.format(**{option: f"`{option}`" for option in defaults})
    own = f"{own.strip()}\n" if own else ""
    default = f'"{undefined}"' if isinstance(undefined, str) else undefined
    queries = _QUERIES.format(default=default, lacks=named)
    returns = _RETURNS_CURVE if "k" in defaults else _RETURNS
    parameters = f"Parameters\n----------\n{_DATA}{own}{queries}"
    return f"{intro}{parameters}\nReturns\n-------\n{returns}\n{notes_title}{notes}"


def settle_undefined(
    ranked: RankedQueries, values: Array, undefined: Undefined, *, metric: str, lacks: str
) -> QueryValues:
    """Leave out, refuse or fill in the queries without a value (NaN)."""
    names = ranked.groups.names
    missing = np.isnan(values if values.ndim == 1 else values[:, 0])
    if not missing.any():
        return QueryValues(names, values)
    if undefined == "raise":
        raise UndefinedMetricError(
            f"{metric} is not defined for query {names[np.argmax(missing)]} "
            f"({int(missing.sum())} of {len(names)} queries): it has {lacks}. Leave such queries "
            "out with undefined='skip', or give them a value, as in undefined=0.0."
        )
    if undefined == "skip":
        if missing.all():
            raise UndefinedMetricError(
                f"{metric} is not defined for any of the {len(names)} queries: each has {lacks}. "
                "Check y and qid, or give such queries a value, as in undefined=0.0."
            )
        return QueryValues(names[~missing], values[~missing])
    filled = values.copy()
    filled[missing] = float(undefined)
    return QueryValues(names, filled)


def divided(values: Array, by: NDArray[Any]) -> Array:
    """The values of each query, or of each cut-off, divided by numbers; NaN where these are 0."""
    by = by[:, None] if by.ndim < values.ndim else by
    out = np.full(values.shape, np.nan)
    np.divide(values, by, out=out, where=by > 0)
    return out
