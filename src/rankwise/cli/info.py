"""rankwise info: what is in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankwise.cli.data_options import (
    TableOptions,
    in_one_line,
    read_letor_file,
    read_model,
    seen_by,
)
from rankwise.cli.options import InputArgument, Json, grouped
from rankwise.cli.terminal import show
from rankwise.routing import last_step
from rankwise.tables import Column, Table

if TYPE_CHECKING:
    from rankwise.persistence import ModelFile

FEW_LABELS = 12  # up to this many are listed one by one
BAR = 30  # characters of the longest bar


@grouped
def info(*, file: InputArgument, as_json: Json = False, table: TableOptions) -> None:
    """Describe a LETOR file, a table or a model file.

    For data: rows, features and the share of values that are not zero, queries and their sizes,
    labels, and the pairs that a ranker can learn from. For a table, also how each column is
    understood: start here with a CSV or Parquet file. For a model: its type, its parameters and
    what it was fitted to.

    \b
    Examples:
      rankwise info train.txt
      rankwise info model.rankwise
      rankwise info train.txt.gz --json
      rankwise info train.csv
      rankwise info train.parquet --query search_id --label clicks

    Parameters
    ----------
    file : FILE
        A LETOR file, a table or a model file.
    """
    import json
    from zipfile import is_zipfile

    is_model = file.is_file() and is_zipfile(file)  # a pipe can be opened once
    columns = None
    if is_model:
        facts = model_facts(read_model(file))
    elif table.is_table(file):
        data = table.read_table(file, needs_label=False, needs_features=False, keep_all=True)
        facts, columns = data_facts(data), data.columns
    else:
        facts = data_facts(read_letor_file(file, fill=table.fill))
    if as_json:
        more = {} if columns is None else {"columns": json.loads(columns.to_json())["rows"]}
        print(json.dumps({"file": str(file), **facts, **more}, indent=2))
        return
    print(f"{file}: {'a model' if is_model else 'ranking data'}")
    if columns is not None:
        print()
        show(columns)
    print(f"\n{_text(facts)}")


def data_facts(data: Any) -> dict[str, Any]:
    """Rows, queries and labels of data."""
    import numpy as np

    from rankwise.backends.arrays import is_sparse
    from rankwise.graph import PreferenceGraph, QueryGroups

    n_rows, n_features = data.X.shape
    groups = QueryGroups.of(data.qid, n_rows)
    sizes = groups.sizes
    numbers: Any = data.X
    if hasattr(numbers, "columns"):
        numbers = numbers.select_dtypes("number")
    filled = numbers.nnz if is_sparse(numbers) else int(np.count_nonzero(numbers))
    size = numbers.shape[0] * numbers.shape[1]
    facts = {
        "rows": n_rows,
        "features": n_features,
        "values not zero": f"{filled / max(size, 1):.1%}",
        "queries": groups.n_groups if data.qid is not None else "none: one global ranking",
        "rows per query": {
            "least": int(sizes.min()),
            "median": float(np.median(sizes)),
            "most": int(sizes.max()),
        },
    }
    if data.y is None:
        return {**facts, "labels": "none"}
    unlike = PreferenceGraph.from_scores(data.y, data.qid, n_rows=n_rows, ties="exclude")
    pairs = PreferenceGraph.from_groups(data.qid, n_rows=n_rows)
    lowest, highest = (np.full(groups.n_groups, end) for end in (np.inf, -np.inf))
    np.minimum.at(lowest, groups.codes, data.y)
    np.maximum.at(highest, groups.codes, data.y)
    return {
        **facts,
        "pairs within queries": pairs.n_pairs,
        "pairs with different labels": unlike.n_pairs,
        "queries without two labels": int((lowest == highest).sum()),
        **_label_facts(data.y),
    }


def _label_facts(y: Any) -> dict[str, Any]:
    """The number of rows with each label; where there are many labels, their quantiles."""
    import numpy as np

    labels, counts = np.unique(y, return_counts=True)
    if len(labels) <= FEW_LABELS:
        return {"rows per label": {f"{v:g}": int(n) for v, n in zip(labels, counts, strict=True)}}
    quantiles = np.quantile(y, [0, 0.25, 0.5, 0.75, 1])
    names = ("smallest", "lower quartile", "median", "upper quartile", "largest")
    return {
        "different labels": len(labels),
        "labels": dict(zip(names, quantiles.tolist(), strict=True)),
    }


def model_facts(file: ModelFile) -> dict[str, Any]:
    """Type, parameters and training rows of a model."""
    from rankwise import AutoRanker

    model = file.model
    ranker = last_step(model)
    facts: dict[str, Any] = {"type": type(model).__name__}
    if hasattr(model, "steps"):
        facts["steps"] = ", ".join(type(step).__name__ for _, step in model.steps)
    facts["features"] = getattr(model, "n_features_in_", None)
    seen = seen_by(getattr(model, "steps", ()))
    if seen is not None:
        facts["features that occur"] = seen.n_features_out_
    if hasattr(model, "feature_names_in_"):
        facts["names"] = ", ".join(model.feature_names_in_)
    facts["scaling"] = getattr(ranker, "scale_", None)
    if hasattr(ranker, "sides_"):
        facts["table"] = f"{ranker.n_rows_} rows, {ranker.n_columns_} columns"
        facts["cells fitted to"] = ranker.n_cells_
    facts["queries fitted to"] = getattr(ranker, "n_queries_", None)
    if hasattr(ranker, "X_fit_"):
        facts["training rows kept"] = int(ranker.X_fit_.shape[0])
    if hasattr(ranker, "rank_"):
        facts["landmarks"] = f"{len(ranker.dual_coef_)}, of which {ranker.rank_} count"
    facts["trees"] = getattr(ranker, "n_estimators_", None)
    facts["alpha"] = getattr(ranker, "alpha_", None)
    if isinstance(ranker, AutoRanker):
        facts["expected on new queries"] = str(ranker.score_estimate_)
        facts["parts"] = {
            f"{k}: {part.name}": in_one_line(part.ranker) for k, part in enumerate(ranker.parts_, 1)
        }
    facts["form"] = getattr(ranker, "solver_", None)
    facts["written by"] = f"rankwise {file.version}" if file.version else None
    facts["parameters"] = {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in ranker.get_params(deep=False).items()
    }
    return {name: value for name, value in facts.items() if value is not None}


def _text(facts: dict[str, Any]) -> str:
    """Facts as a list, and facts with several values as tables below it."""
    several = {name: value for name, value in facts.items() if isinstance(value, dict)}
    single = [(name, _word(value)) for name, value in facts.items() if name not in several]
    parts = [Table((Column(""), Column("")), tuple(single))]
    for name, values in several.items():
        if name == "rows per label":
            most = max(values.values())
            bars = [(k, n, "█" * max(1, round(BAR * n / most))) for k, n in values.items()]
            parts.append(Table((Column("label"), Column("rows"), Column("")), tuple(bars)))
        else:
            rows = [(key, _word(value)) for key, value in values.items()]
            parts.append(Table((Column(name), Column("")), tuple(rows)))
    return "\n\n".join(map(str, parts))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "None"
    return Column("", "g").show(value)
