"""Errors of the bilinear ranker."""

import copy
import warnings

import numba
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from rankwise import Shrinkage, load_model, save_model
from rankwise.bilinear.algorithm_1 import csr_parts
from rankwise.bilinear.triplets import check_rows
from rankwise.errors import DataError, ModelFileError, ParameterError, RankwiseWarning
from tests.bilinear.texts import ranker, texts_and_triplets

WORDS = np.array([f"w{k}" for k in range(12)])


@pytest.fixture(scope="module")
def problem():
    return texts_and_triplets()


def begun():
    return ranker(refit=False).partial_fit(X6, X6, OK)


X6 = np.eye(4)[[0, 1, 2, 3, 0, 1]]
EMPTY = np.vstack([X6, np.zeros(4)])
OK = [[0, 1, 2]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ranker().fit(X6, X6, [[0, 1, 6]]), r"6 is not a row of D, which has rows 0 to 5"),
        (lambda: ranker().fit(X6, X6, [[-1, 1, 2]]), "-1 is not a row of Q"),
        (lambda: ranker().fit(X6, X6, [[0, 1, 1]]), "prefers document 1 to itself"),
        (lambda: ranker().fit(X6, X6, [[0.0, 1.0, 2.0]]), "whole numbers: got float64"),
        (lambda: ranker().fit(X6, X6, [[0, 1]]), r"got shape \(1, 2\)"),
        (lambda: ranker().fit(X6, X6, np.empty((0, 3), int)), "at least one"),
        (lambda: ranker().fit(EMPTY, X6, [[6, 1, 2]]), "Query 6 in triplets.0. has no features"),
        (lambda: ranker().fit(X6, EMPTY, [[0, 1, 6]]), "Document 6 in triplets.0. has no features"),
        (lambda: ranker().fit(X6, X6, OK, held_out=[[0, 1, 9]]), "held_out.0. is"),
        (lambda: ranker().fit_classes(EMPTY, [0, 1] * 3 + [0]), "Row 6 of X has no features"),
        (lambda: ranker().fit_classes(X6, [0] * 6), "different classes in labels is 1, for 6"),
        (lambda: ranker().fit_classes(X6, range(6)), "classes in labels is 6"),
        (lambda: ranker().fit_classes(X6, [0, 1]), "one entry per row"),
        (lambda: ranker().fit_classes(X6, [0, 1] * 3, held_out=X6), "a tuple .X, labels."),
        (lambda: ranker().fit_graded(X6, X6, [0] * 6, [0] * 6), "No query has documents of diff"),
        (lambda: ranker().fit_graded(X6, X6, [0, 1] * 3, [7] * 6), "qid must hold rows of Q"),
        (lambda: ranker().fit_graded(X6, X6, [0, 1], [0] * 6), "grades needs one entry per row"),
        (lambda: ranker().fit_graded(X6, X6, [0, np.nan] * 3, [0] * 6), "entry 1 is nan"),
        (lambda: ranker().fit(X6, X6, OK).predict(X6, X6[:, :3]), "use the same vocabulary"),
        (lambda: ranker().fit(X6, X6, OK).predict(X6, X6[:3]), "score_all takes all pairs"),
        (lambda: ranker().fit(X6, X6, OK).rank(X6, X6), "q must be one row: got 6"),
        (lambda: begun().partial_fit(X6, X6[:, :3], OK), "use the same vocabulary"),
        (lambda: ranker().fit_graded(X6, X6, [0, 1] * 3, ["a"] * 6), "whole numbers: got <U1"),
        (
            lambda: ranker().fit_graded(X6, X6, list("abcdef"), [0] * 6),
            "grades must hold finite numbers",
        ),
        (lambda: ranker().fit_classes(X6, np.array(["a", 1] * 3, object)), "all numbers or all te"),
        (
            lambda: ranker().fit_classes(X6, ["a", None] * 3),
            r"labels.1. is missing \(3 such entries\)",
        ),
        (lambda: ranker().fit_classes(X6, pd.array([0, 1, pd.NA] * 2)), "labels.2. is missing"),
        (lambda: ranker().fit(X6, X6, [[0, 1, 2], [0, 1]]), "entries of different lengths"),
        (
            lambda: ranker().fit_classes(X6, [0, 1] * 3, held_out=(EMPTY[[6, 6, 0]], [0, 0, 1])),
            "classes in held_out labels of rows with a known word is 1",
        ),
        (lambda: ranker().fit(["car"] * 6, X6, OK), "got 'car'. Read a file with"),
        (lambda: ranker().fit(X6, [["car"]] * 6, OK), "Column 0 of D is text, such as 'car'"),
        (lambda: ranker().fit(X6, X6, np.uint64([[2**64 - 1, 1, 2]])), "18446744073709551615"),
        (lambda: ranker().fit(X6, X6, OK).rank("car", X6), "Column 0 of Q is text, such as 'car'"),
        (lambda: ranker().fit(X6, X6, OK, query_names={"a": 0}), "get_feature_names_out"),
        (lambda: ranker().fit(X6, X6, OK, checkpoint="no/such/run.npz"), "create its folder"),
        (lambda: ranker().fit(X6, X6, OK, checkpoint="."), "cannot be written"),
    ],
)
def test_invalid_data(call, words):
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"alpha": 0}, 'alpha must be a finite number above 0, "auto", or None: got 0'),
        ({"target_density": 0.1}, "pass one of them"),
        (
            {"alpha": None, "target_density": 0.0},
            "target_density must be a number above 0 and at most 1",
        ),
        ({"structure": "dense"}, 'alpha=0.002 is for structure="sparse"'),
        ({"structure": "spares"}, "Did you mean 'sparse'"),
        ({"init": "ones"}, "init must be one of"),
        ({"n_iter": 0}, "n_iter must be an integer of at least 1, or None: got 0"),
        ({"refit": "no"}, "refit must be True or False: got 'no'"),
        ({"shrinkage": {"every": 0}}, "every of shrinkage must be"),
        ({"shrinkage": {"every": 401}}, "alpha would have no effect"),
        ({"random_state": "seed"}, "random_state must be None"),
        ({"structure": "identity", "alpha": None, "init": "zeros"}, 'init must be "identity"'),
    ],
)
def test_invalid_parameters(parameters, words):
    with pytest.raises(ParameterError, match=words):
        ranker(**parameters).fit(X6, X6, OK)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ranker().fit(X6, X6[:, :3] + 1, OK), 'Use init="zeros"'),
        (lambda: ranker().partial_fit(X6, X6, OK), "refit=False"),
        (lambda: ranker(alpha=None, refit=False).partial_fit(X6, X6, OK), "set alpha and eta0"),
        (
            lambda: ranker(target_density=0.1, refit=False).partial_fit(X6, X6, OK),
            "alpha and target_density exclude each other",
        ),
        (lambda: ranker(n_iter=None).fit_classes(X6, [0, 1] * 3), "set n_iter to their number"),
        (lambda: ranker().fit(X6, X6, OK).related_features("car"), "or pass names to fit"),
        (
            lambda: ranker().fit(X6, X6, OK, query_names="abcd").related_features("e"),
            "0 query features are",
        ),
        (
            lambda: ranker().fit(X6, X6, OK, query_names="abba").related_features("b"),
            "2 query features are",
        ),
        (lambda: ranker().fit(X6, X6, OK).related_features(4), "from 0 to 3"),
    ],
)
def test_invalid_calls(call, words):
    with pytest.raises(ParameterError, match=words):
        call()


