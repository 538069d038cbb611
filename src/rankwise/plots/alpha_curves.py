"""Errors and scores against alpha."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError, ParameterError
from rankwise.metric_labels import metric_label
from rankwise.parameters import AnyOf, Choice, check_value
from rankwise.plots._look import (
    SIZE,
    Curves,
    axes_or_new,
    by_name,
    checked_curves,
    look,
    name_curves,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Result = Any  # a HeldOut or LeavePairOut of model_selection, which may import this module
Values = NDArray[np.float64]


def plot_alpha_path(
    alphas: ArrayLike,
    errors: Curves,
    *,
    better: str = "lower",
    ylabel: str = "disagreement error",
    mark: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw an error against alpha, and mark the best alpha of every ranker.

    An arrow says that the best alpha is the smallest or the largest: a wider grid may be better.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,)
        Shown on a logarithmic axis (linear below the smallest positive one, if some are 0).
    errors : array-like of shape (n_alphas,), or mapping of str to such
    better : {"lower", "higher"}, default="lower"
        Which values are better, to find the best alpha.
    ylabel : str, default="disagreement error"
    mark : bool, default=True
        Whether to mark the best alpha.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_alpha_path([0.1, 1, 10], {"RankRLS": [0.3, 0.2, 0.25], "RLS": [0.4, 0.4, 0.3]})
    >>> ax.get_xscale(), ax.get_lines()[0].get_label()
    ('log', 'RankRLS')
    """
    check_value("better", better, Choice("lower", "higher"))
    alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    curves = checked_curves(errors, n_points=len(alphas), what="alpha")
    ax = alpha_axes(ax, alphas)
    labels = []
    for i, (name, values) in enumerate(curves.items()):
        mean = values.mean(axis=0)
        best = int(np.argmin(mean) if better == "lower" else np.argmax(mean))
        text = _draw(ax, i, name, alphas, mean, best if mark else None)
        labels.append(f"{name}: {text}" if name and mark else name)
    ax.set_ylabel(ylabel)
    name_curves(ax, labels)
    return ax


