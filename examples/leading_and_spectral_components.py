"""
Which components? Leading and spectral ones
===========================================

KPCRank projects on the p kernel components of largest variance: ``selection="leading"``, the
method of its paper's Theorem 1. Section 4.2 of the paper proposes to decompose M = F'LF and to
keep the p largest eigenvalues instead: ``selection="spectral"``. These are two methods. L compares
rows of the same query only, so eigenvectors of M are directions of large variance *within*
queries, while the leading components also see what differs *between* queries.

Here rows have features of their own and features of their query, which say nothing about the
order of its rows. Where the latter vary most, leading components spend themselves on them; the
spectral directions do not. Where they vary little, there is little between the two.

Run it: ``python examples/leading_and_spectral_components.py``; ``--quick`` takes fewer queries.
"""

import sys
from pathlib import Path

import numpy as np

from rankwise import KPCRank
from rankwise.metrics import disagreement_error
from rankwise.plots import new_axes, plot_alpha_path, save_figure

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
# The same p, other predictions
# -----------------------------
# Without queries, M is a multiple of the diagonal of eigenvalues, and the two are one method. With
# queries they differ, the more so the more the features of queries vary.

axes = new_axes(columns=2, size=(5.2, 3.9))
for ax, spread in zip(axes, (0.5, 3.0), strict=True):
    X, y, qid = make(n_queries, spread)
    new, truth, new_qid = make(200, spread)
    curves = {}
    print(f"queries vary by {spread:g}:  p   leading  spectral   (error on new queries)")
    for selection in ("leading", "spectral"):
        ranker = KPCRank(40, selection=selection, gamma=0.02).fit(X, y, qid=qid)
        path = ranker.predict_path(new)
        curves[selection] = [disagreement_error(truth, f, new_qid) for f in path.T]
    for p in (1, 2, 5, 10, 20, 40):
        print(f"{p:>21}   {curves['leading'][p - 1]:.3f}    {curves['spectral'][p - 1]:.3f}")
    plot_alpha_path(np.arange(1, 41), curves, mark=False, ylabel="disagreement error", ax=ax)
    ax.set_xscale("linear")
    ax.set_xlabel("number of components p")
    ax.set_title(f"features of queries vary by {spread:g}", pad=24)

one = [KPCRank(5, selection=s, gamma=0.02).fit(X, y).predict(X) for s in ("leading", "spectral")]
print(f"one ranking of all rows: they differ by {np.abs(one[0] - one[1]).max():.0e}")

output = Path(__file__).with_name("output")
output.mkdir(exist_ok=True)
name = "leading_and_spectral_components.png"
print("Wrote", save_figure(axes[0].figure, output / name))
