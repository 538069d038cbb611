"""The metrics: by relevant rows (MAP, MRR, P, ...), by grades (ERR, NDCG) or by pairs.

Most metrics of the top ranks are sums over the first rows of each ranking, by array expressions.
These are as fast as compiled loops here, and there is nothing to compile at the first use. With
``score_ties="average"`` a value is the expectation over a random order of tied rows; otherwise rows
keep their order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Index
from rankwise.errors import DataError, UndefinedMetricError
from rankwise.graph.query_groups import QueryGroups
from rankwise.metric_names import Metric, Undefined, register
from rankwise.metrics._compiled_loops import Array, Bools, Ints, cascade_curves
from rankwise.metrics.ranked_queries import (
    GRADES,
    RankedQueries,
    RankedRows,
    as_column,
    sort_queries,
)
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
    >>> result
    <QueryValues: 2 queries, mean 0.5000 ± 0.5000>
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


K: TypeAlias = int | Sequence[int] | NDArray[np.integer]

_LARGEST_SUM = 1e300


@dataclass(frozen=True)
class Cutoffs(Rule):
    """One cut-off or several: whole numbers from 1 to 2^53."""

    def allows(self, value: Any) -> bool:
        """Whether a value is a cut-off or a sequence of them."""
        k = np.asarray(value)
        if k.ndim > 1 or not k.size or k.dtype.kind not in "iu":
            return False
        return int(k.min()) >= 1 and int(k.max()) <= 2**53

    def __str__(self) -> str:
        return "an integer of at least 1 or a sequence of such integers, at most 2^53"


OPTIONAL_CUTOFFS = AnyOf(Cutoffs(), None)
TIES: Mapping[str, Rule] = {"score_ties": Choice("average", "order")}
RELEVANCE: Mapping[str, Rule] = {"relevant": Number(), **TIES}
GAINS: Mapping[str, Rule] = {
    "gain": Choice("exponential", "linear"),
    "discount": Choice("log2", "letor"),
    **TIES,
}
OPTIONS = {**RELEVANCE, **GAINS}


def _relevance_metric(
    name: str, options: Mapping[str, Rule], **declared: Any
) -> Callable[[Callable[..., Array]], RankingMetric]:
    """The decorator of metrics that count rows as relevant or not."""
    return ranking_metric(
        name,
        options={**options, **RELEVANCE},
        undefined=0.0,
        lacks="no row with a label of at least {relevant}",
        **declared,
    )


@_relevance_metric(
    "map", {"k": OPTIONAL_CUTOFFS}, label="MAP", other_names=("ap",), evaluated=("whole",)
)
def average_precision(
    ranked: RankedQueries, *, k: K | None = None, relevant: float = 1, score_ties: str = "average"
) -> Array:
    r"""Mean average precision (MAP), of the whole ranking or at k.

    .. math::

        \mathrm{AP} = \frac{1}{R} \sum_{\text{relevant } i}
        \frac{\text{relevant rows down to the rank of } i}{\text{rank of } i}

    for each query with R relevant rows, averaged over queries. AP@k sums over the relevant rows
    among the first k only, and still divides by R, as trec_eval does.

    Parameters
    ----------
    k : int or sequence of int, optional
        The cut-off. A sequence returns an array, at almost no extra cost. None: the whole ranking.
    relevant : float, default=1
        Rows with at least this label are relevant.
    score_ties : {"average", "order"}, default="average"
        How to rank rows with equal scores: take the expected value over all their orders, or
        keep the order of the rows, as the LETOR scripts and ranx do. Only the first does not
        depend on the order of the rows.

    Notes
    -----
    A query without a relevant row counts 0 in LETOR.

    A block of n tied rows, r of them relevant, after s rows, R' of them relevant, adds
    :math:`\sum_{i=1}^{n} \frac{r}{n} \cdot \frac{R' + 1 + (i-1)(r-1)/(n-1)}{s + i}`.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> average_precision([1, 0, 1], [0.9, 0.5, 0.1])  # (1/1 + 2/3) / 2
    0.8333
    >>> average_precision([1, 0], [0.5, 0.5])  # rank one or two
    0.75
    """
    curves = partial(precision_curves, relevant=relevant)
    return divided(at_cutoffs(curves, ranked, k, score_ties), _n_relevant(ranked, relevant))


@_relevance_metric(
    "mrr", {"k": OPTIONAL_CUTOFFS}, label="MRR", other_names=("rr",), evaluated=("whole",)
)
def reciprocal_rank(
    ranked: RankedQueries, *, k: K | None = None, relevant: float = 1, score_ties: str = "average"
) -> Array:
    r"""Mean reciprocal rank of the first relevant row (MRR), of the whole ranking or at k.

    .. math:: \mathrm{RR} = 1 / \min_{\text{relevant } i} \text{rank of } i

    for each query, averaged over queries. With a cut-off, a query without a relevant row among the
    first k counts 0.

    Parameters
    ----------
    k : int or sequence of int, optional
        As for `average_precision`.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1])
    0.5
    >>> reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1], k=1)
    0.0
    """
    return _first_relevant(ranked, k, relevant, score_ties, reciprocal=True)


@_relevance_metric("precision", {"k": Cutoffs()}, label="P", evaluated=("cutoffs",))
def precision_at_k(
    ranked: RankedQueries, *, k: K = 10, relevant: float = 1, score_ties: str = "average"
) -> Array:
    r"""Precision at k: the share of relevant rows among the k with the highest scores.

    .. math:: \mathrm{P@}k = \frac{\text{relevant rows among the first } k}{k}

    for each query, averaged over queries. The divisor is k even for a query with fewer rows, as
    in LETOR.

    Parameters
    ----------
    k : int or sequence of int, default=10
        The cut-off. A sequence returns an array, at almost no extra cost.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> precision_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=2)
    0.5
    >>> precision_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=[1, 2, 4])
    array([1. , 0.5, 0.5])
    """
    share = np.minimum(_relevant_among(ranked, k, relevant, score_ties) / np.asarray(k), 1.0)
    return divided(share, _n_relevant(ranked, relevant) > 0)


@_relevance_metric("recall", {"k": Cutoffs()}, other_names=("r",))
def recall_at_k(
    ranked: RankedQueries, *, k: K = 10, relevant: float = 1, score_ties: str = "average"
) -> Array:
    r"""Recall at k: the share of the relevant rows that are among the k with the highest scores.

    .. math::

        \mathrm{R@}k = \frac{\text{relevant rows among the first } k}{\text{relevant rows}}

    for each query, averaged over queries.

    Parameters
    ----------
    k : int or sequence of int, default=10
        The cut-off. A sequence returns an array, at almost no extra cost.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> recall_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=[1, 3])
    array([0.5, 1. ])
    """
    found = _relevant_among(ranked, k, relevant, score_ties)
    return np.minimum(divided(found, _n_relevant(ranked, relevant)), 1.0)  # rounding


@_relevance_metric("success", {"k": Cutoffs()})
def success_at_k(
    ranked: RankedQueries, *, k: K = 10, relevant: float = 1, score_ties: str = "average"
) -> Array:
    r"""Success at k, also called hit rate: the share of queries with a relevant row at the top.

    .. math:: \mathrm{S@}k = [\text{a relevant row is among the first } k]

    for each query, averaged over queries.

    Parameters
    ----------
    k : int or sequence of int, default=10
        The cut-off. A sequence returns an array, at almost no extra cost.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> success_at_k([0, 1, 0], [0.9, 0.5, 0.1], k=[1, 2])
    array([0., 1.])
    """
    return _first_relevant(ranked, k, relevant, score_ties, reciprocal=False)


@_relevance_metric("rbp", {"persistence": Number(0, 1, open_low=True, open_high=True)}, label="RBP")
def rank_biased_precision(
    ranked: RankedQueries,
    *,
    persistence: float = 0.8,
    relevant: float = 1,
    score_ties: str = "average",
) -> Array:
    r"""Rank-biased precision (RBP).

    .. math:: \mathrm{RBP} = (1 - p) \sum_{\text{relevant } i} p^{\,\text{rank of } i - 1}

    for each query, averaged over queries: the rate at which a reader, who goes on to the next row
    with probability p, finds relevant rows [1]_. The largest possible value is below 1.

    Parameters
    ----------
    persistence : float, default=0.8
        The probability p, between 0 and 1.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    References
    ----------
    .. [1] Moffat, Zobel: Rank-biased precision for measurement of retrieval effectiveness. ACM
       Transactions on Information Systems 27, 2008.

    Examples
    --------
    >>> rank_biased_precision([1, 0, 1], [0.9, 0.5, 0.1], persistence=0.5)  # (1 + 1/4) / 2
    0.625
    """

    def weights(n_ranks: int) -> Array:
        return np.asarray((1.0 - persistence) * persistence ** np.arange(n_ranks))

    found = _relevant_among(ranked, None, relevant, score_ties, weights)
    return divided(found, _n_relevant(ranked, relevant) > 0)


@ranking_metric(
    "err",
    label="ERR",
    options={
        "k": OPTIONAL_CUTOFFS,
        "max_grade": AnyOf(None, Number(0, 1000, open_low=True)),
        **TIES,
    },
    undefined=0.0,
    lacks="no row with a label above 0",
)
def expected_reciprocal_rank(
    ranked: RankedQueries,
    *,
    k: K | None = None,
    max_grade: float | None = None,
    score_ties: str = "average",
) -> Array:
    r"""Expected reciprocal rank (ERR).

    .. math::

        \mathrm{ERR@}k = \sum_{r \le k} \frac{1}{r} R_r \prod_{s < r} (1 - R_s),
        \quad R_r = \frac{2^{y_{(r)}} - 1}{2^{y_{\max}}}

    for each query, averaged over queries: a reader stops at a row of label y with probability R,
    and ERR is the expected reciprocal of the rank of this row [1]_. Labels must not be negative.

    Parameters
    ----------
    k : int or sequence of int, optional
        As for `average_precision`.
    max_grade : float, optional
        The largest possible label :math:`y_{\max}`. None: the largest label in y. TREC's gdeval
        uses 4.
    score_ties : {"average", "order"}, default="average"
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, and O(n t) for t tied rows; O(n) memory.

    References
    ----------
    .. [1] Chapelle, Metzler, Zhang, Grinspan: Expected reciprocal rank for graded relevance.
       CIKM 2009.

    Examples
    --------
    >>> expected_reciprocal_rank([2, 0, 1], [0.9, 0.5, 0.1])  # 3/4 + (1/4) (1/4) / 3
    0.7708
    """
    smallest, largest = float(ranked.labels.min()), float(ranked.labels.max())
    if smallest < 0:
        raise DataError(f"ERR needs labels of 0 and above: got {smallest:g}. Shift the labels.")
    highest = largest if max_grade is None else float(max_grade)
    if largest > highest:
        raise DataError(f"y has a label of {largest:g}, above max_grade={highest:g}.")
    labels = ranked.labels
    stopping = np.exp2(labels - highest) - np.exp2(-highest)
    small = labels < 1.0
    stopping[small] = np.expm1(labels[small] * np.log(2.0)) * np.exp2(-highest)  # no digits lost

    def curves(part: RankedRows, ks: Ints) -> Array:
        values = np.zeros((len(part.stops), len(ks)))
        cascade_curves(stopping[part.rows], part.tied, part.indptr, part.stops, ks, values)
        return values

    values = at_cutoffs(curves, ranked, k, score_ties)
    return divided(values, np.maximum.reduceat(stopping, ranked.groups.indptr[:-1]) > 0)


@ranking_metric(
    "ndcg",
    label="NDCG",
    options={"k": OPTIONAL_CUTOFFS, **GAINS},
    undefined=0.0,
    lacks="no row with a gain above 0",
    evaluated=("whole", "cutoffs"),
)
def ndcg(
    ranked: RankedQueries,
    *,
    k: K | None = None,
    gain: str = "exponential",
    discount: str = "log2",
    score_ties: str = "average",
) -> Array:
    r"""Normalized discounted cumulative gain (NDCG).

    .. math::

        \mathrm{NDCG@}k = \frac{\sum_{r \le k} g(y_{(r)})\, d(r)}
        {\sum_{r \le k} g(y^*_{(r)})\, d(r)}

    for each query, averaged over queries; :math:`y_{(r)}` is the label at rank r by the scores,
    :math:`y^*_{(r)}` by the labels themselves. Labels must not be negative.

    Parameters
    ----------
    k : int or sequence of int, optional
        The cut-off. A sequence returns an array, at almost no extra cost. None: the whole ranking.
    gain : {"exponential", "linear"}, default="exponential"
        :math:`g(y) = 2^y - 1`, or :math:`g(y) = y`.
    discount : {"log2", "letor"}, default="log2"
        :math:`d(r) = 1/\log_2(r + 1)`; or LETOR 1.0's discount, 1 at rank one and
        :math:`1/\log_2 r` from rank two, which makes the first two ranks equal.
    score_ties : {"average", "order"}, default="average"
        As for `average_precision`; on average, each rank of tied rows gets their mean gain.

    Notes
    -----
    A query whose gains are all 0 counts 0 in LETOR.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1])
    0.9639
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1], k=[1, 2]).round(4)
    array([1.    , 0.8262])
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1], k=2, discount="letor")
    0.75
    """
    _check_gains(ranked.labels, gain)
    gains, discounts = partial(_gain, gain=gain), partial(_discounts, discount=discount)

    def curves(part: RankedRows, ks: Ints) -> Array:
        indptr = part.indptr
        top = TopRows.of(indptr, part.stops, discounts, ks)
        found = top.sums(part, gains)
        if (part.stops < indptr[1:]).any():
            top = TopRows.of(indptr, indptr[1:], discounts, ks)
        best = top.weighted(gains(-sort_queries(-part.labels, indptr)[top.rows]))
        return np.minimum(divided(found, best), 1.0)

    return at_cutoffs(curves, ranked, k, score_ties)


def _first_relevant(
    ranked: RankedQueries, k: Any, relevant: float, score_ties: str, *, reciprocal: bool
) -> Array:
    """The probability of a relevant row among the first k, or its expected reciprocal rank."""
    curves = partial(first_relevant, relevant=relevant, reciprocal=reciprocal)
    return divided(at_cutoffs(curves, ranked, k, score_ties), _n_relevant(ranked, relevant) > 0)


def first_relevant(part: RankedRows, ks: Ints, relevant: float, reciprocal: bool) -> Array:
    """The probability that a relevant row is among the first k, for each k of `ks`.

    With `reciprocal`, the first relevant row counts 1 / rank instead of 1. Of n tied rows with r
    relevant ones, the first relevant row has one of n - r + 1 places.
    """
    values = np.zeros((len(part.stops), len(ks)))
    hits = np.append(np.flatnonzero(part.labels >= relevant), len(part.labels))
    first = hits[hits.searchsorted(part.indptr[:-1])]
    some = np.flatnonzero(first < part.stops)
    first, blocks = first[some], np.append(np.flatnonzero(~part.tied), len(part.labels))
    block = blocks.searchsorted(first, side="right")
    begin, end = blocks[block - 1], np.minimum(blocks[block], part.stops[some])
    n_hits = hits.searchsorted(end) - hits.searchsorted(first)
    above, places = begin - part.indptr[some], end - begin - n_hits + 1
    starts = np.concatenate(([0], np.cumsum(places)))
    query = np.repeat(np.arange(len(some)), places)
    place = np.arange(len(query)) - starts[query]
    chance = n_hits[query] / ((end - begin)[query] - place)  # if no hit is further up
    log_missed = np.log1p(-np.where(chance < 1.0, chance, 0.0))
    log_missed = np.cumsum(log_missed) - log_missed
    terms = chance * np.exp(log_missed - log_missed[starts[query]])
    if reciprocal:
        terms /= above[query] + place + 1
    ends = starts[:-1, None] + np.clip(ks - above[:, None], 0, places[:, None])
    values[some] = _sums(terms, starts, ends)
    return values


def _relevant_among(
    ranked: RankedQueries,
    k: Any,
    relevant: float,
    score_ties: str,
    weights: Callable[[int], Array] = np.ones,
) -> Array:
    """The number of relevant rows among the first k, or the sum of the weights of their ranks."""

    def hits(labels: Array) -> Array:
        return (labels >= relevant).astype(np.float64)

    def curves(part: RankedRows, ks: Ints) -> Array:
        return TopRows.of(part.indptr, part.stops, weights, ks).sums(part, hits)

    return at_cutoffs(curves, ranked, k, score_ties)


def _n_relevant(ranked: RankedQueries, relevant: float) -> NDArray[np.int64]:
    """The number of relevant rows of each query."""
    starts = ranked.groups.indptr[:-1]
    return np.add.reduceat(ranked.labels >= relevant, starts, dtype=np.int64)


def _check_gains(labels: Array, gain: str) -> None:
    """Raise an error for labels that have no gain."""
    smallest, largest = float(labels.min()), float(labels.max())
    if smallest < 0:
        raise DataError(
            f"NDCG needs labels of 0 and above: got {smallest:g}. Shift the labels, or use a "
            "pairwise metric (disagreement_error, kendall_tau), which takes any real labels."
        )
    with np.errstate(over="ignore"):
        most = float(_gain(np.array([largest]), gain)[0]) * len(labels)
    if most > _LARGEST_SUM:
        remedy = (
            "use gain='linear', or a pairwise metric (disagreement_error, kendall_tau)"
            if gain == "exponential"
            else "divide them by a constant, which does not change NDCG"
        )
        raise DataError(f"Labels up to {largest:g} are too large for gain={gain!r}: {remedy}.")


def _gain(labels: Array, gain: str) -> Array:
    if gain == "linear":
        return labels + 0.0
    if labels.max(initial=0.0) < GRADES and ((grades := labels.astype(np.intp)) == labels).all():
        return np.asarray(np.take(np.exp2(np.arange(GRADES)) - 1.0, grades))
    gains = np.exp2(labels) - 1.0
    small = (labels > 0) & (labels < 1e-3)  # where the difference would cancel
    if small.any():
        gains[small] = np.expm1(labels[small] * np.log(2.0))
    return gains


def _discounts(n_ranks: int, discount: str) -> Array:
    """The discounts of the ranks 1, ..., n_ranks."""
    ranks = np.arange(1, n_ranks + 1, dtype=np.float64)
    if discount == "letor":
        return 1.0 / np.log2(np.maximum(ranks, 2.0))
    return 1.0 / np.log2(ranks + 1.0)


def at_cutoffs(
    curves: Callable[[RankedRows, Ints], Array], ranked: RankedQueries, k: Any, score_ties: str
) -> Array:
    """Values for each cut-off of k, from a function of some queries and ascending cut-offs.

    With ``score_ties="order"``, rows with equal scores keep the order of the input.
    """
    if score_ties == "order":
        ranked = replace(ranked, tied=np.zeros_like(ranked.tied))
    cutoffs = np.asarray(ranked.groups.sizes.max() if k is None else k, dtype=np.int64)
    ascending, where = np.unique(cutoffs, return_inverse=True)
    values = ranked.map_parts(lambda part: curves(part, ascending))
    return values[:, where] if cutoffs.ndim else values[:, 0]


@dataclass(frozen=True)
class TopRows:
    """The rows of each ranking down to the last of some ascending cut-offs.

    Attributes
    ----------
    rows : ndarray of shape (n_top,) or slice
        Where they are.
    weights : ndarray of shape (n_top,)
        The weights of their ranks.
    starts : ndarray of shape (n_queries + 1,)
        ``rows[starts[g]:starts[g + 1]]`` belong to query g.
    ends : ndarray of shape (n_queries, n_cutoffs)
        ``rows[starts[g]:ends[g, j]]`` are the rows down to the cut-off j.
    """

    rows: Ints | slice
    weights: Array
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, indptr: Ints, stops: Ints, weights: Callable[[int], Array], ks: Ints) -> TopRows:
        """The first ``ks[-1]`` rows from ``indptr[g]`` to ``stops[g]``, for each query g.

        ``weights(n)`` are the weights of the first n ranks.
        """
        sizes = np.minimum(stops - indptr[:-1], ks[-1])
        starts = np.concatenate(([0], np.cumsum(sizes)))
        ranks = np.arange(starts[-1])
        ranks -= np.repeat(starts[:-1], sizes)
        is_all = len(ranks) == indptr[-1]
        rows = slice(None) if is_all else ranks + np.repeat(indptr[:-1], sizes)
        ends = np.minimum(starts[:-1, None] + ks, starts[1:, None])
        return cls(rows, weights(int(sizes.max()))[ranks], starts, ends)

    def sums(self, part: RankedRows, score: Callable[[Array], Array]) -> Array:
        """The sum of the scores of labels times weights down to each cut-off.

        The score of a row is the mean over the rows that tie with it.
        """
        if not part.tied.any():
            return self.weighted(score(part.labels[self.rows]))
        first, n = _blocks(part.tied)
        means = np.repeat(np.add.reduceat(score(part.labels), first) / n, n)
        return self.weighted(means[self.rows])

    def weighted(self, values: Array) -> Array:
        """The sums of values, one per row, times weights, shape (queries, cut-offs)."""
        return _sums(values * self.weights, self.starts, self.ends)


def precision_curves(part: RankedRows, ks: Ints, relevant: float) -> Array:
    """The sum of the precisions at the relevant rows among the first k, for each k of `ks`."""
    labels, tied, indptr, stops = part.labels, part.tied, part.indptr, part.stops
    hits = labels >= relevant
    ends = np.minimum(indptr[:-1, None] + ks, stops[:, None])
    if tied.any():
        ranks = np.arange(1, len(hits) + 1) - np.repeat(indptr[:-1], np.diff(indptr))
        return _sums(_mean_found(hits, tied, indptr) / ranks, indptr, ends)
    rows = np.flatnonzero(hits)
    starts = np.searchsorted(rows, indptr)
    sizes = np.diff(starts)
    terms = np.arange(1.0, len(rows) + 1)
    terms -= np.repeat(starts[:-1].astype(np.float64), sizes)  # relevant rows down to each of them
    terms /= rows - np.repeat(indptr[:-1] - 1.0, sizes)  # ranks
    return _sums(terms, starts, np.searchsorted(rows, ends))


def _mean_found(hits: Bools, tied: Bools, indptr: Ints) -> Array:
    """The number of relevant rows down to each row if it is relevant, else 0, expected over ties.

    In a block of n tied rows with r relevant ones, a row is relevant with probability r / n. Then
    each row before it in the block is relevant with probability (r - 1) / (n - 1).
    """
    first, n = _blocks(tied)
    r = np.add.reduceat(hits, first, dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(r)))
    query = np.searchsorted(first, indptr)  # every query begins with a block
    found = before[:-1] - np.repeat(before[query[:-1]], np.diff(query)) + 1
    step = (r - 1) / np.maximum(n - 1, 1)
    within = np.arange(len(hits)) - np.repeat(first, n)
    return np.repeat(r / n, n) * (np.repeat(found, n) + within * np.repeat(step, n))


def _blocks(tied: Bools) -> tuple[Ints, Ints]:
    """Where the blocks of tied rows begin, and their sizes; a row without a tie is a block."""
    first = np.flatnonzero(~tied)
    return first, np.diff(first, append=len(tied))


def _sums(terms: Array, starts: Ints, ends: Ints) -> Array:
    """The sums of ``terms[starts[g]:ends[g, j]]``, with ascending ends up to ``starts[g + 1]``."""
    begins = np.column_stack((starts[:-1], ends))
    is_full = begins < np.column_stack((ends, starts[1:]))
    sums = np.zeros(begins.shape)
    if is_full.any():
        sums[is_full] = np.add.reduceat(terms, begins[is_full])
    return np.asarray(np.cumsum(sums[:, :-1], axis=1))


_ONE_LABEL = "only one row or only one distinct label"


@ranking_metric(
    "disagreement",
    greater_is_better=False,
    options={"score_ties": Choice("half", "wrong"), "label_ties": Choice("exclude", "half")},
    undefined="skip",
    lacks=_ONE_LABEL,
    evaluated=("whole",),
)
def disagreement_error(
    ranked: RankedQueries, *, score_ties: str = "half", label_ties: str = "exclude"
) -> Array:
    r"""Share of the pairs of a query that the scores order wrongly, averaged over queries.

    .. math::

        \frac{1}{N} \sum_{i < j} W_{ij}\,
        \tfrac12 \left| \operatorname{sign}(y_i - y_j) - \operatorname{sign}(f_i - f_j) \right|,
        \qquad N = \sum_{i < j} W_{ij},

    within each query. A pair in the wrong order counts 1, a pair that ties on one side only
    counts 1/2, and 0 is perfect. With the defaults it is one minus the concordance index.

    Parameters
    ----------
    score_ties : {"half", "wrong"}, default="half"
        What a pair with different labels and equal scores counts: 1/2, as in (3) of [1]_, or 1.
        The second follows from sign(0) = -1 in [3]_ for a comparison seen from the preferred row.
        In equation (4) of that paper, where a symmetric W has each pair in both orders, a tie
        counts 1 in one order and 0 in the other. There the two conventions agree; they differ on
        comparisons that are listed in one direction only.
    label_ties : {"exclude", "half"}, default="exclude"
        Whether only pairs with different labels count (W_ij = 1 where the labels differ), or all
        pairs of a query, as on the all-pairs graph of [1]_. Equal labels with different scores
        then count 1/2, and 0 with equal scores.

    Notes
    -----
    O(n log n) time in the rows of a query, by Knight's algorithm; O(n) memory. Pairs are counted
    in integers.

    References
    ----------
    .. [1] Pahikkala, Tsivtsivadze, Airola, Boberg, Salakoski, "Learning to rank with pairwise
       regularized least-squares" (2007), equation (3).
    .. [2] Tsivtsivadze, Pahikkala, Airola, Boberg, Salakoski, "A sparse regularized
       least-squares preference learning algorithm" (2008), equation (1).
    .. [3] Tsivtsivadze, Cseke, Heskes, "Kernel principal component ranking" (2009), equation (4).

    Examples
    --------
    >>> disagreement_error([2, 1, 0], [0.9, 0.2, 0.4])  # one of three pairs
    0.3333
    >>> disagreement_error([1, 0], [0.5, 0.5])
    0.5
    >>> disagreement_error([1, 0], [0.5, 0.5], score_ties="wrong")
    1.0
    """
    total, discordant, label_tied, score_tied, both_tied = ranked.pair_counts.T
    weight = 1 if score_ties == "half" else 2
    twice = 2 * discordant + weight * (score_tied - both_tied)
    if label_ties == "exclude":
        return divided(twice, 2.0 * (total - label_tied))
    return divided(twice + (label_tied - both_tied), 2.0 * total)


@ranking_metric("concordance", undefined="skip", lacks=_ONE_LABEL)
def concordance_index(ranked: RankedQueries) -> Array:
    r"""Share of the pairs with different labels that the scores order correctly.

    .. math::

        \frac{|\{y_i > y_j, f_i > f_j\}| + \frac12 |\{y_i > y_j, f_i = f_j\}|}{|\{y_i > y_j\}|}

    within each query, averaged over queries. It is one minus `disagreement_error` and, for
    labels with two values, the area under the ROC curve (AUC).

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> concordance_index([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return 1.0 - disagreement_error.of_ranked(ranked)


register(replace(concordance_index.metric, name="auc", label="AUC"))


@ranking_metric(
    "kendall_tau", label="Kendall tau_b", undefined="skip", lacks=_ONE_LABEL, evaluated=("whole",)
)
def kendall_tau(ranked: RankedQueries) -> Array:
    r"""Kendall's rank correlation tau_b between labels and scores, averaged over queries.

    .. math::

        \tau_b = \frac{C - D}{\sqrt{(N - T_y)(N - T_f)}}

    with C concordant and D discordant pairs out of the N pairs of a query, of which T_y tie in
    the labels and T_f in the scores.

    Notes
    -----
    A query with different labels and equal scores has value 0, since such scores define no order.
    (SciPy returns NaN.) Which queries count therefore depends on the labels alone, and two rankers
    are averaged over the same queries.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> kendall_tau([3, 2, 1], [0.3, 0.2, 0.1])
    1.0
    >>> kendall_tau([2, 1, 1, 0], [0.9, 0.1, 0.5, 0.1], qid=["a", "a", "b", "b"])
    1.0
    """
    total, discordant, label_tied, score_tied, both_tied = ranked.pair_counts.T
    concordant = total - discordant - label_tied - score_tied + both_tied
    by_label = (total - label_tied).astype(np.float64)
    by_score = np.maximum(total - score_tied, 1).astype(np.float64)
    return divided(concordant - discordant, np.sqrt(by_label * by_score))


def weighted_concordance(y: Any, scores: Any, qid: Any, weights: Array) -> float:
    """The concordance index, where a pair is weighted by the product of the weights of its rows.

    The share of correct pairs is averaged over the queries that have pairs of different labels, all
    with the same weight; rows of weight 0 are left out.

    O(n log n) time for each bit of the number of different labels.

    Examples
    --------
    >>> weighted_concordance([1, 0, 0], [0.5, 0.9, 0.1], None, np.array([1.0, 1.0, 3.0]))
    0.75
    """
    labels, values = as_column(y, "y"), as_column(scores, "scores")
    kept = np.flatnonzero(weights)
    groups = QueryGroups.of(qid, len(labels)).take(kept)
    labels, values, weights, code = labels[kept], values[kept], weights[kept], groups.codes
    weights = weights / np.bincount(code, weights)[code]  # does not change shares
    level, place = (np.unique(column, return_inverse=True)[1] for column in (labels, values))
    correct, total = np.zeros((2, groups.n_groups))
    # Two labels differ first in one bit: each pair is in one block of rows, one on either side.
    for bit in range(int(level.max(initial=0)).bit_length()):
        order = np.lexsort((place, level >> (bit + 1), code))
        query, block, score = code[order], level[order] >> (bit + 1), place[order]
        is_above = (level[order] >> bit) & 1 == 1
        below, above = (np.where(side, weights[order], 0.0) for side in (~is_above, is_above))
        blocks, ties = _runs(query, block), _runs(query, block, score)
        before = np.cumsum(below) - below
        lower = before[ties] - before[blocks]
        in_ties, in_blocks = np.bincount(ties, below), np.bincount(blocks, below)
        correct += np.bincount(query, above * (lower + 0.5 * in_ties[ties]), groups.n_groups)
        total += np.bincount(query, above * in_blocks[blocks], groups.n_groups)
    if not (total > 0).any():
        raise UndefinedMetricError(
            f"The score is not defined for any of the {groups.n_groups} queries: each has only one "
            "row of weight above 0, or only one distinct label. Check y, qid and sample_weight."
        )
    return float((correct[total > 0] / total[total > 0]).mean())


def _runs(*columns: Index) -> Index:
    """Where each row's run begins, of rows that have the same values in some columns."""
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
