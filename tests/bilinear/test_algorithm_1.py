"""The learner against a naive dense Algorithm 1, for every way to store rows."""

import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwise.bilinear.algorithm_1 import BilinearSGD, TransposedSGD, csr_parts
from rankwise.bilinear.bilinear_training import DensitySearch, learn, new_curve
from rankwise.bilinear.triplets import (
    BLOCK,
    DrawnTriplets,
    from_classes,
    from_grades,
    from_triplets,
)
from rankwise.errors import ModelFileError
from tests.memory import needs_resize
from tests.oracles.bilinear import naive_sgd
from tests.strategies import seeds

SCHEDULES = ["invsqrt", "constant", "adagrad"]


@dataclass(frozen=True)
class Triplets:
    Q: np.ndarray
    D: np.ndarray
    rows: np.ndarray
    W: np.ndarray


def rows_of(X):
    return csr_parts(sp.csr_array(X))


def random_problem(seed, n_steps, n_queries=6, n_documents=9, n_q=7, n_d=11, share=0.4):
    rng = np.random.default_rng(seed)

    def rows(n, width):
        X = rng.standard_normal((n, width)) * (rng.random((n, width)) < share)
        X[np.arange(n), rng.integers(width, size=n)] = 1.0
        return X

    first = rng.integers(n_documents, size=n_steps)
    second = (first + rng.integers(1, n_documents, size=n_steps)) % n_documents
    triplets = np.column_stack([rng.integers(n_queries, size=n_steps), first, second])
    W = rng.standard_normal((n_q, n_d)) * (rng.random((n_q, n_d)) < 0.3)
    return Triplets(rows(n_queries, n_q), rows(n_documents, n_d), triplets, W)


def learned(problem, *, cuts=(), dtype="float64", **how):
    learner = BilinearSGD(sp.csr_array(problem.W, dtype=dtype), **how)
    for part in np.split(problem.rows, cuts):
        learner.advance(rows_of(problem.Q), rows_of(problem.D), part)
    return learner


@given(
    seeds,
    st.integers(1, 250),
    st.sampled_from([1, 7, 100]),
    st.sampled_from(SCHEDULES),
    st.sampled_from([0.0, 0.003, 0.05]),
    st.sampled_from([1, 4, 9, 1000]),
)
def test_lazy_shrinkage_is_algorithm_1(seed, n_steps, T, schedule, lam, dense_from):
    problem = random_problem(seed, n_steps)
    how = {"lam": lam, "eta0": 0.5, "schedule": schedule}
    learner = learned(problem, shrink_every=T, dense_from=dense_from, **how)
    want = naive_sgd(problem.W, problem.Q, problem.D, problem.rows, T=T, **how)
    assert_allclose(learner.weights().toarray(), want, atol=1e-9)
    assert learner.count() == learner.weights().nnz


@given(
    seeds,
    st.integers(1, 150),
    st.sampled_from([1, 7, 100]),
    st.sampled_from(SCHEDULES),
    st.sampled_from([1, 4, 1000]),
    st.booleans(),
)
def test_shrinkage_towards_a_prior(seed, n_steps, T, schedule, dense_from, grouped):
    problem = random_problem(seed, n_steps)
    how = {"lam": 0.02, "eta0": 0.5, "schedule": schedule, "grouped": grouped}
    nothing = replace(problem, W=np.zeros_like(problem.W))
    prior = sp.csr_array(problem.W)
    learner = learned(nothing, shrink_every=T, dense_from=dense_from, prior=prior, **how)
    want = naive_sgd(problem.W, problem.Q, problem.D, problem.rows, T=T, prior=problem.W, **how)
    assert_allclose(learner.weights().toarray(), want, atol=1e-9)
    assert_allclose(learner.changes().toarray(), want - problem.W, atol=1e-9)
    margins = learner.margins(rows_of(problem.Q), rows_of(problem.D), problem.rows)
    q, better, worse = problem.rows.T
    scores = problem.Q @ want @ problem.D.T
    assert_allclose(margins, scores[q, better] - scores[q, worse], atol=1e-8)


