"""Axes and figures that a notebook shows, and their numbers; importing this needs matplotlib."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

DOTS = 2  # in a line of a pixel: sharp on dense screens


class ShownFigure(Figure):
    """A figure that shows itself as the value of a notebook cell."""

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        """The figure on white, so that it can also be read on dark pages."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=DOTS * self.dpi, facecolor="white")
        width, height = (round(inches * self.dpi) for inches in self.get_size_inches())
        return file.getvalue(), {"width": width, "height": height}


class ShownAxes(Axes):
    """Axes that show their whole figure as the value of a notebook cell."""

    def _repr_png_(self) -> Any:
        figure = self.get_figure(root=True)
        return figure._repr_png_() if isinstance(figure, ShownFigure) else None


class PlainNumbers(LogFormatter):
    """Numbers of a logarithmic axis as in tables: powers of ten take twice as long to draw."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""
