"""
From training to production
===========================

A ranker that was trained in Python serves searches in another system. A classic mistake is to scale
features in one place and not in the other, and nobody notices. This example saves a model, exports
it to Elasticsearch, and checks that both rank the same.
"""

# %%
# Training
# --------
# The rows are films with a text match, votes and a year, on very different scales. The scaler is a
# part of the model.

import json
import tempfile
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import RankRLS, SparseRankRLS, load_model, save_model
from rankwise.data import make_ranking
from rankwise.errors import ExportError
from rankwise.export import distil, elasticsearch_scores, to_elasticsearch
from rankwise.metrics import ndcg
from rankwise.plots import COLORS, new_axes

names = ["title_match", "votes", "year"]
data = make_ranking(80, rows_per_query=12, n_features=3, n_levels=4, noise=0.5, random_state=0)
X = data.X * [1.0, 200.0, 15.0] + [5.0, 1000.0, 1990.0]
train, test = data.qid < 60, data.qid >= 60
model = make_pipeline(StandardScaler(), RankRLS())
model.fit(X[train], data.y[train], rankrls__qid=data.qid[train])
ours = model.predict(X[test])
print(f"NDCG@10 of new searches: {ndcg(data.y[test], ours, data.qid[test], k=10):.3f}")

# %%
# A model file
# ------------
# Model files hold names, numbers and arrays, and no pickle. Reading one does not run code from it.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "films.rankwise")
    save_model(model, path)
    again = load_model(path)
    print(f"{path.name}: {path.stat().st_size:,} bytes")
np.testing.assert_allclose(again.predict(X[test]), ours)

# %%
# Elasticsearch
# -------------
# The scaler and the weights become one weight for each feature as it is stored. The export scores
# rows by the rules of the engine and compares.

export = to_elasticsearch(model, features=names, name="films_v1", rows=X[test], qid=data.qid[test])
print(export.content)
print(export.check)

# %%
# The engine computes in 32 bits, has no constant, and does not allow scores below 0. Scores are
# shifted, but the order is the same.

columns = dict(zip(names, X[test].T, strict=True))
theirs = elasticsearch_scores(json.loads(export.content), columns)
(ax,) = new_axes(size=(5.6, 4.2))
ax.scatter(ours, theirs, s=12, color=COLORS[0], alpha=0.7)
ax.set(xlabel="score in Python", ylabel="score in Elasticsearch")
ax

# %%
# The classic mistake
# -------------------
# Here the weights of scaled features are applied to features as they are. The votes alone decide,
# and the order is wrong.

wrong = X[test] @ model[-1].coef_
(ax,) = new_axes(size=(5.6, 4.2))
ax.scatter(ours, wrong, s=12, color=COLORS[1], alpha=0.7)
ax.set(xlabel="score in Python", ylabel="weights times unscaled features")
ax

# %%
# What an engine cannot express
# -----------------------------
# A kernel is not linear, and the export is refused with the reason. ``distil`` fits a linear ranker
# to the scores of the model, and measures how much worse it ranks.

kernel = SparseRankRLS(n_landmarks=100, scale="standard", random_state=0)
kernel.fit(X[train], data.y[train], qid=data.qid[train])
try:
    to_elasticsearch(kernel, features=names)
except ExportError as error:
    print(f"refused: {error}\n")
print(distil(kernel, X[train], data.y[train], qid=data.qid[train]))
