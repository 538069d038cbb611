"""
More rows for the same landmarks
================================

A kernel ranker on all m rows takes O(m³) time, so often only a part of a large data set is used.
SparseRankRLS uses all of it. It represents the ranker by kernel functions at r landmarks and learns
from the pairs of all m rows in O(mr²) time. Is it better than training on the r rows alone?

This is the experiment of the paper, on digits. Each query is a set of images, to be ordered by
their digit. Some rows of each query are landmarks. RankRLS is trained on these rows only. Then more
rows of the same queries are added, with the same landmarks.

The data are in the folder ``mnist`` of ``RANKWISE_DATA``. Without it, the example uses
scikit-learn's digits. With ``--quick``, there are fewer rows and repetitions.
"""

import sys
import time

import numpy as np

from rankwise import RankRLS, SparseRankRLS
from rankwise.data import list_datasets, load_dataset
from rankwise.metrics import disagreement_error
from rankwise.plots import COLORS, INK, MARKERS, new_axes
from rankwise.report import Column, Table

# %%
# The data
# --------
# A training query is a row of ``queries``. Its first images are the landmarks, and the others are
# added from left to right. Queries to choose alpha and to test have 20 images.

quick = "--quick" in sys.argv
if any(info.name == "mnist" and info.available for info in list_datasets()):
    name, gamma, brightest = "MNIST", 0.02, 255.0
    parts = [load_dataset("mnist", part=part) for part in ("train", "test")]
    X, y = (np.concatenate([getattr(part, which) for part in parts]) for which in "Xy")
    test_rows = np.arange(len(y))[len(parts[0].y) :][: 2000 if quick else 5000]
    n_queries, sizes = (40, (2, 5, 10, 20)) if quick else (100, (2, 5, 10, 20, 40, 80))
    n_choosing = 400 if quick else 2000
else:
    print("RANKWISE_DATA has no MNIST: using the digits of scikit-learn.\n")
    name, gamma, brightest = "digits", 0.1, 16.0
    digits = load_dataset("digits")
    X, y = digits.X, digits.y
    test_rows = np.arange(1200, len(y))
    n_queries, sizes, n_choosing = 20, (2, 5, 10, 20, 40), 400
per_query = (2, 5) if quick else (2, 5, 10)  # landmarks
n_draws = 2 if quick else 4
alphas = np.geomspace(1e-3, 1e5, 17)
most_rows = 2000  # of RankRLS


def images(rows):
    """Pixels of some rows, from 0 to 1."""
    return X[rows] / brightest


def draw(seed):
    """Rows of the training queries, of shape (n_queries, size), and rows to choose alpha with."""
    rows = np.random.default_rng(seed).permutation(test_rows[0])
    n_training = n_queries * sizes[-1]
    queries = rows[:n_training].reshape(n_queries, sizes[-1])
    return queries, rows[n_training : n_training + n_choosing]


def error(scores, rows):
    return disagreement_error(y[rows], scores, np.arange(len(rows)) // 20)


# %%
# The curves
# ----------
# alpha is chosen for each point of each curve. The loss is a sum, so the best alpha grows with the
# number of rows.

errors: dict[tuple[str, int], list[float]] = {}
seconds: dict[tuple[str, int], list[float]] = {}
worst = 0.0
for seed in range(n_draws):
    queries, choosing = draw(seed)
    for size in sizes:
        rows, qid = queries[:, :size].ravel(), np.repeat(np.arange(n_queries), size)
        place = np.arange(n_queries * size).reshape(n_queries, size)
        rankers = {
            f"{n_queries * k} landmarks": SparseRankRLS(landmarks=place[:, :k].ravel(), gamma=gamma)
            for k in per_query
            if k <= size
        }
        if len(rows) <= most_rows:
            rankers["RankRLS"] = RankRLS(kernel="rbf", gamma=gamma)
        scores = {}
        for label, ranker in rankers.items():
            begin = time.perf_counter()
            path = ranker.path(images(rows), y[rows], alphas, qid=qid)
            spent = time.perf_counter() - begin
            best = np.argmin([error(f, choosing) for f in path.predict(images(choosing))])
            scores[label] = path.predict(images(test_rows))
            errors.setdefault((label, len(rows)), []).append(error(scores[label][best], test_rows))
            seconds.setdefault((label, len(rows)), []).append(spent)
        if size in per_query:  # all rows are landmarks
            difference = scores[f"{len(rows)} landmarks"] - scores["RankRLS"]
            worst = max(worst, np.abs(difference).max())
print(f"If all rows are landmarks, scores differ from RankRLS by {worst:.1e} at most.\n")
np.testing.assert_allclose(worst, 0.0, atol=1e-5)

labels = ["RankRLS", *(f"{n_queries * k} landmarks" for k in per_query)]
numbers = [n_queries * size for size in sizes]
table = [
    (m, *(np.mean(errors[label, m]) if (label, m) in errors else None for label in labels))
    for m in numbers
]
columns = (Column("rows"), *(Column(label, ".4f") for label in labels))
print(Table(columns, tuple(table), f"{name}: disagreement error on test queries"), "\n")
table = [
    (m, *(np.median(seconds[label, m]) if (label, m) in seconds else None for label in labels))
    for m in numbers
]
columns = (Column("rows"), *(Column(label, ".2f") for label in labels))
print(Table(columns, tuple(table), f"Seconds to fit all {len(alphas)} alphas"), "\n")

# %%
# The gain from additional rows
# -----------------------------
# Each curve starts on the curve of RankRLS, where all rows are landmarks.

(ax,) = new_axes(size=(7.2, 4.6))
for k, label in enumerate(labels):
    at = [m for m in numbers if (label, m) in errors]
    mean = np.array([np.mean(errors[label, m]) for m in at])
    spread = np.array([np.std(errors[label, m], ddof=1) for m in at]) / np.sqrt(n_draws)
    look = {"color": INK, "ls": (0, (4, 2))} if k == 0 else {"color": COLORS[k - 1]}
    text = "RankRLS: all rows are landmarks" if k == 0 else f"SparseRankRLS, {label}"
    ax.errorbar(
        at, mean, spread, marker=(*MARKERS[3:], *MARKERS)[k], ms=5, lw=1.8, capsize=3,
        label=text, zorder=3, **look,
    )  # fmt: skip
    if k:
        start, end = mean[0], mean[-1]
        print(f"{label}: error {start:.3f} without additional rows, {end:.3f} with {at[-1]} rows.")
        ax.hlines(start, at[0], at[-1], color=COLORS[k - 1], lw=1, ls=(0, (1, 3)), zorder=1)
ax.set_xscale("log")
ax.set_xticks(numbers, labels=[f"{m:,}" for m in numbers])
ax.minorticks_off()
ax.set(xlabel="training rows m", ylabel="disagreement error ± s.e.")
ax.set_title(f"{name}: images of a query, ordered by digit", size=11, weight="bold", pad=44)
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, labelcolor=INK)
ax
