"""
Noisy labels and kernel components
==================================

Labels that people gave in a hurry are noisy. ``KPCRank`` ranks on the leading
principal components of a kernel: directions in which rows differ little are dropped, and with them
much of the noise. All numbers of components are fitted at once. This example chooses the number by
held-out queries, checks the choice against labels without noise, and compares it with the ridge of
``RankRLS``.
"""

# %%
# The data
# --------
# Ten features. Rows differ most in the first three, and these decide the order.

import numpy as np

from rankwise import ComponentOptions, KPCRank, RankRLS
from rankwise.metrics import disagreement_error
from rankwise.plots import COLORS, INK, MARKERS, new_axes, plot_component_errors, plot_scree

rng = np.random.default_rng(0)
spread = np.r_[2.0, 1.6, 1.3, np.full(7, 0.4)]


def make(n_queries, noise):
    """Queries of eight rows: features, noisy labels, query ids and the true quality."""
    qid = np.repeat(np.arange(n_queries), 8)
    X = spread * rng.standard_normal((len(qid), 10))
    quality = np.sin(X[:, 0]) + 0.6 * X[:, 1] - 0.4 * X[:, 2]
    return X, quality + noise * rng.standard_normal(len(qid)), qid, quality


X, y, qid, _ = make(60, noise=2.0)
new, _, new_qid, quality = make(300, noise=0.0)

# %%
# How many components?
# --------------------
# Five folds of whole queries are held out. Their labels are as noisy as the others, so errors are
# large. The curve still finds the right region.

ranker = KPCRank(options=ComponentOptions(max_components=50)).fit(X, y, qid=qid)
ax = plot_component_errors(ranker.component_errors_)
ax

# %%
# The first components explain most of the variance.

ax = plot_scree(ranker)
ax

# %%
# Was the choice right?
# ---------------------
# ``predict_path`` returns the scores for every number of components. On new queries, the true order
# is known here. With too many components, the ranker follows the noise.

path = KPCRank(50).fit(X, y, qid=qid).predict_path(new, qid=new_qid)
errors = [disagreement_error(quality, scores, new_qid) for scores in path.T]
ridge = disagreement_error(
    quality, RankRLS(kernel="rbf").fit(X, y, qid=qid).predict(new, qid=new_qid), new_qid
)
chosen = ranker.n_components_
print(f"{chosen} components: {errors[chosen - 1]:.3f}, best possible {min(errors):.3f}")
print(f"RankRLS with the same kernel: {ridge:.3f}")

(ax,) = new_axes(size=(6.0, 3.8))
ax.plot(np.arange(1, 51), errors, color=COLORS[0], lw=1.8)
ax.plot(chosen, errors[chosen - 1], "o", ms=8, color=COLORS[1])
ax.annotate("chosen", (chosen, errors[chosen - 1]), (-2, 9), textcoords="offset points")
ax.axhline(ridge, color=INK, lw=1, ls=(0, (4, 3)))
ax.text(50, ridge, "RankRLS, alpha chosen", ha="right", va="bottom", color=INK)
ax.set(xlabel="number of components", ylabel="error against the true order")
ax

# %%
# More and less noise
# -------------------
# Both methods remove noise. ``KPCRank`` drops directions, and ``RankRLS`` shrinks them. Neither is
# always ahead, and these are means of two samples only. Compare both on your data.

levels = (0.5, 1.5, 4.0)
found = {"KPCRank": [], "RankRLS": []}
for noise in levels:
    sums = np.zeros(2)
    for _ in range(2):
        X, y, qid, _ = make(60, noise)
        for k, method in enumerate(
            (KPCRank(options=ComponentOptions(max_components=50)), RankRLS(kernel="rbf"))
        ):
            scores = method.fit(X, y, qid=qid).predict(new, qid=new_qid)
            sums[k] += disagreement_error(quality, scores, new_qid)
    for k, values in enumerate(found.values()):
        values.append(sums[k] / 2)
    print(f"noise {noise}: KPCRank {sums[0] / 2:.3f}, RankRLS {sums[1] / 2:.3f}")

(ax,) = new_axes(size=(6.0, 3.6))
for k, (name, values) in enumerate(found.items()):
    ax.plot(levels, values, marker=MARKERS[k], color=COLORS[k], lw=1.8, label=name)
ax.set(xlabel="standard deviation of the noise", ylabel="error against the true order")
ax.legend(frameon=False)
ax
