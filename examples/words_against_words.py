"""
Words against words
===================

Customers ask for a "couch", and the catalogue offers a "sofa". A search that counts common words
finds nothing. ``SparseBilinearRanker`` learns from what people chose which words of a question go
with which words of a text, and explains every hit.
"""

# %%
# Questions and texts
# -------------------
# Ten things have two everyday words and two words of the catalogue each. A question or a text also
# contains three of thirty words without meaning.

import numpy as np

from rankwise import SparseBilinearRanker
from rankwise.data import draw_triplets
from rankwise.plots import new_axes, plot_learning_curve

things = {
    ("couch", "settee"): ("sofa", "seating"),
    ("lamp", "light"): ("luminaire", "fixture"),
    ("rug", "mat"): ("carpet", "textile"),
    ("cupboard", "closet"): ("wardrobe", "cabinet"),
    ("bike", "cycle"): ("bicycle", "velo"),
    ("fridge", "cooler"): ("refrigerator", "appliance"),
    ("phone", "mobile"): ("smartphone", "handset"),
    ("laptop", "computer"): ("notebook", "ultrabook"),
    ("trainers", "shoes"): ("sneakers", "footwear"),
    ("jumper", "pullover"): ("sweater", "knitwear"),
}
everyday = [word for pair in things for word in pair]
catalogue = [word for pair in things.values() for word in pair]
words = [*everyday, *catalogue, *(f"other{k}" for k in range(30))]
rng = np.random.default_rng(0)
n = 500
thing = rng.integers(len(things), size=n)


def rows(first):
    """A word of the thing and three other words, as a row of length 1."""
    X = np.zeros((n, len(words)))
    X[np.arange(n), first + 2 * thing + rng.integers(2, size=n)] = 1.0
    for _ in range(3):
        X[np.arange(n), 40 + rng.integers(30, size=n)] += 0.5
    return X / np.linalg.norm(X, axis=1, keepdims=True)


questions, texts = rows(0), rows(20)

# %%
# What people chose
# -----------------
# A triplet is a question, the preferred text and another text. The last hundred questions are new.

chosen = np.argwhere(thing[:, None] == thing)
chosen = chosen[rng.permutation(len(chosen))[:4000]]
triplets = draw_triplets(chosen, n_documents=n, random_state=0)
old, new = triplets[triplets[:, 0] < 400], triplets[triplets[:, 0] >= 400]

ranker = SparseBilinearRanker(n_iter=8000, random_state=0)
ranker.fit(questions, texts, old, query_names=words, document_names=words, held_out=new)
cosine = SparseBilinearRanker(structure="identity").fit(questions, texts, old)
print(f"new questions, right order: {ranker.score(questions, texts, new):.3f}")
print(f"by the number of common words: {cosine.score(questions, texts, new):.3f}")
print(f"{ranker.coef_.nnz} of {ranker.coef_.shape[0] ** 2:,} weights are not 0")

# %%
# The weights
# -----------
# Rows are everyday words, and columns are words of the catalogue. The blocks are the things.

(ax,) = new_axes(size=(6.2, 5.6))
W = ranker.coef_.toarray()[:20, 20:40]
image = ax.imshow(W, cmap="RdBu", vmin=-abs(W).max(), vmax=abs(W).max())
ax.set_yticks(np.arange(20), everyday, size=8)
ax.set_xticks(np.arange(20), catalogue, size=8, rotation=90)
ax.set(xlabel="word of the text", ylabel="word of the question")
ax.grid(visible=False)
ax.figure.colorbar(image, ax=ax, shrink=0.7, label="weight")
ax

# %%
# A hit, explained
# ----------------
# The score is a sum over pairs of words. These are the largest terms.

rows_found, scores = ranker.rank(questions[400], texts, k=1)
asked = [words[k] for k in np.flatnonzero(questions[400])]
print("question:", " ".join(asked))
for word, other, value in ranker.explain(questions[400], texts[rows_found[0]], k=3):
    print(f"  {word} -> {other}: {value:+.2f}")
print("related to couch:", ", ".join(name for name, _ in ranker.related_features("couch", k=2)))

# %%
# How it learned
# --------------
# The share of held-out triplets in the wrong order, step by step.

ax = plot_learning_curve(ranker.learning_curve_)
ax
