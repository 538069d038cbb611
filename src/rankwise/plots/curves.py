"""Curves against alpha, components, steps or positions, and against a diagonal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.special import stdtrit
from scipy.stats import binomtest

from rankwise.errors import DataError, ParameterError
from rankwise.metric_names import metric_label
from rankwise.parameters import AnyOf, Choice, Flag, Whole, check_value
from rankwise.plots._look import (
    BAND,
    COLORS,
    INK,
    SIZE,
    Curves,
    axes_or_new,
    axis_names,
    band_of_mean,
    by_name,
    check_result,
    checked_curves,
    draw_curve,
    feature_names,
    look,
    name_curves,
    new_axes,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Result = Any  # a HeldOut or LeavePairOut of model_selection, which may import this module
Values = NDArray[np.float64]
NAMES = {
    "error": "held-out triplets in wrong order",
    "density": "density of W",
    "loss": "mean hinge loss",
}
PANEL_LETTERS = 20  # in a line above a small panel
SAMPLES, THRESHOLDS = 500, 1000  # of the bootstrap
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))


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

    An arrow marks a best alpha that is the smallest or the largest: a wider grid may be better.

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
    best = np.nanargmin if better == "lower" else np.nanargmax
    labels = []
    for i, (name, values) in enumerate(curves.items()):
        mean = values.mean(axis=0)
        has_best = mark and not np.isnan(mean).all()
        text = _draw(ax, i, name, alphas, mean, int(best(mean)) if has_best else None)
        labels.append(text if name else "")
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

    An arrow marks a best alpha that is the smallest or the largest: a wider grid may be better.
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
        labels.append(_draw(ax, i, name, result.alphas, values[name], best, spread, band=band))
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
    if len(positive):
        from rankwise.plots._shown import PlainNumbers

        if len(positive) == len(alphas):
            ax.set_xscale("log")
            ax.xaxis.set_minor_formatter(PlainNumbers())
        else:
            ax.set_xscale("symlog", linthresh=positive.min())
        ax.xaxis.set_major_formatter(PlainNumbers())
    ax.set_xlabel("regularization α")
    return ax


def _scores(result: Result, quantity: str | None) -> tuple[str, Values, bool]:
    """The name of the values of a result, the values, and whether lower is better."""
    if hasattr(result, "alphas") and hasattr(result, "auc"):
        if quantity == "auc":
            return "leave-pair-out AUC", result.auc, False
        return "held-out pairs in wrong order", result.error, True
    kinds = "results of leave_pair_out, leave_query_out, k_fold or leave_one_out"
    check_result("plot_hold_out", kinds, result, "alphas", "greater_is_better")
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
    """Draw a curve, its band and the mark of its best alpha; return its label."""
    order = np.argsort(alphas)
    x, y = alphas[order], values[order]
    half = None if spread is None else spread[order]
    draw_curve(ax, i, x, y, name or "values", half if band else None)
    if best is None:
        return name
    color, at = look(i)[0], (alphas[best], values[best])
    text = f"{f'{name}: ' if name else ''}best {_digits(values[best])}"
    if spread is not None and np.isfinite(spread).any():
        text += f" ± {_digits(spread[best])}"
        if not band:
            ax.errorbar(
                *at, spread[best], color=color, lw=1.2, capsize=3, alpha=0.7, zorder=2, label="_bar"
            )
    draw_curve(ax, i, *at, "_best", ms=10, mew=1.8, mfc="none", zorder=4)
    ax.axvline(alphas[best], color=color, lw=1, ls=(0, (2, 3)), alpha=0.6, zorder=1)
    text += f" at α = {alphas[best]:.4g}"
    if len(x) > 1 and alphas[best] in (x[0], x[-1]):
        largest = alphas[best] == x[-1]
        ax.margins(x=0.1)  # room for the arrow
        arrow = {"arrowstyle": "<|-", "color": color, "lw": 1.8, "shrinkA": 7, "shrinkB": 0}
        ax.annotate(
            "", at, (24 if largest else -24, 0), textcoords="offset points", zorder=5,
            arrowprops=arrow,
        )  # fmt: skip
        text += f", the {'largest' if largest else 'smallest'} tried"
    return text


def _digits(value: float) -> str:
    """Three decimals; four digits for large numbers."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}"


