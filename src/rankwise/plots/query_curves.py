"""Metrics by position in the ranking, and query by query."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError
from rankwise.metric_labels import metric_label
from rankwise.plots._look import (
    BAND,
    COLORS,
    INK,
    Curves,
    axes_or_new,
    checked_curves,
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

    The band is a 95% interval of the mean. Up to 25 queries have their names on the axis; of more,
    the five with the lowest values are named below it.

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
    """Bars from 0 to values; of many, their outline, as narrow bars and gaps make stripes."""
    if len(ranks) <= MOST_BARS:
        ax.bar(ranks, values, width=0.85, color=color, lw=0, zorder=zorder)
        return
    edges, heights = np.append(ranks - 0.5, ranks[-1] + 0.5), np.append(values, values[-1])
    drawn = ax.fill_between(edges, heights, step="post", color=color, lw=0, zorder=zorder)
    drawn.sticky_edges.y.append(0)  # as those of bars: no margin below 0
