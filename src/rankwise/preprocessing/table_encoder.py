"""Transformers that turn the columns of data frames into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from rankwise.data.table_rows import feature_frame
from rankwise.errors import DataError
from rankwise.graph.query_groups import chosen_columns, columns_of
from rankwise.parameters import AnyOf, Choice, Flag, Number, Rule, check_parameters

MOST_CATEGORIES = 1000  # of a column, for one-hot features
FREQUENT = 100  # categories of a column, of which each becomes a feature with text="auto"
HASHED = 1024  # features of a hashed column
IMPUTERS = ("mean", "median", "most_frequent")
DAY = np.timedelta64(1, "D")


class DateFeatures(TransformerMixin, BaseEstimator):
    """Days since the first date of the training rows, day of the week (Monday is 0), and month.

    Attributes
    ----------
    first_ : ndarray of shape (n_columns,)
        The first date of each column in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the columns seen in `fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> from rankwise.preprocessing import DateFeatures
    >>> frame = pd.DataFrame({"seen": pd.to_datetime(["2024-02-28", "2024-03-01"])})
    >>> DateFeatures().fit_transform(frame)
    array([[0., 2., 2.],
           [2., 4., 3.]])
    >>> DateFeatures().fit(frame).transform(pd.DataFrame({"seen": pd.to_datetime(["2024-03-02"])}))
    array([[3., 5., 3.]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the first date of each column.

        Parameters
        ----------
        X : data frame of shape (n_rows, n_columns)
            Dates and times; NaT where they are missing.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        times = _times(X)
        late = np.where(np.isnat(times), np.datetime64("9999", "us"), times)
        self.first_ = late.min(axis=0).astype("datetime64[D]")
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = times.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Three columns for each column of dates; NaN where a date is missing.

        Parameters
        ----------
        X : data frame of shape (n_rows, n_columns)
            With the columns of `fit`, in any order.

        Returns
        -------
        ndarray of shape (n_rows, 3 n_columns)
        """
        check_is_fitted(self)
        names, given = list(self.feature_names_in_), columns_of(X)
        if len(given) != len(names) or set(given) != set(names):
            raise DataError(f"Expected the columns of dates {names}: got {given}.")
        times = _times(chosen_columns(X, names))
        days = times.astype("datetime64[D]")
        since = (times - self.first_.astype(times.dtype)) / DAY
        numbers = days.astype(np.int64)  # since 1970-01-01, a Thursday
        months = days.astype("datetime64[M]").astype(np.int64)
        parts = np.stack([since, (numbers + 3) % 7, months % 12 + 1], axis=2)
        parts[np.isnat(times)] = np.nan
        return parts.reshape(len(times), -1)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the features: of each column, with _days, _weekday and _month behind.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        ends = ("days", "weekday", "month")
        names = [f"{name}_{end}" for name in self.feature_names_in_ for end in ends]
        return np.array(names, dtype=object)


def _times(X: Any) -> Any:
    """The columns of a data frame as times in microseconds."""
    return np.column_stack([np.asarray(X[name], dtype="datetime64[us]") for name in X.columns])


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn the columns of a data frame into numbers: text, categories, dates and missing values.

    Takes frames of pandas, polars and pyarrow (``pip install 'rankwise[tables]'``), and needs no
    labels. `AutoRanker` uses it for frames that are not all numbers. Other rankers take it as the
    first step of a pipeline: ``make_pipeline(TableEncoder(), RankRLS())``.

    Parameters
    ----------
    text : {"auto", "onehot", "hashing"}, default="auto"
        What becomes of text and categories. "onehot": a feature for each category of the training
        rows, of which a column may have 1,000. "auto": a feature for each of the 100 most frequent
        categories that at least two training rows have, and one for all others. "hashing": 1,024
        features of the words, for free text; sparse.
    missing : {"median", "mean", "most_frequent"}, float or None, default="median"
        What replaces missing numbers: a statistic of the training rows, or a number. None: nothing.
        Missing text is a category.
    dates : bool, default=True
        Whether dates become features: days since the first date of the training rows, day of the
        week, and month. False: they are left out.

    Attributes
    ----------
    columns_ : ColumnTransformer
        The fitted steps of the columns.
    kinds_ : dict of str to str
        What each column has: "number", "text" or "date".
    n_features_in_, feature_names_in_
        Number and names of the columns seen in `fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> from rankwise.preprocessing import TableEncoder
    >>> frame = pd.DataFrame({"price": [9.0, None, 7.0], "city": ["Rome", "Oslo", "Rome"]})
    >>> encoder = TableEncoder(text="onehot").fit(frame)
    >>> encoder.transform(frame)
    array([[9., 0., 1.],
           [8., 1., 0.],
           [7., 0., 1.]])
    >>> list(encoder.get_feature_names_out())
    ['price', 'city_Oslo', 'city_Rome']
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        "text": Choice("auto", "onehot", "hashing"),
        "missing": AnyOf(Choice(*IMPUTERS), Number(), None),
        "dates": Flag(),
    }

    _: KW_ONLY
    text: str = "auto"
    missing: str | float | None = "median"
    dates: bool = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find categories, the values in place of missing ones, and the first dates.

        Parameters
        ----------
        X : data frame of shape (n_rows, n_columns)
        y : None
            Ignored.

        Returns
        -------
        self
        """
        check_parameters(self, self.parameters)
        frame = feature_frame(X)
        names = {"number": "numbers", "text": "words", "date": "dates"}
        self.kinds_ = {name: _kind(frame[name]) for name in frame.columns}
        parts: list[tuple[str, Any, Any]] = []
        for kind, part in names.items():
            columns = [name for name, found in self.kinds_.items() if found == kind]
            if not columns:
                continue
            if kind == "number":
                parts.append((part, self._imputer() or "passthrough", columns))
            elif kind == "date":
                steps = [DateFeatures(), *filter(None, [self._imputer()])]
                parts.append((part, make_pipeline(*steps) if self.dates else "drop", columns))
            elif self.text == "hashing":
                parts += [(name, HashingVectorizer(n_features=HASHED), name) for name in columns]
            else:
                parts.append((part, self._one_hot(frame[columns]), columns))
        self.columns_ = ColumnTransformer(parts, verbose_feature_names_out=False).fit(frame)
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        self.n_features_in_ = len(frame.columns)
        return self

    def transform(self, X: Any) -> Any:
        """The columns as numbers.

        Parameters
        ----------
        X : data frame of shape (n_rows, n_columns)
            Its columns may be in any order, and there may be others.

        Returns
        -------
        ndarray or sparse matrix of shape (n_rows, n_features_out)
        """
        check_is_fitted(self)
        if not hasattr(X, "columns"):
            raise DataError(f"Expected a data frame, as in fit: got a {type(X).__name__}.")
        names = list(self.feature_names_in_)
        given = set(columns_of(X))
        lacking = [name for name in names if name not in given]
        if lacking:
            raise DataError(f"X has no column {lacking[0]!r}, which the encoder was fitted to.")
        frame = feature_frame(chosen_columns(X, names))
        return self.columns_.transform(self._as_fitted(frame))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the features, such as city_Rome and seen_month.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return self.columns_.get_feature_names_out()

    def names_out(self) -> Any:
        """The names of the features; None for hashed words, which have none."""
        check_is_fitted(self)
        hashed = self.text == "hashing" and "text" in self.kinds_.values()
        return None if hashed else self.get_feature_names_out()

    def _imputer(self) -> Any:
        """What replaces missing numbers; None if nothing does."""
        if self.missing is None:
            return None
        if isinstance(self.missing, str):
            return SimpleImputer(strategy=self.missing, keep_empty_features=True)
        return SimpleImputer(
            strategy="constant", fill_value=float(self.missing), keep_empty_features=True
        )

    def _one_hot(self, frame: Any) -> OneHotEncoder:
        if self.text == "auto":
            return OneHotEncoder(
                handle_unknown="infrequent_if_exist", min_frequency=2, max_categories=FREQUENT,
                sparse_output=False,
            )  # fmt: skip
        for name in frame.columns:
            count = frame[name].nunique()
            if count > MOST_CATEGORIES:
                raise DataError(
                    f"The column {name!r} has {count:,} different texts, too many for a feature "
                    "each. Encode the frequent ones (auto) or words (hashing), or leave it out."
                )
        return OneHotEncoder(handle_unknown="warn", sparse_output=False)

    def _as_fitted(self, frame: Any) -> Any:
        """A frame whose columns are of the kinds seen in `fit`."""
        for name, wanted in self.kinds_.items():
            found = _kind(frame[name])
            if wanted == "text" and found == "date":
                frame[name] = frame[name].astype(str).replace("NaT", "")
            elif found != wanted and not frame[name].isna().all():
                raise DataError(
                    f"The column {name!r} has {found}s, but the model was fitted to {wanted}s "
                    "there. Check that the columns have the right names."
                )
            elif found != wanted:
                empty = {"text": "", "date": np.datetime64("NaT", "s"), "number": np.nan}
                frame[name] = np.full(len(frame), empty[wanted], dtype=_DTYPES[wanted])
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.two_d_array = False
        return tags


def encoder_of(model: Any) -> TableEncoder | None:
    """What turns the columns of a data frame into numbers for a model; None without one."""
    model = getattr(model, "best_estimator_", model)
    steps = getattr(model, "steps", None)
    first = steps[0][1] if steps else getattr(model, "encoder_", None)
    return first if isinstance(first, TableEncoder) else None


_DTYPES: dict[str, Any] = {"text": object, "date": "datetime64[us]", "number": np.float64}


def _kind(column: Any) -> str:
    """What a column of `feature_frame` has: number, text or date."""
    return {"f": "number", "M": "date"}.get(column.dtype.kind, "text")
