"""Plots of leaderboards: ratings with intervals, and who wins against whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rankwise.errors import DataError
from rankwise.parameters import AnyOf, Whole, check_value
from rankwise.plots._look import COLORS, INK, SIZE, STRONGEST, axes_or_new, axis_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST = 8.0  # inches of a plot with long names
MOST_NUMBERS = 12  # items whose cells have numbers
MOST_LETTERS = 12  # of names that stand at columns, too; longer ones are numbered


def plot_ratings(
    ratings: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    names: Sequence[Any],
    ranks: tuple[ArrayLike, ArrayLike] | None = None,
    group: ArrayLike | None = None,
    top: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot ratings with their intervals, from best to worst.

    Parameters
    ----------
    ratings, low, high : array-like of shape (n_items,)
        Ratings, and both ends of their intervals.
    names : sequence of shape (n_items,)
        Names of the items.
    ranks : (array-like, array-like), optional
        The lowest and highest rank of each item, written on the right.
    group : array-like of shape (n_items,), optional
        Numbers of the groups of items that cannot be told apart. A thin line separates groups.
    top : int, optional
        Show only this many of the best items.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_ratings([0.1, 0.5], [0.0, 0.3], [0.2, 0.7], names=["a", "b"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['b', 'a']
    """
    check_value("top", top, AnyOf(Whole(1), None))
    rating, lower, upper = (np.asarray(v, dtype=np.float64) for v in (ratings, low, high))
    if not (rating.ndim == 1 and rating.shape == lower.shape == upper.shape == (len(names),)):
        raise DataError(
            "ratings, low, high and names need one entry per item: got shapes "
            f"{rating.shape}, {lower.shape}, {upper.shape} and {(len(names),)}."
        )
    order = np.argsort(-rating, kind="stable")[:top]
    labels = axis_names(names[k] for k in order)
    width = 5.0 + 0.07 * max(max(map(len, labels)) - 16, 0)  # long names take space from the plot
    ax = axes_or_new(ax, size=(min(width, WIDEST), max(2.4, 0.26 * len(order) + 1.0)))
    heights = np.arange(len(order))
    reach = np.maximum(np.array([rating - lower, upper - rating])[:, order], 0.0)
    ax.errorbar(
        rating[order], heights, xerr=reach, fmt="o", color=COLORS[0], ms=4.5, lw=1.4, capsize=0,
        zorder=3,
    )  # fmt: skip
    ax.set_yticks(heights, labels)
    if group is not None:
        numbers = np.asarray(group)[order]
        for height in np.flatnonzero(np.diff(numbers)).tolist():
            ax.axhline(height + 0.5, color=INK, lw=0.8, alpha=0.5, ls=(0, (2, 2)))
    if ranks is not None:
        beside: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "va": "center"}
        beside |= {"color": INK, "fontsize": 10, "annotation_clip": False}
        ax.annotate("rank", (1.02, -0.85), **beside)
        least, most = (np.asarray(end) for end in ranks)
        for height, k in enumerate(order):
            text = f"{least[k]}" if least[k] == most[k] else f"{least[k]}\u2013{most[k]}"
            ax.annotate(text, (1.02, height), **beside)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel("rating")
    return ax


def plot_win_matrix(
    shares: ArrayLike,
    *,
    names: Sequence[Any],
    top: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often the item of each row wins against that of each column, as a heat map.

    With up to 12 items, cells have percentages. Blue: the item of the row wins more often; red: it
    loses more often; pairs that never met are empty. Columns have numbers instead of long names.

    Parameters
    ----------
    shares : array-like of shape (n_items, n_items)
        Entry (i, j) is the share of battles that item i won against item j, a tie being half a win;
        NaN if they never met.
    names : sequence of shape (n_items,)
        Names of the items, the best first.
    top : int, optional
        Show only this many of the first items.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> nan = float("nan")
    >>> ax = plot_win_matrix([[nan, 0.75], [0.25, nan]], names=["a", "b"])
    >>> [text.get_text() for text in ax.texts]
    ['75', '25']
    """
    check_value("top", top, AnyOf(Whole(1), None))
    cells = np.asarray(shares, dtype=np.float64)
    if cells.shape != (len(names), len(names)):
        raise DataError(
            f"shares needs a row and a column for each of the {len(names)} names: got shape "
            f"{cells.shape}."
        )
    cells = cells[:top, :top]
    n = len(cells)
    side = min(SIZE[0], max(3.2, 1.6 + 0.38 * n))
    ax = axes_or_new(ax, size=(side, side - 0.3))
    from matplotlib.colors import to_rgba

    # Two colours, more or less opaque: they fit a light and a dark page.
    colors = np.zeros((n, n, 4))
    met = np.isfinite(cells)
    for color, sign in ((COLORS[0], 1), (COLORS[1], -1)):
        chosen = met & (np.sign(cells - 0.5) == sign)
        colors[chosen] = to_rgba(color)
    lead = np.minimum(2 * abs(np.nan_to_num(cells, nan=0.5) - 0.5), 1)
    colors[..., 3] = np.where(met, STRONGEST * lead, 0)
    edges = np.arange(n + 1) - 0.5
    ax.pcolormesh(edges, edges, colors, linewidth=0, zorder=1)
    if n <= MOST_NUMBERS:
        for i, j in zip(*np.nonzero(met), strict=True):
            ax.text(
                j, i, f"{100 * cells[i, j]:.0f}", ha="center", va="center", fontsize=9,
                color=INK, zorder=2,
            )  # fmt: skip
    ax.grid(visible=False)
    labels = axis_names(names[:n])
    if max(map(len, labels), default=0) > MOST_LETTERS:
        labels = [f"{label}  {k}" for k, label in enumerate(labels, 1)]
        places = np.arange(1, n + 1)
        if n > MOST_NUMBERS:
            places = places[(places == 1) | (places % 5 == 0)]
        ax.set_xticks(places - 1, [str(place) for place in places])
    else:
        ax.set_xticks(np.arange(n), labels, rotation=90)
    ax.set_yticks(np.arange(n), labels)
    ax.tick_params(labelsize=min(10, 250 / n))  # names do not overlap
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
    ax.set_xlabel("against; in percent" if n <= MOST_NUMBERS else "against")
    return ax
