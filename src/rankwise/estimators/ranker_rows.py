"""The rows of a ranker: checked, sent to a device, and scaled.

scikit-learn checks arrays. What it refuses is explained here: which value it is, in which row and
column, and what to do.

Tensors are processed on their device, and results are tensors. NumPy arrays with ``device="cuda"``
are sent to the GPU block by block, and results are NumPy arrays. NumPy arrays without a device are
processed by NumPy and SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from rankwise.backends.arrays import (
    Array,
    Backend,
    Index,
    as_given,
    backend_of,
    check_compressed,
    is_sent,
    is_sparse,
    is_tensor,
    to_host,
)
from rankwise.backends.parallel import blas_threads_for, map_rows, threads_for
from rankwise.errors import DataError, DeviceError, MissingExtraError, ParameterError, warn
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import (
    check_column_names,
    check_ids,
    check_real,
    check_row_weights,
    check_unmasked,
    is_number,
    numeric_labels,
    too_large,
)
from rankwise.holdout.hold_out_problem import with_scaling
from rankwise.kernels import NamedKernel
from rankwise.parameters import monotone_signs
from rankwise.problem.block_sums import query_hash
from rankwise.problem.problem import check_columns_fit
from rankwise.scaling import (
    QUERY_SCALINGS,
    SCALINGS,
    ColumnStandard,
    ColumnStatistics,
    Scaling,
    shown_feature,
)
from rankwise.tables import plural
from rankwise.walks import are_graphs

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from rankwise.holdout.alpha_choice import AlphaChoice


Record = TypeVar("Record", bound="DataclassInstance")

DTYPES = (np.float64, np.float32)
ENCODER = "sklearn.preprocessing.OneHotEncoder"
VECTORIZER = "sklearn.feature_extraction.text.TfidfVectorizer"
SHOWN = 40  # characters of a text that a message shows


def check_training(
    estimator: Any, X: Any, y: Any, *, reset: bool = True, min_rows: int = 2
) -> tuple[Any, Array]:
    """Validated training rows and labels; with `reset`, fitted attributes are removed."""
    if reset:
        forget(estimator)
    if is_tensor(X):
        X = _check_tensor(estimator, X, reset=reset, min_rows=min_rows)
        return X, _check_targets(y, X)
    options = {"accept_sparse": "csr", "dtype": DTYPES, "ensure_min_samples": min_rows}
    y = numeric_labels(to_host(y))
    X, y = validated(estimator, X, y, reset=reset, multi_output=True, y_numeric=True, **options)
    if is_sparse(X):
        check_columns_fit(X)
    X = send_rows(X, estimator.device)
    return X, backend_of(X).array(y)


def check_rows(estimator: Any, X: Any, *, reset: bool = False, min_rows: int = 1) -> Any:
    """Validated rows without labels; with `reset`, fitted attributes are removed."""
    if reset:
        forget(estimator)
    if is_tensor(X):
        return _check_tensor(estimator, X, reset=reset, min_rows=min_rows)
    options = {"accept_sparse": "csr", "dtype": DTYPES, "ensure_min_samples": min_rows}
    X = validated(estimator, X, reset=reset, **options)
    if reset and is_sparse(X):
        check_columns_fit(X)
    return send_rows(X, estimator.device)


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """scikit-learn's `validate_data`, for an X that can be converted without a loss.

    Sparse rows are sorted, without duplicates: SciPy would otherwise sort the caller's rows. If
    the kernel of the estimator takes other things, such as graphs, X has these as rows of numbers.
    """
    if hasattr(getattr(estimator, "kernel", None), "as_rows"):
        X = estimator.kernel.as_rows(X)
    try:
        _check_cells(X)
    except DataError as error:
        if "dates" not in str(error) or not hasattr(X, "columns"):
            raise
        raise DataError(f"{error}{_encoding_lines(estimator)}") from None
    if isinstance(X, np.ndarray) and _all_finite(X):
        options["ensure_all_finite"] = False
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of a sum that looks for NaN
            checked = validate_data(estimator, X, *y, **options)
        return (_sorted_rows(checked[0]), *checked[1:]) if y else _sorted_rows(checked)
    except (OverflowError, TypeError, ValueError) as error:
        refused = error
    explain_rows("X", X, refused, two_lines=_encoding_lines(estimator))
    explain_labels(y[0] if y else None, refused)
    known, given = getattr(estimator, "feature_names_in_", ()), getattr(X, "columns", ())
    if "feature names should match" in str(refused) and set(known) <= set(given):
        raise DataError(
            f"{refused}Pass the columns of the fit, as in X[list(ranker.feature_names_in_)]."
        )
    raise refused


def _all_finite(X: NDArray[Any]) -> bool:
    """Whether many numbers are found to be finite, in threads; scikit-learn has one."""
    if X.dtype.kind != "f" or X.ndim != 2 or threads_for(X.size) == 1:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(map_rows(lambda rows: X[rows].sum(), X)).all())


def check_new_ids(qid: Any, X: Any) -> None:
    """Check qid of new rows, for a ranker that does not need them."""
    if qid is not None:
        check_ids(to_host(qid), X.shape[0])


def query_groups(qid: Any, n_rows: int, query_weight: Any) -> QueryGroups:
    """The rows of each query, with the weights of queries if there are any."""
    groups = QueryGroups.of(qid, n_rows)
    if query_weight is None:
        return groups
    if groups.n_groups == 1:
        raise DataError(
            "query_weight needs at least two queries: got one. It weights queries relative "
            "to each other. Pass qid=, or leave query_weight out."
        )
    return groups.weighted(to_host(query_weight))


def forget(estimator: Any) -> None:
    """Remove all fitted attributes, so that a failed fit does not leave an old model."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows with weights above 0, as groups with these weights."""

    rows: Index
    groups: QueryGroups
    n_rows: int

    @classmethod
    def of(cls, ranker: Any, sample_weight: Any, groups: QueryGroups) -> KeptRows:
        """Check the weights of rows, and leave out rows of weight 0."""
        weights, n_rows = check_row_weights(sample_weight, groups.n_rows), groups.n_rows
        rows = np.flatnonzero(weights)
        if len(rows) < 2:
            raise DataError(
                f"sample_weight is zero for {n_rows - len(rows)} of {n_rows} rows: at least two "
                "rows must have weights above 0."
            )
        if len(rows) < n_rows and getattr(ranker, "kernel", None) == "precomputed":
            raise DataError(
                f"sample_weight is 0 in row {int(np.argmin(weights > 0))}, and "
                'kernel="precomputed" needs a column for every row: leave out the rows of weight 0 '
                "and their columns."
            )
        return cls(rows, groups.with_row_weights(weights).take(rows), n_rows)

    def of_training(self, ranker: Any, X: Any, y: Array, qid: Any) -> tuple[Any, Array, Any]:
        """The validated rows, labels and query ids that are kept."""
        if len(self.rows) == self.n_rows:
            return X, y, qid
        X = as_given(X)[self.rows]
        X = X if is_tensor(X) else send_rows(X, getattr(ranker, "device", None))
        return X, y[self.rows], None if qid is None else self.groups.ids


