"""Group sizes in the place of query ids, as PyTerrier's learned-model step gives them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import MeanRanker, PairwiseGP, RankingSearchCV, RankRLS
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import ndcg
from rankwise.model_selection import GroupedRanker


@pytest.fixture(scope="module")
def data():
    return make_ranking(12, rows_per_query=5, n_features=3, n_levels=3, noise=1.0, random_state=0)


def test_group_sizes_are_queries(data):
    ranker = RankRLS(1.0, scale="standard")
    grouped = clone(GroupedRanker(ranker)).fit(data.X, data.y, group=np.full(12, 5))
    wanted = clone(ranker).fit(data.X, data.y, qid=data.qid)
    assert_allclose(grouped.predict(data.X), wanted.predict(data.X))
    frame = pd.DataFrame(data.X, columns=list("abc"))
    grouped.fit(frame, data.y, group=[5] * 12)
    assert list(grouped.ranker_.feature_names_in_) == list("abc")


def test_pipelines_get_the_queries(data):
    ranker = RankRLS(1.0)
    grouped = GroupedRanker(make_pipeline(StandardScaler(), ranker))
    found = grouped.fit(data.X, data.y, group=[5] * 12).predict(data.X)
    Z = StandardScaler().fit_transform(data.X)
    assert_allclose(found, ranker.fit(Z, data.y, qid=data.qid).predict(Z))


def test_the_alpha_is_the_best_on_the_evaluation_rows(data):
    train, test = slice(0, 40), slice(40, 60)
    alphas = [0.01, 1.0, 100.0]
    grouped = GroupedRanker(RankRLS(scale=None), metric="ndcg@3", alphas=alphas).fit(
        data.X[train],
        data.y[train],
        group=[5] * 8,
        eval_set=[(data.X[test], data.y[test])],
        eval_group=[[5] * 4],
    )
    wanted = [
        ndcg(
            data.y[test],
            RankRLS(alpha, scale=None)
            .fit(data.X[train], data.y[train], qid=data.qid[train])
            .predict(data.X[test]),
            data.qid[test],
            k=3,
        )
        for alpha in alphas
    ]
    assert_allclose(grouped.evals_, wanted)
    assert grouped.ranker_.alpha_ == alphas[int(np.argmax(wanted))]


def test_what_does_not_fit_together_is_refused(data):
    X, y, whole = data.X, data.y, [5] * 12
    linear = RankRLS(1.0, scale=None)
    for ranker, options, error, words in (
        (linear, {}, DataError, "group is missing"),
        (linear, {"group": [5]}, DataError, "adds up to 5, but X has 60 rows"),
        (linear, {"group": whole, "eval_set": [(X, y)]}, ParameterError, "together"),
        (
            linear,
            {"group": whole, "eval_set": [(X, y)], "eval_group": [[5]]},
            DataError,
            "eval_group adds up to 5",
        ),
        (
            linear,
            {"group": whole, "eval_set": [], "eval_group": []},
            ParameterError,
            "with one entry each",
        ),
        (
            PairwiseGP(),
            {"group": whole, "eval_set": [(X, y)], "eval_group": [whole]},
            ParameterError,
            "PairwiseGP has no alpha to choose",
        ),
        (
            RankRLS(1.0, scale="query-minmax"),
            {"group": whole},
            ParameterError,
            'scale="standard"',
        ),
        (MeanRanker([linear, linear]), {"group": whole}, ParameterError, "within queries"),
        (
            RankingSearchCV(RankRLS(scale="query-minmax"), {"alpha": [1.0]}),
            {"group": whole},
            ParameterError,
            "within queries",
        ),
    ):
        with pytest.raises(error, match=words):
            GroupedRanker(ranker).fit(X, y, **options)
