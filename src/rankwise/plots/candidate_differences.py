"""How far candidates are behind the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError
from rankwise.metric_labels import metric_label
from rankwise.parameters import Flag, Whole, check_value
from rankwise.plots._look import BAND, COLORS, INK, PAPER, SIZE, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_differences_from_best(
    values: Mapping[str, ArrayLike],
    *,
    greater_is_better: bool = True,
    metric: str = "score",
    top: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far each candidate is behind the best, with 95% intervals of the differences.

    The differences are paired: the interval of a candidate comes from its differences from the best
    on the same queries. It is usually much shorter than the intervals of the two means, since an
    easy query is easy for both. A candidate whose interval reaches 0 may be as good as the best.
    The best of many candidates is partly best by luck, so that the others look a little worse than
    they are.

    Parameters
    ----------
    values : mapping of str to array-like of shape (n_queries,)
        The metric of each candidate on the same queries (or folds), in the same order; NaN where it
        is undefined.
    greater_is_better : bool, default=True
        Whether larger values are better.
    metric : str, default="score"
        Name of the metric.
    top : int, default=10
        How many candidates to show.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_differences_from_best({"a": [0.5, 0.6, 0.9], "b": [0.4, 0.6, 0.7]}, metric="MAP")
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['a: 0.667', 'b: 0.567']
    """
    check_value("greater_is_better", greater_is_better, Flag())
    check_value("top", top, Whole(1))
    rows = {str(name): np.ravel(np.asarray(row, dtype=np.float64)) for name, row in values.items()}
    n_queries = max((len(row) for row in rows.values()), default=0)
    if not n_queries:
        raise DataError("values needs one value per query for each candidate, at least one.")
    for name, row in rows.items():
        if len(row) != n_queries:
            raise DataError(
                f"All candidates need values on the same queries, here {n_queries}: {name} has "
                f"{len(row)} values."
            )
    table = np.array(list(rows.values()))
    defined = np.isfinite(table).all(axis=0)
    if not defined.any():
        raise DataError("There is no query on which all candidates have a value.")
    gains = (table if greater_is_better else -table)[:, defined]
    order = np.argsort(-gains.mean(axis=1), kind="stable")[:top]
    behind = gains[order[0]] - gains[order]
    n = behind.shape[1]
    error = behind.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(order))
    names = list(rows)
    labels = [f"{names[k]}: {table[k, defined].mean():.3f}" for k in order]
    return draw_differences(labels, behind.mean(axis=1), error, metric, len(names), ax)


def draw_differences(
    labels: Sequence[str],
    mean: NDArray[Any],
    standard_error: NDArray[Any],
    metric: str,
    n_candidates: int,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far candidates are behind the first of them, with 95% intervals."""
    half = BAND * standard_error
    ax = axes_or_new(ax, size=(SIZE[0], max(1.9, 0.42 * len(labels) + 1.0)))
    heights = np.arange(len(labels))
    open_ = mean - half <= 0  # may be as good as the best
    for part, fill in ((open_, PAPER), (~open_, COLORS[0])):
        ax.errorbar(
            -mean[part], heights[part], xerr=half[part], fmt="o", color=COLORS[0], mfc=fill, ms=6,
            mew=1.6, lw=1.6, zorder=3,
        )  # fmt: skip
    ax.axvline(0, color=INK, lw=1, ls=(0, (2, 3)), zorder=1)
    # Names stand above their intervals, in the figure: long ones would leave it no width.
    ax.set_yticks(heights - 0.12, labels, ha="left", va="bottom")
    ax.tick_params(axis="y", length=0, pad=-6)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(len(labels) - 0.5, -0.85)
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=INK, alpha=0.13, lw=0.8)
    fewer = len(labels) < n_candidates
    more = f", the best {len(labels)} of {n_candidates:,}" if fewer else ""
    ax.set_xlabel(f"{metric_label(metric)} behind the best, by query{more}")
    ax.xaxis.set_major_formatter(
        lambda value, _: f"{-value:.3g}".replace("-", "\N{MINUS SIGN}") if value else "0"
    )
    return ax
