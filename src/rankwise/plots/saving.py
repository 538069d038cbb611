"""Figures as reproducible files and SVG text."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import ParameterError
from rankwise.files import replacing
from rankwise.plots._look import COLORS, INK, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# No dates and no names of programs: the same figure gives the same bytes.
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
        Whether colours follow the page, so that the figure fits a dark one: text and lines take
        the colour of the surrounding text, curves take the CSS variables ``--series-1`` to
        ``--series-4``, and what is white takes ``--card``, if the page defines them.

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
    """Write a figure to a file, on white; the same figure always gives the same file.

    Parameters
    ----------
    figure : matplotlib Figure
        As in ``ax.figure``.
    path : path-like
        The suffix gives the format: .svg, .png or .pdf.

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

    with matplotlib.rc_context({"svg.hashsalt": "rankwise", "svg.fonttype": "path"}):
        figure.get_figure(root=True).savefig(file, format=kind, metadata=_METADATA[kind], **options)
