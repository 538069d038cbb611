"""Plots of items: ratings and scores with intervals, ranks, wins, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, triu
from scipy.sparse.csgraph import connected_components, laplacian
from scipy.stats import rankdata

from rankwise.errors import DataError
from rankwise.parameters import AnyOf, Choice, Whole, check_value
from rankwise.plots._look import (
    BAND,
    COLORS,
    INK,
    MARKERS,
    SIZE,
    axes_or_new,
    axis_names,
    finite_numbers,
    name_curves,
    names_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST = 8.0  # inches of a plot with long names
STRONGEST = 0.5  # opacity of coloured cells: text of a light or dark page can be read on them
MOST_NUMBERS = 12  # items or ranks whose cells have numbers
MOST_LETTERS = 12  # of names that stand at columns, too; longer ones are numbered
MOST_NAMES = 60
# Where a name may stand beside its dot, the best first: to the right or left, above or below.
PLACES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))


def plot_ratings(
    ratings: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    names: Sequence[Any],
    ranks: tuple[ArrayLike, ArrayLike] | None = None,
    group: ArrayLike | None = None,
    top: int | None = None,
    unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Plot ratings with their intervals, from best to worst.

    Parameters
    ----------
    ratings, low, high : array-like of shape (n_items,)
        Ratings, and both ends of their intervals.
    names : sequence of shape (n_items,)
        Names of the items.
    ranks : (array-like, array-like), optional
        The lowest and highest rank of each item, written on the right.
    group : array-like of shape (n_items,), optional
        Numbers of the groups of items that cannot be told apart. A thin line separates groups.
    top : int, optional
        Show only this many of the best items.
    unit : str, optional
        The unit of ratings, written on the axis.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_ratings([0.1, 0.5], [0.0, 0.3], [0.2, 0.7], names=["a", "b"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['b', 'a']
    """
    check_value("top", top, AnyOf(Whole(1), None))
    rating, lower, upper = (np.asarray(v, dtype=np.float64) for v in (ratings, low, high))
    if not (rating.shape == lower.shape == upper.shape == (len(names),) != (0,)):
        raise DataError(
            "Each item needs a name, a score and both ends of its interval, at least one item: "
            f"got {len(names)} names for arrays of shapes {rating.shape}, {lower.shape} and "
            f"{upper.shape}."
        )
    order = np.argsort(-rating, kind="stable")[:top]
    labels = axis_names(names[k] for k in order)
    width = 5.0 + 0.07 * max(max(map(len, labels)) - 16, 0)  # long names take space from the plot
    ax = axes_or_new(ax, size=(min(width, WIDEST), max(2.4, 0.26 * len(order) + 1.0)))
    heights = np.arange(len(order))
    reach = np.maximum(np.array([rating - lower, upper - rating])[:, order], 0.0)
    ax.errorbar(
        rating[order], heights, xerr=reach, fmt="o", color=COLORS[0], ms=4.5, lw=1.4, capsize=0,
        zorder=3,
    )  # fmt: skip
    ax.set_yticks(heights, labels)
    if group is not None:
        numbers = np.asarray(group)[order]
        for height in np.flatnonzero(np.diff(numbers)).tolist():
            ax.axhline(height + 0.5, color=INK, lw=0.8, alpha=0.5, ls=(0, (2, 2)))
    if ranks is not None:
        beside: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "va": "center"}
        beside |= {"color": INK, "fontsize": 10, "annotation_clip": False}
        ax.annotate("rank", (1.02, -0.85), **beside)
        least, most = (np.asarray(end) for end in ranks)
        for height, k in enumerate(order):
            text = f"{least[k]}" if least[k] == most[k] else f"{least[k]}\u2013{most[k]}"
            ax.annotate(text, (1.02, height), **beside)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel(f"rating, {unit}" if unit else "rating")
    return ax


