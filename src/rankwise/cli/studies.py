"""rankwise leaderboard, preferences and auc: battles, comparisons or samples in a table."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from rankwise.cli.options import (
    Count,
    Force,
    InputArgument,
    Out,
    Positive,
    Seed,
    grouped,
    refuse,
    refuse_all,
    split_names,
)
from rankwise.cli.terminal import (
    check_page,
    check_writable,
    command_line,
    complain,
    interruptible,
    note,
    progress,
    say,
    show,
)
from rankwise.files import write_text
from rankwise.tables import csv_text, plural

if TYPE_CHECKING:
    from rankwise.cli.auc_study import AUCStudy
    from rankwise.data import BattleFile, RankingFile
    from rankwise.tables import Table

MOST_JUDGES = 30  # in printed tables and on pages
SHOWN, LISTED = 10, 20  # features in the table of columns, printed and on a page
OPTIONS_OF_RANKINGS = {"ranking", "style", "cluster", "elo", "penalty"}
EXACT = 2**53  # programs that read numbers as float64 round larger ones
NO_JUDGES = (
    "Leave out --judge, and give --cluster with the same column for intervals that allow for them."
)
APART = (
    ("drift", "half_life", "They are two models of time: give one of them."),
    ("drift", "judge by every gold", "Give --half-life instead of --drift."),
    ("by", "judge", NO_JUDGES),
    ("every", "judge", NO_JUDGES),
    ("by", "gold", "Rate each category alone, with --where COLUMN=VALUE."),
    ("every", "gold", "Leave out one of them."),
    ("penalty", "drift by every", "Give --penalty evidence, or a number."),
    ("elo", "link", "Elo points need --link logit."),
)
"""Options that exclude others, and what to do."""


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
        Session, prompt or judge: battles of the same one may depend on each other. Or two of them.
    judge : COLUMN, default=none
        Who judged: model each judge.
    gold : COLUMN, default=none
        Right answers, empty where unknown: they anchor judges, or correct biased votes.
    time : COLUMN, default=none
        When battles were: dates such as 2026-11-18, or numbers. The page shows a history.
    every : PERIOD, default=none
        With --time: also rate within each day, week, month, quarter, year or number of days.
    by : COLUMN, default=none
        Category, language, ...: also rate within each, and test whether categories differ.
    ranking : RANKING,ITEM,PLACE, default=none
        Rankings of several items, with a row for each place, instead of battles.
    """

    panel: ClassVar = "Columns"
    first: str | None = None
    second: str | None = None
    winner: str | None = None
    style: str | None = None
    cluster: str | None = None
    judge: str | None = None
    gold: str | None = None
    time: str | None = None
    every: str | None = None
    by: str | None = None
    ranking: str | None = None

    def read(self, path: Path, where: dict[str, str]) -> BattleFile | RankingFile:
        """The battles or rankings of a file."""
        from rankwise.data import read_battles, read_rankings

        style = split_names(self.style) or []
        if self.ranking is None:
            found = read_battles(
                path, first=self.first, second=self.second, winner=self.winner, style=style,
                groups=split_names(self.cluster), judge=self.judge, gold=self.gold,
                time=self.time, category=self.by, where=where,
            )  # fmt: skip
            if self.every is None:
                return found
            return replace(found, battles=found.battles.every(self.every))
        ranking, item, place = split_names(self.ranking) or []
        return read_rankings(
            path, ranking=ranking, item=item, place=place, style=style, groups=self.cluster
        )

    def check(self, **others: Any) -> None:
        """Refuse options that do not go together, also with the `others` that are given."""
        first, second = self.first, self.second
        given: dict[str, Any] = vars(self) | others
        if self.ranking is not None:
            if len(split_names(self.ranking) or []) != 3:
                refuse("ranking", "Name three columns: --ranking RANKING,ITEM,PLACE.")
            others = {name: given[name] for name in sorted(given.keys() - OPTIONS_OF_RANKINGS)}
            refuse_all(others, "It is for battles. Leave it out, or leave out --ranking.")
        if self.every is not None and (self.time is None or self.by is not None):
            refuse("every", "It needs --time COLUMN, and takes the place of --by.")
        for name, excluded, instead in APART:
            for other in excluded.split():
                if given[name] and given[other]:
                    option = other.replace("_", "-")
                    refuse(name, f"It cannot be combined with --{option}. {instead}")
        if (first is None) != (second is None) or (self.winner is not None and first is None):
            missing = "first" if first is None else "second"
            refuse(missing, "Name the columns of both items: --first and --second.")


