"""Features that may only raise, or only lower, a score."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from rankwise import (
    AdditiveRankRLS,
    AutoRanker,
    BoostedRanker,
    QueryStandardScaler,
    RankRLS,
    TableEncoder,
    WithQueryStandard,
    load_model,
    save_model,
)
from rankwise.auto.auto_ranker import Candidate, _copies_in_places, _in_places
from rankwise.errors import DataError, ParameterError
from rankwise.model_selection import (
    RankingSearchCV,
    auc_interval,
    k_fold,
    leave_comparison_out,
    leave_item_out,
    leave_pair_out,
    leave_query_out,
    tournament_scores,
)
from rankwise.parameters import Monotone, parse_parameter

PLACES = {0: -1, 1: 1, 3: 1}
SIGNS = np.array([-1, 1, 0, 1])
ONE_CANDIDATE = AutoRanker(candidates=[AdditiveRankRLS()], boosted=False)
SCALINGS = [None, "standard", "query-minmax", "query-standard", "query-ranks"]


def rows(n_queries=12, per_query=8, seed=0):
    """The second feature is against its sign, and the last is nearly useless."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * per_query, 4))
    y = X @ [-1.0, -0.3, 1.0, 0.05] + rng.standard_normal(len(X))
    return X, y, np.repeat(np.arange(n_queries), per_query)


def frame(X):
    return pd.DataFrame(X, columns=["price", "stars", "age", "votes"])


def within_queries(scores, qid):
    return np.concatenate([scores[qid == q] - scores[qid == q].mean() for q in np.unique(qid)])


@pytest.mark.parametrize("scale", SCALINGS)
@pytest.mark.parametrize("ranker", [RankRLS(3.0), AdditiveRankRLS(3.0)])
def test_queries_held_out_agree_with_refits(ranker, scale):
    X, y, qid = rows()
    ranker = clone(ranker).set_params(monotone=PLACES, scale=scale)
    found = leave_query_out(ranker, X, y, qid=qid, alphas=[0.3, 3.0])
    if "knots" in found.shared:  # of all rows
        assert "fit" in found.note
        return
    for k, alpha in enumerate(found.alphas):
        want = np.empty(len(y))
        for q in range(12):
            train, test = qid != q, qid == q
            one = clone(ranker).set_params(alpha=alpha).fit(X[train], y[train], qid=qid[train])
            want[test] = one.predict(X[test], qid=qid[test])
        scores = within_queries(found.predictions[k], qid)
        assert_allclose(scores, within_queries(want, qid), atol=1e-9)
    assert "fits without a unit" in found.note or "The same weights" in found.note


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_several_outputs_and_large_folds(ties):
    X, y, qid = rows()
    Y = np.column_stack((y, -y)).round()
    ranker = RankRLS(1.0, monotone=PLACES, ties=ties)
    found = leave_query_out(ranker, X, Y, qid=qid, n_splits=3)
    for k in range(3):
        train, test = qid % 3 != k, qid % 3 == k
        one = clone(ranker).fit(X[train], Y[train], qid=qid[train])
        assert (one.coef_ * SIGNS >= 0).all()
        assert_allclose(found.predictions[0][test], one.predict(X[test]), atol=1e-9)


def test_the_note_says_which_fits_were_solved_again():
    X, y, qid = rows(n_queries=6)
    strong = leave_query_out(RankRLS(1.0, monotone={0: -1}), X, y, qid=qid)
    assert strong.note.startswith("The same weights are 0 without each unit")
    X[:, 3] = np.random.default_rng(1).standard_normal(len(X))  # at times useful by chance
    weak = leave_query_out(RankRLS(1.0, monotone={3: 1}), X, y, qid=qid)
    changed = 0
    usual = RankRLS(1.0, monotone={3: 1}).fit(X, y, qid=qid).coef_ == 0
    for q in range(6):
        one = RankRLS(1.0, monotone={3: 1}).fit(X[qid != q], y[qid != q], qid=qid[qid != q])
        changed += ((one.coef_ == 0) != usual).any()
    expected = f"In {changed} of 6 fits" if changed else "The same weights are 0"
    assert weak.note.startswith(expected)
    assert weak.note in str(weak)


