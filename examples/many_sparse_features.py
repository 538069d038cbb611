"""
Many sparse features
====================

Words, ids and one-hot codes become hundreds of thousands of features, of which each row has a few.
The matrix of all pairs of features would not fit in memory. ``RankRLS`` then uses conjugate
gradients, which need only products with the sparse rows, and fits all values of alpha in one run.
"""

# %%
# The data
# --------
# There are 500 queries of 20 texts, each with 30 of 100,000 words. Some words are frequent,
# and most are rare, as in a language.

import time
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from rankwise import RankRLS
from rankwise.metrics import ndcg
from rankwise.plots import COLORS, new_axes, plot_alpha_path

rng = np.random.default_rng(0)
n_rows, n_words, length = 10_000, 100_000, 30
words = np.minimum(rng.zipf(1.3, (n_rows, length)) - 1, n_words - 1)
X = sp.csr_array(
    (np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, length)), (n_rows, n_words)
)
X.sum_duplicates()
weights = rng.standard_normal(n_words)
quality = X @ weights / np.sqrt(length)
y = np.digitize(quality + 0.5 * rng.standard_normal(n_rows), [0.0, 0.7, 1.4])
qid = np.arange(n_rows) // 20
train, test = qid < 350, qid >= 350
print(f"{X.nnz:,} stored values; a dense matrix would have {n_rows * n_words:,}")

# %%
# All alphas at once
# ------------------
# The matrix of features would take 80 GB. One run of conjugate gradients solves the problem for
# all alphas.

alphas = np.geomspace(0.3, 300, 7)
begin = time.perf_counter()
path = RankRLS().path(X[train], y[train], alphas, qid=qid[train])
print(f"{len(alphas)} alphas: {time.perf_counter() - begin:.1f} s")
scores = [ndcg(y[test], f, qid[test], k=10) for f in path.predict(X[test])]

ax = plot_alpha_path(alphas, scores, better="higher", ylabel="NDCG@10 of new queries")
ax

# %%
# The choice of alpha
# -------------------
# By default, alpha is chosen by held-out queries of the training data.

ranker = RankRLS().fit(X[train], y[train], qid=qid[train])
found = ndcg(y[test], ranker.predict(X[test]), qid[test], k=10)
print(f"solver {ranker.solver_}, {ranker.n_iter_} steps, alpha {ranker.alpha_:.3g}")
print(f"NDCG@10 of new queries: {found:.3f}; of random orders: ", end="")
print(f"{ndcg(y[test], rng.standard_normal(test.sum()), qid[test], k=10):.3f}")

# %%
# Which weights are learned?
# --------------------------
# The weights of frequent words. A word that occurs once carries little information, and its weight
# stays near 0.

counts = np.bincount(X[train].indices, minlength=n_words)
edges = [1, 3, 10, 30, 100, 300, 1000]
correlations = []
for low, high in pairwise(edges):
    some = (counts >= low) & (counts < high)
    correlations.append(np.corrcoef(weights[some], ranker.coef_[some])[0, 1])

(ax,) = new_axes(size=(6.0, 3.6))
labels = [f"{a}–{b - 1}" for a, b in pairwise(edges)]
ax.bar(labels, correlations, color=COLORS[0], alpha=0.75)
ax.set(xlabel="occurrences of a word in training", ylabel="correlation with true weights")
ax.set_ylim(0, 1)
ax
