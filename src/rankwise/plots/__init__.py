"""Figures of results; they need matplotlib, ``pip install 'rankwise[plots]'``.

Every plot function draws on the Axes passed as ``ax``, or on new ones in a figure that pyplot does
not manage, and returns the Axes: ``save_figure(ax.figure, "path.pdf")``. A notebook shows new ones
as the value of a cell. Where a function takes a mapping, it draws one curve for each name.
"""

from rankwise.plots._look import (
    COLORS,
    INK,
    MARKERS,
    figure_svg,
    new_axes,
    require_matplotlib,
    save_figure,
)
from rankwise.plots.bars import (
    plot_before_after,
    plot_coefficients,
    plot_contributions,
    plot_differences_from_best,
    plot_importance,
    plot_null,
    plot_query_differences,
    plot_query_values,
)
from rankwise.plots.curves import (
    plot_alpha_path,
    plot_coefficient_path,
    plot_component_errors,
    plot_effects,
    plot_hold_out,
    plot_learning_curve,
    plot_ndcg_curve,
    plot_reliability,
    plot_roc,
    plot_scree,
    plot_training_sizes,
)
from rankwise.plots.item_plots import (
    plot_comparisons,
    plot_history,
    plot_item_ranking,
    plot_posterior,
    plot_rank_probabilities,
    plot_ratings,
    plot_table,
    plot_win_matrix,
)

__all__ = [
    "COLORS",
    "INK",
    "MARKERS",
    "figure_svg",
    "new_axes",
    "plot_alpha_path",
    "plot_before_after",
    "plot_coefficient_path",
    "plot_coefficients",
    "plot_comparisons",
    "plot_component_errors",
    "plot_contributions",
    "plot_differences_from_best",
    "plot_effects",
    "plot_history",
    "plot_hold_out",
    "plot_importance",
    "plot_item_ranking",
    "plot_learning_curve",
    "plot_ndcg_curve",
    "plot_null",
    "plot_posterior",
    "plot_query_differences",
    "plot_query_values",
    "plot_rank_probabilities",
    "plot_ratings",
    "plot_reliability",
    "plot_roc",
    "plot_scree",
    "plot_table",
    "plot_training_sizes",
    "plot_win_matrix",
    "require_matplotlib",
    "save_figure",
]
