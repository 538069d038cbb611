"""Error, density and loss of a bilinear ranker during its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.parameters import Choice, check_value
from rankwise.plots._look import axes_or_new, by_name, look, name_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {
    "error": "held-out triplets in wrong order",
    "density": "density of W",
    "loss": "mean hinge loss",
}


def plot_learning_curve(
    curves: Mapping[str, Any],
    *,
    quantity: str = "error",
    ylabel: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what a fit recorded during its steps, as in Figure 1 of the bilinear paper.

    Parameters
    ----------
    curves : dict of ndarray, or mapping of str to such
        ``learning_curve_`` or ``refit_curve_`` of a `SparseBilinearRanker`.
    quantity : {"error", "density", "loss"}, default="error"
        What to draw: the share of held-out triplets in the wrong order, the share of weights
        that are not 0, or the mean loss on the training triplets.
    ylabel : str, optional
        By default the name of the quantity.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> curve = {"step": [100, 200], "error": [0.3, 0.2], "density": [0.1, 0.1], "loss": [1, 0.9]}
    >>> ax = plot_learning_curve({"sparse": curve, "dense": curve}, quantity="density")
    >>> ax.get_ylabel(), len(ax.get_lines())
    ('density of W', 2)
    """
    check_value("quantity", quantity, Choice(*NAMES))
    if not isinstance(curves, Mapping):
        raise DataError(
            "plot_learning_curve draws learning_curve_ of a fitted ranker, or several by name: got "
            f"{type(curves).__name__}."
        )
    named = by_name({"": curves} if "step" in curves else curves)
    points = {name: _points(name, curve, quantity) for name, curve in named.items()}
    ax = axes_or_new(ax)
    for i, (name, (steps, values)) in enumerate(points.items()):
        color, marker = look(i)
        style = "-" if i < 4 else (0, (4, 2))  # dashed lines in the same four colours follow
        ax.plot(
            steps, values, color=color, marker=marker, ms=4, lw=1.8, ls=style, label=name, zorder=3
        )
    ax.set(xlabel="steps", ylabel=NAMES[quantity] if ylabel is None else ylabel)
    ax.locator_params(axis="x", nbins=5)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    name_curves(ax, list(points))
    return ax


def _points(name: str, curve: Any, quantity: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Steps and values of a curve."""
    try:
        steps, values = np.asarray(curve["step"]), np.asarray(curve[quantity], dtype=np.float64)
    except (KeyError, TypeError, IndexError):
        raise DataError(
            f"A learning curve must have 'step' and {quantity!r}, like learning_curve_ of a fitted "
            f"ranker: {name or 'this one'} does not."
        ) from None
    name = f"The curve {name}".strip()
    if not len(steps):
        raise DataError(
            f"{name} has no records: partial_fit keeps none, nor does a fit that left W as it was; "
            'structure="identity" has them only with held_out.'
        )
    if len(steps) != len(values):
        raise DataError(f"{name} has {len(steps)} steps and {len(values)} values.")
    if np.isnan(values).all():
        raise DataError(f"{name} has no {quantity}: pass held_out to fit to record it.")
    return steps, values
