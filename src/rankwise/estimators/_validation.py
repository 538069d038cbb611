"""Checks of rows and labels, and the device on which a ranker computes.

scikit-learn checks arrays. What it refuses is explained here: which value it is, in which row and
column, and what to do.

Tensors are processed on their device, and results are tensors. NumPy arrays with ``device="cuda"``
are sent to the GPU block by block, and results are NumPy arrays. NumPy arrays without a device are
processed by NumPy and SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from rankwise.backends.arrays import (
    Array,
    Index,
    check_compressed,
    is_sparse,
    is_tensor,
    to_host,
)
from rankwise.backends.dispatch import Backend, as_given, backend_of, is_sent
from rankwise.errors import DataError, DeviceError, MissingExtraError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.graph.id_arrays import (
    check_column_names,
    check_real,
    check_unmasked,
    is_number,
    too_large,
)
from rankwise.graph.label_checks import check_row_weights, numeric_labels
from rankwise.graph.query_groups import check_ids
from rankwise.problem.memory import check_columns_fit
from rankwise.tables import plural

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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

    Sparse rows are sorted, without duplicates: SciPy would otherwise sort the caller's rows.
    """
    _check_cells(X)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of a sum that looks for NaN
            checked = validate_data(estimator, X, *y, **options)
        return (_sorted_rows(checked[0]), *checked[1:]) if y else _sorted_rows(checked)
    except (OverflowError, TypeError, ValueError) as error:
        refused = error
    explain_rows("X", X, refused)
    explain_labels(y[0] if y else None, refused)
    known, given = getattr(estimator, "feature_names_in_", ()), getattr(X, "columns", ())
    if "feature names should match" in str(refused) and set(known) <= set(given):
        raise DataError(
            f"{refused}Pass the columns of the fit, as in X[list(ranker.feature_names_in_)]."
        )
    raise refused


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
        return X, y[self.rows], None if qid is None else self.groups.names[self.groups.codes]


# Rows and labels that scikit-learn refuses.


def _sorted_rows(X: Any) -> Any:
    """Rows as they are, or a copy of sparse rows that have duplicates or are not sorted."""
    if not is_sparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def _check_cells(X: Any) -> None:
    """Refuse lazy frames, and what conversions would lose: masks, dates, damaged sparse rows."""
    if hasattr(X, "collect"):
        raise DataError("X is a lazy data frame: pass X.collect().")
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
        "rows, or use BoostedRanker, which learns from missing values.",
        "Drop these rows, or use TransductiveRankRLS, which learns from rows without labels as "
        "well.",
    ),
    Fault(
        "infinity", "infinite", np.isinf, *["Use finite numbers instead, or drop these rows."] * 2
    ),
)


def explain_rows(what: str, X: Any, error: Exception, encoder: str = ENCODER) -> None:
    """Raise a more detailed error about rows than scikit-learn's, if possible.

    Messages call the rows `what`; `encoder` turns text into numbers.
    """
    columns: list[tuple[str, NDArray[Any]]] = []  # the name, or the number, and the values
    if not is_sparse(X):
        _check_is_table(what, X)
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            columns = [(repr(name), np.asarray(X[name])) for name in X.columns]
        elif (array := np.asarray(X)).ndim == 2:
            columns = [(str(k), values) for k, values in enumerate(array.T)]
        for name, values in columns:
            _check_numbers(f"Column {name} of {what}", values, encoder)
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
    frame = f"Make a data frame of it, as in pandas.DataFrame({what})."
    rows = list(X) if len(getattr(X, "shape", ())) == 1 else X
    rows = rows if isinstance(rows, (list, tuple)) else []
    got, advice = "", "Pass a list of rows, an array or a data frame."
    if isinstance(X, (str, bytes, PathLike)):
        got, advice = (
            repr(str(X)[:SHOWN]),
            (
                "Read a file first, for example with rankwise.data.read_letor or "
                "rankwise.data.read_table."
            ),
        )
    elif isinstance(X, (dict, set, Iterator)):
        got, advice = f"a {type(X).__name__}", frame if isinstance(X, dict) else advice
    elif X is None or np.isscalar(X) or getattr(X, "shape", None) == ():
        got = repr(X)
    elif rows and isinstance(rows[0], str):
        got = f"texts, such as {rows[0][:SHOWN]!r}"
        advice = f"Make features of them, for example with {VECTORIZER}."
    elif rows and isinstance(rows[0], dict):
        got, advice = "dictionaries", frame
    if got:
        raise DataError(f"{what} must have rows of numbers: got {got}. {advice}")
    if hasattr(X, "columns"):
        check_column_names(X, what)
    if all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        other = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
        if other is not None:
            raise DataError(
                f"All rows of {what} must have the same length: got "
                f"{plural(len(rows[0]), 'value')} in row 0, and {len(rows[other])} in row {other}."
            )


def _check_numbers(where: str, values: NDArray[Any], encoder: str) -> None:
    """Raise an error for the first value of a column that is not a number."""
    if values.dtype.kind not in "OSTU":
        return
    for row, value in enumerate(values.tolist()):
        if isinstance(value, (str, bytes)):
            if not is_number(value):
                raise DataError(
                    f"{where} is text, such as {value[:SHOWN]!r} in row {row}: encode it as "
                    f"numbers, for example with {encoder}, or drop it."
                )
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
