"""TwoSidedRankRLS against the dense system of all cells, and its hold-outs against refits."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rankwise import (
    RankingSearchCV,
    RankRLS,
    TwoSidedRankRLS,
    WalkKernel,
    load_model,
    save_model,
)
from rankwise.errors import DataError, ExportError, ModelFileError, ParameterError
from rankwise.export import to_onnx, to_solr
from tests.oracles.two_sided import table_scores
from tests.strategies import seeds

COMPARE = ["columns", "rows", "all"]
KERNELS = ["linear", "rbf"]


@st.composite
def tables(draw):
    """Features of rows and columns, a table of scores with ties, and the parameters of a ranker."""
    rng = np.random.default_rng(draw(seeds))
    n, m = draw(st.integers(3, 8)), draw(st.integers(3, 8))
    R, C = (rng.standard_normal((k, draw(st.integers(1, 10)))) for k in (n, m))
    Y = rng.integers(0, draw(st.sampled_from([2, 3, 100])), (n, m)).astype(float)
    Y[0, :2] = Y[:2, 0] = 0.0, 1.0
    kinds = draw(st.sampled_from(KERNELS)), draw(st.sampled_from(KERNELS))
    alpha = draw(st.sampled_from([0.01, 0.3, 10.0]))
    ranker = TwoSidedRankRLS(
        alpha, row_kernel=kinds[0], column_kernel=kinds[1], scale=False, tol=1e-11,
        compare=draw(st.sampled_from(COMPARE)),
    )  # fmt: skip
    return rng, R, C, Y, ranker


def kernel(X, kind):
    """The kernel matrix with gamma = 1 / n_features."""
    if kind == "linear":
        return X @ X.T
    return np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / X.shape[1])


def some_cells(rng, shape):
    """A mask of given cells, at least one in each row and column, and not all."""
    known = rng.random(shape) < 0.7
    known[:, 0] = known[0] = True
    known[2, 2] = False
    return known


def expected(R, C, Y, known, ranker):
    K, G = kernel(R, ranker.row_kernel), kernel(C, ranker.column_kernel)
    return table_scores(K, G, Y, known, ranker.alpha, ranker.compare, ranker.ties)


@given(tables())
@settings(max_examples=40)
def test_complete_tables_equal_the_dense_system(table):
    _, R, C, Y, ranker = table
    want = expected(R, C, Y, np.ones(Y.shape, bool), ranker)
    assert_allclose(ranker.fit(R, C, Y).predict(R, C), want, atol=1e-7, rtol=1e-7)


@given(tables(), st.sampled_from(["include", "exclude"]))
@settings(max_examples=40)
def test_given_cells_equal_the_dense_system(table, ties):
    rng, R, C, Y, ranker = table
    known = some_cells(rng, Y.shape)
    ranker.set_params(ties=ties).fit(R, C, np.where(known, Y, np.nan))
    assert ranker.solver_ == "cg"
    assert_allclose(ranker.predict(R, C), expected(R, C, Y, known, ranker), atol=1e-6, rtol=1e-6)


@given(tables(), st.sampled_from(["rows", "columns", "both", "cells"]))
@settings(max_examples=60)
def test_hold_outs_equal_refits(table, leave):
    _, R, C, Y, ranker = table
    held = ranker.hold_out(R, C, Y, leave=leave, alphas=[ranker.alpha])
    assert held.exact
    for i, j in [(0, 0), (1, 2), (2, 1)]:
        known = np.ones(Y.shape, bool)
        if leave in ("rows", "both"):
            known[held.plan.row_fold == held.plan.row_fold[i]] = False
        if leave in ("columns", "both"):
            known[:, held.plan.column_fold == held.plan.column_fold[j]] = False
        if leave == "cells":
            known[i, j] = False
        want = expected(R, C, Y, known, ranker)[i, j]
        assert_allclose(held.predictions[0, i, j], want, atol=1e-6, rtol=1e-6)


@given(tables(), st.sampled_from(["rows", "columns", "both", "cells"]))
@settings(max_examples=40)
def test_hold_outs_of_given_cells_equal_refits(table, leave):
    rng, R, C, Y, ranker = table
    given_cells = some_cells(rng, Y.shape)
    ranker.set_params(random_state=int(rng.integers(10)))
    held = ranker.hold_out(R, C, np.where(given_cells, Y, np.nan), leave=leave)
    assert not held.exact
    assert "missing" in held.why
    scored = np.isfinite(held.predictions[0])
    assert not (scored & ~given_cells).any()
    for kept, out in held.plan.splits(Y.shape):
        both = out & scored
        if both.any():
            want = expected(R, C, Y, given_cells & kept, ranker)
            assert_allclose(held.predictions[0][both], want[both], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_of_rows_or_columns_are_copies(scale, kernel, drugs):
    R, C, Y = drugs
    weight = np.ones(20)
    weight[:3] = 2.0
    twice = np.r_[np.arange(20), :3]
    kernels = {"row_kernel": kernel, "column_kernel": kernel}
    ranker = TwoSidedRankRLS(0.5, scale=scale, tol=1e-10, **kernels)
    weighted = ranker.fit(R, C, Y, query_weight=weight).predict(R, C)
    assert ranker.solver_ == "cg"
    copied = ranker.fit(R[twice], C, Y[twice]).predict(R, C)
    assert_allclose(weighted, copied, atol=1e-6)
    ranker.set_params(compare="rows")
    weighted = ranker.fit(C, R, Y.T, query_weight=weight).predict(C, R)
    copied = ranker.fit(C, R[twice], Y[twice].T).predict(C, R)
    assert_allclose(weighted, copied, atol=1e-6)


def test_weights_that_cannot_be(drugs):
    R, C, Y = drugs
    with pytest.raises(DataError, match="each of the 20 rows"):
        TwoSidedRankRLS(1.0).fit(R, C, Y, query_weight=np.ones(4))
    for value in (0.0, np.nan, np.inf):
        weight = np.where(np.arange(20) == 7, value, 1.0)
        with pytest.raises(DataError, match=f"above 0: got {value} for row 7"):
            TwoSidedRankRLS(1.0).fit(R, C, Y, query_weight=weight)
    with pytest.raises(ParameterError, match="query_weight needs queries"):
        TwoSidedRankRLS(1.0, compare="all").fit(R, C, Y, query_weight=np.ones(20))


def test_paths_equal_fits(drugs):
    R, C, Y = drugs
    path = TwoSidedRankRLS(row_kernel="rbf").path(R, C, Y, [0.1, 10.0])
    for k, alpha in enumerate([0.1, 10.0]):
        want = TwoSidedRankRLS(alpha, row_kernel="rbf").fit(R, C, Y).predict(R[:3], C[:4])
        assert_allclose(path.predict(R[:3], C[:4])[k], want)
        assert_allclose(path.predict(R[:3])[k, :, :4], want)


def test_scores_within_rows_and_columns(drugs):
    R, C, Y = drugs
    held = TwoSidedRankRLS(1.0).hold_out(R, C, Y, n_folds=4)
    assert_allclose(held.score("concordance").score, 1.0 - held.score().score)
    held = TwoSidedRankRLS(1.0).hold_out(R, C, Y - Y.min(), n_folds=4)
    assert held.score("ndcg@5", within="columns").metric == "ndcg@5"
    assert held.score(within="all").score.shape == (1,)
    by_row = held.values("concordance")
    assert_allclose(by_row.mean(), held.score("concordance").score[0])


@pytest.fixture
def drugs():
    """Rows, columns and a table of scores that their features explain."""
    rng = np.random.default_rng(0)
    R, C = rng.standard_normal((20, 3)), rng.standard_normal((15, 4))
    return R, C, R @ rng.standard_normal((3, 4)) @ C.T


def test_new_rows_and_columns(drugs):
    R, C, Y = drugs
    ranker = TwoSidedRankRLS(1e-3).fit(R[:15], C[:10], Y[:15, :10])
    scores = ranker.predict(R[15:], C[10:])
    differences = scores - scores.mean(axis=1, keepdims=True)
    want = Y[15:, 10:] - Y[15:, 10:].mean(axis=1, keepdims=True)
    assert_allclose(differences, want, atol=0.05)
    assert_allclose(ranker.predict(R), ranker.predict(R, C[:10]))
    assert ranker.rank(R[15])[0].max() < 10
    assert 0.9 < ranker.score(R[15:], C[10:], Y[15:, 10:]) <= 1.0
    best, top = ranker.rank(R[15], C, k=3)
    assert_allclose(top, np.sort(ranker.predict(R[15:16], C)[0])[::-1][:3])
    assert_allclose(top, ranker.predict(R[15:16], C)[0, best])


@pytest.mark.parametrize("for_new", ["rows", "columns", "both", "cells"])
def test_alpha_is_chosen_by_what_will_be_new(drugs, for_new):
    R, C, Y = drugs
    ranker = TwoSidedRankRLS(for_new=for_new).fit(R, C, Y)
    held = ranker.hold_out(R, C, Y, leave=for_new)
    assert ranker.alpha_ == held.score().best_alpha
    assert ranker.alpha_curve_.score.min() < 0.05
    Y[3, 4] = Y[5, 6] = np.nan
    assert TwoSidedRankRLS(for_new=for_new).fit(R, C, Y).alpha_curve_.score.min() < 0.1


def test_precomputed_sparse_and_landmarks_equal_features(drugs):
    R, C, Y = drugs
    plain = TwoSidedRankRLS(0.1, row_kernel="rbf", column_kernel="rbf", scale=False).fit(R, C, Y)
    K, G = kernel(R, "rbf"), kernel(C, "rbf")
    given = TwoSidedRankRLS(0.1, row_kernel="precomputed", column_kernel="precomputed")
    assert_allclose(given.fit(K, G, Y).predict(K, G), plain.predict(R, C), atol=1e-9)
    sparse = TwoSidedRankRLS(0.1, row_kernel="rbf", column_kernel="rbf", scale=False)
    sparse.fit(sp.csr_array(R), sp.csr_array(C), Y)
    assert_allclose(sparse.predict(R, sp.csr_array(C)), plain.predict(R, C), atol=1e-9)
    few = TwoSidedRankRLS(0.1, row_kernel="rbf", column_kernel="rbf", n_landmarks=(19, 14))
    few.set_params(scale=False).fit(R, C, Y)
    assert few.coef_.shape == (19, 14)
    error = np.abs(few.predict(R, C) - plain.predict(R, C)).max()
    assert 0 < error < 0.1 * np.ptp(plain.predict(R, C))
    assert few.hold_out(R, C, Y, alphas=[0.1]).shared == ("landmarks",)


def test_weights_of_kernels_are_chosen(drugs):
    R, C, Y = drugs
    noise = np.random.default_rng(1).standard_normal((20, 30))
    ranker = TwoSidedRankRLS(row_kernel=["linear", "linear"], row_weights="auto")
    assert ranker.fit([R, noise], C, Y).row_weights_[0] >= 0.75
    assert ranker.fit([noise, R], C, Y).row_weights_[0] <= 0.25
    ranker.fit([R, noise], C, Y)
    assert ranker.predict([R, noise], C).shape == Y.shape


def test_a_list_of_cells_is_a_table_with_missing_cells(drugs):
    R, C, Y = drugs
    cells = np.argwhere(np.random.default_rng(2).random(Y.shape) < 0.5)
    table = np.full(Y.shape, np.nan)
    table[tuple(cells.T)] = Y[tuple(cells.T)]
    one = TwoSidedRankRLS(1.0).fit(R, C, Y[tuple(cells.T)], cells=cells)
    assert_allclose(one.coef_, TwoSidedRankRLS(1.0).fit(R, C, table).coef_, atol=1e-9)


def test_a_row_without_cells_is_named(drugs):
    R, C, Y = drugs
    names = [f"drug {k}" for k in range(20)]
    table = pd.DataFrame(Y, names)
    table.loc["drug 3"] = np.nan
    with pytest.raises(DataError, match=r"Row 'drug 3' has no cells \(1 of 20 rows\)"):
        TwoSidedRankRLS(1.0).fit(pd.DataFrame(R, names), C, table)


def test_names_are_matched(drugs):
    R, C, Y = drugs
    rows, columns = [f"d{k}" for k in range(20)], [f"p{k}" for k in range(15)]
    frame = pd.DataFrame(Y, rows, columns)
    named = pd.DataFrame(R, rows), pd.DataFrame(C, columns)
    shuffled = TwoSidedRankRLS(1.0).fit(*named, frame.iloc[::-1, ::-1])
    assert_allclose(shuffled.coef_, TwoSidedRankRLS(1.0).fit(R, C, Y).coef_, atol=1e-9)
    with pytest.raises(DataError, match="no row 'd3'"):
        TwoSidedRankRLS(1.0).fit(*named, frame.rename(index={"d3": "x"}))
    with pytest.raises(DataError, match="each once"):
        TwoSidedRankRLS(1.0).fit(named[0].rename(index={"d3": "d2"}), C, frame)
    assert_allclose(shuffled.score(*named, frame.iloc[::-1, ::-1]), shuffled.score(R, C, Y))
    assert_allclose(shuffled.score(R, None, frame.iloc[:, ::-1]), shuffled.score(R, C, Y))
    polars = pytest.importorskip("polars")
    wide = polars.DataFrame(Y[:, ::-1], schema=columns[::-1])
    again = TwoSidedRankRLS(1.0).fit(R, named[1], wide)
    assert_allclose(again.coef_, shuffled.coef_, atol=1e-9)


def test_whole_numbers_as_names_are_matched(drugs):
    R, C, Y = drugs
    ids = [2**62 + k for k in range(20)]
    frame, named = pd.DataFrame(Y, ids), pd.DataFrame(R, ids)
    want = TwoSidedRankRLS(1.0).fit(R, C, Y)
    found = TwoSidedRankRLS(1.0).fit(named, C, frame.iloc[::-1])
    assert_allclose(found.coef_, want.coef_, atol=1e-9)
    assert found.row_names_ == ids
    # An index 0, 1, 2, ... has no names.
    mixed = TwoSidedRankRLS(1.0).fit(pd.DataFrame(R).iloc[::-1], C, pd.DataFrame(Y[::-1]))
    assert_allclose(mixed.coef_, want.coef_, atol=1e-9)


def test_sparse_rows_are_scored_as_dense_ones(drugs):
    R, C, Y = drugs
    for kernel in KERNELS:
        ranker = TwoSidedRankRLS(1.0, row_kernel=kernel).fit(R + 1.0, C, Y)
        assert_allclose(ranker.predict(sp.csr_array(R)), ranker.predict(R))


def test_masked_arrays_and_nullable_frames_have_missing_cells(drugs):
    R, C, Y = drugs
    masked = np.ma.masked_greater(Y, 2.0)
    want = TwoSidedRankRLS(1.0).fit(R, C, masked.filled(np.nan))
    for table in (masked, pd.DataFrame(Y).astype("Float64").mask(Y > 2.0)):
        found = TwoSidedRankRLS(1.0).fit(R, C, table)
        assert found.n_cells_ == want.n_cells_ < Y.size
        assert_allclose(found.coef_, want.coef_)


@pytest.mark.parametrize(
    "options",
    [
        {"row_kernel": "none"},
        {"row_kernel": WalkKernel()},
        {"gamma": -1.0},
        {"n_landmarks": 0},
        {"n_landmarks": (3, "x")},
        {"row_weights": "equal"},
        {"row_kernel": ["linear"], "row_weights": [np.inf]},
    ],
)
def test_bad_parameters_are_refused_in_words(drugs, options):
    R, C, Y = drugs
    rows = [R] if isinstance(options.get("row_kernel"), list) else R
    with pytest.raises(ParameterError, match=next(reversed(options))):
        TwoSidedRankRLS(1.0, **options).fit(rows, C, Y)


def test_what_new_rows_must_be(drugs):
    R, C, Y = drugs
    ranker = TwoSidedRankRLS(1.0).fit(R, C, Y)
    with pytest.raises(DataError, match="one row: got 2"):
        ranker.rank(R[:2])
    with pytest.raises(DataError, match="R must have a row of numbers for each row"):
        ranker.predict([])
    several = TwoSidedRankRLS(1.0, row_kernel=["rbf", "linear"]).fit([R, R], C, Y)
    with pytest.raises(DataError, match="as many rows"):
        several.predict([R, R[:3]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda R, C, Y: (R, C, Y[:-1]), "a row for each of the 20 rows"),
        (lambda R, C, Y: (R, C, np.where(Y > 2, np.inf, Y)), "finite scores, or NaN"),
        (lambda R, C, Y: (R, C, np.zeros_like(Y)), "nothing to rank"),
        (lambda R, C, Y: (R[:1], C[:1], Y[:1, :1]), "nothing to rank"),
        (lambda R, C, Y: (R[0], C, Y), "R must have a row of numbers for each row of the table"),
        (lambda R, C, Y: (R, C.astype("M8[s]"), Y), "C must hold real numbers: got dates"),
        (lambda R, C, Y: (np.ma.masked_where(R > 1, R), C, Y), "R has masked entries"),
        (lambda R, C, Y: ([("CO", [(0, 1)])] * 20, C, Y), "The rows are graphs: pass GraphWalks"),
        (lambda R, C, Y: (R, C, np.sign(Y) * 1.7e308), "whose sums overflow"),
        (lambda R, C, Y: (pd.DataFrame(R).where(R < 1), C, Y), "Input R contains NaN: .* in row"),
        (lambda R, C, Y: (R, C, np.where(np.arange(20)[:, None] == 4, np.nan, Y)), "Row 4 has no"),
        (lambda R, C, Y: (R, C, np.full(Y.shape, "missing")), "numbers, with NaN for missing"),
        (lambda R, C, Y: (R, C, Y + 1j), "complex"),
        (lambda R, C, Y: (1e200 * R, C, Y), "standard deviation of feature 0 overflows"),
    ],
)
def test_bad_input_is_refused_in_words(drugs, change, words):
    with pytest.raises(DataError, match=words):
        TwoSidedRankRLS(1.0).fit(*change(*drugs))


def test_a_table_with_one_row_ranks_columns_only(drugs):
    R, C, Y = drugs
    scores = TwoSidedRankRLS(1e-6).fit(R[:1], C, Y[:1]).predict(R[:1], C)
    assert np.corrcoef(scores[0], Y[0])[0, 1] > 0.99
    with pytest.raises(DataError, match="1 row and 15 columns: a fold of rows"):
        TwoSidedRankRLS().fit(R[:1], C, Y[:1])
    with pytest.raises(DataError, match=r"nothing to rank .* compare='rows'"):
        TwoSidedRankRLS(1.0, compare="rows").fit(R[:1], C, Y[:1])


def test_bad_kernels_are_refused_in_words(drugs):
    R, C, Y = drugs
    ranker = TwoSidedRankRLS(1.0, row_kernel="precomputed")
    with pytest.raises(DataError, match="must be square"):
        ranker.fit(R, C, Y)
    with pytest.raises(DataError, match="must be square"):
        TwoSidedRankRLS(1.0, row_kernel="precomputed", n_landmarks=4).fit(R, C, Y)
    with pytest.raises(DataError, match=r"row_kernel has 2 kernels: pass a list .* There is 1"):
        TwoSidedRankRLS(1.0, row_kernel=["rbf", "linear"]).fit(R, C, Y)
    with pytest.raises(DataError, match="kernel values are too large"):
        TwoSidedRankRLS(1.0, scale=False).fit(1e160 * R, C, Y)
    with pytest.raises(DataError, match="not positive semidefinite"):
        ranker.fit(-np.eye(20) - R @ R.T, C, Y)
    with pytest.raises(ParameterError, match="below the rounding errors"):
        ranker.set_params(alpha=1e-30).fit(R @ R.T, C, Y)


def test_what_conjugate_gradients_cannot_solve_is_refused_or_named(drugs):
    R, C, Y = drugs
    Y = Y.copy()
    Y[0, 0] = np.nan
    ranker = TwoSidedRankRLS(1.0, row_kernel="precomputed")
    K = R @ R.T
    with pytest.raises(DataError, match="smallest eigenvalue is -5, and its largest"):
        ranker.fit(K - 5.0 * np.eye(20), C, Y)
    for tiny in (1e-30, np.nextafter(0, 1)):
        with pytest.raises(ParameterError, match="below the rounding errors"):
            clone(ranker).set_params(alpha=tiny).fit(K, C, Y)
    few = TwoSidedRankRLS(row_kernel="rbf", column_kernel="rbf", max_iter=5)
    with pytest.warns(ConvergenceWarning, match="Refits for 1 alpha of 2, up to 1e-06, have not"):
        found = few.hold_out(R, C, Y, alphas=[1e-6, 1e3])
    assert (found.residuals > few.tol).tolist() == [True, False]
    found = few.hold_out(R, C, Y)  # without these alphas
    assert 0 < len(found.alphas) < 17
    assert (found.residuals <= few.tol).all()
    with pytest.warns(ConvergenceWarning, match="not converged after 5 steps"):
        few.fit(R, C, Y)
    assert few.alpha_ in few.alpha_curve_.alphas


def test_a_search_over_kernels_and_weights_of_both_sides(drugs):
    R, C, _ = drugs
    Y = np.exp(-((R[:, None] - C[:, :3]) ** 2).sum(axis=2))
    grid = {
        "row_kernel": ["linear", "rbf"],
        "column_kernel": ["linear", "rbf"],
        "alpha": [1e-3, 1.0],
    }
    search = RankingSearchCV(TwoSidedRankRLS(for_new="both"), grid, scoring="ndcg@5", cv=4)
    search.fit_table(R, C, Y, within="rows")
    assert search.best_params_["row_kernel"] == "rbf"
    best = TwoSidedRankRLS(for_new="both", **search.best_params_)
    held = best.hold_out(R, C, Y, n_folds=4).score("ndcg@5", within="rows")
    assert_allclose(search.best_score_, held.score[0])
    assert_allclose(search.cv_results_["std_test_score"][search.best_index_], held.standard_error)
    assert_allclose(search.best_estimator_.predict(R, C), best.fit(R, C, Y).predict(R, C))
    assert_allclose(search.predict(R, C), best.predict(R, C))
    assert_allclose(search.rank(R[0], k=3), best.rank(R[0], k=3))
    assert_allclose(search.score(R, C, Y), best.score(R, C, Y, metric="ndcg@5"))
    errors = RankingSearchCV(best, {"alpha": [1.0]}, cv=4).fit_table(R, C, Y)
    assert_allclose(errors.score(R, C, Y), errors.best_estimator_.score(R, C, Y) - 1.0)
    kernels = TwoSidedRankRLS(row_kernel=["rbf", "linear"])
    weights = {"row_weights": [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]}
    noise = np.random.default_rng(0).standard_normal((20, 9))
    search = RankingSearchCV(kernels, weights).fit_table([R, noise], C, Y)
    assert search.best_params_ == {"row_weights": (1.0, 0.0)}
    with pytest.raises(ParameterError, match="name of a metric"):
        RankingSearchCV(kernels, weights, refit="mean-of-best").fit_table([R, noise], C, Y)
    for name in ("for_new", "compare"):
        with pytest.raises(ParameterError, match="same held-out cells"):
            RankingSearchCV(TwoSidedRankRLS(), {name: ["rows", "columns"]}).fit_table(R, C, Y)
    ties = RankingSearchCV(TwoSidedRankRLS(for_new="columns"), {"ties": ["include", "exclude"]})
    with pytest.raises(ParameterError, match="set cv to a number"):
        ties.fit_table(R, C, Y)
    assert "ties" in ties.set_params(cv=3).fit_table(R, C, Y).best_params_
    with pytest.raises(ParameterError, match="within must be one of"):
        TwoSidedRankRLS(1.0).hold_out(R, C, Y).score(within="row")
    with pytest.raises(ParameterError, match="RankRLS cannot be fitted to a table"):
        RankingSearchCV(RankRLS(), {"alpha": [1.0]}).fit_table(R, C, Y)
    with pytest.raises(ParameterError, match="pass numbers"):
        TwoSidedRankRLS(row_kernel=["rbf", "linear"], row_weights="auto").hold_out([R, R], C, Y)
    with pytest.raises(ParameterError, match=r"use RankingSearchCV\.fit_table"):
        RankingSearchCV(TwoSidedRankRLS(), {"alpha": [1.0]}, cv=3).fit(R, Y[:, 0])
    rows = RankingSearchCV(RankRLS(), {"alpha": [1.0]}, cv=3).fit(R, Y[:, 0])
    assert not hasattr(rows, "rank")
    with pytest.raises(ParameterError, match="Pass queries by name"):
        rows.predict(R, np.zeros(20))


def test_model_files(drugs, tmp_path):
    R, C, Y = drugs
    ranker = TwoSidedRankRLS(1.0, row_kernel="precomputed").fit(R @ R.T, sp.csr_array(C), Y)
    same = load_model(save_model(ranker, tmp_path / "table.rankwise"))
    assert_allclose(same.predict(R @ R.T, C), ranker.predict(R @ R.T, C))
    search = RankingSearchCV(TwoSidedRankRLS(), {"alpha": [1.0, 2.0]}).fit_table(R, C, Y)
    same = load_model(save_model(search, tmp_path / "search.rankwise"))
    assert same.best_params_ == search.best_params_


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_kernel": "rbf", "scale": False},
        {"column_kernel": "laplacian", "n_landmarks": (None, 6), "compare": "rows"},
        {"row_kernel": ["rbf", "linear"], "compare": "all"},
    ],
)
def test_onnx_graphs_score_like_the_ranker(drugs, options):
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    R, C, Y = drugs
    rows = [R, R[:, :2]] if "n_landmarks" not in options and "compare" in options else R
    ranker = TwoSidedRankRLS(0.1, **options).fit(rows, C, Y)
    made = to_onnx(ranker, rows=(rows, C))
    assert to_onnx(ranker).check.passed
    session = runtime.InferenceSession(made.content)
    arrays = [*(rows if isinstance(rows, list) else [rows]), C]
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    inputs = {
        one.name: X.astype(kind[one.type])
        for one, X in zip(session.get_inputs(), arrays, strict=True)
    }
    (scores,) = session.run(["score"], inputs)
    want = ranker.predict(rows, C)
    assert_allclose(scores, want, atol=1e-4 * np.ptp(want))


def test_a_precomputed_kernel_has_no_graph(drugs):
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    R, C, Y = drugs
    ranker = TwoSidedRankRLS(0.1, row_kernel="precomputed").fit(R @ R.T, C, Y)
    with pytest.raises(ExportError, match="precomputed"):
        to_onnx(ranker)


def test_other_formats_name_onnx_as_the_way_out(drugs):
    with pytest.raises(ExportError, match=r"two inputs, .* use rankwise\.export\.to_onnx"):
        to_solr(TwoSidedRankRLS(1.0).fit(*drugs))


def test_model_files_without_a_side_or_with_huge_weights_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    model = TwoSidedRankRLS(1.0).fit(*(rng.standard_normal((6, 3)) for _ in range(2)), np.eye(6))
    model.coef_[:] = 1e308
    with pytest.raises(DataError, match="not finite"):
        model.predict(np.full((2, 3), 1e3), np.ones((2, 3)))
    model.sides_.pop()
    path = tmp_path / "model.rankwise"
    save_model(model, path)
    with pytest.raises(ModelFileError, match="cannot score rows"):
        load_model(path)