def test_pairs_held_out_agree_with_refits():
    X, y, _ = rows(3)
    for weighting in ("rows", "pairs"):
        ranker = RankRLS(1.0, monotone=PLACES, weighting=weighting)
        found = leave_pair_out(ranker, X, y, alphas=[5.0], return_differences=True)
        assert len(found.pairs) == 24 * 23 // 2
        for (i, j), difference in zip(found.pairs[::20], found.differences[0][::20], strict=True):
            rest = np.setdiff1d(np.arange(24), [i, j])
            one = clone(ranker).set_params(alpha=5.0).fit(X[rest], y[rest])
            assert_allclose(difference, (X[i] - X[j]) @ one.coef_, atol=1e-9)
    assert leave_pair_out(ranker, X, y, pairs=10, random_state=0).error.shape == (1,)
    assert tournament_scores(ranker, X, y).shape == (24,)
    folds = k_fold(ranker, X, y, n_splits=3)
    one = clone(ranker).fit(X[np.arange(24) % 3 != 0], y[np.arange(24) % 3 != 0])
    held = np.arange(24) % 3 == 0
    assert_allclose(np.ptp(folds.predictions[0][held] - one.predict(X[held])), 0.0, atol=1e-9)


def test_comparisons_and_items_held_out_agree_with_refits():
    X, _, _ = rows()
    rng = np.random.default_rng(0)
    pairs = np.column_stack((rng.integers(0, 20, 40), rng.integers(20, 40, 40)))
    ranker = RankRLS(2.0, monotone=PLACES)
    found = leave_comparison_out(ranker, X, pairs)
    items = leave_item_out(ranker, X, pairs)
    for k in range(0, 40, 5):
        gap, others = X[pairs[k, 0]] - X[pairs[k, 1]], np.arange(40) != k
        one = clone(ranker).fit_pairs(X, pairs[others])
        assert_allclose(found.differences[0][k], gap @ one.coef_, atol=1e-9)
        apart = ~np.isin(pairs, pairs[k]).any(axis=1)
        one = clone(ranker).fit_pairs(X, pairs[apart])
        assert_allclose(items.differences[0][k], gap @ one.coef_, atol=1e-9)
    chosen = RankRLS(monotone=PLACES).fit_pairs(X, pairs)
    assert (SIGNS * chosen.coef_ >= 0).all()
    assert chosen.preference_slope_ is not None
    with pytest.raises(ParameterError, match="context of comparisons cannot be combined"):
        RankRLS(1.0, monotone=PLACES).fit_pairs(X, pairs, context=np.ones((40, 1)))


@pytest.mark.parametrize("ranker", [RankRLS(), RankRLS(scale="query-ranks"), AdditiveRankRLS()])
def test_scores_never_turn_on_a_grid(ranker, tmp_path):
    X, y, qid = rows(30, 6)
    ranker = clone(ranker).set_params(monotone={"price": -1, "stars": 1, "votes": 1})
    ranker.fit(frame(X), y, qid=qid)
    save_model(ranker, tmp_path / "model.rankwise")
    for model in (ranker, load_model(tmp_path / "model.rankwise")):
        for j, sign in enumerate(SIGNS):
            grid = frame(np.zeros((10_000, 4)))
            grid.iloc[:, j] = np.linspace(-10, 10, 10_000)
            scores = sign * model.predict(grid, qid=np.zeros(10_000, dtype=int))
            assert (np.diff(scores) >= -1e-13 * max(np.ptp(scores), 1.0)).all() or sign == 0
    signs = SIGNS if ranker.coef_.shape == (4,) else SIGNS[ranker.basis_.feature]
    assert (signs * ranker.coef_ >= 0).all()  # exactly


def test_positions_are_saved(tmp_path):
    X, y, qid = rows()
    ranker = RankRLS(1.0, monotone=PLACES).fit(X, y, qid=qid)
    save_model(ranker, tmp_path / "model.rankwise")
    assert load_model(tmp_path / "model.rankwise").monotone == PLACES


def test_alpha_auto_follows_the_constrained_fits():
    X, y, qid = rows(20, 6)
    ranker = RankRLS(monotone=PLACES, scale=None).fit(X, y, qid=qid)
    held = leave_query_out(ranker, X, y, qid=qid, alphas=ranker.alpha_curve_.alphas)
    assert_allclose(ranker.alpha_curve_.score, held.score)
    named = RankRLS(monotone={"price": -1, "stars": 1, "votes": 1}).fit(frame(X), y, qid=qid)
    assert_allclose(named.coef_, RankRLS(monotone=PLACES).fit(X, y, qid=qid).coef_)
    for ties in ("include", "exclude"):  # one ranking: five parts of the rows
        one = RankRLS(monotone=PLACES, ties=ties).fit(X, y)
        assert one.alpha_curve_ is not None
    found = RankingSearchCV(RankRLS(monotone=PLACES), {"alpha": [0.1, 10.0]}).fit(X, y, qid=qid)
    assert (SIGNS * found.best_estimator_.coef_ >= 0).all()


