"""Bars and intervals: features, queries, candidates behind the best, and permuted labels."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError
from rankwise.metric_names import metric_label
from rankwise.parameters import Flag, Whole, check_value
from rankwise.plots._look import (
    BAND,
    COLORS,
    INK,
    PAPER,
    SIZE,
    axes_or_new,
    axis_names,
    band_of_mean,
    check_result,
    feature_names,
    finite_numbers,
    name_curves,
    names_of,
    plain,
    whole_ticks,
)
from rankwise.routing import last_step
from rankwise.tables import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 25  # of queries on the axis
MOST_BARS = 60  # that can be told apart
FEWEST_EQUAL = 6  # equal differences that are clear, as for `PairedDifference.is_clear`


def plot_coefficients(
    ranker: Any, *, names: Sequence[str] | None = None, top: int = 20, ax: Axes | None = None
) -> Axes:
    """Draw the largest coefficients of a linear ranker, with their signs.

    A coefficient is the change of the score for one unit of its feature. To compare coefficients
    of features on different scales, scale the features first.

    Parameters
    ----------
    ranker : estimator or array-like of shape (n_features,)
        A fitted ranker with `coef_`, a pipeline that ends in one, or the coefficients.
    names : sequence of str, optional
        Names of the features. None: the names that the ranker was fitted with, or x0, x1, ...
    top : int, default=20
        How many coefficients to show, by decreasing absolute value.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_coefficients([0.1, -2.0, 1.0], names=["age", "price", "size"], top=2)
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['price', 'size']
    """
    check_value("top", top, Whole(1))
    coef = _coefficients(ranker)
    labels = feature_names(names, len(coef), ranker)
    order = np.argsort(-np.abs(coef), kind="stable")[:top]
    return _bars(ax, coef[order], [labels[k] for k in order], "coefficient", len(coef))


def plot_importance(importance: Any, *, top: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the most important features, with 95% intervals over queries.

    Parameters
    ----------
    importance : PermutationImportance
        Result of `rankwise.model_selection.permutation_importance`.
    top : int, default=20
        How many features to show.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import permutation_importance
    >>> data = make_ranking(n_queries=20, n_features=4, informative=1, random_state=0)
    >>> ranker = RankRLS().fit(data.X, data.y, qid=data.qid)
    >>> result = permutation_importance(ranker, data.X, data.y, qid=data.qid, random_state=0)
    >>> plot_importance(result, top=1).get_xlabel()
    'rise in disagreement without the feature, the 1 largest of 4'
    """
    check_value("top", top, Whole(1))
    needed = ("importance", "standard_error", "names", "metric", "greater_is_better")
    check_result("plot_importance", "a result of permutation_importance", importance, *needed)
    order = np.argsort(-importance.importance, kind="stable")[:top]
    values, spread = importance.importance[order], importance.standard_error[order]
    change = "drop" if importance.greater_is_better else "rise"
    label = f"{change} in {metric_label(importance.metric)} without the feature"
    names = axis_names(importance.names[k] for k in order)
    return _bars(ax, values, names, label, len(importance.importance), spread)


