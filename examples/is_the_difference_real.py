"""
Is the difference real?
=======================

One ranker reaches an NDCG@10 of 0.85, the other 0.83. Is the first one better, or was it luck? The
two means do not tell, because queries differ far more than rankers do. The differences on the same
queries are much more precise.
"""

# %%
# Three rankers
# -------------
# One regresses the labels row by row, one compares the rows of each query, and one compares them by
# their order only.

import numpy as np

from rankwise import RLS, RankRLS, RankSVM
from rankwise.data import make_ranking
from rankwise.metrics import ndcg
from rankwise.model_selection import compare_rankers
from rankwise.plots import COLORS, INK, new_axes, plot_query_differences

data = make_ranking(
    160,
    rows_per_query=15,
    n_features=8,
    n_levels=4,
    grading="global",
    noise=1.0,
    query_effect=0.6,
    random_state=3,
)
train, test = data.qid < 40, data.qid >= 40
rankers = {
    "RankRLS": RankRLS().fit(data.X[train], data.y[train], qid=data.qid[train]),
    "RankSVM": RankSVM().fit(data.X[train], data.y[train], qid=data.qid[train]),
    "RLS": RLS().fit(data.X[train], data.y[train], qid=data.qid[train]),
}

# %%
# Paired tests
# ------------
# The p-values come from permutations of the rankers within queries, adjusted for the number of
# comparisons.

comparison = compare_rankers(
    rankers, data.X[test], data.y[test], qid=data.qid[test], metrics=["ndcg@10"]
)
print(comparison)

# %%
# Differences from the best, with 95% intervals:

ax = comparison.plot("ndcg@10")
ax

# %%
# Query by query
# --------------

values = {
    name: ndcg(data.y[test], r.predict(data.X[test]), data.qid[test], k=10, per_query=True).values
    for name, r in rankers.items()
}
ax = plot_query_differences(values["RankRLS"] - values["RLS"], names=("RankRLS", "RLS"))
ax

# %%
# Why pairing helps
# -----------------
# Each dot is a query. What is hard for one ranker is hard for the other. The dots lie along the
# diagonal, and their distance from it is much smaller than their spread along it.

spread = [values[name].std(ddof=1) for name in ("RankRLS", "RLS")]
paired = (values["RankRLS"] - values["RLS"]).std(ddof=1)
n = len(values["RLS"])
print(f"standard error of a mean: {spread[0] / np.sqrt(n):.4f}")
unpaired = np.hypot(*spread)
print(f"standard error of a difference, other queries: {unpaired / np.sqrt(n):.4f}")
print(f"standard error of a difference, same queries: {paired / np.sqrt(n):.4f}")

(ax,) = new_axes(size=(4.6, 4.4))
ax.plot([0, 1], [0, 1], color=INK, lw=1, alpha=0.5)
ax.scatter(values["RLS"], values["RankRLS"], s=18, color=COLORS[0], alpha=0.7)
ax.set(xlabel="NDCG@10 of RLS", ylabel="NDCG@10 of RankRLS", aspect="equal")
low = min(values["RLS"].min(), values["RankRLS"].min()) - 0.03
ax.set(xlim=(low, 1.01), ylim=(low, 1.01))
ax