def test_a_vocabulary_mismatch_of_queries_and_bad_values():
    fitted = ranker().fit(X6, X6, OK)
    with pytest.raises(DataError, match="fitted to queries of 4"):
        fitted.predict(X6[:, :3], X6)
    for name, rows in (("Q", (np.full((6, 4), np.nan), X6)), ("D", (X6, np.full((6, 4), np.nan)))):
        with pytest.raises(ValueError, match=f"Input {name} contains NaN"):
            fitted.predict(*rows)


def damaged(part, value):
    rows = sp.csr_array(X6)
    getattr(rows, part)[2] = value
    return rows


@pytest.mark.parametrize(("part", "value"), [("indices", 10**6), ("indices", -1), ("indptr", 5)])
def test_columns_that_do_not_exist_never_reach_compiled_code(part, value):
    fitted = ranker().fit(X6, X6, OK)
    rows = damaged(part, value)
    for call in (
        lambda: ranker().fit(rows, X6, OK),
        lambda: ranker().fit(X6, rows, OK),
        lambda: fitted.predict(rows, X6),
    ):
        with pytest.raises(DataError, match=r"is not a valid CSR array: (its )?ind"):
            call()


def test_rows_of_all_kinds_run_the_same_compiled_code():
    plain = sp.csr_array(X6)
    arrays = plain.indptr, plain.indices, plain.data
    wide, fixed, swapped, strided = (plain.copy() for _ in range(4))
    wide.indptr, wide.indices = (array.astype(np.int64) for array in arrays[:2])
    swapped.indptr, swapped.indices = (array.astype(">i4") for array in arrays[:2])
    strided.indices = np.repeat(plain.indices, 2)[::2]
    for array in (fixed.indptr, fixed.indices, fixed.data):
        array.flags.writeable = False
    want = [numba.typeof(part) for part in csr_parts(check_rows(X6, "X"))]
    for rows in (plain, wide, fixed, swapped, strided):
        got = csr_parts(check_rows(rows, "X"))
        assert [numba.typeof(part) for part in got] == want
        for part, array in zip(got, arrays, strict=True):
            assert_array_equal(part, array)


def test_a_dense_matrix_beyond_memory_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 4)
    with pytest.raises(ParameterError, match="Use structure='sparse'"):
        ranker(structure="dense", alpha=None).fit(X6, X6, OK)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8])
