"""Errors name the value that cannot be used, and say what to do."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from rankwise import (
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SparseBilinearRanker,
    model_selection,
)
from rankwise.errors import DataError

X = np.array([[1.0, 7.0], [2.0, 3.0], [0.0, 5.0], [4.0, 1.0]])
Y = np.array([0.0, 1.0, 2.0, 3.0])


def with_cell(value, dtype=None):
    cells = X.astype(object)
    cells[2, 1] = value
    return cells if dtype is None else cells.astype(dtype)


@pytest.mark.parametrize("ranker", [RankRLS(), RankSVM(), PairwiseGP()])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (with_cell("red"), r"Column 1 of X is text, such as 'red' in row 2. Encode it"),
        (with_cell("red").tolist(), r"Column 1 of X is text, such as 'red' in row 2"),
        (with_cell(b"red"), r"Column 1 of X is text, such as b'red' in row 2"),
        (with_cell({"a": 1}), r"Column 1 of X must hold numbers: .* not 'dict', in row 2\. Make"),
        (with_cell(10**400), r"Column 1 of X is too large for float64 in row 2"),
        (with_cell(None), r"1 missing value, the first in row 2, column 1"),
        (with_cell(np.inf, float), r"1 infinite value, .* row 2, column 1\. Use finite"),
        (sp.csc_array(with_cell(-np.inf, float)), r"1 infinite value, .* row 2, column 1\. Use"),
        (["a red car"] * 4, r"got 'a red car'\. .* make features .*TfidfVectorizer"),
        ([{"a": 1, "b": 2}] * 4, r"got {'a': 1, 'b': 2}\. Make a data frame"),
        ([[1, 2], [3, 4], [5], [6, 7]], r"same length: got 2 values in row 0, and 1 in row 2"),
        ({"a": [1, 2], "b": [3, 4]}, r"got {'a'.*\. Make a data frame of it, as in pandas"),
        ({1, 2, 3, 4}, r"got {1, 2, 3, 4}\. Pass a list of rows"),
        ("train.csv", r"rows of numbers: got 'train.csv'\. Read a file with"),
        (b"1 1:0.5" * 99, r"rows of numbers: got .{1,99}\. Read a file with"),
        (None, r"rows of numbers: got None\. Pass a list of rows, an array or a data frame"),
        (np.array(5.0), r"rows of numbers: got array\(5\.\)\. Pass a list of rows"),
    ],
)
def test_values_of_X_that_cannot_be_features(ranker, rows, message):
    with pytest.raises((DataError, TypeError), match=message) as caught:
        ranker.fit(rows, Y)
    error = caught.value
    assert error.__context__ is None or error.__suppress_context__  # one error, not two


@pytest.mark.parametrize("ranker", [RankRLS(), RankSVM(), PairwiseGP()])
def test_labels_that_are_missing_or_infinite(ranker):
    missing = "2 missing labels, the first in row 1. Drop these rows, or use TransductiveRankRLS"
    for y in ([0, np.nan, 2, np.nan], [0, None, 2, None]):
        with pytest.raises(DataError, match=missing):
            ranker.fit(X, y)
    with pytest.raises(DataError, match=r"1 infinite label, the first in row 2\. Use finite"):
        ranker.fit(X, [0, 1, np.inf, 2])


def test_the_name_of_a_column_is_no_label():
    with pytest.raises(DataError, match=r"got the text 'grade'\. Pass the column itself, as in y="):
        RankRLS().fit(X, "grade")


def test_missing_labels_of_pandas_and_of_several_outputs():
    pandas = pytest.importorskip("pandas")
    message = "1 missing label, the first in row 2"
    with pytest.raises(DataError, match=message):
        RankRLS().fit(X, pandas.Series([0, 1, None, 3], dtype="Int64"))
    with pytest.raises(DataError, match=message):
        RankRLS().fit(X, np.where(np.arange(8).reshape(4, 2) == 5, np.nan, 1.0))


def test_labels_of_a_search():
    with pytest.raises(DataError, match="1 missing label, the first in row 2"):
        RankingSearchCV(RankRLS(), {"alpha": [1.0]}).fit(X, [0, 1, np.nan, 2], qid=[1, 1, 2, 2])


@pytest.mark.parametrize("rows", [None, 5, "train.csv"])
@pytest.mark.parametrize(
    "call",
    [
        lambda X: model_selection.nested_leave_pair_out(RankRLS(), X, Y),
        lambda X: model_selection.leave_pair_out(RankRLS(), X, Y),
        lambda X: model_selection.cross_validate(RankRLS(), X, Y, cv=2),
        lambda X: model_selection.permutation_importance(RankRLS(), X, Y),
        lambda X: model_selection.query_learning_curve(RankRLS(), X, Y, qid=[1, 1, 2, 2]),
        lambda X: RankingSearchCV(RankRLS(), {"alpha": [1.0]}).fit(X, Y),
        lambda X: RankingSearchCV(RankRLS(), {"alpha": [1.0]}).fit_pairs(X, [(0, 1)]),
        lambda X: model_selection.GroupedRanker(RankRLS()).fit(X, Y, [2, 2]),
    ],
)
def test_hold_outs_and_searches_of_what_has_no_rows(call, rows):
    with pytest.raises(DataError, match=f"^X must have rows of numbers: got {rows!r}"):
        call(rows)


def test_comparisons_and_importances_without_labels():
    ranker = RankRLS().fit(X, Y)
    with pytest.raises(DataError, match="y needs one number per row"):
        model_selection.compare_rankers({"a": ranker, "b": ranker}, X, None)
    with pytest.raises(DataError, match=r"one label per row: got y of shape \(\)"):
        model_selection.permutation_importance(ranker, X, None)


def test_queries_and_documents_of_the_bilinear_ranker():
    text = [["red"], ["blue"]]
    for Q, D, message in [
        (text, np.eye(2), r"Column 0 of Q is text, such as 'red' in row 0.*TfidfVectorizer"),
        (np.eye(2), text, r"Column 0 of D is text, such as 'red' in row 0"),
        (np.diag([1, np.nan]), np.eye(2), r"Q contains NaN: 1 missing value, .* row 1, column 1\."),
        (
            np.eye(2),
            np.diag([np.inf, 1]),
            r"D contains infinity: 1 .* row 0, column 0\.",
        ),
    ]:
        with pytest.raises(DataError, match=message):
            SparseBilinearRanker().fit(Q, D, [[0, 0, 1]])


def test_columns_of_text_frames_that_are_lazy_and_labels_that_are_text():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for texts in (pandas.Series(["a red car"] * 4, index=list("abcd")), polars.Series(["a red"])):
        with pytest.raises(DataError, match=r"got 'a red"):
            RankRLS().fit(texts, Y[: len(texts)])
    with pytest.raises(DataError, match=r"lazy data frame: pass X\.collect\(\)"):
        RankRLS().fit(polars.LazyFrame({"a": X[:, 0]}), Y)
    labels = polars.DataFrame({"one": Y, "two": ["1", "2", "high", "4"]})
    with pytest.raises(DataError, match=r"y must have numbers.* in row 2"):
        RankRLS().fit(X, labels)


def test_columns_in_another_order_or_more_of_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    ranker = RankRLS(1.0).fit(frame, Y)
    for other in (frame[["b", "a"]], frame.assign(c=1.0)):
        with pytest.raises(DataError, match=r"Pass the columns of the fit, as in X\[list\("):
            ranker.predict(other)
        found = ranker.predict(other[list(ranker.feature_names_in_)])
        assert_allclose(found, ranker.predict(frame), atol=1e-12)
    with pytest.raises(ValueError, match=r"(?s)now missing:\n- b\n$"):
        ranker.predict(frame[["a"]])


def test_a_column_whose_deviation_overflows_is_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "price"])
    with pytest.raises(DataError, match="The standard deviation of 'price' overflows"):
        RankRLS(scale="standard").fit(frame.assign(price=frame.price * 1e200), Y)


def test_tensors():
    torch = pytest.importorskip("torch")
    rows, labels = torch.tensor(X), torch.tensor(Y)
    rows[2, 1] = torch.nan
    with pytest.raises(DataError, match=r"X contains NaN .* row 2, column 1\. Use finite"):
        RankRLS().fit(rows, labels)
    labels[3] = torch.inf
    with pytest.raises(DataError, match=r"y contains NaN or infinity, the first in row 3\."):
        RankRLS().fit(torch.tensor(X), labels)
