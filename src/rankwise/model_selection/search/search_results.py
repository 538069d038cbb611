"""The candidates of a search as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.tables import require_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def candidate_names(candidates: Sequence[dict[str, Any]]) -> list[str]:
    """The parameters in which candidates differ, as text; all parameters of a single candidate."""
    names = dict.fromkeys(name for params in candidates for name in params)
    varied = [
        name
        for name in names
        if len({_short(params[name]) if name in params else None for params in candidates}) > 1
    ]
    texts = []
    for params in candidates:
        shown = [name for name in (varied or names) if name in params]
        parts = (f"{name.rpartition('__')[2]} {_short(params[name])}" for name in shown)
        texts.append(", ".join(parts))
    counts = {text: texts.count(text) for text in texts}
    return [
        text if counts[text] == 1 else f"{text} (candidate {k})" for k, text in enumerate(texts)
    ]


def candidates_frame(
    candidates: Sequence[dict[str, Any]], results: dict[str, Any], splits: Array
) -> Any:
    """A pandas frame of the candidates, the best first."""
    frame = require_pandas("cv_results_").DataFrame(candidates)
    best = int(np.argmin(results["rank_test_score"]))
    behind = splits[best] - splits
    behind = behind[:, np.isfinite(behind).all(axis=0)]
    frame["score"] = results["mean_test_score"]
    frame["behind_best"] = results["mean_test_score"][best] - results["mean_test_score"]
    n = behind.shape[1]
    frame["standard_error"] = behind.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.nan
    frame["rank"] = results["rank_test_score"]
    return frame.sort_values("rank", kind="stable")


def plot_candidates(
    candidates: Sequence[dict[str, Any]], splits: Array, scorer: Any, **options: Any
) -> Axes:
    """Paired differences of the candidates from the best, in the metric itself."""
    from rankwise.plots import plot_differences_from_best

    if not splits.shape[1]:
        raise DataError(
            'cv="leave_pair_out" and "leave_item_out" have no splits, so that candidates cannot be '
            "compared split by split. Plot the result of leave_pair_out, or use a number of "
            "folds, as in cv=5."
        )
    values = -splits if scorer.negated else splits
    named = dict(zip(candidate_names(candidates), values, strict=True))
    metric = scorer.scoring if isinstance(scorer.scoring, str) else "score"
    return plot_differences_from_best(
        named, metric=metric, greater_is_better=not scorer.negated, **options
    )


def _short(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    text = str(value)
    return text if len(text) <= 30 else f"{text[:29]}\u2026"
