"""rankwise card: what a model is, how well it ranks, and what it cannot do."""

from __future__ import annotations

from rankwise.cli.data_options import ColumnOptions, one_query, read_model, read_names
from rankwise.cli.options import Force, InputFile, ModelFile, Out, grouped, refuse
from rankwise.cli.terminal import check_writable, note, progress
from rankwise.routing import last_step

SUFFIXES = (".md", ".html")


@grouped
def card(
    *,
    model: ModelFile,
    out: Out = None,
    rows: InputFile = None,
    features: InputFile = None,
    force: Force = False,
    table: ColumnOptions,
) -> None:
    """Write a model card: data, parameters, held-out scores, features by weight, and limits.

    Scores come from --rows, with 95% intervals over queries, and from the hold-outs in the model
    file. Use rows that the model was not fitted to. The features of a linear model are shown by
    weight. For other models, features are shown by their importance for the order of --rows.

    Pictures of a Markdown card are written beside it, as SVG files.

    \b
    Examples:
      rankwise card model.rankwise --rows test.txt
      rankwise card model.rankwise --rows test.txt --out card.html
      rankwise card model.rankwise --features names.txt --out card.md

    Parameters
    ----------
    out : FILE, default=MODEL.card.md
        Where to write the card: FILE.md for Markdown, FILE.html for a page.
    rows : DATA, default=none
        Rows with labels that the model was not fitted to, for its scores: a LETOR file or a table.
    features : FILE, default=names in the model, or f1, f2, ...
        Names of the features, one per line.
    """
    from rankwise.cli.card_page import CardRows, card_page
    from rankwise.report import write_markdown

    out = model.with_suffix(".card.md") if out is None else out
    if out.suffix.lower() not in SUFFIXES:
        refuse("out", f"The name of a card ends with {' or '.join(SUFFIXES)}: got {out.name!r}.")
    if rows is None:
        table.refuse_without_rows()
    check_writable(out, model, rows, features, force=force)
    file = read_model(model)
    given = None
    if rows is not None:
        data = table.read_for(file, model, rows)
        fitted = getattr(last_step(file.model), "n_queries_", 1)
        qid = one_query(data) if fitted > 1 else data.qid
        given = CardRows(rows.name, data.X, data.y, qid)
    with progress("Writing the card"):
        page = card_page(file, model.name, given, read_names(features))
        if out.suffix.lower() == ".html":
            page.write(out)
        else:
            write_markdown(page, out)
    note(f"Wrote {out}.")
