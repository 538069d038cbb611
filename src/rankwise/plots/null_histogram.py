"""The distribution of scores by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.errors import DataError
from rankwise.metric_labels import metric_label
from rankwise.plots._look import COLORS, axes_or_new, name_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_null(test: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how often permuted labels reach which score, and the score of the given labels.

    Parameters
    ----------
    test : PermutationTest
        The result of `rankwise.model_selection.permutation_test`.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.model_selection import PermutationTest
    >>> plot_null(PermutationTest(0.9, np.array([0.4, 0.6, 0.5, 0.55]))).get_ylabel()
    'permutations of the labels'
    """
    if not hasattr(test, "null"):
        raise DataError(f"plot_null draws a result of permutation_test: got {type(test).__name__}.")
    ax = axes_or_new(ax)
    low, high = min(test.null.min(), test.score), max(test.null.max(), test.score)
    margin = 0.03 * (high - low) or 0.01
    bins = np.linspace(low - margin, high + margin, 41).tolist()
    ax.hist(test.null, bins, color=COLORS[0], alpha=0.55)
    given = f"given labels: p = {test.p_value:.3g}"
    ax.axvline(test.score, color=COLORS[1], lw=2, label=given)
    of_pairs = test.metric == "AUC"
    name = "AUC of held-out pairs" if of_pairs else f"{metric_label(test.metric)} of held-out rows"
    ax.set(xlabel=name, ylabel="permutations of the labels")
    name_curves(ax, [given])
    return ax
