"""How a ranker learns: error and density along the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError, ParameterError
from rankwise.plots._look import axes_or_new, look, name_curves

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
    """Draw what was recorded along the steps of a fit, as in Figure 1 of the bilinear paper.

    Parameters
    ----------
    curves : dict of ndarray, or mapping of str to such
        ``learning_curve_`` or ``refit_curve_`` of a `SparseBilinearRanker`; several by name.
    quantity : {"error", "density", "loss"}, default="error"
        What to draw: the share of held-out triplets in wrong order, the share of weights that
        are not 0, or the loss on the triplets learned from.
    ylabel : str, optional
        What the values are. None: in words.
    ax : matplotlib Axes, optional
        Where to draw. None: on new ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> curve = {"step": [100, 200], "error": [0.3, 0.2], "density": [0.1, 0.1], "loss": [1, 0.9]}
    >>> ax = plot_learning_curve({"sparse": curve, "dense": curve}, quantity="density")
    >>> ax.get_ylabel(), len(ax.get_lines())
    ('density of W', 2)
    """
    if quantity not in NAMES:
        raise ParameterError(f"quantity must be one of {', '.join(NAMES)}: got {quantity!r}.")
    if not isinstance(curves, Mapping):
        raise DataError(
            "plot_learning_curve draws learning_curve_ of a fitted ranker, or several by name: got "
            f"{type(curves).__name__}."
        )
    named = {"": curves} if "step" in curves else dict(curves)
    if not named:
        raise DataError("There is no curve to draw: the mapping is empty.")
    points = {name: _points(name, curve, quantity) for name, curve in named.items()}
    ax = axes_or_new(ax)
    for i, (name, (steps, values)) in enumerate(points.items()):
        color, marker = look(i)
        # After the four colours come the same ones with broken lines.
        style = "-" if i < 4 else (0, (4, 2))
        ax.plot(
            steps, values, color=color, marker=marker, ms=4, lw=1.8, ls=style, label=name, zorder=3
        )
    ax.set_xlabel("steps")
    ax.set_ylabel(NAMES[quantity] if ylabel is None else ylabel)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    name_curves(ax, list(points))
    return ax


def _points(name: str, curve: Any, quantity: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Steps and values of a curve."""
    try:
        steps, values = np.asarray(curve["step"]), np.asarray(curve[quantity], dtype=np.float64)
    except (KeyError, TypeError, IndexError):
        raise DataError(
            f"A learning curve has 'step' and {quantity!r}, as learning_curve_ of a fitted ranker "
            f"does: {name or 'this one'} has not."
        ) from None
    if not len(steps):
        raise DataError(
            f"The curve {name or 'given'} has no records: partial_fit keeps none, and the identity "
            "only with held_out."
        )
    if len(steps) != len(values):
        raise DataError(
            f"The curve {name} has {len(steps)} steps and {len(values)} values.".strip()
        )
    if np.isnan(values).all():
        raise DataError(
            f"The curve {name} has no {quantity}: give held_out to fit, to have it recorded."
        )
    return steps, values
