"""alpha="auto": the choice equals that of the hold-out functions, or of refits."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from rankwise import RLS, RankingSearchCV, RankRLS, SparseRankRLS, SparseRLS, load_model, save_model
from rankwise.data import make_ranking
from rankwise.errors import ParameterError, RankwiseWarning
from rankwise.holdout import alpha_choice
from rankwise.metrics import disagreement_error, ndcg
from rankwise.model_selection import k_fold, leave_one_out, leave_pair_out, leave_query_out
from rankwise.problem import LandmarkSystem
from rankwise.problem.block_sums import N_FOLDS, query_hash
from rankwise.scaling import QUERY_SCALINGS
from tests.oracles.alpha_choice import mean_square, pair_errors
from tests.strategies import comparisons, problems, ties, weightings

RANKERS = [
    RankRLS(scale=None),
    RankRLS(solver="dual", scale=None),
    RankRLS(kernel="rbf", ties="exclude", scale=None),
    RLS(scale=None),
    RLS(kernel="rbf", scale=None),
    SparseRankRLS(gamma=0.3, random_state=0, scale=None),
    SparseRLS(gamma=0.3, random_state=0, scale=None),
]
rankers = st.sampled_from(RANKERS)


def grades(n_queries=12, rows_per_query=7, n_features=4, seed=0):
    """Rows with labels 0, 1 and 2 that depend on the features, with noise."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rows_per_query)
    X = rng.standard_normal((len(qid), n_features))
    score = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(len(qid))
    return X, np.digitize(score, [-0.5, 0.8]).astype(float), qid


def assert_same_curve(ranker, held_out):
    """The scores are those of a hold-out function, and alpha is (one of) the best."""
    curve = ranker.alpha_curve_
    score = held_out.score if hasattr(held_out, "score") else held_out.error
    score = score.reshape(len(curve.alphas), -1).mean(axis=1)
    assert_allclose(curve.score, score, rtol=1e-6, atol=1e-9)
    best = score.max() if curve.greater_is_better else score.min()
    chosen = score[list(curve.alphas).index(ranker.alpha_)]
    assert chosen == pytest.approx(best, rel=1e-6, abs=1e-9)


def held_out_folds(monkeypatch):
    """A list to which the choice of alpha adds the folds that it holds out."""
    folds, engine = [], alpha_choice.hold_out

    def listed(problem, plan):
        folds.extend(plan.folds(problem.groups))
        return engine(problem, plan)

    monkeypatch.setattr(alpha_choice, "hold_out", listed)
    return folds


def usable(y, qid):
    return sum(len(np.unique(y[qid == q])) > 1 for q in np.unique(qid))


@given(problems(min_pairs=1), rankers)
def test_queries_are_held_out_as_by_leave_query_out(problem, ranker):
    X, y, qid = problem.X, problem.y, problem.qid
    assume(usable(y, qid) > 1)
    ranker = clone(ranker).fit(X, y, qid=qid)
    curve = ranker.alpha_curve_
    assert curve.metric == ("ndcg@10" if (y == y.round()).all() else "disagreement")
    found = leave_query_out(ranker, X, y, qid=qid, alphas=curve.alphas, metric=curve.metric)
    assert_same_curve(ranker, found)


@given(problems(min_pairs=2), rankers)
def test_pairs_of_one_ranking_are_held_out_as_by_leave_pair_out(problem, ranker):
    X, y = problem.X, problem.y
    y[:3] = y[3:6] if len(y) > 8 else y[:3]  # every label that is alone would be an error
    ranker = clone(ranker).fit(X, y)
    curve = ranker.alpha_curve_
    if isinstance(ranker, (RLS, SparseRLS)):
        assert curve.metric == "squared_error"
        if not isinstance(ranker, SparseRLS):
            assert_same_curve(ranker, leave_one_out(ranker, X, y, alphas=curve.alphas))
        return
    assert curve.metric == "disagreement"
    if getattr(ranker, "ties", None) == "include":
        assert_same_curve(ranker, leave_pair_out(ranker, X, y, alphas=curve.alphas))


