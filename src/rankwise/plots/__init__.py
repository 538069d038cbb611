"""Figures of results; they need matplotlib, ``pip install 'rankwise[plots]'``.

Every plot function draws on the Axes passed as ``ax``, or on new ones in a figure that pyplot does
not manage, and returns the Axes: ``save_figure(ax.figure, "path.pdf")``. A notebook shows new ones
as the value of a cell. Where a function takes a mapping, it draws one curve for each name.
"""

from rankwise.plots._look import COLORS, INK, MARKERS, new_axes, require_matplotlib
from rankwise.plots.alpha_curves import plot_alpha_path, plot_hold_out
from rankwise.plots.candidate_differences import plot_differences_from_best
from rankwise.plots.coefficient_paths import plot_coefficient_path
from rankwise.plots.comparison_network import plot_comparisons
from rankwise.plots.component_curves import plot_component_errors, plot_scree
from rankwise.plots.diagonal_curves import plot_reliability, plot_roc
from rankwise.plots.feature_bars import plot_coefficients, plot_importance
from rankwise.plots.leaderboard_plots import plot_ratings, plot_win_matrix
from rankwise.plots.null_histogram import plot_null
from rankwise.plots.query_curves import (
    plot_ndcg_curve,
    plot_query_differences,
    plot_query_values,
)
from rankwise.plots.rank_heat_map import plot_rank_probabilities
from rankwise.plots.saving import figure_svg, save_figure
from rankwise.plots.score_intervals import plot_item_ranking, plot_posterior
from rankwise.plots.training_sizes import plot_training_sizes
from rankwise.plots.training_steps import plot_learning_curve

__all__ = [
    "COLORS",
    "INK",
    "MARKERS",
    "figure_svg",
    "new_axes",
    "plot_alpha_path",
    "plot_coefficient_path",
    "plot_coefficients",
    "plot_comparisons",
    "plot_component_errors",
    "plot_differences_from_best",
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
    "plot_training_sizes",
    "plot_win_matrix",
    "require_matplotlib",
    "save_figure",
]
