"""Error messages for invalid landmarks and blocks."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from rankwise import KPCRank, RankRLS, SparseRankRLS, SparseRLS
from rankwise.errors import DataError, ParameterError, RankwiseWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))
Y = RNG.standard_normal(12)
QID = np.arange(12) // 4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_landmarks": 13}, "n_landmarks=13 is more than the 12 rows"),
        ({"n_landmarks": 0}, "an integer from 1"),
        ({"n_landmarks": True}, "an integer from 1"),
        ({"n_landmarks": 2.5}, "an integer from 1"),
        ({"landmarks": "kmean"}, "Did you mean 'kmeans'"),
        ({"landmarks": [0, 12]}, r"landmarks\[1\] = 12 is not a row of X, whose rows are 0 to 11"),
        ({"landmarks": [-1, 2]}, r"landmarks\[0\] = -1"),
        ({"landmarks": []}, "one of random, stratified"),
        ({"landmarks": [0.5, 1.0]}, "one of random, stratified"),
        ({"landmarks": [True, False]}, "one of random, stratified"),
        ({"landmarks": None}, "one of random, stratified"),
        ({"landmarks": [0, 1], "n_landmarks": 3}, "2 landmarks are given, but n_landmarks=3"),
        ({"random_state": "x"}, "random_state"),
        ({"alpha": -1.0}, "alpha"),
        ({"ties": "maybe"}, "ties"),
    ],
)
@pytest.mark.parametrize("blockwise", [False, True])
def test_invalid_parameters(parameters, message, blockwise):
    ranker = SparseRankRLS(**parameters, scale=None)
    with pytest.raises(ParameterError, match=message):
        ranker.fit_blocks([(X, Y, QID)]) if blockwise else ranker.fit(X, Y, qid=QID)


@pytest.mark.parametrize(
    ("landmarks", "error", "message"),
    [
        (np.ones((2, 3)), DataError, "points with 3 features, but X has 2"),
        ([[0.0, np.nan]], ValueError, "landmarks contains NaN"),
        (np.zeros((0, 2)), ValueError, "0 sample"),
    ],
)
def test_invalid_points(landmarks, error, message):
    with pytest.raises(error, match=message):
        SparseRankRLS(1.0, landmarks=landmarks, scale=None).fit(X, Y, qid=QID)


def test_precomputed_kernels():
    K = X @ X.T
    for landmarks, message in ((X, "row numbers"), ("kmeans", "needs features")):
        with pytest.raises(ParameterError, match=message):
            SparseRankRLS(1.0, kernel="precomputed", landmarks=landmarks).fit(K, Y, qid=QID)
    with pytest.raises(DataError, match="square"):
        SparseRankRLS(1.0, kernel="precomputed").fit(X, Y, qid=QID)
    with pytest.raises(ParameterError, match="all rows at once"):
        SparseRankRLS(1.0, kernel="precomputed").fit_blocks([(K, Y, QID)])


def test_a_query_split_over_calls():
    ranker = SparseRankRLS(1.0, n_landmarks=3, random_state=0, scale=None).partial_fit(
        X[:6], Y[:6], qid=QID[:6]
    )
    before = ranker.predict(X)
    with pytest.raises(DataError, match=r"Query 1 was also in an earlier block.*Sort the rows"):
        ranker.partial_fit(X[6:], Y[6:], qid=QID[6:])
    # The block with the error was not added.
    np.testing.assert_allclose(ranker.predict(X), before, rtol=1e-12)
    ranker.partial_fit(X[8:], Y[8:], qid=QID[8:])
    with pytest.raises(DataError, match="was also in an earlier block"):
        SparseRankRLS(1.0, scale=None).fit_blocks(
            [(X[:6], Y[:6], QID[:6]), (X[6:], Y[6:], QID[6:])]
        )
    # A regression does not depend on queries.
    halves = SparseRLS(1.0, landmarks=[0, 1], scale=None).fit_blocks(
        [(X[:6], Y[:6], QID[:6]), (X[6:], Y[6:], QID[6:])]
    )
    assert halves.n_queries_ == 3


def test_one_ranking_cannot_be_split_into_blocks():
    ranker = SparseRankRLS(1.0, n_landmarks=3, scale=None).partial_fit(X[:6], Y[:6])
    with pytest.raises(DataError, match="pass the query of every row"):
        ranker.partial_fit(X[6:], Y[6:])
    with pytest.raises(DataError, match="pass the query of every row"):
        ranker.partial_fit(X[6:], Y[6:], qid=QID[6:])
    SparseRLS(1.0, n_landmarks=3, scale=None).partial_fit(X[:6], Y[:6]).partial_fit(X[6:], Y[6:])


def test_inconsistent_blocks():
    ranker = SparseRankRLS(1.0, n_landmarks=3, scale=None).partial_fit(X[:4], Y[:4], qid=QID[:4])
    with pytest.raises(ValueError, match="expecting 2 features"):
        ranker.partial_fit(X[4:, :1], Y[4:], qid=QID[4:])
    with pytest.raises(DataError, match="y has 2 columns in this block, but one dimension"):
        ranker.partial_fit(X[4:], np.column_stack((Y, Y))[4:], qid=QID[4:])


def test_the_first_block_must_have_enough_rows():
    with pytest.raises(ParameterError, match=r"more rows \(in partial_fit, in the first call\)"):
        SparseRankRLS(1.0, n_landmarks=5, scale=None).partial_fit(X[:4], Y[:4], qid=QID[:4])


class Once:
    """Blocks that can be iterated only once."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __iter__(self):
        yield from self.blocks
        self.blocks = []


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "no blocks"),
        ([X], "not a triple"),
        ([3], "not a triple"),
        ((X, Y, QID), "list of triples"),
        (5, "must be a list of triples"),
        ([(X, Y, QID[:-1])], "got 11 for 12 rows"),
        ([(X, Y, 3)], "qid needs one entry per row"),
        (Once([(X, Y, QID)]), "allow only one"),
        ([(X, Y, np.arange(12))], "Every query has a single row"),
        (iter([(X, Y, QID)]), "allow only one"),
    ],
)
def test_invalid_blocks(blocks, message):
    with pytest.raises(DataError, match=message):
        SparseRankRLS(1.0, n_landmarks=3, scale=None).fit_blocks(blocks)


