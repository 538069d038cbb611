"""
Rules that a ranking must keep, and trees for a search engine
=============================================================

A product manager states two rules: a higher price never moves a hotel up, more stars never move it
down. ``monotone`` keeps them, and the trees that keep them go to a search engine.
"""

# %%
# Few data, and what is known
# ---------------------------
# There are 40 searches to learn from and 200 to compare on. Liking falls with the price and rises
# with the stars, and both have steps.

import json

import numpy as np
import pandas as pd

from rankwise import AdditiveRankRLS, BoostedRanker, RankRLS
from rankwise.export import distil, to_elasticsearch
from rankwise.metrics import ndcg
from rankwise.plots import COLORS, new_axes

rng = np.random.default_rng(3)


def hotels_of(n_searches):
    n = 8 * n_searches
    X = pd.DataFrame(
        {
            "price": rng.lognormal(4.5, 0.5, n).round(),
            "stars": rng.integers(1, 6, n),
            "reviews": rng.lognormal(4.0, 1.2, n).round(),
        }
    )
    liked = 0.4 * X["stars"] - 1.5 * np.log(X["price"]) + 0.5 * (X["price"] < 70)
    y = np.digitize(liked + rng.normal(size=n), [-6.5, -5.5, -4.5])
    return X, y, np.repeat(np.arange(n_searches), 8)


X, y, search = hotels_of(40)
X_new, y_new, search_new = hotels_of(200)

# %%
# Rules that are true, and rules that are not
# -------------------------------------------
# A true rule costs nothing, and helps rankers that follow the noise, such as trees. A wrong rule
# costs much: the ranker can only ignore the feature.

TRUE, WRONG = {"price": -1, "stars": 1}, {"price": 1, "stars": -1}
rankers = {
    "linear": RankRLS(scale="standard"),
    "additive": AdditiveRankRLS(scale=None),
    "trees": BoostedRanker(60, random_state=0),
}
scores = pd.DataFrame(index=rankers, columns=["no rules", "true rules", "wrong rules"], dtype=float)
for name, ranker in rankers.items():
    for rules, column in zip((None, TRUE, WRONG), scores.columns, strict=True):
        ranker.set_params(monotone=rules).fit(X, y, qid=search)
        scores.loc[name, column] = ndcg(y_new, ranker.predict(X_new), search_new, k=5)
print(scores.round(3))

# %%
# The score along the price
# -------------------------
# Without rules, the trees prefer some higher prices to lower ones.

grid = pd.DataFrame({"price": np.linspace(20, 300, 400), "stars": 3, "reviews": 55.0})
(ax,) = new_axes(size=(5.6, 3.4))
trees = {}
for rules, label, color in ((None, "no rules", COLORS[1]), (TRUE, "true rules", COLORS[0])):
    trees[label] = BoostedRanker(60, monotone=rules, random_state=0).fit(X, y, qid=search)
    curve = trees[label].predict(grid)
    print(label, "rises in", int((np.diff(curve) > 1e-12).sum()), "places")
    ax.plot(grid["price"], curve, label=label, color=color)
ax.set(xlabel="price", ylabel="score")
ax.legend()
ax

# %%
# Into a search engine
# --------------------
# The trees are written as the LTR plugins of Elasticsearch and OpenSearch read them. The check
# counts the pairs of hotels of a search that change places; an export that fails is not written.

export = to_elasticsearch(trees["true rules"], name="hotels", rows=X_new, qid=search_new)
print(export.check)
print(json.loads(export.content)["model"]["model"]["type"])

# %%
# The engine takes no additive ranker, so trees are fitted to its scores. What that costs is
# measured on searches that these trees have not seen.

additive = AdditiveRankRLS(scale=None, monotone=TRUE).fit(X, y, qid=search)
print(distil(additive, X_new, y_new, qid=search_new, into="trees"))
