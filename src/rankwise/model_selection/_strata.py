"""Which rows can be held out: pairs of the same stratum, and of different groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.plans import Pairs, pairs_of_groups, pairs_within


class Units(NamedTuple):
    """Strata, such as hospitals, and groups, such as patients; None if there are none."""

    strata: QueryGroups | None
    groups: QueryGroups | None

    @classmethod
    def of(cls, strata: Any, groups: Any, qid: Any, n_rows: int) -> Units:
        """From an entry for each row; both are for one ranking, without queries."""
        found: list[QueryGroups | None] = []
        for name, ids in (("strata", strata), ("groups", groups)):
            if ids is not None and qid is not None:
                raise ParameterError(
                    f"Give {name} or qid, not both: with qid, pairs are held out within queries."
                )
            found.append(None if ids is None else QueryGroups.of(ids, n_rows, name))
        return cls(*found)

    @property
    def given(self) -> bool:
        return self.strata is not None or self.groups is not None

    def take(self, rows: Index) -> Units:
        """The strata and groups of some rows."""
        return Units(*(None if part is None else part.take(rows) for part in self))

    def pairs(self, problem: HoldOutProblem, *, keep_ties: bool) -> Pairs:
        """All pairs of the same stratum and of different groups."""
        if self.groups is not None:
            strata = QueryGroups.of(self.strata, len(problem.y))
            return pairs_of_groups(problem, self.groups, strata, keep_ties=keep_ties)
        listed = None if self.strata is None else pairs_within(self.strata)
        return Pairs(listed, keep_ties)


def check_two_rows(labels: Array) -> None:
    """With the only row of one of two labels held out, the others say nothing about the order."""
    names, counts = np.unique(labels, return_counts=True)
    if len(names) == 2 and counts.min() < 2:
        raise DataError(
            f"The label {names[np.argmin(counts)]:g} has a single row: without it, nothing is left "
            "to learn this label from. Add rows of this label."
        )
