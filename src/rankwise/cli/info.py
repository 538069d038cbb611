"""rankwise info: what a file holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.inputs import read_data, read_model

if TYPE_CHECKING:
    from rankwise.data import LetorData
    from rankwise.persistence import ModelFile

FEW_LABELS = 12  # up to so many, each is listed with its rows
BAR = 30


def info(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="A LETOR file or a model file."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Tell what a LETOR file or a model file holds.

    Of data: rows, features and how many of their values are not zero, queries and their sizes,
    labels, and the pairs that a ranker can learn from. Of a model: its type and parameters, and
    what it was fitted to.

    \b
    Examples:
      rankwise info train.txt
      rankwise info model.rankwise
      rankwise info train.txt.gz --json
    """
    import json
    from zipfile import is_zipfile

    is_model = is_zipfile(file)
    facts = model_facts(read_model(file)) if is_model else data_facts(read_data(file))
    if as_json:
        print(json.dumps({"file": str(file), **facts}, indent=2))
        return
    print(f"{file}: {'a model' if is_model else 'ranking data'}")
    print("\n".join(_lines(facts)))


def data_facts(data: LetorData) -> dict[str, Any]:
    """What rows, queries and labels a LETOR file has."""
    import numpy as np
    from scipy import sparse

    from rankwise.graph import PreferenceGraph, QueryGroups

    n_rows, n_features = data.X.shape
    groups = QueryGroups.of(data.qid, n_rows)
    sizes = groups.sizes
    filled = data.X.nnz if sparse.issparse(data.X) else int(np.count_nonzero(data.X))
    unlike = PreferenceGraph.from_scores(data.y, data.qid, n_rows=n_rows, ties="exclude")
    pairs = PreferenceGraph.from_groups(data.qid, n_rows=n_rows)
    lowest, highest = (np.full(groups.n_groups, end) for end in (np.inf, -np.inf))
    np.minimum.at(lowest, groups.codes, data.y)
    np.maximum.at(highest, groups.codes, data.y)
    return {
        "rows": n_rows,
        "features": n_features,
        "values not zero": f"{filled / max(n_rows * n_features, 1):.1%}",
        "queries": groups.n_groups if data.qid is not None else "none: one global ranking",
        "rows per query": {
            "least": int(sizes.min()),
            "median": float(np.median(sizes)),
            "most": int(sizes.max()),
        },
        "pairs within queries": pairs.n_pairs,
        "pairs with different labels": unlike.n_pairs,
        "queries without two labels": int((lowest == highest).sum()),
        "labels": _label_facts(data.y),
    }


def _label_facts(y: Any) -> dict[str, Any]:
    """Rows of every label, or where there are many labels, how they are spread."""
    import numpy as np

    labels, counts = np.unique(y, return_counts=True)
    if len(labels) <= FEW_LABELS:
        return {f"{label:g}": int(n) for label, n in zip(labels, counts, strict=True)}
    quantiles = np.quantile(y, [0, 0.25, 0.5, 0.75, 1])
    names = ("smallest", "lower quartile", "median", "upper quartile", "largest")
    return {"different": len(labels), **dict(zip(names, quantiles.tolist(), strict=True))}


def model_facts(file: ModelFile) -> dict[str, Any]:
    """Type, parameters and what is known of the training rows."""
    model = file.model
    ranker = model.steps[-1][1] if hasattr(model, "steps") else model
    facts: dict[str, Any] = {"type": type(model).__name__}
    if ranker is not model:
        facts["steps"] = ", ".join(type(step).__name__ for _, step in model.steps)
    facts["features"] = getattr(model, "n_features_in_", None)
    facts["features normalized per query"] = file.normalized_per_query
    facts["queries fitted to"] = getattr(ranker, "n_queries_", None)
    if hasattr(ranker, "X_fit_"):
        facts["training rows kept"] = int(ranker.X_fit_.shape[0])
    if hasattr(ranker, "rank_"):
        facts["landmarks"] = f"{len(ranker.dual_coef_)}, of which {ranker.rank_} count"
    facts["form"] = getattr(ranker, "solver_", None)
    facts["written by"] = f"rankwise {file.version}" if file.version else None
    facts["parameters"] = {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in ranker.get_params(deep=False).items()
    }
    return {name: value for name, value in facts.items() if value is not None}


def _lines(facts: dict[str, Any]) -> list[str]:
    width = max(map(len, facts))
    lines = []
    for name, value in facts.items():
        if name == "labels" and "different" not in value:
            lines += [f"  {name}", *_histogram(value)]
        elif name == "rows per query":
            spread = f"{value['least']:,} to {value['most']:,}, median {value['median']:g}"
            lines.append(f"  {name:<{width}}  {spread}")
        elif isinstance(value, dict):
            inner = max(map(len, value))
            lines.append(f"  {name}")
            lines += [f"    {key:<{inner}}  {_show(entry)}" for key, entry in value.items()]
        else:
            lines.append(f"  {name:<{width}}  {_show(value)}")
    return lines


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _histogram(counts: dict[str, int]) -> list[str]:
    names = max(map(len, counts))
    numbers = max(len(f"{count:,}") for count in counts.values())
    most = max(counts.values())
    return [
        f"    {name:>{names}}  {count:>{numbers},}  {'█' * max(1, round(BAR * count / most))}"
        for name, count in counts.items()
    ]
