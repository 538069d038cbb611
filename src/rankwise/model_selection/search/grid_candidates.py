"""The candidates of a parameter grid, and the table of their results."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from rankwise.backends.arrays import Array
from rankwise.errors import ParameterError
from rankwise.model_selection.search.refits import least_squares_name
from rankwise.parameters import check_alphas


@dataclass(frozen=True)
class Batch:
    """Candidates that differ only in the alpha of a least-squares ranker; or one candidate.

    `alphas` is None if there is no least-squares ranker, or if it chooses alpha itself.
    """

    candidates: list[int]
    estimator: Any
    alphas: list[float] | None


@dataclass(frozen=True)
class Outcome:
    """Held-out scores of a batch, with a row for each of its candidates.

    `splits`, `fit_time` and `score_time` have a column for each split. Without splits, `splits` has
    no columns, and the times have one. `predictions`, if they are kept, are those of the held-out
    rows of all splits. `shared` names what was computed from all rows; see `HeldOutScores`.
    """

    mean: Array
    std: Array
    splits: Array
    fit_time: Array
    score_time: Array
    predictions: Array | None = None
    shared: tuple[str, ...] = ()


def list_candidates(param_grid: Any) -> list[dict[str, Any]]:
    """The candidates of a grid, in the order of scikit-learn."""
    try:
        candidates = list(ParameterGrid(param_grid))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"param_grid is invalid: {error}") from error
    if not candidates:
        raise ParameterError(
            "param_grid is empty. Pass values to try, as in {'alpha': [0.1, 1.0]}."
        )
    return candidates


def make_batches(estimator: Any, candidates: Sequence[dict[str, Any]]) -> list[Batch]:
    """Group the candidates that share a factorization."""
    batches: dict[Any, Batch] = {}
    for k, params in enumerate(candidates):
        configured = with_params(estimator, params)
        name = least_squares_name(configured)
        if name is None:
            batches[k] = Batch([k], configured, None)
            continue
        alpha = configured.get_params()[name]
        if alpha == "auto":  # chosen in every fit
            batches[k] = Batch([k], configured, None)
            continue
        (alpha,) = check_alphas([alpha]).tolist()
        # A grid repeats the objects of its lists; ids are used as not all objects are hashable.
        key = tuple((other, id(params[other])) for other in sorted(params) if other != name)
        batch = batches.setdefault(key, Batch([], configured, []))
        batch.candidates.append(k)
        if batch.alphas is not None:
            batch.alphas.append(alpha)
    return list(batches.values())


def with_params(estimator: Any, params: dict[str, Any]) -> Any:
    """A clone of an estimator with other parameters, which may be estimators themselves."""
    try:
        return clone(estimator).set_params(**clone(params, safe=False))
    except ValueError as error:
        known = sorted(estimator.get_params())
        unknown = next((name for name in params if name not in known), "")
        near = difflib.get_close_matches(unknown, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"param_grid does not match the estimator: {error}{hint}") from error


def summarize(values: Array, counts: Array, fit_time: Array, score_time: Array) -> Outcome:
    """Means over the queries of all splits.

    `values`, of shape (candidates, splits, outputs), holds means over queries, and `counts`, of
    shape (splits, outputs), the numbers of these queries; means over no queries are NaN.
    """
    filled = np.where(counts > 0, values, 0.0)
    mean = ((filled * counts).sum(axis=1) / counts.sum(axis=0)).mean(axis=1)
    present = (counts > 0).sum(axis=1)
    splits = np.full(values.shape[:2], np.nan)
    np.divide(filled.sum(axis=2), present, out=splits, where=present > 0)
    weights = counts.sum(axis=1)
    spread = np.where(weights > 0, (splits - mean[:, None]) ** 2, 0.0)
    std = np.sqrt((spread * weights).sum(axis=1) / weights.sum())
    return Outcome(mean, std, splits, fit_time, score_time)


def make_results(
    candidates: list[dict[str, Any]],
    batches: Sequence[Batch],
    outcomes: Sequence[Outcome],
    *,
    by_split: bool,
) -> tuple[dict[str, Any], Array]:
    """`cv_results_` as in scikit-learn, and the scores of candidates (rows) in splits.

    With `by_split`, the results have a column for each split, too.
    """
    back = np.argsort(np.concatenate([batch.candidates for batch in batches]))

    def of(name: str) -> Array:
        return np.concatenate([getattr(outcome, name) for outcome in outcomes])[back]

    results: dict[str, Any] = {}
    for name in ("fit_time", "score_time"):
        results[f"mean_{name}"] = of(name).mean(axis=1)
        results[f"std_{name}"] = of(name).std(axis=1)
    for name in dict.fromkeys(name for params in candidates for name in params):
        results[f"param_{name}"] = _masked(
            [params.get(name, np.ma.masked) for params in candidates]
        )
    results["params"] = candidates
    splits = of("splits")
    if by_split:
        results |= {f"split{k}_test_score": column for k, column in enumerate(splits.T)}
    results["mean_test_score"] = of("mean")
    results["std_test_score"] = of("std")
    results["rank_test_score"] = rankdata(-of("mean"), method="min").astype(np.int32)
    return results, splits


def _masked(values: list[Any]) -> Any:
    """Values of a parameter, masked for candidates that do not set it."""
    mask = [value is np.ma.masked for value in values]
    given = [value for value in values if value is not np.ma.masked]
    plain = all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in given)
    column = np.ma.MaskedArray(
        np.empty(len(values), dtype=np.array(given).dtype if plain else object), mask=mask
    )
    for k, value in enumerate(values):
        if not mask[k]:
            column[k] = value
    return column
