"""Bad landmarks and bad blocks get an error that says what to do."""

import numpy as np
import pytest

from rankwise import SparseRankRLS, SparseRLS
from rankwise.errors import DataError, ParameterError, RankwiseWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))
Y = RNG.standard_normal(12)
QID = np.arange(12) // 4


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_landmarks": 13}, "n_landmarks=13 is more than the 12 rows"),
        ({"n_landmarks": 0}, "above 0"),
        ({"n_landmarks": True}, "above 0"),
        ({"n_landmarks": 2.5}, "above 0"),
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
def test_parameters_that_make_no_sense(parameters, words, blockwise):
    ranker = SparseRankRLS(**parameters)
    with pytest.raises(ParameterError, match=words):
        ranker.fit_blocks([(X, Y, QID)]) if blockwise else ranker.fit(X, Y, qid=QID)


@pytest.mark.parametrize(
    ("landmarks", "error", "words"),
    [
        (np.ones((2, 3)), DataError, "points with 3 features, but X has 2"),
        ([[0.0, np.nan]], ValueError, "landmarks contains NaN"),
        (np.zeros((0, 2)), ValueError, "0 sample"),
    ],
)
def test_points_that_cannot_be_used(landmarks, error, words):
    with pytest.raises(error, match=words):
        SparseRankRLS(landmarks=landmarks).fit(X, Y, qid=QID)


def test_precomputed_kernels():
    K = X @ X.T
    for landmarks, words in ((X, "row numbers"), ("kmeans", "needs features")):
        with pytest.raises(ParameterError, match=words):
            SparseRankRLS(kernel="precomputed", landmarks=landmarks).fit(K, Y, qid=QID)
    with pytest.raises(DataError, match="square"):
        SparseRankRLS(kernel="precomputed").fit(X, Y, qid=QID)
    with pytest.raises(ParameterError, match="all rows at once"):
        SparseRankRLS(kernel="precomputed").fit_blocks([(K, Y, QID)])


def test_a_query_split_over_calls():
    ranker = SparseRankRLS(n_landmarks=3, random_state=0).partial_fit(X[:6], Y[:6], qid=QID[:6])
    before = ranker.predict(X)
    with pytest.raises(DataError, match=r"Query 1 was in an earlier block.*Sort the rows"):
        ranker.partial_fit(X[6:], Y[6:], qid=QID[6:])
    # Nothing of the refused block was added.
    np.testing.assert_array_equal(ranker.predict(X), before)
    ranker.partial_fit(X[8:], Y[8:], qid=QID[8:])
    with pytest.raises(DataError, match="was in an earlier block"):
        SparseRankRLS().fit_blocks([(X[:6], Y[:6], QID[:6]), (X[6:], Y[6:], QID[6:])])
    # Rows of a regression know no queries.
    halves = SparseRLS(landmarks=[0, 1]).fit_blocks(
        [(X[:6], Y[:6], QID[:6]), (X[6:], Y[6:], QID[6:])]
    )
    assert halves.n_queries_ == 3


def test_one_ranking_cannot_come_in_blocks():
    ranker = SparseRankRLS(n_landmarks=3).partial_fit(X[:6], Y[:6])
    with pytest.raises(DataError, match="give the query of every row"):
        ranker.partial_fit(X[6:], Y[6:])
    with pytest.raises(DataError, match="give the query of every row"):
        ranker.partial_fit(X[6:], Y[6:], qid=QID[6:])
    SparseRLS(n_landmarks=3).partial_fit(X[:6], Y[:6]).partial_fit(X[6:], Y[6:])


def test_blocks_that_do_not_fit_together():
    ranker = SparseRankRLS(n_landmarks=3).partial_fit(X[:4], Y[:4], qid=QID[:4])
    with pytest.raises(ValueError, match="expecting 2 features"):
        ranker.partial_fit(X[4:, :1], Y[4:], qid=QID[4:])
    with pytest.raises(DataError, match="y has 2 columns here, but one column"):
        ranker.partial_fit(X[4:], np.column_stack((Y, Y))[4:], qid=QID[4:])


def test_the_first_block_must_have_enough_rows():
    with pytest.raises(ParameterError, match="give the first call more rows"):
        SparseRankRLS(n_landmarks=5).partial_fit(X[:4], Y[:4], qid=QID[:4])


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([], "no block"),
        ([X], "not a triple"),
        ([3], "not a triple"),
        ([(X, Y, np.arange(12))], "Every query has a single row"),
        (iter([(X, Y, QID)]), "only once"),
    ],
)
def test_blocks_that_cannot_be_used(blocks, words):
    with pytest.raises(DataError, match=words):
        SparseRankRLS(n_landmarks=3).fit_blocks(blocks)


def test_blocks_without_a_pair_are_fine_among_others():
    alone = (X[:2], Y[:2], ["x", "y"])
    ranker = SparseRankRLS(landmarks=X[:3]).fit_blocks([alone, (X, Y, QID)])
    same = SparseRankRLS(landmarks=X[:3]).fit(X, Y, qid=QID)
    np.testing.assert_allclose(ranker.predict(X), same.predict(X), atol=1e-10)
    assert ranker.n_queries_ == 5
    nothing_yet = SparseRankRLS(landmarks=X[:3]).partial_fit(*alone[:2], qid=alone[2])
    assert not nothing_yet.predict(X).any()


def test_an_indefinite_kernel_warns():
    with pytest.warns(RankwiseWarning, match="not positive semidefinite"):
        ranker = SparseRankRLS(kernel="sigmoid", gamma=3.0).fit(3 * X, Y, qid=QID)
    assert np.isfinite(ranker.predict(X)).all()


def test_a_kernel_that_overflows():
    with pytest.raises(DataError, match="not finite"):
        SparseRankRLS(kernel="poly", degree=99).fit(1e6 * X, Y, qid=QID)
    with pytest.raises(DataError, match="overflow"):
        SparseRankRLS(kernel="linear").fit(1e150 * X, Y, qid=QID)
