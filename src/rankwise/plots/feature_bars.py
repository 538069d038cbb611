"""Bars of features: signed coefficients, and importance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.metric_names import metric_label
from rankwise.parameters import Whole, check_value
from rankwise.plots._look import COLORS, INK, axes_or_new, axis_names
from rankwise.routing import last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_coefficients(
    ranker: Any,
    *,
    names: Sequence[str] | None = None,
    top: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Draw the largest coefficients of a linear ranker, with their signs.

    A coefficient is the change of the score for one unit of its feature. To compare coefficients
    of features on different scales, scale the features first.

    Parameters
    ----------
    ranker : estimator or array-like of shape (n_features,)
        A fitted ranker with `coef_`, a pipeline that ends in one, or the coefficients.
    names : sequence of str, optional
        Names of the features. None: the names that the ranker was fitted with, or x0, x1, ...
    top : int, default=20
        How many coefficients to show, by decreasing absolute value.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_coefficients([0.1, -2.0, 1.0], names=["age", "price", "size"], top=2)
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['price', 'size']
    """
    check_value("top", top, Whole(1))
    coef = _coefficients(ranker)
    labels = feature_names(names, len(coef), ranker)
    order = np.argsort(-np.abs(coef), kind="stable")[:top]
    ax = _bars(ax, coef[order], [labels[k] for k in order])
    more = f", the {len(order)} largest of {len(coef):,}" if len(order) < len(coef) else ""
    ax.set_xlabel(f"coefficient{more}")
    return ax


def plot_importance(importance: Any, *, top: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the most important features, with 95% intervals over queries.

    Parameters
    ----------
    importance : PermutationImportance
        Result of `rankwise.model_selection.permutation_importance`.
    top : int, default=20
        How many features to show.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import permutation_importance
    >>> data = make_ranking(n_queries=20, n_features=4, informative=1, random_state=0)
    >>> ranker = RankRLS().fit(data.X, data.y, qid=data.qid)
    >>> result = permutation_importance(ranker, data.X, data.y, qid=data.qid, random_state=0)
    >>> plot_importance(result, top=1).get_xlabel()
    'rise in disagreement without the feature, the 1 largest of 4'
    """
    check_value("top", top, Whole(1))
    for name in ("importance", "standard_error", "names", "metric", "greater_is_better"):
        if not hasattr(importance, name):
            raise DataError(
                "plot_importance draws a result of permutation_importance: got "
                f"{type(importance).__name__}."
            )
    order = np.argsort(-importance.importance, kind="stable")[:top]
    spread = importance.standard_error[order]
    ax = _bars(
        ax, importance.importance[order], [importance.names[k] for k in order], spread=spread
    )
    change = "drop" if importance.greater_is_better else "rise"
    n = len(importance.importance)
    more = f", the {len(order)} largest of {n:,}" if len(order) < n else ""
    ax.set_xlabel(f"{change} in {metric_label(importance.metric)} without the feature{more}")
    return ax


def feature_names(names: Sequence[str] | None, n: int, ranker: Any = None) -> list[str]:
    """Names of features: the given names, the ranker's names, or x0, x1, ..."""
    if names is None:
        names = getattr(ranker, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(n)]
    labels = axis_names(names)
    if len(labels) != n:
        raise DataError(f"names needs one entry per feature: got {len(labels)} for {n} features.")
    return labels


def _coefficients(ranker: Any) -> NDArray[np.float64]:
    last = last_step(ranker)
    if not hasattr(last, "coef_") and hasattr(last, "fit"):
        raise DataError(
            "plot_coefficients needs a fitted linear ranker with coef_: this "
            f"{type(last).__name__} has none. Fit it first, with the linear kernel; for other "
            "rankers see permutation_importance."
        )
    given = getattr(last, "coef_", ranker)
    if hasattr(given, "toarray"):  # a sparse matrix of a bilinear ranker
        raise DataError(
            "plot_coefficients needs one coefficient per feature: coef_ is a matrix of pairs of "
            "features. See related_features."
        )
    coef = np.asarray(given, dtype=np.float64)
    if coef.ndim != 1 or not len(coef) or not np.isfinite(coef).all():
        raise DataError(
            "plot_coefficients needs one finite coefficient per feature: got shape "
            f"{coef.shape}. Of several outputs pass one, as in ranker.coef_[:, 0]."
        )
    return coef


def _bars(
    ax: Axes | None,
    values: NDArray[Any],
    labels: Sequence[str],
    spread: NDArray[Any] | None = None,
) -> Axes:
    """Horizontal bars from the top down, blue to the right of 0 and red to the left."""
    ax = axes_or_new(ax, size=(5.0, max(1.8, 0.27 * len(values) + 0.9)))
    heights = np.arange(len(values))
    colors = [COLORS[0] if value >= 0 else COLORS[1] for value in values]
    ax.barh(heights, values, height=0.72, color=colors, lw=0, zorder=3)
    if spread is not None and np.isfinite(spread).any():
        ax.errorbar(
            values, heights, xerr=1.96 * spread, fmt="none", ecolor=INK, elinewidth=1.3,
            capsize=2.5, zorder=4,
        )  # fmt: skip
    ax.axvline(0, color=INK, lw=1, zorder=4)
    ax.set_yticks(heights, labels)
    ax.locator_params(axis="x", nbins=6)
    ax.set_ylim(len(values) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=INK, alpha=0.13, lw=0.8)
    return ax
