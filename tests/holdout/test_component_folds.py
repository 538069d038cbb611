"""Hold-outs that choose the number of components, compared with refits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import KPCR, ComponentOptions, KPCRank
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.kpcrank import ComponentErrors, shuffled_folds
from rankwise.graph import PreferenceGraph
from rankwise.holdout.leave_pair_out import component_pair_losses
from rankwise.metrics import disagreement_error
from rankwise.model_selection import leave_pair_out, leave_query_out
from rankwise.solvers.kpca import Count, kernel_components
from rankwise.solvers.nested_least_squares import component_folds, rounding_noise
from tests.oracles.kpca import fixed_components_fold, fixed_components_regression
from tests.oracles.laplacian import grouped_laplacian
from tests.strategies import seeds, ties, weightings


def make_problem(seed=0, n_rows=36, n_queries=6, p=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    qid = rng.permutation(np.arange(n_rows) % n_queries)
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n_rows)
    K = np.exp(-np.abs(X[:, None] - X).sum(axis=2))
    components, F = kernel_components(K, Count(p))
    return X, y, qid, np.ascontiguousarray(F), components.eigenvalues


@given(seeds, ties, weightings, st.sampled_from([0.0, 0.2]))
def test_queries_held_out_for_every_number_of_components(seed, ties, weighting, lam):
    _, y, qid, F, s = make_problem(seed)
    y = y.round(1) if ties == "exclude" else y
    graph = PreferenceGraph.from_scores(y, qid, ties=ties, weighting=weighting)
    folds = [np.flatnonzero(qid == q) for q in range(6)]
    root_y = graph.root(y)[:, None]
    noise = rounding_noise(s, graph)
    (ours,) = component_folds(F, graph.root(F), root_y, folds, [lam], noise)
    L = grouped_laplacian(y, qid, ties, weighting)
    for fold in folds:
        for p in range(1, 6):
            want = fixed_components_fold(F, y, L, fold, p, lam)
            assert_allclose(ours[fold, p - 1, 0], want, atol=1e-8)


@given(seeds, st.sampled_from([0.0, 0.2]))
def test_queries_held_out_of_a_regression(seed, lam):
    X, y, qid, F, _ = make_problem(seed)
    folds = [np.flatnonzero(qid == q) for q in range(6)]
    model = KPCR(
        kernel="laplacian",
        gamma=1.0,
        alpha=lam,
        options=ComponentOptions(cv="leave_query_out", max_components=5),
    )
    errors = model.fit(X, y, qid=qid).component_errors_
    for p in range(1, 6):
        f = np.empty(36)
        for fold in folds:
            f[fold] = fixed_components_regression(F, y, fold, p, lam)
        assert errors.error[p - 1] == pytest.approx(disagreement_error(y, f, qid))


@given(seeds, st.sampled_from([0.0, 0.2]), weightings)
def test_pairs_held_out_for_every_number_of_components(seed, alpha, weighting):
    X, y, _, F, _ = make_problem(seed, n_rows=12, p=4)
    ranker = KPCRank(
        kernel="laplacian",
        gamma=1.0,
        alpha=alpha,
        weighting=weighting,
        options=ComponentOptions(cv="leave_pair_out", max_components=4),
    )
    errors = ranker.fit(X, y).component_errors_.error
    L = grouped_laplacian(y[2:], np.zeros(10), "include", weighting)
    for p in range(1, 5):
        wrong = 0.0
        for i in range(12):
            for j in range(i):
                rest = np.setdiff1d(np.arange(12), [i, j])
                A = F[rest, :p].T @ L @ F[rest, :p] + alpha * np.eye(p)
                w = np.linalg.solve(A, F[rest, :p].T @ L @ y[rest])
                wrong += (F[i, :p] - F[j, :p]) @ w * (y[i] - y[j]) < 0
        assert errors[p - 1] == pytest.approx(wrong / 66)


def test_blocks_of_pairs(monkeypatch):
    _, y, _, F, s = make_problem()
    want = component_pair_losses(F, s, y[:, None], 0.1)
    monkeypatch.setattr("rankwise.holdout.leave_pair_out.BLOCK_BYTES", 8 * 36 * 5)
    for got, whole in zip(component_pair_losses(F, s, y[:, None], 0.1), want, strict=True):
        assert_allclose(got, whole)


@pytest.mark.parametrize("kind", [KPCRank, KPCR])
@pytest.mark.parametrize("by_query", [True, False])
def test_folds_refit_the_components(kind, by_query):
    X, y, qid, _, _ = make_problem()
    qid = qid if by_query else None
    ranker = kind(scale=None, options=ComponentOptions(cv=3, max_components=6, rule="best")).fit(
        X, y, qid=qid
    )
    fold = shuffled_folds(36, 3)
    if by_query:
        first = {q: k for k, q in enumerate(dict.fromkeys(qid.tolist()))}
        fold = np.array([first[q] for q in qid.tolist()]) % 3
    held_out = np.empty((36, 6))
    for k in range(3):
        train = fold != k
        part = kind(6, scale=None).fit(X[train], y[train], qid=qid[train] if by_query else None)
        held_out[~train] = part.predict_path(X[~train])
    groups = qid if by_query else fold
    want = [disagreement_error(y, f, groups) for f in held_out.T]
    assert_allclose(ranker.component_errors_.error, want, atol=1e-12)
    assert want[ranker.n_components_ - 1] == pytest.approx(min(want))  # any of tied minima
    assert "3 folds" in ranker.component_errors_.method
    assert "best" in str(ranker.component_errors_)


def test_folds_of_comparisons_hold_out_their_rows():
    X, y, _, _, _ = make_problem()
    pairs = np.random.default_rng(0).permutation(36).reshape(18, 2)  # every row in one pair
    margin = y[pairs[:, 0]] - y[pairs[:, 1]]
    ranker = KPCRank(scale=None, options=ComponentOptions(cv=3, max_components=4)).fit_pairs(
        X, pairs, margin=margin
    )
    errors = np.empty((3, 4))
    for k in range(3):
        test = shuffled_folds(18, 3) == k
        rows = pairs[~test].ravel()
        part = KPCRank(4, scale=None).fit_pairs(
            X[rows], np.arange(24).reshape(12, 2), margin=margin[~test]
        )
        f, g = (part.predict_path(X[pairs[test, side]]) for side in (0, 1))
        errors[k] = ((f - g) * margin[test][:, None] < 0).mean(axis=0)
    assert_allclose(ranker.component_errors_.error, errors.mean(axis=0), atol=1e-12)


def test_one_standard_error_rule():
    numbers = np.arange(1, 6)
    errors = ComponentErrors(
        numbers, np.array([0.4, 0.32, 0.35, 0.3, 0.3]), np.full(5, 0.03), "by hand"
    )
    assert errors.chosen("best") == 4
    assert errors.chosen("one_se") == 2
    alone = ComponentErrors(numbers, errors.error, np.full(5, np.nan), "one fold")
    assert alone.chosen("one_se") == 4
    X, y, qid, _, _ = make_problem()
    fewer, best = (
        KPCRank(scale=None, options=ComponentOptions(rule=rule)).fit(X, y, qid=qid)
        for rule in ("one_se", "best")
    )
    assert fewer.n_components_ == fewer.component_errors_.one_se_n_components
    assert best.n_components_ == best.component_errors_.best_n_components
    with pytest.raises(ParameterError, match="rule must be one of"):
        KPCRank(scale=None, options=ComponentOptions(rule="two_se")).fit(X, y, qid=qid)


def test_fewer_queries_than_folds():
    X, y, _, _, _ = make_problem()
    qid = np.repeat([0, 1], 18)
    assert (
        "2 folds"
        in KPCRank(scale=None, options=ComponentOptions(cv=5))
        .fit(X, y, qid=qid)
        .component_errors_.method
    )
    with pytest.raises(DataError, match="at least two"):
        KPCRank(scale=None, options=ComponentOptions(cv="leave_query_out")).fit(X, y)
    with pytest.raises(DataError, match="All margins are 0"):
        KPCRank(scale=None, options=ComponentOptions(cv=2)).fit_pairs(
            X, [[0, 1], [2, 3], [4, 5], [6, 7]], margin=np.zeros(4)
        )


def test_folds_are_shuffled():
    for n, n_folds in ((36, 3), (17, 5)):
        fold = shuffled_folds(n, n_folds)
        assert np.ptp(np.bincount(fold)) <= 1
        assert (fold == shuffled_folds(n, n_folds)).all()
    X, _, _, _, _ = make_problem()
    y = np.arange(36) % 3.0
    errors = (
        KPCRank(scale=None, options=ComponentOptions(cv=3, max_components=3))
        .fit(X, y)
        .component_errors_
    )
    assert np.isfinite(errors.error).all()
    pairs = np.column_stack((np.arange(0, 36, 2), np.arange(1, 36, 2)))
    margin = np.tile([2.0, 0.0, 0.0], 6)  # without shuffling, two of three folds would be all 0
    found = (
        KPCRank(scale=None, options=ComponentOptions(cv=3, max_components=3))
        .fit_pairs(X, pairs, margin=margin)
        .component_errors_
    )
    assert np.isfinite(found.standard_error).all()


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_landmarks_as_row_numbers_refer_to_all_rows(kernel):
    X, y, qid, _, _ = make_problem()
    first = {q: k for k, q in enumerate(dict.fromkeys(qid.tolist()))}
    fold = np.array([first[q] for q in qid.tolist()]) % 3
    rows = np.r_[np.flatnonzero(fold == 0)[:6], np.flatnonzero(fold == 1)[:6], 35]
    rows = np.unique(rows)[::-1]
    rows_of_x = np.exp(-np.square(X[:, None] - X).sum(axis=2)) if kernel == "precomputed" else X
    options = {"gamma": 1.0, "kernel": kernel}
    ranker = KPCRank(
        landmarks=rows, scale=None, options=ComponentOptions(cv=3, max_components=4), **options
    ).fit(rows_of_x, y, qid=qid)
    held_out = np.empty((36, 4))
    for k in range(3):
        train = fold != k
        part = KPCRank(4, gamma=1.0, landmarks=X[rows[fold[rows] != k]])
        held_out[~train] = part.fit(X[train], y[train], qid=qid[train]).predict_path(X[~train])
    want = [disagreement_error(y, f, qid) for f in held_out.T]
    assert_allclose(ranker.component_errors_.error, want, atol=1e-12)


def test_as_many_landmarks_as_rows():
    X, y, qid, _, _ = make_problem()
    ranker = KPCRank(
        n_landmarks=36, random_state=0, scale=None, options=ComponentOptions(cv=3, max_components=4)
    ).fit(X, y, qid=qid)
    assert len(ranker.landmark_indices_) == 36
    whole = KPCRank(scale=None, options=ComponentOptions(cv=3, max_components=4)).fit(X, y, qid=qid)
    assert_allclose(ranker.component_errors_.error, whole.component_errors_.error, atol=1e-12)
    with pytest.raises(ParameterError, match="more than the 36 rows"):
        KPCRank(n_landmarks=37, scale=None, options=ComponentOptions(cv=3)).fit(X, y, qid=qid)
    fold = np.flatnonzero(qid == qid[0])
    with pytest.raises(DataError, match="There is no landmark among these rows"):
        KPCRank(landmarks=fold, scale=None, options=ComponentOptions(cv=6)).fit(X, y, qid=qid)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_queries_without_pairs_always_train(ties):
    X, y, qid, _, _ = make_problem()
    y, qid = y.round(1), qid.copy()
    first = {q: k for k, q in enumerate(dict.fromkeys(qid.tolist()))}
    code = np.array([first[q] for q in qid.tolist()])
    y[code == 0] = 0.0  # no pair to learn from
    single = np.flatnonzero(code == 3)
    qid[single] = 100 + np.arange(len(single))
    held_out_queries = [1, 2, 4, 5]
    ranker = KPCRank(ties=ties, scale=None, options=ComponentOptions(cv=2, max_components=3)).fit(
        X, y, qid=qid
    )
    held_out = np.zeros((36, 3))
    for k in range(2):
        test = np.isin(code, held_out_queries[k::2])
        part = KPCRank(3, ties=ties, scale=None).fit(X[~test], y[~test], qid=qid[~test])
        held_out[test] = part.predict_path(X[test])
    rows = np.isin(code, held_out_queries)
    want = [disagreement_error(y[rows], f[rows], qid[rows]) for f in held_out.T]
    assert_allclose(ranker.component_errors_.error, want, atol=1e-12)
    many = KPCRank(ties=ties, scale=None, options=ComponentOptions(cv=30, max_components=3)).fit(
        X, y, qid=qid
    )
    assert "4 folds" in many.component_errors_.method
    y[code > 1] = 0.0
    with pytest.raises(DataError, match="too few queries whose rows have different labels"):
        KPCRank(ties=ties, scale=None).fit(X, y, qid=qid)


def test_errors_of_a_refit_mention_the_folds():
    X, _, _, _, _ = make_problem()
    y = np.zeros(36)
    y[0] = 1.0
    with pytest.raises(DataError, match=r"hold-out for .*: No query .* use fewer folds"):
        KPCRank(ties="exclude", scale=None).fit(X, y)
    weight = np.zeros(18)
    weight[0] = 1.0
    pairs = np.arange(36).reshape(18, 2)
    with pytest.raises(DataError, match=r"hold-out for .*: There are too few comparisons"):
        KPCRank(scale=None, options=ComponentOptions(cv=3)).fit_pairs(X, pairs, weight=weight)


@pytest.mark.parametrize("cv", [3, "leave_query_out", "leave_pair_out"])
def test_error_for_a_constant_output(cv):
    X, y, qid, _, _ = make_problem()
    qid = None if cv == "leave_pair_out" else qid
    with pytest.raises(DataError, match=r"labels of output 1 .* Set n_components to a number"):
        KPCRank(scale=None, options=ComponentOptions(cv=cv)).fit(
            X, np.column_stack((y, np.ones(36))), qid=qid
        )


@pytest.mark.parametrize("cv", ["leave_query_out", "leave_pair_out"])
def test_comparisons_need_folds(cv):
    X, _, _, _, _ = make_problem()
    with pytest.raises(DataError, match="fit_pairs has comparisons: use a number of folds"):
        KPCRank(scale=None, options=ComponentOptions(cv=cv)).fit_pairs(X, [[0, 1], [2, 3], [4, 5]])


def test_the_nested_error_of_queries_is_chosen_without_them():
    X, y, qid, _, _ = make_problem(3)
    ranker = KPCRank(
        scale=None, options=ComponentOptions(cv="leave_query_out", max_components=5)
    ).fit(X, y, qid=qid)
    by_query = []
    for p in range(1, 6):
        held = leave_query_out(KPCRank(p, scale=None), X, y, qid=qid).predictions[0]
        found = disagreement_error(y, held, qid, per_query=True)
        by_query.append(found.values)
    by_query, nested = np.array(by_query), []
    for q in range(6):
        others = np.delete(by_query, q, axis=1).mean(axis=1)
        nested.append(by_query[np.argmin(others.round(12)), q])
    errors = ranker.component_errors_
    assert_allclose(errors.nested_error, np.mean(nested))
    assert f"nested error {errors.nested_error:.4f}" in repr(errors)
    assert f"nested error {errors.nested_error:.4f}" in str(errors)


def test_the_nested_error_of_pairs_leaves_out_all_pairs_of_a_row():
    X, y, _, _, _ = make_problem(4)
    X, y = X[:14], y[:14]
    ranker = KPCRank(
        scale=None, options=ComponentOptions(cv="leave_pair_out", max_components=4)
    ).fit(X, y)
    wrong = np.zeros((4, 14, 14))
    for p in range(1, 5):
        held = leave_pair_out(KPCRank(p, scale=None), X, y, alphas=[0.0], return_differences=True)
        i, j = held.pairs.T
        wrong[p - 1, i, j] = wrong[p - 1, j, i] = held.differences[0] * (y[i] - y[j]) < 0
    total = 0.0
    for row in range(14):
        rest = np.arange(14) != row
        others = wrong[:, rest][:, :, rest].sum(axis=(1, 2))
        total += wrong[np.argmin(others), row].sum()  # whole numbers
    assert_allclose(ranker.component_errors_.nested_error, total / (14 * 13))


def test_a_chosen_error_flatters_without_a_signal():
    draw, qid = np.random.default_rng(0), np.arange(60) // 5
    ranker = KPCRank(options=ComponentOptions(cv="leave_query_out", max_components=30))
    best, nested = [], []
    for _ in range(12):
        X, y = draw.standard_normal((60, 3)), draw.standard_normal(60)
        errors = ranker.fit(X, y, qid=qid).component_errors_
        best.append(errors.error.min())
        nested.append(errors.nested_error)
    assert np.mean(best) < 0.45
    assert np.mean(nested) > np.mean(best) + 0.03


@pytest.mark.parametrize("cv", [3, "leave_query_out"])
def test_the_rule_of_one_standard_error_has_no_nested_error(cv):
    X, y, qid, _, _ = make_problem()
    ranker = KPCRank(options=ComponentOptions(cv=cv, rule="one_se", max_components=5)).fit(
        X, y, qid=qid
    )
    assert ranker.component_errors_.nested_error is None
    assert "nested" not in str(ranker.component_errors_)


def test_several_outputs_have_no_nested_error():
    X, y, qid, _, _ = make_problem()
    ranker = KPCRank(options=ComponentOptions(cv=3, max_components=5)).fit(
        X, np.column_stack((y, X[:, 1])), qid=qid
    )
    assert ranker.component_errors_.nested_error is None
