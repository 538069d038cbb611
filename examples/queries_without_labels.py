"""
Learning from rows without labels
=================================

Labels are expensive, rows are not. Here only 30 of 600 rows have a label, and the rows lie on two
curves. ``TransductiveRankRLS`` connects each row to its neighbours, with a label or
without one, and prefers scores that change slowly along these connections. So a label counts for a
whole stretch of a curve.
"""

# %%
# The data
# --------
# Three queries of 200 rows each. Quality grows along the two curves.

import numpy as np

from rankwise import RankingSearchCV, TransductiveRankRLS
from rankwise.plots import COLORS, new_axes

rng = np.random.default_rng(0)
n = 600
along = rng.uniform(0, np.pi, n)  # where on its curve a row is
upper = rng.random(n) < 0.5
curve = np.where(
    upper[:, None],
    np.column_stack((np.cos(along), np.sin(along))),
    np.column_stack((1 - np.cos(along), 0.5 - np.sin(along))),
)
X = curve + 0.06 * rng.standard_normal((n, 2))
quality = np.where(upper, along, 2.0 - along)
qid = np.arange(n) // 200
y = np.full(n, np.nan)  # NaN: no label
labelled = np.concatenate(
    [rng.choice(np.flatnonzero(qid == q), 10, replace=False) for q in range(3)]
)
y[labelled] = quality[labelled] + 0.3 * rng.standard_normal(len(labelled))

# %%
# How smooth?
# -----------
# ``smoothness`` sets how much the connections count, and 0 leaves them out. The share of pairs of
# rows without labels that are in the right order shows the gain. In practice it is unknown, and
# held-out labels choose.

grid = [0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0]
kernel = TransductiveRankRLS(kernel="rbf", gamma=4.0, n_landmarks=200, random_state=0)
without = np.isnan(y)
right = []
for smoothness in grid:
    ranker = kernel.set_params(alpha="auto", smoothness=smoothness).fit(X, y, qid=qid)
    right.append(ranker.score(X[without], quality[without], qid=qid[without]))
    print(f"smoothness {smoothness:>7g}: {right[-1]:.3f} of the pairs in the right order")

search = RankingSearchCV(kernel, {"alpha": [0.01, 0.1, 1.0], "smoothness": grid})
search.fit(X, y, qid=qid)
print("chosen by held-out labels:", search.best_params_)

# %%
(ax,) = new_axes(size=(6.0, 3.6))
ax.plot(range(len(grid)), right, marker="o", color=COLORS[0], lw=1.8)
ax.set_xticks(range(len(grid)), labels=[f"{value:g}" for value in grid])
ax.set(xlabel="smoothness", ylabel="pairs in the right order")
ax

# %%
# What is learned
# ---------------
# Colours are scores of all rows, from low (light) to high (dark). Circles are rows with labels.
# Without the connections, scores depend on how near the next circle is. With them, they follow the
# curves.

left, right_ax = new_axes(columns=2, size=(3.4, 2.9))
for ax, smoothness in ((left, 0.0), (right_ax, search.best_params_["smoothness"])):
    ranker = kernel.set_params(alpha="auto", smoothness=smoothness).fit(X, y, qid=qid)
    ax.scatter(*X.T, c=ranker.predict(X), cmap="Blues", s=10)
    ax.scatter(*X[labelled].T, s=60, facecolors="none", edgecolors=COLORS[1], lw=1.4)
    ax.set(xticks=[], yticks=[], title=f"smoothness {smoothness:g}")
    ax.grid(visible=False)
left
