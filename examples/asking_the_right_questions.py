"""
Asking the right questions
==========================

Which of two drafts is better? People answer such questions more reliably than "how good is this
one, from 1 to 10", but every answer costs time. A ``PairwiseGP`` estimates its uncertainty, and
chooses the pair whose answer carries most information. This example compares such questions with
random ones.
"""

# %%
# The drafts
# ----------
# Twenty drafts have two known features. Answers are noisy. The better draft wins most of the time,
# and more often if the difference is large.

import numpy as np
from sklearn.gaussian_process.kernels import Matern

from rankwise import PairwiseGP
from rankwise.plots import (
    COLORS,
    MARKERS,
    new_axes,
    plot_comparisons,
    plot_item_ranking,
    plot_rank_probabilities,
)

rng = np.random.default_rng(3)
X = rng.uniform(-2, 2, (20, 2))
quality = 3 * np.sin(X).sum(axis=1)
names = [f"draft {k}" for k in range(1, 21)]
n_questions, n_runs = 30, 3


def answer(i, j, rng):
    """A noisy answer to "which is better?": the winner first."""
    return (i, j) if quality[i] - quality[j] + rng.standard_normal() > 0 else (j, i)


def run(strategy, seed):
    """The share of pairs in the right order after each answer, the model, and what was asked."""
    rng = np.random.default_rng(seed)
    gp = PairwiseGP(4.0 * Matern(1.0, nu=2.5), optimizer=None).fit_pairs(X, [])  # no answer yet
    curve, asked = [], []
    for _ in range(n_questions):
        if strategy == "random":
            pair = rng.choice(20, 2, replace=False)
        else:
            pair = gp.suggest_pair(X, strategy="bald", random_state=rng)
        asked.append(answer(*pair, rng))
        gp.tell(asked[-1])
        curve.append(gp.score(X, quality))
    return curve, gp, asked


# %%
# Chosen or random?
# -----------------
# ``suggest_pair`` chooses the pair, and ``tell`` adds the answer. The curves are
# means of three runs.

curves = {}
for strategy in ("chosen", "random"):
    runs = [run(strategy, seed) for seed in range(n_runs)]
    curves[strategy] = np.mean([curve for curve, _, _ in runs], axis=0)
    if strategy == "chosen":
        _, gp, asked = runs[0]
for strategy, curve in curves.items():
    enough = np.argmax(curve >= 0.9) + 1 if curve.max() >= 0.9 else None
    print(f"{strategy}: 90% of all pairs in the right order after {enough or 'more'} answers")

(ax,) = new_axes(size=(6.0, 3.8))
for k, (strategy, curve) in enumerate(curves.items()):
    ax.plot(
        np.arange(1, n_questions + 1), curve, color=COLORS[k], marker=MARKERS[k], markevery=5,
        label=f"{strategy} pairs",
    )  # fmt: skip
ax.set(xlabel="answers", ylabel="pairs in the right order", ylim=(0.5, 1))
ax.legend(frameon=False, loc="lower right")
ax

# %%
# What was asked
# --------------
# Each line is a question. Most of them compare drafts of different regions, whose order does not
# follow from other answers.

ax = plot_comparisons(asked, scores=gp.predict(X))
ax

# %%
# What is known
# -------------
# The plot shows the best drafts with 95% intervals. The numbers on the right are the ranks that
# remain possible.

ax = plot_item_ranking(gp, X, names=names, top=12)
ax

# %%
# The probability of each rank:

ranks = gp.rank_probabilities(X, random_state=0)
ax = plot_rank_probabilities(ranks, names=names, top=8)
ax
