"""
Why pooled cross-validation misleads on small samples
=====================================================

A common estimate of the AUC from 30 rows holds out each row (or each fold), pools the predictions,
and draws one ROC curve. But the predictions come from different models, and the model depends on
the row that is held out. Without a positive row, the rest has fewer positives, so all predictions
of this model are slightly lower. Positives get lower scores *because* they are positive.
Leave-pair-out compares only predictions of the same model.

This example measures the bias, first without signal, where the true AUC is 0.5, then on real
patients. With ``--quick``, fewer samples are drawn. ``--full`` draws 1,000.
"""

import sys

import numpy as np

from rankwise import RLS
from rankwise.data import load_dataset
from rankwise.metrics import concordance_index
from rankwise.model_selection import k_fold, leave_one_out, leave_pair_out
from rankwise.plots import COLORS, INK, new_axes
from rankwise.report import Column, Table

# %%
# Six estimates of one AUC
# ------------------------
# The model is always a ridge regression on 0/1 labels. Shuffled folds have a random number
# of positives, stratified folds have three rows of each class. "averaged" is the mean of the AUC
# within each fold.

n_samples = 20 if "--quick" in sys.argv else 1000 if "--full" in sys.argv else 200
y = np.repeat([0, 1], 15)  # sorted: every fifth row gives folds of three rows of each class
ridge = RLS(alpha=100.0)


def estimates(X, seed):
    """Name -> AUC of `ridge`, by each hold-out."""
    single = leave_one_out(ridge, X, y).predictions[0]
    shuffled = k_fold(ridge, X, y, n_splits=5, metric="auc", random_state=seed)
    stratified = k_fold(ridge, X, y, n_splits=5, metric="auc")
    return {
        "leave-one-out, pooled": concordance_index(y, single),
        "5 shuffled folds, pooled": concordance_index(y, shuffled.predictions[0]),
        "5 stratified folds, pooled": concordance_index(y, stratified.predictions[0]),
        "5 shuffled folds, averaged": shuffled.score[0],
        "5 stratified folds, averaged": stratified.score[0],
        "leave-pair-out": leave_pair_out(ridge, X, y).auc[0],
    }


# %%
# Without signal
# --------------
# 30 rows of 10 independent normal features, with labels that are independent of them.


def noise(rng):
    return rng.standard_normal((30, 10)), 0.5


# %%
# With signal
# -----------
# 15 patients whose diabetes progressed more than the median after a year, 15 others, 10 features.
# The true value is the AUC, on the other 412 patients, of the model that was trained on these 30.

data = load_dataset("diabetes")
patients, labels = data.X / data.X.std(axis=0), (data.y > np.median(data.y)).astype(int)


def diabetes(rng):
    rows = [rng.choice(np.flatnonzero(labels == k), 15, replace=False) for k in (0, 1)]
    rows = np.concatenate(rows)
    others = np.setdiff1d(np.arange(len(labels)), rows)
    model = ridge.fit(patients[rows], y)
    return patients[rows], concordance_index(labels[others], model.predict(patients[others]))


# %%
# Results
# -------
# The error of an estimate is its difference from the true value. The mean of the error is the bias.

axes = new_axes(2, size=(6.2, 3.0))
titles = {
    "No signal: the true AUC is 0.5": noise,
    "Diabetes: the true AUC is about {:.2f}": diabetes,
}
for ax, (title, draw) in zip(axes, titles.items(), strict=True):
    truths, said = [], []
    for seed in range(n_samples):
        X, truth = draw(np.random.default_rng(seed))
        truths.append(truth)
        said.append(estimates(X, seed))
    names = list(said[0])
    values = np.array([list(s.values()) for s in said])
    errors = values - np.array(truths)[:, None]
    bias, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1)
    title = title.format(np.mean(truths))
    columns = [Column("estimate")] + [Column(c, ".3f") for c in ("AUC", "bias", "s.e.", "s.d.")]
    numbers = np.column_stack([values.mean(axis=0), bias, spread / np.sqrt(n_samples), spread])
    rows = [(name, *line) for name, line in zip(names, numbers, strict=True)]
    print(Table(tuple(columns), tuple(rows), f"{title}; {n_samples} samples of 30 rows"), "\n")

    low, q1, q3, high = np.quantile(errors, (0.05, 0.25, 0.75, 0.95), axis=0)
    places = np.arange(len(names))[::-1]
    colors = [COLORS[1] if "pooled" in name else COLORS[0] for name in names]
    ax.axvline(0, color=INK, lw=1, zorder=1)
    ax.hlines(places, low, high, color=colors, lw=1.5, alpha=0.7)
    ax.hlines(places, q1, q3, color=colors, lw=7, alpha=0.35)
    ax.scatter(bias, places, color=colors, s=42, zorder=3)
    ax.set_title(title, size=11, weight="bold")
    ax.set_xlabel("estimate − true value: mean, middle half, middle 90 %", size=10)
    ax.set(xlim=(-0.45, 0.3), yticks=places, yticklabels=names)
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=INK, alpha=0.13)
axes[0]
