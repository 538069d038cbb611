"""Plots of scores with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError
from rankwise.parameters import AnyOf, Whole, check_value
from rankwise.plots._look import BAND, COLORS, INK, axes_or_new, axis_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_posterior(
    gp: Any,
    X: ArrayLike,
    *,
    offset: float = 0.0,
    label: str = "posterior mean",
    ax: Axes | None = None,
) -> Axes:
    """Plot the scores of a `PairwiseGP` as a function of one feature, with a 95% band.

    Scores and band are relative to the mean over these points, which comparisons do not
    determine. O(n_points^2) memory.

    Parameters
    ----------
    gp : PairwiseGP
        Fitted to rows of one feature.
    X : array-like of shape (n_points, 1)
        Where to evaluate the scores, in any order.
    offset : float, default=0.0
        Added to the scores.
    label : str, default="posterior mean"
        Name of the curve.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PairwiseGP
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[15, 3], [12, 5]])
    >>> ax = plot_posterior(gp, X)
    >>> len(ax.get_lines()[0].get_xdata())
    20
    """
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 1:
        raise DataError(f"The plot needs X with one feature: got shape {points.shape}.")
    points = points[np.argsort(points[:, 0], kind="stable")]
    score, half = _relative_to_mean(gp, points)
    score, x = score + offset, points[:, 0]
    ax = axes_or_new(ax)
    ax.fill_between(x, score - half, score + half, color=COLORS[0], alpha=0.16, lw=0)
    ax.plot(x, score, color=COLORS[0], lw=1.8, label=label, zorder=3)
    ax.set(xlabel="x", ylabel="score")
    return ax


def plot_item_ranking(
    gp: Any,
    X: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    top: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot rows from best to worst, each score with its 95% interval, and the 95% of its ranks.

    Scores and intervals are relative to the mean score, as in `plot_posterior`. The numbers on the
    right are the ranks among all rows that 95% of 2,000 draws from the posterior give a row.
    Intervals of scores that overlap do not say that the order is open: the ranks do.

    Parameters
    ----------
    gp : PairwiseGP
    X : array-like of shape (n_rows, n_features)
    names : sequence of str, optional
        Names of the rows. None: their numbers.
    top : int, optional
        Show only this many of the best rows.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import PairwiseGP
    >>> X = [[0.0], [1.0], [2.0]]
    >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[2, 1], [1, 0], [2, 0]])
    >>> ax = plot_item_ranking(gp, X, names=["a", "b", "c"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['c', 'b', 'a']
    """
    check_value("top", top, AnyOf(Whole(1), None))
    score, half = _relative_to_mean(gp, X)
    n = len(score)
    labels = axis_names(range(n) if names is None else names)
    if len(labels) != n:
        raise DataError(f"names needs one entry per row of X: got {len(labels)} for {n} rows.")
    order = np.argsort(-score, kind="stable")[:top]
    ax = axes_or_new(ax, size=(5.0, max(2.4, 0.26 * len(order) + 1.0)))
    heights = np.arange(len(order))
    ax.errorbar(
        score[order], heights, xerr=half[order], fmt="o", color=COLORS[0], ms=4.5, lw=1.4,
        capsize=0, zorder=3,
    )  # fmt: skip
    ax.axvline(0, color=INK, lw=1, alpha=0.4)
    ax.set_yticks(heights, [labels[k] for k in order])
    low, high = rank_intervals(gp.rank_probabilities(X, random_state=0))
    beside: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "va": "center", "color": INK}
    ax.annotate("rank", (1.02, -0.85), fontsize=10, annotation_clip=False, **beside)
    for height, k in enumerate(order):
        text = f"{low[k]}" if low[k] == high[k] else f"{low[k]}\u2013{high[k]}"
        ax.annotate(text, (1.02, height), fontsize=10, **beside)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlabel("score relative to the mean")
    return ax


def _relative_to_mean(gp: Any, X: ArrayLike) -> tuple[Any, Any]:
    """Scores minus their mean, and half the width of their 95% intervals."""
    mean, std = gp.predict(X, contrast=X, return_std=True)
    return mean, BAND * std


def rank_intervals(probabilities: NDArray[Any], level: float = 0.95) -> tuple[Any, Any]:
    """The lowest and highest rank, from 1, between the outer quantiles of each row."""
    share = np.cumsum(probabilities, axis=1)
    outside = (1 - level) / 2
    # The sums are of many small shares: without the tolerance, rounding could move a quantile.
    low, high = (1 + (share < quantile - 1e-9).sum(axis=1) for quantile in (outside, 1 - outside))
    return low, high
