"""Where a cut-off after p components ranks better than a ridge: a simulation.

Rows have 40 independent features with variances 1, 1/2, 1/3, ...: the components of a linear
kernel. Scores are sums of features of unit variance. A part of their variance, from none to most,
comes from features after the fifth. Training scores have noise; parameters are chosen by five folds
of queries, as in noise.py, and the order of new queries without noise is evaluated.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankwise.metrics import disagreement_error
from reproduce.kpcrank.noise import ROWS, Part, chosen, held_out, markdown

FEATURES, LEADING, PER_QUERY = 40, 5, 5
ROWS_TRAIN, ROWS_TEST, DRAWS, REPEATS = 300, 1000, 4, 5
OUTSIDE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7)  # share of the variance of scores
NOISES = (0.5, 1.0, 2.0, 4.0)  # times the standard deviation of scores
KERNEL = {"kernel": "linear", "scale": None}
COMPARED = ("KPCRank", "KPCRank, components and ridge", "RankRLS")


def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Test errors of one draw of rows, shape (shares, noises, repeats) for each ranker."""
    Z = rng.standard_normal((ROWS_TRAIN + ROWS_TEST, FEATURES))
    X, signs = Z / np.sqrt(np.arange(1, FEATURES + 1)), rng.choice([-1.0, 1.0], FEATURES)
    qid = np.arange(len(Z)) // PER_QUERY
    train, test = slice(0, ROWS_TRAIN), slice(ROWS_TRAIN, None)
    leads = Z[:, :LEADING] @ signs[:LEADING] / np.sqrt(LEADING)
    rest = Z[:, LEADING:] @ signs[LEADING:] / np.sqrt(FEATURES - LEADING)
    scores = [np.sqrt(1 - share) * leads + np.sqrt(share) * rest for share in OUTSIDE]
    shape = (len(OUTSIDE), len(NOISES), REPEATS)
    places = list(np.ndindex(shape))
    columns = [scores[a][train] + NOISES[b] * rng.standard_normal(ROWS_TRAIN) for a, b, _ in places]
    part = Part(X[train], np.column_stack(columns), qid[train])
    found = {}
    for row in ROWS:
        if row.name in COMPARED:
            error, spread = held_out(row, KERNEL, part)
            predicted = row.scores(KERNEL, part, X[test])
            values = np.empty(shape)
            for o, place in enumerate(places):
                at = min(chosen(error[:, o], spread[:, o], "best"), predicted.shape[1] - 1)
                truth = scores[place[0]][test]
                values[place] = disagreement_error(truth, predicted[:, at, o], qid[test])
            found[row.name] = values
    return found


def run() -> dict[str, np.ndarray]:
    """Test errors of all draws, shape (draws, shares, noises, repeats) for each ranker."""
    draws = [draw(np.random.default_rng(seed)) for seed in range(DRAWS)]
    return {name: np.array([one[name] for one in draws]) for name in COMPARED}


def text(found: dict[str, np.ndarray]) -> str:
    """How much larger the error of RankRLS is, and the error of components with a ridge."""
    gain = found["RankRLS"] - found["KPCRank"]
    by_draw = gain.mean(axis=3)
    mean, error = by_draw.mean(axis=0), by_draw.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    both = (found["RankRLS"] - found[COMPARED[1]]).mean(axis=(0, 3))
    header = ["outside the first five", *(f"noise = {k:g} × s.d." for k in NOISES)]
    rows = [
        [
            f"{share:.0%}",
            *(
                f"{mean[a, b]:+.3f} ± {error[a, b]:.3f} ({both[a, b]:+.3f})"
                for b in range(len(NOISES))
            ),
        ]
        for a, share in enumerate(OUTSIDE)
    ]
    words = (
        "The disagreement error of RankRLS minus that of KPCRank, ± s.e. over "
        f"{DRAWS} draws of rows with {REPEATS} samples of noise each; in brackets, minus that of "
        "components with a ridge. Above 0, the components are better."
    )
    picture = "![where KPCRank is better than RankRLS, and where it is not](region.svg)"
    return f"{words}\n\n{markdown(header, rows)}\n\n{picture}"


def figure(found: dict[str, np.ndarray], path: Path) -> None:
    """The differences as colours, with their values."""
    from rankwise.plots import new_axes, save_figure

    gain = (found["RankRLS"] - found["KPCRank"]).mean(axis=(0, 3))
    (ax,) = new_axes(size=(5.6, 3.9))
    ax.grid(visible=False)
    most = float(np.abs(gain).max())
    ax.imshow(gain, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", origin="lower")
    for a, b in np.ndindex(gain.shape):
        ink = "white" if abs(gain[a, b]) > 0.6 * most else "black"
        ax.text(b, a, f"{gain[a, b]:+.3f}", ha="center", va="center", fontsize=9, color=ink)
    ax.set_xticks(range(len(NOISES)), [f"{k:g}" for k in NOISES])
    ax.set_yticks(range(len(OUTSIDE)), [f"{share:.0%}" for share in OUTSIDE])
    ax.set_xlabel("noise, in standard deviations of the scores")
    ax.set_ylabel("variance of scores outside of\nthe first five components")
    ax.set_title("Error of RankRLS minus error of KPCRank: blue, KPCRank is better", fontsize=10)
    save_figure(ax.figure, path)