def plot_contributions(explanation: Any, *, top: int = 10, ax: Axes | None = None) -> Axes:
    """Draw why a row is above another: the steps from one score to the other.

    Parameters
    ----------
    explanation : PairExplanation
        Result of `rankwise.inspection.explain`.
    top : int, default=10
        How many features to show; the others are one step.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.inspection import explain
    >>> ranker = RankRLS(1e-9).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [0.0, 4.0, 7.0])
    >>> ax = plot_contributions(explain(ranker, [3.0, 1.0], [1.0, 2.0]))
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['x0', 'x1']
    """
    check_value("top", top, Whole(1))
    needed = ("contributions", "order", "names", "scores", "sentence")
    check_result("plot_contributions", "a result of explain", explanation, *needed)
    order, values = explanation.order, explanation.contributions
    steps, labels = values[order[:top]], [explanation.names[k] for k in order[:top]]
    rest = order[top:]
    if len(rest):
        steps = np.append(steps, values[rest].sum())
        labels.append(plural(len(rest), "other feature"))
    if not len(order):
        raise DataError("There is nothing to draw: no feature makes a difference.")
    ax = axes_or_new(ax, size=(5.4, max(1.9, 0.3 * len(steps) + 1.1)))
    heights, ends = np.arange(len(steps)), explanation.scores[1] + np.cumsum(steps)
    starts = ends - steps
    colors = [COLORS[0] if step >= 0 else COLORS[1] for step in steps]
    ax.barh(heights, steps, left=starts, height=0.66, color=colors, lw=0, zorder=3)
    ax.vlines(ends[:-1], heights[:-1] - 0.33, heights[1:] + 0.33, color=INK, lw=0.8, zorder=4)
    better, worse = explanation.scores  # lines beside the last and the first bar only
    ends_of_lines = [-0.6, heights[-1] - 0.33], [0.33, heights[-1] + 0.4]
    ax.vlines([worse, better], *ends_of_lines, color=INK, lw=1, ls=(0, (4, 2)), zorder=2)
    for height, start, step in zip(heights, starts, steps, strict=True):
        ax.annotate(
            f"{step:+.2g}", (max(start, start + step), height), (4, 0), va="center",
            textcoords="offset points", color=INK, fontsize=9,
        )  # fmt: skip
    ax.set_yticks(heights, names_of(labels, len(labels), "feature"))
    ax.set_ylim(len(steps) - 0.4, -0.6)
    low, high = min(starts.min(), ends.min()), max(starts.max(), ends.max())
    ax.set_xlim(low - 0.06 * (high - low), high + 0.16 * (high - low))
    ax.set_xlabel("score, from worse to better")
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=INK, alpha=0.13, lw=0.8)
    return ax


def _coefficients(ranker: Any) -> NDArray[np.float64]:
    last = last_step(ranker)
    if not hasattr(last, "coef_") and hasattr(last, "fit"):
        raise DataError(
            "plot_coefficients needs a fitted linear ranker with coef_: this "
            f"{type(last).__name__} has none. Fit it first, with the linear kernel; for other "
            "rankers see permutation_importance."
        )
    given = getattr(last, "coef_", ranker)
    if hasattr(given, "toarray"):  # a sparse matrix of a bilinear ranker
        raise DataError(
            "plot_coefficients needs one coefficient per feature: coef_ is a matrix of pairs of "
            "features. See related_features."
        )
    several = " Of several outputs pass one, as in ranker.coef_[:, 0]."
    return finite_numbers("plot_coefficients", given, "feature", several)


def _bars(
    ax: Axes | None,
    values: NDArray[Any],
    labels: Sequence[str],
    xlabel: str,
    n_features: int,
    spread: NDArray[Any] | None = None,
) -> Axes:
    """Horizontal bars from the top down, blue to the right of 0 and red to the left."""
    ax = axes_or_new(ax, size=(5.0, max(1.8, 0.27 * len(values) + 0.9)))
    heights = np.arange(len(values))
    colors = [COLORS[0] if value >= 0 else COLORS[1] for value in values]
    ax.barh(heights, values, height=0.72, color=colors, lw=0, zorder=3)
    if spread is not None and np.isfinite(spread).any():
        ax.errorbar(
            values, heights, xerr=BAND * spread, fmt="none", ecolor=INK, elinewidth=1.3,
            capsize=2.5, zorder=4,
        )  # fmt: skip
    ax.axvline(0, color=INK, lw=1, zorder=4)
    ax.set_yticks(heights, labels)
    more = f", the {len(values)} largest of {n_features:,}" if len(values) < n_features else ""
    ax.set_xlabel(f"{xlabel}{more}")
    ax.locator_params(axis="x", nbins=6)
    ax.set_ylim(len(values) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=INK, alpha=0.13, lw=0.8)
    return ax