def test_a_block_without_pairs_among_others():
    alone = (X[:2], Y[:2], ["x", "y"])
    ranker = SparseRankRLS(1.0, landmarks=X[:3], scale=None).fit_blocks([alone, (X, Y, QID)])
    same = SparseRankRLS(1.0, landmarks=X[:3], scale=None).fit(X, Y, qid=QID)
    np.testing.assert_allclose(ranker.predict(X), same.predict(X), atol=1e-10)
    assert ranker.n_queries_ == 5
    nothing_yet = SparseRankRLS(1.0, landmarks=X[:3], scale=None).partial_fit(
        *alone[:2], qid=alone[2]
    )
    assert not nothing_yet.predict(X).any()


def test_an_indefinite_kernel_gives_a_warning():
    with pytest.warns(RankwiseWarning, match="not positive semidefinite"):
        ranker = SparseRankRLS(1.0, kernel="sigmoid", gamma=3.0).fit(3 * X, Y, qid=QID)
    assert np.isfinite(ranker.predict(X)).all()


@pytest.mark.parametrize("landmarks", ["rpcholesky", "leverage"])
@pytest.mark.filterwarnings("ignore:The kernel is not positive")
def test_sampling_methods_with_invalid_kernels(landmarks):
    ranker = SparseRankRLS(1.0, n_landmarks=8, landmarks=landmarks, random_state=0, scale=None)
    sigmoid = ranker.set_params(kernel="sigmoid", gamma=1.0)
    for coef0 in (1.0, -1.0):
        sigmoid.set_params(coef0=coef0).fit(X, Y, qid=QID)
        assert np.isfinite(sigmoid.predict(X)).all()
    with pytest.raises(DataError, match="0 or less"):
        sigmoid.set_params(coef0=-50.0).fit(X, Y, qid=QID)
    broken = X.copy()
    broken[-1] = 1e120
    with pytest.raises(DataError, match="row 11 with itself is not finite"):
        ranker.set_params(kernel="polynomial").fit(broken, Y, qid=QID)


def test_alpha_zero_on_singular_moments_gives_the_minimum_norm_solution():
    for alpha in (0.0, 1e-300, 1e-14, 1e-12):
        sparse = SparseRankRLS(alpha, gamma=0.3).fit(X, Y, qid=QID).predict(X)
        dense = RankRLS(alpha, kernel="rbf", gamma=0.3).fit(X, Y, qid=QID).predict(X)
        np.testing.assert_allclose(np.diff(sparse)[:3], np.diff(dense)[:3], atol=1e-4)


def test_a_failed_partial_fit_does_not_change_the_ranker():
    ranker = SparseRankRLS(1.0, kernel="linear", landmarks=X[:3]).partial_fit(
        X[:4], Y[:4], qid=QID[:4]
    )
    before = ranker.predict(X)
    with pytest.raises(DataError, match="overflow"):
        ranker.partial_fit(1e160 * X[4:], Y[4:], qid=QID[4:])
    np.testing.assert_allclose(ranker.predict(X), before, rtol=1e-12)
    assert ranker.n_queries_ == 1
    ranker.partial_fit(X[4:], Y[4:], qid=QID[4:])
    copied = copy(ranker)
    copied.partial_fit(X, Y, qid=QID + 10)
    ranker.partial_fit(X, Y, qid=QID + 10)
    with pytest.raises(ParameterError, match="changed since the first block"):
        ranker.set_params(ties="exclude").partial_fit(X, Y, qid=QID + 20)
    with pytest.raises(ParameterError, match="changed since the first block"):
        copied.set_params(kernel="rbf").partial_fit(X, Y, qid=QID + 20)