@given(comparisons(max_rows=8, max_pairs=12), st.sampled_from(RANKERS[:2]))
def test_single_comparisons_are_held_out(given, ranker):
    X, pairs, margin, weight = given.X, given.pairs, given.margin, given.weight
    ranker = clone(ranker).fit_pairs(X, pairs, margin=margin, weight=weight)
    if len(pairs) < 4:
        assert ranker.alpha_curve_ is None
        return
    curve = ranker.alpha_curve_
    for k in (3, 8):
        fixed = clone(ranker).set_params(alpha=float(curve.alphas[k]))
        squared = []
        for held in range(len(pairs)):
            rest = np.arange(len(pairs)) != held
            f = fixed.fit_pairs(X, pairs[rest], margin=margin[rest], weight=weight[rest]).predict(X)
            squared.append((f[pairs[held, 0]] - f[pairs[held, 1]] - margin[held]) ** 2)
        assert curve.score[k] == pytest.approx(np.average(squared, weights=weight), rel=1e-6)


@given(problems(min_pairs=1), ties, weightings)
def test_the_grid_follows_the_trace_and_the_rule_is_a_tenth_of_it(problem, ties, weighting):
    X, y, qid = problem.X, problem.y, problem.qid
    ranker = RankRLS(ties=ties, weighting=weighting, scale=None).fit(X, y, qid=qid)
    scale = mean_square(X, y, qid, ties, weighting)
    if ranker.alpha_curve_ is None:
        assert ranker.alpha_ == pytest.approx(0.1 * scale)
        return
    alphas = ranker.alpha_curve_.alphas
    assert alphas[-1] == pytest.approx(100 * scale)
    assert alphas[0] <= 1e-6 * scale
    assert_allclose(alphas[1:] / alphas[:-1], 10**0.75)
    assert_allclose(ranker.path(X, y, qid=qid).alphas, alphas)


@pytest.mark.parametrize("budget", [{}, {"SECONDS": 0.0, "FLOPS": 1e30, "SAMPLE_ROWS": 30}])
@pytest.mark.parametrize("ranker", [RANKERS[0], RANKERS[2], RANKERS[5]])
def test_the_order_of_rows_and_the_scale_do_not_matter(monkeypatch, budget, ranker):
    for name, value in budget.items():
        monkeypatch.setattr(alpha_choice, name, value)
    X, y, qid = grades()
    order = np.random.default_rng(1).permutation(len(y))
    ranker = clone(ranker)
    if isinstance(ranker, SparseRankRLS):
        ranker.set_params(landmarks=X[:6], n_landmarks=None)
    alpha = ranker.fit(X, y, qid=qid).alpha_
    assert ranker.fit(X[order], y[order], qid=qid[order]).alpha_ == pytest.approx(alpha)
    if ranker.kernel == "linear":
        assert ranker.fit(1e3 * X, y, qid=qid).alpha_ == pytest.approx(1e6 * alpha)
        assert ranker.fit(sp.csr_array(X), y, qid=qid).alpha_ == pytest.approx(alpha)


@pytest.mark.parametrize("ranker", [RankRLS(), RankRLS(ties="exclude"), RLS(), *RANKERS[5:]])
@pytest.mark.parametrize("with_queries", [True, False])
def test_folds_of_a_large_problem_equal_refits(monkeypatch, ranker, with_queries):
    X, y, qid = grades()
    ranker = clone(ranker).set_params(scale=None)
    if "ties" in ranker.get_params() and ranker.ties == "exclude" and not with_queries:
        y = y + 1e-3 * np.arange(len(y))  # without ties, pairs of one ranking have sums
    if hasattr(ranker, "landmarks"):
        ranker.set_params(landmarks=X[:6], n_landmarks=None)
    for name in ("SECONDS", "STORED"):
        monkeypatch.setattr(alpha_choice, name, 0)
    monkeypatch.setattr(alpha_choice, "FLOPS", 1e30)  # a fit takes no time
    folds = held_out_folds(monkeypatch)
    ranker.fit(X, y, qid=qid if with_queries else None)
    curve = ranker.alpha_curve_
    assert len(folds) > 2
    assert len(np.unique(np.concatenate(folds))) == sum(map(len, folds))
    for k in (0, 6, len(curve.alphas) - 1):
        held = [
            (fold, refit(ranker, curve.alphas[k], X, y, qid if with_queries else None, fold))
            for fold in folds
        ]
        assert curve.score[k] == pytest.approx(score(curve.metric, y, qid, held, with_queries))