# Rows and labels that scikit-learn refuses.


def _sorted_rows(X: Any) -> Any:
    """Rows as they are, or a copy of sparse rows that have duplicates or are not sorted."""
    if not is_sparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def _check_cells(X: Any) -> None:
    """Refuse frames that are lazy or have two columns of a name, and what conversions would lose.

    The latter are masks, dates and damaged sparse rows.
    """
    if hasattr(X, "collect"):
        raise DataError("X is a lazy data frame: pass X.collect().")
    if hasattr(X, "columns"):
        check_column_names(X, "X")
    check_unmasked("X", X)
    check_real("X", X, allow_complex=True)  # scikit-learn refuses complex numbers
    if is_sparse(X) and X.format in ("csr", "csc", "coo"):
        try:
            if X.format != "coo":
                check_compressed(X)
            elif X.nnz and any(
                int(numbers.min()) < 0 or int(numbers.max()) >= n
                for numbers, n in zip((X.row, X.col), X.shape, strict=True)
            ):
                raise ValueError("row or column numbers outside its shape")
        except ValueError as error:
            raise DataError(f"X is a damaged sparse matrix: {error}.") from None


@dataclass(frozen=True)
class Fault:
    """Numbers that scikit-learn refuses: what it calls them, what they are, and what to do."""

    name: str
    adjective: str
    is_in: Callable[[Array], NDArray[np.bool_]]
    advice: str  # for rows X
    advice_for_labels: str


