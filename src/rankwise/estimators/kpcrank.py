"""KPCRank, its pointwise baseline KPCR, and the choice of the number of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, backend_of, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import (
    ALPHA,
    KERNEL_PARAMETERS,
    LOSS_PARAMETERS,
    LeastSquaresRanker,
    landmark_choice,
    make_kernel,
    only_solution,
    returned_scores,
)
from rankwise.estimators.fit_pairs import FitPairsMixin
from rankwise.estimators.ranker_rows import prepare_rows, warn_of_scales
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons
from rankwise.graph.preference_graph import ComparisonGraph, pair_weight
from rankwise.graph.query_groups import labels_differ, unlike_rows
from rankwise.holdout.alpha_choice import AlphaChoice, alpha_grid, coordinate_squares
from rankwise.holdout.leave_pair_out import component_pair_losses, pair_errors
from rankwise.holdout.scores import standard_errors
from rankwise.kernels import Precomputed
from rankwise.parameters import AnyOf, Choice, Number, OptionsMixin, Rule, Whole, check_parameters
from rankwise.problem import Coordinates, Fit, Problem, RowLoss, Space, Task
from rankwise.problem.component_space import ComponentSpace
from rankwise.solvers.kpca import Count
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ROWS_AT_ONCE = 2**11  # whose rankings are evaluated together: few enough not to compile loops


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
        marks = {self.one_se_n_components: "fewest within one s.e."}
        best = self.best_n_components
        marks[best] = ", ".join(filter(None, (marks.get(best), "best")))
        rows = [
            (*row, marks.get(row[0], ""))
            for row in zip(*self._frame_columns().values(), strict=True)
        ]
        columns = (Column("components"), Column("error"), Column("s.e."), Column("", ""))
        note = ""
        if self.nested_error is not None:
            note = f"With the number chosen without the rows that are compared: {self._nested()}."
        return Table(columns, tuple(rows), note=note, best=frozenset({(best - 1, 1)}))

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
    has_scores = problem.tasks[0].y is not None
    if isinstance(cv, str) and not has_scores:
        raise DataError(
            f'cv="{cv}" needs scores, but fit_pairs has comparisons: use a number of folds.'
        )
    method = _errors_by_folds if has_scores else _errors_by_comparisons
    if isinstance(cv, str):
        method = _errors_by_queries if cv == "leave_query_out" else _errors_by_row_pairs
    try:
        return method(space, problem, alphas, cv, limit)
    except DataError as error:
        raise DataError(
            f'In a hold-out for n_components="cv": {error} Set n_components to a number or to a '
            "share of the variance, or use fewer folds."
        ) from error


def _errors_by_queries(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], cv: Any, limit: Count
) -> list[ComponentErrors]:
    groups = problem.groups
    if groups.n_groups < 2:
        raise DataError(f'cv="{cv}" needs at least two queries: use cv="leave_pair_out".')
    y = _labels(problem.tasks)
    _check_comparable(y, groups)
    found = to_host(space.path_without_queries(problem, alphas, limit, list(groups)))
    return [_query_errors(y, f, groups.codes, "leave-query-out") for f in found]


def _errors_by_row_pairs(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], cv: Any, limit: Count
) -> list[ComponentErrors]:
    """Every pair of rows of one ranking held out of the weights, exactly."""
    groups, m, loss = problem.groups, problem.n_rows, problem.loss
    if groups.n_groups > 1 or loss.ties != "include" or m < 6:
        counted = "" if loss.has_intercept else ' and ties="include"'
        raise DataError(
            f'cv="{cv}" is for one global ranking of at least 6 rows{counted}: use a number of '
            "folds."
        )
    y = _labels(problem.tasks)
    _check_comparable(y, groups)
    at_most = m - 4 if limit.number is None else min(limit.number, m - 4)
    F, eigenvalues = space.fixed_components(problem.X, problem.qid, Count(at_most, strict=False))
    targets, left = backend_of(F).array(y), m - 2
    weight = left * float(pair_weight(loss.weighting, left, left * (left - 1) // 2))
    results = []
    for alpha in alphas:
        wrong, compared = map(
            to_host, component_pair_losses(F, eigenvalues, targets, alpha / weight)
        )
        error, spread = (part.mean(axis=1) for part in pair_errors(wrong, compared, groups))
        nested = None if y.shape[1] > 1 else _nested_error(wrong[:, :, 0], compared[:, 0])
        numbers = np.arange(1, len(error) + 1)
        results.append(ComponentErrors(numbers, error, spread, "leave-pair-out", nested))
    return results


def _errors_by_folds(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], cv: Any, limit: Count
) -> list[ComponentErrors]:
    """Refit without each fold in turn, including the components."""
    tasks, loss, groups = problem.tasks, problem.loss, problem.groups
    y, ids = _labels(tasks), None if problem.qid is None else groups.codes
    by_query = groups.n_groups > 1
    if by_query:
        comparable = np.unique(groups.codes[unlike_rows(y, groups)])
        n_folds = _at_most(cv, len(comparable), "queries whose rows have different labels")
        fold_of = np.full(groups.n_groups, -1)  # other queries are never held out
        fold_of[comparable] = np.arange(len(comparable)) % n_folds
        fold = fold_of[groups.codes]
    else:
        n_folds = _at_most(cv, len(y) // 2, "rows")
        fold = shuffled_folds(len(y), n_folds)
    queries = groups.codes if by_query else fold
    _check_comparable(y, QueryGroups.of(queries, len(y)))
    several = len(tasks) > 1 or tasks[0].n_axes == 2
    tests = [np.flatnonzero(fold == k) for k in range(n_folds)]
    by_fold = []
    for test in tests:
        train = np.setdiff1d(np.arange(len(y)), test)
        targets = backend_of(problem.X).array(y[train] if several else y[train, 0])
        known, train_ids = groups.take(train), None if ids is None else ids[train]
        inner = loss.tasks(targets, known)
        loss.check_learnable([task.graph.n_pairs for task in inner], len(train), known.n_groups)
        by_fold.append(_refit(space, problem, train, test, inner, train_ids, alphas, limit))
    rows, method = np.concatenate(tests), f"{n_folds} folds, refitted"
    p = min(scores.shape[2] for scores in by_fold)
    found = np.concatenate([scores[:, :, :p] for scores in by_fold], axis=1)
    return [_query_errors(y[rows], scores, queries[rows], method) for scores in found]


def _errors_by_comparisons(
    space: ComponentSpace, problem: Problem, alphas: Sequence[float], cv: Any, limit: Count
) -> list[ComponentErrors]:
    """Folds of comparisons, or of their groups; comparisons of weight 0 do not count.

    Rows that occur only in a held-out fold are held out as well.
    """
    graph = problem.comparisons
    counted = np.flatnonzero(graph.weight)
    pairs = np.column_stack((graph.first, graph.second))[counted]
    codes, what = np.arange(len(pairs)), "comparisons"
    if graph.group_of_pair is not None:
        codes, what = QueryGroups.of(graph.group_of_pair[counted]).codes, "groups"
    n_units = int(codes.max()) + 1
    n_folds = _at_most(cv, n_units, what)
    fold = shuffled_folds(n_units, n_folds)[codes]
    weight, margin = graph.weight[counted], graph.margin[counted]
    columns = margin.reshape(len(pairs), -1)
    by_fold = []
    for k in range(n_folds):
        test, train = fold == k, fold != k
        rows = np.setdiff1d(np.arange(graph.n_rows), np.setdiff1d(pairs[test], pairs[train]))
        needed, where = np.unique(pairs[test], return_inverse=True)
        first, second = where.reshape(-1, 2).T
        inside = Comparisons(np.searchsorted(rows, pairs[train]), margin[train], weight[train])
        tasks = [Task(ComparisonGraph.of(len(rows), inside), None)]
        scores = _refit(space, problem, rows, needed, tasks, None, alphas, limit)
        gaps = (scores[:, first] - scores[:, second]) * np.sign(columns[test])[:, None]
        decided = weight[test][:, None] * (columns[test] != 0)
        wrong = np.where(gaps == 0, 0.5, gaps < 0) * decided[:, None]
        with np.errstate(invalid="ignore"):  # all margins of a fold may be 0
            by_fold.append((wrong.sum(axis=1) / decided.sum(axis=0)).mean(axis=2))
    p = min(errors.shape[1] for errors in by_fold)
    values = np.stack([errors[:, :p] for errors in by_fold], axis=2)
    values = values[:, :, np.isfinite(values).all(axis=(0, 1))]
    if not values.shape[2]:
        raise DataError("All margins are 0: there is nothing to hold out.")
    units = "groups of comparisons" if what == "groups" else what
    return [_summarized([each], f"{n_folds} folds of {units}, refitted") for each in values]


def _refit(
    space: ComponentSpace,
    problem: Problem,
    train: Index,
    test: Index,
    tasks: list[Task],
    train_ids: Any,
    alphas: Sequence[float],
    limit: Count,
) -> Array:
    """Scores of test rows, shape (n_alphas, n_test, p, n_outputs)."""
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
    return np.stack([f.reshape(len(test), f.shape[1], -1) for f in scores])


def _take(X: Any, rows: Index) -> Any:
    """Some rows, on their backend."""
    on = backend_of(X)
    return X[rows] if on.is_host else on.rows(X, rows)


def shuffled_folds(n: int, n_folds: int) -> Index:
    """The fold of each of n items, in a fixed random order."""
    fold = np.empty(n, dtype=np.intp)
    fold[np.random.default_rng(0).permutation(n)] = np.arange(n) % n_folds
    return fold


def _at_most(n_folds: int, most: int, what: str) -> int:
    """The number of folds, which is at most the number of items."""
    if most < 2:
        raise DataError(f"There are too few {what} to hold out.")
    return min(n_folds, most)


def _labels(tasks: Sequence[Task]) -> Array:
    """Scores of all tasks, with a column for each output."""
    return np.column_stack([np.asarray(to_host(task.y)) for task in tasks])


def _check_comparable(y: Array, groups: QueryGroups) -> None:
    """Every output needs a query (or fold) with different labels."""
    for k, column in enumerate(y.T):
        if not labels_differ(column, groups):
            which = f"of output {k} " if y.shape[1] > 1 else ""
            raise DataError(
                f"The labels {which}do not differ between any held-out rows that can be compared."
            )


def _query_errors(y: Array, predictions: Array, queries: Index, method: str) -> ComponentErrors:
    """Disagreement for every number of components; predictions have shape (rows, p, outputs)."""
    from rankwise.metrics import disagreement_error

    (n, p, n_outputs), groups = predictions.shape, QueryGroups.of(queries, len(y))
    step = max(1, ROWS_AT_ONCE // n)
    by_output = []
    for o in range(n_outputs):
        parts = []
        for start in range(0, p, step):
            f = predictions[:, start : start + step, o].T
            ids = groups.codes + groups.n_groups * np.arange(len(f))[:, None]  # one ranking each
            labels = np.tile(y[:, o], len(f))
            found = disagreement_error(labels, f.ravel(), ids.ravel(), per_query=True)
            parts.append(found.values.reshape(len(f), -1))
        by_output.append(np.concatenate(parts))
    return _summarized(by_output, method)


def _summarized(by_output: list[Array], method: str) -> ComponentErrors:
    """Means over units, from errors of shape (p, n_units) for each output."""
    error = np.mean([values.mean(axis=1) for values in by_output], axis=0)
    spread = np.mean([standard_errors(values) for values in by_output], axis=0)
    nested = None if len(by_output) > 1 else _nested_error(by_output[0])
    return ComponentErrors(np.arange(1, len(error) + 1), error, spread, method, nested)


def _nested_error(losses: Array, counts: Array | None = None) -> float | None:
    """The error of each unit with the number of components that is best for the others.

    `losses` has shape (p, n_units). With `counts`, units are rows, and each loss belongs to a pair
    and counts for both of its rows: without a row, all of its pairs are missing.
    """
    n_units = losses.shape[1]
    if n_units < 2:
        return None
    others, weight = losses.sum(axis=1, keepdims=True) - losses, float(n_units)
    if counts is not None:
        left = counts.sum() / 2 - counts
        others = (losses.sum(axis=1, keepdims=True) / 2 - losses) / np.maximum(left, 1.0)
        weight = float(counts.sum())
    chosen = np.argmin(others.round(12), axis=0)  # of equals, the fewest components
    return float(losses[chosen, np.arange(n_units)].sum() / weight)


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


@dataclass(eq=False, repr=False)
class ComponentMixin(
    OptionsMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, LeastSquaresRanker
):
    """What `KPCRank` and `KPCR` share: a space of components, `transform` and `predict_path`."""

    parameters: ClassVar[Mapping[str, Rule]] = {
        "n_components": AnyOf(Whole(1), Number(0, 1, open_low=True), Choice("auto", "cv")),
        "alpha": ALPHA,
        **KERNEL_PARAMETERS,
    }
    n_components_: ClassVar[int]
    option_classes: ClassVar[dict[str, Any]] = {"options": ComponentOptions}

    #: A search refits, because exact hold-outs would keep components that use held-out rows.
    exact_search: ClassVar[bool] = False

    # Routing, as in `RankerMixin`.
    __metadata_request__transform = {"qid": True}  # noqa: RUF012

    n_components: Any = "cv"
    _: KW_ONLY
    alpha: float | str = 0.0
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1.0
    scale: str | None = "auto"
    options: ComponentOptions | None = None
    n_landmarks: int | None = None
    landmarks: Any = None
    random_state: Any = None
    device: Any = None

    def make_space(self, n_features: int) -> ComponentSpace | ChosenComponentSpace:
        """Functions of kernel components."""
        options = self.options_in("options")
        check_parameters(options, OPTIONS)
        if options.selection != "leading" and self.make_loss().has_intercept:
            raise ParameterError(
                f'{type(self).__name__} has selection="leading" only: got {options.selection!r}. '
                "Use KPCRank."
            )
        number, kernel, choice = self.n_components, make_kernel(self, n_features), None
        if self.landmarks is not None or self.n_landmarks is not None:
            choice = landmark_choice(self, kernel, "random")
        count = Count()
        if not isinstance(number, str):
            whole = Whole(1).allows(number)
            count = Count(int(number)) if whole else Count(share=float(number))
        space = ComponentSpace(kernel, count, options.selection, choice, self.random_state)
        if number == "cv" or self.alpha == "auto":
            return ChosenComponentSpace(space, options, chooses_number=number == "cv")
        return space

    def predict_path(self, X: Any, *, qid: Any = None) -> Any:
        """Scores with 1, 2, ..., `n_components_` components.

        Parameters
        ----------
        X, qid
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components) or (n_rows, n_components, n_outputs)
            Column j has the scores with j + 1 components; the last column is `predict(X)`.
        """
        check_is_fitted(self)
        X = prepare_rows(self, X, qid, "predict_path")
        F = self.basis_.coordinates(X)
        on, solution = backend_of(F), self.solution_
        scores = on.xp.tensordot(F, on.array(solution.path), 1)
        intercept = solution.intercept
        if not isinstance(intercept, float):
            intercept = on.array(intercept)
        return returned_scores(X, scores + intercept)

    def transform(self, X: Any, *, qid: Any = None) -> Any:
        """Coordinates of rows on the components, which have mean 0 over the training rows.

        Parameters
        ----------
        X, qid
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            The scores are ``transform(X) @ coef_.T``, plus the intercept if there is one.
        """
        check_is_fitted(self)
        X = prepare_rows(self, X, qid, "transform")
        return returned_scores(X, self.basis_.coordinates(X))

    def fit_transform(self, X: Any, y: Any, *, qid: Any = None) -> Any:
        """Fit to rows, and return their coordinates on the components.

        Parameters
        ----------
        X, y, qid
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        return self.fit(X, y, qid=qid).transform(X, qid=qid)

    def fit_problem(self, problem: Problem, choice: AlphaChoice | None = None) -> Self:
        """Choose alpha together with the number of components if it is "auto", and fit.

        Parameters
        ----------
        problem : rankwise.problem.Problem
        choice : None
            Scalings are not tried for components, so there is no choice of alpha to take over.

        Returns
        -------
        self
        """
        if self.alpha != "auto":
            return super().fit_problem(problem)
        with problem.blas_threads():
            alpha, fit = cast(ChosenComponentSpace, problem.space).solve_best(problem)
        self.set_fitted(*only_solution(fit, problem.X))
        warn_of_scales(self, problem.X)
        return self.set_alpha(alpha)

    def set_fitted(self, basis: Any, solution: Any) -> Self:
        """Store a solution and the components that it uses as the fitted model."""
        p = solution.n_components
        return super().set_fitted(basis.leading(p), solution.leading(p))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(eq=False, repr=False)
