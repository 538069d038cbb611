"""The sinc experiment of section 6.2, and both panels of Figure 1."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rankwise import ComponentOptions, KPCRank, PairwiseGP, RankRLS
from rankwise.plots import COLORS, INK, new_axes, plot_posterior, save_figure
from rankwise.report import Column, Table
from reproduce.kpcrank.sinc_comparisons import make_sinc_comparisons

TEST_PAIRS = 5000
MODELS = {
    "winner": ({}, 0.0),
    "winner, 5% flipped": ({}, 0.05),
    "winner, no model of flips": ({"flips": 0.0}, 0.0),
    "winner, 5% flipped, no model of flips": ({"flips": 0.0}, 0.05),
    "the same, averaged over the width": ({"flips": 0.0, "marginalize": "grid"}, 0.05),
    "margin": ({"likelihood": "gaussian"}, 0.0),
}
# The paper's two models; it does not say which one its figure is for, nor whether with flips.
OF_PAPER = (
    "winner, no model of flips",
    "winner, 5% flipped, no model of flips",
    "the same, averaged over the width",
    "margin",
)


def fit(settings: dict, data, **more) -> PairwiseGP:
    """A Gaussian process on the training comparisons of `data`."""
    margin = data.margin_train if settings.get("likelihood") == "gaussian" else None
    gp = PairwiseGP(**settings, **more)
    return gp.fit_pairs(data.X_train, data.pairs_train, margin=margin)


def table(n_seeds: int) -> Table:
    """Errors on new test pairs, over training sets of 379 pairs."""
    paper = json.loads((Path(__file__).parent / "expected.json").read_text(encoding="utf-8"))
    quoted = paper["sinc"]["pairwise probabilistic regression"]
    rows = []
    for name, (settings, flipped) in MODELS.items():
        errors = []
        for seed in range(n_seeds):
            data = make_sinc_comparisons(
                flipped=flipped, n_test_pairs=TEST_PAIRS, random_state=seed
            )
            scores = fit(settings, data).predict(data.X_test)
            first, second = data.pairs_test.T
            errors.append(np.mean(scores[first] <= scores[second]))
        spread = np.std(errors, ddof=1) / np.sqrt(n_seeds) if n_seeds > 1 else None
        published = quoted if name in OF_PAPER else None
        rows.append((name, float(np.mean(errors)), spread, published))
    columns = (
        Column("what comparisons contain"), Column("pair error"), Column("s.e."),
        Column("paper, quoted", ".3f"),
    )  # fmt: skip
    return Table(
        columns,
        tuple(rows),
        f"sinc, 379 training pairs, {n_seeds} training sets, {TEST_PAIRS:,} new test pairs each",
        note="The paper's figure is from one training set and 48 test pairs. It does not say which "
        "of the two models it is for, nor whether 5% of the preferences were flipped, as in the "
        "left panel of its Figure 1.",
    )


def figure(path) -> None:
    """Figure 1: the posterior from flipped comparisons; from score differences, with KPCRank."""
    left, right = new_axes(columns=2, size=(5.2, 3.7))
    grid = np.linspace(-4, 4, 401)[:, None]
    truth = np.sinc(grid.ravel())
    data = make_sinc_comparisons(flipped=0.05, random_state=0)
    panels = (
        (
            left,
            {"flips": 0.0, "marginalize": "grid"},
            "winner, 5% flipped; averaged over the width",
        ),
        (right, {"likelihood": "gaussian"}, "margin; best width"),
    )
    for ax, settings, title in panels:
        clean = data if ax is left else make_sinc_comparisons(random_state=0)
        gp = fit(settings, clean)
        # Comparisons do not determine the mean of the scores; without margins, nor their scale.
        scores = gp.predict(grid)
        level, shape = truth.mean(), truth - truth.mean()
        unit = 1.0 if ax is right else scores @ shape / (shape @ shape)
        plot_posterior(gp, grid, offset=unit * level, label="posterior mean", ax=ax)
        name = "sinc" if ax is right else "sinc, scaled"
        ax.plot(grid, unit * truth, color=INK, lw=1.6, ls=(0, (4, 2)), label=name)
        if ax is right:
            ranker = RankRLS(gp.noise_**2, kernel=gp.kernel_, scale=None)
            ranker.fit_pairs(clean.X_train, clean.pairs_train, margin=clean.margin_train)
            scores = ranker.predict(grid)
            ax.plot(
                grid, scores - scores.mean() + level, color=COLORS[1], lw=2.4,
                ls=(0, (1, 3)), label="RankRLS", zorder=4,
            )  # fmt: skip
            components = KPCRank(gamma=2.0, options=ComponentOptions(max_components=60))
            components.fit_pairs(clean.X_train, clean.pairs_train, margin=clean.margin_train)
            scores = components.predict(grid)
            label = f"KPCRank, p = {components.n_components_}"
            ax.plot(
                grid, scores - scores.mean() + level, color=COLORS[2], lw=1.2, label=label, zorder=5
            )
        ax.set_title(title, fontsize=11)
        ax.legend(frameon=False, fontsize=9)
    save_figure(left.figure, path)
