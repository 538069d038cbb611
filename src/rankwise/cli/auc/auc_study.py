"""What `rankwise auc` finds out: the AUC, how sure it is, and what the choice of alpha adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise import RankRLS
from rankwise.data.sample_files import SampleData
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
from rankwise.tables import Column, Table, plural

FOLDS, REPEATS = 5, 10


@dataclass(frozen=True, eq=False)
class AUCStudy:
    """Results of all pairs of samples.

    With groups, rows of a group must be held out together: there is a nested AUC only.
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
        curve = interval = test = None
        if data.groups is None:
            interval = auc_interval(ranker, X, y, strata=data.strata)
            if data.strata is None:
                curve = leave_pair_out(ranker, X, y)
            if n_permutations:
                test = permutation_test(
                    ranker,
                    X,
                    y,
                    strata=data.strata,
                    n_permutations=n_permutations,
                    random_state=seed,
                )
        nested = nested_leave_pair_out(
            ranker,
            X,
            y,
            outer=FOLDS,
            n_repeats=REPEATS,
            groups=data.groups,
            strata=data.strata,
            random_state=seed,
        )
        return cls(data, kernel, curve, interval, test, nested)

    def columns_table(self, shown: int | None) -> Table:
        """What became of each column; features beyond the first ones are counted only."""
        rows = [(name, what) for name, what in self.data.columns if what != "a feature"]
        plain = [name for name, what in self.data.columns if what == "a feature"]
        listed = plain if shown is None else plain[:shown]
        rows += [(name, "a feature") for name in listed]
        rest = len(plain) - len(listed)
        note = f"And {plural(rest, 'more feature')}." if rest else ""
        return Table((Column("column", ""), Column("used as", "")), tuple(rows), note=note)

    def table(self) -> Table:
        """The AUCs with their intervals, and the p-value."""
        rows: list[tuple[Any, ...]] = []
        if self.interval is not None:
            p = None if self.test is None else self.test.p_value
            found = self.interval
            rows.append(("all pairs, alpha chosen on them", found.auc, found.low, found.high, p))
        nested = self.nested
        rows.append(
            ("nested: alpha chosen without them", nested.auc, nested.low, nested.high, None)
        )
        columns = (
            Column("held out", ""),
            Column("AUC", ".3f"),
            Column("low", ".3f"),
            Column("high", ".3f"),
            Column("p", ".3g"),
        )
        return Table(columns, tuple(rows), note="Intervals of 95%.")

    def conclusions(self) -> list[str]:
        """The results in words."""
        lines = []
        if self.interval is not None:
            lines.append(
                f"A random sample of {self.data.classes[1]!r} is ranked above one of "
                f"{self.data.classes[0]!r} with probability {self.interval.auc:.3f} "
                f"({self.interval.low:.3f} to {self.interval.high:.3f}), at alpha = "
                f"{self.interval.alpha:.4g}."
            )
        if self.test is not None:
            test = self.test
            lines.append(
                f"Permuted labels reach this in {int((test.null >= test.score).sum()):,} of "
                f"{len(test.null):,} cases: p = {test.p_value:.3g} ± {test.standard_error:.1g}. "
                "The choice of alpha is part of each."
            )
        if self.nested.optimism is not None and self.data.groups is None:
            lines.append(
                f"With alpha chosen without the rows that are compared, the AUC is "
                f"{self.nested.auc:.3f} ({self.nested.low:.3f} to {self.nested.high:.3f}): report "
                "this one if the data were used for the choice."
            )
        if self.data.groups is not None:
            lines.append(
                f"Rows of a group are held out together: the AUC is {self.nested.auc:.3f} "
                f"({self.nested.low:.3f} to {self.nested.high:.3f}). There is no p-value, since "
                "permuted labels would separate the rows of a group."
            )
        return lines

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
        within = " within strata" if data.strata is not None else ""
        if self.interval is not None:
            parts.append(
                f"Each of {self.interval.n_pairs:,} pairs of samples of different classes{within} "
                "was predicted by a ranker trained on all other samples (exact leave-pair-out "
                "cross-validation). The regularization parameter, "
                f"{self.interval.alpha:.3g}, maximized the area under the ROC curve (AUC) of these "
                f"pairs: {self.interval.auc:.3f}, 95% confidence interval {self.interval.low:.3f} "
                f"to {self.interval.high:.3f} (DeLong's standard error on the scale of log odds)."
            )
        if self.test is not None:
            parts.append(
                f"In a permutation test with {len(self.test.null):,} permutations of the "
                f"labels{within}, each with its own choice of the parameter, p = "
                f"{self.test.p_value:.3g}."
            )
        held = "groups" if data.groups is not None else "samples"
        parts.append(
            f"With the parameter chosen by leave-pair-out within the training samples of {REPEATS} "
            f"times {FOLDS} stratified folds of {held} (nested cross-validation), the AUC was "
            f"{self.nested.auc:.3f} ({self.nested.low:.3f} to {self.nested.high:.3f})."
        )
        parts.append(f"Computed by rankwise {version} from {source}.")
        return " ".join(parts)

    def roc_scores(self) -> Any:
        """Tournament scores, for a ROC curve; None with strata or groups, where none exists."""
        if self.interval is None or self.data.strata is not None:
            return None
        ranker = RankRLS(self.interval.alpha, kernel=self.kernel, scale="standard")
        return np.asarray(tournament_scores(ranker, self.data.X, self.data.y))
