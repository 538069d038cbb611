"""The graph of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rankwise.errors import DataError
from rankwise.plots._look import COLORS, INK, axes_or_new, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 60


def plot_comparisons(
    pairs: ArrayLike,
    *,
    scores: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw who was compared with whom: a dot for each item, a line for each compared pair.

    Height is the score; without scores, the share of its comparisons that an item won. Lines are
    wider for pairs that were compared more often. Red dashed lines are surprises: the lower item
    won more often than the higher one. Items that no chain of comparisons connects cannot be
    compared with each other: each connected group has a colour and marker of its own, and more than
    one group is named below the figure.

    Parameters
    ----------
    pairs : array-like of shape (n_comparisons, 2)
        Row numbers of the items, the preferred one first, as for `fit_pairs`.
    scores : array-like of shape (n_items,), optional
        Scores of all items, as from `predict`.
    names : sequence of str, optional
        Names of the items. None: their numbers. More than 60 items have no names in the figure.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_comparisons([[0, 1], [1, 2], [0, 2]], names=["a", "b", "c"])
    >>> [text.get_text() for text in ax.texts]
    ['a', 'b', 'c']
    """
    won = np.asarray(pairs)
    if won.ndim != 2 or won.shape[1:] != (2,) or not len(won):
        raise DataError(
            "pairs needs a row for each comparison, with the preferred item first: got shape "
            f"{won.shape}."
        )
    if not np.issubdtype(won.dtype, np.integer) or won.min() < 0:
        raise DataError("pairs must have row numbers of items: integers from 0.")
    known = [] if scores is None else [np.size(scores)]
    known += [] if names is None else [len(names)]
    n = known[0] if known else int(won.max()) + 1
    if any(other != n for other in known) or won.max() >= n:
        raise DataError(
            f"scores and names need one entry per item: got {known} for items 0 to {won.max()}."
        )
    counts = coo_array((np.ones(len(won)), (won[:, 0], won[:, 1])), shape=(n, n)).tocsr()
    used = np.unique(won)
    height = _heights(counts, scores)
    n_groups, group = connected_components(counts[used][:, used], directed=False)
    group_of = dict(zip(used.tolist(), group.tolist(), strict=True))
    across = _across(counts, used, group, height)
    ax = axes_or_new(ax, size=(7.2, 4.6))
    first, second = np.nonzero(np.triu((counts + counts.T).toarray(), 1))
    for i, j in zip(first, second, strict=True):
        i_wins, j_wins = counts[i, j], counts[j, i]
        surprise = (i_wins - j_wins) * (height[i] - height[j]) < 0
        ax.plot(
            [across[i], across[j]], [height[i], height[j]], zorder=2,
            lw=min(0.6 + 0.5 * (i_wins + j_wins - 1), 4), color=COLORS[1] if surprise else INK,
            alpha=0.85 if surprise else 0.3, ls=(0, (4, 2)) if surprise else "-",
        )  # fmt: skip
    labels = [str(name) for name in (range(n) if names is None else names)]
    palette = (0, 2, 3)  # not the colour of surprises
    for k in used.tolist():
        color, marker = look(palette[group_of[k] % 3])
        ax.plot(across[k], height[k], color=color, marker=marker, ms=7, zorder=3, ls="none")
        if len(used) <= MOST_NAMES:
            ax.annotate(
                labels[k], (across[k], height[k]), (5, 4), textcoords="offset points", fontsize=9,
                color=INK, zorder=4,
            )  # fmt: skip
    ax.set_xticks([])
    ax.margins(x=0.08)
    ax.spines["bottom"].set_visible(False)
    ax.set_ylabel("share of comparisons won" if scores is None else "score")
    if n_groups > 1:
        ax.set_xlabel(f"{n_groups} groups that no comparison connects")
    return ax


def _heights(counts: Any, scores: ArrayLike | None) -> NDArray[Any]:
    if scores is None:
        wins, losses = counts.sum(axis=1), counts.sum(axis=0)
        return np.asarray(wins / np.maximum(wins + losses, 1))
    height = np.asarray(scores, dtype=np.float64)
    if height.ndim != 1 or not np.isfinite(height).all():
        raise DataError(f"scores needs one finite number per item: got shape {height.shape}.")
    return height


def _across(
    counts: Any, used: NDArray[Any], group: NDArray[Any], height: NDArray[Any]
) -> NDArray[Any]:
    """Horizontal positions: group beside group, and within a group neighbours near each other.

    Within a group, the order is that of the eigenvector of the Laplacian with the smallest positive
    eigenvalue, after the heights, which are shown already, are taken out of it.
    """
    across = np.zeros(len(height))
    start = 0.0
    links = (counts + counts.T).toarray()
    for g in range(group.max() + 1):
        items = used[group == g]
        W = np.minimum(links[np.ix_(items, items)], 1.0)
        np.fill_diagonal(W, 0.0)
        L = np.diag(W.sum(axis=1)) - W
        known = np.column_stack((np.ones(len(items)), height[items]))
        Q = np.linalg.qr(known)[0]
        P = np.eye(len(items)) - Q @ Q.T
        _, vectors = np.linalg.eigh(P @ L @ P + 1e3 * len(items) * (Q @ Q.T))
        order = np.argsort(np.argsort(vectors[:, 0], kind="stable"))
        across[items] = start + order
        start += len(items) + 1.0
    return across
