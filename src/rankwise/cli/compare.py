"""rankwise compare: several models on the same queries."""

from __future__ import annotations

from typing import Any, Literal

from rankwise.cli.data_options import (
    ColumnOptions,
    Features,
    distinct_names,
    read_model,
    scores_of,
)
from rankwise.cli.options import InputArguments, Positive, grouped
from rankwise.cli.terminal import progress, show
from rankwise.errors import DataError, ParameterError


@grouped
def compare(
    *,
    files: InputArguments,
    metrics: str | None = None,
    relevant: float = 1.0,
    level: float = 0.95,
    permutations: Positive = 10_000,
    format: Literal["text", "markdown", "latex", "json"] = "text",
    features: Features = None,
    table: ColumnOptions,
) -> None:
    """Compare models on a LETOR file or a table: which is better, and is it more than chance?

    Prints the mean of each metric for each model, and the difference of each pair of models on the
    same queries, with an interval by Student's t distribution. The p-value comes from a
    randomization (permutation) test, which exchanges the two models at random on each query. It is
    adjusted by Holm's method for the number of tests: with more models and metrics, only larger
    differences are significant.

    Use queries that no model was trained or chosen on.

    \b
    Examples:
      rankwise compare linear.rankwise rbf.rankwise test.txt
      rankwise compare a.rankwise b.rankwise c.rankwise test.txt --metrics ndcg@5,MRR
      rankwise compare a.rankwise b.rankwise test.txt --format latex > table.tex

    Parameters
    ----------
    files : MODEL MODEL... DATA
        Two or more model files, and a LETOR file or table.
    metrics : NAME,NAME, default=ndcg@10,map,disagreement, or disagreement if labels are not grades
        Metrics to compare: ndcg@10, MAP, MRR, precision@5, disagreement, auc, ... A wrong name
        lists them all.
    relevant : LABEL
        Rows with at least this label are relevant (MAP, MRR, ...).
    level : SHARE
        Confidence level of the intervals.
    permutations : N
        Number of permutations of each test.
    format : NAME
        Format of the result: text, markdown, latex or json.
    """
    import json

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
            by_features[key] = table.read_for(file, model, path, features)
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
        show(means, differences)
    elif format != "json":
        print(*(getattr(shown, f"to_{format}")() for shown in (means, differences)), sep="\n\n")
    else:
        print(json.dumps(found.to_dict(), indent=2))
