"""What drives a ranking as a whole: the score along each feature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from rankwise.backends.arrays import Array, Index, is_sparse, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.inspection.composed_rows import UserRows, as_cells
from rankwise.inspection.explanations import MISSING, both_shown, feature_names
from rankwise.inspection.scorers import Scorer, check_ranker, read_scorer
from rankwise.model_selection.meta_rankers import MeanRanker, inner_model, is_within_queries
from rankwise.model_selection.rows import LabelledRows, Splits, fit_with_queries, take
from rankwise.parameters import Whole, check_value
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FEATURES = 50  # without a choice of features
CHOSEN = {"alpha": "alpha_", "scale": "scale_", "n_estimators": "n_estimators_"}


@dataclass(frozen=True, eq=False)
class FeatureEffect:
    """The score along one feature.

    Attributes
    ----------
    name : str
    values : list
        Values of the feature; or, if the ranker scales within queries and the feature is a number,
        the share of the rows of the query with smaller values, from 0 to 1.
    effect : ndarray of shape (n_values,)
        The mean change of the score if all rows get this value.
    standard_error : ndarray of shape (n_values,) or None
        Over fits without a part of the queries.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.inspection import feature_effects
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
    >>> found = feature_effects(RankRLS(1e-9).fit(X, [0.0, 4.0, 7.0]), X).effects[0]
    >>> found.name, found.values, round(found.rise, 2)
    ('x0', [0.0, 1.0, 2.0], 7.33)
    """

    name: str
    values: list[Any]
    effect: Array
    standard_error: Array | None = None

    @property
    def rise(self) -> float:
        """From the lowest to the highest point of the curve."""
        return float(np.ptp(self.effect))

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return all(isinstance(value, (int, float)) and not isinstance(value, bool)
                   for value in self.values)  # fmt: skip


@dataclass(frozen=True, eq=False)
class FeatureEffects(TableMixin):
    """The score along every feature, the largest curves first.

    Print it or show it in a notebook; index it by the name of a feature.

    Attributes
    ----------
    effects : list of FeatureEffect
    within_queries : bool
        Whether numbers are shares of the rows of a query with smaller values.
    n_rows : int
        The number of rows over which curves are means.
    n_splits : int
        The number of fits behind the standard errors; 0 without.
    n_left_out : int
        Features whose curves were not computed.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.inspection import feature_effects
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
    >>> print(feature_effects(RankRLS(1e-9).fit(X, [0.0, 4.0, 7.0]), X))
    feature    rise  s.e.  lowest at  highest at
    -------  ------  ----  ---------  ----------
    x0        7.333  –     0          2
    x1       0.6667  –     2          0
    <BLANKLINE>
    Means over 3 rows.
    """

    effects: list[FeatureEffect]
    within_queries: bool
    n_rows: int
    n_splits: int = 0
    n_left_out: int = 0

    def __len__(self) -> int:
        return len(self.effects)

    def __getitem__(self, name: str) -> FeatureEffect:
        for effect in self.effects:
            if effect.name == name:
                return effect
        raise DataError(
            f"There is no curve of {name!r}: there are "
            f"{', '.join(repr(effect.name) for effect in self.effects[:5])}, ..."
        )

    def to_table(self) -> Table:
        """A row for each feature: how far its curve rises, and where it is lowest and highest."""
        rows: list[tuple[Any, ...]] = []
        for one in self.effects:
            low, high = int(one.effect.argmin()), int(one.effect.argmax())
            error = None
            if one.standard_error is not None:
                error = float(np.hypot(one.standard_error[low], one.standard_error[high]))
            ends = both_shown(one.values[low], one.values[high], 4)
            rows.append((one.name, one.rise, error, *ends))
        names = ("rise", "s.e.", "lowest at", "highest at")
        columns = Column("feature", ""), *map(Column, names, (".4g", ".2g", "", ""))
        notes = [f"Means over {plural(self.n_rows, 'row')}."]
        if self.within_queries:
            notes.append("Numbers: the share of the rows of a query with smaller values.")
        if self.n_left_out:
            notes.append(f"{plural(self.n_left_out, 'other feature')}: pass features=.")
        return Table(columns, tuple(rows), note=" ".join(notes))

    def _frame_columns(self) -> dict[str, Any]:
        columns: dict[str, list[Any]] = {"feature": [], "value": [], "effect": []}
        errors: list[Any] = []
        for one in self.effects:
            columns["feature"] += [one.name] * len(one.values)
            columns["value"] += one.values
            columns["effect"] += one.effect.tolist()
            errors += [] if one.standard_error is None else one.standard_error.tolist()
        return columns | ({"standard_error": errors} if errors else {})

    def plot(self, *, top: int = 6) -> Axes:
        """Draw the largest curves; see `rankwise.plots.plot_effects`."""
        from rankwise.plots import plot_effects

        return plot_effects(self, top=top)

    def __repr__(self) -> str:
        return f"<FeatureEffects: {plural(len(self), 'feature')}>"


def feature_effects(
    ranker: Any,
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    features: Sequence[Any] | None = None,
    n_points: int = 12,
    n_rows: int = 300,
    cv: int = 5,
    output: int = 0,
    names: Sequence[str] | None = None,
) -> FeatureEffects:
    """The score along each feature: how it changes if all rows get the same value.

    For linear and additive rankers, this is the exact function of the feature. For others, it is
    partial dependence: the mean change over some rows, whose other features stay as they are.
    The mean score of the rows is 0.

    If the ranker scales within queries, a value means something only beside the other values of its
    query. Each row then gets the smallest value in its query, the median, ..., the largest one, and
    what the scaling has learned from the query is held fixed.

    Parameters
    ----------
    ranker : estimator
        A fitted ranker, pipeline or search.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
        Rows like the rows to be ranked.
    y : array-like of shape (n_rows,), optional
        Their labels, for standard errors: the ranker is fitted `cv` times, each time without a part
        of the queries, at the alpha (or the number of trees) that was chosen before. None: no
        standard errors.
    qid : array-like of shape (n_rows,), optional
        The query of every row. None: they are one query.
    features : sequence of int or str, optional
        Which features, by name or number. None: all, or 50 features that differ.
    n_points : int, default=12
        Points of a curve: quantiles of the values, or the most frequent texts.
    n_rows : int, default=300
        How many rows to take the mean over; in whole queries, if the ranker scales within these.
    cv : int, default=5
        How many parts the queries are dealt into.
    output : int, default=0
        Which output, if y had several columns.
    names : sequence of str, optional
        Names of the features.

    Returns
    -------
    FeatureEffects
        Print it, or see ``effects``, ``to_frame()`` and ``plot()``.

    Notes
    -----
    Standard errors come from the jackknife: with the curves c_k of K fits,

        s.e.^2 = (K - 1) / K sum_k (c_k - mean c)^2.

    Partial dependence scores n_features n_points n_rows rows.

    Examples
    --------
    >>> from rankwise import AdditiveRankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.inspection import feature_effects
    >>> data = make_ranking(40, n_features=3, informative=1, random_state=0)
    >>> ranker = AdditiveRankRLS().fit(data.X, data.y, qid=data.qid)
    >>> found = feature_effects(ranker, data.X, data.y, qid=data.qid)
    >>> found.effects[0].rise > 3 * found.effects[1].rise
    True
    """
    check_ranker(ranker)
    for name, value, least in (("n_points", n_points, 2), ("n_rows", n_rows, 2), ("cv", cv, 2)):
        check_value(name, value, Whole(least))
    cells = as_cells(X)
    labels = feature_names(ranker, cells, names)
    groups = QueryGroups.of(None if qid is None else to_host(qid), cells.shape[0])
    within = is_within_queries(ranker)
    sample = _sample(groups, n_rows, whole=within)
    chosen, n_left_out = _chosen_features(cells, labels, features, sample)
    plans = [_plan(cells, c, groups, sample, n_points, within) for c in chosen]
    used = np.unique(np.concatenate([sample, *(plan.donor for plan in plans)]))
    place = np.full(cells.shape[0], -1)
    place[used] = np.arange(len(used))
    moves = [
        (place[base], place[donor], c)
        for plan, c in zip(plans, chosen, strict=True)
        for base, donor in plan.moves()
    ]
    backwards = [(donor, base, c) for base, donor, c in moves]
    few = np.array(moves + backwards, dtype=np.intp).reshape(-1, 3)
    no_pairs = np.zeros((0, 2), dtype=np.intp)
    rows = UserRows.of(as_cells(take(cells, used)), groups.take(used), no_pairs, few)
    curves = _curves(read_scorer(ranker, rows, output), plans, chosen, place)
    errors: list[Array | None] = [None] * len(curves)
    n_splits = 0
    if y is not None:
        data = LabelledRows.of(X, y, qid)
        codes = data.groups.codes if data.groups.n_groups > 1 else np.arange(len(data))
        n_splits = min(cv, int(codes.max()) + 1)
        splits, refits = Splits.in_turn(codes, n_splits), []
        for k in range(n_splits):
            part = data.take(splits.train(k, len(data)))
            fitted = as_chosen(ranker)
            fit_with_queries(fitted, part.X, part.y, part.qid)
            refits.append(_curves(read_scorer(fitted, rows, output), plans, chosen, place))
        errors = [
            np.sqrt((n_splits - 1) * np.var(found, axis=0)) for found in zip(*refits, strict=True)
        ]
    effects = [
        FeatureEffect(labels[c], plan.values, curve, error)
        for c, plan, curve, error in zip(chosen, plans, curves, errors, strict=True)
    ]
    effects.sort(key=lambda effect: -effect.rise)
    return FeatureEffects(effects, within, len(sample), n_splits, n_left_out)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which rows get the feature of which rows, for each point of a curve."""

    values: list[Any]
    point: Index
    base: Index
    donor: Index

    @classmethod
    def of(cls, values: Sequence[Any], steps: Iterable[tuple[int, int, Index]]) -> _Plan:
        """From points, a donor for each, and the rows that get its feature."""
        points, donors, rows = zip(*steps, strict=True)
        sizes = [len(part) for part in rows]
        seen, point = np.unique(points, return_inverse=True)
        named = [values[k] for k in seen]
        return cls(named, np.repeat(point, sizes), np.concatenate(rows), np.repeat(donors, sizes))

    def moves(self) -> list[tuple[int, int]]:
        """A row and a donor for each donor."""
        donors, first = np.unique(self.donor, return_index=True)
        return [(int(self.base[k]), int(d)) for d, k in zip(donors, first, strict=True) if
                self.base[k] != d]  # fmt: skip


