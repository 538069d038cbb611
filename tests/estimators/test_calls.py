"""Calls as people write them who know scikit-learn, LightGBM and XGBoost."""

import inspect
import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import (
    AdditiveRankRLS,
    AutoRanker,
    KPCRank,
    MeanRanker,
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    TransductiveRankRLS,
)
from rankwise.data import make_ranking
from rankwise.errors import RankwiseWarning
from rankwise.model_selection import (
    cross_validate,
    leave_query_out,
    permutation_importance,
    query_learning_curve,
)
from rankwise.rankers import RANKERS, ranker_class
from tests.versions import scorers_of_rankers

DATA = make_ranking(16, rows_per_query=16, n_features=3, n_levels=4, noise=0.5, random_state=0)
X, Y, QID = DATA.X, DATA.y, DATA.qid
# Arguments of classes that have no defaults for all of theirs.
ARGUMENTS = {"mean": ([RankRLS(1.0)],), "ranking-search": (RankRLS(), {"alpha": [1.0]})}


# The others fit triplets or battles, not rows of queries.
OF_ROWS = set(RANKERS) - {"sparse-bilinear", "leaderboard", "two-sided-rankrls"}


@pytest.mark.parametrize("name", sorted(OF_ROWS))
@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((), {"group": [16] * 16}, r"'group'. Use qid=.*qid_from_groups\(group\)"),
        ((), {"query_id": QID}, "'query_id'. Use qid=, one id per row"),
        ((QID,), {}, "too many positional arguments. Use qid=, one id per row"),
        ((), {"epochs": 3}, "'epochs'. Its parameters are X, y, qid"),
    ],
)
def test_other_forms_of_queries(name, arguments, named, message):
    ranker = ranker_class(name)(*ARGUMENTS.get(name, ()))
    with pytest.raises(TypeError, match=f"^{type(ranker).__name__}.fit: .*{message}"):
        ranker.fit(X, Y, *arguments, **named)


WEIGHTED = {"rankrls", "rls", "sparse-rankrls", "sparse-rls", "ranksvm"}


@pytest.mark.parametrize("name", sorted(OF_ROWS - WEIGHTED))
def test_weights_of_rows_where_there_are_none(name):
    ranker = ranker_class(name)(*ARGUMENTS.get(name, ()))
    expected = "'sample_weight'. Some rankers, such as RankRLS"
    with pytest.raises(TypeError, match=expected):
        ranker.fit(X, Y, sample_weight=np.ones(len(Y)))


def test_signatures_are_those_of_the_methods():
    assert list(inspect.signature(KPCRank().fit).parameters) == ["X", "y", "qid", "query_weight"]
    with pytest.raises(TypeError, match=r"RankRLS.fit: missing a required argument: 'y'"):
        RankRLS().fit(X)
    with pytest.raises(TypeError, match=r"SparseRankRLS.partial_fit: .* 'group'. Use qid="):
        SparseRankRLS().partial_fit(X, Y, group=[3])


def test_warnings_point_at_the_call():
    with pytest.warns(RankwiseWarning, match="standard deviations of features differ") as caught:
        RankRLS(1.0).fit(X * [1.0, 1e6, 1.0], Y, qid=QID)
    assert caught[0].filename == __file__


class TestQueriesThatGetLost:
    def test_grades_without_groups(self):
        with pytest.warns(RankwiseWarning, match="y has grades: all rows are compared"):
            cross_val_score(RankRLS(1.0), X, Y, cv=2)
        inner = RankingSearchCV(RankRLS(), {"alpha": [1.0]}, cv=2)
        with pytest.warns(RankwiseWarning, match="RankingSearchCV was fitted to one ranking"):
            cross_val_score(inner, X, Y, cv=2)

    def test_a_pipeline_without_routing(self):
        pipeline = make_pipeline(StandardScaler(), RankRLS(1.0)).fit(X, Y, rankrls__qid=QID)
        with pytest.warns(RankwiseWarning, match="fitted on 16 queries, but no qid reached score"):
            pipeline.score(X, Y, qid=QID)

    @pytest.mark.parametrize("labels", [DATA.score, Y > 1, Y / 2], ids=["real", "0/1", "half"])
    def test_one_ranking_gives_no_warning(self, labels):
        assert np.isfinite(cross_val_score(RankRLS(1.0), X, labels, cv=2)).all()

    def test_queries_give_no_warning(self):
        of_queries = RankRLS(1.0).fit(X, Y, qid=QID).score(X, Y, qid=QID)
        of_all = RankRLS(1.0).fit(X, Y).score(X, Y, qid=np.zeros(len(Y)))
        assert of_queries != of_all
        with sklearn.config_context(enable_metadata_routing=True):
            params = {"qid": QID, "groups": QID}
            held_out = cross_val_score(RankRLS(1.0), X, Y, params=params, cv=GroupKFold(2))
        assert (held_out > 0.5).all()


