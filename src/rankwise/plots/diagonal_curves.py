"""Curves to be read against the diagonal of the unit square: ROC and reliability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError
from rankwise.parameters import Flag, Whole, check_value
from rankwise.plots._look import (
    BAND,
    COLORS,
    INK,
    Curves,
    axes_or_new,
    by_name,
    look,
    name_curves,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAMPLES, THRESHOLDS = 500, 1000  # of the bootstrap
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))


def plot_roc(
    y: ArrayLike,
    scores: Curves,
    *,
    label: str | None = None,
    interval: bool = True,
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
    interval : bool, default=True
        Whether to show intervals and bands.
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
    check_value("interval", interval, Flag())
    counts = {name: _counts(y, values, name) for name, values in named.items()}
    fresh = ax is None
    ax = _unit_square(ax, "false positive rate", "true positive rate")
    first = sum(str(line.get_label())[:1] != "_" for line in ax.get_lines())
    for i, (name, (raised, found)) in enumerate(counts.items(), first):
        false, true = _rates(raised), _rates(found)
        area = f"AUC {np.trapezoid(true, false):.3f}"
        if interval and min(found.sum(), raised.sum()) > 1:
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
        color, marker = look(k)
        bins = np.array_split(np.argsort(chance, kind="stable"), n_bins)
        x = np.array([chance[part].mean() for part in bins])
        share = np.array([happened[part].mean() for part in bins])
        low, high = _wilson(share, np.array([len(part) for part in bins]))
        ax.vlines(x, low, high, color=color, lw=1.2, alpha=0.6)
        ax.plot(x, share, color=color, marker=marker, ms=4.5, lw=1.6, label=name, zorder=3)
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


def _wilson(share: NDArray[Any], n: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The 95% Wilson interval of a share observed in n cases."""
    z2 = BAND**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = BAND * np.sqrt(share * (1 - share) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    return middle - half, middle + half
