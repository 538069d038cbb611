"""What is held out: one plan for each kind of unit.

A plan is a value: it lists what is held out together, and does not depend on how the rest is
fitted. See `rankwise.holdout.engine.hold_out`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rankwise.backends.arrays import Index, to_host
from rankwise.errors import DataError, ParameterError, warn
from rankwise.graph import QueryGroups
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.parameters import as_generator
from rankwise.problem import Loss


@dataclass(frozen=True, eq=False)
class Queries:
    """Every query is held out by itself.

    `only` has the numbers of the queries that are held out; None: all queries.
    """

    only: Index | None = None

    def folds(self, groups: QueryGroups) -> list[Index]:
        """The rows of each held-out query."""
        every = list(groups)
        return every if self.only is None else [every[q] for q in self.only]


@dataclass(frozen=True, eq=False)
class QueryFolds:
    """Folds of whole queries are held out, one fold after the other.

    `parts` is a number of folds, or a list with the rows of each fold. Folds of a sample
    (`sampled`) are subtracted from the sums of all rows, or share the steps of conjugate gradients.
    """

    parts: int | Sequence[Index]
    sampled: bool = False

    def folds(self, groups: QueryGroups) -> list[Index]:
        """The rows of each fold."""
        if isinstance(self.parts, int):
            return [np.flatnonzero(groups.codes % self.parts == k) for k in range(self.parts)]
        return list(self.parts)


@dataclass(frozen=True, eq=False)
class Rows:
    """Every row of a regression is held out by itself.

    `only` has the numbers of the rows that are held out; None: all rows.
    """

    only: Index | None = None

    def folds(self, groups: QueryGroups) -> list[Index]:
        """Single rows."""
        rows = np.arange(len(groups.codes)) if self.only is None else self.only
        return list(rows[:, None])


@dataclass(frozen=True, eq=False)
class RowFolds:
    """Folds of rows of one ranking are held out, one fold after the other.

    `parts` is a number of folds, or a list with the rows of each fold. For `sampled`, see
    `QueryFolds`.
    """

    parts: int | Sequence[Index]
    sampled: bool = False

    def folds(self, groups: QueryGroups) -> list[Index]:
        """The rows of each fold."""
        if isinstance(self.parts, int):
            rows = np.arange(len(groups.codes))
            return [rows[k :: self.parts] for k in range(self.parts)]
        return list(self.parts)


@dataclass(frozen=True)
class Pairs:
    """Which pairs to hold out: listed pairs, or all pairs of each query.

    If all pairs are held out, `keep_ties`: whether they include pairs with equal labels. With
    `groups`, the rows of both groups of a listed pair are held out. `among` has the rows of a
    sample of one ranking, all of whose pairs are held out; all pairs must count.
    """

    listed: Index | None
    keep_ties: bool
    groups: QueryGroups | None = None
    among: Index | None = None

    def of_query(self, rows: Index, codes: Index, loss: Loss) -> Index | None:
        """Positions of pairs in ascending `rows`; None for all pairs that count."""
        if self.listed is not None:
            inside = codes[self.listed[:, 0]] == codes[rows[0]]
            return np.asarray(np.searchsorted(rows, self.listed[inside]), dtype=np.intp)
        if self.keep_ties and loss.ties == "exclude":
            first, second = np.triu_indices(len(rows), 1)
            return np.column_stack((first, second))
        return None


@dataclass(frozen=True, eq=False)
class ComparisonFolds:
    """Comparisons are held out, one at a time or in folds.

    `fold` has the number of the fold of each comparison, and -1 for a comparison that is always
    used for training; None: each comparison by itself, or the comparisons in `only`. With `refit`,
    the ranker is refitted without each fold.
    """

    fold: Index | None = None
    only: Index | None = None
    refit: bool = False


@dataclass(frozen=True, eq=False)
class Items:
    """Items are held out with all of their comparisons.

    With `both`, each comparison is predicted without the comparisons of either item. Otherwise,
    each comparison is predicted twice: without the comparisons of its first item, and without the
    comparisons of its second item.
    """

    both: bool = True


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a table are held out: alone, or with the other cells of rows or columns.

    Attributes
    ----------
    leave : {"cells", "rows", "columns", "both"}
        What is held out. With "both", each cell is predicted without its row and without its
        column.
    row_fold, column_fold : ndarray of int
        The fold of each row and column; 0 if they are not held out.
    cell_fold : ndarray of int of shape (n_rows, n_columns), optional
        The fold of each cell, for "cells". None: each cell by itself.
    """

    leave: str
    row_fold: Index
    column_fold: Index
    cell_fold: Index | None = None

    def splits(self, shape: tuple[int, int]) -> Iterator[tuple[Any, Any]]:
        """Masks of the cells that a fit keeps, and of the cells that it predicts."""
        if self.leave == "cells":
            n_cells = shape[0] * shape[1]
            fold = np.arange(n_cells).reshape(shape) if self.cell_fold is None else self.cell_fold
            for k in range(int(fold.max()) + 1):
                yield fold != k, fold == k
            return
        everywhere = np.ones(shape, dtype=bool)
        for in_rows in _members(self.row_fold):
            for in_columns in _members(self.column_fold):
                held = everywhere & in_rows[:, None] & in_columns
                either = in_rows[:, None] | in_columns
                yield everywhere & ~(either if self.leave == "both" else held), held


