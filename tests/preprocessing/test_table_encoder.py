"""Encoders of data frames."""

from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import DateFeatures, TableEncoder
from rankwise.errors import DataError, ParameterError

MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))


@given(st.lists(MOMENTS, min_size=1, max_size=5), st.lists(st.none() | MOMENTS, min_size=1))
def test_features_of_dates_agree_with_the_calendar_of_python(old, new):
    frames = [pd.DataFrame({"t": np.array(times, "datetime64[us]")}) for times in (old, new)]
    found = DateFeatures().fit(frames[0]).transform(frames[1])
    first = datetime.combine(min(old).date(), datetime.min.time())
    for row, moment in zip(found, new, strict=True):
        if moment is None:
            assert np.isnan(row).all()
        else:
            days = (moment - first) / timedelta(days=1)
            assert_allclose(row, [days, date.weekday(moment), moment.month])


def test_columns_of_dates_are_found_by_their_names():
    frame = pd.DataFrame({"a": pd.to_datetime(["2024-02-28"]), "b": pd.to_datetime(["2020-02-28"])})
    encoder = DateFeatures().fit(frame)
    assert_allclose(encoder.transform(frame[["b", "a"]]), encoder.transform(frame))
    with pytest.raises(DataError, match=r"columns of dates \['a', 'b'\]: got \['a'\]"):
        encoder.transform(frame[["a"]])


FRAME = pd.DataFrame(
    {
        "a": [1.0, np.nan, 4.0, 5.0],
        "b": ["x", "y", None, "x"],
        "c": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04"]),
    }
)


@pytest.mark.parametrize(
    ("missing", "value"), [("median", 4), ("mean", 10 / 3), (0, 0), (-1.5, -1.5)]
)
def test_what_replaces_missing_values(missing, value):
    made = TableEncoder(missing=missing, text="onehot").fit_transform(FRAME)
    assert_allclose(made[:, 0], [1, value, 4, 5])
    assert_allclose(made[:, 1:4].sum(axis=1), 1)  # a missing text is a category
    assert np.isfinite(made).all()
    kept = TableEncoder(missing=None).fit_transform(FRAME)
    assert np.isnan(kept).sum() == 4


def test_frequent_categories_and_all_others():
    words = ["a"] * 3 + ["b"] * 2 + list("cdef")
    encoder = TableEncoder().fit(pd.DataFrame({"w": words}))
    assert list(encoder.get_feature_names_out()) == ["w_a", "w_b", "w_infrequent_sklearn"]
    made = encoder.transform(pd.DataFrame({"w": ["a", "c", "new", None]}))
    assert_allclose(made, [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])
    many = pd.DataFrame({"w": [f"w{k // 2}" for k in range(600)]})
    assert TableEncoder().fit_transform(many).shape == (600, 100)
    assert TableEncoder(text="hashing").fit_transform(many).shape == (600, 1024)


def test_dates_are_left_out_if_so_asked_and_empty_columns_stay():
    made = TableEncoder(dates=False).fit_transform(FRAME.assign(d=None))
    assert made.shape == (4, 1 + 2 + 1)  # a, x and others of b, and d
    encoder = TableEncoder().fit(FRAME)
    assert np.isfinite(encoder.transform(FRAME.assign(a=None, b=None, c=pd.NaT))).all()


def test_errors():
    with pytest.raises(ParameterError, match="text must be"):
        TableEncoder(text="words").fit(FRAME)
    with pytest.raises(DataError, match="Expected a data frame"):
        TableEncoder().fit([[1.0]])
    many = pd.DataFrame({"w": [f"w{k}" for k in range(1001)]})
    with pytest.raises(DataError, match="1,001 different texts"):
        TableEncoder(text="onehot").fit(many)
