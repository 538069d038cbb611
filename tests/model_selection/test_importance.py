"""Importance of features by permutations within queries, and learning curves over queries."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import RankRLS
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.metrics import disagreement_error, ndcg
from rankwise.model_selection import permutation_importance, query_learning_curve

DATA = make_ranking(n_queries=12, rows_per_query=6, n_features=3, n_levels=3, random_state=0)


class Weighted(BaseEstimator):
    """Scores that are a fixed sum of the features."""

    def __init__(self, weights=(1.0, 0.0, 2.0)):
        self.weights = weights

    def fit(self, X, y):
        return self

    def predict(self, X):
        rows = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
        return rows @ np.array(self.weights)


def importance(X, y=DATA.y, qid=DATA.qid, **options):
    return permutation_importance(Weighted(), X, y, qid=qid, random_state=0, **options)


def test_a_feature_that_is_not_used_has_no_importance():
    found = importance(DATA.X)
    assert found.importance[1] == 0.0
    assert found.standard_error[1] == 0.0
    assert_allclose(found.score, disagreement_error(DATA.y, Weighted().predict(DATA.X), DATA.qid))


def test_features_of_sparse_rows_without_values_cost_nothing(monkeypatch):
    X = np.hstack([DATA.X, np.zeros((72, 50))])
    calls = []

    class Counting(Weighted):
        def predict(self, X):
            calls.append(len(calls))
            return super().predict(X[:, :3])

    found = permutation_importance(
        Counting(), sparse.csr_array(X), DATA.y, qid=DATA.qid, random_state=0, n_repeats=2
    )
    assert len(calls) == 1 + 2 * 3
    assert_allclose(found.importance, [*importance(DATA.X, n_repeats=2).importance, *[0.0] * 50])
    assert (found.standard_error[3:] == 0).all()
    monkeypatch.setattr("rankwise.model_selection.permutations.MANY", 2)
    with pytest.warns(RankwiseWarning, match="72 rows 5 times for each of 3 features"):
        importance(DATA.X)


def test_a_feature_that_is_constant_within_queries_has_no_importance():
    X = DATA.X.copy()
    X[:, 2] = 100.0 * DATA.qid
    assert importance(X).importance[2] == 0.0


def test_importance_is_the_mean_loss_over_queries():
    # Two rows per query and one feature: a permutation swaps the rows or does nothing.
    X, y, qid = np.arange(40.0)[:, None], np.tile([0, 1], 20), np.repeat(np.arange(20), 2)
    found = permutation_importance(
        Weighted((1.0,)), X, y, qid=qid, n_repeats=400, random_state=0, metric="auc"
    )
    assert found.greater_is_better
    assert_allclose(found.importance, 0.5, atol=0.03)  # 8000 swaps, standard error 0.006
    assert found.standard_error[0] > 0


@pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csc_matrix, pd.DataFrame, list])
def test_importance_of_other_containers(convert):
    found = importance(convert(DATA.X))
    assert_allclose(found.importance, importance(DATA.X).importance)
    assert importance(DATA.X, n_repeats=1).names == ["x0", "x1", "x2"]


def test_names_come_from_the_frame():
    frame = pd.DataFrame(DATA.X, columns=["a", "b", "c"]).astype({"a": np.float32})
    found = importance(frame, metric="ndcg@3")
    assert found.names == ["a", "b", "c"]
    assert list(found.to_frame().index) == ["a", "b", "c"]
    best = int(np.argmax(found.importance))
    assert str(found).splitlines()[2].startswith("abc"[best])
    words = f"3 features, most important {'abc'[best]} ({found.importance[best]:.4f})"
    assert repr(found) == f"<PermutationImportance: {words}>"
    ranker = make_pipeline(StandardScaler(), RankRLS()).fit(frame, DATA.y)
    assert permutation_importance(ranker, frame, DATA.y, qid=DATA.qid).names == ["a", "b", "c"]


def test_one_ranking_has_no_standard_error():
    assert np.isnan(importance(DATA.X, qid=None).standard_error).all()


def test_invalid_arguments_of_importance():
    with pytest.raises(ParameterError, match="n_repeats must be"):
        importance(DATA.X, n_repeats=0)
    with pytest.raises(DataError, match="one label per row"):
        importance(DATA.X, y=np.column_stack((DATA.y, DATA.y)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        importance(DATA.X, y=DATA.y[1:])
    with pytest.raises(ParameterError, match="metric must be"):
        importance(DATA.X, metric="best")


def test_a_learning_curve_is_that_of_refits():
    curve = query_learning_curve(
        RankRLS(1.0), DATA.X, DATA.y, qid=DATA.qid, sizes=[2, 8], n_splits=3, metric="ndcg",
        random_state=5,
    )  # fmt: skip
    order = np.random.default_rng(5).permutation(12)
    want = np.empty((2, len(DATA.y)))
    for fold in range(3):
        test = np.isin(DATA.qid, order[fold::3])
        others = [q for k, q in enumerate(order) if k % 3 != fold]
        for k, n in enumerate([2, 8]):
            train = np.isin(DATA.qid, others[:n])
            ranker = RankRLS(1.0).fit(DATA.X[train], DATA.y[train], qid=DATA.qid[train])
            want[k, test] = ranker.predict(DATA.X[test])
    values = [ndcg(DATA.y, row, DATA.qid, per_query=True).values for row in want]
    assert_allclose(curve.score, np.mean(values, axis=1))
    assert_allclose(curve.standard_error, np.std(values, axis=1, ddof=1) / np.sqrt(12))
    assert curve.greater_is_better
    assert repr(curve).startswith("<QueryLearningCurve: NDCG 0.")
    assert list(curve.to_frame().columns) == ["ndcg", "standard_error"]
    assert curve._repr_html_().count("<tr>") == 3


def test_sizes_of_a_learning_curve_by_default():
    curve = query_learning_curve(
        Weighted(), pd.DataFrame(DATA.X), DATA.y, qid=[f"q{k}" for k in DATA.qid], n_splits=2
    )
    assert curve.n_training_queries.tolist() == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"qid": None}, DataError, "learning_curve needs qid"),
        ({"qid": np.zeros(72)}, DataError, "at least four queries: got 1"),
        ({"sizes": [0]}, ParameterError, "from 1 to 9"),
        ({"sizes": [10]}, ParameterError, "from 1 to 9"),
        ({"sizes": [0.5]}, ParameterError, "must be an integer"),
        ({"n_splits": 7}, ParameterError, "n_splits must be"),
        ({"metric": "best"}, ParameterError, "metric must be"),
    ],
)
def test_invalid_arguments_of_a_learning_curve(options, error, words):
    with pytest.raises(error, match=words):
        query_learning_curve(RankRLS(), DATA.X, DATA.y, **{"qid": DATA.qid, **options})
