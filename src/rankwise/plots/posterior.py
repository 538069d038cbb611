"""Plots of scores with their uncertainty, and of the reliability of probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rankwise.errors import DataError, ParameterError
from rankwise.plots._look import COLORS, INK, Curves, axes_or_new, look, name_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND = 1.96  # standard deviations on each side of a band of 95%


def plot_posterior(
    gp: Any,
    X: ArrayLike,
    *,
    offset: float = 0.0,
    label: str = "posterior mean",
    ax: Axes | None = None,
) -> Axes:
    """Plot the scores of a `PairwiseGP` as a function of one feature, with a 95% band.

    Scores and band are relative to the mean over these points, which comparisons do not
    determine. O(n_points^2) memory.

    Parameters
    ----------
    gp : PairwiseGP
        Fitted to rows of one feature.
    X : array-like of shape (n_points, 1)
        Where to evaluate the scores, in any order.
    offset : float, default=0.0
        Added to the scores.
    label : str
        Name of the curve.
    ax : matplotlib Axes, optional
        None: new axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PairwiseGP
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[15, 3], [12, 5]])
    >>> ax = plot_posterior(gp, X)
    >>> len(ax.get_lines()[0].get_xdata())
    20
    """
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 1:
        raise DataError(f"The plot needs X with one feature: got shape {points.shape}.")
    points = points[np.argsort(points[:, 0], kind="stable")]
    score, half = _about_the_mean(gp, points)
    score, x = score + offset, points[:, 0]
    ax = axes_or_new(ax)
    ax.fill_between(x, score - half, score + half, color=COLORS[0], alpha=0.16, lw=0)
    ax.plot(x, score, color=COLORS[0], lw=1.8, label=label, zorder=3)
    ax.set(xlabel="x", ylabel="score")
    return ax


def plot_item_ranking(
    gp: Any,
    X: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    top: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot rows from best to worst, each score with its 95% interval.

    Scores and intervals are relative to the mean score, which comparisons do not determine.

    Parameters
    ----------
    gp : PairwiseGP
    X : array-like of shape (n_rows, n_features)
    names : sequence of str, optional
        Names of the rows. None: their numbers.
    top : int, optional
        Show only this many of the best rows.
    ax : matplotlib Axes, optional
        None: new axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rankwise import PairwiseGP
    >>> X = [[0.0], [1.0], [2.0]]
    >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[2, 1], [1, 0], [2, 0]])
    >>> ax = plot_item_ranking(gp, X, names=["a", "b", "c"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['c', 'b', 'a']
    """
    score, half = _about_the_mean(gp, X)
    n = len(score)
    labels = [str(k) for k in range(n)] if names is None else [str(name) for name in names]
    if len(labels) != n:
        raise DataError(f"names needs one entry per row of X: got {len(labels)} for {n} rows.")
    if top is not None and not top >= 1:
        raise ParameterError(f"top must be at least 1: got {top!r}.")
    order = np.argsort(-score, kind="stable")[:top]
    ax = axes_or_new(ax, size=(6.4, max(2.4, 0.26 * len(order) + 1.0)))
    places = np.arange(len(order))
    ax.errorbar(
        score[order], places, xerr=half[order], fmt="o", color=COLORS[0], ms=4.5, lw=1.4,
        capsize=0, zorder=3,
    )  # fmt: skip
    ax.axvline(0, color=INK, lw=1, alpha=0.4)
    ax.set_yticks(places, [labels[k] for k in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlabel("score relative to the mean")
    return ax


def plot_reliability(
    outcome: ArrayLike, probability: Curves, *, n_bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Plot the observed frequency of events against their predicted probability.

    Bins hold equally many predictions. Whiskers are 95% Wilson intervals of the observed
    frequency. Probabilities on the diagonal are calibrated.

    Parameters
    ----------
    outcome : array-like of shape (n_predictions,)
        True or 1 if the event happened.
    probability : array-like of shape (n_predictions,), or mapping of str to such
        Predictions: one curve, or one for each model by name.
    n_bins : int, default=10
    ax : matplotlib Axes, optional
        None: new axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_reliability([0, 0, 1, 1], {"GP": [0.2, 0.4, 0.6, 0.9]}, n_bins=2)
    >>> ax.get_lines()[1].get_ydata()
    array([0., 1.])
    """
    named = dict(probability) if isinstance(probability, Mapping) else {"": probability}
    happened = np.asarray(outcome, dtype=np.float64)
    if not isinstance(n_bins, (int, np.integer)) or not 1 <= n_bins <= max(len(happened), 1):
        raise ParameterError(
            f"n_bins must be from 1 to the number of predictions, {len(happened)}: got {n_bins!r}."
        )
    curves = {}
    for name, values in named.items():
        chance = np.asarray(values, dtype=np.float64)
        if chance.ndim != 1 or chance.shape != happened.shape or not len(chance):
            raise DataError(
                f"{name or 'probability'} needs one entry for each outcome: got shape "
                f"{chance.shape} for {happened.shape}."
            )
        if not ((chance >= 0) & (chance <= 1)).all():
            raise DataError(f"{name or 'probability'} must lie between 0 and 1.")
        curves[str(name)] = chance
    ax = axes_or_new(ax, size=(4.6, 4.6))
    ax.plot([0, 1], [0, 1], color=INK, lw=1, ls=(0, (2, 3)), alpha=0.6, label="_ideal")
    for k, (name, chance) in enumerate(curves.items()):
        color, marker = look(k)
        bins = np.array_split(np.argsort(chance, kind="stable"), n_bins)
        x = np.array([chance[part].mean() for part in bins])
        share = np.array([happened[part].mean() for part in bins])
        low, high = _wilson(share, np.array([len(part) for part in bins]))
        ax.vlines(x, low, high, color=color, lw=1.2, alpha=0.6)
        ax.plot(x, share, color=color, marker=marker, ms=4.5, lw=1.6, label=name, zorder=3)
    ax.set(xlabel="predicted probability", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1))
    ax.set_aspect("equal")
    name_curves(ax, list(curves))
    return ax


def _about_the_mean(gp: Any, X: ArrayLike) -> tuple[Any, Any]:
    """Scores minus their mean, and half the width of their 95% intervals."""
    mean, cov = gp.predict(X, return_cov=True)
    spread = np.diagonal(cov) - 2.0 * cov.mean(axis=0) + cov.mean()
    return mean - mean.mean(), BAND * np.sqrt(np.maximum(spread, 0.0))


def _wilson(share: Any, n: Any) -> tuple[Any, Any]:
    """The 95% Wilson interval of a share observed in n cases."""
    z2 = BAND**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = BAND * np.sqrt(share * (1 - share) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    return middle - half, middle + half
