"""The ROC curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError
from rankwise.plots._look import COLORS, INK, Curves, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))


def plot_roc(
    y: ArrayLike, scores: Curves, *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the ROC curve of scores: true positive rate against false positive rate.

    Each step lowers the threshold by one row; rows with equal scores make one sloped line. The
    legend shows the area under the curve: the share of (positive, negative) pairs in the right
    order, where ties count half. For held-out scores of a small sample, use
    `rankwise.model_selection.tournament_scores`. O(m log m).

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Two different labels, the larger one positive.
    scores : array-like of shape (n_rows,), or mapping of str to such
        Higher for rows that should be positive. One curve, or one for each ranker by name.
    label : str, optional
        Name of a single curve. To add curves, also of other rows, pass `ax` again.
    ax : matplotlib Axes, optional
        Where to draw. By default on new axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_roc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], label="RankRLS")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['RankRLS: AUC 0.750']
    """
    named = dict(scores) if isinstance(scores, Mapping) else {label or "": scores}
    if isinstance(scores, Mapping) and label is not None:
        raise DataError("label is for a single curve: the keys of scores are the labels.")
    curves = {str(name): _rates(y, values, str(name)) for name, values in named.items()}
    if not curves:
        raise DataError("There is no curve to draw: scores is empty.")
    fresh = ax is None
    ax = axes_or_new(ax, size=(4.6, 4.6))
    if not any(line.get_label() == "_chance" for line in ax.get_lines()):
        ax.plot([0, 1], [0, 1], color=INK, lw=1, ls=(0, (2, 3)), alpha=0.6, label="_chance")
    first = sum(str(line.get_label())[:1] != "_" for line in ax.get_lines())
    for i, (name, (false, true)) in enumerate(curves.items(), first):
        area = f"AUC {np.trapezoid(true, false):.3f}"
        ax.plot(
            false, true, color=COLORS[i % len(COLORS)], ls=DASHES[i % len(DASHES)], lw=2,
            label=f"{name}: {area}" if name else area, zorder=3, clip_on=False,
            solid_joinstyle="miter", solid_capstyle="butt",
        )  # fmt: skip
    ax.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    ax.set_aspect("equal")
    ticks = np.linspace(0, 1, 6)
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    if fresh:
        ax.grid(axis="both", color=INK, alpha=0.13, lw=0.8)
    ax.legend(loc="lower right", frameon=False, fontsize=10, labelcolor=INK, handlelength=2.2)
    return ax


def _rates(
    y: ArrayLike, scores: ArrayLike, name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of the negatives and of the positives at or above each threshold."""
    labels, values = np.asarray(y), np.asarray(scores, dtype=np.float64)
    whose = name or "scores"
    if values.ndim != 1 or labels.shape != values.shape:
        raise DataError(
            f"A ROC curve needs one score per label: {whose} has shape {values.shape}, "
            f"y has {labels.shape}."
        )
    if not np.isfinite(values).all():
        raise DataError(f"A ROC curve needs finite scores: {whose} has NaN or infinity.")
    levels = np.unique(labels)
    if len(levels) != 2:
        raise DataError(
            f"A ROC curve needs two different labels: y has {len(levels)}. For grades, pass "
            "y >= the least grade that counts as positive."
        )
    order = np.argsort(-values, kind="stable")
    positive = labels[order] == levels[1]
    last = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))  # of each group of ties
    found, raised = (np.append(0, np.cumsum(part)[last]) for part in (positive, ~positive))
    return raised / raised[-1], found / found[-1]
