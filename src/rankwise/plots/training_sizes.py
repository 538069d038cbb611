"""The score against the number of training queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankwise.errors import DataError
from rankwise.metric_labels import metric_label
from rankwise.plots._look import axes_or_new, by_name, look, name_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_training_sizes(curves: Any, *, ax: Axes | None = None) -> Axes:
    """Draw held-out scores against the number of training queries, with standard errors.

    A curve that still rises at its end asks for more queries; a flat one for other features.

    Parameters
    ----------
    curves : QueryLearningCurve, or mapping of str to such
        Results of `rankwise.model_selection.query_learning_curve`; several must have the same
        metric.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import query_learning_curve
    >>> data = make_ranking(n_queries=20, rows_per_query=5, random_state=0)
    >>> curve = query_learning_curve(RankRLS(1.0), data.X, data.y, qid=data.qid, random_state=0)
    >>> plot_training_sizes(curve).get_xlabel()
    'training queries'
    """
    named = by_name(curves)
    for curve in named.values():
        if not hasattr(curve, "n_training_queries"):
            raise DataError(
                "plot_training_sizes draws results of query_learning_curve: got "
                f"{type(curve).__name__}."
            )
    metrics = {curve.metric for curve in named.values()}
    if len(metrics) > 1:
        raise DataError(
            f"All curves in a plot must have the same metric: got {', '.join(sorted(metrics))}."
        )
    ax = axes_or_new(ax)
    for i, (name, curve) in enumerate(named.items()):
        color, marker = look(i)
        ax.errorbar(
            curve.n_training_queries, curve.score, curve.standard_error, color=color,
            marker=marker, ms=5, lw=1.8, elinewidth=1.2, capsize=3, label=f"_{name}", zorder=3,
        )  # fmt: skip
        ax.plot([], [], color=color, marker=marker, ms=5, lw=1.8, label=name)
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="training queries", ylabel=f"held-out {metric_label(metrics.pop())} (± s.e.)")
    name_curves(ax, list(named))
    return ax
