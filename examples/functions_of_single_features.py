"""
Functions of single features
============================

Not every feature is "the more, the better". A flat should be neither too small nor too large, and
beyond some point a lower price makes people suspicious. ``AdditiveRankRLS`` learns a function of
each feature, which can be drawn, and ranks by their sum. Its hold-outs are exact, as for the linear
ranker.
"""

# %%
# The data
# --------
# The rows are flats of 150 searches, with grades from 0 to 4.

import numpy as np

from rankwise import AdditiveRankRLS, RankRLS
from rankwise.model_selection import compare_rankers
from rankwise.plots import COLORS, INK, new_axes

rng = np.random.default_rng(0)
n = 3000
qid = np.arange(n) // 20
size = rng.uniform(20, 160, n)
price = rng.gamma(4.0, 5.0, n)
distance = rng.exponential(3.0, n)
X = np.column_stack((size, price, distance))
truth = {
    "size": lambda v: -((v - 80) ** 2) / 1500,
    "price": lambda v: -0.08 * np.abs(v - 14),
    "distance": lambda v: -0.9 * np.log1p(v),
}
quality = sum(f(X[:, k]) for k, f in enumerate(truth.values()))
y = np.digitize(quality + 0.5 * rng.standard_normal(n), np.quantile(quality, [0.2, 0.4, 0.6, 0.8]))
train, test = qid < 100, qid >= 100

# %%
# Lines or curves?
# ----------------
# Both rankers are compared on the same new searches.

rankers = {
    "linear": RankRLS(scale="standard"),
    "curves": AdditiveRankRLS(n_ramps=6),
}
for ranker in rankers.values():
    ranker.fit(X[train], y[train], qid=qid[train])
comparison = compare_rankers(
    rankers, X[test], y[test], qid=qid[test], metrics=["ndcg@10", "disagreement"]
)
print(comparison)
ax = comparison.plot("ndcg@10")
ax

# %%
# The functions
# -------------
# Blue curves were learned. Grey curves are the truth, in units of grades, moved to the same mean.

axes = new_axes(3, size=(5.6, 2.3))
curves = rankers["curves"]
slope = np.polyfit(quality[train], y[train], 1)[0]
for k, (ax, (name, f)) in enumerate(zip(axes, truth.items(), strict=True)):
    knots, values = curves.curve(k)
    line = np.linspace(knots[0], np.quantile(X[:, k], 0.99), 200)
    learned = np.interp(line, knots, values)
    true = slope * f(line)
    ax.plot(line, true - true.mean(), color=INK, alpha=0.4, lw=4)
    ax.plot(line, learned - learned.mean(), color=COLORS[0], lw=1.8)
    ax.set(xlabel=name, ylabel="score")
ax
