"""
Kernels on landmarks
====================

A linear ranker can learn "the more, the better". Here the best rows lie on six hills, which no
linear score can describe. A kernel can, but a kernel on all 20,000 rows would need a matrix of 400
million numbers. ``SparseRankRLS`` places the kernel at some of the rows, the landmarks, and still
learns from the pairs of all rows.
"""

# %%
# The data
# --------
# There are 1,000 queries of 20 rows with two features, and labels with noise.

import time

import numpy as np

from rankwise import RankRLS, SparseRankRLS
from rankwise.plots import COLORS, INK, new_axes

rng = np.random.default_rng(0)


def quality(X):
    """Six hills of different heights."""
    tops = [(-1.3, -1.2, 1.0), (-1.1, 0.9, 1.6), (0.0, -0.3, 2.0)]
    tops += [(0.2, 1.5, 0.8), (1.3, 0.6, 1.3), (1.2, -1.3, 1.8)]
    return sum(height * np.exp(-4 * ((X - (x, y)) ** 2).sum(axis=1)) for x, y, height in tops)


def make(n_queries):
    X, qid = rng.uniform(-2, 2, (20 * n_queries, 2)), np.repeat(np.arange(n_queries), 20)
    return X, quality(X) + 0.5 * rng.standard_normal(len(X)), qid


X, y, qid = make(1000)
new, _, new_qid = make(200)
best_order = quality(new)

# %%
# What is learned
# ---------------
# With a hundred landmarks (dots), the score shows all six hills. The loss counts all 190,000
# pairs.

ranker = SparseRankRLS(n_landmarks=100, gamma=2.0, random_state=0).fit(X, y, qid=qid)
line = np.linspace(-2, 2, 80)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
left, right = new_axes(columns=2, size=(3.2, 3.1))
for ax, values, title in (
    (left, quality(grid), "true quality"),
    (right, ranker.predict(grid), "learned score"),
):
    ax.contourf(line, line, values.reshape(80, 80), levels=10, cmap="Blues")
    ax.set(title=title, xticks=(-2, 0, 2), yticks=(-2, 0, 2), aspect="equal")
    ax.grid(visible=False)
right.scatter(*ranker.landmarks_.T, s=6, color=COLORS[1])
left

# %%
# How many landmarks?
# -------------------
# Time grows with the square of their number, and the error falls until the landmarks are dense
# enough for the hills. The error is the share of pairs of new rows in the wrong order.

numbers = (3, 10, 30, 100, 300)
errors, seconds = [], []
for n_landmarks in numbers:
    begin = time.perf_counter()
    sparse = SparseRankRLS(n_landmarks=n_landmarks, gamma=2.0, random_state=0).fit(X, y, qid=qid)
    seconds.append(time.perf_counter() - begin)
    errors.append(1 - sparse.score(new, best_order, qid=new_qid))
    print(f"{n_landmarks:4} landmarks: error {errors[-1]:.3f}, {seconds[-1]:.2f} s")

linear = 1 - RankRLS().fit(X, y, qid=qid).score(new, best_order, qid=new_qid)
few = qid < 50
kernel = RankRLS(kernel="rbf", gamma=2.0).fit(X[few], y[few], qid=qid[few])
on_few = 1 - kernel.score(new, best_order, qid=new_qid)
print(f"linear: error {linear:.3f}")
print(f"kernel on all of 1,000 rows only: error {on_few:.3f}")

# %%
# The exact kernel ranker on a sample of 1,000 rows is no match for 100 landmarks that learn from
# all rows.

(ax,) = new_axes(size=(6.0, 3.8))
ax.plot(numbers, errors, marker="o", color=COLORS[0], lw=1.8)
ax.annotate("landmarks, all rows", (numbers[1], errors[1]), (8, 8), textcoords="offset points")
for height, text in ((linear, "linear, all rows"), (on_few, "kernel at all of 1,000 rows")):
    ax.axhline(height, color=INK, lw=1, ls=(0, (4, 3)))
    ax.text(numbers[-1], height, text, ha="right", va="bottom", color=INK)
ax.set_xscale("log")
ax.set_xticks(numbers, labels=[str(number) for number in numbers])
ax.minorticks_off()
ax.set(xlabel="landmarks", ylabel="error on new queries", ylim=(0, None))
ax
