"""Why one row is ranked above another: what each feature adds to the difference of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.inspection.composed_rows import UserRows, as_cells, joined, stacked, values
from rankwise.inspection.scorers import (
    ADDITIVE,
    EXACT,
    SAMPLED,
    TREES,
    Shares,
    ShareSettings,
    check_ranker,
    read_scorer,
)
from rankwise.model_selection.meta_rankers import is_within_queries
from rankwise.model_selection.rows import split_pipeline, take, transform
from rankwise.parameters import Whole, check_value
from rankwise.routing import last_step, predict_with_queries
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOP = 15  # features in a table
NAMED = 3  # features in a sentence
LARGE = 0.6  # of the sum on a side: what the first features of a sentence add up to
WORTH_NAMING = 0.1  # of the largest contribution
AGREEMENT = 1e-6  # of the scores, between contributions and predictions
MISSING = "missing"  # a value that is not there
NEIGHBOURS = 50  # positions that `explain_ranking` explains


@dataclass(frozen=True, eq=False)
class PairExplanation(TableMixin):
    """What each feature adds to the difference of two scores.

    Print it or show it in a notebook to see a table below a sentence.

    Attributes
    ----------
    names : list of str
        The features: the columns of the rows.
    contributions : ndarray of shape (n_features,)
        What each feature adds to the difference of the two scores; they sum to `difference`.
    difference : float
        Score of the better row less score of the worse row.
    standard_errors : ndarray of shape (n_features,) or None
        Of contributions, if these were sampled.
    better_values, worse_values : list
        The two rows, as they were passed.
    scores : (float, float)
        The predicted scores of the two rows.
    positions : (int, int) or None
        Their positions in the ranked query, from 1.
    method : str
        How contributions were computed, and against which rows.
    probability : float or None
        For a Gaussian process: the probability that the first row is better.
    rounding : float
        How far the difference of the predicted scores is from the sum of contributions. If this is
        more than the sum, as in float32 for features far from 0, the order of the two rows is due
        to rounding errors, and the sentence says so.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.inspection import explain
    >>> ranker = RankRLS(1e-9).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [0.0, 4.0, 7.0])
    >>> explain(ranker, [3.0, 1.0], [1.0, 2.0]).contributions.round(3)
    array([7.333, 0.333])
    """

    names: list[str]
    contributions: Array
    difference: float
    standard_errors: Array | None
    better_values: list[Any]
    worse_values: list[Any]
    scores: tuple[float, float]
    positions: tuple[int, int] | None
    method: str
    probability: float | None = None
    rounding: float = 0.0

    @property
    def order(self) -> Index:
        """The features with a contribution, the largest first."""
        order = np.argsort(-np.abs(self.contributions), kind="stable")
        return order[self.contributions[order] != 0.0]

    @property
    def _is_rounded(self) -> bool:
        """Whether the two scores are in the wrong order, or equal, for want of digits."""
        near_tie = AGREEMENT * np.abs(self.contributions).sum()
        return bool(near_tie < abs(self.difference) <= self.rounding)

    @property
    def sentence(self) -> str:
        """The main reasons in a sentence."""
        c, order = self.contributions, self.order
        if not len(order):
            return "Level: no feature makes a difference."
        sign = np.sign(self.difference) or 1.0
        rounded = self._is_rounded
        level = abs(self.difference) <= max(self.rounding, 1e-9 * np.abs(c).sum())
        word = "Level" if level else "Above" if sign > 0 else "Below"
        word += " within rounding errors" if rounded else ""
        reasons = self._largest(order[c[order] * sign > 0], LARGE)
        against = [k for k in self._largest(order[c[order] * sign < 0], LARGE)
                   if abs(c[k]) >= WORTH_NAMING * abs(c[order[0]])]  # fmt: skip
        text = f"{word}, mainly because of {self._listed(reasons)}"
        if level:
            text = f"{word}: {self._listed(reasons)}"
        if against:
            text += f" and {'' if level else 'in spite of '}{self._listed(against)}"
            text += " balance" if level and not rounded else ""
        if self.probability is not None:
            text += f"; the probability that it is better is {self.probability:.2f}"
        return f"{text}."

    def _largest(self, order: Index, share: float) -> list[int]:
        sizes = np.abs(self.contributions[order])
        enough = int(np.searchsorted(np.cumsum(sizes), share * sizes.sum())) + 1
        return [int(k) for k in order[: min(enough, NAMED)]]

    def _listed(self, features: Sequence[int]) -> str:
        words = [f"{self.names[k]} ({short(self.contributions[k])})" for k in features]
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

    def to_table(self, *, top: int = TOP) -> Table:
        """The largest contributions, with the sentence above.

        Parameters
        ----------
        top : int, default=15
            How many features to show.
        """
        check_value("top", top, Whole(1))
        order, c = self.order, self.contributions
        shown, rest = order[:top], order[top:]
        columns = [Column("feature", ""), Column("better", ""), Column("worse", "")]
        columns += [Column("adds", "+.4f")]
        rows: list[tuple[Any, ...]] = [
            (self.names[k], *both_shown(self.better_values[k], self.worse_values[k]), float(c[k]))
            for k in shown
        ]
        errors = self.standard_errors
        if errors is not None:
            columns.append(Column("s.e."))
            rows = [(*row, float(errors[k])) for row, k in zip(rows, shown, strict=True)]
        blank = () if errors is None else (None,)
        if len(rest):
            rows.append((plural(len(rest), "other feature"), "", "", float(c[rest].sum()), *blank))
        rows.append(("score", *both_shown(*self.scores), self.difference, *blank))
        note = f"Contributions are {self.method}"
        if self._is_rounded:
            note += " Scores are too large for their precision: subtract a constant from features "
            note += "that are far from 0, or use float64."
        return Table(tuple(columns), tuple(rows), self.sentence, note)

    def _frame_columns(self) -> dict[str, Any]:
        columns = {
            "feature": self.names,
            "better": self.better_values,
            "worse": self.worse_values,
            "contribution": self.contributions,
        }
        more = self.standard_errors
        return columns if more is None else columns | {"standard_error": more}

    def plot(self, *, top: int = 10, ax: Axes | None = None) -> Axes:
        """Draw the contributions as steps from the worse row's score to the better row's.

        Parameters
        ----------
        top : int, default=10
            How many features to show.
        ax : matplotlib Axes, optional
        """
        from rankwise.plots import plot_contributions

        return plot_contributions(self, top=top, ax=ax)

    def __repr__(self) -> str:
        return f"<PairExplanation: {self.sentence}>"


def short(value: float) -> str:
    """A signed number in few characters: +.42, -12, +3.1e+04."""
    size = abs(value)
    if size >= 9999.5 or size < 0.00995:
        return f"{value:+.1e}"
    if size >= 9.995:
        return f"{value:+.0f}"
    text = f"{value:+.2f}"
    return text.replace("0.", ".", 1) if size < 1 else text


def both_shown(one: Any, other: Any, digits: int = 5) -> tuple[str, str]:
    """Two values in a table, with as many digits as it takes to tell them apart."""
    for more in range(digits, 17):
        found = shown(one, more), shown(other, more)
        if found[0] != found[1]:
            return found
    return shown(one, digits), shown(other, digits)


def shown(value: Any, digits: int) -> str:
    """A value of a feature in a table."""
    if isinstance(value, (bool, np.bool_, str)):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return MISSING if value != value else str(value).removesuffix(" 00:00:00")  # of dates
    if number != number:
        return MISSING
    is_short = number.is_integer() and abs(number) < 1e7
    return f"{number:.0f}" if is_short else f"{number:.{digits}g}"


@dataclass(frozen=True, eq=False)
class RankingExplanation(TableMixin):
    """A ranked query, with the reason beside each pair of neighbours.

    Print it or show it in a notebook; `to_frame` returns a row for each position.

    Attributes
    ----------
    rows : ndarray of shape (n_positions,)
        Row numbers in the X that was passed, best first.
    scores : ndarray of shape (n_positions,)
    pairs : list of PairExplanation
        Why each position is above the next one.
    query : object
        The query; None without queries.
    ids : list or None
        Ids of the rows, if they were passed.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.inspection import explain_ranking
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
    >>> found = explain_ranking(RankRLS(1e-9).fit(X, [0.0, 4.0, 7.0]), X, ids=["a", "b", "c"])
    >>> found.ids, len(found.pairs)
    (['c', 'b', 'a'], 2)
    """

    rows: Index
    scores: Array
    pairs: list[PairExplanation]
    query: Any = None
    ids: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def _named(self) -> tuple[str, list[Any]]:
        return ("row", self.rows.tolist()) if self.ids is None else ("id", self.ids)

    def _reasons(self) -> list[str]:
        reasons = [pair.sentence for pair in self.pairs]
        return [*reasons, *[""] * (len(self.rows) - len(reasons))]

    def to_table(self) -> Table:
        """Position, row, score, and why it is above the next one."""
        name, labels = self._named
        numbers, names = range(1, len(self) + 1), map(str, labels)
        rows = zip(numbers, names, self.scores.tolist(), self._reasons(), strict=True)
        columns = (
            Column("position"),
            Column(name, ""),
            Column("score"),
            Column("against the next", ""),
        )
        title = "" if self.query is None else f"Query {self.query}"
        note = f"Contributions are {self.pairs[0].method}" if self.pairs else ""
        return Table(columns, tuple(rows), title, note)

    def _frame_columns(self) -> dict[str, Any]:
        name, labels = self._named
        return {
            "position": np.arange(1, len(self.rows) + 1),
            name: labels,
            "score": self.scores,
            "reason": self._reasons(),
        }

    def __repr__(self) -> str:
        return f"<RankingExplanation: {plural(len(self), 'position')}>"


def explain(
    ranker: Any,
    better: Any,
    worse: Any,
    *,
    X: Any = None,
    qid: Any = None,
    query: Any = None,
    background: Any = None,
    output: int = 0,
    n_samples: int = 400,
    random_state: int = 0,
    names: Sequence[str] | None = None,
) -> PairExplanation:
    """Explain why one row is ranked above another: what each feature adds to the difference.

    Features are the columns of the rows, even if a pipeline or `AutoRanker` turns them into others:
    all features that an encoder makes of a column move together with it. The contributions sum to
    the difference of the scores, and depend on the ranker:

    =============================================  ===============================================
    linear, additive                               in closed form, in the user's own units
    rbf and laplacian kernels, `PairwiseGP`        Shapley values, in closed form
    `BoostedRanker`                                LightGBM's contributions
    `MeanRanker`, `AutoRanker`                     the weighted sum over the parts
    other kernels and spaces, other models         Shapley values: of all subsets if at most 10
                                                   features differ, otherwise sampled
    =============================================  ===============================================

    A Shapley value is the mean change of the score when a feature moves from the worse row to the
    better one, over all orders in which the features may move.

    If features are scaled within queries, or scores are (`MeanRanker`), the other rows of the query
    matter. What was learned from the query, such as the smallest and the largest value of a
    feature, is held fixed while features move.

    Parameters
    ----------
    ranker : estimator
        A fitted ranker, pipeline or search.
    better, worse : array-like of shape (n_features,), or int
        Two rows; or, with `X`, their positions in the ranked query, from 1.
    X : array-like, sparse or data frame of shape (n_rows, n_features), optional
        All rows of the query, or of several. Needed if the ranker scales within queries.
    qid : array-like of shape (n_rows,), optional
        The query of every row of X. None: they are one query.
    query : object, optional
        Which query, if there are several.
    background : array-like of shape (n_reference, n_features), "query" or None, default=None
        Rows that replace features of a row, in Shapley values. None: the other row. Rows: the mean
        over these rows, for both rows. "query": over the rows of the query. It makes no difference
        to linear and additive rankers. For `BoostedRanker`, None stands for the training rows that
        LightGBM has counted in each node.
    output : int, default=0
        Which output to explain, if y had several columns.
    n_samples : int, default=400
        How many orders of the features are sampled, where that is needed.
    random_state : int, default=0
        Seed for the sample.
    names : sequence of str, optional
        Names of the features. None: the names of the columns, or x0, x1, ...

    Returns
    -------
    PairExplanation
        Print it, or see `contributions`, `sentence`, `to_frame()` and `plot()`.

    Notes
    -----
    For d features that differ and m landmarks, the Shapley values of a product kernel take
    O(m d^2) time, and this for every row of a background.

    Examples
    --------
    >>> import pandas as pd
    >>> from rankwise import SparseRankRLS
    >>> from rankwise.inspection import explain
    >>> hotels = pd.DataFrame({"price": [90.0, 60.0, 120.0, 75.0], "stars": [4, 3, 5, 2]})
    >>> ranker = SparseRankRLS(0.1, random_state=0).fit(hotels, [3, 2, 1, 0])
    >>> why = explain(ranker, hotels.iloc[0], hotels.iloc[3])
    >>> why.sentence
    'Above, mainly because of stars (+2.55).'
    >>> round(float(why.contributions.sum() - why.difference), 9)
    0.0
    """
    options = background, output, n_samples, random_state, names
    if X is None:
        if isinstance(better, (int, np.integer)) or isinstance(worse, (int, np.integer)):
            raise ParameterError(
                f"Positions need the rows of the query, X=: got {better!r} and {worse!r}."
            )
        check_ranker(ranker)
        by_query = isinstance(background, str) and background == "query"
        if qid is not None or query is not None or by_query:
            raise ParameterError('qid, query and background="query" are for positions: pass X=.')
        if is_within_queries(ranker):
            raise DataError(
                f"{type(ranker).__name__} scales within queries, and the scores of two rows depend "
                "on the others: pass all rows of the query as X=, and positions, as in "
                "explain(ranker, 3, 5, X=X)."
            )
        explainer = _Explainer(ranker, stacked(better, worse), None, *options)
        return explainer.explain(np.array([[0, 1]]))[0]
    cells, codes, *_ = _selected(X, qid, query)
    positions = _checked_positions(better, worse, cells.shape[0])
    explainer = _Explainer(ranker, cells, codes, *options)
    rows = explainer.order[np.array(positions) - 1]
    return explainer.explain(rows[None], [positions])[0]


def explain_ranking(
    ranker: Any,
    X: Any,
    *,
    qid: Any = None,
    query: Any = None,
    top: int | None = NEIGHBOURS,
    ids: Any = None,
    background: Any = None,
    output: int = 0,
    n_samples: int = 400,
    random_state: int = 0,
    names: Sequence[str] | None = None,
) -> RankingExplanation:
    """Explain a ranked query: why each row is above the next one.

    Parameters
    ----------
    ranker, X, qid, query, background, output, n_samples, random_state, names
        As for `explain`.
    top : int or None, default=50
        How many positions to explain. None: all.
    ids : array-like of shape (n_rows,), optional
        Ids of the rows of X.

    Returns
    -------
    RankingExplanation
        Print it, or see `pairs` and `to_frame()`.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.inspection import explain_ranking
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
    >>> ranker = RankRLS(1e-9).fit(X, [0.0, 4.0, 7.0])
    >>> print(explain_ranking(ranker, X).pairs[0].sentence)
    Above, mainly because of x0 (+3.67) and in spite of x1 (-.67).
    """
    if top is not None:
        check_value("top", top, Whole(1))
    cells, codes, numbers, groups = _selected(X, qid, query)
    explainer = _Explainer(ranker, cells, codes, background, output, n_samples, random_state, names)
    order = explainer.order[:top]
    places = range(1, len(order) + 1)
    found = explainer.explain(np.column_stack([order[:-1], order[1:]]), list(pairwise(places)))
    labels = None
    if ids is not None:
        if len(ids) != groups.n_rows:
            raise DataError(f"ids needs an entry for each row of X: got {len(ids)}.")
        labels = [np.asarray(ids, dtype=object)[numbers[k]] for k in order]
    return RankingExplanation(numbers[order], explainer.scores[order], found, query, labels)


class _Explainer:
    """Explains pairs of the rows of one query."""

    def __init__(
        self,
        ranker: Any,
        cells: Any,
        codes: Any,
        background: Any,
        output: int,
        n_samples: int,
        random_state: int,
        names: Sequence[str] | None,
    ) -> None:
        """The parameters that `explain` and `explain_ranking` share, checked, and scores."""
        check_value("output", output, Whole(0))
        check_value("n_samples", n_samples, Whole(4))
        check_value("random_state", random_state, Whole(0))
        if isinstance(background, str) and background != "query":
            raise ParameterError(f'background must be rows, "query" or None: got {background!r}.')
        self.ranker, self.cells, self.codes, self.output = ranker, cells, codes, output
        self.scores = _predicted(ranker, cells, codes, output)
        self.order = np.argsort(-self.scores, kind="stable")
        self.names = feature_names(ranker, cells, names)
        self.rows, self.against = cells, "against the other row"
        n, reference = cells.shape[0], None
        if isinstance(background, str):
            reference, self.against = np.arange(n), "against the rows of the query"
        elif background is not None:
            if is_within_queries(ranker):
                raise DataError(
                    "Rows from elsewhere cannot be a background for a ranker that scales within "
                    'queries: use background="query" or None.'
                )
            more = as_cells(background)
            reference = np.arange(n, n + more.shape[0])
            self.against = f"against the mean over {plural(more.shape[0], 'row')} of a background"
            self.rows = joined([cells, more])
            if not len(reference):
                raise DataError("background has no rows.")
        self.settings = ShareSettings(reference, n_samples, random_state)

    def explain(
        self, pairs: Index, positions: Sequence[tuple[int, int] | None] = (None,)
    ) -> list[PairExplanation]:
        """The explanations of pairs of rows, with their positions in the ranked query."""
        probed, reference = pairs, self.settings.reference
        if reference is not None:
            ends = np.unique(pairs)
            crossed = np.stack(np.meshgrid(ends, reference, indexing="ij"), axis=-1).reshape(-1, 2)
            probed = np.vstack([pairs, crossed[crossed[:, 0] != crossed[:, 1]]])
        groups = QueryGroups.of(None, self.rows.shape[0])
        scorer = read_scorer(self.ranker, UserRows.of(self.rows, groups, probed), self.output)
        return [
            self._explained(one, other, scorer.shares(one, other, self.settings), place)
            for (one, other), place in zip(pairs.tolist(), positions, strict=True)
        ]

    def _explained(
        self, one: int, other: int, shares: Shares, positions: tuple[int, int] | None
    ) -> PairExplanation:
        difference = float(shares.contributions.sum())
        scores = float(self.scores[one]), float(self.scores[other])
        _check_agreement(difference, scores, self.scores.dtype)
        return PairExplanation(
            self.names,
            shares.contributions,
            difference,
            np.sqrt(shares.variance) if SAMPLED in shares.ways else None,
            values(self.cells, one),
            values(self.cells, other),
            scores,
            positions,
            self._method(shares.ways),
            self._probability(one, other),
            abs(difference - (scores[0] - scores[1])),
        )

    def _method(self, ways: frozenset[str]) -> str:
        orders = plural(self.settings.n_samples, "order")
        texts = {
            ADDITIVE: "terms of a sum",
            EXACT: f"exact Shapley values {self.against}",
            TREES: "LightGBM's contributions of trees, against the training rows",
            SAMPLED: f"Shapley values sampled from {orders} of the features, {self.against}",
        }
        return f"{'; '.join(text for way, text in texts.items() if way in ways)}."

    def _probability(self, one: int, other: int) -> float | None:
        last = last_step(self.ranker)
        if not hasattr(last, "posterior_") and getattr(last, "preference_slope_", None) is None:
            return None  # it has not learned probabilities
        first, second = (take(self._reached, np.array([k])) for k in (one, other))
        return float(last.predict_preference(first, second)[0])

    @cached_property
    def _reached(self) -> Any:
        """The rows as the last step gets them, all at once, since a step may scale queries."""
        steps, _ = split_pipeline(getattr(self.ranker, "best_estimator_", self.ranker))
        return self.cells if steps is None else transform(steps, self.cells, self.codes)


def _check_agreement(difference: float, scores: tuple[float, float], dtype: Any) -> None:
    """Refuse contributions that are not those of the predictions, as of steps with noise."""
    single, wanted = np.dtype(dtype) == np.float32, scores[0] - scores[1]
    digits = 1e-4 if single else AGREEMENT
    if abs(difference - wanted) <= digits * max(abs(scores[0]), abs(scores[1]), abs(wanted)):
        return
    why = "the scores of the ranker are not a function of the rows, or are rounding errors."
    if single:
        why = (
            "the scores are rounding errors of float32. Subtract a constant from features that "
            "are far from 0, or use float64."
        )
    raise DataError(
        f"The contributions sum to {difference:.6g}, but the scores differ by {wanted:.6g}: {why}"
    )


def feature_names(ranker: Any, cells: Any, given: Sequence[str] | None) -> list[str]:
    """A name for each column."""
    n = cells.shape[1]
    if given is not None:
        if len(given) != n:
            raise DataError(f"names needs one entry per feature: got {len(given)} for {n}.")
        return [str(name) for name in given]
    if hasattr(cells, "columns"):
        return [str(name) for name in cells.columns]
    known = getattr(ranker, "feature_names_in_", None)
    if known is not None and len(known) == n:
        return [str(name) for name in known]
    return [f"x{j}" for j in range(n)]


def _predicted(ranker: Any, cells: Any, codes: Any, output: int) -> Array:
    """The scores by `predict`, whose errors name rows and columns."""
    check_ranker(ranker)
    scores = np.asarray(to_host(predict_with_queries(ranker, cells, codes)))
    if scores.ndim == 2:
        if output >= scores.shape[1]:
            raise ParameterError(f"output must be below {scores.shape[1]}: got {output}.")
        return scores[:, output]
    if output:
        raise ParameterError(f"The ranker has one output: got output={output}.")
    return scores


def _selected(X: Any, qid: Any, query: Any) -> tuple[Any, Any, Index, QueryGroups]:
    """The rows of a query, an id for each, their numbers, and the queries of all rows."""
    cells = as_cells(X)
    groups = QueryGroups.of(None if qid is None else to_host(qid), cells.shape[0])
    rows = np.arange(cells.shape[0])
    if query is None and groups.n_groups > 1:
        raise ParameterError(
            f"There are {groups.n_groups} queries: name one of them, as in "
            f"query={groups.names.tolist()[0]!r}."
        )
    if query is not None:
        if qid is None:
            raise ParameterError("query= needs the query of every row, qid=.")
        names = groups.names.tolist()
        wanted = query.item() if hasattr(query, "item") else query
        found = [k for k, name in enumerate(names) if name == wanted]
        found += [k for k, name in enumerate(names) if str(name) == str(wanted)]
        if not found:
            some = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else ".")
            raise DataError(f"There is no query {query!r}: there are {some}")
        rows = np.flatnonzero(groups.codes == found[0])
        cells = as_cells(take(cells, rows))
    return cells, np.zeros(len(rows), dtype=np.intp), rows, groups


def _checked_positions(better: Any, worse: Any, n: int) -> tuple[int, int]:
    for name, position in (("better", better), ("worse", worse)):
        if isinstance(position, (bool, np.bool_)) or not isinstance(position, (int, np.integer)):
            raise ParameterError(
                f"With X, {name} must be a position in the ranked query, from 1: got {position!r}."
            )
        if not 1 <= position <= n:
            raise DataError(
                f"{name} must be a position from 1 to {n}, as the query has "
                f"{plural(n, 'row')}: got {position}."
            )
    if better == worse:
        raise DataError(f"better and worse are the same position, {better}: pass two positions.")
    return int(better), int(worse)
