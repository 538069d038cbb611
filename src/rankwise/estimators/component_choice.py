"""The choice of the number of components, and of their ridge penalty, by held-out errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.graph.query_graph import pair_weight
from rankwise.holdout.alpha_grid import alpha_grid, coordinate_squares
from rankwise.holdout.leave_pair_out import component_pair_losses
from rankwise.kernels import Precomputed
from rankwise.parameters import AnyOf, Choice, Rule, Whole, check_parameters
from rankwise.problem import Coordinates, Fit, Problem, Space, Task
from rankwise.problem.component_space import ComponentSpace
from rankwise.solvers.kpca import Count
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS_AT_ONCE = 2**19  # of held-out scores ranked in one call


OPTIONS: dict[str, Rule] = {
    "selection": Choice("leading", "spectral"),
    "cv": AnyOf(Whole(2), Choice("leave_query_out", "leave_pair_out")),
    "rule": Choice("best", "one_se"),
    "max_components": AnyOf(None, Whole(1, 10**6)),
}


@dataclass(frozen=True)
class ComponentOptions:
    """How `KPCRank` and `KPCR` select components and choose their number.

    Parameters
    ----------
    selection : {"leading", "spectral"}, default="leading"
        Which p directions to use. "leading": the p components of largest variance, the method of
        the paper's Theorem 1. "spectral": the p eigenvectors of F'LF, over all components, with the
        largest eigenvalues, section 4.2 of the paper. These are directions of large variance within
        queries, and predictions differ; for one ranking of all rows they are the same. "spectral"
        needs all eigenvectors, in O(m^3) time. `KPCR` has "leading" only.
    cv : int, "leave_query_out" or "leave_pair_out", default=5
        What is held out for ``n_components="cv"`` and ``alpha="auto"``. An integer: the number of
        folds of queries with different labels (of rows, without qid; of comparisons or groups, in
        `fit_pairs`; both in a fixed order), at most one for each of them. Each fold needs a refit
        with its own components, on the landmarks that remain if they are given as row numbers.
        "leave_query_out" holds out every query, and "leave_pair_out" every pair of rows of one
        global ranking. These two are exact, without refits, and keep the components of all rows.
    rule : {"best", "one_se"}, default="best"
        "best": the number with the smallest held-out error. "one_se": the smallest number whose
        error is within one standard error of the minimum, which is safer if labels are very noisy,
        but often too small otherwise.
    max_components : int or None, default=200
        The largest number that "cv" tries. None: no limit.

    Examples
    --------
    >>> from rankwise import ComponentOptions, KPCRank
    >>> ranker = KPCRank(options=ComponentOptions(cv="leave_query_out", max_components=50))
    """

    selection: str = "leading"
    cv: Any = 5
    rule: str = "best"
    max_components: int | None = 200

    def check(self) -> None:
        """Raise an error if a value is not valid."""
        check_parameters(self, OPTIONS)


@dataclass(frozen=True, eq=False, repr=False)
class ComponentErrors(TableMixin):
    """Held-out errors for 1, 2, 3, ... components.

    Attributes
    ----------
    n_components : ndarray of shape (n,)
        1, 2, ..., n.
    error : ndarray of shape (n,)
        Disagreement error, averaged over queries (or folds, or pairs) and outputs.
    standard_error : ndarray of shape (n,)
        Standard error over queries or folds; for pairs of one ranking, from the share of each row
        in the errors.
    method : str
        What was held out.
    nested_error : float or None
        The mean error of every query (or fold, or row of one ranking) with the number of components
        that has the smallest error on the others. The smallest `error` is too small as an estimate
        for new rows, since it was chosen: by 0.02 to 0.10 in simulations with 40 to 180 rows. The
        nested error was within 0.04 for queries and folds; for pairs of one ranking, it was still
        0.01 to 0.06 too small. None for several outputs, for a single query or fold, and for
        ``rule="one_se"``. The choice of ``alpha="auto"`` is not nested.

    Examples
    --------
    >>> import numpy as np
    >>> errors = ComponentErrors(np.arange(1, 4), np.array([0.3, 0.21, 0.2]), np.full(3, 0.02), "")
    >>> errors.best_n_components, errors.one_se_n_components
    (3, 2)
    """

    n_components: Index
    error: Array
    standard_error: Array
    method: str
    nested_error: float | None = None

    @property
    def best_n_components(self) -> int:
        """The number of components with the smallest error; among equals, the smallest number."""
        return int(self.n_components[np.argmin(self.error)])

    @property
    def one_se_n_components(self) -> int:
        """The fewest components with an error within one standard error of the smallest.

        The rule of Breiman, Friedman, Olshen and Stone: Classification and regression trees, 1984.
        """
        best = int(np.argmin(self.error))
        spread = self.standard_error[best]
        limit = self.error[best] + (spread if np.isfinite(spread) else 0.0)
        return int(self.n_components[np.argmax(self.error <= limit)])

    def chosen(self, rule: str) -> int:
        """The number that a rule chooses."""
        return self.one_se_n_components if rule == "one_se" else self.best_n_components

    def to_table(self) -> Table:
        """A row for each number of components: its error, the standard error, and marks."""
        rows = []
        for p, error, spread in zip(
            self.n_components, self.error, self.standard_error, strict=True
        ):
            marks = []
            if p == self.one_se_n_components:
                marks.append("fewest within one s.e.")
            if p == self.best_n_components:
                marks.append("best")
            rows.append((int(p), error, spread, ", ".join(marks)))
        columns = (Column("components"), Column("error"), Column("s.e."), Column("", ""))
        best, note = self.best_n_components - 1, ""
        if self.nested_error is not None:
            note = f"With the number chosen without the rows that are compared: {self._nested()}."
        return Table(columns, tuple(rows), note=note, best=frozenset({(best, 1)}))

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "n_components": self.n_components,
            "error": self.error,
            "standard_error": self.standard_error,
        }

    def __repr__(self) -> str:
        p = self.best_n_components
        nested = "" if self.nested_error is None else f", {self._nested()}"
        return (
            f"<ComponentErrors: 1 to {len(self.error)} components, best error "
            f"{self.error[p - 1]:.4f} ± {self.standard_error[p - 1]:.4f} at {p}{nested}>"
        )

    def _nested(self) -> str:
        return f"nested error {self.nested_error:.4f}"

    def plot(self, **options: Any) -> Axes:
        """Draw the errors; see `rankwise.plots.plot_component_errors` for the options."""
        from rankwise.plots import plot_component_errors

        return plot_component_errors(self, **options)


def held_out_errors(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], cv: Any, limit: Count
) -> list[ComponentErrors]:
    """Errors for up to `limit` components, for each alpha; `cv` as in `KPCRank`."""
    if not isinstance(cv, str):
        return _errors_by_folds(space, problem, alphas, int(cv), limit)
    if problem.tasks[0].y is None:
        raise DataError(
            f'cv="{cv}" needs scores, but fit_pairs has comparisons: use a number of folds.'
        )
    if cv == "leave_query_out":
        return _errors_by_queries(space, problem, alphas, limit)
    return _errors_by_row_pairs(space, problem, alphas, limit)


def _errors_by_queries(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], limit: Count
) -> list[ComponentErrors]:
    groups = problem.groups
    if groups.n_groups < 2:
        raise DataError(
            'cv="leave_query_out" needs at least two queries: use cv="leave_pair_out" for one '
            "global ranking, or a number of folds."
        )
    y = _labels(problem.tasks)
    _check_comparable(y, groups)
    found = to_host(space.path_without_queries(problem, alphas, limit, list(groups)))
    return [_query_errors(y, f, groups.codes, "leave-query-out") for f in found]


def _errors_by_row_pairs(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], limit: Count
) -> list[ComponentErrors]:
    """Every pair of rows of one ranking held out of the weights, exactly."""
    groups, m, loss = problem.groups, problem.n_rows, problem.loss
    if groups.n_groups > 1 or loss.ties != "include":
        other = 'cv="leave_query_out", or ' if groups.n_groups > 1 else ""
        counted = "" if loss.has_intercept else ', and ties="include"'
        raise DataError(
            f'cv="leave_pair_out" is for one global ranking{counted}: use {other}a number of folds.'
        )
    if m < 6:
        raise DataError(f"Holding out pairs needs at least 6 rows: got {m}.")
    y = _labels(problem.tasks)
    _check_comparable(y, groups)
    at_most = m - 4 if limit.number is None else min(limit.number, m - 4)
    F, eigenvalues = space.fixed_components(problem.X, problem.qid, Count(at_most, strict=False))
    targets, left = backend_of(F).array(y), m - 2
    weight = left * float(pair_weight(loss.weighting, left, left * (left - 1) // 2))
    results = []
    for alpha in alphas:
        found = component_pair_losses(F, eigenvalues, targets, alpha / weight)
        results.append(_pair_errors([(to_host(a), to_host(b)) for a, b in found]))
    return results


def _errors_by_folds(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], n_folds: int, limit: Count
) -> list[ComponentErrors]:
    """Refit without each fold in turn, including the components."""
    tasks, loss, ids = problem.tasks, problem.loss, problem.qid
    if tasks[0].y is None:
        return _errors_by_comparisons(space, problem, alphas, n_folds, limit)
    y, groups = _labels(tasks), problem.groups
    by_query = groups.n_groups > 1
    if by_query:
        comparable = _comparable_queries(y, groups)
        n_folds = _at_most(n_folds, len(comparable), "queries whose rows have different labels")
        fold_of = np.full(groups.n_groups, -1)  # other queries are never held out
        fold_of[comparable] = np.arange(len(comparable)) % n_folds
        fold = fold_of[groups.codes]
    else:
        n_folds = _at_most(n_folds, len(y) // 2, "rows")
        fold = shuffled_folds(len(y), n_folds)
    queries = groups.codes if by_query else fold
    _check_comparable(y, QueryGroups.of(queries, len(y)))
    several = len(tasks) > 1 or tasks[0].n_axes == 2
    ids = None if ids is None else np.asarray(ids).ravel()
    tests = [np.flatnonzero(fold == k) for k in range(n_folds)]
    held_out: list[list[Array]] = [[] for _ in alphas]
    for test in tests:
        train = np.setdiff1d(np.arange(len(y)), test)
        targets = backend_of(problem.X).array(y[train] if several else y[train, 0])
        train_ids = None if ids is None else ids[train]
        with _explained_for_a_fold(n_folds):
            known = groups.take(train)
            inner = loss.tasks(targets, known)
            loss.check_learnable([task.graph.n_pairs for task in inner], len(train), known.n_groups)
            by_alpha = _refit(space, problem, train, test, inner, train_ids, alphas, limit)
        for found, scores in zip(held_out, by_alpha, strict=True):
            found.append(scores)
    rows, method = np.concatenate(tests), f"{n_folds} folds, refitted"
    return [_query_errors(y[rows], _stacked(found), queries[rows], method) for found in held_out]


def _errors_by_comparisons(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], n_folds: int, limit: Count
) -> list[ComponentErrors]:
    """Folds of comparisons, or of their groups.

    Rows that occur only in a held-out fold are held out as well.
    """
    graph = problem.comparisons
    n, codes = len(graph.first), graph.group_of_pair
    if codes is None:
        n_folds = _at_most(n_folds, n, "comparisons")
        fold = shuffled_folds(n, n_folds)
    else:
        n_groups = int(codes.max()) + 1
        n_folds = _at_most(n_folds, n_groups, "groups")
        fold = shuffled_folds(n_groups, n_folds)[codes]
    margin = graph.margin.reshape(n, -1)
    errors: list[list[Array]] = [[] for _ in alphas]
    for k in range(n_folds):
        test, train = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        in_train = np.union1d(graph.first[train], graph.second[train])
        only_test = np.setdiff1d(np.union1d(graph.first[test], graph.second[test]), in_train)
        rows = np.setdiff1d(np.arange(graph.n_rows), only_test)
        pairs = np.searchsorted(rows, np.column_stack((graph.first, graph.second))[train])
        needed, where = np.unique(
            np.concatenate((graph.first[test], graph.second[test])), return_inverse=True
        )
        first, second = np.split(where, 2)
        with _explained_for_a_fold(n_folds):
            inner = PreferenceGraph.from_pairs(
                len(rows), pairs, graph.margin[train], graph.weight[train]
            )
            if not inner.n_pairs:
                raise DataError("All comparisons have weight 0.")
            tasks = [Task(inner, None)]
            found = _refit(space, problem, rows, needed, tasks, None, alphas, limit)
        weight = graph.weight[test]
        for a, scores in enumerate(found):
            gaps = (scores[first] - scores[second]) * np.sign(margin[test])[:, None]
            counted = weight[:, None] * (margin[test] != 0)
            wrong = np.where(gaps == 0, 0.5, gaps < 0) * counted[:, None]
            with np.errstate(invalid="ignore"):  # all margins of a fold may be 0
                errors[a].append((wrong.sum(axis=0) / counted.sum(axis=0)).mean(axis=1))
    what = "comparisons" if codes is None else "groups of comparisons"
    method = f"{n_folds} folds of {what}, refitted"
    return [_fold_errors(found, method) for found in errors]


def _refit(
    space: ComponentSpace,
    problem: Problem,
    train: Index,
    test: Index,
    tasks: list[Task],
    train_ids: Any,
    alphas: Sequence[float],
    limit: Count,
) -> list[Array]:
    """Scores of test rows for each alpha, shape (n_test, p, n_outputs)."""
    inside, outside = (_take(problem.X, rows) for rows in (train, test))
    if isinstance(space.kernel, Precomputed):
        inside, outside = inside[:, train], outside[:, train]
    part = replace(space.for_part(train, problem.n_rows), count=limit)
    fit = part.solve(Problem(inside, tasks, problem.loss, part, train_ids), alphas)
    F = fit.basis.coordinates(outside)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        scores = [to_host(backend_of(F).xp.tensordot(F, s.path, 1)) for s in fit.solutions]
    if not all(np.isfinite(f).all() for f in scores):
        raise DataError("Scores of held-out rows overflow. Scale the labels.")
    return [f.reshape(len(test), f.shape[1], -1) for f in scores]


def _take(X: Any, rows: Index) -> Any:
    """Some rows, on their backend."""
    on = backend_of(X)
    return X[rows] if on.is_host else on.rows(X, rows)


def shuffled_folds(n: int, n_folds: int) -> Index:
    """The fold of each of n items, in a fixed random order."""
    fold = np.empty(n, dtype=np.intp)
    fold[np.random.default_rng(0).permutation(n)] = np.arange(n) % n_folds
    return fold


@contextmanager
def _explained_for_a_fold(n_folds: int) -> Iterator[None]:
    """Add to an error of a refit that it concerns the rows outside a fold."""
    try:
        yield
    except DataError as error:
        raise DataError(
            f'With n_components="cv", in a refit without one of {n_folds} folds: {error} If this '
            "does not apply to all rows together, set n_components to a number, or use fewer folds."
        ) from error


def _at_most(n_folds: int, most: int, what: str) -> int:
    """The number of folds, which is at most the number of items."""
    if most < 2:
        raise DataError(
            f'n_components="cv" needs more {what} to hold out. Set n_components to a number or to '
            "a share of the variance."
        )
    return min(n_folds, most)


def _labels(tasks: Sequence[Task]) -> Array:
    """Scores of all tasks, with a column for each output."""
    return np.column_stack([np.asarray(to_host(task.y)) for task in tasks])


def _comparable_queries(y: Array, groups: QueryGroups) -> Index:
    """Queries with different labels in at least one output."""
    differs = [bool((y[rows] != y[rows[0]]).any()) for rows in groups]
    return np.flatnonzero(differs)


def _check_comparable(y: Array, groups: QueryGroups) -> None:
    """Every output needs a query (or fold) with different labels."""
    for k, column in enumerate(y.T):
        if len(_comparable_queries(column[:, None], groups)) == 0:
            which = f"of output {k} " if y.shape[1] > 1 else ""
            raise DataError(
                f'n_components="cv" compares held-out rows, but the labels {which}do not differ '
                "between any rows that can be compared. Set n_components to a number or to a share "
                "of the variance."
            )


def _query_errors(y: Array, predictions: Array, queries: Index, method: str) -> ComponentErrors:
    """Disagreement for every number of components; predictions have shape (rows, p, outputs)."""
    from rankwise.metrics import disagreement_error  # imported late, as it compiles loops

    (n, p, n_outputs), groups = predictions.shape, QueryGroups.of(queries, len(y))
    by_output, by_query = np.empty((2, n_outputs, p)), []
    step = max(1, ROWS_AT_ONCE // n)
    for start in range(0, p, step):
        columns = predictions[:, start : start + step]
        k = columns.shape[1]
        ids = groups.codes + groups.n_groups * np.arange(k)[:, None]  # a ranking for each column
        for o in range(n_outputs):
            found = disagreement_error(
                np.tile(y[:, o], k), columns[:, :, o].T.ravel(), ids.ravel(), per_query=True
            )
            values = found.values.reshape(k, -1)
            by_output[0, o, start : start + k] = values.mean(axis=1)
            by_output[1, o, start : start + k] = [_standard_error(one) for one in values]
            by_query.append(values)
    error, spread = by_output.mean(axis=1)
    nested = None if n_outputs > 1 else _nested_error(np.concatenate(by_query))
    return ComponentErrors(np.arange(1, p + 1), error, spread, method, nested)


def _pair_errors(found: list[tuple[Array, Array]]) -> ComponentErrors:
    """Errors of one ranking, in which each pair counts for both of its rows."""
    error, spread = np.empty(len(found)), np.empty(len(found))
    for k, (loss, compared) in enumerate(found):
        total = compared.sum(axis=0)
        share = loss.sum(axis=0) / total
        excess = loss - share * compared
        error[k] = share.mean()
        spread[k] = (2.0 * np.sqrt((excess**2).sum(axis=0)) / total).mean()
    nested = None
    if found[0][0].shape[1] == 1:
        losses, counts = (np.stack([part[k][:, 0] for part in found]) for k in (0, 1))
        nested = _nested_error(losses, counts)
    return ComponentErrors(np.arange(1, len(found) + 1), error, spread, "leave-pair-out", nested)


def _fold_errors(folds: list[Array], method: str) -> ComponentErrors:
    """Means over folds of comparisons."""
    p = min(len(errors) for errors in folds)
    values = np.array([errors[:p] for errors in folds])
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) == 0:
        raise DataError("All margins are 0: there is nothing to hold out.")
    spread = np.array([_standard_error(column) for column in values.T])
    nested = _nested_error(values.T)
    return ComponentErrors(np.arange(1, p + 1), values.mean(axis=0), spread, method, nested)


def _nested_error(losses: Array, counts: Array | None = None) -> float | None:
    """The error of each unit with the number of components that is best for the others.

    `losses` has shape (p, n_units). With `counts`, units are rows, and each loss belongs to a pair
    and counts for both of its rows: without a row, all of its pairs are missing.
    """
    n_units = losses.shape[1]
    if n_units < 2:
        return None
    if counts is None:
        others = losses.sum(axis=1, keepdims=True) - losses
        weight = float(n_units)
    else:
        left = counts.sum(axis=1, keepdims=True) / 2 - counts
        others = (losses.sum(axis=1, keepdims=True) / 2 - losses) / np.maximum(left, 1.0)
        weight = float(counts[0].sum())
    chosen = np.argmin(others.round(12), axis=0)  # of equals, the fewest components
    return float(losses[chosen, np.arange(n_units)].sum() / weight)


def _stacked(folds: list[Array]) -> Array:
    """Scores of all folds, up to the smallest number of components among them."""
    p = min(scores.shape[1] for scores in folds)
    return np.concatenate([scores[:, :p] for scores in folds])


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


@dataclass(frozen=True, eq=False)
class ChosenComponentSpace(Space):
    """Functions of kernel components, chosen by held-out pairs.

    If `chooses_number` is false, the space defines the number, and only alpha is chosen.
    """

    space: ComponentSpace
    options: ComponentOptions
    chooses_number: bool = True
    shared: ClassVar[tuple[str, ...]] = ("components",)
    takes_sparse: ClassVar[bool] = True
    has_own_hold_outs: ClassVar[bool] = True

    @property
    def limit(self) -> Count:
        """The largest number of components that is tried."""
        if self.chooses_number:
            return Count(self.options.max_components, strict=False)
        return self.space.count

    def with_components(self, problem: Problem) -> ChosenComponentSpace:
        """The same with the components of all rows, which are then computed only once."""
        return replace(self, space=self.space.with_components(problem, self.limit))

    def errors(self, problem: Problem, alphas: Sequence[float]) -> list[ComponentErrors]:
        """Held-out errors for every number of components, for each alpha.

        The nested error follows the rule "best"; there is none for another rule.
        """
        limit = replace(self.limit, strict=False)
        found = held_out_errors(self.space, problem, alphas, self.options.cv, limit)
        if self.options.rule == "best":
            return found
        return [replace(one, nested_error=None) for one in found]

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """Choose the number of components for each alpha, and fit to all rows."""
        exact = isinstance(self.options.cv, str)  # each fold has different components
        settled = self.with_components(problem) if exact else self
        errors = settled.errors(problem, alphas)
        return settled.fit(
            problem, alphas, errors, [one.chosen(self.options.rule) for one in errors]
        )

    def solve_best(self, problem: Problem) -> tuple[float, Fit]:
        """Choose alpha and the number of components together, and fit to all rows.

        The alphas are 0 and values that follow the scale of the components. With the rule "one_se",
        the fewest components within one standard error of the smallest error are used, with the
        largest such alpha.
        """
        settled = self.with_components(problem)
        features = settled.space.learn(problem.X, problem.qid, self.limit).of(problem.X)
        squares = coordinate_squares(problem.tasks, Coordinates(features=features))
        alphas = [0.0, *alpha_grid(squares, problem.n_rows).tolist()]
        errors = settled.errors(problem, alphas)
        a, p = _best(errors, self.options.rule, self.chooses_number)
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

    The fewest components that the rule allows, and the largest alpha with this number.
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