def test_a_failed_fit_removes_the_old_model():
    for ranker in (SparseRankRLS(1.0, landmarks=X[:3], scale=None), RankRLS(1.0)):
        ranker.fit(X, Y, qid=QID)
        with pytest.raises(DataError):
            ranker.fit(X, Y, qid=np.arange(12))
        with pytest.raises(NotFittedError):
            ranker.predict(X)
    ranker = SparseRankRLS(1.0, landmarks=[0, 1], scale=None).partial_fit(X, Y, qid=QID)
    with pytest.raises(DataError):
        ranker.fit(X[:, :1], Y, qid=np.arange(12))
    ranker.partial_fit(X, Y, qid=QID)
    with pytest.raises(DataError, match="points outside X"):
        ranker.fit_pairs(X[:, :1], [[0, 99]])
    ranker.partial_fit(X, Y, qid=QID)


def test_the_kernel_is_copied():
    ranker = SparseRankRLS(1.0, landmarks=X[:3], kernel=RBF(1.0)).partial_fit(X, Y, qid=QID)
    before = ranker.predict(X)
    ranker.set_params(kernel__length_scale=5.0)
    np.testing.assert_allclose(ranker.predict(X), before, rtol=1e-12)
    with pytest.raises(ParameterError, match="changed since the first block"):
        ranker.partial_fit(X, Y, qid=QID + 5)


def test_a_regression_needs_two_rows():
    with pytest.raises(DataError, match="at least two rows: got one"):
        SparseRLS(1.0, scale=None).fit_blocks([(X[:1], Y[:1], None)])
    SparseRLS(1.0, landmarks=X[:2], scale=None).fit_blocks(
        [(X[:1], Y[:1], None), (X[1:2], Y[1:2], None)]
    )


def test_points_must_have_the_columns_of_the_rows():
    frame = pd.DataFrame(X, columns=["a", "b"])
    SparseRankRLS(1.0, landmarks=frame[:3], scale=None).fit(frame, Y, qid=QID)
    with pytest.raises(DataError, match=r"in the same order \(a, b\): got b, a"):
        SparseRankRLS(1.0, landmarks=frame[["b", "a"]][:3], scale=None).fit(frame, Y, qid=QID)


def test_scores_that_overflow_float32():
    narrow = X.astype(np.float32)
    for ranker in (SparseRankRLS(1.0, scale=None), RankRLS(1.0)):
        with pytest.raises(DataError, match="pass X as float64"):
            ranker.fit(narrow, 1e100 * Y, qid=QID).predict(narrow)


def test_a_kernel_that_overflows():
    with pytest.raises(DataError, match="not finite"):
        SparseRankRLS(1.0, kernel="poly", degree=99, scale=None).fit(1e6 * X, Y, qid=QID)
    with pytest.raises(DataError, match="overflow"):
        SparseRankRLS(1.0, kernel="linear").fit(1e150 * X, Y, qid=QID)


@pytest.mark.parametrize("method", ["kmeans", "rpcholesky", "leverage"])
def test_values_too_large_to_choose_landmarks(method):
    X = np.random.default_rng(0).standard_normal((40, 3)) * 1e200
    with pytest.raises(DataError, match="Scale the"):
        SparseRankRLS(1.0, n_landmarks=5, landmarks=method, random_state=0, scale=None).fit(
            X, np.arange(40.0)
        )


@pytest.mark.parametrize(
    ("kernel", "message"),
    [(1e-140 * np.eye(6), "underflow"), (-np.eye(6), "not positive semidefinite")],
)
def test_invalid_kernels_of_landmarks(kernel, message):
    with pytest.raises(DataError, match=message):
        SparseRankRLS(1.0, landmarks=[0, 1, 2], kernel="precomputed").fit(kernel, np.arange(6.0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gamma": 3.0}, "The kernel changed"),
        ({"n_landmarks": 3}, "n_landmarks changed"),
        ({"precision": "tf32"}, "precision changed"),
        ({"ties": "exclude"}, "ties or weighting changed"),
    ],
)
def test_parameters_that_change_between_blocks(changes, words):
    ranker = SparseRankRLS(1.0, n_landmarks=2, scale=None).partial_fit(X[:4], Y[:4], qid=QID[:4])
    with pytest.raises(ParameterError, match=words):
        ranker.set_params(**changes).partial_fit(X[4:], Y[4:], qid=QID[4:])


def test_components_on_landmarks_check_what_sparse_rankers_check():
    frame = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(DataError, match=r"in the same order \(a, b\): got b, a"):
        KPCRank(1, landmarks=frame[["b", "a"]][:3], scale=None).fit(frame, Y, qid=QID)
    with pytest.raises(DataError, match="square"):
        KPCRank(1, kernel="precomputed", landmarks=[0, 1]).fit(X, Y, qid=QID)
