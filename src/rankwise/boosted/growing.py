"""Grow trees with LightGBM, and count how many rank held-out queries best.

Texts of trees are checked before LightGBM reads them. It trusts the numbers in a text: a child that
does not exist makes it read outside its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, MissingExtraError, ModelFileError
from rankwise.graph import QueryGroups
from rankwise.metrics import get_metric
from rankwise.objectives import RankRLSObjective, RowObjective

PATIENCE = 50
"""Stop after this many trees that do not improve on the best number so far."""

LEAST, LARGEST = 1e-30, 1e30
"""The range of gradients that LightGBM can represent in 32 bits."""

STAGE_RATIO = 1.2
"""The least ratio of a number of trees to the one before, where predictions are kept."""


class HeldOutCurve(NamedTuple):
    """The metric of held-out rows with 1, 2, ... trees, and the best number of trees."""

    scores: Array
    best: int


class HeldOutStages(NamedTuple):
    """Some numbers of trees, and the held-out predictions of all rows for each."""

    n_estimators: Index
    predictions: Array


@dataclass(frozen=True, eq=False)
class Growth:
    """Trees for some rows, grown one at a time; without an objective, by LightGBM's own."""

    booster: Any
    objective: RowObjective | None

    def grow(self) -> None:
        """Add a tree."""
        if self.objective is None:
            self.booster.update()
        else:
            self.booster.update(fobj=self._derivatives)

    def _derivatives(self, scores: Any, _: Any) -> tuple[Array, Array]:
        """Gradient and Hessian in units of rows: l2_regularization has the same meaning always."""
        assert self.objective is not None
        unit = 1.0 / self.objective.hessian.mean()
        gradient = unit * self.objective.gradient(scores)
        largest, is_first = np.abs(gradient).max(), not np.any(scores)
        if not largest < LARGEST:
            if is_first:
                raise DataError("The labels are too large: divide them by a constant.")
            raise DataError("Scores overflow: use a smaller learning_rate.")
        if is_first and 0.0 < largest < LEAST:
            raise DataError(
                "The labels of a query differ by too little for LightGBM: multiply them by a "
                "constant."
            )
        return gradient, unit * self.objective.hessian


class Grower:
    """Rows in LightGBM's bins, sorted by query.

    Parameters
    ----------
    X, y : array-like or sparse, ndarray
        Rows and labels; the rows of a query are adjacent.
    groups : QueryGroups
    objective : RankRLSObjective or None
        None: the objective that `settings` name.
    settings : mapping
        LightGBM's parameters.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        groups: QueryGroups,
        objective: RankRLSObjective | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._lightgbm = require_lightgbm()
        self._y, self._groups, self._objective = y, groups, objective
        self._settings = dict(settings)
        own = {"label": np.zeros(len(y))} if objective else {"label": y, "group": groups.sizes}
        self._data = self._lightgbm.Dataset(as_lightgbm(X), params=self._settings, **own)
        self._data.construct()
        if not any(self._data.feature_num_bin(k) for k in range(X.shape[1])):
            raise DataError(
                "All features are zero, or nearly so: trees cannot be split. Check X, or multiply "
                "features below 1e-35 by a constant."
            )

    def start(self, rows: Index | None = None, held_out: Index | None = None) -> Growth:
        """No trees yet, for all rows or for some, with others to be predicted on the way."""
        data = self._data if rows is None else self._data.subset(rows)
        booster = self._lightgbm.Booster(self._settings, data)
        if held_out is not None:
            booster.add_valid(self._data.subset(held_out), "held out")
        if self._objective is None:
            return Growth(booster, None)
        rows = np.arange(len(self._y)) if rows is None else rows
        return Growth(booster, self._objective.on_rows(self._y[rows], self._groups.codes[rows]))

    def held_out_scores(self, metric: str, n_folds: int, most: int) -> HeldOutCurve | None:
        """The metric of held-out rows with 1, 2, ... trees, over all folds together.

        Folds of whole queries; of rows, if fewer than two queries have different labels. Stops at
        `most` trees, or if `PATIENCE` trees do not help. None if there are too few rows.
        """
        fold, queries = deal_into_folds(self._y, self._groups, n_folds)
        if fold is None:
            return None
        values = [value for value, _ in self._hold_out(fold, queries, metric, most)]
        gains = values if get_metric(metric).greater_is_better else np.negative(values)
        return HeldOutCurve(np.array(values), int(np.argmax(gains)) + 1)

    def held_out_stages(self, fold: Index, metric: str, most: int) -> HeldOutStages:
        """Held-out predictions of all rows for some numbers of trees.

        Stops as `held_out_scores` does. Rows of one global ranking are compared within their fold.
        """
        queries = self._groups.codes if self._groups.n_groups > 1 else fold
        numbers: list[int] = []
        kept: list[Array] = []
        for n, (_, scores) in enumerate(self._hold_out(fold, queries, metric, most), 1):
            if n >= STAGE_RATIO * (numbers[-1] if numbers else 0):
                numbers.append(n)
                kept.append(scores.copy())
        return HeldOutStages(np.array(numbers), np.array(kept))

    def _hold_out(
        self, fold: Index, queries: Index, metric: str, most: int
    ) -> Iterator[tuple[float, Array]]:
        """The metric of held-out rows, and their scores, with 1, 2, ... trees; fold -1: no test.

        The array of scores is the same each time.
        """
        function, greater_is_better = get_metric(metric)
        sign = 1.0 if greater_is_better else -1.0
        held_out = np.full(len(self._y), np.nan)
        growths = []
        for k in range(fold.max() + 1):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            growths.append((self.start(train, test), test))
        known = np.flatnonzero(fold >= 0)
        n, best, best_gain = 0, 0, -np.inf
        while n < most and n - best <= PATIENCE:
            for growth, test in growths:
                growth.grow()
                held_out[test] = _scores_on_the_way(growth.booster)
            value = function(self._y[known], held_out[known], queries[known])
            if sign * value > best_gain:
                best, best_gain = n, sign * value
            n += 1
            yield value, held_out


def deal_into_folds(y: Array, groups: QueryGroups, n_folds: int) -> tuple[Index | None, Index]:
    """The fold of each row (-1: never held out), and which held-out rows are compared.

    Queries with different labels are dealt in turn. If there is only one, its rows are dealt in the
    order of their labels, and those of a fold are compared. None if every fold could not have two
    different labels.
    """
    order = np.lexsort((y, groups.codes))
    codes, labels = groups.codes[order], y[order]
    differ = (codes[1:] == codes[:-1]) & (labels[1:] != labels[:-1])
    usable = np.unique(codes[1:][differ])
    if len(usable) > 1:
        fold_of = np.full(groups.n_groups, -1)
        fold_of[usable] = np.arange(len(usable)) % n_folds
        return fold_of[groups.codes], groups.codes
    rows = np.flatnonzero(groups.codes == usable[0])
    rows = rows[np.argsort(y[rows], kind="stable")]
    n_folds = min(n_folds, len(rows) // 2)
    fold = np.full(len(y), -1)
    fold[rows] = np.arange(len(rows)) % max(n_folds, 1)
    parts = [y[fold == k] for k in range(n_folds)]
    rest = [y[rows[fold[rows] != k]] for k in range(n_folds)]
    if n_folds < 2 or any(np.ptp(part) == 0 for part in (*parts, *rest)):
        return None, fold
    return fold, fold


def _scores_on_the_way(booster: Any) -> Array:
    """The scores of the held-out rows with the trees so far."""
    kept: list[Array] = []

    def keep(scores: Array, _: Any) -> tuple[str, float, bool]:
        kept.append(scores)
        return "", 0.0, False

    booster.eval_valid(keep)
    return kept[0]


def require_lightgbm() -> Any:
    """The module lightgbm; an error that names the install command if it is missing."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtraError("lightgbm", "boost") from None
    return lightgbm


