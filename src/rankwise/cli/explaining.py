"""rankwise explain: why a row of a file is ranked above another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.data_options import (
    Features,
    TableOptions,
    in_one_line,
    read_model,
)
from rankwise.cli.options import (
    Force,
    InputArgument,
    Json,
    ModelFile,
    Positive,
    grouped,
    refuse,
)
from rankwise.cli.terminal import check_page, note, progress, show, show_json, write_page
from rankwise.routing import last_step
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.inspection import PairExplanation, RankingExplanation

Position = Annotated[int | None, typer.Option(min=1)]
PICTURES = 10  # of pairs on a page


@dataclass(frozen=True, kw_only=True)
class QueryOptions(TableOptions):
    """How to read a file, and which of its queries to explain.

    Parameters
    ----------
    query : ID, default=the only query
        The query to explain. COLUMN=ID also names the column of query ids, as in search_id=17.
    """


@grouped
def explain(
    *,
    model: ModelFile,
    data: InputArgument,
    above: Position = None,
    below: Position = None,
    top: Positive = 20,
    report: Path | None = None,
    as_json: Json = False,
    force: Force = False,
    features: Features = None,
    table: QueryOptions,
) -> None:
    """Explain why a row is ranked above another: what each feature adds to the difference.

    Ranks the rows of a query, and explains the row at position --above against the row at position
    --below. Without positions, it explains each row against the next one. The contributions of all
    features sum to the difference of the two scores. Features are the columns of DATA.

    For linear and additive models, contributions are the terms of the sum. For models with rbf or
    laplacian kernels, they are Shapley values, and for boosted trees LightGBM's contributions. For
    other models, Shapley values are sampled, and have standard errors.

    \b
    Examples:
      rankwise explain model.rankwise rows.csv --query 17 --above 3 --below 5
      rankwise explain model.rankwise rows.csv --query 17
      rankwise explain model.rankwise rows.csv --query search_id=17 --report page.html

    Parameters
    ----------
    data : DATA
        LETOR file or table; it needs no labels.
    above : POSITION, default=each
        Position of the row that is above, from 1.
    below : POSITION, default=the next one
        Position of the row that is below.
    top : N
        How many features to show, or, without positions, how many rows.
    report : PAGE
        Write a page with the reasons and pictures to this HTML file.
    """
    from rankwise.inspection import explain as explain_pair
    from rankwise.inspection import explain_ranking
    from rankwise.plots import require_matplotlib

    if above is None and below is not None:
        refuse("above", "Give it as well, or leave out --below.")
    if above is not None and below is None:
        below = above + 1
    if report is not None:
        require_matplotlib()
    check_page(report, model, data, force=force)
    column, equals, wanted = (table.query or "").rpartition("=")
    found = replace(table, query=column if equals else None)
    file = read_model(model)
    rows = found.read_for(file, model, data, features, needs_label=False)
    given: dict[str, Any] = {"X": rows.X, "qid": rows.qid}
    if table.query is not None:
        if rows.qid is None:
            refuse("query", f"{data} has no query ids: leave it out.")
        given["query"] = wanted
    if above is not None and below is not None:
        with progress("Explaining"):
            why = explain_pair(file.model, above, below, **given)
        if as_json:
            show_json(_as_dict(why))
        else:
            show(why.to_table(top=top))
        pairs, sections = [why], lambda: _pair_sections(why, top)
        summary = "What each feature adds to the difference of the scores of two rows."
    else:
        ids = getattr(rows, "ids", None)
        with progress("Explaining"):
            ranking = explain_ranking(file.model, top=top, ids=ids, **given)
        if as_json:
            labels = ranking.rows.tolist() if ranking.ids is None else list(map(str, ranking.ids))
            named = zip(ranking.pairs, labels, labels[1:], strict=False)
            show_json([_as_dict(pair) | {"rows": [one, two]} for pair, one, two in named])
        else:
            show(ranking.to_table())
        pairs, sections = ranking.pairs, lambda: _ranking_sections(ranking)
        summary = f"{plural(len(ranking), 'row')}, each with the reason why it is above the next."
    if report is not None:
        name = "the ranking" if table.query is None else f"query {wanted}"
        model_words = f"`{type(last_step(file.model)).__name__}` from {model.name}. {summary}"
        write_page(report, "explain", f"Why: {name} of {data.name}", model_words, sections())
    if not pairs:
        note("The query has one row: there is nothing to explain.")
    elif as_json:
        note(in_one_line(file.model))


def _as_dict(why: PairExplanation) -> dict[str, Any]:
    """An explanation as JSON holds it."""
    above, below = why.positions or (None, None)
    features = [
        {
            "feature": why.names[k],
            "contribution": float(why.contributions[k]),
            **({} if why.standard_errors is None else {
                "standard_error": float(why.standard_errors[k])}),
        }
        for k in why.order
    ]  # fmt: skip
    found: dict[str, Any] = {
        "above": above,
        "below": below,
        "scores": list(why.scores),
        "difference": why.difference,
        "sentence": why.sentence,
        "method": why.method,
        "features": features,
    }
    return found if why.probability is None else found | {"probability": why.probability}


def _pair_sections(why: PairExplanation, top: int) -> list[Any]:
    from rankwise.report import Figure, Section, Text

    above, below = why.positions or (0, 0)
    blocks: list[Any] = [Text(why.sentence)]
    if len(why.order):
        caption = "Steps from the score of the row below to the score of the row above."
        blocks.append(Figure.of(why.plot(top=min(top, 12)), why.sentence, caption))
    blocks.append(replace(why.to_table(top=top), title=""))  # which is the sentence
    word = "above" if above < below else "below"
    return [Section(f"Position {above} {word} position {below}", blocks)]


def _ranking_sections(ranking: RankingExplanation) -> list[Any]:
    from rankwise.report import Section

    sections = [Section("The order", [ranking.to_table()])]
    for pair in ranking.pairs[:PICTURES]:
        sections += _pair_sections(pair, 12)
    return sections
