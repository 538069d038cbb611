"""How likely each row is to have each rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rankwise.errors import DataError
from rankwise.parameters import AnyOf, Whole, check_value
from rankwise.plots._look import COLORS, INK, SIZE, STRONGEST, axes_or_new, axis_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NUMBERS = 12  # ranks that fit into a row of cells with numbers


def plot_rank_probabilities(
    probabilities: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    top: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the probability of every rank of every row as a heat map, the best rows first.

    Rows are ordered by their expected rank. With up to 12 ranks, cells have percentages; those
    below one percent are empty.

    Parameters
    ----------
    probabilities : array-like of shape (n_rows, n_ranks)
        Entry (i, k) is the probability that row i has rank k, 0 being the best: the result of
        `rank_probabilities` of a `PairwiseGP`.
    names : sequence of str, optional
        Names of the rows. None: their numbers.
    top : int, optional
        Show only this many rows and ranks.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_rank_probabilities([[0.2, 0.8], [0.8, 0.2]], names=["a", "b"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['b', 'a']
    >>> [text.get_text() for text in ax.texts]
    ['80', '20', '20', '80']
    """
    check_value("top", top, AnyOf(Whole(1), None))
    share = np.asarray(probabilities, dtype=np.float64)
    if share.ndim != 2 or not share.size or not ((share >= 0) & (share <= 1)).all():
        raise DataError(
            "probabilities must have a row per item and a column per rank, with values between 0 "
            f"and 1: got shape {share.shape}."
        )
    labels = axis_names(range(len(share)) if names is None else names)
    if len(labels) != len(share):
        raise DataError(
            f"names needs one entry per row of probabilities: got {len(labels)} for {len(share)}."
        )
    order = np.argsort(share @ np.arange(share.shape[1]), kind="stable")[:top]
    cells = share[order, :top]
    n_rows, n_ranks = cells.shape
    size = (min(SIZE[0], max(3.6, 1.6 + 0.46 * n_ranks)), max(2.2, 0.27 * n_rows + 1.0))
    ax = axes_or_new(ax, size=size)
    from matplotlib.colors import to_rgba

    # One colour, more or less opaque: it fits a light and a dark page.
    colors = np.tile(to_rgba(COLORS[0]), (n_rows, n_ranks, 1))
    colors[..., 3] = STRONGEST * cells / (cells.max() or 1.0)
    edges = np.arange(n_ranks + 1) + 0.5, np.arange(n_rows + 1) - 0.5
    ax.pcolormesh(*edges, colors, linewidth=0, zorder=1)
    if n_ranks <= MOST_NUMBERS:
        for i, k in zip(*np.nonzero(cells >= 0.01), strict=True):
            ax.text(
                k + 1, i, f"{100 * cells[i, k]:.0f}", ha="center", va="center", fontsize=9,
                color=INK, zorder=2,
            )  # fmt: skip
    ax.grid(visible=False)
    ax.set_yticks(np.arange(n_rows), [labels[k] for k in order])
    ax.set(ylim=(n_rows - 0.5, -0.5), xlim=(0.5, n_ranks + 0.5))
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    unit = (
        ", in percent" if n_ranks <= MOST_NUMBERS else ": the stronger the colour, the more likely"
    )
    ax.set_xlabel(f"rank{unit}")
    return ax