@pytest.mark.parametrize("ranker", [*RANKERS[5:], SparseRankRLS(gamma=0.3, ties="exclude")])
def test_landmarks_share_the_sums_of_all_rows_with_the_choice(monkeypatch, ranker):
    X, y, qid = grades()
    ranker = clone(ranker).set_params(landmarks=X[:6], n_landmarks=None)
    monkeypatch.setattr(alpha_choice, "SECONDS", 0)
    monkeypatch.setattr(alpha_choice, "FLOPS", 1e30)  # a fit takes no time
    summed, moments = [], LandmarkSystem.moments

    def counted(system, rows, *others):
        summed.append(len(rows))
        return moments(system, rows, *others)

    monkeypatch.setattr(LandmarkSystem, "moments", counted)
    ranker.fit(X, y, qid=qid)
    assert summed.count(len(X)) == 1
    fixed = clone(ranker).set_params(alpha=ranker.alpha_).fit(X, y, qid=qid)
    assert_allclose(ranker.dual_coef_, fixed.dual_coef_, rtol=1e-9)


KERNEL_RANKERS = [RANKERS[2], RANKERS[4], RankRLS(kernel="rbf", scale=None)]


@pytest.mark.parametrize("ranker", KERNEL_RANKERS)
def test_some_queries_of_a_large_kernel_matrix_equal_refits(monkeypatch, ranker):
    X, y, qid = grades()
    monkeypatch.setattr(alpha_choice, "KERNEL_ROWS", 10)
    folds = held_out_folds(monkeypatch)
    ranker = clone(ranker).fit(X, y, qid=qid)
    curve = ranker.alpha_curve_
    assert 2 <= len(folds) < 6
    assert all(len(np.unique(qid[fold])) == 1 for fold in folds)
    for k in (0, 6, len(curve.alphas) - 1):
        held = [(fold, refit(ranker, curve.alphas[k], X, y, qid, fold)) for fold in folds]
        assert curve.score[k] == pytest.approx(score(curve.metric, y, qid, held, True), rel=1e-6)


@pytest.mark.parametrize("ranker", KERNEL_RANKERS)
def test_some_rows_of_a_large_kernel_matrix_equal_refits(monkeypatch, ranker):
    X, y, _ = grades()
    monkeypatch.setattr(alpha_choice, "KERNEL_ROWS", 10)
    monkeypatch.setattr(alpha_choice, "SECONDS", 0)
    monkeypatch.setattr(alpha_choice, "FLOPS", 1e30)
    ranker = clone(ranker).fit(X, y)
    curve = ranker.alpha_curve_
    if getattr(ranker, "ties", None) == "exclude":  # one part is held out
        part = alpha_choice.row_parts(y[:, None])[0]
        f = refit(ranker, curve.alphas[6], X, y, None, part)
        assert curve.score[6] == pytest.approx(disagreement_error(y[part], f))
        return
    some = alpha_choice.spread_rows(y[:, None], 25)
    assert len(some) == 25
    if isinstance(ranker, RLS):
        errors = leave_one_out(ranker, X, y, alphas=curve.alphas).predictions - y
        assert_allclose(curve.score, (errors[:, some] ** 2).mean(axis=1))
        return
    pairs = some[np.column_stack(np.triu_indices(25, 1))]
    assert_same_curve(ranker, leave_pair_out(ranker, X, y, alphas=curve.alphas, pairs=pairs))


def refit(ranker, alpha, X, y, qid, held):
    """Predictions for the held-out rows by a ranker with a fixed alpha, fitted to the others."""
    rest = np.setdiff1d(np.arange(len(y)), held)
    fixed = clone(ranker).set_params(alpha=float(alpha))
    return fixed.fit(X[rest], y[rest], qid=None if qid is None else qid[rest]).predict(X[held])


