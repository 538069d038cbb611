"""
A reliable AUC from 60 samples
==============================

Three microarray studies classify tumours by thousands of genes, with 62, 72 and 77 samples. This is
too few for a separate test set. Leave-pair-out holds out every (positive, negative) pair in turn,
and a ranker that is trained on the other rows predicts which of the two is positive. The share of
correct predictions is an almost unbiased estimate of the area under the ROC curve (AUC). Refitting
would take one fit for each of a thousand pairs. The shortcut costs little more than one fit.

The data are in the folder ``microarray`` of ``RANKWISE_DATA``. Without it, the example uses every
ninth row of scikit-learn's breast cancer data. With ``--quick``, fewer pairs are refitted.
"""

import sys
import time

import numpy as np

from rankwise import RankRLS
from rankwise.data import list_datasets, load_dataset
from rankwise.model_selection import leave_pair_out, tournament_scores
from rankwise.plots import new_axes, plot_hold_out, plot_roc
from rankwise.report import Column, Table

# %%
# The data
# --------
# Features are standardized and divided by the square root of their number, so the linear kernel and
# the squared distance are means over features. Then gamma = 1 corresponds to 1 / n_features, and
# one grid of alphas is suitable for both kernels and all studies.

available = {info.name for info in list_datasets() if info.available}
names = [name for name in ("alon", "golub", "shipp") if name in available]
if not names:
    print("RANKWISE_DATA has no microarray data: using rows of the breast cancer data.\n")
studies = {}
for name in names or ["breast_cancer"]:
    data = load_dataset(name)
    X, y = (data.X, data.y) if names else (data.X[::9], data.y[::9])
    studies[name] = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(X.shape[1]), y

# %%
# Every pair held out, for ten alphas and two kernels
# ---------------------------------------------------
# ``ties="exclude"`` trains on (positive, negative) pairs only, as the AUC counts them. With
# ``weighting="pairs"``, each of them has the weight 1.

alphas = np.geomspace(1e-2, 1e3, 10)
rankers = {
    "linear": RankRLS(ties="exclude", weighting="pairs"),
    "rbf": RankRLS(kernel="rbf", gamma=1.0, ties="exclude", weighting="pairs"),
}
results, rows = {}, []
for ranker in rankers.values():
    leave_pair_out(ranker, X[:, :5], y)  # compile
for study, (X, y) in studies.items():
    for kernel, ranker in rankers.items():
        begin = time.perf_counter()
        result = leave_pair_out(ranker, X, y, alphas=alphas)
        seconds = time.perf_counter() - begin
        results[study, kernel] = result
        error = result.standard_error[result.best_index]
        rows.append((study, kernel, *result.auc, error, seconds))
columns = [Column("study"), Column("kernel"), *(Column(f"{a:.3g}", ".3f") for a in alphas)]
columns += [Column("s.e.", ".3f"), Column("seconds", ".2f")]
print(Table(tuple(columns), tuple(rows), "Leave-pair-out AUC at each alpha"))
print("\ns.e.: standard error at the best alpha. seconds: all ten alphas.")

# %%
# The ROC curves
# --------------
# The tournament score of a row is the share of its held-out pairs that it wins. These scores draw
# the ROC curve.

axes = new_axes(2, columns=len(studies), size=(4.2, 3.9))
for k, (study, (X, y)) in enumerate(studies.items()):
    upper, lower = axes[k], axes[len(studies) + k]
    plot_hold_out({kernel: results[study, kernel] for kernel in rankers}, quantity="auc", ax=upper)
    upper.set_title(study, weight="bold", pad=44)
    for kernel, ranker in rankers.items():
        ranker.set_params(alpha=results[study, kernel].best_alpha)
        plot_roc(y, tournament_scores(ranker, X, y), label=kernel, ax=lower)
axes[0]

# %%
# Comparison with refits
# ----------------------
# One fit for each pair, without its two rows, predicts the same and takes much longer.

study, (X, y) = next(iter(studies.items()))
pairs = np.array([(i, j) for i in np.flatnonzero(y == 1) for j in np.flatnonzero(y == 0)])
pairs = pairs[::60] if "--quick" in sys.argv else pairs
for kernel, ranker in rankers.items():
    begin = time.perf_counter()
    exact = leave_pair_out(ranker, X, y, pairs=pairs, return_differences=True).differences[0]
    middle = time.perf_counter()
    naive = np.empty(len(pairs))
    for k, pair in enumerate(pairs):
        rest = np.delete(np.arange(len(y)), pair)
        naive[k] = -np.diff(ranker.fit(X[rest], y[rest]).predict(X[pair]))[0]
    ratio, worst = (time.perf_counter() - middle) / (middle - begin), np.abs(naive - exact).max()
    print(f"{study}, {kernel}: {len(pairs)} refits take {ratio:.0f} times longer;", end=" ")
    print(f"they differ by {worst:.1e} at most.")
    np.testing.assert_allclose(exact, naive, atol=1e-8)
