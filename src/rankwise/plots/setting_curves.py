"""Curves against a setting: alpha, the number of components, training queries or steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankwise.errors import DataError, ParameterError
from rankwise.metric_names import metric_label
from rankwise.parameters import AnyOf, Choice, Whole, check_value
from rankwise.plots._look import (
    INK,
    SIZE,
    Curves,
    axes_or_new,
    by_name,
    checked_curves,
    look,
    name_curves,
)
from rankwise.plots.feature_bars import feature_names

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
    With more than two results, only the best has a band; each of the others has a bar at its best
    alpha.

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
    """Three decimals; four digits for large numbers."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}"


def _short(alpha: float) -> str:
    """Three digits, without an exponent where that is short."""
    rounded = float(f"{alpha:.3g}")
    if 1e-3 <= alpha < 1e5:
        return np.format_float_positional(rounded, trim="-")
    digits, _, exponent = f"{alpha:.3g}".partition("e")
    return f"{digits}e{int(exponent)}" if exponent else digits


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
    selection = getattr(getattr(ranker, "options", None), "selection", "leading")
    if not hasattr(ranker, "n_components") or selection != "leading":
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
    >>> from rankwise import ComponentOptions, KPCRank
    >>> from rankwise.model_selection import component_errors
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((60, 3)), np.arange(60) // 6
    >>> options = ComponentOptions(max_components=9)
    >>> found = component_errors(KPCRank(options=options), X, X[:, 0], qid=qid)
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


def plot_coefficient_path(
    path: Any, *, names: Sequence[str] | None = None, top: int = 8, ax: Axes | None = None
) -> Axes:
    """Draw the coefficients of a linear ranker against alpha.

    Parameters
    ----------
    path : RegularizationPath
        Result of `path` of a linear ranker with one output.
    names : sequence of str, optional
        Names of the features. None: the names that the ranker was fitted with, or x0, x1, ...
    top : int, default=8
        How many features have a name and a colour, by decreasing largest absolute coefficient at
        any alpha. The others are grey.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> data = load_dataset("diabetes")
    >>> path = RankRLS().path(data.X, data.y, [0.01, 0.1, 1.0])
    >>> ax = plot_coefficient_path(path, names=data.feature_names, top=2)
    >>> [text.get_text() for text in ax.texts]
    ['s5', 'bmi']
    """
    check_value("top", top, Whole(1))
    alphas, coefs = _coefficients(path)
    labels = feature_names(names, coefs.shape[1], path.template)
    order = np.argsort(-np.abs(coefs).max(axis=0), kind="stable")
    ax = alpha_axes(ax, alphas)
    for j in order[top:]:
        ax.plot(alphas, coefs[:, j], color=INK, lw=1, alpha=0.3, zorder=2)
    shown = order[:top]
    for i, j in enumerate(shown):
        color, marker = look(i)
        style = "-" if i < 4 else (0, (4, 1.5))
        ax.plot(
            alphas, coefs[:, j], color=color, marker=marker, ms=4, lw=1.8, ls=style,
            label=labels[j], zorder=3,
        )  # fmt: skip
    ax.axhline(0, color=INK, lw=1)
    ends = _apart(coefs[0, shown], np.ptp(coefs) * 0.065)
    for i, j in enumerate(shown):
        ax.annotate(
            labels[j], (alphas[0], coefs[0, j]), (-14, ends[i]), color=look(i)[0], fontsize=10,
            ha="right", va="center", textcoords=("offset points", "data"), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": look(i)[0], "lw": 0.8, "shrinkB": 3},
        )  # fmt: skip
    ax.spines["left"].set_visible(False)
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.set_ylabel("coefficient")
    return ax


def _coefficients(path: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ascending alphas, and the coefficients of each."""
    if not (hasattr(path, "alphas") and hasattr(path, "coefficients")):
        raise DataError(
            "plot_coefficient_path draws the result of path(X, y, alphas): got "
            f"{type(path).__name__}."
        )
    order = np.argsort(path.alphas)
    return np.asarray(path.alphas)[order], path.coefficients()[order]


def _apart(values: NDArray[Any], gap: float) -> NDArray[Any]:
    """Positions near the values, in their order, with at least this gap between them."""
    order = np.argsort(values, kind="stable")
    wanted = values[order] - gap * np.arange(len(values))
    # The nearest nondecreasing sequence: pool neighbours that are out of order at their mean.
    pools: list[list[float]] = []
    for value in wanted:
        pools.append([float(value)])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    level = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    placed = np.empty(len(values))
    placed[order] = level + gap * np.arange(len(values))
    return placed


def plot_training_sizes(curves: Any, *, ax: Axes | None = None) -> Axes:
    """Draw held-out scores against the number of training queries, with standard errors.

    If a curve still rises at its end, more queries would help; if it is flat, try other features.

    Parameters
    ----------
    curves : QueryLearningCurve, or mapping of str to such
        Results of `rankwise.model_selection.query_learning_curve`; several must have the same
        metric.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import query_learning_curve
    >>> data = make_ranking(n_queries=20, rows_per_query=5, random_state=0)
    >>> curve = query_learning_curve(RankRLS(1.0), data.X, data.y, qid=data.qid, random_state=0)
    >>> plot_training_sizes(curve).get_xlabel()
    'training queries'
    """
    named = by_name(curves)
    for curve in named.values():
        if not hasattr(curve, "n_training_queries"):
            raise DataError(
                "plot_training_sizes draws results of query_learning_curve: got "
                f"{type(curve).__name__}."
            )
    metrics = {curve.metric for curve in named.values()}
    if len(metrics) > 1:
        raise DataError(
            f"All curves in a plot must have the same metric: got {', '.join(sorted(metrics))}."
        )
    ax = axes_or_new(ax)
    for i, (name, curve) in enumerate(named.items()):
        color, marker = look(i)
        ax.errorbar(
            curve.n_training_queries, curve.score, curve.standard_error, color=color,
            marker=marker, ms=5, lw=1.8, elinewidth=1.2, capsize=3, label=f"_{name}", zorder=3,
        )  # fmt: skip
        ax.plot([], [], color=color, marker=marker, ms=5, lw=1.8, label=name)
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="training queries", ylabel=f"held-out {metric_label(metrics.pop())} (± s.e.)")
    name_curves(ax, list(named))
    return ax


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
