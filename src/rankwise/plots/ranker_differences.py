"""How rankers differ: by position, query by query, from the best, and from chance."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError
from rankwise.metric_names import metric_label
from rankwise.parameters import AnyOf, Flag, Whole, check_value
from rankwise.plots._look import (
    BAND,
    COLORS,
    INK,
    PAPER,
    SIZE,
    STRONGEST,
    Curves,
    axes_or_new,
    axis_names,
    checked_curves,
    heat_map,
    look,
    name_curves,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_NAMES = 25  # of queries on the axis
MOST_BARS = 60  # that can be told apart


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
        color, marker = look(i)
        mean = values.mean(axis=0)
        if len(values) > 1:
            half = BAND * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            ax.fill_between(ks, mean - half, mean + half, color=color, alpha=0.16, lw=0)
        ax.plot(ks, mean, color=color, marker=marker, ms=4.5, lw=1.8, label=name, zorder=3)
    ax.set(xlabel="position k", ylabel=ylabel)
    ax.set_xticks(ks if len(ks) <= 12 else [k for k in ks if k == ks[0] or k % 5 == 0])
    name_curves(ax, list(curves))
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
    gaps = np.sort(np.asarray(differences, dtype=np.float64))[::-1]
    if gaps.ndim != 1 or not len(gaps) or not np.isfinite(gaps).all():
        raise DataError("differences must have one finite number for each query, at least one.")
    ax = axes_or_new(ax)
    from matplotlib.ticker import MaxNLocator

    ranks = np.arange(1, len(gaps) + 1)
    for name, sign, color, above in ((names[0], 1, COLORS[0], 19), (names[1], -1, COLORS[1], 5)):
        better = sign * gaps > 0
        _columns(ax, ranks[better], gaps[better], color, zorder=3)
        text = f"{name} better: {better.sum()} {'query' if better.sum() == 1 else 'queries'}"
        ax.annotate(
            text, (0, 1), (0, above), xycoords="axes fraction", textcoords="offset points",
            color=color, weight="bold", fontsize=10,
        )  # fmt: skip
    ax.axhline(0, color=INK, lw=1, zorder=4)
    label = f"difference in {metric_label(metric)}"
    ax.set(xlabel="queries, ordered by difference", ylabel=label)
    ax.set_xlim(0, len(gaps) + 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
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
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise DataError("values must have one finite number for each query, at least one.")
    n = len(given)
    labels = [] if names is None else [str(name) for name in names]
    if labels and len(labels) != n:
        raise DataError(f"names needs one entry per query: got {len(labels)} for {n} queries.")
    order = np.argsort(-given, kind="stable")
    ranks = np.arange(1, n + 1)
    ax = axes_or_new(ax)
    _columns(ax, ranks, given[order], COLORS[0], zorder=2)
    mean = given.mean()
    text = f"mean {mean:.3f}"
    if n > 1:
        half = BAND * given.std(ddof=1) / np.sqrt(n)
        ax.axhspan(mean - half, mean + half, color=COLORS[1], alpha=0.25, lw=0, zorder=3)
        text += f", 95% interval {mean - half:.3f} to {mean + half:.3f}"
    ax.axhline(mean, color=COLORS[1], lw=1.8, zorder=4, label=text)
    name_curves(ax, [text])
    ax.set_xlim(0, n + 1)
    label = metric_label(metric)
    ax.set(xlabel=f"{n:,} queries, ordered by {label}", ylabel=label)
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
    easy query is easy for both. A candidate whose interval reaches 0 may be as good as the best.
    The best of many candidates is partly best by chance, so that the others look slightly worse
    than they are.

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
        raise DataError("values needs one value per query for each candidate, at least one.")
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
    return draw_differences(labels, behind.mean(axis=1), error, metric, len(names), ax)


def draw_differences(
    labels: Sequence[str],
    mean: NDArray[Any],
    standard_error: NDArray[Any],
    metric: str,
    n_candidates: int,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far candidates are behind the first of them, with 95% intervals."""
    half = BAND * standard_error
    ax = axes_or_new(ax, size=(SIZE[0], max(1.9, 0.42 * len(labels) + 1.0)))
    heights = np.arange(len(labels))
    open_ = mean - half <= 0  # may be as good as the best
    for part, fill in ((open_, PAPER), (~open_, COLORS[0])):
        ax.errorbar(
            -mean[part], heights[part], xerr=half[part], fmt="o", color=COLORS[0], mfc=fill, ms=6,
            mew=1.6, lw=1.6, zorder=3,
        )  # fmt: skip
    ax.axvline(0, color=INK, lw=1, ls=(0, (2, 3)), zorder=1)
    # Names stand above their intervals, in the figure: long ones would leave it no width.
    ax.set_yticks(heights - 0.12, labels, ha="left", va="bottom")
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
    if not hasattr(test, "null"):
        raise DataError(f"plot_null draws a result of permutation_test: got {type(test).__name__}.")
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