def as_lightgbm(X: Any) -> Any:
    """Rows in a form that LightGBM accepts."""
    return sp.csr_matrix(X) if is_sparse(X) else X


def read_trees(text: str, n_features: int) -> Any:
    """The booster that a text of `Booster.model_to_string` describes."""
    lightgbm = require_lightgbm()
    check_trees(text, n_features)
    return lightgbm.Booster(model_str=text)


def check_trees(text: str, n_features: int) -> None:
    """Refuse a text whose trees are not those of a ranker on rows with this many features."""
    if not isinstance(text, str) or "\nend of trees\n" not in text:
        raise ModelFileError("the text of the trees has no end")
    trees, _, _ = text.partition("\nend of trees\n")
    head, *blocks = trees.split("\nTree=")
    header = _fields(head)
    wanted = {"num_class": 1, "num_tree_per_iteration": 1, "max_feature_idx": n_features - 1}
    for name, value in wanted.items():
        if header.get(name) != str(value):
            raise ModelFileError(f"{name} of the trees must be {value}: got {header.get(name)}")
    # LightGBM jumps from tree to tree by these sizes, which count the newline after each tree.
    sizes = [len(f"Tree={block}".encode()) + 1 for block in blocks]
    if header.get("tree_sizes", "").split() != [str(size) for size in sizes]:
        raise ModelFileError("the sizes of the trees are wrong")
    for number, block in enumerate(blocks):
        if not _is_tree(_fields(f"Tree={block}"), number, n_features):
            raise ModelFileError(f"tree {number} is damaged")


def _fields(text: str) -> dict[str, str]:
    """Lines name=value; each name once."""
    pairs = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    if len({name for name, *_ in pairs}) < len(pairs):
        raise ModelFileError("a tree has a field twice")
    return dict(pairs)


def _is_tree(fields: dict[str, str], number: int, n_features: int) -> bool:
    """Whether the nodes form one binary tree with numerical splits on existing features.

    Children that are not negative are nodes, which follow their parents; others are leaves -1, -2,
    and so on.
    """
    if fields.get("Tree") != str(number) or fields.get("num_cat") != "0":
        return False
    if fields.get("is_linear", "0") != "0":
        return False
    try:
        n_leaves = int(fields["num_leaves"])
        names = ("left_child", "right_child", "split_feature", "decision_type")
        left, right, feature, decision = (_numbers(fields, name, n_leaves - 1) for name in names)
        leaves = _numbers(fields, "leaf_value", n_leaves)
        thresholds = _numbers(fields, "threshold", n_leaves - 1)
    except (KeyError, ValueError):
        return False
    if n_leaves == 1:  # the root is the leaf
        return bool(np.isfinite(leaves).all())
    nodes, children = np.arange(n_leaves - 1), np.concatenate((left, right))
    all_but_the_root = np.concatenate((np.arange(-n_leaves, 0), nodes[1:]))
    return bool(
        np.array_equal(np.sort(children), all_but_the_root)
        and (children > np.tile(nodes, 2))[children >= 0].all()
        and ((feature >= 0) & (feature < n_features)).all()
        and (decision.astype(int) & 1 == 0).all()  # bit 0: a split on categories
        and np.isfinite(leaves).all()
        and not np.isnan(thresholds).any()
    )


def _numbers(fields: dict[str, str], name: str, n: int) -> Any:
    """The numbers of a field, which a tree of a single leaf may leave out."""
    found = np.array([float(word) for word in fields.get(name, "").split()])
    if len(found) != n:
        raise ValueError(f"{name} has {len(found)} numbers")
    return found