FAULTS = (
    Fault(
        "NaN",
        "missing",
        np.isnan,
        "Fill them in, for example with sklearn.impute.SimpleImputer in a pipeline, drop these "
        "rows, or use BoostedRanker, which learns from missing values, or AutoRanker, which fills "
        "in those of data frames.",
        "Drop these rows, or use TransductiveRankRLS, which learns from rows without labels as "
        "well.",
    ),
    Fault(
        "infinity", "infinite", np.isinf, *["Use finite numbers instead, or drop these rows."] * 2
    ),
)


def _encoding_lines(estimator: Any) -> str:
    """The two lines that encode a data frame for an estimator."""
    name = type(estimator).__name__
    return (
        " These lines turn all columns into numbers:\n"
        "  from rankwise import TableEncoder; from sklearn.pipeline import make_pipeline\n"
        f"  make_pipeline(TableEncoder(), {name}()).fit(X, y, {name.lower()}__qid=qid)"
    )


def explain_rows(
    what: str, X: Any, error: Exception, encoder: str = ENCODER, two_lines: str = ""
) -> None:
    """Raise a more detailed error about rows than scikit-learn's, if possible.

    Messages call the rows `what`; `encoder` turns text into numbers, and `two_lines` do so with
    data frames.
    """
    two_lines = two_lines if hasattr(X, "columns") else ""
    columns: list[tuple[str, NDArray[Any]]] = []  # the name, or the number, and the values
    if are_graphs(X):
        raise DataError(
            f"{what} has graphs, and not rows of numbers: use kernel=WalkKernel() for a ranker "
            "with a kernel, or put GraphWalks() before the ranker in a pipeline."
        )
    if not is_sparse(X):
        _check_is_table(what, X)
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            columns = [(repr(name), np.asarray(X[name])) for name in X.columns]
        elif (array := np.asarray(X)).ndim == 2:
            columns = [(str(k), values) for k, values in enumerate(array.T)]
        for name, values in columns:
            _check_numbers(f"Column {name} of {what}", values, encoder, two_lines)
    for fault in FAULTS:
        if f"Input {what} contains {fault.name}" not in str(error):
            continue
        if is_sparse(X):
            cells = X.tocoo()
            wrong = np.flatnonzero(fault.is_in(cells.data))
            found = [(str(k), cells.row[wrong]) for k in cells.col[wrong[:1]]]
        else:
            by_column = ((name, fault.is_in(_as_numbers(values))) for name, values in columns)
            found = [(name, np.flatnonzero(is_wrong)) for name, is_wrong in by_column]
            found = [(name, rows) for name, rows in found if len(rows)]
        if found:
            (name, rows), count = found[0], sum(len(rows) for _, rows in found)
            advice = fault.advice if what == "X" else "Use finite numbers instead."
            if two_lines and fault.name == "NaN":
                advice = f"Use BoostedRanker, which takes them, or fill them in.{two_lines}"
            raise DataError(
                f"Input {what} contains {fault.name}: "
                f"{plural(count, f'{fault.adjective} value')}, the first in row {rows[0]}, column "
                f"{name}. {advice}"
            )


def explain_labels(y: Any, error: Exception) -> None:
    """Raise an error with the number of missing or infinite labels, if scikit-learn found some."""
    for fault in FAULTS:
        if f"Input y contains {fault.name}" in str(error):
            wrong = fault.is_in(_as_numbers(np.asarray(y))).reshape(len(y), -1).any(axis=1)
            raise DataError(
                f"Input y contains {fault.name}: "
                f"{plural(int(wrong.sum()), f'{fault.adjective} label')}, the first in row "
                f"{wrong.argmax()}. {fault.advice_for_labels}"
            )


def _check_is_table(what: str, X: Any) -> None:
    """Raise an error for what has no rows, or has rows of text or of different lengths."""
    rows = list(X) if len(getattr(X, "shape", ())) == 1 else X
    rows = rows if isinstance(rows, (list, tuple)) else []
    first = rows[0] if rows else X
    advice = "Pass a list of rows, an array or a data frame."
    if isinstance(first, (str, bytes, PathLike)):
        advice = f"Read a file with rankwise.data.read_table, or make features with {VECTORIZER}."
    elif isinstance(first, dict):
        advice = f"Make a data frame of it, as in pandas.DataFrame({what})."
    elif X is not None and not isinstance(X, (set, Iterator)) and not np.isscalar(X):
        advice = advice if getattr(X, "shape", None) == () else ""
    if advice:
        shown = repr(first if len(str(first)) <= SHOWN else f"{str(first)[:SHOWN]}...")
        raise DataError(f"{what} must have rows of numbers: got {shown}. {advice}")
    if hasattr(X, "columns"):
        check_column_names(X, what)
    if all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        other = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
        if other is not None:
            raise DataError(
                f"All rows of {what} must have the same length: got "
                f"{plural(len(rows[0]), 'value')} in row 0, and {len(rows[other])} in row {other}."
            )


