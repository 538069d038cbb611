"""The results of a leaderboard: tables of standings and history, and their statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2

from rankwise.backends.arrays import Array, Index
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ELO = 400 / np.log(10)  # points of one unit of log-odds
ELO_MEAN = 1000.0
IDS = (
    "item",
    "leader",
    "other",
    "judge",
    "category",
    "period",
)  # columns of ids, which may be whole numbers


@dataclass(frozen=True, eq=False, repr=False)
class BoardTable(TableMixin):
    """Columns of equal length, by name, that print as a table and become a data frame.

    `shown` are the columns of the table, if they differ, such as both ends of an interval in one
    column. `unit` is the unit of ratings.
    """

    columns: Mapping[str, Any]
    formats: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    shown: Mapping[str, Any] | None = None
    unit: str = ""

    def to_table(self) -> Table:
        """The result as a table."""
        columns = self.columns if self.shown is None else self.shown
        formats = dict(self.formats) | dict.fromkeys(IDS, "d")
        heads = tuple(Column(name, formats.get(name, ".3f")) for name in columns)
        return Table(heads, tuple(_rows(columns)), note=self.note)

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of plain values, unrounded; None where there is no number."""
        rows = _rows(self.columns)
        plain = ([value if value == value else None for value in row] for row in rows)
        return [dict(zip(self.columns, row, strict=True)) for row in plain]

    def _frame_columns(self) -> Mapping[str, Any]:
        return self.columns

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Standings(BoardTable):
    """The items from best to worst, with intervals; made by `Leaderboard.standings`.

    The columns are item, rating, low, high, rank (by rating), rank_low, rank_high, p_first (the
    probability that the item is the best), tied_with (the ranks of all items that cannot be told
    apart from the item), group, battles, and both_bad (the share of battles in which both items
    were bad). Items of a group cannot be told apart from the first item of the group.
    """

    def to_table(self) -> Table:
        """As a table, with both ends of an interval in one column."""
        c = self.columns
        digits = 0 if self.formats.get("rating") == ".0f" else 2
        ranks = [
            f"{low}" if low == high else f"{low}–{high}"
            for low, high in zip(c["rank_low"], c["rank_high"], strict=True)
        ]
        shown = {
            "rank": c["rank"], "item": c["item"], "rating": c["rating"],
            "interval": intervals(c["low"], c["high"], digits),
            "ranks": ranks, "P(first)": c["p_first"], "tied with": c["tied_with"],
            "group": c["group"],
        }  # fmt: skip
        shown |= {name: c[name] for name in ("battles", "rankings") if name in c}
        if np.nansum(c["both_bad"]):
            shown["both bad"] = c["both_bad"]
        formats = {"rating": f".{digits}f", "P(first)": ".2f", "both bad": ".2f"}
        return BoardTable(shown, formats, self.note).to_table()

    def plot(self, *, top: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw ratings with their intervals, the ranks beside them; see `plot_ratings`."""
        from rankwise.plots import plot_ratings

        c = self.columns
        return plot_ratings(
            c["rating"], c["low"], c["high"], names=c["item"],
            ranks=(c["rank_low"], c["rank_high"]), group=c["group"], top=top, unit=self.unit,
            ax=ax,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class History(BoardTable):
    """Ratings of items at several times, with intervals; made by `Leaderboard.history`.

    The columns are time, item, rating, low and high.
    """

    @classmethod
    def of(cls, parts: list[tuple[Any, ...]], unit: str) -> History:
        """From the columns of each time."""
        names = ("time", "item", "rating", "low", "high")
        digits = ".0f" if unit == "Elo points" else ".3f"
        columns = dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))
        return cls(columns, {"time": ""} | dict.fromkeys(names[2:], digits), unit=unit)

    def plot(self, *, top: int = 8, ax: Axes | None = None) -> Axes:
        """Draw the latest best items over time; see `plot_history`."""
        from rankwise.plots import plot_history

        c = self.columns
        return plot_history(
            c["time"], c["item"], c["rating"], c["low"], c["high"], top=top, unit=self.unit, ax=ax
        )


def _rows(columns: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)


def intervals(low: Any, high: Any, digits: int) -> list[str]:
    return [
        "–" if np.isnan(a) else f"{a:.{digits}f} to {b:.{digits}f}"
        for a, b in zip(low, high, strict=True)
    ]


LARGEST = np.linspace(-9.0, 9.0, 241)  # where the largest of the normal values may be
NORMAL = np.linspace(-7.0, 7.0, 43)  # normal scores of the standard error


def range_quantile(level: float, n: int, df: int) -> float:
    """The `level` quantile of the range of n standard normal values over their standard error.

    The standard error has `df` degrees of freedom, independent of the values. With s of the
    distribution of the standard error, P(range < q s) is the mean over s of

        n integral phi(z) (Phi(z) - Phi(z - q s))^(n - 1) dz.

    The same as ``scipy.stats.studentized_range.ppf``, which takes seconds, in milliseconds.

    Examples
    --------
    >>> round(range_quantile(0.95, 10, 60), 2)
    4.65
    """
    s = np.sqrt(chi2.ppf(ndtr(NORMAL), df) / df)
    weights, density = (_normal_weights(points) for points in (NORMAL, LARGEST))
    below = ndtr(LARGEST)

    def short(q: float) -> float:
        inner = (below - ndtr(LARGEST - q * s[:, None])) ** (n - 1) @ density
        return float(weights @ (n * inner)) - level

    return float(brentq(short, 1e-6, 200.0 if df > 2 else 1e4, xtol=1e-10))


def _normal_weights(points: Array) -> Array:
    """Of the trapezoidal rule for means over the normal distribution."""
    return np.asarray(np.exp(-0.5 * points**2) / np.sqrt(2 * np.pi) * (points[1] - points[0]))


def rank_ranges(ranks: Index) -> str:
    """Ascending ranks in few characters: "2–4, 7"."""
    breaks = np.flatnonzero(np.diff(ranks) > 1) + 1
    parts = [part for part in np.split(ranks, breaks) if len(part)]
    return ", ".join(f"{p[0]}" if len(p) == 1 else f"{p[0]}–{p[-1]}" for p in parts)


def surprise(total: Array, observed: Array, predicted: Array) -> tuple[Array, Array]:
    """z values of shares, and p values for the largest of all of them (Šidák)."""
    value = np.array([1.0, 0.0, 0.5])[: observed.shape[1]]
    mean = predicted @ value
    variance = predicted @ (value * value) - mean * mean
    error = np.sqrt(np.maximum(variance, 1e-300) / np.maximum(total, 1e-300))
    z = (observed @ value - mean) / error
    single = 2.0 * ndtr(-abs(z))
    pairs = max(int(np.isfinite(z).sum()), 1)
    return z, -np.expm1(pairs * np.log1p(-np.minimum(single, 1.0 - 1e-16)))
