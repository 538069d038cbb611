"""
How sure is the AUC of forty patients?
======================================

Leave-pair-out estimates the AUC of a small sample almost without bias. Three questions follow. Is
it better than chance? How sure is it? What if features were chosen on the same patients? With
``--quick``, fewer permutations are drawn.
"""

import sys

import numpy as np
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline

from rankwise import RankRLS
from rankwise.data import load_dataset
from rankwise.model_selection import (
    auc_difference,
    auc_interval,
    nested_leave_pair_out,
    permutation_test,
    tournament_scores,
)
from rankwise.plots import plot_roc

quick = "--quick" in sys.argv
rng = np.random.default_rng(0)
data = load_dataset("breast_cancer")
rows = rng.permutation(len(data.y))[:40]
X, y = data.X[rows][:, [4, 8, 9]], data.y[rows].astype(float)  # three weak features

# %%
# An interval
# -----------
# With forty patients, the interval is wide.

ranker = RankRLS(scale="standard")
interval = auc_interval(ranker, X, y)
print(interval)

# %%
# The plot shows the ROC curve of held-out pairs. The score of a patient is the share of its pairs
# that it wins.

chosen = RankRLS(interval.alpha, scale="standard")
ax = plot_roc(y, tournament_scores(chosen, X, y))
ax

# %%
# Chance
# ------
# The labels are permuted, and all pairs are held out again. Alpha is chosen again for
# each permutation.

test = permutation_test(ranker, X, y, n_permutations=99 if quick else 1000, random_state=0)
print(test)
ax = test.plot()
ax

# %%
# Two rankers on the same patients
# --------------------------------
# Does the third feature help?

print(auc_difference(ranker, ranker, X, y, X_second=X[:, :2]))

# %%
# A choice on the same patients
# -----------------------------
# Of 300 random numbers for each patient, ten that look useful are chosen. Without nesting, the AUC
# looks like a discovery. With nesting, it is near the AUC of a coin, as far as 40 patients can
# tell.

noise = np.random.default_rng(1).standard_normal((40, 300))
pipeline = make_pipeline(SelectKBest(k=10), RankRLS(scale="standard"))
nested = nested_leave_pair_out(pipeline, noise, y, n_repeats=1 if quick else 4, random_state=0)
print(nested)
