"""Components whose number, or ridge penalty, or both are chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import ParameterError
from rankwise.estimators.components.component_space import ComponentSpace
from rankwise.estimators.components.held_out_errors import ComponentErrors, held_out_errors
from rankwise.problem import Coordinates, Fit, Problem, Space
from rankwise.solvers.kpca import Count


@dataclass(frozen=True, eq=False)
class ChosenComponentSpace(Space):
    """Functions of kernel components, chosen by held-out pairs.

    `cv`, `rule` and `max_components` are the parameters of `KPCRank`. If `chooses_number` is false,
    the number is that of the space, and only alpha is chosen.
    """

    space: ComponentSpace
    cv: Any
    rule: str
    max_components: int | None
    chooses_number: bool = True
    shared: ClassVar[tuple[str, ...]] = ("components",)
    takes_sparse: ClassVar[bool] = True
    has_own_hold_outs: ClassVar[bool] = True

    @property
    def limit(self) -> Count:
        """The largest number of components that is tried."""
        if self.chooses_number:
            return Count(self.max_components, strict=False)
        return self.space.count

    def with_components(self, problem: Problem) -> ChosenComponentSpace:
        """The same with the components of all rows, which are then computed only once."""
        return replace(self, space=self.space.with_components(problem, self.limit))

    def errors(self, problem: Problem, alphas: Sequence[float]) -> list[ComponentErrors]:
        """Held-out errors for every number of components, for each alpha.

        The nested error is that of the rule "best", so that another rule has none.
        """
        limit = replace(self.limit, strict=False)
        found = held_out_errors(self.space, problem, alphas, self.cv, limit)
        if self.rule == "best":
            return found
        return [replace(one, nested_error=None) for one in found]

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Choose the number of components for each alpha, and fit to all rows."""
        exact = isinstance(self.cv, str)  # folds have components of their own
        settled = self.with_components(problem) if exact else self
        errors = settled.errors(problem, alphas)
        return settled.fit(problem, alphas, errors, [one.chosen(self.rule) for one in errors])

    def solve_best(self, problem: Problem) -> tuple[float, Fit]:
        """Choose alpha and the number of components together, and fit to all rows.

        The alphas are 0 and `ComponentSpace.alphas`. With the rule "one_se", the fewest components
        within one standard error of the smallest error are used, with the largest such alpha.
        """
        settled = self.with_components(problem)
        alphas = [0.0, *settled.space.alphas(problem, self.limit)]
        errors = settled.errors(problem, alphas)
        a, p = _best(errors, self.rule, self.chooses_number)
        return alphas[a], settled.fit(problem, [alphas[a]], [errors[a]], [p])

    def fit(
        self,
        problem: Problem,
        alphas: Sequence[float],
        errors: Sequence[ComponentErrors],
        numbers: Sequence[int],
    ) -> Fit:
        """Fit to all rows, with these numbers of components if they are to be chosen."""
        space = self.space
        if self.chooses_number:
            space = replace(space, count=Count(max(numbers), strict=False))
        fit = space.solve(problem, alphas)
        if not self.chooses_number:
            numbers = [solution.n_components for solution in fit.solutions]
        solutions = [
            solution.with_number(min(p, solution.n_components), found)
            for solution, p, found in zip(fit.solutions, numbers, errors, strict=True)
        ]
        return Fit(fit.basis, solutions)

    def fixed(self) -> ComponentSpace:
        """The space for exact hold-outs, which need a fixed number of components."""
        if not self.chooses_number:
            return self.space
        raise ParameterError(
            "Exact hold-outs keep the components fixed and need a fixed n_components: got "
            'n_components="cv". Use RankingSearchCV with a number of folds, which refits.'
        )

    def hold_out_queries(
        self, problem: Problem, alphas: Sequence[float], folds: Sequence[Index]
    ) -> Array:
        """As for the space of a fixed number of components."""
        return self.fixed().hold_out_queries(problem, alphas, folds)

    def coordinates(self, problem: Problem) -> Coordinates:
        """Coordinates on the components of all rows."""
        return self.fixed().coordinates(problem)


def _best(errors: list[ComponentErrors], rule: str, any_number: bool) -> tuple[int, int]:
    """Which alpha, in ascending order, and how many components a rule chooses.

    The fewest components that the rule allows, and the largest alpha with so many.
    """
    p = min(len(found.error) for found in errors)
    tried = slice(0, p) if any_number else slice(p - 1, p)
    error = np.array([found.error[tried] for found in errors])
    limit = error.min()
    if rule == "one_se":
        a, k = np.unravel_index(np.argmin(error), error.shape)
        spread = errors[a].standard_error[tried][k]
        limit += spread if np.isfinite(spread) else 0.0
    allowed = error <= limit
    first = np.where(allowed.any(axis=1), np.argmax(allowed, axis=1), p)
    fewest = int(first.min())
    return int(np.flatnonzero(first == fewest)[-1]), fewest + 1
