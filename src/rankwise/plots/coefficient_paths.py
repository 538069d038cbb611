"""Coefficients against alpha."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.parameters import Whole, check_value
from rankwise.plots._look import INK, look
from rankwise.plots.alpha_curves import alpha_axes
from rankwise.plots.feature_bars import feature_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_coefficient_path(
    path: Any, *, names: Sequence[str] | None = None, top: int = 8, ax: Axes | None = None
) -> Axes:
    """Draw the coefficients of a linear ranker against alpha.

    Parameters
    ----------
    path : RegularizationPath
        Result of `path` of a linear ranker with one output.
    names : sequence of str, optional
        Names of the features. None: the names that the ranker was fitted with, or x0, x1, ...
    top : int, default=8
        How many features have a name and a colour: those with the largest absolute coefficient at
        any alpha. The others are grey.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> data = load_dataset("diabetes")
    >>> path = RankRLS().path(data.X, data.y, [0.01, 0.1, 1.0])
    >>> ax = plot_coefficient_path(path, names=data.feature_names, top=2)
    >>> [text.get_text() for text in ax.texts]
    ['s5', 'bmi']
    """
    check_value("top", top, Whole(1))
    alphas, coefs = _coefficients(path)
    labels = feature_names(names, coefs.shape[1], path.template)
    order = np.argsort(-np.abs(coefs).max(axis=0), kind="stable")
    ax = alpha_axes(ax, alphas)
    for j in order[top:]:
        ax.plot(alphas, coefs[:, j], color=INK, lw=1, alpha=0.3, zorder=2)
    shown = order[:top]
    for i, j in enumerate(shown):
        color, marker = look(i)
        style = "-" if i < 4 else (0, (4, 1.5))
        ax.plot(
            alphas, coefs[:, j], color=color, marker=marker, ms=4, lw=1.8, ls=style,
            label=labels[j], zorder=3,
        )  # fmt: skip
    ax.axhline(0, color=INK, lw=1)
    ends = _apart(coefs[0, shown], np.ptp(coefs) * 0.065)
    for i, j in enumerate(shown):
        ax.annotate(
            labels[j], (alphas[0], coefs[0, j]), (-14, ends[i]), color=look(i)[0], fontsize=10,
            ha="right", va="center", textcoords=("offset points", "data"), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": look(i)[0], "lw": 0.8, "shrinkB": 3},
        )  # fmt: skip
    ax.spines["left"].set_visible(False)
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.set_ylabel("coefficient")
    return ax


def _coefficients(path: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ascending alphas, and the coefficients of each."""
    if not (hasattr(path, "alphas") and hasattr(path, "coefficients")):
        raise DataError(
            "plot_coefficient_path draws the result of path(X, y, alphas): got "
            f"{type(path).__name__}."
        )
    order = np.argsort(path.alphas)
    return np.asarray(path.alphas)[order], path.coefficients()[order]


def _apart(values: NDArray[Any], gap: float) -> NDArray[Any]:
    """Positions near the values, in their order, with at least this gap between them."""
    order = np.argsort(values, kind="stable")
    wanted = values[order] - gap * np.arange(len(values))
    # The nearest nondecreasing sequence: pool neighbours that are out of order at their mean.
    pools: list[list[float]] = []
    for value in wanted:
        pools.append([float(value)])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    level = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    placed = np.empty(len(values))
    placed[order] = level + gap * np.arange(len(values))
    return placed