class KPCRank(FitPairsMixin, ComponentMixin):
    """Pairwise least squares on the leading principal components of a kernel.

    Rows are projected onto the p components of largest variance, and differences of scores are
    regressed on differences of these p coordinates. With the leading eigenvectors V and eigenvalues
    s of the centred kernel matrix K, and the Laplacian L of the pairs that count,

        f(x) = sum_l w_l F_l(x),   F = K V s^(-1/2),   w = (F'LF + alpha I)^-1 F'Ly.

    The number of components regularizes: if labels are noisy and the signal has large variance,
    directions of small variance contain mostly noise. The components do not depend on the labels.

    This takes O(m^2 p) time, and memory for one m by m matrix and about seven m by p matrices. If p
    is not small relative to m (more than a sixth, or fewer than 1500 rows), LAPACK needs a second
    m by m matrix; with all components, or selection="spectral", about ten matrices of that size
    are needed. With landmarks it takes O(m r^2) time, and memory for a few r by r matrices, the
    m by p coordinates, and the m by r kernel values, which are computed twice if they exceed 1 GiB.
    Scores with 1, 2, ..., p components come from one triangular factor, whose leading parts are the
    factors for fewer components (`predict_path`).

    A component has weight 0 if its differences over pairs are linearly dependent on differences of
    previous components. Examples are a component that is constant within queries, and all
    components beyond the number of rows minus the number of queries. `idle_components_` lists them.

    Parameters
    ----------
    n_components : int, float, "auto" or "cv", default="cv"
        Number of components:

        - an integer, which is at most the numerical rank of the kernel;
        - a float from 0 to 1: the smallest number with this share of the variance of the kernel;
        - "auto": the numerical rank of the kernel;
        - "cv": chosen by held-out errors, see `ComponentOptions`.
    alpha : float or "auto", default=0.0
        Ridge penalty on the weights, at least 0. With all components, this is `RankRLS`. "auto":
        held-out errors choose among 0 and values that follow the scale of the
        components, together with the number of components if that is "cv". All numbers and alphas
        share the components: one eigendecomposition for each fold, or one for all exact hold-outs.
    kernel, gamma, degree, coef0, scale
        As for `RankRLS`, but with "rbf" as default. If landmarks are points, scale="auto" leaves
        rows as they are.
    ties, weighting
        As for `RankRLS`.
    options : ComponentOptions, optional
        Which directions to use, what is held out to choose their number, and how many are tried.
        None: the defaults of `ComponentOptions`.
    n_landmarks, landmarks, random_state
        Use components of the kernel on landmarks instead of all rows, as for `SparseRankRLS`. If
        `landmarks` and `n_landmarks` are None: all rows. `n_landmarks` alone: random rows.
    device
        As for `RankRLS`.

    Attributes
    ----------
    n_components_ : int
        Number of components in use.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred kernel, which are the sums of squares of components over training
        rows. With selection="spectral", eigenvalues of F'LF.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `eigenvalues_` divided by the sum of all eigenvalues.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
        Weights of the components, equation (6).
    path_coef_ : ndarray of shape (n_components, n_components) or with an axis for outputs
        Column j has the weights for j + 1 components.
    idle_components_ : ndarray
        Indices of components with weight 0.
    alpha_ : float
        The ridge penalty in use.
    component_errors_ : ComponentErrors
        Held-out errors for every number of components, with the alpha in use; only if the number
        or alpha is chosen. The smallest was chosen and is too small as an estimate for new rows;
        see its `nested_error`.
    dual_components_ : ndarray of shape (n_points, n_components)
        Weights of the training rows or landmarks in each component.
    component_means_ : ndarray of shape (n_components,)
        Means over the training rows, which are subtracted from the components.
    X_fit_, landmarks_, landmark_indices_, kernel_, scale_, scaling_, gamma_, feature_range_, \
max_query_rows_, basis_, solution_, n_queries_
        As for `RankRLS` and `SparseRankRLS`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    References
    ----------
    Tsivtsivadze, Cseke, Heskes: Kernel principal component ranking: robust ranking on noisy
    data. ECML PKDD workshop on preference learning, 2009. Theorem 1, equations (3) and (6),
    sections 4.2 and 6.1.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRank
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.uniform(-3, 3, (300, 1)), np.arange(300) // 10
    >>> y = np.sinc(X[:, 0]) + 0.3 * rng.standard_normal(300)
    >>> ranker = KPCRank(10, gamma=1.0).fit(X, y, qid=qid)
    >>> new = np.array([[0.0], [0.5], [1.5], [1.0]])
    >>> ranker.predict(new).argsort()[::-1]
    array([0, 1, 3, 2])
    >>> ranker.predict_path(new).shape, ranker.transform(new).shape
    ((4, 10), (4, 10))
    """

    parameters: ClassVar[Mapping[str, Rule]] = {**ComponentMixin.parameters, **LOSS_PARAMETERS}

    _: KW_ONLY
    ties: str = "include"
    weighting: str = "rows"


