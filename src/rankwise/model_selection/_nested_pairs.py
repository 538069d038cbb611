"""Held-out pairs of rankers that were chosen without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.graph import QueryGroups
from rankwise.model_selection._held_out_pairs import leave_pair_out
from rankwise.model_selection._pair_outcomes import PairOutcomes, interval_words
from rankwise.model_selection._strata import check_two_rows
from rankwise.model_selection.search.labelled_rows import as_rows, take
from rankwise.model_selection.search.ranking_search import RankingSearchCV
from rankwise.parameters import Whole, as_generator, check_value
from rankwise.tables import Column, Table, TableMixin, plural


@dataclass(frozen=True, eq=False, repr=False)
class NestedLeavePairOut(TableMixin):
    """The AUC of pairs that neither trained nor chose their ranker.

    Attributes
    ----------
    auc : float
        The share of pairs with different labels in the right order.
    low, high : float or None
        An interval of 95%, from the U-statistic of these pairs; rows of a group count as one. It
        takes rankers as given, and is too short if the signal is weak. The interval of
        `auc_interval` is longer, as rankers depend on the rows that train them. None if there are
        too few rows for one.
    standard_error : float or None
    unnested : float or None
        The AUC of leave-pair-out of the estimator as it is chosen and fitted on all rows; None if
        its last step is not a least-squares ranker, or if two groups have all rows of a label.
    alphas : ndarray of shape (n_fits,)
        The alpha of each fit; NaN where there is none.
    n_pairs : int
        The number of different pairs that were compared.
    why : str
        Why there is no interval; empty if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> print(NestedLeavePairOut(0.8, 0.7, 0.87, 0.04, 0.84, np.array([1.0, 10.0]), 120))
    nested AUC     low    high    s.e.  not nested  optimism  pairs
    ----------  ------  ------  ------  ----------  --------  -----
        0.8000  0.7000  0.8700  0.0400      0.8400    0.0400    120
    """

    auc: float
    low: float | None
    high: float | None
    standard_error: float | None
    unnested: float | None
    alphas: Array
    n_pairs: int
    why: str = ""

    @property
    def optimism(self) -> float | None:
        """`unnested` less `auc`: how much the choice on the same rows flatters."""
        return None if self.unnested is None else self.unnested - self.auc

    def to_table(self) -> Table:
        """One row with the nested AUC, its interval, and the optimism of the other one."""
        columns = (
            Column("nested AUC"),
            Column("low"),
            Column("high"),
            Column("s.e."),
            Column("not nested"),
            Column("optimism"),
            Column("pairs"),
        )
        row = (self.auc, self.low, self.high, self.standard_error, self.unnested)
        return Table(columns, ((*row, self.optimism, self.n_pairs),), note=self.why)

    def words(self) -> str:
        """The interval as "0.700 to 0.880", or that there is none."""
        return interval_words(self.low, self.high)

    def _frame_columns(self) -> dict[str, Any]:
        names = ("auc", "low", "high", "standard_error", "unnested", "optimism", "n_pairs", "why")
        return {name: [getattr(self, name)] for name in names}

    def __repr__(self) -> str:
        beside = "" if self.unnested is None else f", {self.unnested:.4f} not nested"
        interval = "no interval"
        if self.low is not None and self.high is not None:
            interval = f"95% interval {self.low:.4f} to {self.high:.4f}"
        return f"<NestedLeavePairOut: AUC {self.auc:.4f}, {interval}{beside}>"


def nested_leave_pair_out(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    outer: int | str = 5,
    n_repeats: int = 10,
    n_pairs: int = 200,
    groups: Any = None,
    strata: Any = None,
    random_state: Any = None,
) -> NestedLeavePairOut:
    """Estimate the AUC with the choice of alpha, kernel and features inside the hold-out.

    The estimator is fitted without some rows, with all that it chooses, and orders them. Only rows
    that were held out together are compared, so that all pairs are predicted by one ranker.
    ``RankRLS(alpha="auto")`` and ``RankingSearchCV(cv="leave_pair_out")`` choose by exact
    leave-pair-out within the remaining rows, from one factorization. A Pipeline chooses and scales
    features within them.

    Parameters
    ----------
    estimator : estimator with fit and predict
        A ranker, a search or a Pipeline; it is cloned, not fitted.
    X : array-like or sparse of shape (n_rows, n_features)
        With ``kernel="precomputed"``, the kernel matrix of the rows.
    y : array-like of shape (n_rows,)
    outer : int or "pairs", default=5
        Number of folds, stratified by label if there are two; or "pairs": random pairs of rows with
        different labels, with all other rows for training. Folds are faster and compare more
        pairs; pairs leave more rows to learn from.
    n_repeats : int, default=10
        How often rows are divided into folds.
    n_pairs : int, default=200
        Number of random pairs.
    groups : array-like of shape (n_rows,), optional
        Such as patients: rows of a group are held out together. With ``outer="pairs"``, these are
        pairs of groups, and rows of one are compared with rows of the other. ``alpha="auto"`` is
        chosen by pairs of groups as well, and by pairs of rows, with a warning, if the training
        rows have too few groups. GridSearchCV and RandomizedSearchCV get the groups of the
        training rows; RankingSearchCV does not know groups, and a warning says so.
    strata : array-like of shape (n_rows,), optional
        Such as hospitals: only rows of the same stratum are compared, also for the choice of
        ``alpha="auto"``.
    random_state : int or Generator, optional

    Returns
    -------
    NestedLeavePairOut

    References
    ----------
    Varma, Simon: Bias in error estimation when using cross-validation for model selection. BMC
    Bioinformatics 7, 2006.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import nested_leave_pair_out
    >>> data = load_dataset("breast_cancer")
    >>> X, y = data.X[:80, :3], data.y[:80]
    >>> result = nested_leave_pair_out(RankRLS(), X, y, n_repeats=2, random_state=0)
    >>> 0.8 < result.auc < 1.0
    True
    """
    if outer != "pairs":
        if isinstance(outer, str):
            raise ParameterError(f'outer must be a number of folds or "pairs": got {outer!r}.')
        check_value("outer", outer, Whole(2))
    check_value("n_repeats", n_repeats, Whole(1))
    check_value("n_pairs", n_pairs, Whole(1))
    rng = as_generator(random_state)
    values = np.asarray(y)
    if values.ndim != 1:
        raise DataError(f"One label per row is needed: got y of shape {values.shape}.")
    X = as_rows(X)
    check_consistent_length(X, values)
    labels = np.unique(values, return_inverse=True)[1].astype(np.float64)
    if len(np.unique(labels)) < 2:
        raise DataError("All labels are equal: there is no pair to hold out.")
    check_two_rows(labels)
    m = len(labels)
    units = np.arange(m) if groups is None else QueryGroups.of(groups, m, "groups").codes
    stratum = QueryGroups.of(strata, m, "strata").codes
    within = None if strata is None else stratum, None if groups is None else units
    if groups is not None and isinstance(estimator, RankingSearchCV):
        warn(
            "RankingSearchCV chooses by rows or pairs of rows, not by groups. Use "
            'RankRLS(alpha="auto"), or GridSearchCV with a splitter of groups, such as GroupKFold.'
        )
    if outer == "pairs":
        parts = _pairs_of_units(labels, units, stratum, n_pairs, rng)
    else:
        parts = _folds(labels, None if groups is None else units, int(outer), n_repeats, rng)
    first, second, differences, alphas = [], [], [], []
    faults: list[DataError] = []
    is_kernel = get_tags(estimator).input_tags.pairwise
    for out in parts:
        rest = np.setdiff1d(np.arange(m), out)
        columns = rest if is_kernel else None
        given = take(X, rest, columns), values[rest], *(_some(codes, rest) for codes in within)
        fitted, fault = _fitted(estimator, *given)
        faults += [] if fault is None else [fault]
        f = np.asarray(fitted.predict(take(X, out, columns)), dtype=np.float64)
        i, j = np.triu_indices(len(out), 1)
        compared = stratum[out[i]] == stratum[out[j]]
        if outer == "pairs":
            compared &= units[out[i]] != units[out[j]]
        first.append(out[i[compared]])
        second.append(out[j[compared]])
        differences.append((f[i] - f[j])[compared])
        alphas.append(_alpha(fitted))
    pairs = np.column_stack((np.concatenate(first), np.concatenate(second)))
    dependent = None if groups is None else units
    found = PairOutcomes.of(labels, pairs, np.concatenate(differences), dependent)
    low = high = error = None
    why = found.too_few()
    if not why:
        (low, high), error = found.interval(0.95), found.spread().error
    if faults:
        warn(
            f"In {len(faults)} of {plural(len(alphas), 'fit')}, alpha was chosen by all pairs of "
            f"training rows, without strata and groups: {faults[0]}"
        )
    whole = _unnested(_fitted(estimator, X, values, *within)[0], X, values, *within)
    return NestedLeavePairOut(
        found.auc, low, high, error, whole, np.array(alphas), found.n_pairs, why
    )


def _some(codes: Index | None, rows: Index) -> Index | None:
    return None if codes is None else codes[rows]


def _fitted(
    estimator: Any, X: Any, y: Any, strata: Index | None, groups: Index | None
) -> tuple[Any, DataError | None]:
    """A fitted clone; ``alpha="auto"`` is chosen by pairs within strata and of different groups.

    And why this was not possible, if it was not.
    """
    fitted, searches = clone(estimator), (GridSearchCV, RandomizedSearchCV)
    fitted.fit(X, y, **({"groups": groups} if isinstance(fitted, searches) else {}))
    ranker, rows = _last_step(fitted, X)
    alone = strata is None and groups is None
    if alone or not isinstance(ranker, LeastSquaresRanker) or ranker.alpha != "auto":
        return fitted, None
    try:
        held = leave_pair_out(ranker, rows, y, strata=strata, groups=groups)
    except DataError as error:
        return fitted, error
    ranker.set_params(alpha=held.best_alpha).fit(rows, y)
    return fitted, None


def _folds(
    labels: Array, units: Index | None, n_splits: int, n_repeats: int, rng: np.random.Generator
) -> Iterator[Index]:
    """Folds of rows, or of groups, stratified by label if there are two."""
    counts = np.unique(labels, return_counts=True)[1]
    two = len(counts) == 2
    if two:
        n_splits = min(n_splits, int(counts.min()))
    if units is not None:
        n_groups = len(np.unique(units))
        if n_groups < 2:
            raise DataError("All rows are in one group: there is nothing to learn from without it.")
        n_splits = min(n_splits, n_groups)
    for _ in range(n_repeats):
        options: Any = {"n_splits": n_splits, "shuffle": True}
        options["random_state"] = int(rng.integers(2**31))
        if units is not None:
            grouped = StratifiedGroupKFold(**options)
            strata = labels if two else np.zeros(len(labels))
            parts = grouped.split(labels, strata, groups=units)
        elif two:
            parts = StratifiedKFold(**options).split(labels, labels)
        else:
            parts = KFold(**options).split(labels)
        for _, out in parts:
            yield out


def _pairs_of_units(
    labels: Array, units: Index, stratum: Index, n_pairs: int, rng: np.random.Generator
) -> Iterator[Index]:
    """Rows of two different units, drawn by random pairs of rows with different labels."""
    i, j = np.triu_indices(len(labels), 1)
    counts = (labels[i] != labels[j]) & (stratum[i] == stratum[j]) & (units[i] != units[j])
    choices = np.unique(np.sort(units[np.column_stack((i, j))[counts]], axis=1), axis=0)
    if len(choices) == 0:
        raise DataError("There is no pair with different labels to hold out. Check the labels.")
    for pair in rng.permutation(choices)[:n_pairs]:
        yield np.flatnonzero(np.isin(units, pair))


def _last_step(fitted: Any, X: Any) -> tuple[Any, Any]:
    """The fitted ranker in searches and pipelines, and its rows."""
    while True:
        if isinstance(fitted, Pipeline):
            X = fitted[:-1].transform(X) if len(fitted) > 1 else X
            fitted = fitted[-1]
        elif hasattr(fitted, "best_estimator_"):
            fitted = fitted.best_estimator_
        else:
            return fitted, X


def _alpha(fitted: Any) -> float:
    """The alpha of a fitted estimator, NaN if it has none."""
    while isinstance(fitted, Pipeline) or hasattr(fitted, "best_estimator_"):
        fitted = fitted[-1] if isinstance(fitted, Pipeline) else fitted.best_estimator_
    return float(getattr(fitted, "alpha_", np.nan))


def _unnested(fitted: Any, X: Any, y: Any, strata: Any, groups: Any) -> float | None:
    """The AUC of leave-pair-out with all that was chosen on all rows."""
    ranker, rows = _last_step(fitted, X)
    if not isinstance(ranker, LeastSquaresRanker):
        return None
    options = {"strata": strata, "groups": groups}
    try:
        return float(leave_pair_out(ranker, rows, y, alphas=[ranker.alpha_], **options).auc[0])
    except DataError:  # folds leave rows to learn from where some pair of groups does not
        if groups is None:
            raise
        return None