def _curves(scorer: Scorer, plans: list[_Plan], features: Index, place: Index) -> list[Array]:
    """The mean change of the score at each point."""
    found = []
    for plan, c in zip(plans, features, strict=True):
        changes = scorer.changes(place[plan.base], place[plan.donor], int(c))
        n = len(plan.values)
        counts = np.bincount(plan.point, minlength=n)
        found.append(np.bincount(plan.point, changes, minlength=n) / counts)
    return found


def _sample(groups: QueryGroups, n_rows: int, *, whole: bool) -> Index:
    """Some rows, evenly spaced, or some whole queries, at least one."""
    if groups.n_rows <= n_rows:
        return np.arange(groups.n_rows)
    if not whole:
        return np.unique(np.linspace(0, groups.n_rows - 1, n_rows).round().astype(np.intp))
    order = np.random.default_rng(0).permutation(groups.n_groups)
    n = max(1, int(np.searchsorted(np.cumsum(groups.sizes[order]), n_rows, side="right")))
    return np.flatnonzero(np.isin(groups.codes, order[:n]))


def _column(cells: Any, c: int) -> Any:
    if hasattr(cells, "iloc"):
        return np.asarray(cells.iloc[:, c])
    return cells[:, [c]].toarray().ravel() if is_sparse(cells) else cells[:, c]


