"""Figures of results; they need matplotlib, ``pip install 'rankwise[plots]'``.

Every plot function draws on the Axes passed as ``ax``, or on new ones in a figure that pyplot does
not manage, and returns the Axes: ``save_figure(ax.figure, "path.pdf")``. A notebook shows new ones
as the value of a cell. Where a function takes a mapping, it draws one curve for each name.
"""

from rankwise.plots._look import COLORS, INK, MARKERS, new_axes, require_matplotlib
from rankwise.plots.alpha_curves import plot_alpha_path, plot_hold_out
from rankwise.plots.component_curves import plot_component_errors, plot_scree
from rankwise.plots.diagonal_curves import plot_reliability, plot_roc
from rankwise.plots.query_curves import plot_ndcg_curve, plot_query_differences
from rankwise.plots.saving import figure_svg, save_figure
from rankwise.plots.score_intervals import plot_item_ranking, plot_posterior
from rankwise.plots.training_steps import plot_learning_curve

__all__ = [
    "COLORS",
    "INK",
    "MARKERS",
    "figure_svg",
    "new_axes",
    "plot_alpha_path",
    "plot_component_errors",
    "plot_hold_out",
    "plot_item_ranking",
    "plot_learning_curve",
    "plot_ndcg_curve",
    "plot_posterior",
    "plot_query_differences",
    "plot_reliability",
    "plot_roc",
    "plot_scree",
    "require_matplotlib",
    "save_figure",
]
