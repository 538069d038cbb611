"""The scaling of a ranker: how it is chosen, applied to new rows, and what it warns of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators._validation import check_new_ids, check_rows, send_rows
from rankwise.graph import QueryGroups
from rankwise.holdout.hold_out_problem import with_scaling
from rankwise.kernels import NamedKernel
from rankwise.problem.block_sums import query_hash
from rankwise.scaling import (
    QUERY_SCALINGS,
    ColumnStandard,
    ColumnStatistics,
    QueryRank,
    Scaling,
    shown_feature,
)

MOST_SPREAD = 1000.0  # between the standard deviations of features, before it matters
SMALLEST = 1e-140  # of differences between values, whose squares times 1e-12 do not underflow
SAMPLE_ROWS = 20_000  # of training rows, for ranges and spreads
NEW_ROWS = 1000  # of new rows, whose values are compared with these ranges
RANGE_ROWS = 20  # training rows; fewer determine a range poorly
FEW = 0.05  # of the features, which may be far
FAR = 10.0  # ranges beyond the range of the training rows
_spoken_for: ContextVar[bool] = ContextVar("spoken_for", default=False)
WITH_GAMMA = ("rbf", "laplacian", "polynomial", "poly", "sigmoid")
WITHIN_QUERIES = "query-minmax"
CLEARLY = 1.0  # standard errors of a score by which ranks must be better: they are a larger change
TRIAL_ROWS = 1000  # of whole queries, on which scalings are tried
TRIAL_LANDMARKS = 100
KERNEL_ROWS = 300  # of training rows, for a look at the kernel matrix
LEAST_ROWS = 20  # fewer do not characterize a kernel
SHARE = 0.01  # of the pairs of rows, which may be exceptions
NEAR_ZERO, NEAR_ONE = 1e-3, 1.0 - 1e-4  # similarities of rows, from 0 to 1


def scale_training(
    ranker: Any,
    X: Any,
    groups: QueryGroups,
    *,
    has_queries: bool,
    y: Array | None = None,
    labelled: Index | None = None,
) -> Any:
    """Choose the scaling of a ranker, store it as fitted attributes, and return scaled rows.

    With labels, and if alpha is chosen by hold-outs, these choose between scaling within queries
    and over all rows. `labelled` has the numbers of the rows with labels, if not all have one.
    """
    overview = column_sample(ranker, X)
    name = choose_scale(ranker, overview, has_queries=has_queries)
    by_hold_outs = isinstance(ranker.alpha, str) and ranker.exact_search
    is_open = ranker.scale == "auto" and by_hold_outs and groups.n_groups > 1
    if is_open and y is not None and name == WITHIN_QUERIES:
        name = (
            better_scale(ranker, X, y, groups)
            if labelled is None
            else better_scale(ranker, as_given(X)[labelled], y[labelled], groups.take(labelled))
        )

    def statistics(scaling: Scaling | None) -> ColumnStatistics:
        rows = X if scaling is None else scaling.scale(as_given(X), groups)
        return ColumnStatistics.of(rows, groups.row_weights)

    if name is None and ranker.kernel == "linear" and overview is not None:
        check_not_tiny(overview)
    learn_scaling(ranker, name, overview, statistics, sparse=is_sparse(as_given(X)))
    note_queries(ranker, groups)
    return scaled_rows(ranker, X, groups)


def column_sample(ranker: Any, X: Any) -> ColumnStatistics | None:
    """Statistics of some rows, evenly spaced; None if the columns of X are not features."""
    if ranker.kernel == "precomputed":
        return None
    return ColumnStatistics.of(evenly_spaced(X, SAMPLE_ROWS))


def choose_scale(
    ranker: Any, overview: ColumnStatistics | None, *, has_queries: bool
) -> str | None:
    """The name of the scaling that follows from the parameter `scale`."""
    given_points = _has_points(ranker)
    if ranker.scale != "auto":
        if ranker.scale is not None and (ranker.kernel == "precomputed" or given_points):
            what = "landmarks are points" if given_points else 'kernel="precomputed"'
            raise ParameterError(
                f"scale={ranker.scale!r} scales the features of rows in queries, but {what}: scale "
                "the rows first, for example with rankwise.QueryMinMaxScaler, and use scale=None."
            )
        return ranker.scale
    own_space = ranker.kernel is None
    if given_points or not (own_space or isinstance(ranker.kernel, str)) or overview is None:
        return None
    if own_space:
        wanted = spread(overview) > MOST_SPREAD
    elif ranker.kernel in WITH_GAMMA:
        wanted = ranker.gamma is None or ranker.gamma == "scale"
    else:
        in_units_of_features = ranker.kernel != "linear" or not isinstance(ranker.alpha, str)
        wanted = not in_units_of_features and spread(overview) > MOST_SPREAD
    default = WITHIN_QUERIES if has_queries else ColumnStandard.name
    return default if wanted else None


def spread(statistics: ColumnStatistics) -> float:
    """The ratio of the largest to the smallest scale of features that vary.

    The ratio of standard deviations, or of ranges if it is smaller: a feature that is 0 in all but
    a few rows, such as a rare word, has a small deviation but an ordinary range.
    """
    varies = statistics.deviation > 0
    deviations = statistics.deviation[varies]
    if len(deviations) == 0 or not np.isfinite(deviations).all():  # the solver reports overflow
        return 1.0
    ranges = statistics.high[varies] - statistics.low[varies]
    return float(min(scale.max() / scale.min() for scale in (deviations, ranges)))


def check_not_tiny(statistics: ColumnStatistics) -> None:
    """Raise an error if products of features underflow."""
    span = float((statistics.high / 2 - statistics.low / 2).max(initial=0.0))
    if 0.0 < span < SMALLEST:
        raise DataError(
            f"Products of features underflow: no feature has values more than {2 * span:.0e} "
            "apart. Multiply the features by a constant."
        )


def learn_scaling(
    ranker: Any,
    name: str | None,
    overview: ColumnStatistics | None,
    statistics: Callable[[Scaling | None], ColumnStatistics],
    *,
    sparse: bool,
) -> None:
    """Store the scaling with this name as fitted attributes.

    These are `scale_`, `scaling_`, `feature_range_` and, for gamma="scale", `gamma_`.
    ``statistics(scaling)`` returns the statistics of all rows after a scaling within queries, or as
    they are; it is called only if they are needed.
    """
    scaling: Scaling | None = None if name is None else QUERY_SCALINGS.get(name)
    found: ColumnStatistics | None = None
    if name == ColumnStandard.name or follows_variance(ranker):
        found = statistics(scaling)
    if name == ColumnStandard.name and found is not None:
        names = getattr(ranker, "feature_names_in_", None)
        scaling = ColumnStandard.of(found, centre=not sparse, names=names)
        found = found.transformed(scaling.mean, scaling.deviation)
    ranker.scale_, ranker.scaling_ = name, scaling
    if follows_variance(ranker) and found is not None:
        ranker.gamma_ = scaled_gamma(found)
    ranker.feature_range_ = None
    if overview is not None and not sparse and not _is_within_queries(ranker):
        ranker.feature_range_ = known_range(overview)


def known_range(overview: ColumnStatistics) -> Array | None:
    """The range of each feature, of shape (2, n_features); None if there are too few rows."""
    if overview.n_rows < RANGE_ROWS:
        return None
    return np.stack([overview.low, overview.high])


def kept_of_all_rows(ranker: Any, space: Any) -> tuple[str, ...]:
    """What a ranker computed from all of its training rows, beside the scaling itself.

    Hold-outs keep it, held-out rows included; see `HeldOutScores.shared`. `space` is the ranker's
    space, or its class.
    """
    words = [*space.shared]
    if _has_points(ranker) and "landmarks" in words:
        words.remove("landmarks")
    if ranker.scale == "auto" and ranker.scale_ is not None:
        words.append("choice of scaling")
    if follows_variance(ranker):
        words.append("gamma")
    return tuple(words)


def shared_by_choice(ranker: Any, space: Any) -> tuple[str, ...]:
    """What was computed from all rows, held-out ones included, to choose alpha by labels."""
    if space.keeps_rows:
        return ()
    kept = kept_of_all_rows(ranker, space)
    own = ranker.scale_ in QUERY_SCALINGS and ranker.n_queries_ > 1  # a query is scaled by itself
    if ranker.scale_ is None or own:
        return kept
    return with_scaling(kept)


def follows_variance(ranker: Any) -> bool:
    """Whether gamma="scale" matters to the kernel."""
    has_gamma = isinstance(ranker.kernel, str) and ranker.kernel in WITH_GAMMA
    return has_gamma and ranker.gamma == "scale"


def scaled_gamma(found: ColumnStatistics) -> float:
    """gamma="scale": one over the number of features times their variance."""
    variance = found.variance
    return 1.0 / (len(found.mean) * variance) if variance > 0 else 1.0


def note_rows(ranker: Any, X: Any) -> None:
    """Add rows to the range of features, where it is kept."""
    if ranker.feature_range_ is not None and not is_sparse(as_given(X)):
        low, high = ranker.feature_range_
        new = ColumnStatistics.of(evenly_spaced(X, SAMPLE_ROWS))
        ranker.feature_range_ = np.stack([np.minimum(low, new.low), np.maximum(high, new.high)])


def note_queries(ranker: Any, groups: QueryGroups) -> None:
    """Remember the number of rows of the largest query."""
    largest = int(groups.sizes.max(initial=0))
    ranker.max_query_rows_ = max(largest, getattr(ranker, "max_query_rows_", 1))


def scaled_rows(ranker: Any, X: Any, groups: QueryGroups) -> Any:
    """Validated rows, scaled as the training rows were."""
    if ranker.scaling_ is None:
        return X
    scaled = ranker.scaling_.scale(as_given(X), groups)
    return scaled if is_tensor(scaled) else send_rows(scaled, ranker.device)


def prepare_rows(ranker: Any, X: Any, qid: Any, method: str) -> Any:
    """Validated and scaled rows for a method that the user calls."""
    X = check_rows(ranker, X)
    if not _is_within_queries(ranker):
        check_new_ids(qid, X)
        warn_of_far_values(ranker, X, method)
    if ranker.scaling_ is None:
        return X
    groups = QueryGroups.of(to_host(qid), X.shape[0])
    if _is_within_queries(ranker):
        warn_of_scaled_queries(ranker, method, groups, named=qid is not None)
    return scaled_rows(ranker, X, groups)


def warn_of_scaled_queries(owner: Any, method: str, groups: QueryGroups, *, named: bool) -> None:
    """`warn_of_queries` for a fitted ranker or transformer that scales features."""
    subject = f"{type(owner).__name__} scales features"
    trained = owner.n_queries_, owner.max_query_rows_
    warn_of_queries(subject, method, groups, trained, named=named)


def warn_of_queries(
    subject: str, method: str, groups: QueryGroups, trained: tuple[int, int], *, named: bool
) -> None:
    """Warn if rows can hardly be whole queries.

    They are too many for one query, and their queries are not `named`, or each is the only one of
    its query. `subject` begins the message, and `trained` is the number of training queries and the
    rows of the largest.
    """
    if _spoken_for.get():
        return
    (n_queries, max_query_rows), n_rows = trained, groups.n_rows
    if not named and n_queries > 1 and n_rows > max_query_rows:
        warn(
            f"{subject} within queries and was fitted on {n_queries} queries of at most "
            f"{max_query_rows} rows, but {method} got {n_rows} rows without qid and scales them as "
            "one query. Pass qid. In a pipeline, use "
            "sklearn.set_config(enable_metadata_routing=True) and pass qid to the pipeline, or use "
            "the parameter scale of the ranker in place of a transformer.",
        )
    if max_query_rows > 1 and groups.n_groups == n_rows:
        rows = "one row" if n_rows == 1 else f"{n_rows} rows, each the only one of its query"
        warn(
            f"{subject} within queries, and a single row cannot be scaled: {method} got {rows}, "
            "and all such rows get the same values. Pass all rows of a query together, or use a "
            'ranker with scale="standard".',
        )


@contextmanager
def speaking_for_parts() -> Iterator[None]:
    """Leave warnings of `warn_of_queries` to the caller, a ranker that consists of others."""
    token = _spoken_for.set(True)
    try:
        yield
    finally:
        _spoken_for.reset(token)


def warn_of_far_values(ranker: Any, X: Any, method: str) -> None:
    """Warn if values of new rows are far from the values of the training rows."""
    known, given = getattr(ranker, "feature_range_", None), as_given(X)
    if known is None or is_sparse(given):
        return
    (low, high), some, xp = known, evenly_spaced(given, NEW_ROWS), backend_of(given).xp
    new_low, new_high = (to_host(extreme(some, 0)) for extreme in (xp.amin, xp.amax))
    with np.errstate(over="ignore"):
        beyond = np.maximum(low - new_low, new_high - high) > FAR * (high - low)
    if not beyond.any():
        return
    far = np.flatnonzero(beyond & (high > low))
    # A few features may be far by chance, where training rows have hardly any values but one.
    if len(far) <= FEW * np.count_nonzero(high > low):
        return
    names = getattr(ranker, "feature_names_in_", None)
    named = [shown_feature(k, names) for k in far[:3].tolist()]
    more = f" and {len(far) - 3} more" if len(far) > 3 else ""
    k = int(far[0])
    warn(
        f"{type(ranker).__name__}.{method} got values far outside the range of the training rows, "
        f"in {', '.join(named)}{more}: {new_low[k]:g} to {new_high[k]:g} in {named[0]}, where the "
        f"training rows have {low[k]:g} to {high[k]:g}. Scale new rows as the training rows were "
        "scaled, for example in a pipeline or by the parameter scale.",
    )


def evenly_spaced(X: Any, n: int) -> Any:
    """At most n rows, at equal distances."""
    X = as_given(X)
    return X[:: -(-X.shape[0] // n)]


def scales_within_queries(model: Any) -> bool:
    """Whether a fitted ranker, or a step of a pipeline or search, scales within queries."""
    model = getattr(model, "best_estimator_", model)
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    scalings = (getattr(step, "scaling_", getattr(step, "scaling", None)) for step in steps)
    return any(getattr(scaling, "within_queries", False) for scaling in scalings)


def _is_within_queries(ranker: Any) -> bool:
    return ranker.scaling_ is not None and ranker.scaling_.within_queries


def _has_points(ranker: Any) -> bool:
    """Whether landmarks are points, which belong to no query and have separate units."""
    landmarks = getattr(ranker, "landmarks", None)
    if landmarks is None or isinstance(landmarks, str):
        return False
    return is_sparse(landmarks) or np.ndim(to_host(landmarks)) == 2


def better_scale(ranker: Any, X: Any, y: Array, groups: QueryGroups) -> str:
    """The scaling, within queries or over all rows, with the better held-out score.

    Ranks within queries are chosen if they are clearly better than both. All are tried on a sample
    of whole queries, each with its own best alpha. The sample depends on the query ids, not on
    their order.
    """
    rows, some = _sample(groups), as_given(X)
    some = some if len(rows) == groups.n_rows else some[rows]

    def tried(name: str) -> tuple[float, float]:
        return _held_out_gain(ranker, name, some, y[rows], groups, rows)

    gains = {name: tried(name)[0] for name in (WITHIN_QUERIES, ColumnStandard.name)}
    best = max(gains, key=lambda name: gains[name])
    by_ranks, error = tried(QueryRank.name)
    return QueryRank.name if by_ranks - CLEARLY * error > gains[best] else best


def _held_out_gain(
    ranker: Any, name: str, X: Any, y: Array, groups: QueryGroups, rows: Index
) -> tuple[float, float]:
    """The best held-out score, such that larger is better, and its standard error."""
    from rankwise.holdout.alpha_choice import choose_alpha  # compiles loops

    trial = clone(ranker).set_params(scale=name)
    if hasattr(trial, "n_landmarks"):
        most = min(TRIAL_LANDMARKS, X.shape[0])
        number = trial.n_landmarks if isinstance(trial.n_landmarks, int) else most
        trial.set_params(landmarks="random", n_landmarks=min(number, most), random_state=0)
    codes = groups.codes[rows]
    weight = None if groups.weights is None else groups.weights[codes]
    of_rows = None if groups.row_weights is None else groups.row_weights[rows]
    try:
        problem = trial.make_problem(X, y, qid=codes, query_weight=weight, sample_weight=of_rows)
        curve = choose_alpha(problem.settled()).curve
    except DataError:  # nothing to learn from in the sample
        curve = None
    if curve is None:
        return -np.inf, 0.0
    k, sign = curve.best_index, 1.0 if curve.greater_is_better else -1.0
    return sign * float(curve.score[k]), float(curve.standard_error[k])


def _sample(groups: QueryGroups) -> Index:
    """The rows of some queries, at least two."""
    if groups.n_rows <= TRIAL_ROWS:
        return np.arange(groups.n_rows)
    by_hash = np.argsort([query_hash(name) for name in groups.names], kind="stable")
    fits = np.cumsum(groups.sizes[by_hash]) <= TRIAL_ROWS
    chosen = by_hash[: max(2, int(np.count_nonzero(fits)))]
    return np.flatnonzero(np.isin(groups.codes, chosen))


def warn_of_scales(ranker: Any, X: Any) -> None:
    """Warn after a fit to the rows X, as the ranker sees them; at most once.

    The features may have very different scales, or the kernel may be nearly constant or nearly
    the identity on these rows.
    """
    if ranker.kernel != "precomputed" and warn_of_constants(ranker, X):
        return
    kernel = getattr(ranker.basis_, "kernel", None)
    is_linear = ranker.basis_.linear
    own_space = ranker.kernel is None and not ranker.basis_.scale_free
    if not (is_linear or own_space or isinstance(kernel, NamedKernel)):
        return
    message = None
    if ranker.scale_ is None and not (is_linear and ranker.alpha == 0):
        name = "query-minmax" if ranker.n_queries_ > 1 else "standard"
        use = f'Use scale="{name}", or scale' if "scale" in ranker.get_params() else "Scale"
        message = _spread_message(ranker, X, f"{use} the features first.")
    if message is None and kernel is not None:
        message = _kernel_message(kernel, evenly_spaced(X, KERNEL_ROWS))
    if message is not None:
        name = type(ranker).__name__
        warn(f"{name}: {message}")


def warn_of_constants(ranker: Any, X: Any) -> bool:
    """Warn if no feature of the rows X, as the ranker sees them, has two different values.

    Returns whether it did.
    """
    X = as_given(X)
    same = ColumnStatistics.of(evenly_spaced(X, KERNEL_ROWS)).constant.all()
    if X.shape[0] < 2 or not same or not ColumnStatistics.of(X).constant.all():
        return False
    scale = getattr(ranker, "scale_", None)
    where = " within each query" if scale in QUERY_SCALINGS else ""
    warn(
        f"{type(ranker).__name__}: all features are constant{where}, so all rows get the same "
        "score. Check X."
    )
    return True


def warn_of_spread(ranker: Any, X: Any, advice: str) -> None:
    """Warn if the features of X have very different scales."""
    message = _spread_message(ranker, X, advice)
    if message is not None:
        warn(f"{type(ranker).__name__}: {message}")


def _spread_message(ranker: Any, X: Any, advice: str) -> str | None:
    statistics = ColumnStatistics.of(evenly_spaced(X, SAMPLE_ROWS))
    ratio = spread(statistics)
    if ratio <= MOST_SPREAD:
        return None
    deviations = np.where(statistics.deviation > 0, statistics.deviation, np.nan)
    low, high = int(np.nanargmin(deviations)), int(np.nanargmax(deviations))
    names = getattr(ranker, "feature_names_in_", None)
    low_name, high_name = (shown_feature(k, names) for k in (low, high))
    return (
        f"the standard deviations of features differ by a factor of {ratio:.0e}, from "
        f"{deviations[low]:.1e} ({low_name}) to {deviations[high]:.1e} ({high_name}), and the "
        f"largest features decide alone. {advice}"
    )


def _kernel_message(kernel: NamedKernel, X: Any) -> str | None:
    if kernel.name in ("linear", "cosine") or X.shape[0] < 2:
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        K = np.asarray(to_host(kernel(backend_of(X).rows(X, slice(None)))))
        size = np.sqrt(K.diagonal())
        similarity = (K / size[:, None] / size)[np.triu_indices(len(K), 1)]
    if not np.isfinite(similarity).all():  # of a sigmoid kernel, which need not be positive
        return None
    if len(K) < LEAST_ROWS and not (similarity == 1.0).all():
        return None
    advice = 'Use gamma="scale", or gamma=None with scale="auto".'
    if np.quantile(abs(similarity), 1 - SHARE) < NEAR_ZERO:
        return (
            f"the {kernel.name} kernel with gamma={kernel.gamma:.3g} is nearly 0 between different "
            f"rows, so the ranker cannot generalize. A smaller gamma makes rows similar. {advice}"
        )
    if np.quantile(similarity, SHARE) > NEAR_ONE:
        return (
            f"the {kernel.name} kernel with gamma={kernel.gamma:.3g} is nearly the same between "
            f"all rows, which it hardly distinguishes. A larger gamma does. {advice}"
        )
    return None
