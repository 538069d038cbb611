"""
Drugs and targets: a table with two sides
=========================================

A laboratory has measured how strongly 60 drugs bind to 50 proteins. Which proteins will a new drug
bind to, and which drugs a new protein? ``TwoSidedRankRLS`` learns from the features of both, and
its hold-outs answer each question separately.
"""

# %%
# A table of affinities
# ---------------------
# Drugs have two descriptions: five properties, which decide what they bind to, and a fingerprint of
# 64 bits, most of which is noise. Proteins have four properties.

import numpy as np

from rankwise import RankingSearchCV, TwoSidedRankRLS

rng = np.random.default_rng(0)
properties, proteins = rng.standard_normal((60, 5)), rng.standard_normal((50, 4))
bits = properties @ rng.standard_normal((5, 64)) + 4 * rng.standard_normal((60, 64))
fingerprints = (bits > 0).astype(float)
fit = np.exp(-((properties[:, None, :4] - proteins) ** 2).sum(axis=2) / 4)
affinity = 5 + 4 * fit + 0.3 * rng.standard_normal(fit.shape)

# %%
# Four questions
# --------------
# What will be new: a cell of a known drug and a known protein, a drug, a protein, or both? Each
# prediction equals the prediction of a fit without what is held out, for every alpha, although
# nothing is refitted.

ranker = TwoSidedRankRLS(row_kernel="rbf", column_kernel="rbf")
for leave in ("cells", "rows", "columns", "both"):
    held = ranker.hold_out(properties, proteins, affinity, leave=leave)
    found = held.score("concordance")
    k = found.best_index
    print(f"new {leave:8} {found.score[k]:.3f} ± {found.standard_error[k]:.3f}")

# %%
# Two kernels of drugs
# --------------------
# The weights of several kernels are chosen together with alpha, on held-out drugs. The properties
# get most of the weight.

both = TwoSidedRankRLS(
    row_kernel=["rbf", "linear"], column_kernel="rbf", row_weights="auto", for_new="rows"
)
both.fit([properties, fingerprints], proteins, affinity)
print(f"weights {both.row_weights_}, alpha {both.alpha_:.2g}")

# %%
# Kernels of both sides
# ---------------------
# A search compares kernels of either side by held-out drugs.

grid = {"row_kernel": ["linear", "rbf"], "column_kernel": ["linear", "rbf"]}
search = RankingSearchCV(TwoSidedRankRLS(for_new="rows"), grid, scoring="concordance")
search.fit_table(properties, proteins, affinity)
print(search.to_frame()[["row_kernel", "column_kernel", "score"]].round(3).to_string(index=False))

# %%
# The best proteins for a new drug
# --------------------------------

new = rng.standard_normal(5)
best, scores = search.best_estimator_.rank(new, k=3)
print([f"protein {j}: {s:.2f}" for j, s in zip(best, scores, strict=True)])

# %%
# Missing cells
# -------------
# Without a fifth of the cells, conjugate gradients solve the same problem. Hold-outs are refits.

measured = np.where(rng.random(affinity.shape) < 0.8, affinity, np.nan)
held = ranker.hold_out(properties, proteins, measured, leave="rows", alphas=[0.01, 0.1, 1.0])
print(held.why, held.score("concordance").score.round(3))

# %%
# The table, and what was predicted
# ---------------------------------
# Rows are drugs and columns are proteins, sorted by their held-out scores. The right half shows the
# ranks that each drug gives to the proteins by a fit without this drug.

ax = ranker.hold_out(properties, proteins, affinity).plot()
ax
