"""What rankers and transformers that scale within queries say when queries are missing."""

from __future__ import annotations

import warnings

from rankwise.errors import RankwiseWarning


def warn_of_missing_queries(
    owner: object, method: str, n_rows: int, n_queries: int, most_rows: int, stacklevel: int
) -> None:
    """Warn if rows without qid can hardly be those of a single query."""
    if n_queries > 1 and n_rows > most_rows:
        warnings.warn(
            f"{type(owner).__name__} scales features within queries and was fitted on {n_queries} "
            f"queries of at most {most_rows} rows, but {method} got {n_rows} rows without qid and "
            "scales them as one query. Pass qid. In a pipeline, use "
            "sklearn.set_config(enable_metadata_routing=True) and pass qid to the pipeline, or use "
            "the parameter scale of the ranker in place of a transformer.",
            RankwiseWarning,
            stacklevel=stacklevel + 1,
        )
