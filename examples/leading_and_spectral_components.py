"""
Leading and spectral components
===============================

``KPCRank`` projects on the p kernel components of largest variance, as in Theorem 1 of the paper.
Section 4.2 of the paper proposes to decompose M = F'LF and to keep the p largest eigenvalues
instead: ``ComponentOptions(selection="spectral")``. The two methods differ. L compares only rows of
the same query, so eigenvectors of M are directions of large variance *within* queries. The leading
components also represent differences *between* queries.

In this example, some features differ between the rows of a query. Others are the same for all rows
of a query, and so irrelevant to their order. If these features of queries vary most, the leading
components mostly represent them, and the spectral directions do not. If they vary little, the two
methods are similar.

With ``--quick``, there are fewer queries.
"""

import sys

import numpy as np

from rankwise import ComponentOptions, KPCRank
from rankwise.metrics import disagreement_error
from rankwise.plots import new_axes, plot_alpha_path

rng = np.random.default_rng(0)
n_queries = 30 if "--quick" in sys.argv else 60


def make(n_queries, spread):
    """Queries of ten rows; `spread` is how much the features of queries vary."""
    qid = np.repeat(np.arange(n_queries), 10)
    of_rows = rng.standard_normal((len(qid), 3))
    of_queries = spread * rng.standard_normal((n_queries, 3))
    y = of_rows[:, 0] + 0.5 * of_rows[:, 1] + rng.standard_normal(len(qid))
    return np.hstack((of_rows, of_queries[qid])), y, qid


# %%
# The same p, different predictions
# ---------------------------------
# Without queries, M is a multiple of the diagonal matrix of eigenvalues, and the two methods are
# the same. With queries, they differ, especially if the features of queries vary much.

axes = new_axes(2, size=(5.6, 3.6))
for ax, spread in zip(axes, (0.5, 3.0), strict=True):
    X, y, qid = make(n_queries, spread)
    new, truth, new_qid = make(200, spread)
    curves = {}
    print(f"queries vary by {spread:g}:  p   leading  spectral   (error on new queries)")
    for selection in ("leading", "spectral"):
        ranker = KPCRank(40, gamma=0.02, options=ComponentOptions(selection=selection)).fit(
            X, y, qid=qid
        )
        path = ranker.predict_path(new)
        curves[selection] = [disagreement_error(truth, f, new_qid) for f in path.T]
    for p in (1, 2, 5, 10, 20, 40):
        print(f"{p:>21}   {curves['leading'][p - 1]:.3f}    {curves['spectral'][p - 1]:.3f}")
    plot_alpha_path(np.arange(1, 41), curves, mark=False, ylabel="disagreement error", ax=ax)
    ax.set_xscale("linear")
    ax.set_xlabel("number of components p")
    ax.set_title(f"features of queries vary by {spread:g}", pad=24)

axes[0]

# %%
# One ranking
# -----------
# Without queries, all rows are compared with each other, and the two methods agree.

one = [
    KPCRank(5, gamma=0.02, options=ComponentOptions(selection=s)).fit(X, y).predict(X)
    for s in ("leading", "spectral")
]
print(f"one ranking of all rows: they differ by {np.abs(one[0] - one[1]).max():.0e}")
