"""Numbers at the limits of float64, and forms of input that NumPy or SciPy would complain about.

Warnings are errors in this suite: each of these must succeed in silence, or raise a `DataError` or
`ParameterError` of its own.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from rankwise import (
    RLS,
    KPCRank,
    Leaderboard,
    PairwiseGP,
    RankRLS,
    SparseBilinearRanker,
)
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import ndcg
from rankwise.model_selection import nested_leave_pair_out, permutation_test
from rankwise.problem import FeatureSystem, RowLoss

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
Y = RNG.integers(0, 4, 24)
QID = np.repeat(np.arange(4), 6)
PAIRS = [[0, 1], [2, 3], [4, 5], [1, 6], [7, 0]]
LARGEST = np.finfo(np.float64).max
HAS_WIDE_LONG_DOUBLES = np.finfo(np.longdouble).max > LARGEST
needs_wide_long_doubles = pytest.mark.skipif(
    not HAS_WIDE_LONG_DOUBLES, reason="long double is float64 here"
)


def test_features_whose_sum_is_not_a_number_give_an_error_without_warnings():
    with pytest.raises(DataError, match="Products of feature or kernel values overflow"):
        RankRLS(1.0, scale=None).fit(np.sign(X) * LARGEST, Y, qid=QID)
    with pytest.raises(DataError, match="overflow"):
        RankRLS(1.0).fit_pairs(np.sign(X) * LARGEST, PAIRS)


def test_sums_of_parts_that_overflow_give_an_error_without_warnings():
    loss, system, rows = RowLoss(), FeatureSystem(3), X * 1e300
    first, second = (
        system.moments(part, loss.tasks(Y, None)[0], loss) for part in (rows, 1e300 - rows)
    )
    with pytest.raises(DataError, match="overflow"):
        system.solve([first + second], [1.0])


@needs_wide_long_doubles
@pytest.mark.parametrize(
    "call",
    [
        lambda wide: RankRLS(1.0).fit(wide[:, None], Y),
        lambda wide: RankRLS(1.0).fit(X, wide),
        lambda wide: RankRLS(1.0).fit(X, Y, sample_weight=wide),
        lambda wide: ndcg(Y, wide),
    ],
)
def test_long_doubles_beyond_float64_are_refused(call):
    wide = np.full(24, np.longdouble(LARGEST)) * 10
    with pytest.raises(DataError, match="too large for float64 in row 0"):
        call(wide)


def test_whole_numbers_beyond_float64_are_refused():
    with pytest.raises(ParameterError, match="alpha must be a finite number"):
        RankRLS(10**400).fit(X, Y)
    with pytest.raises(DataError, match="points outside X"):
        RankRLS(1.0).fit_pairs(X, [[0, 10**400]])
    with pytest.raises(DataError, match="scores is too large for float64 in row 1"):
        ndcg([0, 1], [0, 10**400])
    with pytest.raises(DataError, match="Column 0 of D is too large for float64 in row 1"):
        SparseBilinearRanker(1e-3).fit([[1.0]], [[1.0], [10**400]], [[0, 0, 1]])


@pytest.mark.parametrize("ranker", [RankRLS(1.0), PairwiseGP(optimizer=None)])
def test_pairs_of_different_lengths_are_refused(ranker):
    with pytest.raises(DataError, match="got entries of different lengths"):
        ranker.fit_pairs(X, [[0, 1], [2]])


@pytest.mark.parametrize("options", [{"weight": np.full(5, LARGEST)}, {}])
def test_alphas_of_comparisons_that_overflow_give_an_error(options):
    rows = X if options else X * 1e200
    with pytest.raises(DataError, match="Products of feature or kernel values overflow"):
        RankRLS().fit_pairs(rows, PAIRS, **options)


@pytest.mark.parametrize(
    ("ranker", "factor"),
    [
        (RankRLS(1.0), 1e-200),
        (RankRLS(1.0), 1e300),
        (PairwiseGP(optimizer=None), 1e300),
    ],
)
def test_the_unit_of_the_context_does_not_matter(ranker, factor):
    context = np.array([1.0, -1.0, 0.5, 2.0, 0.0])[:, None]
    want = ranker.fit_pairs(X, PAIRS, context=context).predict(X)
    without = ranker.fit_pairs(X, PAIRS).predict(X)
    got = ranker.fit_pairs(X, PAIRS, context=context * factor).predict(X)
    assert abs(want - without).max() > 1e-3
    assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize(
    ("ranker", "value"), [(RankRLS(1.0), 5e-324), (PairwiseGP(optimizer=None), 1e-200)]
)
def test_a_context_of_very_small_numbers_is_refused(ranker, value):
    with pytest.raises(DataError, match="column 0 of the context are too small"):
        ranker.fit_pairs(X, PAIRS, context=np.full((5, 1), value))


@pytest.mark.parametrize("ranker", [RankRLS(), RLS()])
def test_sparse_rows_in_any_order_stay_as_they_are(ranker):
    unsorted = sp.csr_array(
        (X[:, ::-1].ravel(), np.tile([2, 1, 0], 24), np.arange(0, 73, 3)), shape=X.shape
    )
    for part in (unsorted.data, unsorted.indices, unsorted.indptr):
        part.flags.writeable = False  # as in files that are mapped to memory
    got = ranker.fit(unsorted, Y, qid=QID).predict(unsorted)
    assert unsorted.indices[:3].tolist() == [2, 1, 0]
    assert_allclose(got, ranker.fit(sp.csr_array(X), Y, qid=QID).predict(X), atol=1e-9)


def test_linear_components_of_rows_far_from_zero_are_refused():
    with pytest.raises(DataError, match="times as far from zero as from each other"):
        KPCRank(2, kernel="linear").fit(X + 1e7, Y, qid=QID)


def test_components_of_comparisons_whose_weights_overflow_are_refused():
    with pytest.raises(DataError, match="Sums of weights overflow"):
        KPCRank(3).fit_pairs(X, PAIRS, weight=np.full(5, LARGEST))


def test_leaderboards_at_limits():
    battles = [list("abcabcab") * 3, list("bcabcacc") * 3, [1, 0, 0.5, 1, 1, 0, 0.5, 1] * 3]
    board = Leaderboard(penalty=1e-300, n_draws=100).fit(*battles)
    want = Leaderboard(penalty=0.0, n_draws=100).fit(*battles)
    assert_allclose(board.predict(), want.predict(), atol=1e-6)
    assert np.isfinite(board.interval(1 - 1e-16)).all()
    for name in ("groups", "judge"):
        with pytest.raises(DataError, match=f"{name} needs ids such as numbers or text"):
            Leaderboard().fit(*battles, **{name: [{}] * 24})


def test_damaged_documents_and_complex_grades_of_a_bilinear_ranker_are_refused():
    damaged = sp.csr_array(abs(X))
    damaged.data = damaged.data[:-3]
    ranker = SparseBilinearRanker(1e-3)
    with pytest.raises(DataError, match="D is not a valid CSR array"):
        ranker.fit(abs(X), damaged, [[0, 1, 2]])
    with pytest.raises(DataError, match="grades must hold real numbers: got complex numbers"):
        ranker.fit_graded(abs(X), abs(X), Y + 1j, QID)


def test_hold_outs_check_the_number_of_rows():
    y = (Y > 1).astype(float)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        nested_leave_pair_out(RankRLS(1.0), X[:-1], y)
    with pytest.raises(DataError, match="All rows of X must have the same length"):
        nested_leave_pair_out(RankRLS(1.0), [[1.0, 2.0]] * 23 + [[1.0]], y)
    nested = nested_leave_pair_out(RankRLS(1.0), sp.coo_array(X), y, n_repeats=1, random_state=0)
    want = nested_leave_pair_out(RankRLS(1.0), X, y, n_repeats=1, random_state=0)
    assert_allclose(nested.auc, want.auc, atol=0.05)
    with pytest.raises(ValueError, match="requires y to be passed"):
        permutation_test(RankRLS(1.0), X, None)