MOST_NUMBERS = 12  # ranks that fit into a row of cells with numbers


def plot_rank_probabilities(
    probabilities: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    top: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the probability of every rank of every row as a heat map, the best rows first.

    Rows are ordered by their expected rank. With up to 12 ranks, cells show percentages; cells
    below one percent are empty.

    Parameters
    ----------
    probabilities : array-like of shape (n_rows, n_ranks)
        Entry (i, k) is the probability that row i has rank k, 0 being the best: the result of
        `rank_probabilities` of a `PairwiseGP`.
    names : sequence of str, optional
        Names of the rows. None: their numbers.
    top : int, optional
        Show only this many rows and ranks.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_rank_probabilities([[0.2, 0.8], [0.8, 0.2]], names=["a", "b"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['b', 'a']
    >>> [text.get_text() for text in ax.texts]
    ['80', '20', '20', '80']
    """
    check_value("top", top, AnyOf(Whole(1), None))
    share = np.asarray(probabilities, dtype=np.float64)
    if share.ndim != 2 or not share.size or not ((share >= 0) & (share <= 1)).all():
        raise DataError(
            "probabilities must have a row per item and a column per rank, with values between 0 "
            f"and 1: got shape {share.shape}."
        )
    labels = axis_names(range(len(share)) if names is None else names)
    if len(labels) != len(share):
        raise DataError(
            f"names needs one entry per row of probabilities: got {len(labels)} for {len(share)}."
        )
    order = np.argsort(share @ np.arange(share.shape[1]), kind="stable")[:top]
    cells = share[order, :top]
    n_rows, n_ranks = cells.shape
    size = (min(SIZE[0], max(3.6, 1.6 + 0.46 * n_ranks)), max(2.2, 0.27 * n_rows + 1.0))
    ax = axes_or_new(ax, size=size)
    from matplotlib.colors import to_rgba

    # One colour, more or less opaque: it fits a light and a dark page.
    colors = np.tile(to_rgba(COLORS[0]), (n_rows, n_ranks, 1))
    colors[..., 3] = STRONGEST * cells / (cells.max() or 1.0)
    percent = None
    if n_ranks <= MOST_NUMBERS:
        percent = np.where(cells >= 0.01, 100 * cells, np.nan)
    heat_map(ax, colors, percent)
    ax.set_yticks(np.arange(n_rows), [labels[k] for k in order])
    from matplotlib.ticker import MaxNLocator

    places = MaxNLocator(nbins=12, integer=True, min_n_ticks=1).tick_values(1, n_ranks)
    ranks = [int(rank) for rank in places if 1 <= rank <= n_ranks]
    ax.set_xticks([rank - 1 for rank in ranks], [str(rank) for rank in ranks])
    unit = (
        ", in percent" if n_ranks <= MOST_NUMBERS else ": the stronger the colour, the more likely"
    )
    ax.set_xlabel(f"rank{unit}")
    return ax
