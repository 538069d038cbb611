"""The study of `rankwise auc`, and its page.

The first interval should not wait: what only the page needs is imported when it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import RankRLS, __version__
from rankwise.cli.studies import LISTED, columns_file
from rankwise.cli.terminal import write_page
from rankwise.data.sample_files import SampleData
from rankwise.errors import DataError
from rankwise.files import write_text
from rankwise.model_selection import (
    AUCInterval,
    NestedLeavePairOut,
    PermutationTest,
    auc_interval,
    leave_pair_out,
    nested_leave_pair_out,
    permutation_test,
    tournament_scores,
)
from rankwise.tables import Column, Table, csv_text, plural

FOLDS, REPEATS = 5, 10  # of the nested hold-outs


@dataclass(frozen=True, eq=False)
class AUCStudy:
    """Results of all pairs of samples, in the order in which they are computed.

    With groups, pairs of groups are held out. If their rows have different labels, there is no
    permutation test; if two groups have all rows of a class, there is a nested AUC only. What was
    not computed is None. Alpha is chosen on the samples, so that the nested AUC is the result, and
    the p-value is its p-value. The AUC of all pairs is optimistic.
    """

    data: SampleData
    kernel: str
    interval: AUCInterval | None = None
    nested: NestedLeavePairOut | None = None
    test: PermutationTest | None = None

    @classmethod
    def of(cls, data: SampleData, kernel: str) -> AUCStudy:
        """Hold out all pairs."""
        study = cls(data, kernel)
        try:
            interval = auc_interval(study.ranker, data.X, data.y, **study.units)
        except DataError:  # some pair of groups has all rows of a class
            if data.groups is None:
                raise
            return study
        return replace(study, interval=interval)

    def with_nested(self, seed: int) -> AUCStudy:
        """And choose alpha without the samples that are compared."""
        folds: dict[str, Any] = {"outer": FOLDS, "n_repeats": REPEATS, "random_state": seed}
        X, y = self.data.X, self.data.y
        return replace(self, nested=nested_leave_pair_out(self.ranker, X, y, **folds, **self.units))

    def with_test(self, n_permutations: int, seed: int) -> AUCStudy:
        """And compute the nested AUC for permuted labels."""
        if not n_permutations or self.interval is None or not self.data.groups_are_whole():
            return self
        test = permutation_test(
            self.ranker, self.data.X, self.data.y, **self.units, cv="nested_leave_pair_out",
            n_permutations=n_permutations, random_state=seed,
        )  # fmt: skip
        return replace(self, test=test)

    @property
    def ranker(self) -> RankRLS:
        return RankRLS(kernel=self.kernel, scale="standard")

    @property
    def units(self) -> dict[str, Any]:
        return {"strata": self.data.strata, "groups": self.data.groups}

    def columns_table(self, shown: int | None) -> Table:
        """What became of each column; features beyond the first ones are counted only."""
        rows = [(name, what) for name, what in self.data.columns if what != "a feature"]
        plain = [(name, what) for name, what in self.data.columns if what == "a feature"]
        rows, rest = rows + plain[:shown], len(plain) - len(plain[:shown])
        more = f"And {plural(rest, 'more feature')}." if rest else ""
        note = " ".join(filter(None, (more, self.data.missing)))
        return Table((Column("column", ""), Column("used as", "")), tuple(rows), note=note)

    def table(self) -> Table:
        """The AUCs with their intervals; the p-value is for the first one."""
        columns = [Column("held out", ""), *(Column(n, ".3f") for n in ("AUC", "low", "high"))]
        p = () if self.test is None else (self.test.p_value,)
        found: list[tuple[str, Any]] = [
            ("nested: alpha chosen without them", self.nested),
            ("all pairs: alpha chosen on them, optimistic", self.interval),
        ]
        rows = [(name, r.auc, r.low, r.high) for name, r in found if r is not None]
        cells = tuple((*row, *(p if k == 0 else p and (None,))) for k, row in enumerate(rows))
        note = "Intervals of 95%."
        if self.nested is not None:
            note += " The nested one takes its rankers as given: without a clear signal, it is "
            note += "too short."
        note = "" if any(row[2] is None for row in rows) else note
        return Table((*columns, *(Column("p", ".3g") for _ in p)), cells, note=note)

    def all_pairs(self) -> str:
        """The AUC of all pairs in words, which is known first; empty if there is none."""
        if self.interval is None:
            return ""
        found = self.interval
        return (
            f"With alpha = {_say(found.alpha)}, chosen on the pairs that are compared, the AUC is "
            f"{found.auc:.3f} ({found.words()}), which is optimistic."
        )

    def conclusions(self) -> list[str]:
        """The results in words, the nested AUC first."""
        lines, nested = [], self.nested
        if nested is not None:
            where = "" if self.data.strata is None else " of the same stratum"
            lines.append(
                f"A random sample of {self.data.classes[1]!r} is ranked above one of "
                f"{self.data.classes[0]!r}{where} with probability {nested.auc:.3f} "
                f"({nested.words()}), with alpha chosen without the samples that are compared."
            )
        if self.test is not None:
            test = self.test
            lines.append(
                f"Permuted labels reach this in {test.n_as_good:,} of "
                f"{len(test.null):,} cases: p = {test.p_value:.3g} ± {test.standard_error:.1g}. "
                "The choice of alpha is part of each."
            )
        if self.data.groups is not None and nested is not None:
            lines.append(self._about_groups())
        lines.append(self.all_pairs())
        why = nested.why if nested is not None else self.interval.why if self.interval else ""
        return [line for line in (*lines, why) if line]

    def _about_groups(self) -> str:
        """What holding out groups means for the results."""
        if self.interval is None:
            return (
                "Rows of a group are held out together. Two groups have all rows of a class, so "
                "that pairs of groups cannot be held out, and there is no p-value."
            )
        text = "Rows of a group are held out together, and a group counts as one observation."
        if self.test is None and not self.data.groups_are_whole():
            text += (
                " There is no p-value: rows of a group have different labels or strata, and "
                "permuted labels would divide it."
            )
        return text

    def methods(self, source: str) -> str:
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
        if self.nested is not None:
            held = "groups" if data.groups is not None else "samples"
            nested = "" if self.nested.low is None else f" ({self.nested.words()})"
            parts.append(
                "With the regularization parameter chosen by leave-pair-out within the training "
                f"samples of {REPEATS} times {FOLDS} stratified folds of {held} (nested "
                f"cross-validation), the area under the ROC curve (AUC) of pairs of samples of "
                f"different classes{within} was {self.nested.auc:.3f}{nested}."
            )
        if self.test is not None:
            of_groups = " of groups" if data.groups is not None else ""
            parts.append(
                f"In a permutation test of the nested AUC with {len(self.test.null):,} "
                f"permutations of the labels{of_groups}{within}, each with its own choice of the "
                f"parameter, p = {self.test.p_value:.3g}."
            )
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
                f"was also predicted by a ranker trained on all {rest} (leave-pair-out "
                "cross-validation, given the standardization of all samples). With the parameter "
                f"that maximized the AUC of these pairs, {_say(self.interval.alpha)}, the AUC was "
                f"{self.interval.auc:.3f}{interval}; the choice makes it optimistic."
            )
        parts.append(f"Computed by rankwise {__version__} from {source}.")
        return " ".join(parts)

    def draw_roc(self) -> Any:
        """The ROC curve of tournament scores; None with strata or groups, where none exists.

        It has a band if there are enough samples for an interval. The interval of the area is not
        drawn: it takes the rankers as given, and is shorter than the printed ones.
        """
        if self.interval is None or self.data.strata is not None or self.data.groups is not None:
            return None
        from rankwise.plots import plot_roc

        ranker = RankRLS(self.interval.alpha, kernel=self.kernel, scale="standard")
        scores = np.asarray(tournament_scores(ranker, self.data.X, self.data.y))
        band: Any = False if self.interval.why else "band"
        return plot_roc(self.data.y, scores, label="tournament scores", interval=band)


def _say(alpha: float) -> str:
    """A number with four digits: 50,120 instead of 5.012e+04."""
    return f"{alpha:.4g}" if not 1e4 <= alpha < 1e9 else f"{float(f'{alpha:.4g}'):,.0f}"


def write_auc(study: AUCStudy, path: Path, source: str) -> None:
    """The AUC with its interval, the pictures, a methods paragraph, and the columns."""
    from rankwise.plots import plot_hold_out, plot_null
    from rankwise.report import Facts, Figure, Section, Text

    first, *others = study.conclusions()
    facts: list[tuple[str, str]] = []
    if study.nested is not None:
        facts.append((f"{study.nested.auc:.3f}", f"nested AUC ({study.nested.words()})"))
    if study.test is not None:
        facts.append((f"{study.test.p_value:.3g}", "p-value"))
    roc, chance, choice = study.draw_roc(), [], []
    if study.interval is not None:
        found = study.interval
        facts.append((f"{found.auc:.3f}", f"AUC of all pairs, optimistic ({found.words()})"))
        facts.append((_say(found.alpha), "alpha"))
    caption = (
        "ROC curve of tournament scores: the share of held-out pairs that a sample wins. Its area "
        "may differ a little from the AUC of all pairs. Both are optimistic."
    )
    if study.interval is not None and not study.interval.why:
        caption += (
            " The band has 95% of bootstrap samples of these scores. It takes the rankers as "
            "given: the intervals of the AUC above do not follow from it."
        )
    alt = "True positive rate against false positive rate of held-out samples"
    curve = [] if roc is None else [Figure.of(roc, alt, caption)]
    if study.test is not None:
        alt = "Histogram of the nested AUC with permuted labels, and with the given labels"
        caption = "The nested AUC for permuted labels."
        chance = [Figure.of(plot_null(study.test), alt, caption)]
    if study.interval is not None:
        curve_of_alpha = leave_pair_out(study.ranker, study.data.X, study.data.y, **study.units)
        drawn = plot_hold_out(curve_of_alpha, quantity="auc")
        choice = [Figure.of(drawn, "AUC of held-out pairs against alpha")]
    columns: list[Any] = [study.columns_table(LISTED)]
    if len(study.data.columns) > len(columns[0].rows):
        table, file = study.columns_table(None), columns_file(path)
        names = [column.name for column in table.columns]
        write_text(file, csv_text(names, table.rows))
        columns.append(Text(f"All columns are in {file.name}."))
    sections = [
        Section("", [Facts(tuple(facts)), *map(Text, others)]),
        Section("ROC curve", curve),
        Section("By chance", chance),
        Section("Choice of alpha", choice),
        Section("Methods", [Text(study.methods(source))]),
        Section("Columns", columns),
    ]
    write_page(path, "auc", f"{study.data.title}, {source}", first, sections)