def plot_hold_out(
    results: Result | Mapping[str, Result],
    *,
    quantity: str | None = None,
    ylabel: str | None = None,
    mark: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw held-out scores against alpha, with a band of one standard error.

    An arrow says that the best alpha is the smallest or the largest: a wider grid may be better.
    With more than two results, only the best has a band; each other has a bar at its best alpha.

    Parameters
    ----------
    results : LeavePairOut or HeldOut, or mapping of str to such
        Result of `leave_pair_out`, `leave_query_out`, `k_fold` or `leave_one_out` of
        `rankwise.model_selection`; several must have the same metric. Outputs are averaged, as
        they are for the best alpha.
    quantity : {"error", "auc"}, optional
        What to draw of a LeavePairOut, by default its error. A HeldOut has a single metric.
    ylabel : str, optional
        By default the name of the metric.
    mark : bool, default=True
        Whether to mark the best alpha.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import k_fold
    >>> data = load_dataset("diabetes")
    >>> result = k_fold(RankRLS(), data.X, data.y, alphas=[1.0, 10.0, 100.0])
    >>> plot_hold_out(result).get_ylabel()
    'held-out disagreement (± s.e.)'
    """
    check_value("quantity", quantity, AnyOf(Choice("error", "auc"), None))
    named: dict[str, Result] = by_name(results)
    kinds, values, lower = {}, {}, False
    for name, result in named.items():
        kinds[name], scores, lower = _scores(result, quantity)
        values[name] = _mean(scores, result)
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise DataError(f"All results in a plot must have the same metric: got {listed}.")
    alphas = np.concatenate([result.alphas for result in named.values()])
    ax = alpha_axes(ax, alphas, height=SIZE[1] + 0.2 * (len(named) - 1))
    tops = {name: values[name][result.best_index] for name, result in named.items()}
    best_of_all = (min if lower else max)(tops, key=tops.__getitem__)
    labels = []
    for i, (name, result) in enumerate(named.items()):
        best = result.best_index if mark else None
        band = len(named) <= 2 or name == best_of_all
        spread = _mean(result.standard_error, result)
        text = _draw(ax, i, name, result.alphas, values[name], best, spread, band=band)
        labels.append(": ".join(filter(None, (name, text))))
    if ylabel is None:
        has_band = any(np.isfinite(result.standard_error).any() for result in named.values())
        ylabel = next(iter(kinds.values())) + (" (± s.e.)" if has_band else "")
    ax.set_ylabel(ylabel)
    name_curves(ax, labels)
    return ax


def alpha_axes(ax: Axes | None, alphas: Values, height: float = SIZE[1]) -> Axes:
    """Axes with a horizontal axis for these alphas."""
    ax = axes_or_new(ax, size=(SIZE[0], height))
    positive = alphas[alphas > 0]
    if len(positive) == len(alphas):
        ax.set_xscale("log")
    elif len(positive):
        ax.set_xscale("symlog", linthresh=positive.min())
    ax.set_xlabel("regularization α")
    return ax


def _scores(result: Result, quantity: str | None) -> tuple[str, Values, bool]:
    """The name of the values of a result, the values, and whether lower is better."""
    if hasattr(result, "alphas") and hasattr(result, "auc"):
        if quantity == "auc":
            return "leave-pair-out AUC", result.auc, False
        return "held-out pairs in wrong order", result.error, True
    if not (hasattr(result, "alphas") and hasattr(result, "greater_is_better")):
        raise DataError(
            "plot_hold_out draws results of leave_pair_out, leave_query_out, k_fold or "
            f"leave_one_out: got {type(result).__name__}."
        )
    if quantity is not None:
        raise ParameterError(
            f"quantity is for results of leave_pair_out: this result has only {result.metric}."
        )
    kind = f"held-out {metric_label(result.metric)}"
    return kind, result.score, not result.greater_is_better


def _mean(values: Values, result: Result) -> Values:
    """One value for each alpha."""
    return np.asarray(values.reshape(len(result.alphas), -1).mean(axis=1))


def _draw(
    ax: Axes,
    i: int,
    name: str,
    alphas: Values,
    values: Values,
    best: int | None,
    spread: Values | None = None,
    band: bool = True,
) -> str:
    """Draw a curve, its band and the mark of its best alpha; return a label for the mark."""
    color, marker = look(i)
    order = np.argsort(alphas)
    x, y = alphas[order], values[order]
    ax.plot(x, y, color=color, marker=marker, ms=4, lw=1.8, label=name or "values", zorder=3)
    plus_minus = ""
    if spread is not None and np.isfinite(spread).any():
        half = spread[order]
        if band:
            ax.fill_between(x, y - half, y + half, color=color, alpha=0.09, lw=0, zorder=2)
            for edge in (y - half, y + half):
                ax.plot(x, edge, color=color, lw=0.7, alpha=0.45, zorder=2, label="_edge")
        if best is not None:
            plus_minus = f" ± {_digits(spread[best])}"
            if not band:
                ax.errorbar(
                    alphas[best], values[best], spread[best], color=color, lw=1.2, capsize=3,
                    alpha=0.7, zorder=2, label="_bar",
                )  # fmt: skip
    if best is None:
        return ""
    ax.plot(
        alphas[best], values[best], color=color, marker=marker, ms=10, mew=1.8, mfc="none",
        zorder=4, label="_best",
    )  # fmt: skip
    ax.axvline(alphas[best], color=color, lw=1, ls=(0, (2, 3)), alpha=0.6, zorder=1)
    text = f"best {_digits(values[best])}{plus_minus} at α = {_short(alphas[best])}"
    if len(x) > 1 and alphas[best] in (x[0], x[-1]):
        largest = alphas[best] == x[-1]
        ax.margins(x=0.1)  # room for the arrow
        ax.annotate(
            "", (alphas[best], values[best]), (24 if largest else -24, 0), color=color,
            textcoords="offset points", zorder=5,
            arrowprops={"arrowstyle": "<|-", "color": color, "lw": 1.8, "shrinkA": 7, "shrinkB": 0},
        )  # fmt: skip
        text += f", the {'largest' if largest else 'smallest'} tried"
    return text


def _digits(value: float) -> str:
    """Three decimals; of large numbers four digits."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}"


def _short(alpha: float) -> str:
    """Three digits, without an exponent where that is short."""
    rounded = float(f"{alpha:.3g}")
    if 1e-3 <= alpha < 1e5:
        return np.format_float_positional(rounded, trim="-")
    digits, _, exponent = f"{alpha:.3g}".partition("e")
    return f"{digits}e{int(exponent)}" if exponent else digits
