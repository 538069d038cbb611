"""The look that all figures share, the checks of what they draw, and how they are saved."""

from __future__ import annotations

import io
import os
import re
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from rankwise.errors import DataError, MissingExtraError, ParameterError, warn
from rankwise.files import replacing
from rankwise.parameters import Whole, check_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


# From Okabe and Ito's palette, distinct with any colour vision; the markers are distinct in grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#A6578A")
MARKERS = ("o", "s", "^", "D")
INK = "#1D2430"
PAPER = "#FFFFFF"
SIZE = (5.4, 3.6)  # inches: text of 10 points stays readable on a page of 420 pixels
LONGEST_NAME = 28  # characters beside an axis
LEGEND, LEGEND_LINE = 56, 8  # characters beside each other, and in place of a curve's line
BAND = 1.96  # standard deviations on each side of a band of 95%
Curves = Mapping[str, ArrayLike] | ArrayLike


def band_of_mean(n: int) -> float:
    """Standard errors on each side of a band of 95% of a mean of n values, by Student's t.

    Examples
    --------
    >>> round(band_of_mean(5), 2), round(band_of_mean(1000), 2)
    (2.78, 1.96)
    """
    return float(stdtrit(n - 1, 0.975))


def require_matplotlib() -> None:
    """Raise a MissingExtraError if matplotlib is missing, before long work that ends in a figure.

    Examples
    --------
    >>> require_matplotlib()
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error


def new_axes(rows: int = 1, *, columns: int = 1, size: tuple[float, float] = SIZE) -> list[Axes]:
    """Axes in the look of this package, row by row, in a figure that pyplot does not manage.

    A notebook shows the figure if the axes are the value of a cell.

    Parameters
    ----------
    rows, columns : int, default=1
        The grid of axes.
    size : (float, float), default=(5.4, 3.6)
        Width and height of each, in inches.

    Examples
    --------
    >>> left, right = new_axes(columns=2, size=(3.5, 3.0))
    >>> left.figure is right.figure
    True
    """
    require_matplotlib()
    from rankwise.plots._shown import ShownAxes, ShownFigure

    check_value("rows", rows, Whole(1))
    check_value("columns", columns, Whole(1))
    figure = ShownFigure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    kind = {"axes_class": ShownAxes}
    grid = figure.subplots(rows, columns, squeeze=False, subplot_kw=kind)
    made: list[Axes] = grid.ravel().tolist()
    for ax in made:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(INK)
        ax.tick_params(which="both", colors=INK, labelsize=10)
        ax.title.set_color(INK)
        ax.xaxis.label.set(color=INK, size=11, wrap=True)  # in lines that the figure does not cut
        ax.yaxis.label.set(color=INK, size=11, wrap=True)
        ax.grid(axis="y", color=INK, alpha=0.13, lw=0.8)
        ax.set_axisbelow(True)
    return made


def axes_or_new(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """The given Axes, or new ones."""
    require_matplotlib()
    return new_axes(size=size)[0] if ax is None else ax


def by_name(curves: Any) -> dict[str, Any]:
    """Curves by name; a single one has an empty name."""
    named = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    if not named:
        raise DataError("There is no curve to draw: the mapping is empty.")
    return {str(name): curve for name, curve in named.items()}


def checked_curves(
    curves: Curves, *, n_points: int | None = None, what: str = "point"
) -> dict[str, NDArray[np.float64]]:
    """Every curve by its name, as values of shape (n_queries, n_points)."""
    checked = {
        name: np.atleast_2d(np.asarray(values, dtype=np.float64))
        for name, values in by_name(curves).items()
    }
    wanted = next(iter(checked.values())).shape[1] if n_points is None else n_points
    for name, values in checked.items():
        if values.ndim != 2 or values.shape[1] != wanted or not wanted:
            raise DataError(
                f"Each curve must have one value per {what}, here {wanted}: "
                f"{name or 'the curve'} has shape {values.shape}."
            )
    return checked


def check_result(function: str, results: str, found: Any, *attributes: str) -> None:
    """Refuse what is not a result that a plot function draws."""
    if not all(hasattr(found, name) for name in attributes):
        raise DataError(f"{function} draws {results}: got {type(found).__name__}.")


def finite_numbers(name: str, values: Any, what: str, advice: str = "") -> NDArray[np.float64]:
    """One number for each `what`, and at least one."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise DataError(
            f"{name} needs one finite number per {what}, at least one: got shape {found.shape}."
            f"{advice}"
        )
    return found


def look(i: int) -> tuple[str, str]:
    """Colour and marker of curve number i."""
    return COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]


def axis_names(names: Iterable[Any]) -> list[str]:
    """Names beside an axis: long ones lose their middle or, if that is equal, their beginning."""
    labels = [str(name) for name in names]
    alike: dict[str, set[str]] = {}
    for label in labels:
        alike.setdefault(_shortened(label), set()).add(label)
    short = {}
    for name, those in alike.items():
        alike_to = os.path.commonprefix(list(those))  # noqa: RUF071 (characters are meant)
        start = len(re.sub(r"\w*$", "", alike_to))  # whole words
        for label in those:
            short[label] = name if len(those) == 1 else _shortened(f"\u2026{label[start:]}")
    differ = len(set(short.values())) == len(short)
    return [plain(short[label] if differ else label) for label in labels]


def plain(text: str) -> str:
    """A text in which matplotlib takes no dollar sign for the begin of a formula."""
    return re.sub(r"(?<!\\)\$", r"\$", text)