def score(metric, y, qid, held, with_queries):
    """The mean of a metric over queries, or over folds of rows."""
    if metric == "squared_error":
        squares = [(r - r.mean()) ** 2 for r in (y[fold] - f for fold, f in held)]
        return np.concatenate(squares).mean()
    rows = np.concatenate([fold for fold, _ in held])
    fold_of = np.repeat(np.arange(len(held)), [len(fold) for fold, _ in held])
    groups = qid[rows] if with_queries else fold_of
    function = disagreement_error if metric == "disagreement" else lambda *a: ndcg(*a, k=10)
    return function(y[rows], np.concatenate([f for _, f in held]), groups)


# Blocks of rows.


def blocks(X, y, qid, sizes):
    edges = np.cumsum([0, *sizes])
    assert edges[-1] == len(y)
    parts = [slice(a, b) for a, b in pairwise(edges)]
    return [(X[part], y[part], qid[part]) for part in parts]


@pytest.mark.parametrize("cls", [SparseRankRLS, SparseRLS])
def test_blocks_choose_by_the_squared_error_of_folds_of_queries(cls, tmp_path):
    X, y, qid = grades(n_queries=20)
    landmarks = X[:8]
    ranker = cls(landmarks=landmarks, gamma=0.3, scale=None).fit_blocks(blocks(X, y, qid, [70, 70]))
    curve = ranker.alpha_curve_
    assert curve.metric == "squared_error"
    fold = np.array([query_hash(q) % N_FOLDS for q in qid.tolist()])
    for k in (0, 5, len(curve.alphas) - 1):
        errors, equal = 0.0, 0.0
        for held in (np.flatnonzero(fold == f) for f in range(N_FOLDS)):
            f = refit(ranker, curve.alphas[k], X, y, qid, held)
            one = np.zeros(len(held)) if cls is SparseRLS else qid[held]
            error, of_equal = pair_errors(y[held], f, one, "include", "rows")
            errors, equal = errors + error, equal + of_equal
        assert curve.score[k] == pytest.approx(errors / equal)

    # The same in other blocks, and after a pause in a file.
    other = cls(landmarks=landmarks, gamma=0.3, scale=None)
    for block in blocks(X[:98], y[:98], qid[:98], [35, 63]):
        other.partial_fit(block[0], block[1], qid=block[2])
    other = load_model(save_model(other, tmp_path / "paused.rankwise"))
    other.partial_fit(X[98:], y[98:], qid=qid[98:])
    assert_allclose(other.alpha_curve_.score, curve.score)
    assert other.alpha_ == pytest.approx(ranker.alpha_)
    assert_allclose(ranker.path_blocks(blocks(X, y, qid, [140])).alphas, curve.alphas)


def test_blocks_of_one_ranking_and_a_change_of_alpha():
    X, y, qid = grades(n_queries=20)
    one = SparseRankRLS(landmarks=X[:8], gamma=0.3, scale=None).fit_blocks([(X, y, None)])
    assert one.alpha_curve_.metric == "squared_error"
    without = SparseRankRLS(landmarks=X[:8], gamma=0.3, scale=None, ties="exclude").fit_blocks(
        [(X, y, None)]
    )
    assert without.alpha_curve_ is None
    ranker = SparseRankRLS(1.0, landmarks=X[:8], gamma=0.3, scale=None).partial_fit(
        X[:70], y[:70], qid=qid[:70]
    )
    with pytest.raises(ParameterError, match=r"alpha .* changed since the first block"):
        ranker.set_params(alpha="auto").partial_fit(X[70:], y[70:], qid=qid[70:])


# What users see.


def test_a_number_is_used_as_it_is():
    X, y, qid = grades()
    ranker = RankRLS(2).fit(X, y, qid=qid)
    assert ranker.alpha_ == 2.0
    assert not hasattr(ranker, "alpha_curve_")
    assert ranker.path(X, y, [0.5], qid=qid).estimator(0).alpha_ == 0.5
    for alpha in ("automatic", None, -1.0):
        with pytest.raises(
            ParameterError, match='alpha must be a finite number, 0 or more, or "auto"'
        ):
            RankRLS(alpha).fit(X, y, qid=qid)