@dataclass(eq=False, repr=False)
class KPCR(ComponentMixin):
    """Least-squares regression on the leading principal components of a kernel.

    The pointwise baseline of `KPCRank`: with the first p kernel principal components F,

        min_{w, b}  sum_i (y_i - F_i w - b)^2 + alpha |w|^2.

    Components are centred and uncorrelated, so w_l = F_l'y / (s_l + alpha), and b is the mean of y.
    The costs are the same.

    Parameters
    ----------
    n_components : int, float, "auto" or "cv", default="cv"
        As for `KPCRank`; "cv" also uses the order of rows of the same query.
    alpha, kernel, gamma, degree, coef0, scale
        As for `KPCRank`.
    options, n_landmarks, landmarks, random_state, device
        As for `KPCRank`.

    Attributes
    ----------
    n_components_, eigenvalues_, explained_variance_ratio_, coef_, path_coef_, component_errors_, \
dual_components_, component_means_, idle_components_
        As for `KPCRank`.
    intercept_ : float or ndarray of shape (n_outputs,)
    X_fit_, landmarks_, landmark_indices_, kernel_, scale_, scaling_, gamma_, feature_range_, \
max_query_rows_, n_queries_, n_features_in_, feature_names_in_
        As for `KPCRank`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCR
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KPCR(10, gamma=0.5).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.0], [4.0]]).round(2)
    array([ 0.84, -0.76])
    """

    def make_loss(self) -> RowLoss:
        """Squared errors of single rows."""
        return RowLoss()