def _members(fold: Index) -> Iterator[Any]:
    """A mask for each fold."""
    for k in range(int(fold.max()) + 1):
        yield fold == k


Plan: TypeAlias = Queries | QueryFolds | Rows | RowFolds | Pairs | ComparisonFolds | Items | Cells


def choose_pairs(
    problem: HoldOutProblem, pairs: Any, random_state: Any, *, keep_ties: bool
) -> Pairs:
    if pairs is None:
        return Pairs(None, keep_ties)
    if isinstance(pairs, (int, np.integer)) and not isinstance(pairs, bool):
        return Pairs(_random_pairs(problem, int(pairs), random_state), keep_ties)
    listed = np.asarray(to_host(pairs))
    m = len(problem.y)
    if listed.ndim != 2 or listed.shape[1] != 2 or listed.dtype.kind not in "iu":
        raise DataError(
            f"pairs must be an integer or an array of row numbers of shape (n, 2): got {pairs!r}."
        )
    bad = (listed < 0) | (listed >= m)
    if bad.any():
        k = int(np.argmax(bad.any(axis=1)))
        raise DataError(
            f"pairs[{k}] = {listed[k].tolist()} is out of range: X has rows 0 to {m - 1}."
        )
    codes = problem.groups.codes
    invalid = (codes[listed[:, 0]] != codes[listed[:, 1]]) | (listed[:, 0] == listed[:, 1])
    if invalid.any():
        k = int(np.argmax(invalid))
        raise DataError(
            f"pairs[{k}] = {listed[k].tolist()} must be two different rows of the same query."
        )
    return Pairs(listed.astype(np.intp), keep_ties)


def pairs_of_groups(
    problem: HoldOutProblem, groups: QueryGroups, strata: QueryGroups, *, keep_ties: bool
) -> Pairs:
    """All pairs of rows of different groups and of the same stratum."""
    found = [rows[np.column_stack(np.triu_indices(len(rows), 1))] for rows in strata]
    pairs = np.concatenate(found)
    pairs = pairs[groups.codes[pairs[:, 0]] != groups.codes[pairs[:, 1]]]
    y = problem.labels
    if not keep_ties:
        pairs = pairs[(y[pairs[:, 0]] != y[pairs[:, 1]]).any(axis=1)]
    if len(pairs) == 0:
        raise DataError(
            "No two rows of different groups (and of the same stratum) have different labels: "
            "there is no pair to hold out. Check the labels, groups and strata."
        )
    return Pairs(pairs, keep_ties, groups)


def pairs_within(strata: QueryGroups) -> Index:
    """All pairs of rows of the same stratum, as row numbers of shape (n_pairs, 2)."""
    parts = [r[np.column_stack(np.triu_indices(len(r), 1))] for r in strata if len(r) > 1]
    if not parts:
        raise DataError("No stratum has two rows: there is no pair to hold out.")
    return np.concatenate(parts)


def _random_pairs(problem: HoldOutProblem, n: int, random_state: Any) -> Index:
    """n unordered pairs with different labels (in any output), drawn without replacement."""
    if n < 1:
        raise ParameterError(f"pairs must be at least 1: got {n}.")
    rng = as_generator(random_state)
    groups, y = problem.groups, problem.labels
    chances = groups.sizes * (groups.sizes - 1.0)
    if chances.sum() == 0:
        raise DataError("No query has two rows: there is no pair to hold out.")
    if n >= chances.sum() / 4:  # half of all pairs, or more: list them
        within = [r[np.column_stack(np.triu_indices(len(r), 1))] for r in groups if len(r) > 1]
        every = np.concatenate(within)
        differ = (y[every[:, 0]] != y[every[:, 1]]).any(axis=1)
        every = rng.permutation(every[differ])[:n]
        _check_number_found(n, len(every))
        return every
    found: dict[tuple[int, int], None] = {}
    for _ in range(100):
        query = rng.choice(groups.n_groups, size=2 * n, p=chances / chances.sum())
        size = groups.sizes[query]
        i = rng.integers(0, size)
        j = (i + rng.integers(1, size)) % size
        first, second = (groups.order[groups.indptr[query] + part] for part in (i, j))
        differ = (y[first] != y[second]).any(axis=1)
        low, high = np.minimum(first, second)[differ], np.maximum(first, second)[differ]
        found.update(dict.fromkeys(zip(low.tolist(), high.tolist(), strict=True)))
        if len(found) >= n:
            break
    _check_number_found(n, len(found))
    return np.array(list(found)[:n], dtype=np.intp)


def _check_number_found(requested: int, found: int) -> None:
    if found == 0:
        raise DataError(
            "No two rows of a query have different labels: there is no pair to hold out."
        )
    if found < requested:
        warn(
            f"pairs={requested}, but only {found} pairs with different labels were found: all of "
            "these are held out.",
        )