def test_the_fit_is_that_of_the_chosen_alpha():
    X, y, qid = grades()
    for ranker in RANKERS:
        ranker = clone(ranker).fit(X, y, qid=qid)
        fixed = clone(ranker).set_params(alpha=ranker.alpha_).fit(X, y, qid=qid)
        assert_allclose(ranker.predict(X), fixed.predict(X), atol=1e-12)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_several_outputs_share_an_alpha(ties):
    X, y, qid = grades()
    Y = np.column_stack((y, 2 - y, X[:, 1]))
    ranker = RankRLS(ties=ties).fit(X, Y, qid=qid)
    assert ranker.alpha_curve_.metric == "disagreement"
    assert_same_curve(ranker, leave_query_out(ranker, X, Y, qid=qid))


def test_float32_and_data_frames():
    pd = pytest.importorskip("pandas")
    X, y, qid = grades()
    alpha = RankRLS().fit(X, y, qid=qid).alpha_
    assert RankRLS().fit(X.astype(np.float32), y, qid=qid).alpha_ == pytest.approx(alpha, rel=1e-5)
    frame = pd.DataFrame(X, columns=list("abcd"))
    assert RankRLS().fit(frame, y, qid=pd.Series(qid)).alpha_ == pytest.approx(alpha)


@pytest.mark.filterwarnings("ignore:.*all features are constant")
# With rows that are infinitely far from each other, rounding orders the held-out ones.
@pytest.mark.filterwarnings("ignore:.*still improves there")
@pytest.mark.parametrize("ranker", RANKERS)
def test_tiny_and_degenerate_data(ranker):
    for X, y, qid in (
        ([[0.0], [1.0]], [0, 1], None),
        ([[0.0], [1.0], [2.0]], [0, 1, 1], None),
        ([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], None),
        ([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], [1, 1, 2, 3]),
        ([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], [1, 1, 2, 2]),
        ([[1.0], [1.0], [1.0], [1.0], [1.0]], [0, 1, 2, 1, 3], None),
        ([[1.0], [1.0], [1.0], [1.0]], [0, 1, 0, 1], [1, 1, 2, 2]),
        ([[0.0, 1e30], [1e30, 3e30], [2e30, 1e29], [5e30, 0.0]], [0, 1, 0, 1], [1, 1, 2, 2]),
        ([[0.0], [1.0], [1.0], [2.0], [2.0]], [0.5, 1, 0, 2, 1], None),
    ):
        fitted = clone(ranker).fit(np.array(X), np.array(y, float), qid=qid)
        assert np.isfinite(fitted.alpha_)
        assert fitted.alpha_ > 0
        assert np.isfinite(fitted.predict(np.array(X))).all()


@pytest.mark.filterwarnings("ignore:.*still improves there")
@pytest.mark.parametrize("n_rows", range(2, 12))
def test_few_rows_with_weights(n_rows):
    rng = np.random.default_rng(n_rows)
    X, y = rng.standard_normal((n_rows, 2)), rng.standard_normal(n_rows)
    ranker = RankRLS().fit(X, y, sample_weight=rng.uniform(1, 2, n_rows))
    assert 0 < ranker.alpha_ < np.inf


def test_data_without_noise_do_not_warn_but_an_end_of_the_grid_does(monkeypatch):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((200, 5)), np.arange(200) // 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RankRLS().fit(X, X[:, 0], qid=qid)
        RLS().fit(X, X[:, 0])
        SparseRankRLS(landmarks=X[:20], kernel="linear", scale=None).fit_blocks([(X, X[:, 0], qid)])
        RankRLS().fit(X, rng.standard_normal(200), qid=qid)
    # The labels come from a feature of small values, and a feature of large values is noise.
    y = X[:, 0] + 0.1 * rng.standard_normal(200)
    X[:, 1] *= 200
    monkeypatch.setattr(alpha_choice, "LOWEST", 1e-3)
    with pytest.warns(RankwiseWarning, match="is the smallest of the .* values that were tried"):
        RankRLS(scale=None).fit(X[:, :2], y, qid=qid)


def test_an_indefinite_kernel_leaves_out_small_alphas():
    X, y, qid = grades()
    ranker = RankRLS(kernel="sigmoid", gamma=0.05, coef0=0.2, scale=None).fit(X, y, qid=qid)
    assert len(ranker.alpha_curve_.alphas) < 9


