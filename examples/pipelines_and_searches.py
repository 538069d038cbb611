"""
Pipelines, searches and scikit-learn
====================================

Rankers are scikit-learn estimators. This example puts a ranker behind a scaler, and searches over
its parameters in two ways: with exact hold-outs, and with scikit-learn's own search. Then it tests
whether more labelled queries would help.
"""

# %%
# The data
# --------
# The features are skewed. Their logarithms would be normal.

import time

import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

from rankwise import QueryMinMaxScaler, QueryRanks, RankingSearchCV, RankRLS
from rankwise.data import make_ranking
from rankwise.metrics import make_ranking_scorer
from rankwise.model_selection import cross_validate, query_learning_curve
from rankwise.plots import plot_training_sizes

data = make_ranking(120, rows_per_query=12, n_features=8, n_levels=4, noise=0.7, random_state=0)
X, y, qid = np.exp(data.X / 2), data.y, data.qid

# %%
# Two pipelines
# -------------
# ``cross_validate`` holds out whole queries, and passes ``qid`` to every step that needs it.

pipelines = {
    "minmax": make_pipeline(QueryMinMaxScaler(), RankRLS()),
    "ranks": make_pipeline(QueryRanks(), RankRLS()),
}
found = {
    name: cross_validate(pipeline, X, y, qid=qid, scoring=["ndcg@10", "map"], cv=5)
    for name, pipeline in pipelines.items()
}
for name, result in found.items():
    print(name, result, "", sep="\n")
print(found["ranks"].compare(found["minmax"])["ndcg@10"])

# %%
# A search without refits
# -----------------------
# ``RankingSearchCV`` holds out every query exactly, without fitting again. The picture shows the
# differences of the candidates from the best, on the same queries. A candidate whose interval
# reaches 0 may be as good.

grid = {
    "alpha": [0.1, 1.0, 10.0, 100.0, 1000.0],
    "scale": ["query-minmax", "query-ranks", "standard"],
    "ties": ["include", "exclude"],
}
begin = time.perf_counter()
search = RankingSearchCV(RankRLS(), grid, scoring="ndcg@10").fit(X, y, qid=qid)
exact = time.perf_counter() - begin
print(search.best_params_, f"NDCG@10 {search.best_score_:.3f}")
ax = search.plot()
ax

# %%
# scikit-learn's search
# ---------------------
# With metadata routing, ``GridSearchCV`` passes ``qid`` on. ``groups`` is for the splitter. It
# refits for each of five folds.

with sklearn.config_context(enable_metadata_routing=True):
    theirs = GridSearchCV(RankRLS(), grid, scoring=make_ranking_scorer("ndcg@10"), cv=GroupKFold(5))
    begin = time.perf_counter()
    theirs.fit(X, y, qid=qid, groups=qid)
    refits = time.perf_counter() - begin
print(theirs.best_params_, f"NDCG@10 {theirs.best_score_:.3f}")
print(
    f"30 candidates: {len(np.unique(qid))} exact hold-outs {exact:.1f} s, 5 refits {refits:.1f} s"
)

# %%
# Would more queries help?
# ------------------------

curves = {
    name: query_learning_curve(
        RankRLS(scale=scale), X, y, qid=qid, sizes=[5, 10, 20, 40, 80], random_state=0
    )
    for name, scale in (("ranks in queries", "query-ranks"), ("standardized", "standard"))
}
ax = plot_training_sizes(curves)
ax