def plot_query_differences(
    differences: ArrayLike,
    *,
    names: tuple[str, str] = ("first", "second"),
    metric: str = "NDCG@10",
    ax: Axes | None = None,
) -> Axes:
    """Draw the difference between two rankers on every query, in descending order.

    Parameters
    ----------
    differences : array-like of shape (n_queries,)
        Positive where the first ranker is better.
    names : (str, str), default=("first", "second")
        Names of the two rankers.
    metric : str, default="NDCG@10"
        Name of the metric that was compared.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_query_differences([0.2, -0.1, 0.4], names=("RankRLS", "RLS"))
    >>> [text.get_text() for text in ax.texts]
    ['RankRLS better: 2 queries', 'RLS better: 1 query']
    """
    gaps = np.sort(finite_numbers("differences", differences, "query"))[::-1]
    ax = axes_or_new(ax)
    ranks = np.arange(1, len(gaps) + 1)
    for name, sign, color, above in ((names[0], 1, COLORS[0], 19), (names[1], -1, COLORS[1], 5)):
        better = sign * gaps > 0
        _columns(ax, ranks[better], gaps[better], color, zorder=3)
        text = f"{plain(name)} better: {plural(int(better.sum()), 'query')}"
        ax.annotate(
            text, (0, 1), (0, above), xycoords="axes fraction", textcoords="offset points",
            color=color, weight="bold", fontsize=10,
        )  # fmt: skip
    ax.axhline(0, color=INK, lw=1, zorder=4)
    label = f"difference in {metric_label(metric)}"
    ax.set(xlabel="queries, ordered by difference", ylabel=label, xlim=(0, len(gaps) + 1))
    whole_ticks(ax)
    return ax


def plot_query_values(
    values: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    metric: str = "NDCG@10",
    ax: Axes | None = None,
) -> Axes:
    """Draw the value of a metric on every query, in descending order, with their mean.

    The band is a 95% interval of the mean. Up to 25 queries are named on the axis; with more
    queries, the five with the lowest values are named below it.

    Parameters
    ----------
    values : array-like of shape (n_queries,)
        Such as ``ndcg(y, scores, qid, k=10, per_query=True).values``.
    names : sequence of str, optional
        The queries. None: they have no names.
    metric : str, default="NDCG@10"
        Name of the metric.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_query_values([0.5, 0.9, 0.7], names=["a", "b", "c"])
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['b', 'c', 'a']
    """
    given = finite_numbers("values", values, "query")
    n = len(given)
    labels = [] if names is None else names_of(names, n, "query")
    order = np.argsort(-given, kind="stable")
    ranks = np.arange(1, n + 1)
    ax = axes_or_new(ax)
    _columns(ax, ranks, given[order], COLORS[0], zorder=2)
    mean = given.mean()
    text = f"mean {mean:.3f}"
    if n > 1:
        half = band_of_mean(n) * given.std(ddof=1) / np.sqrt(n)
        ax.axhspan(mean - half, mean + half, color=COLORS[1], alpha=0.25, lw=0, zorder=3)
        text += f", 95% interval {mean - half:.3f} to {mean + half:.3f}"
    ax.axhline(mean, color=COLORS[1], lw=1.8, zorder=4, label=text)
    name_curves(ax, [text])
    label = metric_label(metric)
    ax.set(xlabel=f"{n:,} queries, ordered by {label}", ylabel=label, xlim=(0, n + 1))
    if labels and n <= MOST_NAMES:
        turn = 0 if max(map(len, labels)) * n <= 50 else 90
        ax.set_xticks(ranks, [labels[k] for k in order], rotation=turn)
    elif labels:
        lowest = ", ".join(labels[k] for k in order[:-6:-1])
        ax.set_xlabel(f"{ax.get_xlabel()}\n{textwrap.fill(f'lowest: {lowest}', 52)}")
    return ax


