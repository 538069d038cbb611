"""
Ranking labelled graphs
=======================

Molecules and parses are graphs: nodes and edges have labels, and no two graphs have the same
size. Here generated molecules are ranked by a property that depends on groups of atoms. A kernel
compares two graphs by their walks, and counts of walks show which groups of atoms matter.
"""

# %%
# Molecules
# ---------
# Chains with branches of carbon, nitrogen and oxygen; each is a list of atoms and a list of bonds
# with their orders. The property increases with C=O groups and falls with the number of nitrogens.

import numpy as np

from rankwise import GraphWalks, RankRLS, WalkKernel, WeisfeilerLehman
from rankwise.model_selection import leave_query_out
from rankwise.plots import COLORS, new_axes

rng = np.random.default_rng(0)


def molecule():
    size = int(rng.integers(6, 16))
    atoms = ["C", *rng.choice(["C", "N", "O"], size - 1, p=[0.7, 0.15, 0.15]).tolist()]
    bonds = []
    for i in range(1, size):
        carbons = [j for j in range(max(0, i - 3), i) if atoms[j] == "C"] or [i - 1]
        bonds.append((int(rng.choice(carbons)), i, "=" if rng.random() < 0.3 else "-"))
    return atoms, bonds


def property_of(atoms, bonds):
    pairs = [({atoms[i], atoms[j]}, order) for i, j, order in bonds]
    carbonyls = sum(pair == {"C", "O"} and order == "=" for pair, order in pairs)
    return carbonyls - 0.3 * atoms.count("N") + 0.3 * rng.standard_normal()


molecules = [molecule() for _ in range(240)]
y = np.array([property_of(*m) for m in molecules])
qid = np.arange(240) // 12  # twenty tests of twelve molecules
print(molecules[0])

# %%
# Which kernel?
# -------------
# Each test is held out, exactly. A ranker takes the list of graphs in place of rows. Counts are
# ordinary sparse features.

held = {}
for name, kernel in {
    "walks, all labels": WalkKernel(0.05),
    "walks, labels of ends": WalkKernel(0.05, labels="ends"),
}.items():
    held[name] = leave_query_out(RankRLS(kernel=kernel), molecules, y, qid=qid)
for name, counts in {
    "counts of walks": GraphWalks(2),
    "Weisfeiler-Lehman": WeisfeilerLehman(2),
}.items():
    X = counts.fit_transform(molecules)
    held[name] = leave_query_out(RankRLS(kernel="cosine"), X, y, qid=qid)
for name, result in held.items():
    print(f"{name:<22} {result.score.min():.3f} of held-out pairs in the wrong order")

# %%
# What matters
# ------------
# The weights of counts show which walks raise or lower the score.

walks = GraphWalks(1)
ranker = RankRLS().fit(walks.fit_transform(molecules), y, qid=qid)
names, weights = walks.get_feature_names_out(), ranker.coef_
order = np.argsort(weights)
shown = np.append(order[:4], order[-4:])

(ax,) = new_axes(size=(6.0, 3.2))
ax.barh(range(len(shown)), weights[shown], color=COLORS[0])
ax.set_yticks(range(len(shown)), labels=names[shown])
ax.set(xlabel="weight")
ax
