"""The study of `rankwise auc`, and its page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import RankRLS, __version__
from rankwise.data.sample_files import SampleData
from rankwise.errors import DataError
from rankwise.model_selection import (
    AUCInterval,
    LeavePairOut,
    NestedLeavePairOut,
    PermutationTest,
    auc_interval,
    leave_pair_out,
    nested_leave_pair_out,
    permutation_test,
    tournament_scores,
)
from rankwise.plots import figure_svg, plot_hold_out, plot_null, plot_roc
from rankwise.report import Facts, Figure, Page, Section, Text
from rankwise.tables import Column, Table, plural

FOLDS, REPEATS = 5, 10


@dataclass(frozen=True, eq=False)
class AUCStudy:
    """Results of all pairs of samples.

    With groups, pairs of groups are held out. If their rows have different labels, there is no
    permutation test; if two groups have all rows of a class, there is a nested AUC only.
    """

    data: SampleData
    kernel: str
    curve: LeavePairOut | None
    interval: AUCInterval | None
    test: PermutationTest | None
    nested: NestedLeavePairOut

    @classmethod
    def of(cls, data: SampleData, kernel: str, n_permutations: int, seed: int) -> AUCStudy:
        """Hold out pairs, permute labels, and nest the choice of alpha."""
        ranker, X, y = RankRLS(kernel=kernel, scale="standard"), data.X, data.y
        units: dict[str, Any] = {"strata": data.strata, "groups": data.groups}
        curve = interval = test = None
        try:
            interval = auc_interval(ranker, X, y, **units)
        except DataError:  # some pair of groups has all rows of a class
            if data.groups is None:
                raise
        else:
            curve = leave_pair_out(ranker, X, y, **units)
            if n_permutations and data.groups_are_whole():
                options = {"n_permutations": n_permutations, "random_state": seed}
                test = permutation_test(ranker, X, y, **units, **options)
        folds: dict[str, Any] = {"outer": FOLDS, "n_repeats": REPEATS, "random_state": seed}
        nested = nested_leave_pair_out(ranker, X, y, **folds, **units)
        return cls(data, kernel, curve, interval, test, nested)

    def columns_table(self, shown: int) -> Table:
        """What became of each column; features beyond the first ones are counted only."""
        rows = [(name, what) for name, what in self.data.columns if what != "a feature"]
        plain = [name for name, what in self.data.columns if what == "a feature"]
        listed = plain[:shown]
        rows += [(name, "a feature") for name in listed]
        rest = len(plain) - len(listed)
        more = f"And {plural(rest, 'more feature')}." if rest else ""
        note = " ".join(words for words in (more, self.data.missing) if words)
        return Table((Column("column", ""), Column("used as", "")), tuple(rows), note=note)

    def table(self) -> Table:
        """The AUCs with their intervals, and the p-value."""
        p = None if self.test is None else self.test.p_value
        found: dict[str, Any] = {"all pairs, alpha chosen on them": (self.interval, p)}
        found["nested: alpha chosen without them"] = self.nested, None
        rows = [
            (name, one.auc, one.low, one.high, p)
            for name, (one, p) in found.items()
            if one is not None
        ]
        columns = [Column("held out", ""), *(Column(n, ".3f") for n in ("AUC", "low", "high"))]
        note = "" if self.nested.why else "Intervals of 95%."
        return Table((*columns, Column("p", ".3g")), tuple(rows), note=note)

    def conclusions(self) -> list[str]:
        """The results in words."""
        lines = []
        if self.interval is not None:
            where = "" if self.data.strata is None else " of the same stratum"
            lines.append(
                f"A random sample of {self.data.classes[1]!r} is ranked above one of "
                f"{self.data.classes[0]!r}{where} with probability {self.interval.auc:.3f} "
                f"({self.interval.words()}), at alpha = {self.interval.alpha:.4g}."
            )
        if self.test is not None:
            test = self.test
            lines.append(
                f"Permuted labels reach this in {test.n_as_good:,} of "
                f"{len(test.null):,} cases: p = {test.p_value:.3g} ± {test.standard_error:.1g}. "
                "The choice of alpha is part of each."
            )
        if self.data.groups is not None:
            lines.append(self._about_groups())
        if self.nested.optimism is not None:
            lines.append(
                f"With alpha chosen without the rows that are compared, the AUC is "
                f"{self.nested.auc:.3f} ({self.nested.words()}): report this one if the data were "
                "used for the choice."
            )
        return [*lines, self.nested.why] if self.nested.why else lines

    def _about_groups(self) -> str:
        """What holding out groups means for the results."""
        nested = f"{self.nested.auc:.3f} ({self.nested.words()})"
        if self.interval is None:
            return (
                f"Rows of a group are held out together: the nested AUC is {nested}. Two groups "
                "have all rows of a class, so that pairs of groups cannot be held out, and there "
                "is no p-value."
            )
        text = "Rows of a group are held out together, and a group counts as one observation."
        if self.test is None and not self.data.groups_are_whole():
            text += (
                " There is no p-value: rows of a group have different labels or strata, and "
                "permuted labels would divide it."
            )
        return text

    def methods(self, source: str, version: str) -> str:
        """A paragraph for the methods section of a paper, with its numbers."""
        data = self.data
        positive = int(data.y.sum())
        kernel = {"linear": "a linear kernel", "rbf": "a Gaussian kernel"}[self.kernel]
        parts = [
            f"We ranked {len(data.y)} samples ({positive} {data.classes[1]}, "
            f"{len(data.y) - positive} {data.classes[0]}) by {data.X.shape[1]} standardized "
            f"features with regularized least-squares ranking (RankRLS) and {kernel}."
        ]
        parts += [data.missing] if data.missing else []
        within = " within strata" if data.strata is not None else ""
        if self.interval is not None:
            rest, unit = "other samples", "sample"
            if data.groups is not None:
                rest, unit = "samples of other groups", "group"
            interval = ""
            if self.interval.low is not None:
                interval = (
                    f", 95% confidence interval {self.interval.words()} (symmetric on the scale "
                    f"of log odds; its variance includes the effect of each {unit} as test and as "
                    "training data, with a t quantile)"
                )
            parts.append(
                f"Each of {self.interval.n_pairs:,} pairs of samples of different classes{within} "
                f"was predicted by a ranker trained on all {rest} (leave-pair-out "
                "cross-validation, given the standardization of all samples). The regularization "
                "parameter, "
                f"{self.interval.alpha:.3g}, maximized the area under the ROC curve (AUC) of these "
                f"pairs: {self.interval.auc:.3f}{interval}."
            )
        if self.test is not None:
            of_groups = " of groups" if data.groups is not None else ""
            parts.append(
                f"In a permutation test with {len(self.test.null):,} permutations of the "
                f"labels{of_groups}{within}, each with its own choice of the parameter, p = "
                f"{self.test.p_value:.3g}."
            )
        held = "groups" if data.groups is not None else "samples"
        nested = "" if self.nested.low is None else f" ({self.nested.words()})"
        parts.append(
            f"With the parameter chosen by leave-pair-out within the training samples of {REPEATS} "
            f"times {FOLDS} stratified folds of {held} (nested cross-validation), the AUC was "
            f"{self.nested.auc:.3f}{nested}."
        )
        parts.append(f"Computed by rankwise {version} from {source}.")
        return " ".join(parts)

    def draw_roc(self, scores: Any) -> Any:
        """The ROC curve; with a band and an interval if there are enough samples for one."""
        return plot_roc(self.data.y, scores, interval=not self.nested.why).figure

    def roc_scores(self) -> Any:
        """Tournament scores, for a ROC curve; None with strata or groups, where none exists."""
        if self.interval is None or self.data.strata is not None or self.data.groups is not None:
            return None
        ranker = RankRLS(self.interval.alpha, kernel=self.kernel, scale="standard")
        return np.asarray(tournament_scores(ranker, self.data.X, self.data.y))


LISTED = 100  # features in the table of columns


def write_page(study: AUCStudy, path: Path, source: str) -> None:
    """The AUC with its interval, the pictures, a methods paragraph, and the columns."""
    first, *others = study.conclusions()
    nested = study.nested
    facts = [(f"{nested.auc:.3f}", f"nested AUC ({nested.words()})")]
    if study.interval is not None:
        auc = study.interval
        facts.insert(0, (f"{auc.auc:.3f}", f"AUC of all pairs ({auc.words()})"))
        facts.append((f"{auc.alpha:.3g}", "alpha"))
    if study.test is not None:
        facts.insert(1, (f"{study.test.p_value:.3g}", "p-value"))
    figures: list[tuple[str, Any, str, str]] = []
    scores = study.roc_scores()
    if scores is not None:
        caption = "ROC curve of tournament scores: the share of held-out pairs that a sample wins."
        if not nested.why:
            caption += " The band and the interval of its area have 95% of bootstrap samples."
        alt = "True positive rate against false positive rate of held-out samples"
        figures.append(("ROC curve", study.draw_roc(scores), alt, caption))
    if study.test is not None:
        alt = "Histogram of the AUC with permuted labels, and the AUC of the given labels"
        caption = "The AUC of held-out pairs for permuted labels."
        figures.append(("By chance", plot_null(study.test).figure, alt, caption))
    if study.curve is not None:
        drawn = plot_hold_out(study.curve, quantity="auc").figure
        figures.append(("Choice of alpha", drawn, "AUC of held-out pairs against alpha", ""))
    Page(
        f"AUC of {source}",
        first,
        [
            Section("", [Facts(tuple(facts)), *(Text(line) for line in others)]),
            *(Section(name, [Figure(figure_svg(f), *words)]) for name, f, *words in figures),
            Section("Methods", [Text(study.methods(source, __version__))]),
            Section("Columns", [study.columns_table(LISTED)]),
        ],
        footer=f"Made by `rankwise auc`, rankwise {__version__}.",
    ).write(path)