def _columns(ax: Axes, ranks: NDArray[Any], values: NDArray[Any], color: str, zorder: int) -> None:
    """Bars from 0 to values; for many, their outline, since narrow bars and gaps make stripes."""
    if len(ranks) <= MOST_BARS:
        ax.bar(ranks, values, width=0.85, color=color, lw=0, zorder=zorder)
        return
    edges, heights = np.append(ranks - 0.5, ranks[-1] + 0.5), np.append(values, values[-1])
    drawn = ax.fill_between(edges, heights, step="post", color=color, lw=0, zorder=zorder)
    drawn.sticky_edges.y.append(0)  # as for bars: no margin below 0


def plot_differences_from_best(
    values: Mapping[str, ArrayLike],
    *,
    greater_is_better: bool = True,
    metric: str = "score",
    top: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far each candidate is behind the best, with 95% intervals of the differences.

    The differences are paired: the interval of a candidate comes from its differences from the best
    on the same queries. It is usually much shorter than the intervals of the two means, since an
    easy query is easy for both. It is by Student's t. A candidate whose interval reaches 0 may be
    as good as the best; so may one with a single query, or with the same difference on fewer than
    6, which do not show its spread. The best of many candidates is partly best by chance, so that
    the others look slightly worse than they are.

    Parameters
    ----------
    values : mapping of str to array-like of shape (n_queries,)
        The metric of each candidate on the same queries (or folds), in the same order; NaN where it
        is undefined.
    greater_is_better : bool, default=True
        Whether larger values are better.
    metric : str, default="score"
        Name of the metric.
    top : int, default=10
        How many candidates to show.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_differences_from_best({"a": [0.5, 0.6, 0.9], "b": [0.4, 0.6, 0.7]}, metric="MAP")
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['a: 0.667', 'b: 0.567']
    """
    check_value("greater_is_better", greater_is_better, Flag())
    check_value("top", top, Whole(1))
    rows = {str(name): np.ravel(np.asarray(row, dtype=np.float64)) for name, row in values.items()}
    n_queries = max((len(row) for row in rows.values()), default=0)
    if not n_queries:
        raise DataError(
            "values needs one value per query, or split, for each candidate, at least one. A "
            "search has none if it holds out pairs or items: use a number of folds, as in cv=5."
        )
    for name, row in rows.items():
        if len(row) != n_queries:
            raise DataError(
                f"All candidates need values on the same queries, here {n_queries}: {name} has "
                f"{len(row)} values."
            )
    table = np.array(list(rows.values()))
    defined = np.isfinite(table).all(axis=0)
    if not defined.any():
        raise DataError("There is no query on which all candidates have a value.")
    gains = (table if greater_is_better else -table)[:, defined]
    order = np.argsort(-gains.mean(axis=1), kind="stable")[:top]
    behind = gains[order[0]] - gains[order]
    n = behind.shape[1]
    error = behind.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(order))
    names = list(rows)
    labels = [f"{names[k]}: {table[k, defined].mean():.3f}" for k in order]
    return draw_differences(labels, behind.mean(axis=1), error, metric, n, len(names), ax)


def draw_differences(
    labels: Sequence[str],
    mean: NDArray[Any],
    standard_error: NDArray[Any],
    metric: str,
    n_queries: int,
    n_candidates: int,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far candidates are behind the first of them, with 95% intervals."""
    half = np.zeros(len(mean))
    if n_queries > 1:
        half = band_of_mean(n_queries) * standard_error
    ax = axes_or_new(ax, size=(SIZE[0], max(1.9, 0.42 * len(labels) + 1.0)))
    heights = np.arange(len(labels))
    known = (n_queries >= FEWEST_EQUAL) | (half > 1e-9 * abs(mean))
    open_ = (mean - half <= 0) | ~known  # may be as good as the best
    for part, fill in ((open_, PAPER), (~open_, COLORS[0])):
        ax.errorbar(
            -mean[part], heights[part], xerr=half[part], fmt="o", color=COLORS[0], mfc=fill, ms=6,
            mew=1.6, lw=1.6, zorder=3,
        )  # fmt: skip
    ax.axvline(0, color=INK, lw=1, ls=(0, (2, 3)), zorder=1)
    # Names stand above their intervals, in the figure: long ones would leave it no width.
    ax.set_yticks(heights - 0.2, list(map(plain, labels)), ha="left", va="bottom")
    ax.tick_params(axis="y", length=0, pad=-6)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(len(labels) - 0.5, -0.85)
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=INK, alpha=0.13, lw=0.8)
    fewer = len(labels) < n_candidates
    more = f", the best {len(labels)} of {n_candidates:,}" if fewer else ""
    ax.set_xlabel(f"{metric_label(metric)} behind the best, by query{more}")
    ax.xaxis.set_major_formatter(
        lambda value, _: f"{-value:.3g}".replace("-", "\N{MINUS SIGN}") if value else "0"
    )
    return ax


