"""The graph of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rankwise.errors import DataError
from rankwise.plots._look import COLORS, INK, MARKERS, axes_or_new, axis_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 60
# Where a name may stand beside its dot, the best first: to the right or left, above or below.
PLACES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))


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
    ax = axes_or_new(ax, size=(5.4, 4.4))
    first, second = np.nonzero(np.triu((counts + counts.T).toarray(), 1))
    for i, j in zip(first, second, strict=True):
        i_wins, j_wins = counts[i, j], counts[j, i]
        surprise = (i_wins - j_wins) * (height[i] - height[j]) < 0
        ax.plot(
            [across[i], across[j]], [height[i], height[j]], zorder=2,
            lw=min(1.0 + 0.5 * (i_wins + j_wins - 1), 4), color=COLORS[1] if surprise else INK,
            alpha=1.0 if surprise else 0.35, ls=(0, (4, 2)) if surprise else "-",
        )  # fmt: skip
    labels = axis_names(range(n) if names is None else names)
    palette = COLORS[0], COLORS[2], COLORS[3]  # not the colour of surprises
    for k in used.tolist():
        g = group_of[k]
        color, marker = palette[g % len(palette)], MARKERS[g % len(MARKERS)]
        ax.plot(across[k], height[k], color=color, marker=marker, ms=7, zorder=3, ls="none")
    ax.set_xticks([])
    ax.margins(x=0.08)
    if len(used) <= MOST_NAMES:
        _name_items(ax, across[used], height[used], [labels[k] for k in used])
    ax.spines["bottom"].set_visible(False)
    ax.set_ylabel("share of comparisons won" if scores is None else "score")
    if n_groups > 1:
        ax.set_xlabel(f"{n_groups} groups that no comparison connects")
    return ax


def _name_items(ax: Axes, x: NDArray[Any], y: NDArray[Any], names: Sequence[str]) -> None:
    """Write each name beside its dot, where it covers the fewest dots and names written before."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    width, height = 72 / ax.figure.dpi * np.array(ax.bbox.size)  # in points
    dots = np.column_stack(((x - left) / (right - left) * width, (y - low) / (high - low) * height))
    taken = np.hstack((dots - 4, dots + 4))  # boxes in points: left, bottom, right, top
    for i, name in enumerate(names):
        size = np.array([5.6 * len(name), 11.0])  # of text of 9 points
        boxes = []
        for sideways, upwards in PLACES:
            corner = dots[i] + np.array([6 * sideways, 5 * upwards])
            corner += size * (np.array([sideways, upwards]) - 1) / 2
            boxes.append(np.concatenate((corner, corner + size)))
        beyond = [max(0.0, -box[0]) + max(0.0, box[2] - width) for box in boxes]
        best = int(np.argmin([_overlap(taken, box) for box in boxes] + 11 * np.array(beyond)))
        taken = np.vstack((taken, boxes[best]))
        sideways, upwards = PLACES[best]
        ax.annotate(
            name, (x[i], y[i]), (6 * sideways, 5 * upwards), textcoords="offset points", fontsize=9,
            ha={-1: "right", 0: "center", 1: "left"}[sideways],
            va={-1: "top", 0: "center", 1: "bottom"}[upwards], color=INK, zorder=4,
        )  # fmt: skip


def _overlap(boxes: NDArray[Any], box: NDArray[Any]) -> float:
    """The area that boxes share with one of them."""
    shared = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    return float(shared.clip(min=0.0).prod(axis=1).sum())


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
