"""The study of `rankwise preferences`, and its page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel
from sklearn.preprocessing import StandardScaler

from rankwise import PairwiseGP, RankRLS, __version__
from rankwise.backends.arrays import Array
from rankwise.data import ComparisonData
from rankwise.holdout.scores import ObservedComparisons, logistic_slope
from rankwise.model_selection import LeaveComparisonOut, leave_comparison_out, leave_item_out
from rankwise.plots import figure_svg, plot_hold_out, plot_item_ranking, plot_reliability
from rankwise.plots.item_plots import rank_intervals
from rankwise.report import Facts, Figure, Page, Section, Text
from rankwise.tables import Column, Table, plural

KERNEL_ITEMS = 2000  # up to which a kernel is tried
INTERVAL_ITEMS = 300  # up to which items get intervals
FOLDS = 5
Z = 1.96


@dataclass(frozen=True, eq=False)
class PreferenceStudy:
    """Rankers that were tried, and the best one, fitted to all comparisons.

    Attributes
    ----------
    data : ComparisonData
    trials : dict of str to LeaveComparisonOut
        Held-out comparisons, or groups of them, by kernel.
    kernel : str
        The kernel of the best ranker.
    ranker : RankRLS
    """

    data: ComparisonData
    trials: dict[str, LeaveComparisonOut]
    kernel: str
    ranker: Any

    @classmethod
    def of(cls, data: ComparisonData, kernels: tuple[str, ...]) -> PreferenceStudy:
        """Hold out comparisons for each kernel and alpha, and fit the best ranker."""
        trials = {
            kernel: leave_comparison_out(
                _ranker(kernel), data.X, data.comparisons, metric="log_loss"
            )
            for kernel in kernels
        }
        best = min(trials, key=lambda kernel: float(trials[kernel].score.min()))
        found = trials[best]
        ranker = _ranker(best, found.best_alpha).fit_pairs(data.X, data.comparisons)
        margin, weight = found.observed.margin, found.observed.weight
        difference = found.differences[found.best_index]
        ranker.preference_slope_ = logistic_slope(difference, margin, weight)
        return cls(data, trials, best, ranker)

    @property
    def best(self) -> LeaveComparisonOut:
        """The hold-outs of the best kernel."""
        return self.trials[self.kernel]

    @property
    def unit(self) -> str:
        """What was held out."""
        return "comparison" if self.data.comparisons.groups is None else "group"

    @cached_property
    def nested(self) -> tuple[ObservedComparisons, Array]:
        """Probabilities by rankers that were chosen without looking at the comparison's fold.

        In each of five folds of groups, kernel and alpha are chosen by the log-loss on the other
        folds.
        """
        observed = self.best.observed
        chances = np.concatenate([trial.probabilities for trial in self.trials.values()])
        loss = np.stack([observed.values("log_loss", p, p) for p in chances])
        out, fold = np.empty(len(observed.margin)), observed.codes % FOLDS
        for k in np.unique(fold):
            others = observed.weight * (fold != k)
            out[fold == k] = chances[int(np.argmin(loss @ others))][fold == k]
        return observed, out

    def nested_score(self, metric: str) -> tuple[float, float]:
        """A metric of `nested`, and its standard error."""
        observed, chance = self.nested
        return observed.score(metric, chance - 0.5, chance)

    @cached_property
    def new_items(self) -> LeaveComparisonOut:
        """Comparisons of two items, both of which are new."""
        ranker = _ranker(self.kernel, self.best.best_alpha)
        return leave_item_out(ranker, self.data.X, self.data.comparisons)

    @cached_property
    def process(self) -> Any:
        """A Gaussian process for intervals of scores and ranks; None if there are many items."""
        items = self.data.comparisons.items
        graded = not np.isin(self.data.comparisons.margin, (-1.0, 0.0, 1.0)).all()
        if items is None or len(items) > INTERVAL_ITEMS or graded:
            return None
        kernel = 0.1 * DotProduct(0.0, "fixed") + WhiteKernel(0.1)
        return PairwiseGP(kernel).fit_pairs(self.standardized, self.data.comparisons)

    @cached_property
    def standardized(self) -> Array:
        """Features with mean 0 and variance 1."""
        return StandardScaler().fit_transform(self.data.X)

    def tried_table(self) -> Table:
        """Each kernel at its best alpha, and the baselines."""
        rows: list[tuple[Any, ...]] = []
        for kernel, trial in self.trials.items():
            k = trial.best_index
            accuracy, loss = trial.scores("accuracy"), trial.scores("log_loss")
            chosen = "chosen" if kernel == self.kernel else ""
            parts = accuracy[0][k], accuracy[1][k], loss[0][k], loss[1][k]
            rows.append((f"RankRLS, {kernel}", f"{trial.alphas[k]:.3g}", *parts, chosen))
        for name, found in self.best.baselines().items():
            label = "a random guess" if name == "random" else "the first one wins"
            rows.append((label, "", found["accuracy"], None, found["log_loss"], None, ""))
        names = ("ranker", "alpha", "accuracy", "s.e.", "log-loss", "s.e.", "")
        count = plural(len(self.data.comparisons), "comparison")
        title = f"Predictions for {count}, each by a ranker without its {self.unit}"
        return Table(tuple(map(Column, names)), tuple(rows), title)

    def ranking_table(self, top: int | None) -> Table:
        """Items from best to worst, with intervals of scores and ranks if there are few."""
        scores, names, note = self.ranker.predict(self.data.X), self.data.names, ""
        columns = [Column("rank"), Column("item"), Column("score", ".3f")]
        intervals: list[tuple[str, ...]] = [()] * len(names)
        gp = self.process
        if gp is not None:
            X = self.standardized
            scores, std = gp.predict(X, contrast="mean", return_std=True)
            low, high = rank_intervals(gp.rank_probabilities(X, random_state=0))
            columns += [Column("95% interval"), Column("95% of ranks")]
            intervals = [
                (f"{s - Z * d:.2f} to {s + Z * d:.2f}", f"{a}" if a == b else f"{a} to {b}")
                for s, d, a, b in zip(scores, std, low, high, strict=True)
            ]
            note = (
                "Scores are relative to their mean, by a Gaussian process on the same features "
                "with an independent part for each item."
            )
        order = np.argsort(-scores, kind="stable")[:top]
        rows = tuple((k, names[i], float(scores[i]), *intervals[i]) for k, i in enumerate(order, 1))
        title = f"The best {len(rows)} of {len(names)} items" if top else "All items"
        return Table(tuple(columns), rows, title, note)

    def feature_table(self, top: int = 15) -> Table | None:
        """The coefficients of a linear ranker, per standard deviation of a feature."""
        if self.kernel != "linear":
            return None
        effect = self.ranker.coef_ * self.data.X.std(axis=0)
        order = np.argsort(-np.abs(effect), kind="stable")[:top]
        columns = Column("feature"), Column("effect of one s.d.", ".3f")
        rows = tuple((self.data.feature_names[k], float(effect[k])) for k in order)
        note = "The change of the score. The ranker was fitted to a difference of 1 for each win."
        return Table(columns, rows, "Effects of the features", note)

    def context_table(self) -> Table | None:
        """The weights of the context."""
        given = self.data.comparisons
        if given.context is None:
            return None
        names = given.context_names or [f"context {k}" for k in range(given.context.shape[1])]
        rows = tuple(zip(names, self.ranker.context_coef_.tolist(), strict=True))
        title = "What the context of a comparison adds to the difference of scores"
        note = "It is not part of the scores of items."
        return Table((Column("context"), Column("weight", ".3f")), rows, title, note)

    def conclusions(self) -> list[str]:
        """What to expect of the ranker, in sentences."""
        accuracy, error = self.nested_score("accuracy")
        loss, loss_error = self.nested_score("log_loss")
        low, high = accuracy - Z * error, accuracy + Z * error
        each = "comparison" if self.unit == "comparison" else "whole group"
        lines = [
            f"Expected accuracy on new comparisons: {accuracy:.3f} (95% interval {low:.3f} to "
            f"{high:.3f}), log-loss {loss:.3f} ± {loss_error:.3f}. Each {each} was predicted by "
            "rankers that neither saw it nor were chosen on it."
        ]
        if low <= 0.5:
            lines.append("This may be no better than chance: add comparisons or features.")
        if self.data.comparisons.items is not None:
            (new,), (spread,) = self.new_items.scores("accuracy")
            lines.append(
                f"Two items that were never compared: {new:.3f} ± {spread:.3f}, with all "
                "comparisons of both held out."
            )
        return lines


def _ranker(kernel: str, alpha: Any = "auto") -> RankRLS:
    return RankRLS(alpha, kernel=kernel, scale="standard")


SHOWN = 30  # items in the picture of the ranking


def write_page(study: PreferenceStudy, path: Path, source: str) -> None:
    """Accuracy, calibration, the ranking of items, and the effects of the features."""
    first, *others = study.conclusions()
    accuracy, error = study.nested_score("accuracy")
    loss, _ = study.nested_score("log_loss")
    brier, _ = study.nested_score("brier")
    observed, chance = study.nested
    facts = Facts(
        (
            (f"{accuracy:.3f} ± {1.96 * error:.3f}", "accuracy, 95% interval"),
            (f"{loss:.3f}", f"log-loss ({np.log(2):.3f} at random)"),
            (f"{brier:.3f}", "Brier score (0.25 at random)"),
            (f"{observed.calibration_error(chance):.3f}", "calibration error"),
        )
    )
    sections = [
        Section("", [facts, *(Text(line) for line in others)]),
        Section("Are the probabilities right?", [_reliability(study)]),
        Section("What was tried", [study.tried_table(), _curves(study)]),
    ]
    if study.data.comparisons.items is not None:
        blocks = [] if study.process is None else [_ranking(study)]
        sections.append(Section("The ranking", [*blocks, study.ranking_table(None)]))
    told = [table for table in (study.feature_table(), study.context_table()) if table is not None]
    if told:
        sections.append(Section("What the ranker has learned", told))
    Page(
        f"Preferences in {source}",
        first,
        sections,
        footer=f"Made by `rankwise preferences`, rankwise {__version__}.",
    ).write(path)


def _reliability(study: PreferenceStudy) -> Figure:
    observed, chance = study.nested
    decided = (observed.margin != 0) & (observed.weight > 0)
    margin, p = observed.margin[decided], chance[decided]
    ahead = p >= 0.5
    ax = plot_reliability(
        np.where(ahead, margin > 0, margin < 0),
        np.where(ahead, p, 1.0 - p),
        n_bins=max(2, min(10, int(decided.sum()) // 10)),
        data="held-out comparisons",
    )
    return Figure(
        figure_svg(ax.figure),
        "Observed frequency of wins against the predicted probability",
        "The predicted winner of each held-out comparison: its probability, and how often it won. "
        "Ties are left out.",
    )


def _curves(study: PreferenceStudy) -> Figure:
    ax = plot_hold_out(study.trials, ylabel="held-out log-loss (± s.e.)")
    return Figure(figure_svg(ax.figure), "Log-loss against alpha, for each kernel")


def _ranking(study: PreferenceStudy) -> Figure:
    ax = plot_item_ranking(study.process, study.standardized, names=study.data.names, top=SHOWN)
    return Figure(
        figure_svg(ax.figure),
        "Scores of items with intervals, from best to worst",
        f"At most {SHOWN} items. The numbers on the right are 95% intervals of the ranks.",
    )
