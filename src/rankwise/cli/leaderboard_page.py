"""The page of `rankwise leaderboard`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import __version__
from rankwise.cli.leaderboard import what_was_read
from rankwise.plots import figure_svg, plot_win_matrix
from rankwise.report import Facts, Figure, Page, Section, Text
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.data import BattleFile
    from rankwise.tables import Table

COVARIATES = Text(
    "By how much a covariate raises the log-odds of the first item (or their probit). Ratings are "
    "for covariates of zero."
)
MOST_ITEMS = 60  # in pictures
MOST_CELLS = 25  # items of the matrix
MOST_PAIRS = 20  # in the table of shares


def write_page(
    board: Any, standings: Any, file: BattleFile, concerns: list[str], source: Path, path: Path
) -> None:
    """Standings, pictures, shares, coefficients, judges, and what was left out."""
    battles = file.battles
    facts = [
        (f"{len(battles):,}", "battles"),
        (f"{len(board.items_):,}", "items"),
        (f"{board.n_groups_:,}", "independent groups"),
        (f"{standings['group'].max():,}", "groups that can be told apart"),
    ]
    if (battles.outcome == 3).any():
        facts.append((f"{board.both_bad_:.1%}", "of battles: both are bad"))
    sections = [Section("", [Facts(tuple(facts)), *map(Text, concerns)])]
    sections.append(Section("Standings", [standings.to_table(), _ratings(standings)]))
    if len(board.coef_names_):
        sections.append(Section("Covariates", [COVARIATES, board.coefficients().to_table()]))
    if len(board.judges_):
        blocks: list[Any] = [board.judges().to_table()]
        if battles.groups is not None and len(board.agreement()):
            blocks += [Text("How often two judges agree on the same battle:")]
            blocks += [board.agreement().to_table()]
        sections.append(Section("Judges", blocks))
    sections.append(Section("Who wins against whom", [_matrix(board, standings), *_shares(board)]))
    sections.append(Section("What was read", [Text(line) for line in _what_was_read(board, file)]))
    Page(
        f"Leaderboard of {source.name}",
        _summary(standings),
        sections,
        footer=f"Made by `rankwise leaderboard`, rankwise {__version__}.",
    ).write(path)


def _summary(standings: Any) -> str:
    """Who leads, and who cannot be told apart from the leader."""
    best = standings["item"][0]
    tied = [str(item) for item in standings["item"][1:][standings["group"][1:] == 1]]
    first = f"{best} is the best with probability {standings['p_first'][0]:.2f}."
    if not tied:
        return f"{first} It can be told apart from all others."
    shown = ", ".join(tied[:5]) + (f" and {len(tied) - 5} more" if len(tied) > 5 else "")
    return f"{first} It cannot be told apart from {shown}."


def _ratings(standings: Any) -> Figure:
    shown = min(len(standings), MOST_ITEMS)
    caption = f"Ratings with their intervals; on the right, intervals of ranks. {standings.note}"
    if shown < len(standings):
        caption = f"The best {shown}. {caption}"
    alt = f"Ratings of {plural(shown, 'item')} with intervals, from best to worst"
    return Figure(figure_svg(standings.plot(top=shown).figure), alt, caption)


def _matrix(board: Any, standings: Any) -> Figure:
    """Observed shares of wins, the best items first."""
    n = len(board.items_)
    place = np.empty(n, dtype=int)
    place[np.argsort(-board.ratings_, kind="stable")] = np.arange(n)
    counts = board.pair_counts_
    i, j = place[counts[:, 0].astype(int)], place[counts[:, 1].astype(int)]
    ties = counts[:, 4] if counts.shape[1] > 4 else 0.0
    share = (counts[:, 2] + 0.5 * ties) / counts[:, 2:].sum(axis=1)
    shown = min(n, MOST_CELLS)
    shares = np.full((shown, shown), np.nan)
    best = (i < shown) & (j < shown)
    i, j, share = i[best], j[best], share[best]
    shares[i, j], shares[j, i] = share, 1.0 - share
    ax = plot_win_matrix(shares, names=standings["item"][:shown])
    alt = f"How often each of {plural(shown, 'item')} won against each other item"
    caption = (
        "Share of battles that the item of the row won against the item of the column. A tie is "
        "half a win. Pairs that never met are empty."
    )
    if shown < n:
        caption = f"The best {shown}. {caption}"
    return Figure(figure_svg(ax.figure), alt, caption)


def _shares(board: Any) -> list[Any]:
    table: Table = board.shares().to_table()
    text = "Observed beside predicted shares"
    if len(table.rows) > MOST_PAIRS:
        text += f", for the {MOST_PAIRS} of {len(table.rows):,} pairs that met most often"
    return [Text(f"{text}:"), replace(table, rows=table.rows[:MOST_PAIRS])]


def _what_was_read(board: Any, file: BattleFile) -> list[str]:
    rows = f"{plural(file.n_rows, 'row')}, recognised as: {file.schema}."
    bad = int((file.battles.outcome == 3).sum())
    both_bad = (
        f"In {plural(bad, 'battle')} both items were bad. These do not enter the ratings. Their "
        "shares are in the tables of standings and of pairs."
    )
    penalty = f"Penalty of ratings: {board.penalty_:.3g}."
    return [rows, *what_was_read(file), *([both_bad] if bad else []), penalty]