@grouped
def leaderboard(
    *,
    battles: InputArgument,
    columns: BattleColumns,
    link: Literal["logit", "probit"] = "logit",
    ties: Literal["model", "by-item", "half"] = "model",
    penalty: str = "evidence",
    position: bool = False,
    half_life: str | None = None,
    drift: str | None = None,
    elo: bool = False,
    anchor: str | None = None,
    where: str | None = None,
    fragility: bool = False,
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

    With --ranking, rates items by rankings of several of them, such as races, by the model of
    Plackett and Luce. Rows with the same place are tied. An empty place, or a word such as DNF,
    stands for items that took part and are below all others.

    Fits the Bradley-Terry model with ties. A penalty, chosen from the data, pulls ratings towards
    their mean. Intervals are robust, and clustered by session or prompt. Items of a group cannot be
    told apart from the first item of the group.

    \b
    Examples:
      rankwise leaderboard battles.csv
      rankwise leaderboard battles.jsonl --style length --cluster session --report page.html
      rankwise leaderboard games.csv --first white --second black --winner result --position
      rankwise leaderboard mt_bench.parquet --judge judge --position --elo --csv table.csv
      rankwise leaderboard votes.csv --where turn=1 --elo --anchor gpt-4=1000 --by language
      rankwise leaderboard votes.csv --time date --every month --report page.html
      rankwise leaderboard races.csv --ranking race,driver,place --cluster season
      rankwise leaderboard matches.csv --first winner --second loser --time date --half-life 365

    Parameters
    ----------
    battles : BATTLES
        CSV, TSV, JSON lines, JSON, Parquet or Arrow file.
    link : NAME
        logit (Bradley-Terry) or probit (Thurstone).
    ties : NAME
        model: estimate how frequent ties are. by-item: items may differ in it. half: count a tie
        as half a win.
    penalty : NUMBER
        1 / variance of ratings: a number, evidence or held-out.
    position : FLAG
        Estimate the advantage of the first place.
    half_life : DAYS, default=none
        With --time: after how many days a battle counts half as much, or auto.
    drift : NUMBER, default=none
        With --time: let ratings drift; standard deviation of a year's change, evidence or auto.
    elo : FLAG
        Ratings in Elo points, with mean 1,000.
    anchor : ITEM=RATING, default=none
        Move all ratings so that this item has this one; intervals are of distances to it.
    where : COLUMN=VALUE, default=all rows
        Only rows with this value, as in turn=1; several with commas.
    fragility : FLAG
        The fewest battles without which another item leads. The page always shows it.
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
    columns.check(
        position=position, link=link == "probit", ties=ties == "by-item", half_life=half_life,
        drift=drift, where=where, penalty=penalty == "held-out", elo=elo,
    )  # fmt: skip
    from rankwise.leaderboard.leaderboard import Leaderboard
    from rankwise.parameters import check_parameters, parse_parameter

    settings: dict[str, Any] = {"penalty": penalty, "half_life": half_life, "drift": drift}
    for name, value in settings.items():
        if value is not None:
            settings[name] = parse_parameter(name, value, Leaderboard.parameters[name])
    if columns.time is None:
        moving = {"half_life": half_life, "drift": drift}
        refuse_all(moving, "It needs the times of battles: give --time COLUMN.")
    settings["ties"] = ties.replace("-", " ")
    board = Leaderboard(link, position=position, level=level, **settings)
    check_parameters(board, Leaderboard.parameters)
    rows_with = _equations("where", where)

    with progress(f"Reading {battles} ({battles.stat().st_size / 1e6:,.1f} MB)"):
        file = columns.read(battles, rows_with)
    data: Any = getattr(file, "battles" if columns.ranking is None else "rankings")
    anchored = _anchor(anchor, data.items.tolist())
    note(f"{battles}: {file.schema}, {data!r}.", *what_was_read(file))
    if anchored is not None and not elo and abs(anchored[1]) >= 100:
        note(f"Ratings are not in Elo points: give --elo if {anchored[1]:g} is one of them.")
    with (
        progress(f"Rating {plural(len(data.items), 'item')}"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        fit = board.fit if columns.ranking is None else board.fit_rankings
        fit(file)
    concerns = [str(w.message).replace("position=True", "--position") for w in caught]
    for concern in concerns:
        complain("warning", concern)
    standings = board.standings(elo=elo, anchor=anchored)
    table = standings.to_table()
    units = getattr(file, "units", {})
    covariates = covariate_table(board, units, elo=elo) if len(board.coef_names_) else None
    beside = []
    if columns.style is not None and columns.ranking is None:
        with progress("Rating without style"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same as before
            beside.append(without_style(board, standings, data, elo=elo, anchor=anchored))
    judges = None if columns.judge is None else shown_judges(board)
    categories = None if board.width_ is None else board.categories(elo=elo).to_table()
    short = [replace(each, rows=each.rows[:top]) for each in (table, *beside)]
    item_ties = board.item_ties().to_table() if ties == "by-item" else None
    show(*short, covariates, judges, item_ties, categories)
    if columns.judge is not None and judges is None:
        print()
        say(board.judges().note)
    decided = ""
    if (fragility or report is not None) and not (board.drift_ or board.width_):
        with interruptible("Looking for the fewest battles that decide"):
            decided = str(board.fragility())
    if fragility:
        print()
        say(
            decided
            or "Fragility is for one rating of each item, without --drift, --by and --every."
        )
    rows = [row.values() for row in standings.records()]
    for path, guarded in ((csv_out, False), (spreadsheet, True)):
        if path is not None:
            names = list(standings.records()[0])
            write_text(path, csv_text(names, rows, for_spreadsheets=guarded))
            note(f"Wrote {path}.")
    if json_out is not None:
        content = _content(board, standings, file, concerns, elo=elo)
        content["fragility"] = decided or None
        write_text(json_out, json.dumps(_exact(content), indent=1, ensure_ascii=False))
        note(f"Wrote {json_out}.")
    if report is not None:
        from rankwise.cli.study_pages import write_leaderboard

        with progress(f"Drawing {report}"):
            more = [covariates, *beside] if covariates is not None else beside
            write_leaderboard(
                board, standings, file, concerns, decided, more, battles, report, columns.every,
                {"elo": elo, "anchor": anchored},
            )  # fmt: skip


def what_was_read(file: BattleFile | RankingFile) -> list[str]:
    """How the file was understood, in sentences."""
    grouped_by = f"Intervals are clustered by {file.group_column!r}."
    what = "Battles" if hasattr(file, "battles") else "Rankings"
    alone = f"{what} are taken as independent: give --cluster COLUMN if some depend on each other."
    left_out = [f"Left out {plural(n, 'row')} {reason}." for reason, n in file.dropped.items()]
    return [alone if file.group_column is None else grouped_by, *file.remarks, *left_out]


def _equations(option: str, text: str | None) -> dict[str, str]:
    """From "turn=1,language=en" to a dictionary."""
    parts = [part.partition("=") for part in split_names(text) or []]
    if not all(name and sign for name, sign, _ in parts):
        refuse(option, f"Write NAME=VALUE: got {text!r}.")
    return {name.strip(): value.strip() for name, _, value in parts}


def _anchor(text: str | None, items: list[Any]) -> tuple[Any, float] | None:
    """The item whose rating is fixed, and its rating."""
    if text is None:
        return None
    name, _, value = text.rpartition("=")
    known = {str(item): item for item in items}
    try:
        rating = float(value)
    except ValueError:
        rating = float("nan")
    if rating != rating or name not in known:
        near = get_close_matches(name, known, 1)
        hint = f" Did you mean {near[0]!r}?" if near and near[0] != name else ""
        refuse("anchor", f"Write ITEM=RATING with an item of the battles: got {text!r}.{hint}")
    return known[name], rating


def rating_note(board: Any, *, elo: bool, anchor: tuple[Any, float] | None) -> str:
    """What ratings are, and where they are zero."""
    zero = "with mean 1,000" if elo else "relative to their mean"
    if anchor is not None:
        zero = f"relative to {anchor[0]}, which has {anchor[1]:g}"
    return f"Ratings are in {board.unit(elo=elo)}, {zero}."


def covariate_table(board: Any, units: dict[str, str], *, elo: bool) -> Table:
    """The coefficients, and what they are per."""
    from rankwise.data.battles import SCALED
    from rankwise.data.rankings import Rankings
    from rankwise.tables import Column

    table = board.coefficients(elo=elo).to_table()
    of_rankings = isinstance(board.battles_, Rankings)  # their columns are of items, as they are
    per = [units.get(name, "1" if of_rankings else "being first") for name in board.coef_names_]
    rows = tuple((row[0], each, *row[1:]) for row, each in zip(table.rows, per, strict=True))
    unit = board.unit(elo=elo)
    whose = "an" if of_rankings else "the first"
    note_text = f"By how many {unit} a covariate raises the rating of {whose} item, per change."
    if SCALED in per:
        note_text += (
            " With columns NAME_a and NAME_b, it is (a - b) / (a + b + 1), in standard deviations."
        )
    return replace(
        table, columns=(table.columns[0], Column("per"), *table.columns[1:]), rows=rows,
        note=note_text,
    )  # fmt: skip


def without_style(board: Any, standings: Any, battles: Any, **how: Any) -> Table:
    """Ratings with and without the covariates, side by side; empty for items without battles."""
    from sklearn.base import clone

    from rankwise.leaderboard.board_tables import BoardTable, intervals

    other = clone(board).fit(replace(battles, context=None, context_names=None)).standings(**how)
    digits = 0 if standings.formats.get("rating") == ".0f" else 2
    spans = intervals(other["low"], other["high"], digits)
    shown = zip(other["item"], other["rating"], spans, other["battles"], strict=True)
    cells = {
        item: f"{rating:.{digits}f} ({span})" if met else "" for item, rating, span, met in shown
    }
    columns: dict[str, Any] = {"item": standings["item"], "rating": standings["rating"]}
    columns["without style"] = [cells.get(item, "") for item in standings["item"]]
    table = BoardTable(columns, {"rating": f".{digits}f"}).to_table()
    return replace(table, title="With and without style")


def shown_judges(board: Any) -> Table | None:
    """The judges with remarks, and those with most battles, as many as fit on a page.

    None if they differ in nothing.
    """
    table = board.judges()
    whole = table.to_table()
    if [column.name for column in whole.columns] == ["judge", "battles", "remark"]:
        return None
    if len(table) <= MOST_JUDGES:
        return whole
    remark, battles = table["remark"], table["battles"]
    order = sorted(range(len(table)), key=lambda k: (not remark[k], -battles[k]))[:MOST_JUDGES]
    counts = ", ".join(
        f"{remark.count(word):,} {word}" for word in ("adversary", "careless") if word in remark
    )
    text = f"{MOST_JUDGES} of {len(table):,} judges: those with remarks ({counts or 'none'}) first."
    return replace(whole, rows=tuple(whole.rows[k] for k in order), note=text)


def _content(
    board: Any, standings: Any, file: BattleFile | RankingFile, concerns: list[str], *, elo: bool
) -> dict[str, Any]:
    """All numbers of a leaderboard, for JSON."""
    unit, plain = board.unit(elo=elo), board.unit()
    return {
        "units": {"standings": unit, "coefficients": unit, "categories": unit, "deviations": plain},
        "schema": file.schema,
        "rows": file.n_rows,
        "battles": len(board.battles_),
        "dropped": file.dropped,
        "remarks": file.remarks,
        "warnings": concerns,
        "parameters": {k: v for k, v in board.get_params().items() if k != "random_state"},
        "penalty": board.penalty_,
        "half_life": board.half_life_,
        "drift": board.drift_,
        "tie": board.tie_ if board.tie_ == board.tie_ else None,
        "both_bad": board.both_bad_,
        "groups": board.n_groups_,
        "standings": standings.records(),
        "coefficients": board.coefficients(elo=elo).records(),
        "judges": board.judges().records() if len(board.judges_) else [],
        "item_ties": board.item_ties().records() if board.ties == "by item" else [],
        "categories": [] if board.width_ is None else board.categories(elo=elo).records(),
        "deviations": [] if board.width_ is None else board.deviations().records(),
        "shares": board.shares().records(),
    }


def _exact(value: Any) -> Any:
    """The same value, with ids as text where readers of JSON would round whole numbers."""
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_exact(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) > EXACT else value


@dataclass(frozen=True)
class ComparisonColumns:
    """Which column is what.

    Parameters
    ----------
    item : COLUMN, default=id, item, name or the first
        Ids in ITEMS.
    first : COLUMN, default=first, a, ...
        First items.
    second : COLUMN, default=second, b, ...
        Second items.
    outcome : COLUMN, default=outcome, ...
        win, tie, loss; 1, 0.5, 0; or the winner's id.
    weight : COLUMN, default=weight or count, if any
        Weights.
    group : COLUMN, default=group, prompt, rater, ..., if any
        Groups that are held out together.
    context : COLUMN,..., default=columns context_..., if any
        Features of the comparison itself.
    """

    item: str | None = None
    first: str | None = None
    second: str | None = None
    outcome: str | None = None
    weight: str | None = None
    group: str | None = None
    context: str | None = None


@grouped
def preferences(
    *,
    items: InputArgument,
    comparisons: Annotated[Path | None, typer.Argument(exists=True, dir_okay=False)] = None,
    out: Out = None,
    report: Path | None = None,
    force: Force = False,
    columns: ComparisonColumns,
    kernel: Literal["auto", "linear", "rbf"] = "auto",
    top: Positive = 10,
) -> None:
    """Rank items from comparisons, and predict the outcomes of new ones.

    Chooses a kernel and the strength of regularization by exact hold-outs. Each comparison, or each
    group of comparisons (of a prompt or a rater, for example), is predicted by rankers trained
    without it. Prints the accuracy of these predictions, beside a random guess and "the first one
    wins", the accuracy for pairs of new items, and the ranking of the items, with intervals if
    there are at most 300.

    Groups are never split. A column context_position, with 1 if the first item was shown on the
    left and -1 otherwise, gets a separate weight, which is not part of the scores of items.

    \b
    Examples:
      rankwise preferences items.csv votes.csv
      rankwise preferences items.csv votes.csv --group rater --report page.html -o model.rankwise
      rankwise preferences responses.csv   (prompt, chosen_length, rejected_length, ...)

    Parameters
    ----------
    items : ITEMS
        CSV file with an id and features of each item; or, alone, with a prompt and features
        chosen_... and rejected_... in each line.
    comparisons : [COMPARISONS]
        CSV file with two items and an outcome in each line.
    out : MODEL
        Where to write the model.
    report : FILE
        Where to write a page with tables and pictures, as .html.
    kernel : NAME
        Kernels to try: auto, linear or rbf.
    top : N
        Print the N best items.
    """
    check_page(report, items, comparisons, force=force)
    check_writable(out, items, comparisons, force=force)
    from rankwise.data import read_comparisons

    if comparisons is None:
        refuse_all(vars(columns), "It needs two files, ITEMS and COMPARISONS.")
    named = vars(columns) | {"context": split_names(columns.context) or []}
    data = read_comparisons(items, comparisons, **named)
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.cli.study_pages import KERNEL_ITEMS, PreferenceStudy, write_preferences
    from rankwise.persistence import save_model

    kernels: tuple[str, ...] = ("linear", "rbf") if kernel == "auto" else (kernel,)
    if kernel == "auto" and len(data.X) > KERNEL_ITEMS:
        kernels = ("linear",)
        note(f"{len(data.X):,} items: only a linear ranker is tried. Use --kernel rbf for more.")
    with interruptible(f"Holding out {len(data.comparisons):,} comparisons"):
        study = PreferenceStudy.of(data, kernels)
        show(study.tried_table())
        print()
        say(*study.conclusions())
        learned = study.learned_tables()
        if data.comparisons.items is not None:
            learned.insert(0, study.ranking_table(min(top, len(data.X))))
        if learned:
            print()
            show(*learned)
    source = items.name if comparisons is None else comparisons.name
    if report is not None:
        write_preferences(study, report, source)
    if out is not None:
        save_model(study.ranker, out)
        note(f"Wrote {out}: {study.ranker}, fitted to {len(data.comparisons):,} comparisons.")
    else:
        note("The model was not kept: give --out to write it to a file.")


@grouped
def auc(
    *,
    samples: InputArgument,
    label: str | None = None,
    positive: str | None = None,
    stratum: str | None = None,
    group: str | None = None,
    ignore: str | None = None,
    missing: Literal["refuse", "drop-rows", "drop-columns", "median"] = "refuse",
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    kernel: Literal["linear", "rbf"] = "linear",
    permutations: Annotated[int, typer.Option(min=0)] = 1000,
    seed: Seed = 0,
    roc: Path | None = None,
    report: Path | None = None,
    force: Force = False,
) -> None:
    """Rank samples of two classes, and report the AUC with its uncertainty.

    Every pair of samples of different classes is predicted by a ranker that was trained without
    both. First prints the area under the ROC curve of all pairs with an interval. It is optimistic,
    as alpha is chosen on the same pairs. Then prints the nested AUC, for which alpha is chosen
    without the samples that are compared, and its p-value from permuted labels. Ctrl-C prints and
    writes what is known by then. The page contains the ROC curve, and a paragraph for the methods
    section of a paper.

    With --stratum, samples are compared, and labels permuted, within hospitals, batches, ... With
    --group, all samples of two patients, ... are held out together, and the labels of patients are
    permuted.

    Columns of numbers, and of true and false, are features, columns of at most ten words become a
    feature for each word, and other columns are left out.

    \b
    Examples:
      rankwise auc samples.csv --label outcome
      rankwise auc samples.csv --label outcome --positive ill --stratum site --report page.html
      rankwise auc samples.parquet --label outcome --group patient --ignore visit

    Parameters
    ----------
    samples : SAMPLES
        CSV, TSV, JSON or Parquet file with a sample in each row.
    label : COLUMN
        The class of each sample. Needed.
    positive : VALUE, default=of two, the larger or last one
        The class to rank first.
    stratum : COLUMN, default=none
        Compare samples of the same hospital, batch, ... only.
    group : COLUMN, default=none
        Hold out samples of the same patient, ... together.
    ignore : COLUMN,..., default=none
        Columns to leave out.
    missing : HOW
        With missing values: refuse, drop-rows, drop-columns or median.
    separator : CHARACTER, default=found in the first line
        Separator of the columns of a CSV file.
    decimal : CHARACTER, default=.
        Decimal mark of numbers that are text, as in a CSV file.
    thousands : CHARACTER, default=none
        Mark between the thousands of numbers, as in 58,300.
    kernel : NAME
        linear or rbf.
    permutations : N
        Permutations of the labels; 0 for no test.
    seed : N
        Seed of permutations and folds.
    roc : FILE, default=nowhere
        Where to draw the ROC curve: .svg, .pdf or .png.
    report : FILE, default=nowhere
        Where to write a page for a supplement, as .html.
    """
    check_page(report, samples, force=force)
    check_writable(roc, samples, force=force)
    if roc is not None and (stratum is not None or group is not None):
        refuse("roc", "There is no ROC curve of all samples with --stratum or --group.")
    from rankwise.data.sample_files import read_samples, two_valued

    separator = "\t" if separator == "\\t" else separator
    if label is None:
        found = two_valued(samples, separator)
        several = f"Columns with two different values: {', '.join(found)}. " if found else ""
        line = command_line({"label": (found or ["COLUMN"])[0]})
        refuse("label", f"Name the column of classes. {several}For example:\n  {line}")
    data = read_samples(
        samples, label, positive=positive, stratum=stratum, group=group,
        ignore=split_names(ignore) or [], missing=missing, separator=separator, decimal=decimal,
        thousands=thousands,
    )  # fmt: skip
    if report is not None and len(data.columns) > LISTED:
        check_writable(columns_file(report), samples, force=force)
    if report is not None or roc is not None:
        from rankwise.plots import require_matplotlib

        require_matplotlib()
    say(data.headline())
    print(flush=True)
    if positive is None:
        note(f"To rank the other class first, give --positive {shlex.quote(data.classes[0])}.")
    copies = data.copies()
    if copies and group is None:
        first, second = copies[0]
        note(
            f"{len(copies)} samples have the same features as an earlier one (lines {first} and "
            f"{second}). If they are copies, the AUC is too high: remove them, or name a column "
            "with --group so that they are held out together."
        )
    for name in data.row_counters():
        note(
            f"The column {name!r} counts the rows. If it is not a measurement, leave it out with "
            "--ignore."
        )
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.cli.auc_study import AUCStudy

    study = AUCStudy(data, kernel)
    show(study.columns_table(SHOWN))
    print(flush=True)
    try:
        with interruptible(f"Holding out pairs of {len(data.y):,} samples"):
            study = AUCStudy.of(data, kernel)
            if study.interval is not None:
                say(f"{study.all_pairs()} The nested AUC follows.")
                sys.stdout.flush()
            study = study.with_nested(seed)
            study = study.with_test(permutations, seed)
    except KeyboardInterrupt:
        if study.interval is not None:
            _show_auc(study, roc, report, samples.name)
        raise
    _show_auc(study, roc, report, samples.name)


def columns_file(report: Path) -> Path:
    """Where all columns are listed, if there are too many for a page."""
    return report.with_name(f"{report.stem}-columns.csv")


def _show_auc(study: AUCStudy, roc: Path | None, report: Path | None, source: str) -> None:
    """Print and write what is known."""
    print()
    show(study.table())
    print()
    say(*study.conclusions())
    if roc is not None:
        from rankwise.plots import save_figure

        save_figure(study.draw_roc().figure, roc)
        note(f"Wrote {roc}.")
    if report is not None:
        from rankwise.cli.auc_study import write_auc

        write_auc(study, report, source)
