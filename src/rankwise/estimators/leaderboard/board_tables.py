"""What a leaderboard shows: standings, coefficients, judges, shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class BoardTable(TableMixin):
    """Columns of equal length, by name, that print as a table and become a data frame."""

    columns: Mapping[str, Any]
    formats: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    note: str = ""

    def to_table(self) -> Table:
        """The result as a table."""
        heads = tuple(Column(name, self.formats.get(name, ".3f")) for name in self.columns)
        rows = zip(*(np.asarray(column).tolist() for column in self.columns.values()), strict=True)
        return Table(heads, tuple(rows), self.title, self.note)

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of plain values, unrounded; None where there is no number."""
        names, columns = list(self.columns), self.columns.values()
        rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
        return [
            {
                name: value if value == value else None
                for name, value in zip(names, row, strict=True)
            }
            for row in rows
        ]

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
    probability that the item is the best), group, battles, and both_bad (the share of battles in
    which both items were bad). Items of a group cannot be told apart from the first item of the
    group.
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
            "interval": _intervals(c["low"], c["high"], digits),
            "ranks": ranks, "P(first)": c["p_first"], "group": c["group"], "battles": c["battles"],
        }  # fmt: skip
        if np.nansum(c["both_bad"]):
            shown["both bad"] = c["both_bad"]
        formats = {"rating": f".{digits}f", "P(first)": ".2f", "both bad": ".2f"}
        return BoardTable(shown, formats, self.title, self.note).to_table()

    def plot(self, *, top: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw ratings with their intervals, the ranks beside them; see `plot_ratings`."""
        from rankwise.plots import plot_ratings

        c = self.columns
        return plot_ratings(
            c["rating"], c["low"], c["high"], names=c["item"],
            ranks=(c["rank_low"], c["rank_high"]), group=c["group"], top=top, ax=ax,
        )  # fmt: skip


class JudgeTable(BoardTable):
    """Judges, their slips and preferences for the first place; made by `Leaderboard.judges`."""

    def to_table(self) -> Table:
        """As a table, with both ends of an interval in one column."""
        c = self.columns
        shown: dict[str, Any] = {"judge": c["judge"], "battles": c["battles"]}
        for name in ("slips", "first place"):
            shown[name] = c[name]
            shown[f"{name}, interval"] = _intervals(c[f"{name}, low"], c[f"{name}, high"], 2)
        formats = dict.fromkeys(shown, ".2f")
        return BoardTable(shown, formats, self.title, self.note).to_table()


class ShareTable(BoardTable):
    """Observed beside predicted shares of pairs; made by `Leaderboard.shares`."""

    def to_table(self) -> Table:
        """As a table, with the predicted share in brackets."""
        c = self.columns
        shown: dict[str, Any] = {name: c[name] for name in ("item", "other", "battles")}
        for word in ("wins", "loses", "ties"):
            if word in c:
                shares = zip(c[word], c[f"{word}, predicted"], strict=True)
                shown[word] = [f"{seen:.2f} ({predicted:.2f})" for seen, predicted in shares]
        if np.nansum(c["both_bad"]):
            shown["both bad"] = c["both_bad"]
        formats = {"battles": ".6g", "both bad": ".2f"}
        note = self.note or "Observed shares, and those that the ratings predict in brackets."
        return BoardTable(shown, formats, self.title, note).to_table()


def _intervals(low: Any, high: Any, digits: int) -> list[str]:
    return [f"{a:.{digits}f} to {b:.{digits}f}" for a, b in zip(low, high, strict=True)]