def _check_numbers(where: str, values: NDArray[Any], encoder: str, two_lines: str) -> None:
    """Raise an error for the first value of a column that is not a number."""
    if values.dtype.kind not in "OSTU":
        return
    for row, value in enumerate(values.tolist()):
        if isinstance(value, (str, bytes)):
            if not is_number(value):
                way = two_lines or f" Encode it as numbers, for example with {encoder}, or drop it."
                raise DataError(f"{where} is text, such as {value[:SHOWN]!r} in row {row}.{way}")
        elif not _is_missing(value):
            try:
                float(value)
            except TypeError as error:  # scikit-learn's checks want this class and this message
                raise TypeError(
                    f"{where} must hold numbers: {error}, in row {row}. Make columns of numbers "
                    "from it, or drop it."
                ) from None
            except OverflowError:
                raise too_large(where, row) from None


def _is_missing(value: Any) -> bool:
    """Whether a value is None, or what pandas has instead; NaN is a number."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _as_numbers(values: NDArray[Any]) -> Array:
    """Values of any shape, with NaN where one is missing."""
    if values.dtype.kind != "O":
        return values.astype(np.float64)
    numbers = [np.nan if _is_missing(v) else float(v) for v in values.ravel().tolist()]
    return np.array(numbers).reshape(values.shape)


# Tensors and devices.


def _check_tensor(ranker: Any, X: Any, *, reset: bool, min_rows: int) -> Any:
    """Rows as a tensor, with the checks that scikit-learn makes for arrays."""
    _check_holds_numbers(X)
    if ranker.device not in (None, "auto"):
        wanted = _named_device(ranker.device)
        if wanted.type != X.device.type or wanted.index not in (None, X.device.index):
            raise DeviceError(
                f"X is on {X.device}, but device={str(wanted)!r}: tensors are not moved. Move them "
                f"yourself (X.to({str(wanted)!r})), or omit device."
            )
    on, name = backend_of(X), type(ranker).__name__
    if X.layout != on.xp.strided or X.is_complex():
        raise DataError(
            f"X must be a dense tensor of real numbers: got {X.layout}, {X.dtype}. Pass "
            'sparse rows as a scipy.sparse matrix, with device="cuda".'
        )
    # scikit-learn checks the shape on zeros of this shape, which take no memory.
    shape_only = np.broadcast_to(0.0, tuple(X.shape))
    validate_data(
        ranker, shape_only, reset=reset, ensure_min_samples=min_rows, ensure_all_finite=False
    )
    if not X.dtype.is_floating_point or X.dtype.itemsize < 4:
        X = X.to(on.xp.float64)
    if not on.is_finite(X):
        row, column = on.xp.nonzero(~on.xp.isfinite(X))[0].tolist()
        raise DataError(
            f"Input X contains NaN or infinity, which {name} does not accept: the first in row "
            f"{row}, column {column}. Use finite numbers instead, or drop these rows."
        )
    return X.detach()


def _check_targets(y: Any, X: Any) -> Array:
    """Labels for rows that are tensors, as float64 on their device."""
    on, n_rows = backend_of(X), X.shape[0]
    if is_tensor(y):
        _check_holds_numbers(y)
        if y.is_complex() or y.layout != on.xp.strided:
            raise DataError(f"y must be a dense tensor of real numbers: got {y.layout}, {y.dtype}.")
    else:
        try:
            y = np.asarray(y).astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f"y must hold numbers: got {type(y).__name__}.") from None
    if y.ndim not in (1, 2) or 0 in y.shape[1:] or len(y) != n_rows:
        raise DataError(
            "y must have one or two dimensions, at least one output, and the same number of rows "
            f"as X, {n_rows}: got shape {tuple(y.shape)}."
        )
    y = on.array(y)
    if not on.is_finite(y):
        row = int(on.xp.nonzero(~on.xp.isfinite(y))[0][0])
        raise DataError(
            f"Input y contains NaN or infinity, the first in row {row}. Drop these rows."
        )
    return y


def send_rows(X: Any, device: Any) -> Any:
    """Validated NumPy or SciPy rows, ready to be sent to `device` block by block."""
    if device is None or device == "cpu":
        return X
    try:
        import torch
    except ImportError:
        if device == "auto":
            return X
        raise MissingExtraError("torch", "gpu") from None
    if device == "auto":
        if not torch.cuda.is_available():
            return X
        device = "cuda"
    from rankwise.backends._torch import HostRows

    return HostRows(X, _device_backend(device))


def _check_holds_numbers(tensor: Any) -> None:
    if tensor.device.type not in ("cpu", "cuda"):
        _device_backend(tensor.device)


def _named_device(device: Any) -> Any:
    import torch

    if isinstance(device, (str, torch.device)):
        with suppress(RuntimeError):
            return torch.device(device)
    raise ParameterError(
        'device must be None, "cpu", "cuda", "cuda:1" or the like, "auto", or a torch.device: got '
        f"{device!r}."
    )


def _device_backend(device: Any) -> Any:
    """The backend of a device that holds numbers of float64."""
    import torch

    from rankwise.backends._torch import TorchBackend

    try:
        tried = torch.zeros(1, dtype=torch.float64, device=_named_device(device))
        tried.cpu()
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DeviceError(
            f"The device {str(device)!r} cannot hold numbers of float64 ({reason}). Use a CUDA "
            'device that torch finds, device=None for the CPU, or device="auto", which uses a GPU '
            "only if there is one."
        ) from None
    return TorchBackend.on(tried.device)


def returned(record: Record, X: Any) -> Record:
    """A record of arrays, copied back to the host if the rows X were sent from there."""
    if not is_sent(X):
        return record
    changed = {f.name: to_host(getattr(record, f.name)) for f in fields(record)}
    return replace(record, **changed)


def moved(value: Any, on: Backend) -> Any:
    """Records, and lists of records, with all their float64 arrays on a backend."""
    if is_tensor(value) or (isinstance(value, np.ndarray) and value.dtype == np.float64):
        return on.array(value)
    if isinstance(value, list):
        return [moved(entry, on) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: moved(getattr(value, f.name), on) for f in fields(value) if f.init}
        return replace(value, **changed)
    return value


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
TRIAL_ROWS, TRIAL_NUMBERS = 20_000, 2 * 10**6  # of whole queries, on which scalings are tried
TRIAL_FEATURES = 2000  # more linear features are left as they are, unless their spread is large
KERNEL_TRIAL_ROWS = 1000  # of whole queries, with a kernel matrix
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
    of_linear: bool = False,
) -> tuple[Any, AlphaChoice | None]:
    """Choose the scaling of a ranker, store it as fitted attributes, and return scaled rows.

    With labels, and if alpha is chosen by hold-outs, these choose the scaling as well. `labelled`
    has the numbers of the rows with labels, if not all have one. `of_linear`: whether features of a
    linear kernel are scaled only because it helps. If the scaling was tried on the whole problem,
    the choice of alpha for it is returned, too.
    """
    overview = column_sample(ranker, X)
    name = choose_scale(ranker, overview, has_queries=has_queries)
    by_hold_outs = isinstance(ranker.alpha, str) and ranker.exact_search
    is_open = ranker.scale == "auto" and by_hold_outs and groups.n_groups > 1
    may_scale = name == WITHIN_QUERIES or (
        of_linear and ranker.kernel == "linear" and X.shape[1] <= TRIAL_FEATURES
    )
    choice = None
    if is_open and y is not None and may_scale:
        rows, labels, of_rows = X, y, groups
        if labelled is not None:
            rows, labels, of_rows = as_given(X)[labelled], y[labelled], groups.take(labelled)
        name, choice = better_scale(ranker, rows, labels, of_rows, name)

    def statistics(scaling: Scaling | None) -> ColumnStatistics:
        return statistics_of(X, groups, scaling)

    learn_scaling(ranker, name, overview, statistics, sparse=is_sparse(as_given(X)))
    note_queries(ranker, groups)
    return scaled_rows(ranker, X, groups), None if labelled is not None else choice


def statistics_of(X: Any, groups: QueryGroups, scaling: Scaling | None) -> ColumnStatistics:
    """Statistics of rows after a scaling, each with its weight."""
    rows = X if scaling is None else scaling.scale(as_given(X), groups)
    return ColumnStatistics.of(rows, groups.row_weights)


def has_features(ranker: Any) -> bool:
    """Whether the columns of X are features for the parameter `kernel`."""
    named, kernel = isinstance(ranker.kernel, str), ranker.kernel
    return kernel != "precomputed" if named else not hasattr(kernel, "as_rows")


def column_sample(ranker: Any, X: Any) -> ColumnStatistics | None:
    """Statistics of some rows, evenly spaced; None if the columns of X are not features."""
    if not has_features(ranker):
        return None
    return ColumnStatistics.of(evenly_spaced(X, SAMPLE_ROWS))


def choose_scale(
    ranker: Any, overview: ColumnStatistics | None, *, has_queries: bool
) -> str | None:
    """The name of the scaling that follows from the parameter `scale`."""
    given_points = _has_points(ranker)
    if ranker.scale != "auto":
        if ranker.scale is not None and (given_points or not has_features(ranker)):
            what = "landmarks are points" if given_points else f"kernel={ranker.kernel!r}"
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
    if name is None and ranker.kernel == "linear" and overview is not None:
        check_not_tiny(overview)
    scaling: Scaling | None = None if name is None else QUERY_SCALINGS.get(name)
    if name == ColumnStandard.name or follows_variance(ranker):
        found = statistics(scaling)
        if name == ColumnStandard.name:
            names = getattr(ranker, "feature_names_in_", None)
            scaling = ColumnStandard.of(found, centre=not sparse, names=names)
            found = found.transformed(scaling.mean, scaling.deviation)
        if follows_variance(ranker):
            ranker.gamma_ = scaled_gamma(found)
    ranker.scale_, ranker.scaling_ = name, scaling
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
        warn_of_queries(ranker, method, groups, named=qid is not None)
    return scaled_rows(ranker, X, groups)


def warn_of_queries(
    owner: Any, method: str, groups: QueryGroups, *, named: bool, subject: str = ""
) -> None:
    """Warn if rows may not be whole queries, which a fitted ranker or transformer needs.

    They have no queries although the training rows had several, or each is the only one of its
    query. Rows that are one query are `named` by the same id for all of them. `subject`
    begins the message.
    """
    if _spoken_for.get():
        return
    subject = subject or f"{type(owner).__name__} scales features"
    n_rows = groups.n_rows
    n_queries, max_query_rows = owner.n_queries_, owner.max_query_rows_
    if not named and n_queries > 1 and n_rows > 1:
        warn(
            f"{subject} within queries and was fitted on {n_queries} queries of at most "
            f"{max_query_rows} rows, but {method} got {n_rows} rows without qid and scales them as "
            "one query. Pass qid, with the same id for all rows if they are one query. In a "
            "pipeline, use sklearn.set_config(enable_metadata_routing=True) and pass qid to the "
            "pipeline, or use the parameter scale of the ranker in place of a transformer.",
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


def better_scale(
    ranker: Any, X: Any, y: Array, groups: QueryGroups, default: str | None
) -> tuple[str | None, AlphaChoice | None]:
    """The scaling with the best held-out score, if it is clearly better than the default.

    All are tried on the same queries, each with its own best alpha. The default stays unless
    another is better by more than one standard error of the difference over queries, or by two if
    only the other needs qid to predict. If there are many rows, a sample of whole queries is tried.
    It depends on the query ids, not on their order.

    Also returns the choice of alpha with this scaling, if it is that of the whole problem.
    """
    rows, some = _sample(groups, _trial_rows(ranker, X.shape[1])), as_given(X)
    is_whole = len(rows) == groups.n_rows
    if not is_whole:
        some, y, groups = some[rows], y[rows], groups.take(rows)
    names = (None, *SCALINGS) if default is None else SCALINGS
    choices = {name: _tried_choice(ranker, name, some, y, groups) for name in names}
    found = {name: _by_query(choice) for name, choice in choices.items()}
    usual, best, lead = found[default], default, 0.0
    if usual is None or len(usual) < 2:
        return default, None
    for name, values in found.items():
        if values is not None and len(values) == len(usual):
            gain = values - usual
            error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
            needs_queries = default is None and name in QUERY_SCALINGS
            if gain.mean() > max(lead, (2.0 if needs_queries else 1.0) * error):
                best, lead = name, float(gain.mean())
    return best, choices[best] if is_whole and not hasattr(ranker, "n_landmarks") else None


def _by_query(choice: AlphaChoice | None) -> Array | None:
    """The held-out score of every query at the best alpha, such that larger is better."""
    if choice is None or choice.by_query is None or choice.curve is None:
        return None
    return choice.by_query if choice.curve.greater_is_better else -choice.by_query


def _tried_choice(
    ranker: Any, name: str | None, X: Any, y: Array, groups: QueryGroups
) -> AlphaChoice | None:
    """The choice of alpha with a scaling; None if there is nothing to learn from."""
    from rankwise.holdout.alpha_choice import choose_alpha  # compiles loops

    trial = clone(ranker).set_params(scale=name)
    if getattr(ranker, "monotone", None):
        names = getattr(ranker, "feature_names_in_", None)
        signs = monotone_signs(ranker.monotone, names, X.shape[1]) or ()
        trial.set_params(monotone=dict(enumerate(signs)))  # X is an array
    if hasattr(trial, "n_landmarks"):
        most = min(TRIAL_LANDMARKS, X.shape[0])
        number = trial.n_landmarks if isinstance(trial.n_landmarks, int) else most
        trial.set_params(landmarks="random", n_landmarks=min(number, most), random_state=0)
    try:
        problem = trial.make_problem(X, y, qid=groups, sample_weight=groups.row_weights)
        return choose_alpha(problem.settled(), by_query=True)
    except DataError:  # of a sample
        return None


def _trial_rows(ranker: Any, n_features: int) -> int:
    """How many rows scalings are tried on: all of them, where a fit takes little time."""
    if ranker.kernel != "linear" and not hasattr(ranker, "n_landmarks"):
        return KERNEL_TRIAL_ROWS
    return int(np.clip(TRIAL_NUMBERS // max(n_features, 1), KERNEL_TRIAL_ROWS, TRIAL_ROWS))


def _sample(groups: QueryGroups, most: int) -> Index:
    """The rows of some queries, at least two."""
    if groups.n_rows <= most:
        return np.arange(groups.n_rows)
    by_hash = np.argsort([query_hash(name) for name in groups.names.tolist()], kind="stable")
    fits = np.cumsum(groups.sizes[by_hash]) <= most
    chosen = by_hash[: max(2, int(np.count_nonzero(fits)))]
    return np.flatnonzero(np.isin(groups.codes, chosen))


def warn_of_scales(ranker: Any, X: Any) -> None:
    """Warn after a fit to the rows X, as the ranker sees them; at most once.

    The features may have very different scales, or the kernel may be nearly constant or nearly
    the identity on these rows.
    """
    if has_features(ranker) and warn_of_constants(ranker, X):
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
    known = getattr(ranker, "feature_range_", None)
    if known is not None and getattr(ranker, "scaling_", None) is None:
        ranges = (known[1] - known[0])[known[1] > known[0]]
        if not len(ranges) or ranges.max() <= MOST_SPREAD * ranges.min():
            return None  # without another look at the rows: the ratio of ranges is enough
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
    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with quiet, blas_threads_for(X.shape[0]):
        K = np.asarray(to_host(kernel(backend_of(X).rows(X, slice(None)))))
        size = np.sqrt(K.diagonal())
        similarity = (K / size[:, None] / size)[~np.tri(len(K), dtype=bool)]
    if not np.isfinite(similarity).all():  # of a sigmoid kernel, which need not be positive
        return None
    if len(K) < LEAST_ROWS and not (similarity == 1.0).all():
        return None
    advice = 'Use gamma="scale", or gamma=None with scale="auto".'
    if np.mean(abs(similarity) >= NEAR_ZERO) <= SHARE:
        return (
            f"the {kernel.name} kernel with gamma={kernel.gamma:.3g} is nearly 0 between different "
            f"rows, so the ranker cannot generalize. A smaller gamma makes rows similar. {advice}"
        )
    if np.mean(similarity <= NEAR_ONE) <= SHARE:
        return (
            f"the {kernel.name} kernel with gamma={kernel.gamma:.3g} is nearly the same between "
            f"all rows, which it hardly distinguishes. A larger gamma does. {advice}"
        )
    return None
