"""Figures of results; they need matplotlib, ``pip install 'rankwise[plots]'``.

Every plot function draws on the Axes passed as ``ax``, or on new ones in a figure that pyplot does
not manage, and returns the Axes: ``save_figure(ax.figure, "path.pdf")``.
"""

from rankwise.plots._look import COLORS, INK, MARKERS, new_axes, require_matplotlib
from rankwise.plots.alpha import plot_alpha_path, plot_hold_out
from rankwise.plots.component_curves import plot_component_errors, plot_scree
from rankwise.plots.learning_curve import plot_learning_curve
from rankwise.plots.posterior import plot_item_ranking, plot_posterior, plot_reliability
from rankwise.plots.queries import plot_ndcg_curve, plot_query_differences
from rankwise.plots.roc import plot_roc
from rankwise.plots.saving import figure_svg, save_figure

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
