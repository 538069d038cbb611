"""Error messages for invalid input."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from rankwise import (
    KPCR,
    RLS,
    KPCRank,
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SeenFeatures,
    SparseBilinearRanker,
    SparseRankRLS,
    SparseRLS,
)
from rankwise.data import Battles
from rankwise.errors import DataError, ParameterError, RankwiseWarning

X = np.arange(8.0).reshape(4, 2) ** 1.5
Y = np.array([0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("estimator", [RankRLS(), RankRLS(kernel="rbf", scale=None)])
def test_values_that_are_not_finite(estimator):
    """When predicting; `test_input_errors.py` has the values of a fit."""
    broken = X.copy()
    broken[2, 1] = -np.inf
    with pytest.raises(ValueError, match=r"infinity"):
        estimator.fit(X, Y).predict(broken)


@pytest.mark.parametrize("estimator", [RankRLS(), RLS()])
def test_lengths(estimator):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.fit(X, Y[:3])
    with pytest.raises(DataError, match="got 3 for 4 rows"):
        estimator.fit(X, Y, qid=[1, 1, 2])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        estimator.fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="expecting 2 features"):
        estimator.fit(X, Y).predict(X[:, :1])
    with pytest.raises(NotFittedError):
        type(estimator)().predict(X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankRLS(ties="exclude").fit(X, np.ones(4)), "No query has two different labels"),
        (lambda: RankRLS().fit(X, Y, qid=[1, 2, 3, 4]), "Every query has a single row"),
        (lambda: RankRLS().fit(X, Y, qid=[1, 1, np.nan, 2]), "missing in row 2"),
        (lambda: RankRLS().fit_pairs(X, [[0, 4]]), "points outside X"),
        (lambda: RankRLS().fit_pairs(X, [[1, 1]]), "with itself"),
        (lambda: RankRLS().fit_pairs(X, [[0, 1]], weight=[0.0]), "have weight 0"),
        (
            lambda: RankRLS().fit(X, Y).score(X, np.column_stack((Y, Y))),
            "must have 4 rows and 1 columns",
        ),
        (lambda: RankRLS(kernel="poly", scale=None).fit(X, Y).predict(1e200 * X), "overflows"),
        (lambda: RankRLS(kernel="precomputed").fit(X, Y), "must be square"),
        (lambda: RankRLS(kernel="precomputed").fit(np.triu(np.ones((4, 4))), Y), "be symmetric"),
        (lambda: RankRLS().fit(1e200 * X, Y), "overflow"),
        (lambda: RankRLS(kernel="poly", degree=99, scale=None).fit(1e6 * X, Y), "not finite"),
        (lambda: RankRLS(kernel=lambda a, b: np.nan, scale=None).fit(X, Y), "not finite"),
        (
            lambda: RankRLS(kernel="poly", degree=1.5, coef0=0, scale=None).fit(X - 9, Y),
            "Use a whole degree",
        ),
        (lambda: RankRLS(kernel=RBF()).fit(sp.csr_array(X), Y), "take dense rows: pass X.toarray"),
    ],
)
def test_invalid_data(call, message):
    with pytest.raises(DataError, match=message):
        call()


POINTWISE = [RLS(), SparseRLS(landmarks=X[:2]), KPCR(1)]
PAIRWISE = [
    RankRLS(),
    RankRLS(kernel="rbf"),
    RankRLS(ties="exclude"),
    SparseRankRLS(landmarks=X[:2]),
    KPCRank(1),
    KPCRank(),
    RankSVM(),
    PairwiseGP(optimizer=None),
    PairwiseGP(likelihood="gaussian", optimizer=None),
]


@pytest.mark.parametrize("ranker", [*POINTWISE, *PAIRWISE], ids=repr)
@pytest.mark.parametrize("label", [0.0, 0.1])  # sums of the second are rounded
def test_constant_labels(ranker, label):
    labels = np.full(6, label)
    rows = np.vstack((X, X[:2]))
    with pytest.raises(DataError, match=r"No query has two different labels \(1 query, 6 rows\)"):
        ranker.fit(rows, labels)
    with pytest.raises(DataError, match="No query has two different labels"):
        RankingSearchCV(ranker, {}, cv=2).fit(rows, labels)
    by_query = np.repeat([label, 0.7], 3)
    if ranker in PAIRWISE:
        with pytest.raises(DataError, match=r"No query .* \(2 queries, 6 rows\)"):
            ranker.fit(rows, by_query, qid=np.repeat([1, 2], 3))
    else:
        ranker.fit(rows, by_query, qid=np.repeat([1, 2], 3))  # a regression across queries


def test_constant_labels_in_blocks():
    constant = [(X[:2], [1, 1], [1, 1]), (X[2:], [2, 2], [2, 2])]
    with pytest.raises(DataError, match=r"No query .* \(2 queries, 4 rows\)"):
        SparseRankRLS(landmarks=X[:2]).fit_blocks(constant)
    SparseRLS(landmarks=X[:2]).fit_blocks(constant)
    with pytest.raises(DataError, match=r"No query .* \(1 query, 4 rows\)"):
        SparseRLS(landmarks=X[:2]).fit_blocks([constant[0], (X[2:], [1, 1], [2, 2])])
    SparseRankRLS(landmarks=X[:2]).fit_blocks([*constant, (X[:2], [1, 2], [3, 3])])


def test_one_constant_output_of_several():
    scores = RankRLS().fit(X, np.column_stack((Y, np.ones(4)))).predict(X)
    np.testing.assert_allclose(scores[:, 1], scores[0, 1])
    assert np.ptp(scores[:, 0]) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankRLS(alpha=-1).fit(X, Y), "alpha must be a finite number, 0 or more"),
        (lambda: RankRLS().path(X, Y, []), "non-empty"),
        (lambda: RankRLS().path(X, Y, [1.0, -1.0]), "alpha must be"),
        (lambda: RankRLS(kernel="rfb").fit(X, Y), "Did you mean 'rbf'"),
        (lambda: RankRLS(kernel="rbf", gamma=-1.0).fit(X, Y), "gamma must be"),
        (lambda: RankRLS(ties="drop").fit_pairs(X, [[0, 1]]), "ties must be one of"),
        (lambda: RankRLS(solver="cholesky").fit(X, Y), "solver must be one of"),
        (
            lambda: RankRLS(kernel="rbf", solver="primal", scale=None).fit(X, Y),
            'needs kernel="linear"',
        ),
    ],
)
def test_invalid_parameters(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_kernel_matrix_that_does_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 8)
    with pytest.raises(MemoryError, match="kernel matrix of 4 rows needs"):
        RankRLS(kernel="rbf", scale=None).fit(X, Y)


def damaged(X):
    broken = X.copy()
    part = broken.col if X.format == "coo" else broken.indices
    part[0] = 10**6
    return broken


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ma.masked_array(X, mask=X > 5), Y, "X has masked entries"),
        (X, np.ma.masked_array(Y, mask=Y > 2), "y has masked entries"),
        (X, [0, 1, 2, 10**400], "y is too large for float64 in row 3"),
        (damaged(sp.csc_array(X)), Y, "damaged sparse matrix"),
        (damaged(sp.coo_array(X)), Y, "damaged sparse matrix"),
    ],
    ids=["masked X", "masked y", "huge label", "csc", "coo"],
)
def test_what_conversions_would_lose_is_refused(X, y, message):
    with pytest.raises(DataError, match=message):
        RankRLS().fit(X, y)


def with_pointers(*pointers):
    X = sp.csr_array(np.ones((4, 3)))
    X.indptr[:] = pointers
    return X


DATES = np.array(["2020-01-01", "NaT", "2020-01-02", "2020-01-03"], dtype="M8[D]")


@pytest.mark.parametrize("ranker", [RankRLS(), PairwiseGP(), RankSVM(), SeenFeatures()])
def test_columns_that_cannot_be_features_are_named(ranker):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    for rows, message in [
        (DATES[:, None], r"^X must hold real numbers: got dates"),
        (DATES[:, None] - DATES[0], r"^X must hold real numbers: got dates"),
        (frame.assign(day=DATES), r"Column 'day' of X must hold real .* dates"),
        (
            frame.assign(day=pandas.Series(DATES).dt.tz_localize("UTC")),
            r"Column 'day' of X must hold real .* dates",
        ),
        (
            polars.DataFrame({"a": X[:, 0], "day": DATES}),
            r"Column 'day' of X must hold real .* dates",
        ),
        (frame.assign(day=list(DATES)).astype({"day": object}), r"'day' of X must .* dates"),
        (frame.assign(day=DATES.tolist()), r"'day' of X must hold real .* \(date\)"),
        (frame.assign(word=["1", "2", "x", "4"]), r"Column 'word' of X is text, such as 'x'"),
        (
            polars.DataFrame({"a": X[:, 0], "word": list("1x3y")}),
            r"'word' of X is text, such as 'x'",
        ),
        (frame.set_axis(["a", "a"], axis=1), r"X has two columns named 'a'"),
        (frame.set_axis([0, 0], axis=1), r"X has two columns named 0"),
        (arrow.table([X[:, 0], X[:, 1]], names=["a", "a"]), r"X has two columns named 'a'"),
        (frame[[]], r"X is a data frame without columns"),
    ]:
        with pytest.raises(DataError, match=message):
            ranker.fit(rows, Y)
    ranker.fit(frame.assign(word=["1", "2", "3", "4"], column_names=1.0), Y)


def test_labels_that_are_sparse_or_have_two_columns_of_a_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.column_stack((Y, Y)), columns=["y", "y"])
    for labels, message in [
        (sp.csr_array(Y[:, None]), "y is a sparse array: pass"),
        (frame, "y has two columns named 'y'"),
        (frame.iloc[:, :0], "y is a data frame without columns"),
    ]:
        with pytest.raises(DataError, match=message):
            RankRLS().fit(X, labels)


COMPARED = [[0, 1], [2, 1], [2, 3], [3, 0]]
TRIPLETS = [[1, 2, 3], [2, 1, 3]]


def battles(**given):
    given = {"first": [1, 2, 3, 1], "second": [2, 3, 1, 3], "outcome": [1, 1, 0, 0], **given}
    return Battles.of(**given)


def column(values):
    return [[value] for value in values] if isinstance(values, list) else values[:, None]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda values: RankRLS().fit_pairs(X, COMPARED, margin=values), "margin"),
        (lambda values: RankRLS().fit_pairs(X, COMPARED, weight=values), "weight"),
        (lambda values: PairwiseGP().fit_pairs(X, COMPARED, weight=values), "weight"),
        (lambda values: RankRLS().fit(X, Y, qid=[1, 1, 2, 2], query_weight=values), "query_weight"),
        (lambda values: RankRLS().fit(X, Y, sample_weight=values), "sample_weight"),
        (lambda values: battles(weight=values), "weight"),
        (lambda values: battles(context=values), "context"),
        (lambda values: SparseBilinearRanker().fit(column(values), X, TRIPLETS), "Q"),
        (lambda values: RankRLS().fit(column(values), Y), "X"),
    ],
)
def test_numbers_that_conversions_would_lose_are_refused(call, name):
    with pytest.raises(DataError, match=f"{name} has masked entries"):
        call(np.ma.masked_array(Y + 1.0, mask=Y > 2))
    numbers = Y + 1.0
    for array, kind in [
        (DATES[[0, 2, 2, 3]], "dates or times"),
        (DATES[[2, 2, 3, 3]] - DATES[0], "dates or times"),
        (numbers + 1j, "complex numbers"),
    ]:
        objects = array.astype(object)  # of Python
        scalars = np.array([*array, None])[:-1]  # of NumPy
        mixed = [*array[:1], *numbers[1:]]
        for values in (array, objects, scalars, list(array), array.tolist(), mixed):
            if name == "X" and kind == "complex numbers":
                continue  # scikit-learn refuses these
            with pytest.raises(DataError, match=f"{name} must hold real numbers: got {kind}"):
                call(values)
    with pytest.raises(ValueError, match=r"must hold|one entry|lengths|inhomogeneous"):
        call([[1.0], [1.0, 2.0], [3.0], [4.0]])
    if name not in ("Q", "X"):
        with pytest.raises(DataError, match=f"{name} is a sparse array: pass {name}.toarray"):
            call(sp.csr_array(Y[:, None] + 1.0))
        with pytest.raises(DataError, match=rf"{name} (must hold|has) .*number"):
            call([10**400, 1, 1, 1])


def test_masked_ids_and_row_numbers_are_refused():
    masked = np.ma.masked_array([1, 2, 3, 1], mask=[True, False, False, False])
    for name in ("first", "second", "outcome", "groups", "judge"):
        with pytest.raises(DataError, match=f"{name} has masked entries"):
            battles(**{name: masked})
    with pytest.raises(DataError, match="pairs has masked entries"):
        RankRLS().fit_pairs(X, np.ma.masked_equal(COMPARED, 3))
    with pytest.raises(DataError, match="triplets has masked entries"):
        SparseBilinearRanker().fit(X, X, np.ma.masked_equal(TRIPLETS, 3))
    with pytest.raises(DataError, match="first needs ids such as numbers or text"):
        battles(first=[{"id": 1}] * 4)
    with pytest.raises(DataError, match="Battle 0: the outcome 1000"):
        battles(outcome=[10**400, 1, 1, 1])


@pytest.mark.parametrize(
    "bad",
    [
        damaged(sp.csr_array(X)),
        with_pointers(0, 3, 6, 9, -(2**30)),
        with_pointers(0, 3, 6, 9, 0),
        with_pointers(0, 10**8, 6, 9, 12),
        np.ma.masked_array(X, mask=X > 5),
    ],
    ids=["columns", "below zero", "none at the end", "too large", "masked"],
)
@pytest.mark.parametrize(
    "ranker", [RankRLS(), RankSVM(), SparseRankRLS(), PairwiseGP(), SeenFeatures()], ids=repr
)
def test_rows_that_point_outside_are_refused(ranker, bad):
    with pytest.raises(DataError, match=r"damaged sparse matrix|masked entries"):
        ranker.fit(bad, Y)
    ranker = clone(ranker).fit(X, Y)
    with pytest.raises(DataError, match=r"damaged sparse matrix|masked entries"):
        (ranker.transform if isinstance(ranker, SeenFeatures) else ranker.predict)(bad)


def test_scores_that_overflow_are_an_error():
    ranker = RankRLS(1.0, scale=None).fit(X, Y * 1e300)
    with pytest.raises(DataError, match="scores are not finite"):
        ranker.predict(X * 1e300)


@pytest.mark.parametrize("alpha", [0.0, 5e-324, 1e-300])
def test_tiny_alphas_on_constant_rows_give_equal_scores(alpha):
    with pytest.warns(RankwiseWarning, match="constant"):
        ranker = RankRLS(alpha, kernel="rbf").fit(np.zeros((4, 2)), Y)
    assert ranker.predict(np.zeros((2, 2))).tolist() == [0.0, 0.0]


def with_nan(kind):
    rows = np.arange(12.0).reshape(4, 3)
    rows[2, 1] = rows[3, 0] = np.nan
    if kind == "array":
        return rows, "row 3, column 0"
    if kind == "sparse":
        return sp.csr_array(rows), "row 2, column 1"
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    return frame.astype("Int64") if kind == "nullable" else frame, "row 3, column 'a'"


@pytest.mark.parametrize("kind", ["array", "sparse", "frame", "nullable"])
def test_missing_values_are_counted_and_named(kind):
    X, where = with_nan(kind)
    with pytest.raises(DataError, match=f"2 missing values, the first in {where}.*BoostedRanker"):
        RankRLS().fit(X, [0, 1, 2, 3])


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]"])
def test_dates_are_no_labels(kind):
    with pytest.raises(DataError, match="y must hold real numbers: got dates or times"):
        RankRLS().fit(np.eye(4), np.arange(4).astype(kind))