@given(
    seeds,
    st.integers(1, 250),
    st.sampled_from([1, 7, 100]),
    st.sampled_from(SCHEDULES),
    st.sampled_from([0.003, 0.1]),
    st.sampled_from([1, 4, 1000]),
)
def test_rows_and_columns_leave_as_groups(seed, n_steps, T, schedule, lam, dense_from):
    problem = random_problem(seed, n_steps)
    how = {"lam": lam, "eta0": 0.5, "schedule": schedule, "grouped": True}
    want = naive_sgd(problem.W, problem.Q, problem.D, problem.rows, T=T, **how)
    rows = learned(problem, shrink_every=T, dense_from=dense_from, **how)
    assert_allclose(rows.weights().toarray(), want, atol=1e-9)
    # Columns: of the transposed problem, in which a difference is the query.
    steps = np.arange(n_steps)
    differences = problem.D[problem.rows[:, 1]] - problem.D[problem.rows[:, 2]]
    queries = np.vstack((problem.Q, np.zeros((1, problem.Q.shape[1]))))
    triplets = np.column_stack((steps, problem.rows[:, 0], np.full(n_steps, len(problem.Q))))
    want = naive_sgd(problem.W.T, differences, queries, triplets, T=T, **how).T
    columns = TransposedSGD(sp.csr_array(problem.W), shrink_every=T, dense_from=dense_from, **how)
    columns.advance(rows_of(problem.Q), rows_of(problem.D), problem.rows)
    assert_allclose(columns.weights().toarray(), want, atol=1e-9)
    assert columns.count() == columns.weights().nnz


@pytest.mark.parametrize("T", [7, 100])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_larger_problem_that_fills_the_pool_and_turns_rows_dense(T, schedule):
    problem = random_problem(3, 1500, 80, 80, 60, 150, share=0.15)
    lam = {"invsqrt": 0.03, "constant": 0.02, "adagrad": 0.03}[schedule]
    how = {"lam": lam, "eta0": 1.0, "schedule": schedule}
    want = naive_sgd(problem.W, problem.Q, problem.D, problem.rows, T=T, **how)
    assert 0.01 < np.mean(want != 0) < 0.9
    for dense_from in (40, 10_000):
        learner = learned(problem, shrink_every=T, dense_from=dense_from, **how)
        assert_allclose(learner.weights().toarray(), want, atol=1e-9)
        assert_array_equal(np.abs(learner.weights().toarray()) > 1e-9, np.abs(want) > 1e-9)


@given(seeds, st.sampled_from(SCHEDULES), st.integers(1, 200))
def test_dense_rows_from_the_start(seed, schedule, n_steps):
    problem = random_problem(seed, n_steps)
    how = {"lam": 0.0, "eta0": 0.3, "schedule": schedule}
    learner = learned(problem, dense_from=0, **how)
    want = naive_sgd(problem.W, problem.Q, problem.D, problem.rows, T=1, **how)
    assert_allclose(learner.weights().toarray(), want, atol=1e-9)


@given(seeds, st.sampled_from(SCHEDULES), st.sampled_from([1, 5, 1000]))
def test_a_frozen_support_is_never_left(seed, schedule, dense_from):
    problem = random_problem(seed, 150)
    how = {"lam": 0.0, "eta0": 0.5, "schedule": schedule}
    learner = learned(problem, frozen=True, dense_from=dense_from, **how)
    support = problem.W != 0
    want = naive_sgd(problem.W, problem.Q, problem.D, problem.rows, T=1, support=support, **how)
    W = learner.weights()
    assert_allclose(W.toarray(), want, atol=1e-9)
    assert_array_equal(W.indices, sp.csr_array(problem.W).indices)


@given(seeds, st.lists(st.integers(1, 199), max_size=4), st.sampled_from(SCHEDULES))
def test_a_stream_may_be_cut_anywhere_and_read(seed, cuts, schedule):
    problem = random_problem(seed, 200)
    how = {"lam": 0.004, "eta0": 0.5, "schedule": schedule, "shrink_every": 7}
    whole = learned(problem, **how).weights()
    parts = learned(problem, cuts=sorted(cuts), **how)
    parts.count()
    parts.margins(rows_of(problem.Q), rows_of(problem.D), problem.rows)
    assert_array_equal(parts.weights().toarray(), whole.toarray())


@hypothesis_settings(max_examples=20)
@given(seeds, st.integers(0, 300), st.sampled_from(SCHEDULES), st.booleans(), st.booleans())
def test_a_run_resumes_from_a_state_bit_for_bit(seed, at, schedule, frozen, grouped):
    problem = random_problem(seed, 300, 40, 40, 30, 60, share=0.2)
    how = {"lam": 0.0 if frozen else 0.004, "eta0": 0.5, "schedule": schedule, "shrink_every": 7}
    how = {**how, "frozen": frozen, "grouped": grouped and not frozen, "dense_from": 20}
    Q, D = rows_of(problem.Q), rows_of(problem.D)
    first = BilinearSGD(sp.csr_array(problem.W), **how)
    first.advance(Q, D, problem.rows[:at])
    saved = first.state()
    second = BilinearSGD(sp.csr_array(problem.W.shape), **how)
    second.restore(saved)
    for learner in (first, second):
        learner.advance(Q, D, problem.rows[at:])
    assert_array_equal(first.weights().data, second.weights().data)
    assert_array_equal(first.weights().indices, second.weights().indices)
    assert first.totals.tolist() == second.totals.tolist()


