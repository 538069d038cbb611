"""
A reward model with uncertainty
===============================

People compared responses of language models two by two. A pairwise Gaussian process turns frozen
embeddings of the responses, and their length, into a score with an uncertainty. It predicts which
of two new responses is better, how certain that is, and which comparison to pay for next. It takes
seconds on a CPU.

The data are in the folder ``llm_preferences`` of ``RANKWISE_DATA``. Without it, preferences are
generated. With ``--quick``, fewer comparisons are used.
"""

import gzip
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import DotProduct

from rankwise import PairwiseGP
from rankwise.plots import plot_item_ranking, plot_reliability

# %%
# The data
# --------
# PandaLM contains 894 pairs of responses, compared by three annotators. The features are the
# embeddings and the standardized logarithm of the length.

folder = Path(os.environ.get("RANKWISE_DATA", ""), "llm_preferences")
rng = np.random.default_rng(0)
if os.environ.get("RANKWISE_DATA") and folder.is_dir():
    with np.load(folder / "embeddings_pandalm.npz") as arrays:
        better, worse = (arrays[key].astype(np.float64) for key in ("chosen", "rejected"))
        prompt, numbers = arrays["group"], arrays["idx"].tolist()
    with gzip.open(folder / "pandalm_testset-v1.json.gz", "rt", encoding="utf-8") as file:
        entries = {entry["idx"]: entry for entry in json.load(file)}
    lengths = np.empty((len(numbers), 2))
    for k, number in enumerate(numbers):
        votes = [entries[number][f"annotator{a}"] for a in (1, 2, 3)]
        winner = max(set(votes), key=votes.count)
        for column, response in enumerate((winner, 3 - winner)):
            lengths[k, column] = len(str(entries[number][f"response{response}"]))
else:
    print("There is no folder llm_preferences in RANKWISE_DATA: preferences are generated.\n")
    both = rng.standard_normal((2, 800, 32)) / np.sqrt(32)
    lengths = np.exp(rng.normal(5.0, 0.8, (800, 2)))
    taste = 4 * both[..., 0] + np.log(lengths.T) + 0.5 * rng.standard_normal((2, 800))
    swap = taste[0] < taste[1]
    better, worse = np.where(swap[:, None], both[::-1], both)
    lengths[swap] = lengths[swap, ::-1]
    prompt = np.arange(800) // 4
logs = (np.log1p(lengths) - np.log1p(lengths).mean()) / np.log1p(lengths).std()

# %%
# One fit
# -------
# A fifth of the prompts is held out. The kernel is linear in twenty principal components of the
# embeddings and the length, and its scale maximizes the evidence, the probability of the
# comparisons. This is a linear reward with the uncertainty of its weights. With more landmarks than
# features, inference is exact.

held_out = np.isin(prompt, rng.permutation(np.unique(prompt))[: len(np.unique(prompt)) // 5])
train = np.flatnonzero(~held_out)
if "--quick" in sys.argv:
    train = train[:300]
n = len(train)
components = PCA(20, random_state=0).fit(np.vstack((better[train], worse[train])))
better = np.column_stack((components.transform(better), logs[:, 0]))
worse = np.column_stack((components.transform(worse), logs[:, 1]))
responses = np.vstack((better[train], worse[train]))
pairs = np.column_stack((np.arange(n), n + np.arange(n)))
begin = time.perf_counter()
model = PairwiseGP(
    1.0 * DotProduct(1.0, "fixed"), n_landmarks=40, landmarks="random", random_state=0
).fit_pairs(responses, pairs)
seconds = time.perf_counter() - begin
print(f"{n} comparisons of {len(responses)} responses: {seconds:.1f} s")
print(f"kernel: {model.kernel_}")

# %%
# New prompts
# -----------
# The probability that an annotator prefers the first response includes the noise of annotators.
# Where the model is more certain, it should be right more often.

chance = model.predict_preference(better[held_out], worse[held_out], observed=True)
longer = np.mean(lengths[held_out, 0] > lengths[held_out, 1])
print(f"held out: accuracy {np.mean(chance > 0.5):.3f}, log-loss {-np.log(chance).mean():.3f}")
print(f"          accuracy of the longer response: {longer:.3f}")
certain = np.abs(chance - 0.5) > np.median(np.abs(chance - 0.5))
print(f"          accuracy in the more certain half: {np.mean(chance[certain] > 0.5):.3f}")

# %%
# Are the probabilities right? Of the comparisons with a predicted probability of 70%, 70% should be
# won.

swapped = rng.random(held_out.sum()) < 0.5
ax = plot_reliability(
    ~swapped, np.where(swapped, 1 - chance, chance), n_bins=6, data="comparisons of new prompts"
)
ax

# %%
# What to compare next
# --------------------
# ``suggest_pair`` chooses among responses that nobody has compared: the pairs whose outcomes carry
# most information.

pool = np.vstack((better[held_out], worse[held_out]))[:200]
for i, j in model.suggest_pair(pool, n_pairs=3, random_state=0):
    gap, std = model.predict_difference(pool[[i]], pool[[j]])
    print(f"compare {i} and {j}: difference {gap[0]:.2f}, standard deviation {std[0]:.2f}")

# %%
# Twenty new responses, with 95% intervals, and their possible ranks:

ax = plot_item_ranking(model, pool[:20])
ax
