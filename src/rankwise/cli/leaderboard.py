"""rankwise leaderboard: from a file of battles to ratings with intervals."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from rankwise.cli.data_options import split_names
from rankwise.cli.options import Count, Force, InputArgument, grouped, refuse
from rankwise.cli.terminal import (
    check_page,
    check_writable,
    complain,
    interruptible,
    note,
    progress,
    show,
)
from rankwise.files import write_text
from rankwise.tables import csv_text, plural

if TYPE_CHECKING:
    from rankwise.data import BattleFile


@dataclass(frozen=True)
class BattleColumns:
    """Which column is what.

    Parameters
    ----------
    first : COLUMN, default=model_a, left, ...
        The items shown first.
    second : COLUMN, default=model_b, right, ...
        The items shown second.
    winner : COLUMN, default=winner, outcome, ...
        Who won. With --first and --second alone, the first item.
    style : NAME,NAME, default=none
        Covariates: columns of numbers, or NAME for columns NAME_a and NAME_b.
    cluster : COLUMN, default=a column of sessions or prompts, if there is one
        Session, prompt or voter: battles of the same one may depend on each other.
    judge : COLUMN, default=none
        Who judged: model each judge.
    """

    panel: ClassVar = "Columns"
    first: str | None = None
    second: str | None = None
    winner: str | None = None
    style: str | None = None
    cluster: str | None = None
    judge: str | None = None


@grouped
def leaderboard(
    *,
    battles: InputArgument,
    columns: BattleColumns,
    link: Literal["logit", "probit"] = "logit",
    ties: Literal["model", "half"] = "model",
    penalty: str = "evidence",
    position: bool = False,
    elo: bool = False,
    level: float = 0.95,
    top: Count = None,
    csv_out: Annotated[Path | None, typer.Option("--csv")] = None,
    spreadsheet: Path | None = None,
    json_out: Annotated[Path | None, typer.Option("--json")] = None,
    report: Path | None = None,
    force: Force = False,
) -> None:
    """Rate the items of a file of battles, with intervals of ratings and ranks.

    Knows battles of arenas (model_a, model_b, winner), of MT-bench (model_1, model_2, g1_winner,
    g2_winner), of Evalica (left, right, winner), of RewardBench (chosen_model, rejected_model, or
    models, num_correct), of PandaLM (cmp_key, annotator1, ...), and first, second, outcome.
    Winners are words (model_a, left, tie, both_bad, ...) or ids.

    Fits the Bradley-Terry model with ties. A penalty, chosen from the data, pulls ratings towards
    their mean. Intervals are robust, and clustered by session or prompt. Items of a group cannot be
    told apart from the first item of the group.

    \b
    Examples:
      rankwise leaderboard battles.csv
      rankwise leaderboard battles.jsonl --style length --cluster session --report page.html
      rankwise leaderboard games.csv --first white --second black --winner result --position
      rankwise leaderboard mt_bench.parquet --judge judge --position --elo --csv table.csv

    Parameters
    ----------
    battles : BATTLES
        CSV, TSV, JSON lines, JSON, Parquet or Arrow file.
    link : NAME
        logit (Bradley-Terry) or probit (Thurstone).
    ties : NAME
        model: estimate how frequent ties are. half: count a tie as half a win.
    penalty : NUMBER
        1 / variance of ratings: a number, evidence or held-out.
    position : FLAG
        Estimate the advantage of the first place.
    elo : FLAG
        Ratings in Elo points, with mean 1,000.
    level : SHARE
        Confidence level of the intervals.
    top : N, default=all
        Print only the best N items.
    csv_out : FILE
        Where to write the standings.
    spreadsheet : FILE
        The same for spreadsheets: names that look like formulas begin with a quote.
    json_out : FILE
        Where to write all numbers.
    report : FILE
        Where to write a page with tables and pictures, as .html.
    """
    check_page(report, battles, force=force)
    for path in (csv_out, spreadsheet, json_out):
        check_writable(path, battles, force=force)
    first, second = columns.first, columns.second
    if (first is None) != (second is None) or (columns.winner is not None and first is None):
        missing = "first" if first is None else "second"
        refuse(missing, "Name the columns of both items: --first and --second.")
    from rankwise.data import read_battles
    from rankwise.leaderboard.leaderboard import Leaderboard
    from rankwise.parameters import parse_parameter

    strength = parse_parameter("penalty", penalty, Leaderboard.parameters["penalty"])

    with progress(f"Reading {battles} ({battles.stat().st_size / 1e6:,.1f} MB)"):
        file = read_battles(
            battles, first=first, second=second, winner=columns.winner,
            style=split_names(columns.style) or [], groups=columns.cluster, judge=columns.judge,
        )  # fmt: skip
    board = Leaderboard(link, ties=ties, penalty=strength, position=position, level=level)
    with (
        interruptible(f"Rating {plural(len(file.battles.items), 'item')}"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        board.fit(file.battles)
    note(f"{battles}: {file.schema}, {file.battles!r}.")
    for line in what_was_read(file):
        note(line)
    concerns = [str(w.message).replace("position=True", "--position") for w in caught]
    for concern in concerns:
        complain("warning", concern)
    standings = board.standings(elo=elo)
    table = standings.to_table()
    covariates = board.coefficients().to_table() if len(board.coef_names_) else None
    judges = None if columns.judge is None else board.judges().to_table()
    show(replace(table, rows=table.rows[:top]), covariates, judges)
    for path, guarded in ((csv_out, False), (spreadsheet, True)):
        if path is not None:
            _write_csv(standings, path, guarded)
            note(f"Wrote {path}.")
    if json_out is not None:
        _write_json(board, standings, file, concerns, json_out)
        note(f"Wrote {json_out}.")
    if report is not None:
        from rankwise.cli.leaderboard_page import write_page

        with progress(f"Drawing {report}"):
            write_page(board, standings, file, concerns, battles, report)
        note(f"Wrote {report}: open {report.resolve().as_uri()}")


def what_was_read(file: BattleFile) -> list[str]:
    """How the file was understood, in sentences."""
    grouped_by = f"Intervals are clustered by {file.group_column!r}."
    alone = "Battles are taken as independent: give --cluster COLUMN if some depend on each other."
    left_out = [f"Left out {plural(n, 'row')} {reason}." for reason, n in file.dropped.items()]
    return [alone if file.group_column is None else grouped_by, *file.remarks, *left_out]


def _write_csv(standings: Any, path: Path, for_spreadsheets: bool) -> None:
    rows = standings.records()
    values = (row.values() for row in rows)
    write_text(path, csv_text(list(rows[0]), values, for_spreadsheets=for_spreadsheets))


def _write_json(
    board: Any, standings: Any, file: BattleFile, concerns: list[str], path: Path
) -> None:
    content = {
        "schema": file.schema,
        "rows": file.n_rows,
        "battles": len(file.battles),
        "dropped": file.dropped,
        "remarks": file.remarks,
        "warnings": concerns,
        "parameters": {k: v for k, v in board.get_params().items() if k != "random_state"},
        "penalty": board.penalty_,
        "tie": board.tie_ if board.tie_ == board.tie_ else None,
        "both_bad": board.both_bad_,
        "groups": board.n_groups_,
        "standings": standings.records(),
        "coefficients": board.coefficients().records(),
        "judges": board.judges().records() if len(board.judges_) else [],
        "shares": board.shares().records(),
    }
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False))