def plot_before_after(labels: ArrayLike, scores: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the rows of a query as they came, and in the order of scores, with a line for each row.

    Thicker lines have higher labels. The labels stand at both ends.

    Parameters
    ----------
    labels, scores : array-like of shape (n_rows,)
        In the order in which the rows came; higher is better.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_before_after([0, 2, 1], [0.1, 0.9, 0.3])
    >>> [text.get_text() for text in ax.texts]  # row 0 falls from the first place to the last
    ['0', '0', '2', '2', '1', '1']
    """
    grades = finite_numbers("labels", labels, "row")
    values = finite_numbers("scores", scores, "row")
    if len(grades) != len(values):
        raise DataError(
            f"Got {len(grades)} labels for {len(values)} scores: give one of each per row."
        )
    n = len(grades)
    after = np.empty(n, dtype=np.intp)
    after[np.argsort(-values, kind="stable")] = np.arange(n)
    ax = axes_or_new(ax, size=(0.8 * SIZE[0], max(1.9, 0.28 * n + 0.7)))
    span = np.ptp(grades) or 1.0
    for row in np.argsort(grades, kind="stable"):
        share = (grades[row] - grades.min()) / span
        line = {"color": COLORS[0], "alpha": 0.25 + 0.75 * share, "lw": 1.2 + 2.0 * share}
        ax.plot([0, 1], [row, after[row]], marker="o", ms=5, zorder=2 + share, **line)
    for row in range(n):
        text = f"{grades[row]:g}".replace("-", "\N{MINUS SIGN}")
        for x, place, side in ((-0.05, row, "right"), (1.05, after[row], "left")):
            ax.text(x, place, text, ha=side, va="center", color=INK, size=9)
    ax.set_xlim(-0.35, 1.35)
    ax.set_ylim(n - 0.5, -0.6)
    ax.set_xticks([0, 1], ["as they came", "ranked"])
    step = 1 if n <= 10 else 5
    ax.set_yticks(range(0, n, step), map(str, range(1, n + 1, step)))
    ax.set_ylabel("place")
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.grid(visible=False)
    return ax


def plot_null(test: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of scores with permuted labels, and the score of the given labels.

    Parameters
    ----------
    test : PermutationTest
        The result of `rankwise.model_selection.permutation_test`.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.model_selection import PermutationTest
    >>> plot_null(PermutationTest(0.9, np.array([0.4, 0.6, 0.5, 0.55]))).get_ylabel()
    'permutations of the labels'
    """
    check_result("plot_null", "a result of permutation_test", test, "null")
    ax = axes_or_new(ax)
    low, high = min(test.null.min(), test.score), max(test.null.max(), test.score)
    margin = 0.03 * (high - low) or 0.01
    bins = np.linspace(low - margin, high + margin, 41).tolist()
    ax.hist(test.null, bins, color=COLORS[0], alpha=0.55)
    given = f"given labels: p = {test.p_value:.3g}"
    ax.axvline(test.score, color=COLORS[1], lw=2, label=given)
    of_pairs = test.metric == "AUC"
    name = "AUC of held-out pairs" if of_pairs else f"{metric_label(test.metric)} of held-out rows"
    ax.set(xlabel=name, ylabel="permutations of the labels")
    name_curves(ax, [given])
    return ax