def plot_effects(effects: Any, *, top: int = 6) -> Axes:
    """Draw the score along the features with the largest effects, with bands of 95%.

    Curves that share a scale can be compared. Texts are points. Bands are standard errors times a
    quantile of Student's t, as they come from few fits. They do not show how far the regularization
    pulls curves towards 0.

    Parameters
    ----------
    effects : FeatureEffects
        Result of `rankwise.inspection.feature_effects`.
    top : int, default=6
        How many features to show.

    Returns
    -------
    matplotlib Axes
        The first ones; ``ax.figure`` has all.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.inspection import feature_effects
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
    >>> ax = plot_effects(feature_effects(RankRLS(1e-9).fit(X, [0.0, 4.0, 7.0]), X))
    >>> ax.get_title(loc="left"), len(ax.figure.axes)
    ('x0', 2)
    """
    check_value("top", top, Whole(1))
    needed = ("effects", "within_queries")
    check_result("plot_effects", "a result of feature_effects", effects, *needed)
    curves = effects.effects[:top]
    if not curves:
        raise DataError("There is no curve to draw.")
    columns = min(2, len(curves))  # on a phone, three are too small to read
    grid = new_axes(-(-len(curves) // columns), columns=columns, size=(2.6, 2.2))
    for ax in grid[len(curves) :]:
        ax.remove()
    wide = stdtrit(max(1, effects.n_splits - 1), 0.975)  # of Student's t: there are few fits
    for k, (ax, curve) in enumerate(zip(grid, curves, strict=False)):
        half = None if curve.standard_error is None else wide * curve.standard_error
        ax.axhline(0, color=INK, lw=0.8, zorder=1)
        if curve.is_number:
            draw_curve(ax, 0, curve.values, curve.effect, "", half, marker="")
            ax.locator_params(axis="x", nbins=4)
        else:
            places = np.arange(len(curve.values))
            ax.errorbar(
                places, curve.effect, yerr=half, fmt="o", color=COLORS[0], ms=4, capsize=2, zorder=3
            )
            names = axis_names(curve.values)
            ax.set_xticks(places, names, rotation=40, ha="right", fontsize=8)
        (name,) = axis_names([curve.name])
        ax.set_title(fill(name, PANEL_LETTERS), fontsize=10, loc="left", color=INK)
        if k % columns == 0:
            ax.set_ylabel("score")
        if effects.within_queries and curve.is_number:
            ax.set_xlabel("share of the query below", fontsize=9)
    low = min(ax.get_ylim()[0] for ax in grid[: len(curves)])
    high = max(ax.get_ylim()[1] for ax in grid[: len(curves)])
    for ax in grid[: len(curves)]:
        ax.set_ylim(low, high)
    return grid[0]


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
    kinds = 'a KPCRank or KPCR with selection="leading"'
    check_result("plot_scree", kinds, ranker, "n_components")
    if getattr(getattr(ranker, "options", None), "selection", "leading") != "leading":
        raise DataError(f"plot_scree draws {kinds}.")
    from sklearn.utils.validation import check_is_fitted  # slow to import

    check_is_fitted(ranker)
    share = ranker.explained_variance_ratio_
    number = np.arange(1, len(share) + 1)
    ax = axes_or_new(ax)
    curves = {"share of the variance": share, "cumulative": np.cumsum(share)}
    for k, (name, values) in enumerate(curves.items()):
        draw_curve(ax, k, number, values, name, ms=4 if len(share) <= 60 else 0)
    ax.set(yscale=scale, xlabel="component", ylabel="share of the variance")
    if scale == "linear":
        ax.set_ylim(0, 1.02)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    whole_ticks(ax)
    name_curves(
        ax, [f"each component, the first {share[0]:.0%}", f"together, in all {share.sum():.0%}"]
    )
    return ax


def plot_component_errors(errors: Any, *, mark: bool = True, ax: Axes | None = None) -> Axes:
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
    for found in named.values():
        kinds = "results of component_errors"
        check_result("plot_component_errors", kinds, found, "one_se_n_components")
    ax = axes_or_new(ax, size=(SIZE[0], SIZE[1] + 0.2 * (len(named) - 1)))
    labels = []
    for k, (name, found) in enumerate(named.items()):
        y, spread = found.error, found.standard_error if len(named) <= 2 else None
        draw_curve(ax, k, found.n_components, y, name or "error", spread, ms=0)
        text = ""
        if mark:
            best, fewest = found.best_n_components, found.one_se_n_components
            for p, fill in ((best, "none"), (fewest, look(k)[0])):
                draw_curve(ax, k, p, y[p - 1], "_mark", ms=9, mew=1.8, mfc=fill, zorder=4)
            text = f"best {y[best - 1]:.3f} at p = {best}, within one s.e. at p = {fewest}"
            if found.nested_error is not None:
                text += f", nested {found.nested_error:.3f}"
        labels.append(": ".join(filter(None, (name, text))))
    whole_ticks(ax)
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
    kinds = "the result of path(X, y, alphas)"
    check_result("plot_coefficient_path", kinds, path, "alphas", "coefficients")
    ascending = np.argsort(path.alphas)
    alphas, coefs = np.asarray(path.alphas)[ascending], path.coefficients()[ascending]
    labels = feature_names(names, coefs.shape[1], path.template)
    order = np.argsort(-np.abs(coefs).max(axis=0), kind="stable")
    ax = alpha_axes(ax, alphas)
    for j in order[top:]:
        ax.plot(alphas, coefs[:, j], color=INK, lw=1, alpha=0.3, zorder=2)
    shown = order[:top]
    ends = _apart(coefs[0, shown], np.ptp(coefs) * 0.065)
    for i, j in enumerate(shown):
        draw_curve(ax, i, alphas, coefs[:, j], labels[j])
        ax.annotate(
            labels[j], (alphas[0], coefs[0, j]), (-14, ends[i]), color=look(i)[0], fontsize=10,
            ha="right", va="center", textcoords=("offset points", "data"), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": look(i)[0], "lw": 0.8, "shrinkB": 3},
        )  # fmt: skip
    ax.axhline(0, color=INK, lw=1)
    ax.spines["left"].set_visible(False)
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.set_ylabel("coefficient")
    return ax


def _apart(values: NDArray[Any], gap: float) -> NDArray[Any]:
    """Positions near the values, in their order, with at least this gap between them."""
    order = np.argsort(values, kind="stable")
    gaps = gap * np.arange(len(values))
    placed = np.empty(len(values))
    placed[order] = isotonic_regression(values[order] - gaps).x + gaps
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
        kinds = "results of query_learning_curve"
        check_result("plot_training_sizes", kinds, curve, "n_training_queries")
    metrics = {curve.metric for curve in named.values()}
    if len(metrics) > 1:
        raise DataError(
            f"All curves in a plot must have the same metric: got {', '.join(sorted(metrics))}."
        )
    ax = axes_or_new(ax)
    for i, (name, curve) in enumerate(named.items()):
        x, y, spread = curve.n_training_queries, curve.score, curve.standard_error
        draw_curve(ax, i, x, y, name, ms=5)
        ax.errorbar(x, y, spread, color=look(i)[0], fmt="none", elinewidth=1.2, capsize=3, zorder=3)
    whole_ticks(ax)
    ax.set(xlabel="training queries", ylabel=f"held-out {metric_label(metrics.pop())} (± s.e.)")
    name_curves(ax, list(named))
    return ax


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
    kinds = "learning_curve_ of a fitted ranker, or several by name"
    check_result("plot_learning_curve", kinds, curves, "keys")
    named = by_name({"": curves} if "step" in curves else curves)
    points = {name: _points(name, curve, quantity) for name, curve in named.items()}
    ax = axes_or_new(ax)
    for i, (name, (steps, values)) in enumerate(points.items()):
        draw_curve(ax, i, steps, values, name)
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


def plot_ndcg_curve(
    ndcg: Curves,
    *,
    positions: ArrayLike | None = None,
    ylabel: str = "NDCG@k",
    ax: Axes | None = None,
) -> Axes:
    """Draw NDCG, or another metric, against the position in the ranking.

    Parameters
    ----------
    ndcg : array-like, or mapping of str to array-like
        Means of shape (n_positions,), or values per query of shape (n_queries, n_positions),
        such as ``ndcg(y, scores, qid, k=range(1, 11), per_query=True).values``; these get a 95 %
        confidence band around their mean (normal approximation over queries).
    positions : array-like of shape (n_positions,), optional
        The cut-offs k. By default 1, 2, 3, ...
    ylabel : str, default="NDCG@k"
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_ndcg_curve({"RankRLS": [[0.5, 0.6], [0.7, 0.8]], "RLS": [[0.4, 0.5], [0.5, 0.6]]})
    >>> ax.get_lines()[0].get_ydata()
    array([0.6, 0.7])
    """
    n_points = None if positions is None else np.size(positions)
    curves = checked_curves(ndcg, n_points=n_points, what="position")
    n_points = next(iter(curves.values())).shape[1]
    ks = np.arange(1, n_points + 1) if positions is None else np.asarray(positions)
    ax = axes_or_new(ax)
    for i, (name, values) in enumerate(curves.items()):
        n = len(values)
        half = band_of_mean(n) * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else None
        draw_curve(ax, i, ks, values.mean(axis=0), name, half)
    ax.set(xlabel="position k", ylabel=ylabel)
    ax.set_xticks(ks if len(ks) <= 12 else [k for k in ks if k == ks[0] or k % 5 == 0])
    name_curves(ax, list(curves))
    return ax


def plot_roc(
    y: ArrayLike,
    scores: Curves,
    *,
    label: str | None = None,
    interval: bool | Literal["band"] = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the ROC curve of scores: true positive rate against false positive rate.

    Each step lowers the threshold by one row; rows with equal scores make one sloped line. The
    legend shows the area under the curve: the share of (positive, negative) pairs in the right
    order, where ties count half. For held-out scores of a small sample, use
    `rankwise.model_selection.tournament_scores`. O(m log m).

    The interval of the area is DeLong's, of 95%, on the scale of log odds. The band of a curve
    covers, at each false positive rate, the true positive rates of 95% of 500 bootstrap samples of
    the positive and the negative rows. Both treat the scores as fixed: they show how much another
    sample of rows would change the curve, not how much it would change the ranker. Only a single
    curve has a band.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Two different labels, the larger one positive.
    scores : array-like of shape (n_rows,), or mapping of str to such
        Higher for rows that should be positive.
    label : str, optional
        Name of a single curve. To add curves, also of other rows, pass `ax` again.
    interval : bool or "band", default=True
        Whether to show intervals and bands; "band" shows the band without the interval.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_roc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], label="RankRLS")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['RankRLS: AUC 0.750 (0.069 to 0.992)']
    """
    if isinstance(scores, Mapping) and label is not None:
        raise DataError("label is for a single curve: the keys of scores are the labels.")
    named = by_name(scores if label is None else {label: scores})
    check_value("interval", interval, AnyOf(Flag(), Choice("band")))
    counts = {name: _counts(y, values, name) for name, values in named.items()}
    fresh = ax is None
    ax = _unit_square(ax, "false positive rate", "true positive rate")
    first = sum(str(line.get_label())[:1] != "_" for line in ax.get_lines())
    for i, (name, (raised, found)) in enumerate(counts.items(), first):
        false, true = _rates(raised), _rates(found)
        area = f"AUC {np.trapezoid(true, false):.3f}"
        if interval and min(found.sum(), raised.sum()) > 1:
            if interval != "band":
                area += " ({:.3f} to {:.3f})".format(*_delong_interval(raised, found))
            if len(counts) == 1 and not first:
                rates, low, high = _roc_band(raised, found)
                color = COLORS[i % len(COLORS)]
                ax.fill_between(rates, low, high, color=color, alpha=0.14, lw=0, label="_band")
        ax.plot(
            false, true, color=COLORS[i % len(COLORS)], ls=DASHES[i % len(DASHES)], lw=2,
            label=f"{name}: {area}" if name else area, zorder=3, clip_on=False,
            solid_joinstyle="miter", solid_capstyle="butt",
        )  # fmt: skip
    ticks = np.linspace(0, 1, 6)
    ax.set(xticks=ticks, yticks=ticks)
    if fresh:
        ax.grid(axis="both", color=INK, alpha=0.13, lw=0.8)
    drawn = (str(line.get_label()) for line in ax.get_lines())
    name_curves(ax, [text for text in drawn if text[:1] != "_"])
    return ax


def plot_reliability(
    outcome: ArrayLike,
    probability: Curves,
    *,
    n_bins: int = 10,
    data: str = "predictions",
    ax: Axes | None = None,
) -> Axes:
    """Plot the observed frequency of events against their predicted probability.

    Bins hold equally many predictions. Whiskers are 95% Wilson intervals of the observed
    frequency. Probabilities on the diagonal are calibrated. The outcomes must be new to the ranker:
    on its training outcomes, any flexible ranker looks calibrated.

    Parameters
    ----------
    outcome : array-like of shape (n_predictions,)
        True or 1 if the event happened.
    probability : array-like of shape (n_predictions,), or mapping of str to such
        The predicted probabilities.
    n_bins : int, default=10
    data : str, default="predictions"
        What the outcomes are, such as "held-out comparisons". It is shown with their number.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_reliability([0, 0, 1, 1], {"GP": [0.2, 0.4, 0.6, 0.9]}, n_bins=2)
    >>> ax.get_xlabel().splitlines()
    ['predicted probability', '4 predictions, 2 in each bin']
    >>> ax.get_lines()[1].get_ydata()
    array([0., 1.])
    """
    happened = np.asarray(outcome, dtype=np.float64)
    if not np.isin(happened, (0, 1)).all():
        raise DataError("outcome must have True or False, or 1 or 0, for each prediction.")
    check_value("n_bins", n_bins, Whole(1, max(happened.size, 1)))
    curves = {
        name: _probabilities(happened, values, name or "probability")
        for name, values in by_name(probability).items()
    }
    n, sizes = happened.size, {happened.size // n_bins, -(-happened.size // n_bins)}
    each = " or ".join(f"{size:,}" for size in sorted(sizes))
    xlabel = f"predicted probability\n{n:,} {data}, {each} in each bin"
    ax = _unit_square(ax, xlabel, "observed frequency")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))  # whole markers at 0 and 1
    for k, (name, chance) in enumerate(curves.items()):
        bins = np.array_split(np.argsort(chance, kind="stable"), n_bins)
        x = np.array([chance[part].mean() for part in bins])
        share = np.array([happened[part].mean() for part in bins])
        ends = [
            binomtest(int(happened[p].sum()), len(p)).proportion_ci(method="wilson") for p in bins
        ]
        ax.vlines(x, *zip(*ends, strict=True), color=look(k)[0], lw=1.2, alpha=0.6)
        draw_curve(ax, k, x, share, name)
    name_curves(ax, list(curves))
    return ax


def _unit_square(ax: Axes | None, xlabel: str, ylabel: str) -> Axes:
    """Axes from 0 to 1 with a dotted diagonal."""
    ax = axes_or_new(ax, size=(4.6, 4.6))
    if not any(line.get_label() == "_diagonal" for line in ax.get_lines()):
        ax.plot([0, 1], [0, 1], color=INK, lw=1, ls=(0, (2, 3)), alpha=0.6, label="_diagonal")
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return ax


def _counts(y: ArrayLike, scores: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Numbers of negatives and of positives with each score, from the highest score down."""
    labels, values = np.asarray(y), np.asarray(scores, dtype=np.float64)
    whose = name or "scores"
    if values.ndim != 1 or labels.shape != values.shape:
        raise DataError(
            f"A ROC curve needs one score per label: {whose} has shape {values.shape}, "
            f"y has {labels.shape}."
        )
    if not np.isfinite(values).all():
        raise DataError(f"A ROC curve needs finite scores: {whose} has NaN or infinity.")
    levels = np.unique(labels)
    if len(levels) != 2:
        raise DataError(
            f"A ROC curve needs two different labels: y has {len(levels)}. For grades, pass "
            "y >= the least grade that counts as positive."
        )
    thresholds, place = np.unique(-values, return_inverse=True)
    positive = labels == levels[1]
    n = len(thresholds)
    return np.bincount(place[~positive], minlength=n), np.bincount(place[positive], minlength=n)


def _rates(counts: NDArray[Any]) -> NDArray[Any]:
    """Shares of the rows at or above each threshold, the last axis, from 0 to 1."""
    sums = np.cumsum(counts, axis=-1)
    start = np.zeros((*sums.shape[:-1], 1))
    return np.concatenate((start, sums / sums[..., -1:]), axis=-1)


def _delong_interval(raised: NDArray[Any], found: NDArray[Any]) -> tuple[float, float]:
    """DeLong's 95% interval of the area, on the scale of log odds, so that it stays within 0 and 1.

    An area of 1 has a standard error of 0: the lower end is then taken from half a pair in the
    wrong order, and the upper end is 1. Likewise for an area of 0.
    """
    n, p = raised.sum(), found.sum()
    below = n - np.cumsum(raised) + raised / 2  # negatives that a positive of this score beats
    above = np.cumsum(found) - found / 2
    area = float((found * below).sum() / (n * p))
    variance = (found * (below / n - area) ** 2).sum() / (p - 1) / p + (
        raised * (above / p - area) ** 2
    ).sum() / (n - 1) / n
    least = 0.5 / (n * p)
    inner = min(max(area, least), 1 - least)
    error = max(float(np.sqrt(variance)), least) / (inner * (1 - inner))
    odds = np.log(inner / (1 - inner)) + BAND * error * np.array([-1.0, 1.0])
    low, high = 1 / (1 + np.exp(-odds))
    return (0.0 if area == 0 else float(low)), (1.0 if area == 1 else float(high))


def _roc_band(
    raised: NDArray[Any], found: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """False positive rates, and the true positive rates of 95% of the bootstrap samples there."""
    if len(raised) > THRESHOLDS:  # neighbours together: as many lines as a figure can show
        starts = np.linspace(0, len(raised), THRESHOLDS, endpoint=False).astype(int)
        raised, found = np.add.reduceat(raised, starts), np.add.reduceat(found, starts)
    rng = np.random.default_rng(0)  # the same figure each time
    rates = np.linspace(0, 1, 201)
    samples = (
        _rates(rng.multinomial(counts.sum(), counts / counts.sum(), SAMPLES))
        for counts in (raised, found)
    )
    # Where a curve is vertical, its upper end counts, as in a curve of distinct scores.
    steps = 1e-12 * np.arange(len(raised) + 1)
    true = [np.interp(rates + 1e-8, x + steps, y) for x, y in zip(*samples, strict=True)]
    low, high = np.quantile(true, [0.025, 0.975], axis=0)
    return rates, low, high


def _probabilities(happened: NDArray[Any], values: ArrayLike, name: str) -> NDArray[Any]:
    """Predicted probabilities, one per outcome."""
    chance = np.asarray(values, dtype=np.float64)
    if chance.ndim != 1 or chance.shape != happened.shape or not len(chance):
        raise DataError(
            f"{name} needs one entry for each outcome: got shape {chance.shape} for "
            f"{happened.shape}."
        )
    if not ((chance >= 0) & (chance <= 1)).all():
        raise DataError(f"{name} must lie between 0 and 1.")
    return chance
