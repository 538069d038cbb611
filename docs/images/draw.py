"""Draw the picture at the top of the README: ``python docs/images/draw.py``."""

from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import WhiteKernel

from rankwise import PairwiseGP
from rankwise.plots import new_axes, plot_comparisons, plot_item_ranking, save_figure

names = ["assam", "ceylon", "darjeeling", "earl grey", "genmaicha", "matcha", "oolong", "sencha"]
quality = np.array([0.6, -0.4, 1.8, -1.5, -0.2, 1.0, 0.3, -0.9])
rng = np.random.default_rng(1)
pairs = []
for _ in range(40):
    i, j = rng.choice(len(names), 2, replace=False)
    first = quality[i] - quality[j] + rng.standard_normal() > 0
    pairs.append((i, j) if first else (j, i))

items = np.arange(len(names), dtype=float)[:, None]  # no features: each tea is its own
gp = PairwiseGP(WhiteKernel(1.0)).fit_pairs(items, pairs)
left, right = new_axes(columns=2, size=(4.3, 3.3))
plot_comparisons(pairs, scores=gp.predict(items), names=names, ax=left)
plot_item_ranking(gp, items, names=names, ax=right)
left.set_title("forty comparisons of teas", size=11)
right.set_title("their ranking, and what is still open", size=11)
print("Wrote", save_figure(left.figure, Path(__file__).with_name("ranking.svg")))