def _chosen_features(
    cells: Any, labels: list[str], wanted: Sequence[Any] | None, sample: Index
) -> tuple[Index, int]:
    if wanted is None:
        if is_sparse(cells):
            counts = np.asarray((cells[sample] != 0).sum(axis=0)).ravel()
            order = np.argsort(-counts, kind="stable")
            order = order[counts[order] > 0]
        else:
            order = np.arange(cells.shape[1])
        return order[:MOST_FEATURES], cells.shape[1] - len(order[:MOST_FEATURES])
    found = []
    for one in wanted:
        if isinstance(one, str) and one in labels:
            found.append(labels.index(one))
        elif isinstance(one, (int, np.integer)) and 0 <= one < len(labels):
            found.append(int(one))
        else:
            raise ParameterError(
                f"features must have names or numbers of features, from 0 to {len(labels) - 1}: "
                f"got {one!r}."
            )
    if not found:
        raise ParameterError("features is empty: name at least one, or leave it out.")
    return np.array(found, dtype=np.intp), 0


def _plan(
    cells: Any, c: int, groups: QueryGroups, sample: Index, n_points: int, within: bool
) -> _Plan:
    column = _column(cells, c)
    is_number, is_date = column.dtype.kind in "iuf", column.dtype.kind == "M"
    codes = groups.codes[sample]
    queries = [sample[codes == code] for code in np.unique(codes)] if within else [sample]
    if within and (is_number or is_date):  # the quantiles of every query
        levels, steps = np.linspace(0.0, 1.0, n_points), []
        for rows in queries:
            order = rows[np.argsort(column[rows], kind="stable")]
            donors = order[(levels * (len(rows) - 1)).round().astype(np.intp)]
            steps += [(k, donor, rows) for k, donor in enumerate(donors)]
        return _Plan.of(levels.tolist(), steps)
    known = np.flatnonzero(column == column)
    if not len(known):
        return _Plan.of([np.nan], [(0, 0, sample)])
    if is_number or is_date:
        order = known[np.argsort(column[known], kind="stable")]
        places = np.linspace(0, len(order) - 1, n_points).round().astype(np.intp)
        values, first = np.unique(column[order[places]], return_index=True)
        named = [str(value)[:10] if is_date else float(value) for value in values]
        donors = order[places[first]]
        return _Plan.of(named, [(k, donor, sample) for k, donor in enumerate(donors)])
    texts = np.array([MISSING if value is None or value != value else str(value)
                      for value in column], dtype=object)  # fmt: skip
    words, first, counts = np.unique(texts, return_index=True, return_counts=True)
    some = np.argsort(-counts, kind="stable")[:n_points]
    named = [str(word) for word in words[some]]
    if not within:
        return _Plan.of(named, [(k, donor, sample) for k, donor in enumerate(first[some])])
    steps = []
    for rows in queries:  # the texts that are in the query of a row
        for k, word in enumerate(words[some]):
            donors = rows[texts[rows] == word]
            steps += [(k, donors[0], rows)] if len(donors) else []
    return _Plan.of(named, steps)


def as_chosen(ranker: Any) -> Any:
    """A clone that is fitted with what a fitted ranker has chosen, such as its alpha."""
    ranker = inner_model(ranker)
    if hasattr(ranker, "mean_ranker_"):
        encoder, mean = getattr(ranker, "encoder_", None), as_chosen(ranker.mean_ranker_)
        return mean if encoder is None else make_pipeline(clone(encoder), mean)
    if isinstance(ranker, MeanRanker):
        return clone(ranker).set_params(rankers=[as_chosen(part) for part in ranker.rankers_])
    copy = clone(ranker)
    if isinstance(ranker, Pipeline):
        copy.steps[-1] = (copy.steps[-1][0], as_chosen(ranker.steps[-1][1]))
        return copy
    for name, fitted in CHOSEN.items():
        value = getattr(ranker, fitted, None)
        if isinstance(getattr(copy, name, None), str) and getattr(copy, name) == "auto":
            copy.set_params(**{name: value})
    return copy
