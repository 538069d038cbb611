"""
From raw data to the best ranker
================================

The features of this example have very different scales, the labels are grades, and the true score
is neither linear nor a sum of functions of single features. The example fits a ranker out of the
box and an ``AutoRanker``. It compares the estimate for new queries with the score on queries that
were never used. With ``--quick``, there are fewer queries.
"""

import sys

import numpy as np

from rankwise import AutoRanker, RankRLS
from rankwise.metrics import ndcg
from rankwise.plots import COLORS, INK, new_axes

rng = np.random.default_rng(0)
n_queries = 40 if "--quick" in sys.argv else 120
qid = np.repeat(np.arange(n_queries + 300), 20)
Z = rng.standard_normal((len(qid), 8))
quality = Z[:, 0] * Z[:, 1] + np.abs(Z[:, 2]) - Z[:, 3] + 0.5 * Z[:, 4]
y = np.digitize(quality + 1.5 * rng.standard_normal(len(qid)), [1.0, 2.5, 4.0])
X = np.exp(Z) * 10.0 ** rng.uniform(-3, 6, 8)
train = qid < n_queries

# %%
# All candidates
# --------------
# Each ranker is evaluated by exact hold-outs of whole queries, at many alphas.

auto = AutoRanker(random_state=0).fit(X[train], y[train], qid=qid[train])
print(auto.results_)

# %%
# The parts of the mean
# ---------------------

print(auto.explain())
print(auto.gain_over_best_.words("The mean", "the best single ranker", auto.metric_))

# %%
# What to expect, and what comes
# ------------------------------

new = ~train
linear = RankRLS().fit(X[train], y[train], qid=qid[train])
found = ndcg(y[new], auto.predict(X[new], qid=qid[new]), qid[new], k=10)
plain = ndcg(y[new], linear.predict(X[new], qid=qid[new]), qid[new], k=10)
print(f"expected:       {auto.score_estimate_}")
print(f"on new queries: {found:.4f}; RankRLS alone has {plain:.4f}")

# %%
# Held-out scores
# ---------------
# The plot shows single rankers at their best alpha, with the standard errors of their differences
# from the best one. The dashed line is the estimate for the mean of the best, in which every query
# is scored by a choice that the other queries made.

results = auto.results_
best = results.best_trials
(ax,) = new_axes(size=(6.4, 4.2))
places = np.arange(len(best))[::-1]
trials = list(best.values())
ax.barh(
    places, results.scores[trials], xerr=results.standard_errors[trials], color=COLORS[0], alpha=0.6
)
ax.axvline(auto.score_estimate_.score, color=INK, linestyle="--")
ax.set_yticks(places, list(best))
ax.set_xlim(results.scores[trials].min() - 0.05, None)
ax.set_xlabel(f"held-out {auto.metric_}")
ax