@pytest.mark.parametrize("schedule", ["invsqrt", "constant", "adagrad"])
def test_huge_and_tiny_values_stay_finite(problem, scale, schedule):
    X, labels, _ = problem
    fitted = ranker(schedule=schedule).fit_classes(scale * X, labels)
    assert np.isfinite(fitted.coef_.data).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankwiseWarning)  # W may have no weight left
        assert np.isfinite(fitted.score_all(scale * X, X)).all()


@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e155, "float64"), pytest.param(1e20, "float32", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("init", ["identity", "zeros"])
def test_an_overflow_raises_an_error(problem, scale, dtype, init):
    X, labels, triplets = problem
    fitted = ranker(dtype=dtype, init=init)
    with pytest.raises(DataError, match="W overflowed: scale rows to unit length"):
        fitted.fit_classes(scale * X, labels)
    stream = ranker(dtype=dtype, init=init, refit=False).partial_fit(X, X, triplets)
    with pytest.raises(DataError, match="W overflowed"):
        stream.partial_fit(scale * X, scale * X, triplets[:, [0, 2, 1]])
    for one in (fitted, stream):
        with pytest.raises(NotFittedError):
            one.predict(X, X)


def test_an_overflow_of_squared_gradients_raises_an_error(problem):
    X, _, triplets = problem
    with pytest.raises(DataError, match="W overflowed"):  # and not a W that never moves
        ranker(schedule="adagrad", init="zeros").fit(1e160 * X, X, triplets)


def test_an_overflow_of_scores_raises_an_error(problem):
    X, _, triplets = problem
    fitted = ranker().fit(X, X, triplets)
    for answer in (fitted.predict, fitted.score_all, lambda Q, D: fitted.score(Q, D, triplets)):
        with pytest.raises(DataError, match="Scores overflowed: scale rows"):
            answer(1e300 * X, 1e300 * X)


def test_a_fit_that_fails_leaves_nothing_fitted(problem):
    X, labels, triplets = problem
    wide = np.hstack([X, X])
    for fail in (
        lambda one: one.fit(wide, wide, [[0, 1, 1]]),
        lambda one: one.fit_classes(wide, labels[:-1]),
        lambda one: one.fit_graded(wide, wide, labels[:-1], labels),
        lambda one: one.set_params(refit=False).partial_fit(wide, wide, [[0, 1, 1]]),
    ):
        fitted = ranker().fit(X, X, triplets)
        with pytest.raises(DataError):
            fail(fitted)
        for rows in (X, wide):
            with pytest.raises(NotFittedError):
                fitted.predict(rows, rows)
    stream = ranker(refit=False).partial_fit(X, X, triplets)
    before = stream.coef_.toarray()
    with pytest.raises(DataError, match="fitted to queries of 12"):
        stream.partial_fit(wide, wide, triplets)
    assert_array_equal(stream.coef_.toarray(), before)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 0.1},
        pytest.param({"dtype": "float32"}, marks=pytest.mark.slow),
        {"shrinkage": Shrinkage(every=8)},
    ],
)
def test_parameters_of_a_stream_cannot_change(problem, change, tmp_path):
    X, _, triplets = problem
    began = {"alpha": 2e-3, "dtype": "float64", "shrinkage": Shrinkage(every=7)}
    want = ranker(refit=False).partial_fit(X, X, triplets)
    stream = ranker(refit=False).partial_fit(X, X, triplets[:100]).set_params(**change)
    copied = copy.deepcopy(stream)
    loaded = load_model(save_model(stream, tmp_path / "model.rankwise"))
    for one in (stream, copied, loaded):
        with pytest.raises(ParameterError, match="This stream began with"):
            one.partial_fit(X, X, triplets[100:])
        one.set_params(**began).partial_fit(X, X, triplets[100:])
        assert_array_equal(one.coef_.data, want.coef_.data)


def test_after_a_fit_a_stream_starts_again(problem):
    X, _, triplets = problem
    fitted = ranker(refit=False).fit(X, X, triplets).partial_fit(X, X, triplets[:50])
    want = ranker(refit=False).partial_fit(X, X, triplets[:50])
    assert_array_equal(fitted.coef_.toarray(), want.coef_.toarray())


def test_documents_with_other_columns_are_refused(problem):
    X, _, triplets = problem
    frame = pd.DataFrame(X, columns=WORDS)
    fitted = ranker().fit(frame, frame, triplets)
    assert 0 <= fitted.score(frame, frame, triplets) <= 1  # and no warning about names
    with pytest.raises(DataError, match="Column 0 of D is 'w11'"):
        fitted.predict(frame, frame[WORDS[::-1]])


def test_a_stream_with_damaged_arrays_is_refused(problem):
    X, _, triplets = problem
    stream = ranker(refit=False).partial_fit(X, X, triplets)
    stream.stream_["state"]["cols"][0] = 10**6
    with pytest.raises(ModelFileError, match="The saved state is damaged: cols has values"):
        stream.partial_fit(X, X, triplets)
    stream = ranker(refit=False).partial_fit(X, X, triplets)
    del stream.stream_["parameters"]["alpha"]
    with pytest.raises(ModelFileError, match="stream_ lacks its parameters"):
        stream.partial_fit(X, X, triplets)
