"""Components whose number is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankwise.errors import ParameterError
from rankwise.estimators.components.component_space import ComponentSpace
from rankwise.estimators.components.held_out_errors import ComponentErrors, held_out_errors
from rankwise.problem import Coordinates, Fit, Problem
from rankwise.solvers.kpca import Count


@dataclass(frozen=True, eq=False)
class ChosenComponentSpace:
    """Functions of kernel components, whose number is chosen by held-out pairs.

    `cv`, `rule` and `max_components` are the parameters of `KPCRank`.
    """

    space: ComponentSpace
    cv: Any
    rule: str
    max_components: int | None

    def errors(self, problem: Problem, alphas: Sequence[float]) -> list[ComponentErrors]:
        """Held-out errors for every number of components, for each alpha."""
        limit = Count(self.max_components, strict=False)
        return held_out_errors(self.space, problem, alphas, self.cv, limit)

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Choose the number of components for each alpha, and fit to all rows."""
        errors = self.errors(problem, alphas)
        numbers = [found.chosen(self.rule) for found in errors]
        fit = replace(self.space, count=Count(max(numbers), strict=False)).solve(problem, alphas)
        solutions = [
            solution.with_number(min(p, solution.n_components), found)
            for solution, p, found in zip(fit.solutions, numbers, errors, strict=True)
        ]
        return Fit(fit.basis, solutions)

    def coordinates(self, problem: Problem) -> Coordinates:
        """Raise an error, since exact hold-outs need a fixed number of components."""
        raise ParameterError(
            "Exact hold-outs keep the components fixed and need a fixed n_components: got "
            'n_components="cv". Use RankingSearchCV with a number of folds, which refits.'
        )
