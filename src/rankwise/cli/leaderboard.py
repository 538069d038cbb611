"""rankwise leaderboard: from a file of battles to ratings with intervals."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.options import Force, input_argument, option, parse_number, refuse
from rankwise.cli.output_files import check_writable
from rankwise.cli.terminal import complain, interruptible, note, progress, show
from rankwise.tables import csv_text, plural

if TYPE_CHECKING:
    from rankwise.data import BattleFile

LINKS, TIES = ("logit", "probit"), ("model", "half")


def leaderboard(
    battles: Annotated[
        Path,
        input_argument(
            metavar="BATTLES", help="CSV, TSV, JSON lines, JSON, Parquet or Arrow file."
        ),
    ],
    first: Annotated[
        str | None,
        option("COLUMN", "The items shown first.", "model_a, left, ...", rich_help_panel="Columns"),
    ] = None,
    second: Annotated[
        str | None,
        option(
            "COLUMN", "The items shown second.", "model_b, right, ...", rich_help_panel="Columns"
        ),
    ] = None,
    winner: Annotated[
        str | None,
        option(
            "COLUMN",
            "Who won. With --first and --second only: the first.",
            "winner, outcome, ...",
            rich_help_panel="Columns",
        ),
    ] = None,
    style: Annotated[
        str | None,
        option(
            "NAME,NAME",
            "Covariates: columns of numbers, or NAME for columns NAME_a and NAME_b.",
            "none",
            rich_help_panel="Columns",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        option(
            "COLUMN",
            "Session, prompt or voter: battles of one may depend on each other.",
            "a column of sessions or prompts, if there is one",
            rich_help_panel="Columns",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        option("COLUMN", "Who judged: model each judge.", "none", rich_help_panel="Columns"),
    ] = None,
    link: Annotated[
        str, option("NAME", f"{' (Bradley-Terry) or '.join(LINKS)} (Thurstone).")
    ] = "logit",
    ties: Annotated[
        str, option("NAME", "Ties have a model, or are half wins: model or half.")
    ] = "model",
    penalty: Annotated[
        str, option("NUMBER", "1 / variance of ratings: a number, evidence or held-out.")
    ] = "evidence",
    position: Annotated[
        bool, typer.Option("--position", help="The first place has an effect of its own.")
    ] = False,
    elo: Annotated[
        bool, typer.Option("--elo", help="Ratings in points of Elo, with mean 1,000.")
    ] = False,
    level: Annotated[float, option("SHARE", "Confidence level of the intervals.")] = 0.95,
    top: Annotated[int | None, option("N", "Print only the best N items.", "all", min=1)] = None,
    csv_out: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Where to write the standings.")
    ] = None,
    spreadsheet: Annotated[
        Path | None,
        option("FILE", "The same as CSV for spreadsheets: names that are formulas get a quote."),
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Where to write all numbers.")
    ] = None,
    report: Annotated[
        Path | None, option("FILE", "Where to write a page with tables and pictures, as .html.")
    ] = None,
    force: Force = False,
) -> None:
    """Rate the items of a file of battles, with intervals of ratings and ranks.

    Knows battles of arenas (model_a, model_b, winner), of MT-bench (model_1, model_2, g1_winner,
    g2_winner), of Evalica (left, right, winner), of RewardBench (chosen_model, rejected_model, or
    models, num_correct), of PandaLM (cmp_key, annotator1, ...), and first, second, outcome.
    Winners are words (model_a, left, tie, both_bad, ...) or ids.

    Ratings are those of the Bradley-Terry model with ties, shrunk as far as the evidence says.
    Intervals are robust, and clustered by session or prompt. Items of a group cannot be told apart
    from the first item of the group.

    \b
    Examples:
      rankwise leaderboard battles.csv
      rankwise leaderboard battles.jsonl --style length --cluster session --report page.html
      rankwise leaderboard games.csv --first white --second black --winner result --position
      rankwise leaderboard mt_bench.parquet --judge judge --position --elo --csv table.csv
    """
    for name, value, words in (("link", link, LINKS), ("ties", ties, TIES)):
        if value not in words:
            refuse(name, f"Choose from {', '.join(words)}: got {value!r}.")
    strength = _penalty(penalty)
    if report is not None and report.suffix.lower() != ".html":
        refuse("report", f"The page ends with .html: got {report.name!r}.")
    for path in (csv_out, spreadsheet, json_out, report):
        if path is not None:
            check_writable(path, battles, force=force)
    if (first is None) != (second is None) or (winner is not None and first is None):
        missing = "second" if second is None and first is not None else "first"
        refuse(missing, "Name the columns of both items: --first and --second.")
    from rankwise.data import read_battles

    names = [] if style is None else [name.strip() for name in style.split(",") if name.strip()]
    with progress(f"Reading {battles} ({battles.stat().st_size / 1e6:,.1f} MB)"):
        file = read_battles(
            battles, first=first, second=second, winner=winner, style=names, groups=cluster,
            judge=judge,
        )  # fmt: skip
    from rankwise.leaderboard.leaderboard import Leaderboard

    board = Leaderboard(link, ties=ties, penalty=strength, position=position, level=level)
    with (
        interruptible(f"Rating {plural(len(file.battles.items), 'item')}"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        board.fit(file.battles)
    _say_what_was_read(file, battles)
    concerns = [str(w.message).replace("position=True", "--position") for w in caught]
    for concern in concerns:
        complain("warning", concern)
    standings = board.standings(elo=elo)
    table = standings.to_table()
    if top is not None and top < len(table.rows):
        from dataclasses import replace

        table = replace(table, rows=table.rows[:top])
    show(table)
    if len(board.coef_names_):
        print()
        show(board.coefficients().to_table())
    if judge is not None:
        print()
        show(board.judges().to_table())
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


def _penalty(text: str) -> float | str:
    if text in ("evidence", "held-out"):
        return text
    try:
        return parse_number(text)
    except ValueError:
        refuse("penalty", f"Give a number, evidence or held-out: got {text!r}.")


def _say_what_was_read(file: BattleFile, path: Path) -> None:
    note(f"{path}: {file.schema}, {file.battles!r}.")
    if file.group_column is None:
        note(
            "Battles are taken as independent: give --cluster COLUMN if some depend on each other."
        )
    else:
        note(f"Intervals are clustered by {file.group_column!r}.")
    for remark in file.remarks:
        note(remark)
    for reason, count in file.dropped.items():
        note(f"Left out {plural(count, 'row')} {reason}.")


def _write_csv(standings: Any, path: Path, for_spreadsheets: bool) -> None:
    from rankwise.files import replacing

    rows = standings.records()
    values = (row.values() for row in rows)
    text = csv_text(list(rows[0]), values, for_spreadsheets=for_spreadsheets)
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="")


def _write_json(
    board: Any, standings: Any, file: BattleFile, concerns: list[str], path: Path
) -> None:
    from rankwise.files import replacing

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
    with replacing(path) as beside:
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
