"""Figures of results; needs matplotlib, ``pip install 'rankwise[plots]'``.

Every function draws on the Axes that it is given, or on new ones of a figure of its own that no
global state knows of, and returns them: ``ax.figure.savefig("path.pdf")``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.errors import DataError, MissingExtraError, ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Okabe and Ito's, told apart with any kind of colour vision; shapes tell them apart in grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#A6578A")
MARKERS = ("o", "s", "^", "D")
INK = "#1D2430"
Curves = Mapping[str, ArrayLike] | ArrayLike


def plot_alpha_path(
    alphas: ArrayLike,
    errors: Curves,
    *,
    better: str = "lower",
    ylabel: str = "disagreement error",
    mark: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw how an error changes with alpha, and mark the best alpha of every ranker.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,)
        Shown on a logarithmic axis (linear below the smallest positive one, if some are 0).
    errors : array-like of shape (n_alphas,), or mapping of str to such
        One curve, or one for every ranker by name.
    better : {"lower", "higher"}, default="lower"
        Which values are better, so which alpha is marked.
    ylabel : str
        What the values are.
    mark : bool, default=True
        Whether to mark the best alpha.
    ax : matplotlib Axes, optional
        Where to draw. None: on new ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_alpha_path([0.1, 1, 10], {"RankRLS": [0.3, 0.2, 0.25], "RLS": [0.4, 0.4, 0.3]})
    >>> [line.get_label() for line in ax.get_lines() if str(line.get_label())[:1] != "_"]
    ['RankRLS', 'RLS']
    >>> ax.get_xscale()
    'log'
    """
    if better not in ("lower", "higher"):
        raise ParameterError(f"better must be 'lower' or 'higher': got {better!r}.")
    alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    curves = _curves(errors, n_points=len(alphas), what="alpha")
    ax = _axes(ax)
    order = np.argsort(alphas)
    positive = alphas[alphas > 0]
    if len(positive) == len(alphas):
        ax.set_xscale("log")
    elif len(positive):
        ax.set_xscale("symlog", linthresh=positive.min())
    labels = []
    for i, (name, values) in enumerate(curves.items()):
        mean = values.mean(axis=0)
        color, marker = _look(i)
        labels.append(name)
        ax.plot(
            alphas[order], mean[order], color=color, marker=marker, ms=4, lw=1.8, label=name,
            zorder=3,
        )  # fmt: skip
        if mark:
            best = int(np.argmin(mean) if better == "lower" else np.argmax(mean))
            ax.plot(
                alphas[best], mean[best], color=color, marker=marker, ms=10, mew=1.8, mfc="none",
                zorder=4, label="_best",
            )  # fmt: skip
            ax.axvline(alphas[best], color=color, lw=1, ls=(0, (2, 3)), alpha=0.6, zorder=1)
            labels[i] += f": best {mean[best]:.3f} at α = {_short(alphas[best])}" if name else ""
    ax.set_xlabel("regularization α")
    ax.set_ylabel(ylabel)
    _name_curves(ax, labels)
    return ax


def plot_ndcg_curve(
    ndcg: Curves,
    *,
    positions: ArrayLike | None = None,
    ylabel: str = "NDCG@k",
    ax: Axes | None = None,
) -> Axes:
    """Draw NDCG, or another metric, down the ranking.

    Parameters
    ----------
    ndcg : array-like, or mapping of str to array-like
        Means of shape (n_positions,), or values per query of shape (n_queries, n_positions),
        such as ``ndcg(y, scores, qid, k=range(1, 11), per_query=True).values``, which get a band
        of 95 % confidence around their mean (normal approximation over queries). One such, or
        one for every ranker by name.
    positions : array-like of shape (n_positions,), optional
        The cut-offs k. None: 1, 2, 3, ...
    ylabel : str
        What the values are.
    ax : matplotlib Axes, optional
        Where to draw. None: on new ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_ndcg_curve({"RankRLS": [[0.5, 0.6], [0.7, 0.8]], "RLS": [[0.4, 0.5], [0.5, 0.6]]})
    >>> ax.get_lines()[0].get_ydata()
    array([0.6, 0.7])
    """
    curves = _curves(ndcg)
    n_points = next(iter(curves.values())).shape[1]
    ks = np.arange(1, n_points + 1) if positions is None else np.asarray(positions)
    curves = _curves(curves, n_points=len(ks), what="position")
    ax = _axes(ax)
    for i, (name, values) in enumerate(curves.items()):
        color, marker = _look(i)
        mean = values.mean(axis=0)
        if len(values) > 1:
            half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
            ax.fill_between(ks, mean - half, mean + half, color=color, alpha=0.16, lw=0)
        ax.plot(ks, mean, color=color, marker=marker, ms=4.5, lw=1.8, label=name, zorder=3)
    ax.set_xlabel("position k")
    ax.set_ylabel(ylabel)
    ax.set_xticks(ks if len(ks) <= 12 else [k for k in ks if k == ks[0] or k % 5 == 0])
    _name_curves(ax, list(curves))
    return ax


