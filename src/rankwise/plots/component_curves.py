"""The variance of components, and held-out errors for every number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.errors import DataError
from rankwise.parameters import Choice, check_value
from rankwise.plots._look import SIZE, axes_or_new, by_name, look, name_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_scree(ranker: Any, *, scale: str = "linear", ax: Axes | None = None) -> Axes:
    """Draw the share of the variance that each component explains, and the cumulative share.

    Parameters
    ----------
    ranker : KPCRank or KPCR
        Fitted, with selection="leading".
    scale : {"linear", "log"}, default="linear"
        Scale of the vertical axis. "log" shows how small the last shares are.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRank
    >>> X = np.random.default_rng(0).standard_normal((30, 3))
    >>> plot_scree(KPCRank(5).fit(X, X[:, 0])).get_xlabel()
    'component'
    """
    check_value("scale", scale, Choice("linear", "log"))
    if getattr(ranker, "selection", None) != "leading":
        raise DataError(
            'plot_scree draws a KPCRank or KPCR with selection="leading": got '
            f"{type(ranker).__name__}."
        )
    check_is_fitted(ranker)
    share = ranker.explained_variance_ratio_
    number = np.arange(1, len(share) + 1)
    size = 4 if len(share) <= 60 else 0
    ax = axes_or_new(ax)
    from matplotlib.ticker import MaxNLocator

    curves = {"share of the variance": share, "cumulative": np.cumsum(share)}
    for k, (name, values) in enumerate(curves.items()):
        color, marker = look(k)
        ax.plot(number, values, color=color, marker=marker, ms=size, lw=1.6, label=name, zorder=3)
    ax.set(yscale=scale, xlabel="component", ylabel="share of the variance")
    if scale == "linear":
        ax.set_ylim(0, 1.02)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    name_curves(
        ax, [f"each component, the first {share[0]:.0%}", f"together, in all {share.sum():.0%}"]
    )
    return ax


def plot_component_errors(
    errors: Any,
    *,
    mark: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw held-out errors against the number of components, with a band of one standard error.

    Parameters
    ----------
    errors : ComponentErrors, or mapping of str to such
        ``component_errors_`` of a ranker with ``n_components="cv"``, or a result of
        `rankwise.model_selection.component_errors`.
    mark : bool, default=True
        Whether to mark the smallest error, and the fewest components within one standard error.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRank
    >>> from rankwise.model_selection import component_errors
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((60, 3)), np.arange(60) // 6
    >>> found = component_errors(KPCRank(max_components=9), X, X[:, 0], qid=qid)
    >>> plot_component_errors(found).get_ylabel()
    'held-out disagreement error (± s.e.)'
    """
    named = by_name(errors)
    if not all(hasattr(found, "one_se_n_components") for found in named.values()):
        raise DataError(
            "plot_component_errors draws a result of component_errors, or a mapping of names to "
            f"results: got {type(errors).__name__}."
        )
    ax = axes_or_new(ax, size=(SIZE[0], SIZE[1] + 0.2 * (len(named) - 1)))
    labels = []
    for k, (name, found) in enumerate(named.items()):
        color, marker = look(k)
        x, y = found.n_components, found.error
        ax.plot(x, y, color=color, lw=1.8, label=name or "error", zorder=3)
        if np.isfinite(found.standard_error).any() and len(named) <= 2:
            low, high = y - found.standard_error, y + found.standard_error
            ax.fill_between(x, low, high, color=color, alpha=0.09, lw=0, zorder=2)
        text = ""
        if mark:
            best, fewest = found.best_n_components, found.one_se_n_components
            for p, fill in ((best, "none"), (fewest, color)):
                ax.plot(
                    p, y[p - 1], color=color, marker=marker, ms=9, mew=1.8, mfc=fill, zorder=4,
                    label="_mark",
                )  # fmt: skip
            text = f"best {y[best - 1]:.3f} at p = {best}, within one s.e. at p = {fewest}"
            if found.nested_error is not None:
                text += f", nested {found.nested_error:.3f}"
        labels.append(": ".join(filter(None, (name, text))))
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="number of components p", ylabel="held-out disagreement error (± s.e.)")
    name_curves(ax, labels)
    return ax