def plot_history(
    times: ArrayLike,
    items: Sequence[Any],
    ratings: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    top: int = 8,
    unit: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Plot ratings over time with bands, for the items that are the best at the end.

    Parameters
    ----------
    times : array-like of shape (n_rows,)
        Dates or numbers.
    items : sequence of shape (n_rows,)
        The item of each row.
    ratings, low, high : array-like of shape (n_rows,)
        Ratings, and both ends of their intervals.
    top : int, default=8
        The number of items, at most 8, which can be told apart.
    unit : str, optional
        The unit of ratings, written on the axis.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_history([1, 2, 1, 2], list("aabb"), [0, 1, 0, -1], [-1, 0, -1, -2], [1, 2, 1, 0])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['a', 'b']
    """
    check_value("top", top, Whole(1))
    when, names = np.asarray(times), np.asarray(items, dtype=object)
    rating, lower, upper = (np.asarray(v, dtype=np.float64) for v in (ratings, low, high))
    if not (when.shape == names.shape == rating.shape == lower.shape == upper.shape != (0,)):
        raise DataError(
            "A history has as many items, ratings and ends of intervals as times, at least one."
        )
    last = {}
    for k in np.argsort(when, kind="stable").tolist():
        last[names[k]] = float(rating[k])
    best = sorted(last, key=lambda name: -last[name])[: min(top, len(COLORS) * 2)]
    labels = axis_names(best)
    ax = axes_or_new(ax, size=(SIZE[0], SIZE[1] + 0.18 * len(best)))
    for number, (name, label) in enumerate(zip(best, labels, strict=True)):
        rows = np.flatnonzero(names == name)
        rows = rows[np.argsort(when[rows], kind="stable")]
        color = COLORS[number % len(COLORS)]
        style = "-" if number < len(COLORS) else "--"
        ax.fill_between(when[rows], lower[rows], upper[rows], color=color, alpha=0.18, lw=0)
        ax.plot(when[rows], rating[rows], style, color=color, lw=1.5, label=label)
    ax.set_xlabel("time")
    ax.set_ylabel(f"rating, {unit}" if unit else "rating")
    name_curves(ax, labels)
    if when.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=7)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        ax.xaxis.get_offset_text().set_color(INK)
    return ax


def plot_win_matrix(
    shares: ArrayLike, *, names: Sequence[Any], top: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw how often the item of each row wins against the item of each column, as a heat map.

    With up to 12 items, cells show percentages. Blue: the item of the row wins more often; red: it
    loses more often; pairs that never met are empty. Columns show numbers instead of long names.

    Parameters
    ----------
    shares : array-like of shape (n_items, n_items)
        Entry (i, j) is the share of battles that item i won against item j, a tie being half a win;
        NaN if they never met.
    names : sequence of shape (n_items,)
        Names of the items, the best first.
    top : int, optional
        Show only this many of the first items.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> nan = float("nan")
    >>> ax = plot_win_matrix([[nan, 0.75], [0.25, nan]], names=["a", "b"])
    >>> [text.get_text() for text in ax.texts]
    ['75', '25']
    """
    check_value("top", top, AnyOf(Whole(1), None))
    cells = np.asarray(shares, dtype=np.float64)
    if cells.shape != (len(names), len(names)) or not cells.size:
        raise DataError(
            f"shares needs a row and a column for each of the {len(names)} names, at least one: "
            f"got shape {cells.shape}."
        )
    cells = cells[:top, :top]
    n = len(cells)
    side = min(SIZE[0], max(3.2, 1.6 + 0.38 * n))
    ax = axes_or_new(ax, size=(side, side - 0.3))
    lead = 2 * (np.nan_to_num(cells, nan=0.5) - 0.5)
    percent = 100 * cells if n <= MOST_NUMBERS else None
    heat_map(ax, STRONGEST * lead.clip(-1, 1), percent)
    labels = axis_names(names[:n])
    if max(map(len, labels), default=0) > MOST_LETTERS:
        labels = [f"{label}  {k}" for k, label in enumerate(labels, 1)]
        places = np.arange(1, n + 1)
        if n > MOST_NUMBERS:
            places = places[(places == 1) | (places % 5 == 0)]
        ax.set_xticks(places - 1, [str(place) for place in places])
    else:
        ax.set_xticks(np.arange(n), labels, rotation=90)
    ax.set_yticks(np.arange(n), labels)
    ax.tick_params(labelsize=min(10, 250 / n))  # names do not overlap
    ax.set_xlabel("against; in percent" if n <= MOST_NUMBERS else "against")
    return ax


def plot_table(
    given: ArrayLike,
    scores: ArrayLike,
    *,
    compare: str = "columns",
    row_names: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a table of given scores beside the held-out scores of a ranker, as heat maps.

    Rows and columns are sorted by their mean held-out score, the best at the top and at the left.
    The stronger the colour, the higher the rank of a cell among the cells that compete with it; a
    good ranker repeats the pattern of the left half in the right half. Missing cells are empty.

    Parameters
    ----------
    given, scores : array-like of shape (n_rows, n_columns)
        NaN for missing cells.
    compare : {"columns", "rows", "all"}, default="columns"
        Which cells compete.
    row_names : sequence of shape (n_rows,), optional
        None: rows have no names.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_table([[1, 2], [3, 5]], [[0.1, 0.3], [0.2, 0.5]], row_names=["a", "b"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['b', 'a']
    """
    check_value("compare", compare, Choice("columns", "rows", "all"))
    tables = [np.asarray(part, dtype=np.float64) for part in (given, scores)]
    n, m = tables[0].shape if tables[0].ndim == 2 else (0, 0)
    if tables[1].shape != (n, m) or not n * m:
        raise DataError(
            "given and scores must be two tables of the same shape: got shapes "
            f"{tables[0].shape} and {tables[1].shape}."
        )
    if row_names is not None and len(row_names) != n:
        raise DataError(f"row_names needs {n} names: got {len(row_names)}.")
    shares = [_rank_shares(part, compare) for part in tables]
    known = np.isfinite(tables[1])
    by_row, by_column = (
        np.argsort(-np.where(known, tables[1], 0.0).sum(axis=k) / np.maximum(known.sum(axis=k), 1))
        for k in (1, 0)
    )
    gap = max(1, m // 20)
    whole = np.full((n, 2 * m + gap), np.nan)
    whole[:, :m], whole[:, m + gap :] = (part[by_row][:, by_column] for part in shares)
    ax = axes_or_new(ax, size=(7.2, min(7.0, max(2.6, 1.2 + 0.16 * n))))
    heat_map(ax, np.nan_to_num(whole), None)
    ax.set_xticks([(m - 1) / 2, m + gap + (m - 1) / 2], ["given", "held out"])
    labels = [] if row_names is None else axis_names(row_names[k] for k in by_row)
    ax.set_yticks(np.arange(len(labels)), labels)
    ax.tick_params(axis="y", labelsize=min(10, 300 / n))
    return ax


def _rank_shares(table: NDArray[Any], compare: str) -> NDArray[Any]:
    """Ranks of cells among those that compete, from 0 to 1; NaN for missing cells."""
    lines = {"columns": table, "rows": table.T, "all": table.reshape(1, -1)}[compare]
    out = np.full(lines.shape, np.nan)
    for k, line in enumerate(lines):
        known = np.isfinite(line)
        ranks = rankdata(line[known])
        out[k, known] = (ranks - 1) / max(len(ranks) - 1, 1)
    return (out.T if compare == "rows" else out).reshape(table.shape)


def heat_map(ax: Axes, shades: NDArray[Any], percent: NDArray[Any] | None) -> None:
    """Draw cells at (column, row) = (0, 0), (1, 0), ... from the top left.

    Shades are from -1 (red) to 1 (blue): more or less opaque, they fit a light and a dark page.
    Cells have whole numbers where `percent` is given and not NaN.
    """
    from matplotlib.colors import to_rgba

    n_rows, n_columns = shades.shape
    colors = np.where(shades[..., None] < 0, to_rgba(COLORS[1]), to_rgba(COLORS[0]))
    colors[..., 3] = abs(shades)
    ax.pcolormesh(
        np.arange(n_columns + 1) - 0.5, np.arange(n_rows + 1) - 0.5, colors, linewidth=0, zorder=1
    )
    written = np.zeros((0, 0)) if percent is None else percent
    for i, j in zip(*np.nonzero(np.isfinite(written)), strict=True):
        ax.text(
            j, i, f"{written[i, j]:.0f}", ha="center", va="center", fontsize=9, color=INK, zorder=2
        )
    ax.grid(visible=False)
    ax.set(xlim=(-0.5, n_columns - 0.5), ylim=(n_rows - 0.5, -0.5))


def plot_comparisons(
    pairs: ArrayLike,
    *,
    scores: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw who was compared with whom: a dot for each item, a line for each compared pair.

    Height is the score; without scores, the share of its comparisons that an item won. Lines are
    wider for pairs that were compared more often. Red dashed lines are surprises: the lower item
    won more often than the higher one. Items that no chain of comparisons connects cannot be
    compared with each other: each connected group has a separate colour and marker, and more than
    one group is named below the figure.

    Parameters
    ----------
    pairs : array-like of shape (n_comparisons, 2)
        Row numbers of the items, the preferred one first, as for `fit_pairs`.
    scores : array-like of shape (n_items,), optional
        Scores of all items, as from `predict`.
    names : sequence of str, optional
        Names of the items. None: their numbers. More than 60 items have no names in the figure.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_comparisons([[0, 1], [1, 2], [0, 2]], names=["a", "b", "c"])
    >>> [text.get_text() for text in ax.texts]
    ['a', 'b', 'c']
    """
    won = np.asarray(pairs)
    if won.ndim != 2 or won.shape[1:] != (2,) or not len(won):
        raise DataError(
            "pairs needs a row for each comparison, with the preferred item first: got shape "
            f"{won.shape}."
        )
    if not np.issubdtype(won.dtype, np.integer) or won.min() < 0:
        raise DataError("pairs must have row numbers of items: integers from 0.")
    known = [] if scores is None else [np.size(scores)]
    known += [] if names is None else [len(names)]
    n = known[0] if known else int(won.max()) + 1
    if any(other != n for other in known) or won.max() >= n:
        raise DataError(
            f"scores and names need one entry per item: got {known} for items 0 to {won.max()}."
        )
    counts = coo_array((np.ones(len(won)), (won[:, 0], won[:, 1])), shape=(n, n)).tocsr()
    used = np.unique(won)
    height = _heights(counts, scores)
    n_groups, group = connected_components(counts[used][:, used], directed=False)
    group_of = dict(zip(used.tolist(), group.tolist(), strict=True))
    across = _across(counts, used, group, height)
    ax = axes_or_new(ax, size=(5.4, 4.4))
    first, second = triu(counts + counts.T, 1, format="csr").nonzero()
    for i, j in zip(first, second, strict=True):
        i_wins, j_wins = counts[i, j], counts[j, i]
        surprise = (i_wins - j_wins) * (height[i] - height[j]) < 0
        ax.plot(
            [across[i], across[j]], [height[i], height[j]], zorder=2,
            lw=min(1.0 + 0.5 * (i_wins + j_wins - 1), 4), color=COLORS[1] if surprise else INK,
            alpha=1.0 if surprise else 0.35, ls=(0, (4, 2)) if surprise else "-",
        )  # fmt: skip
    labels = axis_names(range(n) if names is None else names)
    palette = COLORS[0], COLORS[2], COLORS[3]  # not the colour of surprises
    for k in used.tolist():
        g = group_of[k]
        color, marker = palette[g % len(palette)], MARKERS[g % len(MARKERS)]
        ax.plot(across[k], height[k], color=color, marker=marker, ms=7, zorder=3, ls="none")
    ax.set_xticks([])
    ax.margins(x=0.08)
    if len(used) <= MOST_NAMES:
        _name_items(ax, across[used], height[used], [labels[k] for k in used])
    ax.spines["bottom"].set_visible(False)
    ax.set_ylabel("share of comparisons won" if scores is None else "score")
    if n_groups > 1:
        ax.set_xlabel(f"{n_groups} groups that no comparison connects")
    return ax


def _name_items(ax: Axes, x: NDArray[Any], y: NDArray[Any], names: Sequence[str]) -> None:
    """Write each name beside its dot, where it covers the fewest dots and names written before."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    width, height = 72 / ax.figure.dpi * np.array(ax.bbox.size)  # in points
    dots = np.column_stack(((x - left) / (right - left) * width, (y - low) / (high - low) * height))
    taken = np.hstack((dots - 4, dots + 4))  # boxes in points: left, bottom, right, top
    for i, name in enumerate(names):
        size = np.array([5.6 * len(name), 11.0])  # of text of 9 points
        boxes = []
        for sideways, upwards in PLACES:
            corner = dots[i] + np.array([6 * sideways, 5 * upwards])
            corner += size * (np.array([sideways, upwards]) - 1) / 2
            boxes.append(np.concatenate((corner, corner + size)))
        beyond = [max(0.0, -box[0]) + max(0.0, box[2] - width) for box in boxes]
        best = int(np.argmin([_overlap(taken, box) for box in boxes] + 11 * np.array(beyond)))
        taken = np.vstack((taken, boxes[best]))
        sideways, upwards = PLACES[best]
        ax.annotate(
            name, (x[i], y[i]), (6 * sideways, 5 * upwards), textcoords="offset points", fontsize=9,
            ha={-1: "right", 0: "center", 1: "left"}[sideways],
            va={-1: "top", 0: "center", 1: "bottom"}[upwards], color=INK, zorder=4,
        )  # fmt: skip


def _overlap(boxes: NDArray[Any], box: NDArray[Any]) -> float:
    """The area that boxes share with one of them."""
    shared = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    return float(shared.clip(min=0.0).prod(axis=1).sum())


def _heights(counts: Any, scores: ArrayLike | None) -> NDArray[Any]:
    if scores is None:
        wins, losses = counts.sum(axis=1), counts.sum(axis=0)
        return np.asarray(wins / np.maximum(wins + losses, 1))
    return finite_numbers("scores", scores, "item")


def _across(
    counts: Any, used: NDArray[Any], group: NDArray[Any], height: NDArray[Any]
) -> NDArray[Any]:
    """Horizontal positions: group beside group, and within a group neighbours near each other.

    Within a group, items follow the eigenvector of the Laplacian with the smallest positive
    eigenvalue, after removing the heights, which are shown already.
    """
    across, items_before = np.zeros(len(height)), 0
    for g in range(group.max() + 1):
        items = used[group == g]
        W = np.sign((counts + counts.T)[items][:, items].toarray())
        Q = np.linalg.qr(np.column_stack((np.ones(len(items)), height[items])))[0]
        P = np.eye(len(items)) - Q @ Q.T
        _, vectors = np.linalg.eigh(P @ laplacian(W) @ P + 1e3 * len(items) * (Q @ Q.T))
        across[items[np.argsort(vectors[:, 0], kind="stable")]] = np.arange(len(items))
        across[items] += items_before + g
        items_before += len(items)
    return across


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
    label : str, default="posterior mean"
        Name of the curve.
    ax : matplotlib Axes, optional

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
    score, half = _relative_to_mean(gp, points)
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
    """Plot rows from best to worst, with 95% intervals of their scores and of their ranks.

    Scores and intervals are relative to the mean score, as in `plot_posterior`. The numbers on the
    right are the range of ranks in 95% of 2,000 draws from the posterior. To see whether an order
    is uncertain, compare the ranks: intervals of scores may overlap even if the order is clear.

    Parameters
    ----------
    gp : PairwiseGP
    X : array-like of shape (n_rows, n_features)
    names : sequence of str, optional
        Names of the rows. None: their numbers.
    top : int, optional
        Show only this many of the best rows.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from rankwise import PairwiseGP
    >>> X = [[0.0], [1.0], [2.0]]
    >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[2, 1], [1, 0], [2, 0]])
    >>> ax = plot_item_ranking(gp, X, names=["a", "b", "c"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['c', 'b', 'a']
    """
    score, half = _relative_to_mean(gp, X)
    labels = range(len(score)) if names is None else names
    ranks = rank_intervals(gp.rank_probabilities(X, random_state=0))
    ax = plot_ratings(score, score - half, score + half, names=labels, ranks=ranks, top=top, ax=ax)
    ax.axvline(0, color=INK, lw=1, alpha=0.4)
    ax.set_xlabel("score relative to the mean")
    return ax


def _relative_to_mean(gp: Any, X: ArrayLike) -> tuple[Any, Any]:
    """Scores minus their mean, and half the width of their 95% intervals."""
    mean, std = gp.predict(X, contrast=X, return_std=True)
    return mean, BAND * std


def rank_intervals(probabilities: NDArray[Any], level: float = 0.95) -> tuple[Any, Any]:
    """The lowest and highest rank, from 1, between the outer quantiles of each row."""
    share = np.cumsum(probabilities, axis=1)
    outside = (1 - level) / 2
    # The sums are of many small shares: without the tolerance, rounding could move a quantile.
    low, high = (1 + (share < quantile - 1e-9).sum(axis=1) for quantile in (outside, 1 - outside))
    return low, high


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
    labels = names_of(names, len(share), "row of probabilities")
    order = np.argsort(share @ np.arange(share.shape[1]), kind="stable")[:top]
    cells = share[order, :top]
    n_rows, n_ranks = cells.shape
    size = (min(SIZE[0], max(3.6, 1.6 + 0.46 * n_ranks)), max(2.2, 0.27 * n_rows + 1.0))
    ax = axes_or_new(ax, size=size)
    percent = None
    if n_ranks <= MOST_NUMBERS:
        percent = np.where(cells >= 0.01, 100 * cells, np.nan)
    heat_map(ax, STRONGEST * cells / (cells.max() or 1.0), percent)
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