def test_sparse_rows_and_paths():
    X, y, qid = rows()
    ranker = RankRLS(1.0, monotone=PLACES)
    dense = ranker.path(X, y, [0.1, 1.0], qid=qid).coefficients()
    assert_allclose(ranker.path(sp.csr_array(X), y, [0.1, 1.0], qid=qid).coefficients(), dense)
    assert_allclose(dense[1], clone(ranker).fit(X, y, qid=qid).coef_)
    empty = RankRLS(1.0, monotone={}).fit(X, y, qid=qid)
    assert_allclose(empty.coef_, RankRLS(1.0).fit(X, y, qid=qid).coef_)


@pytest.mark.parametrize(
    ("monotone", "message"),
    [
        ({"prize": -1}, "'prize' is not a feature. Did you mean 'price'"),
        ({0: -1}, "features have names: use a name, such as 'price'"),
        ({"price": 2}, "The entry 'price': 2 is wrong"),
        ({"price": True}, "The entry 'price': True is wrong"),
        ({"price": 0.5}, "dictionary of -1, 0 or 1"),
        ("price", "dictionary of -1, 0 or 1"),
    ],
)
def test_wrong_constraints_are_explained(monotone, message):
    X, y, qid = rows()
    for ranker in (RankRLS(1.0), AdditiveRankRLS(1.0)):
        with pytest.raises(ParameterError, match=message):
            ranker.set_params(monotone=monotone).fit(frame(X), y, qid=qid)


def test_what_cannot_be_monotone_is_refused():
    X, y, qid = rows()
    for given in ({"kernel": "rbf"}, {"solver": "cg"}, {"solver": "dual"}):
        with pytest.raises(ParameterError, match='monotone needs kernel="linear"'):
            RankRLS(1.0, monotone=PLACES, **given).fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match=r"X has no names: .* positions from 0 to 3"):
        RankRLS(1.0, monotone={"price": 1}).fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match="the position 4, but there are 4 features"):
        RankRLS(1.0, monotone={4: 1}).fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match="fit_blocks solves by conjugate gradients"):
        RankRLS(1.0, monotone=PLACES).fit_blocks([(X, y, qid)])
    wide = sp.random_array((20, 6000), density=0.01, format="csr", random_state=0)
    with pytest.raises(DataError, match="monotone takes at most 5,000 features"):
        RankRLS(monotone={0: 1}).fit(wide, y[:20], qid=qid[:20] % 4)
    with pytest.raises(DataError, match="Pairs of rows of a ranker with monotone features"):
        leave_pair_out(RankRLS(1.0, monotone=PLACES), X, y, qid=qid)
    with pytest.raises(DataError, match="Pairs of rows of a ranker with monotone features"):
        auc_interval(RankRLS(1.0, monotone=PLACES, ties="exclude"), X[:30], y[:30] > 0)


def test_constraints_of_numpy_types_are_saved(tmp_path):
    X, y, qid = rows()
    given = {np.int64(0): np.int64(-1), 1: np.sign(2)}
    save_model(RankRLS(1.0, monotone=given).fit(X, y, qid=qid), tmp_path / "a.rankwise")
    assert load_model(tmp_path / "a.rankwise").monotone == {0: -1, 1: 1}
    save_model(
        RankRLS(1.0, monotone={np.str_("price"): -1}).fit(frame(X), y, qid=qid),
        tmp_path / "b.rankwise",
    )
    assert load_model(tmp_path / "b.rankwise").monotone == {"price": -1}


def test_constraints_as_text():
    rule = RankRLS.parameters["monotone"]
    assert parse_parameter("monotone", "price:-1, stars:+1", rule) == {"price": -1, "stars": 1}
    assert parse_parameter("monotone", "0:1,3:-1", rule) == {0: 1, 3: -1}
    assert parse_parameter("monotone", "none", rule) is None
    with pytest.raises(ParameterError, match="dictionary"):
        parse_parameter("monotone", "price", rule)
    assert Monotone().read("a:b") is None


