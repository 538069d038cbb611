"""rankwise compare: several models on the same queries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rankwise.cli.data_options import (
    ColumnOptions,
    FeaturesOption,
    FillOption,
    FormatOption,
)
from rankwise.cli.input_files import distinct_names, read_model, scores_of
from rankwise.cli.options import METRIC_HELP, grouped, input_argument, option, refuse
from rankwise.cli.terminal import progress, show

FORMATS = ("text", "markdown", "latex", "json")


@dataclass(frozen=True, kw_only=True)
class ComparedTable(ColumnOptions):
    """How to read a table; --format is that of the result."""

    data_format: FormatOption = None

    @property
    def file_format(self) -> str | None:
        return self.data_format


@grouped
def compare(
    *,
    files: Annotated[
        list[Path],
        input_argument(
            metavar="MODEL MODEL... DATA",
            help="Two or more model files, and a LETOR file or table.",
        ),
    ],
    metrics: Annotated[
        str | None,
        option(
            "NAME,NAME",
            f"What to compare: {METRIC_HELP}",
            "ndcg@10,map,disagreement, or disagreement where labels are not grades",
        ),
    ] = None,
    relevant: Annotated[
        float, option("LABEL", "Rows with at least this label are relevant (MAP, MRR, ...).")
    ] = 1.0,
    level: Annotated[float, option("SHARE", "Confidence level of the intervals.")] = 0.95,
    permutations: Annotated[
        int, option("N", "Number of permutations of each test.", min=1)
    ] = 10_000,
    format: Annotated[
        str, option("NAME", f"Of the tables: {', '.join(FORMATS)}.", autocompletion=lambda: FORMATS)
    ] = "text",
    fill: FillOption = None,
    features: FeaturesOption = None,
    table: ComparedTable,
) -> None:
    """Compare models on a LETOR file or a table: which is better, and is it more than chance?

    Prints the mean of each metric for each model, and the difference of each pair of models on the
    same queries, with an interval by Student's t distribution. The p-value is that of a
    randomization (permutation) test: how often would the difference be as large if the two models
    were exchanged at random on each query? It is adjusted by Holm's method for the number of
    tests, so that with more models and metrics, larger differences are needed to be significant.

    Use queries that no model was trained or chosen on.

    \b
    Examples:
      rankwise compare linear.rankwise rbf.rankwise test.txt
      rankwise compare a.rankwise b.rankwise c.rankwise test.txt --metrics ndcg@5,MRR
      rankwise compare a.rankwise b.rankwise test.txt --format latex > table.tex
    """
    import json

    from rankwise.errors import DataError, ParameterError

    if format not in FORMATS:
        refuse("format", f"Choose from {', '.join(FORMATS)}: got {format!r}.")
    *models, path = files
    if len(models) < 2:
        got = ", ".join(map(str, files))
        raise ParameterError(
            f"Give at least two models and a data file: got {got}. Try 'rankwise compare --help'."
        )
    names = distinct_names(models)
    by_features: dict[Any, Any] = {}
    scores: dict[str, Any] = {}
    for name, model in zip(names, models, strict=True):
        file = read_model(model)
        width = getattr(file.model, "n_features_in_", None)
        key = width, tuple(getattr(file.model, "feature_names_in_", ()))
        if key not in by_features:
            by_features[key] = table.read_for(file, model, path, fill, features)
        data = by_features[key]
        scores[name] = scores_of(file, data)
    if data.qid is None:
        raise DataError(f"{path} has no query ids, and models are compared over queries.")
    from rankwise.metrics import compare_rankings

    chosen = None if metrics is None else [name.strip() for name in metrics.split(",")]
    with progress("Comparing"):
        found = compare_rankings(
            data.y, scores, data.qid, metrics=chosen, relevant=relevant, level=level,
            n_permutations=permutations,
        )  # fmt: skip
    means, differences = found.means_table(), found.to_table()
    if format == "text":
        show(means)
        print()
        show(differences)
    elif format == "markdown":
        print(f"{means.to_markdown()}\n\n{differences.to_markdown()}")
    elif format == "latex":
        print(f"{means.to_latex()}\n\n{differences.to_latex()}")
    else:
        print(json.dumps(found.to_dict(), indent=2))