@pytest.mark.parametrize(
    "ranker",
    [
        RankRLS(1.0),
        RankSVM(),
        KPCRank(2),
        PairwiseGP(optimizer=None, max_pairs=50, random_state=0),
        MeanRanker([RankRLS(1.0)]),
        RankingSearchCV(RankRLS(), {"alpha": [1.0]}, cv=2),
        make_pipeline(StandardScaler(), RankRLS(1.0)),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
@scorers_of_rankers
def test_scorers_of_two_classes(ranker):
    labels = (Y > 1).astype(int)
    (found,) = cross_val_score(
        ranker, X, labels, scoring="roc_auc", cv=[(np.arange(128), np.arange(128, 256))]
    )
    scores = ranker.fit(X[:128], labels[:128]).predict(X[128:])
    assert found == pytest.approx(roc_auc_score(labels[128:], scores))
    assert not is_classifier(ranker)
    assert not is_regressor(ranker)


@pytest.mark.parametrize(
    "ranker", [RankRLS(2.0), RankingSearchCV(RankRLS(), {"alpha": [1.0, 2.0]})]
)
def test_a_pickle_of_a_version_with_fewer_parameters(ranker):
    ranker.fit(X, Y, qid=QID)
    last = list(inspect.signature(type(ranker)).parameters)[-1]
    old = pickle.loads(pickle.dumps(ranker))
    state = {name: value for name, value in ranker.__getstate__().items() if name != last}
    old.__dict__.clear()
    old.__setstate__(state)
    assert repr(old) == repr(ranker)
    assert_allclose(old.predict(X), ranker.predict(X))


@pytest.mark.parametrize("ranker", [RankRLS(1.0), RankSVM(), PairwiseGP(optimizer=None)])
def test_all_rankers_predict_with_queries(ranker):
    rows = QID < 4
    ranker.fit(X[rows], Y[rows], qid=QID[rows])
    assert_allclose(ranker.predict(X, qid=QID), ranker.predict(X))
    with pytest.raises(ValueError, match="qid needs one entry per row of X: got 3"):
        ranker.predict(X, qid=QID[:3])
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), ranker)
        pipeline.fit(X[rows], Y[rows], qid=QID[rows])
        assert_allclose(pipeline.predict(X, qid=QID), pipeline.predict(X))


@pytest.mark.parametrize(
    "call",
    [permutation_importance, query_learning_curve, leave_query_out, AutoRanker],
)
def test_functions_that_call_it_metric(call):
    with pytest.raises(TypeError, match=f"^{call.__name__}: .*. Use metric=, as in"):
        call(*(() if call is AutoRanker else (RankRLS(), X, Y)), scoring="map")


@pytest.mark.parametrize("call", [cross_validate, RankingSearchCV])
def test_functions_that_call_it_scoring(call):
    with pytest.raises(TypeError, match=f"^{call.__name__}: .*. Use scoring=, as in"):
        call(RankRLS(), X, Y, metric="map")


def test_functions_name_what_is_missing():
    with pytest.raises(TypeError, match=r"^leave_query_out: missing .*'qid'"):
        leave_query_out(RankRLS(), X, Y)


@pytest.mark.parametrize(
    "ranker", [RankRLS(1.0), RankSVM(), AutoRanker(candidates=[RankRLS(1.0)], boosted=False)]
)
def test_labels_that_are_text(ranker):
    rows = slice(0, 64)
    words = np.where(Y[rows] > 1, "good", "1")
    with pytest.raises(
        ValueError, match=r"^y must have numbers, higher is better: got 'good' in row"
    ):
        ranker.fit(X[rows], words, qid=QID[rows])
    want = ranker.fit(X[rows], Y[rows], qid=QID[rows]).predict(X[rows], qid=QID[rows])
    digits = Y[rows].astype(int).astype(str)
    for labels in (digits, digits.tolist(), digits.astype(object)):
        found = ranker.fit(X[rows], labels, qid=QID[rows]).predict(X[rows], qid=QID[rows])
        assert_allclose(found, want)


CONSTANT = [
    RankRLS(1.0),
    SparseRankRLS(1.0, n_landmarks=5, random_state=0),
    AdditiveRankRLS(1.0),
    TransductiveRankRLS(1.0),
    RankSVM(),
    PairwiseGP(optimizer=None),
]


@pytest.mark.parametrize("ranker", CONSTANT)
def test_constant_features(ranker):
    rows = slice(0, 32)
    with pytest.warns(RankwiseWarning, match="all features are constant") as found:
        ranker.fit(np.ones((32, 3)), Y[rows], qid=QID[rows])
    assert [type(ranker).__name__ in str(w.message) for w in found] == [True]


@pytest.mark.parametrize("scale", [1e-150, 1e-160, 1e-300])
@pytest.mark.parametrize("ranker", [RankRLS(), RankRLS(1.0), RankSVM(), PairwiseGP()])
def test_features_whose_products_underflow(ranker, scale):
    with pytest.raises(ValueError, match=r"underflow.*Multiply the features by a constant"):
        ranker.fit(X * scale, Y, qid=QID)


def test_a_single_row_of_a_query():
    ranker = RankRLS(1.0, scale="query-minmax").fit(X, Y, qid=QID)
    with pytest.warns(RankwiseWarning, match="RankRLS scales .*: predict got one row"):
        ranker.predict(X[:1])
    with pytest.warns(RankwiseWarning, match="3 rows, each the only one of its query"):
        ranker.predict(X[:3], qid=[1, 2, 3])
    ranker.predict(X[:3], qid=[1, 2, 2])  # no warning
    RankRLS(1.0, scale="standard").fit(X, Y, qid=QID).predict(X[:1])  # nor here