def test_auto_ranker_leaves_out_what_cannot_be_monotone():
    X, y, qid = rows(12, 6)
    candidates = [RankRLS(monotone={"age": 1}), RankRLS(kernel="rbf")]
    ranker = AutoRanker(candidates=candidates, boosted=False, monotone={"price": -1, "stars": 1})
    ranker.fit(frame(X), y, qid=qid)
    (part,) = {type(part.ranker): part.ranker for part in ranker.parts_}.values()
    assert (np.array([-1, 1, 1, 0]) * part.coef_ >= 0).all()  # the constraint of its own, too
    (left_out,) = ranker.results_.left_out
    assert left_out.startswith("RankRLS(kernel='rbf'), which cannot keep monotone features")
    with pytest.raises(ParameterError, match="None of the candidates takes monotone"):
        AutoRanker(candidates="kernel", boosted=False, monotone={"price": 1}).fit(
            frame(X), y, qid=qid
        )


def test_trees_on_features_and_standardized_copies_keep_rules_for_both():
    pytest.importorskip("lightgbm")
    X, y, qid = rows(6, 6)
    n = X.shape[1]
    candidate = Candidate("trees", BoostedRanker(2), WithQueryStandard())
    auto = AutoRanker(candidates=[RankRLS(1.0)], boosted=False, monotone=PLACES).fit(X, y, qid=qid)
    (kept,), _ = auto._monotone([candidate], n)
    assert kept.ranker.monotone == dict(enumerate([*SIGNS, *SIGNS]))
    fold = _in_places(X, ["new", *"abc"], [*"abcd"])  # "d" is not in this fold
    Z = _copies_in_places(candidate.rows(fold, qid), n)
    assert_allclose(Z[:, :n], fold[:, :n])
    assert_allclose(Z[:, n : 2 * n], QueryStandardScaler().fit_transform(fold, qid=qid)[:, :n])
    assert_allclose(Z[:, 2 * n], X[:, 0])


def test_auto_ranker_with_monotone_curves_predicts(tmp_path):
    X, y, qid = rows(12, 6)
    one = np.zeros(1000, dtype=int)
    for given in (qid, None):
        ranker = AutoRanker(candidates=[AdditiveRankRLS()], boosted=False, monotone=PLACES)
        ranker.fit(X, y, qid=given)
        assert ranker.parts_[0].ranker.coef_.shape == ranker.parts_[0].ranker.basis_.feature.shape
        save_model(ranker, tmp_path / f"{given is None}.rankwise")
        for model in (ranker, load_model(tmp_path / f"{given is None}.rankwise")):
            for j, sign in enumerate(SIGNS):
                grid = np.zeros((1000, 4))
                grid[:, j] = np.linspace(-5, 5, 1000)
                scores = model.predict(grid, qid=None if given is None else one)
                assert (sign * np.diff(scores) >= -1e-13).all() or sign == 0


def test_names_behind_an_encoder():
    X, y, qid = rows()
    hotels = frame(X).assign(city=np.where(y > 0, "Rome", "Oslo"))
    pipeline = make_pipeline(TableEncoder(), RankRLS(1.0, monotone={"stars": 1, "price": -1}))
    with pytest.raises(ParameterError, match=r"pipeline\.set_output\(transform=\"pandas\"\)"):
        pipeline.fit(hotels, y, rankrls__qid=qid)
    fitted = pipeline.set_output(transform="pandas").fit(hotels, y, rankrls__qid=qid)[-1]
    signs = dict(zip(fitted.feature_names_in_, np.sign(fitted.coef_), strict=True))
    assert signs["price"] <= 0 <= signs["stars"]


@pytest.mark.parametrize("ranker", [RankRLS(), AdditiveRankRLS(), ONE_CANDIDATE])
def test_rules_that_are_all_against_the_data(ranker):
    X, y, qid = rows(12, 6)
    y = -X[:, 0] + X[:, 1]
    ranker = clone(ranker).set_params(monotone={0: 1, 1: -1}).fit(X[:, :2], y, qid=qid)
    assert np.isfinite(ranker.predict(X[:, :2], qid=qid)).all()
    if not isinstance(ranker, AutoRanker):
        assert not ranker.coef_.any()