def test_hold_outs_use_the_grid_of_the_data():
    X, y, qid = grades()
    alphas = RankRLS(scale=None).fit(X, y, qid=qid).alpha_curve_.alphas
    assert_allclose(leave_query_out(RankRLS(), X, y, qid=qid).alphas, alphas)
    assert len(leave_query_out(RankRLS(3.0), X, y, qid=qid).alphas) == 1
    assert len(k_fold(RankRLS(), X, y).alphas) == len(leave_pair_out(RankRLS(), X, y).alphas) == 12


def test_a_search_lets_each_fit_choose():
    X, y, qid = grades()
    search = RankingSearchCV(RankRLS(), {"weighting": ["rows", "queries"]}, cv=3)
    search.fit(X, y, qid=qid)
    split = np.isin(qid, np.unique(qid)[::3])
    f = RankRLS().fit(X[~split], y[~split], qid=qid[~split]).predict(X[split])
    want = -disagreement_error(y[split], f, qid[split])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(want)
    mixed = RankingSearchCV(RankRLS(), {"alpha": ["auto", 1.0]}, cv=3).fit(X, y, qid=qid)
    assert mixed.cv_results_["mean_test_score"][0] == search.cv_results_["mean_test_score"][0]
    with pytest.raises(ParameterError, match="with values of alpha"):
        RankingSearchCV(RankRLS(), {"ties": ["include"]}, cv="leave_pair_out").fit(X, y)


def test_model_files_keep_the_curve(tmp_path):
    data = make_ranking(n_queries=10, rows_per_query=6, n_features=3, random_state=0)
    ranker = RankRLS().fit(data.X, data.y, qid=data.qid)
    same = load_model(save_model(ranker, tmp_path / "ranker.rankwise"))
    assert same.alpha == "auto"
    assert same.alpha_ == ranker.alpha_
    assert str(same.alpha_curve_) == str(ranker.alpha_curve_)
    short = RankRLS().fit(data.X[:3], data.y[:3])
    assert load_model(save_model(short, tmp_path / "short.rankwise")).alpha_curve_ is None


def test_fits_of_linear_rankers_try_scalings_and_hold_outs_do_not():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((400, 3)), np.arange(400) // 10
    y = np.digitize(X.sum(axis=1), [-1.0, 1.0]).astype(float)
    skewed = np.exp(1.5 * X)
    assert RankRLS().fit(skewed, y, qid=qid).scale_ in QUERY_SCALINGS
    held = leave_query_out(RankRLS(), skewed, y, qid=qid, alphas=[1.0])
    assert held.shared == ()
    out = qid == qid[0]
    refit = RankRLS(1.0).fit(skewed[~out], y[~out], qid=qid[~out])
    found, wanted = held.predictions[0][out], refit.predict(skewed[out])
    assert_allclose(found - found[0], wanted - wanted[0], rtol=1e-7)


def test_alpha_is_chosen_once_for_each_scaling_that_is_tried(monkeypatch):
    rng = np.random.default_rng(0)
    X, names = np.exp(rng.standard_normal((200, 3))), np.repeat([f"q{k}" for k in range(20)], 10)
    y, mixed = np.digitize(np.log(X).sum(axis=1), [-1.0, 1.0]), rng.permutation(200)
    weights = {"query_weight": np.repeat(rng.random(20) + 1, 10), "sample_weight": rng.random(200)}
    found, choose = [], alpha_choice.choose_alpha
    monkeypatch.setattr(
        alpha_choice, "choose_alpha", lambda *a, **k: found.append(choose(*a, **k)) or found[-1]
    )
    tried = RankRLS().fit(X, y, qid=names, **weights)
    assert len(found) == 5
    given = RankRLS(scale=tried.scale_).fit(X, y, qid=names, **weights)
    shuffled = {name: of_rows[mixed] for name, of_rows in weights.items()}
    other = RankRLS().fit(X[mixed], y[mixed], qid=names[mixed], **shuffled)
    assert tried.alpha_ == given.alpha_
    assert_allclose(other.alpha_, tried.alpha_)
    assert_allclose([given.coef_, other.coef_], [tried.coef_] * 2, rtol=1e-9)