def _shortened(label: str) -> str:
    half = LONGEST_NAME // 2
    return label if len(label) <= LONGEST_NAME else f"{label[:half]}\u2026{label[-half:]}"


def names_of(names: Iterable[Any] | None, n: int, what: str) -> list[str]:
    """A name for each `what`; without names, the numbers from 0."""
    labels = axis_names(range(n) if names is None else names)
    if len(labels) != n:
        raise DataError(f"names needs one entry per {what}: got {len(labels)} for {n}.")
    return labels


def feature_names(names: Sequence[str] | None, n: int, ranker: Any = None) -> list[str]:
    """Names of features: the given names, the ranker's names, or x0, x1, ..."""
    found = getattr(ranker, "feature_names_in_", None) if names is None else names
    return names_of([f"x{j}" for j in range(n)] if found is None else found, n, "feature")


def draw_curve(
    ax: Axes, i: int, x: Any, y: Any, label: str, half: Any = None, **style: Any
) -> None:
    """Draw curve number i, dashed from the fifth on, and a band of `half` above and below it."""
    color, marker = look(i)
    dashes = "-" if i < len(COLORS) else (0, (4, 2))
    looks: dict[str, Any] = {"marker": marker, "ms": 4, "lw": 1.8, "ls": dashes, "zorder": 3}
    ax.plot(x, y, color=color, label=label, **looks | style)
    if half is not None and np.isfinite(half).any():
        ax.fill_between(x, y - half, y + half, color=color, alpha=0.14, lw=0, zorder=2)


def whole_ticks(ax: Axes) -> None:
    """Ticks of the horizontal axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def name_curves(ax: Axes, labels: Sequence[str]) -> None:
    """Add a legend above the plot; none for a single curve without a name."""
    if not any(labels):
        return
    named = [line for line in ax.get_lines() if str(line.get_label())[:1] != "_"]
    widths = [len(label) + LEGEND_LINE for label in labels]
    columns = len(labels) if sum(widths) <= LEGEND else max(1, LEGEND // max(widths))
    ax.legend(
        named[-len(labels):], [_in_lines(label) for label in labels], loc="lower left",
        bbox_to_anchor=(0, 1.0), ncols=columns,
        frameon=False, borderaxespad=0.2, handlelength=2.2, fontsize=10, labelcolor=INK,
    )  # fmt: skip


def _in_lines(label: str) -> str:
    """A label in lines that fit a figure; none breaks at an equals sign."""
    return textwrap.fill(plain(label).replace(" = ", "\xa0=\xa0"), LEGEND).replace("\xa0", " ")


# No dates and no names of programs: the same figure is the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def figure_svg(figure: Figure | SubFigure, *, adapt: bool = True) -> str:
    """A figure as reproducible SVG text, to be placed in an HTML page.

    Parameters
    ----------
    figure : matplotlib Figure
        As in ``ax.figure``.
    adapt : bool, default=True
        Whether colours follow the page, so that the figure suits dark pages: text and lines take
        the colour of the surrounding text, curves take the CSS variables ``--series-1`` to
        ``--series-4``, and white areas take ``--card``, if the page defines them.

    Examples
    --------
    >>> from rankwise.plots import plot_ndcg_curve
    >>> ax = plot_ndcg_curve([0.5, 0.6, 0.65])
    >>> figure_svg(ax.figure).lstrip().startswith("<svg")
    True
    """
    text = io.StringIO()
    _save(figure, text, "svg", transparent=True)
    svg = re.sub(r"^.*?(?=<svg)", "", text.getvalue(), count=1, flags=re.DOTALL)
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    # A style element would reach out of the drawing into the page; attributes do not.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, count=1, flags=re.DOTALL)
    svg = svg.replace("<svg", '<svg stroke-linejoin="round"', 1)
    if adapt:
        svg = re.sub(INK, "currentColor", svg, flags=re.IGNORECASE)
        names = {PAPER: "card"} | {color: f"series-{i}" for i, color in enumerate(COLORS, 1)}
        for color, name in names.items():
            svg = re.sub(color, f"var(--{name}, {color})", svg, flags=re.IGNORECASE)
    return svg


def save_figure(figure: Figure | SubFigure, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file, on white; the same figure always produces the same file.

    Parameters
    ----------
    figure : matplotlib Figure
        As in ``ax.figure``.
    path : path-like
        The suffix determines the format: .svg, .png or .pdf.

    Examples
    --------
    >>> import tempfile
    >>> from rankwise.plots import plot_ndcg_curve
    >>> ax = plot_ndcg_curve([0.5, 0.6, 0.65])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(ax.figure, f"{folder}/curve.png").stat().st_size > 1000
    True
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise ParameterError(
            f"The name of a figure must end with .svg, .png or .pdf: got {path.name!r}."
        )
    with replacing(path) as beside, beside.open("wb") as file:
        _save(figure, file, kind, facecolor="white", dpi=160)
    return path


def _save(figure: Figure | SubFigure, file: Any, kind: str, **options: Any) -> None:
    import matplotlib

    with (
        matplotlib.rc_context({"svg.hashsalt": "rankwise", "svg.fonttype": "path"}),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        figure.get_figure(root=True).savefig(file, format=kind, metadata=_METADATA[kind], **options)
    others = [each for each in caught if not str(each.message).startswith("Glyph ")]
    for each in others:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if len(others) < len(caught):
        warn(
            "Figures show boxes for letters that their font does not have. Choose another in "
            "matplotlib's settings, such as font.family: Noto Sans CJK JP."
        )
