"""Rows as users have them, rows composed of two of them, and their way through transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, as_given, is_sparse, to_host
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.model_selection.meta_rankers import is_within_queries
from rankwise.model_selection.rows import as_rows, take

PROBED_CELLS = 2**23  # of transformed rows in memory at a time
NOBODY = -1  # the player of a column that no feature alone decides, or that is the same in all rows


def as_cells(X: Any) -> Any:
    """Rows of columns: a pandas data frame, an array with two axes, or sparse rows."""
    X = as_given(X)
    if not hasattr(X, "iloc") and (hasattr(X, "columns") or hasattr(X, "column_names")):
        return X.to_pandas()  # polars, pyarrow
    X = as_rows(X)
    if hasattr(X, "iloc"):
        return X.reset_index(drop=True)
    if is_sparse(X):
        return sp.csr_array(X)
    X = np.asarray(to_host(X))
    if X.ndim != 2:
        raise DataError(
            "Explanations are for rows of columns: got an X with "
            f"{'one axis' if X.ndim == 1 else f'{X.ndim} axes'}. If a pipeline reads text or "
            "graphs, pass its last step, and the rows that the steps before it return."
        )
    return X


def stacked(first: Any, second: Any) -> Any:
    """Two rows, given as arrays, lists, sparse rows, Series or data frames, as rows of columns."""
    parts = []
    for name, given in (("better", first), ("worse", second)):
        if hasattr(given, "to_frame") and hasattr(given, "index") and not hasattr(given, "columns"):
            given = given.to_frame().T.infer_objects()  # a row of a data frame
        elif isinstance(given, dict):
            import pandas as pd

            given = pd.DataFrame([given])
        elif not (is_sparse(given) or hasattr(given, "columns")):
            given = np.atleast_2d(np.asarray(to_host(as_given(given))))
        cells = as_cells(given)
        if cells.shape[0] != 1:
            raise DataError(f"{name} must be one row: got {cells.shape[0]}.")
        parts.append(cells)
    return joined(parts)


def joined(parts: Sequence[Any]) -> Any:
    """Rows of columns below one another; all must have the same columns."""
    widths = {part.shape[1] for part in parts}
    if len(widths) > 1:
        raise DataError(f"Rows must have the same columns: got {sorted(widths)} columns.")
    frames = [part for part in parts if hasattr(part, "iloc")]
    if frames:
        import pandas as pd

        if len(frames) < len(parts):
            raise DataError("Rows must be of one kind: got a data frame and an array.")
        names = list(frames[0].columns)
        for other in frames[1:]:
            if set(other.columns) != set(names):
                raise DataError(
                    f"Rows must have the same columns: got {', '.join(map(str, names))} and "
                    f"{', '.join(map(str, other.columns))}."
                )
        return pd.concat([frame[names] for frame in frames], ignore_index=True)
    if any(is_sparse(part) for part in parts):
        return sp.csr_array(sp.vstack([sp.csr_array(part) for part in parts], format="csr"))
    return np.vstack(parts)


def values(X: Any, row: int) -> list[Any]:
    """The cells of a row."""
    if hasattr(X, "iloc"):
        return [X.iloc[row, c] for c in range(X.shape[1])]
    return list((X[[row]].toarray() if is_sparse(X) else X[[row]]).ravel().tolist())


def differing(X: Any, one: int, others: Index) -> NDArray[np.bool_]:
    """The columns in which some of the other rows differ from a row; missing values are equal."""
    if is_sparse(X):
        found = np.zeros(X.shape[1], dtype=bool)
        first = X[[one]]
        for other in others:
            found[(first != X[[other]]).tocoo().col] = True
        return found
    if hasattr(X, "iloc"):
        columns = [np.asarray(X.iloc[:, c]) for c in range(X.shape[1])]
        return np.array([_unlike(column[[one]], column[others]).any() for column in columns])
    return np.asarray(_unlike(X[[one]], X[others]).any(axis=0))


def _unlike(one: Any, other: Any) -> NDArray[np.bool_]:
    both_missing = (one != one) & (other != other)
    return np.asarray((one != other) & ~np.asarray(both_missing, dtype=bool), dtype=bool)


@dataclass(frozen=True, eq=False)
class UserRows:
    """Rows on their way through a model.

    Attributes
    ----------
    X : array, sparse or data frame of shape (n_rows, n_columns)
    groups : QueryGroups
    players : ndarray of shape (n_columns,)
        The feature of the user that each column is made from; `NOBODY` if there is none.
    n_players : int
    pairs : ndarray of shape (n_pairs, 2)
        Rows whose composites are going to be scored.
    moves : ndarray of shape (n_moves, 3)
        A row, another row, and a player that moves from the one to the other: what shows which
        columns behind a transformer belong to which player.
    """

    X: Any
    groups: QueryGroups
    players: Index
    n_players: int
    pairs: Index
    moves: Index

    @classmethod
    def of(cls, X: Any, groups: QueryGroups, pairs: Index, moves: Index | None = None) -> UserRows:
        """The user's rows, in which every column is a feature; all features of a pair may move."""
        if moves is None:
            found = []
            for one, other in pairs:
                for player in np.flatnonzero(differing(X, one, np.array([other]))):
                    found += [(one, other, player), (other, one, player)]
            moves = np.array(found, dtype=np.intp).reshape(-1, 3)
        return cls(X, groups, np.arange(X.shape[1]), X.shape[1], pairs, moves)

    def compose(self, base: Index, donor: Index, active: Index, taken: NDArray[np.bool_]) -> Any:
        """Rows `base`, in which some players take all their columns from the rows `donor`.

        ``taken[k, j]`` tells whether player ``active[j]`` does so in row k.
        """
        X, place = self.X, np.full(self.n_players + 1, -1)  # the last place is nobody's
        place[active] = np.arange(len(active))
        columns = np.flatnonzero(place[self.players] >= 0)
        taken = taken[:, place[self.players[columns]]]
        if hasattr(X, "iloc"):
            sources = dict(zip(columns.tolist(), np.where(taken.T, donor, base), strict=True))
            cells = {c: X.iloc[:, c].array.take(sources.get(c, base)) for c in range(X.shape[1])}
            made = type(X)(cells)
            made.columns = X.columns
            return made
        if is_sparse(X):
            kept = np.ones(X.shape[1])
            kept[columns] = 0.0
            rest = X[base] @ sp.diags_array(kept)
            chosen = np.where(taken, X[donor][:, columns].toarray(), X[base][:, columns].toarray())
            block = sp.coo_array(chosen)
            where = block.row, columns[block.col]
            return sp.csr_array(rest + sp.csr_array((block.data, where), shape=rest.shape))
        made = X[base]
        made[:, columns] = np.where(taken, X[donor][:, columns], made[:, columns])
        return made

    def through(self, step: Any) -> UserRows | None:
        """The rows behind a transformer; None if it mixes features.

        A scaling within queries maps every column by itself, and may put the scaled columns beside
        the others. It is applied to the queries as they are: what it has learned from the other
        rows is held fixed. For other transformers, each
        player of each pair is moved from one row to the other, alone, and what moves is its own.
        """
        if step is None or step == "passthrough":
            return self
        scaling = getattr(step, "scaling", None)
        if getattr(scaling, "within_queries", False):
            Z = _next(step.transform(self.X, qid=self.groups.codes))
            copies = Z.shape[1] // self.X.shape[1]
            return replace(self, X=Z, players=np.tile(self.players, copies))
        if hasattr(step, "steps"):
            reached: UserRows | None = self
            for _, inner in step.steps:
                reached = None if reached is None else reached.through(inner)
            return reached
        if is_within_queries(step):  # in a union, or on some columns
            return None
        Z = _next(step.transform(self.X))
        players = self._players_behind(step, Z)
        return None if players is None else replace(self, X=Z, players=players)

    def _players_behind(self, step: Any, Z: Any) -> Index | None:
        """The player of each transformed column; None if one depends on several players."""
        owner = np.full(Z.shape[1], NOBODY)
        u, v, who = self.moves.T
        size = max(1, PROBED_CELLS // max(Z.shape[1], self.X.shape[1]))
        for start in range(0, len(u), size):
            part = slice(start, start + size)
            active, position = np.unique(who[part], return_inverse=True)
            taken = position[:, None] == np.arange(len(active))
            moved = self.compose(u[part], v[part], active, taken)
            P = as_dense(_next(step.transform(moved)))
            before, target = as_dense(take(Z, u[part])), as_dense(take(Z, v[part]))
            changed = _unlike(P, before)
            if (changed & _unlike(P, target)).any():
                return None
            rows, columns = np.nonzero(changed)
            player = who[part][rows]
            first = np.full(Z.shape[1], NOBODY)
            first[columns] = player
            known = owner[columns]
            if (first[columns] != player).any() or ((known >= 0) & (known != player)).any():
                return None
            owner[columns] = player
        for one, other in self.pairs:
            ends = as_dense(take(Z, np.array([one, other])))
            lost = _unlike(ends[:1], ends[1:])[0] & (owner == NOBODY)
            if lost.any():
                return None
        return owner


def _next(Z: Any) -> Any:
    """Transformed rows as the next step gets them."""
    if hasattr(Z, "iloc"):
        return Z.reset_index(drop=True)
    return sp.csr_array(Z) if is_sparse(Z) else np.asarray(to_host(as_given(Z)))


def as_dense(Z: Any) -> Array:
    """Rows as an array."""
    return np.asarray(Z.toarray() if is_sparse(Z) else Z)