def test_a_state_with_arrays_of_other_shapes_or_types_is_refused():
    learner = learned(random_problem(0, 40), lam=0.01, eta0=0.5, dense_from=8)
    for name, array in learner.state().items():
        for wrong in (None, array.astype("S8"), np.append(array, array), "text", array[()] * 1j):
            if isinstance(wrong, np.ndarray) and array.size == 0:
                continue
            with pytest.raises(ModelFileError, match="state is damaged"):
                learner.restore({**learner.state(), name: wrong})


def test_margins_are_those_of_the_weights():
    problem = random_problem(5, 120)
    learner = learned(problem, lam=0.01, eta0=0.5, shrink_every=7)
    W = learner.weights().toarray()
    q, a, b = problem.rows.T
    want = np.einsum("ki,ij,kj->k", problem.Q[q], W, problem.D[a] - problem.D[b])
    got = learner.margins(rows_of(problem.Q), rows_of(problem.D), problem.rows)
    assert_allclose(got, want, atol=1e-10)


@pytest.mark.slow  # compiles all loops again
def test_single_precision_is_close():
    problem = random_problem(2, 300)
    how = {"lam": 1e-3, "eta0": 0.3, "shrink_every": 7}
    single, double = (learned(problem, dtype=d, **how).weights() for d in ("float32", "float64"))
    assert single.dtype == np.float32
    assert_allclose(single.toarray(), double.toarray(), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dense_from", [1, 10_000])
def test_single_precision_stays_close_as_debts_grow(dense_from):
    problem = random_problem(2, 200)
    rows = np.tile(problem.rows, (100, 1))
    problem = Triplets(problem.Q, problem.D, rows, problem.W)
    how = {"lam": 0.05, "eta0": 0.3, "shrink_every": 7, "schedule": "constant"}
    how = {**how, "dense_from": dense_from}
    learners = [learned(problem, dtype=d, **how) for d in ("float32", "float64")]
    margins = [x.margins(rows_of(problem.Q), rows_of(problem.D), rows[:200]) for x in learners]
    assert_allclose(*margins, atol=5e-6)


def test_memory_is_in_the_order_of_the_nonzeros():
    n = 3000  # dense: 72 MB
    rng = np.random.default_rng(0)
    X = sp.random_array((300, n), density=0.003, rng=rng, format="csr")
    X = X[np.diff(X.indptr) > 0]
    labels = rng.integers(0, 3, X.shape[0])
    triplets = from_classes(labels)(rng, 3000)
    eye = sp.csr_array(sp.eye_array(n, format="csr"))
    BilinearSGD(eye, lam=1e-4, eta0=1.0).advance(rows_of(X), rows_of(X), triplets)  # compiles
    tracemalloc.start()
    learner = BilinearSGD(eye, lam=1e-4, eta0=1.0)
    learner.advance(rows_of(X), rows_of(X), triplets)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert learner.count() > 10_000
    assert held < 40 * learner.count() + 400 * n


@pytest.mark.parametrize("dense_from", [40, 10_000])
def test_a_query_with_more_rows_than_there_is_room_for(dense_from):
    rng = np.random.default_rng(0)
    X = rng.random((6, 300))  # every row of W at once, from a pool that is almost empty
    rows = np.array([[0, 1, 2], [3, 4, 5], [1, 0, 4]])
    problem = Triplets(X, X, rows, np.eye(300))
    how = {"lam": 1e-3, "eta0": 0.01, "schedule": "invsqrt"}
    learner = learned(problem, shrink_every=1, dense_from=dense_from, **how)
    want = naive_sgd(problem.W, X, X, rows, T=1, **how)
    assert_allclose(learner.weights().toarray(), want, atol=1e-9)


@needs_resize
def test_the_pool_grows_without_a_second_one():
    problem = random_problem(0, 400, 100, 100, 2000, 2000, share=0.02)
    problem = replace(problem, W=sp.eye_array(2000, format="csr"))
    learner = learned(problem, lam=0.0, eta0=0.5, dense_from=10**4)  # compiles
    tracemalloc.start()
    learner = learned(problem, lam=0.0, eta0=0.5, dense_from=10**4)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert learner.count() > 100_000
    assert peak < 1.3 * held


@given(seeds, st.sampled_from(SCHEDULES), st.sampled_from([5, 1000]), st.booleans())
def test_a_trimmed_learner_has_the_same_weights_and_goes_on(seed, schedule, dense_from, frozen):
    problem = random_problem(seed, 200)
    lam = 0.0 if frozen else 0.004
    how = {"lam": lam, "eta0": 0.5, "schedule": schedule, "shrink_every": 7, "frozen": frozen}
    Q, D = rows_of(problem.Q), rows_of(problem.D)
    learner = BilinearSGD(sp.csr_array(problem.W), dense_from=dense_from, **how)
    learner.advance(Q, D, problem.rows[:100])
    before = learner.weights()
    learner.trim()
    assert_allclose(learner.weights().toarray(), before.toarray(), atol=1e-12)
    assert_array_equal(learner.weights().indices, before.indices)
    learner.advance(Q, D, problem.rows[100:])
    whole = learned(problem, dense_from=dense_from, **how).weights()
    assert_allclose(learner.weights().toarray(), whole.toarray(), atol=1e-9)


def test_draws_by_class():
    labels = np.array([0, 1, 0, 2, 1, 1, 3])
    sampler = DrawnTriplets(from_classes(labels), 5)
    rows = sampler.between(2 * BLOCK, 3 * BLOCK)
    assert rows.shape == (BLOCK, 3)
    q, better, worse = rows.T
    assert (labels[q] == labels[better]).all()
    assert (q != better).all()
    assert (labels[q] != labels[worse]).all()
    triplets = {tuple(row) for row in rows.tolist()}
    want = {
        (i, j, k)
        for i in range(7)
        for j in range(7)
        for k in range(7)
        if i != j and labels[i] == labels[j] != labels[k]
    }
    assert triplets == want
    assert_array_equal(rows[7:9], sampler.between(2 * BLOCK + 7, 2 * BLOCK + 9))
    assert (rows != sampler.between(3 * BLOCK, 4 * BLOCK)).any()


def test_draws_by_grade_are_uniform_over_pairs():
    grades = np.array([0.0, 2.0, 1.0, 1.0, 5.0, 5.0, 0.0])
    query = np.array([0, 0, 0, 1, 1, 1, 2])
    draw, n_pairs = from_grades(grades, query)
    want = {(0, 1, 0), (0, 1, 2), (0, 2, 0), (1, 4, 3), (1, 5, 3)}
    assert n_pairs == len(want)
    rows, counts = np.unique(draw(np.random.default_rng(0), BLOCK), axis=0, return_counts=True)
    assert {tuple(row) for row in rows.tolist()} == want
    assert counts.min() > 0.9 * BLOCK / len(want)


def test_random_triplets_are_drawn_with_replacement():
    triplets = np.arange(30).reshape(10, 3)
    rows = from_triplets(triplets)(np.random.default_rng(1), BLOCK)
    assert {tuple(row) for row in rows.tolist()} == {tuple(row) for row in triplets.tolist()}


def test_pauses_and_records_change_nothing():
    problem = random_problem(4, 10)
    Q, D = rows_of(problem.Q), rows_of(problem.D)
    draws = DrawnTriplets(from_triplets(problem.rows), 3)
    found = []
    for record_every, pause_every in ((1000, 1000), (13, 7)):
        learner = BilinearSGD(sp.csr_array(problem.W), lam=1e-3, eta0=0.5, shrink_every=7)
        curve = new_curve()
        pauses = list(
            learn(
                learner, Q, D, draws, 100, curve, record_every=record_every,
                pause_every=pause_every,
            )
        )  # fmt: skip
        assert pauses[-1] == curve["step"][-1] == 100
        found.append(learner.weights())
    assert_array_equal(found[0].toarray(), found[1].toarray())
    assert len(curve["loss"]) == 8
    assert curve["density"][-1] == found[1].nnz / found[1].toarray().size


@pytest.mark.parametrize("power", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("target", [0.5, 0.1, 0.003])
def test_the_search_finds_a_density(power, target):
    search = DensitySearch(target)
    while not search.found():
        assert not search.exhausted()
        lam = search.next(1e-3)
        search.lams.append(lam)
        search.densities.append(1 / (1 + (lam / 1e-5) ** power))
    assert 0.95 * target <= search.densities[-1] <= target
    assert len(search.lams) < 15


def test_a_search_in_a_small_matrix_accepts_a_difference_of_one_entry():
    search = DensitySearch(0.1, entry=1 / 16)
    search.lams, search.densities = [1e-3], [1 / 16]
    assert search.found()
    search.densities = [2 / 16]
    assert not search.found()


@pytest.mark.parametrize(("low", "high", "nearest"), [(0.2, 0.4, 0.4), (0.5, 0.5, 0.5)])
def test_a_search_ends_when_density_does_not_move(low, high, nearest):
    search = DensitySearch(0.35)
    while not search.exhausted():
        lam = search.next(1e-3)
        search.lams.append(lam)
        search.densities.append(high if lam < 2e-3 else low)
    assert len(search.lams) < 12
    assert search.densities[search.lams.index(search.nearest())] == nearest