def plot_query_differences(
    differences: ArrayLike,
    *,
    names: tuple[str, str] = ("first", "second"),
    metric: str = "NDCG@10",
    ax: Axes | None = None,
) -> Axes:
    """Draw by how much one ranker beats another on every query, from its best to its worst.

    Parameters
    ----------
    differences : array-like of shape (n_queries,)
        Positive where the first ranker is better.
    names : (str, str)
        Names of the two rankers.
    metric : str
        What was compared.
    ax : matplotlib Axes, optional
        Where to draw. None: on new ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> ax = plot_query_differences([0.2, -0.1, 0.4], names=("RankRLS", "RLS"))
    >>> [text.get_text() for text in ax.texts]
    ['RankRLS better: 2 queries', 'RLS better: 1 query']
    """
    gaps = np.sort(np.asarray(differences, dtype=np.float64))[::-1]
    if gaps.ndim != 1 or not len(gaps) or not np.isfinite(gaps).all():
        raise DataError("differences needs one finite number per query, and at least one query.")
    ax = _axes(ax)
    from matplotlib.ticker import MaxNLocator

    ranks = np.arange(1, len(gaps) + 1)
    for sign, color in ((1, COLORS[0]), (-1, COLORS[1])):
        chosen = sign * gaps > 0
        ax.bar(ranks[chosen], gaps[chosen], width=0.85, color=color, lw=0, zorder=3)
    ax.axhline(0, color=INK, lw=1, zorder=4)
    ax.set_xlabel("queries, ordered by difference")
    ax.set_ylabel(f"difference in {metric}")
    ax.set_xlim(0, len(gaps) + 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for name, count, color, y, where in (
        (names[0], int((gaps > 0).sum()), COLORS[0], 0.94, "top"),
        (names[1], int((gaps < 0).sum()), COLORS[1], 0.06, "bottom"),
    ):
        text = f"{name} better: {count} {'query' if count == 1 else 'queries'}"
        x, side = (0.98, "right") if where == "top" else (0.02, "left")
        ax.text(
            x, y, text, color=color, weight="bold", ha=side, va=where, transform=ax.transAxes
        )  # fmt: skip
    return ax


def figure_svg(figure: Figure | SubFigure, *, adapt: bool = True) -> str:
    """A figure as SVG text that is the same every time, to stand inside an HTML page.

    Parameters
    ----------
    figure : matplotlib Figure
        As in ``ax.figure``.
    adapt : bool, default=True
        Let the colours of this module follow the page, so that the figure fits a dark one:
        text and lines take the colour of the text around them, and curves take the CSS
        variables ``--series-1`` to ``--series-4``, where the page has any.

    Returns
    -------
    str

    Examples
    --------
    >>> ax = plot_ndcg_curve([0.5, 0.6, 0.65])
    >>> figure_svg(ax.figure).lstrip().startswith("<svg")
    True
    """
    import matplotlib

    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": "rankwise", "svg.fonttype": "path"}):
        figure.get_figure(root=True).savefig(text, format="svg", transparent=True, metadata=nothing)
    svg = re.sub(r"^.*?(?=<svg)", "", text.getvalue(), count=1, flags=re.DOTALL)
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    # A style element would reach out of the drawing into the page; attributes do not.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, count=1, flags=re.DOTALL)
    svg = svg.replace("<svg", '<svg stroke-linejoin="round"', 1)
    if adapt:
        svg = re.sub(INK, "currentColor", svg, flags=re.IGNORECASE)
        for i, color in enumerate(COLORS, 1):
            svg = re.sub(color, f"var(--series-{i}, {color})", svg, flags=re.IGNORECASE)
    return svg


def require_matplotlib() -> None:
    """Say now that matplotlib is missing, before long work whose end would need it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error


def _axes(ax: Axes | None) -> Axes:
    """The given Axes, or new ones in the look of this module."""
    require_matplotlib()
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    ax = Figure(figsize=(7.2, 3.7), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)
    ax.tick_params(which="both", colors=INK, labelsize=10)
    ax.xaxis.label.set(color=INK, size=11)
    ax.yaxis.label.set(color=INK, size=11)
    ax.grid(axis="y", color=INK, alpha=0.13, lw=0.8)
    ax.set_axisbelow(True)
    return ax


def _curves(
    curves: Curves, *, n_points: int | None = None, what: str = "point"
) -> dict[str, NDArray[np.float64]]:
    """Every curve as values of shape (n_queries, n_points), under its name."""
    named = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    if not named:
        raise DataError("There is no curve to draw: the mapping is empty.")
    checked = {
        str(name): np.atleast_2d(np.asarray(values, dtype=np.float64))
        for name, values in named.items()
    }
    for name, values in checked.items():
        wanted = next(iter(checked.values())).shape[1] if n_points is None else n_points
        if values.ndim != 2 or values.shape[1] != wanted or not wanted:
            raise DataError(
                f"Each curve needs one value per {what}, here {wanted}: "
                f"{name or 'the curve'} has shape {np.shape(named[name])}."
            )
    return checked


def _short(alpha: float) -> str:
    """Three digits, without an exponent where that is as short."""
    rounded = float(f"{alpha:.3g}")
    return np.format_float_positional(rounded, trim="-") if 1e-3 <= alpha < 1e5 else f"{alpha:.2e}"


def _look(i: int) -> tuple[str, str]:
    return COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]


def _name_curves(ax: Axes, labels: Sequence[str]) -> None:
    """A legend above the plot, where it covers nothing; none for a single nameless curve."""
    if not any(labels):
        return
    named = [line for line in ax.get_lines() if str(line.get_label())[:1] != "_"]
    legend = ax.legend(
        named[-len(labels):], labels, loc="lower left", bbox_to_anchor=(0, 1.0),
        ncols=len(labels) if len("".join(labels)) < 60 else 1, frameon=False,
        borderaxespad=0.2, handlelength=2.2, fontsize=10,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_color(INK)
