"""A problem, what is held out of it, and where care ends.

A plan is a value: it lists what is held out together, and does not depend on how the rest is
fitted. See `rankwise.holdout.engine.hold_out`. Hold-outs with an alpha below the rounding errors of
the data are refused, for all plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from rankwise.backends.arrays import (
    EPS,
    Array,
    Index,
    as_given,
    backend_of,
    is_sent,
    is_sparse,
    to_host,
)
from rankwise.backends.parallel import map_rows
from rankwise.errors import DataError, ParameterError, warn
from rankwise.graph import QueryGroups
from rankwise.graph.preference_graph import QueryGraph
from rankwise.holdout.table_hold_out import Cells
from rankwise.kernels import Precomputed
from rankwise.parameters import as_generator
from rankwise.problem import (
    Coordinates,
    FeatureSpace,
    KernelSpace,
    Loss,
    Problem,
)
from rankwise.scaling import Scaling

BLOCK = 2**17  # numbers of the rows of sets that are held out side by side, in a cache
LARGEST = 1e70  # its fourth power does not overflow
LEAST = 1e-300  # smallest quotient of labels and alphas


@dataclass(frozen=True, eq=False)
class HoldOutProblem:
    """A ranking problem, and the alphas for which rows are held out.

    `y` has a column for each output; `n_outputs` is None if the labels are a vector. `scaling` is
    what was done to the rows of the problem, and `kept` names what else was computed from all rows
    and stays the same in every hold-out (see `HeldOutScores.shared`). `ranker` made the problem and
    can fit it.
    """

    problem: Problem
    alphas: Array
    y: Array
    n_outputs: int | None
    scaling: Scaling | None = None
    kept: tuple[str, ...] = ()
    ranker: Any = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        alphas: Array,
        scaling: Scaling | None = None,
        kept: tuple[str, ...] = (),
    ) -> HoldOutProblem:
        """A problem of scored rows or of comparisons, whose values must not overflow in products.

        The labels `y` of comparisons are their margins.
        """
        columns, first = target_columns(problem), problem.tasks[0].y
        first = problem.comparisons.margin if first is None else first
        n_outputs = None if first.ndim == 1 else columns.shape[1]
        largest, most = largest_size(columns), float(alphas.max(initial=0.0))
        if max(largest_size(as_given(problem.X)), largest) > LARGEST:
            raise DataError(
                f"Products of values above {LARGEST:g} overflow. Scale the features and labels."
            )
        if 0.0 < largest < LEAST * most:
            raise DataError(
                f"Labels of at most {largest:.0e} divided by an alpha of {most:.0e} "
                "underflow. Scale the labels, or use a smaller alpha."
            )
        return cls(problem, alphas, columns, n_outputs, scaling, kept)

    def shared(self, *, scaling: bool) -> tuple[str, ...]:
        """What was computed from all rows; `scaling`: whether that includes the scaling."""
        return self.kept if not scaling or self.scaling is None else with_scaling(self.kept)

    @property
    def lams(self) -> list[float]:
        """The alphas as a list of floats, for the array functions."""
        return [float(alpha) for alpha in self.alphas]

    @property
    def loss(self) -> Loss:
        """Which errors the ranker minimizes."""
        return self.problem.loss

    @property
    def groups(self) -> QueryGroups:
        """The rows by query."""
        return self.problem.groups

    @property
    def n_tasks(self) -> int:
        """One system for all outputs, or one for each."""
        return len(self.problem.tasks)

    @cached_property
    def coordinates(self) -> Coordinates:
        """The rows as features or as a kernel matrix, on their backend; for formulas only."""
        found = self.problem.coordinates()
        if found.signs is not None:
            raise DataError(
                "This hold-out has a formula for fits without monotone constraints only. Use "
                "leave_query_out, k_fold, leave_comparison_out, or cross_validate, which refits."
            )
        if not is_sent(found.features):
            return found
        return Coordinates(features=backend_of(found.features).rows(found.features, slice(None)))

    def graph(self, task: int) -> QueryGraph:
        """The graph of a task."""
        return cast(QueryGraph, self.problem.tasks[task].graph)

    def columns(self, task: int) -> slice:
        """The outputs of a task."""
        return slice(None) if self.n_tasks == 1 else slice(task, task + 1)

    def targets(self, task: int) -> Array:
        """The columns of y of a task."""
        return backend_of(self.y).contiguous(self.y[:, self.columns(task)])

    @cached_property
    def labels(self) -> Array:
        """y as a NumPy array, for ties and metrics."""
        return np.asarray(to_host(self.y))

    def returned(self, values: Array) -> Array:
        """Values as NumPy arrays if the rows of the user are, and on their device otherwise."""
        return np.asarray(to_host(values)) if is_sent(self.problem.X) else values

    def by_output(self, values: Array) -> Array:
        """Values without their last axis, the axis of outputs, if y is a vector."""
        return values[..., 0] if self.n_outputs is None else values


def target_columns(problem: Problem) -> Array:
    """The labels, or the margins of comparisons, with a column for each output."""
    targets = [task.y for task in problem.tasks if task.y is not None]
    targets = [problem.comparisons.margin] if problem.has_comparisons else targets
    columns: Array = backend_of(targets[0]).xp.column_stack(targets)
    return columns


def with_scaling(kept: tuple[str, ...]) -> tuple[str, ...]:
    """What was computed from all rows, and the scaling, which includes its choice."""
    return ("scaling", *(word for word in kept if word != "choice of scaling"))


def largest_size(values: Any) -> float:
    """The largest absolute value, without an array of absolute values."""
    if is_sparse(values):
        return max(float(values.max()), -float(values.min()))

    def of_rows(rows: slice) -> float:
        return max(float(values[rows].max()), -float(values[rows].min()))

    return max(map_rows(of_rows, values))


def column_size(F: Array) -> float:
    """The size of a constant column beside these features: that of the largest value, or 1."""
    return largest_size(F) or 1.0


def plain_problem(problem: Problem) -> Problem:
    """The same problem on features, on landmarks or with a kernel.

    Hold-outs have fast ways for these three spaces. All others have coordinates of their rows.
    """
    found = problem.space.simplified(problem)
    return on_coordinates(problem, problem.coordinates()) if found is None else found


def on_coordinates(problem: Problem, rows: Coordinates) -> Problem:
    """The same problem on the coordinates of its rows."""
    if rows.kernel is not None:
        return replace(problem, X=rows.kernel, space=KernelSpace(Precomputed()))
    return replace(problem, X=rows.features, space=FeatureSpace("primal", signs=rows.signs))


@dataclass(frozen=True, eq=False)
class Queries:
    """Whole queries are held out, one at a time or in folds.

    `parts` is a number of folds, or a list with the rows of each fold. None: every query by itself,
    or the queries whose numbers are in `only`. Folds of a sample (`sampled`) are subtracted from
    the sums of all rows, or share the steps of conjugate gradients.
    """

    parts: int | Sequence[Index] | None = None
    only: Index | None = None
    sampled: bool = False
    whole_queries: ClassVar[bool] = True

    def folds(self, groups: QueryGroups) -> list[Index]:
        """The rows of each fold."""
        if self.parts is None:
            every = list(groups)
            return every if self.only is None else [every[q] for q in self.only]
        if isinstance(self.parts, int):
            return [np.flatnonzero(groups.codes % self.parts == k) for k in range(self.parts)]
        return list(self.parts)


class Rows(Queries):
    """Rows of one ranking or regression are held out, in the same ways as `Queries`."""

    whole_queries: ClassVar[bool] = False

    def folds(self, groups: QueryGroups) -> list[Index]:
        """The rows of each fold."""
        return super().folds(QueryGroups.of(np.arange(groups.n_rows)))


@dataclass(frozen=True)
class Pairs:
    """Which pairs to hold out: listed pairs, or all pairs of each query.

    If all pairs are held out, `keep_ties`: whether they include pairs with equal labels. With
    `groups`, the rows of both groups of a listed pair are held out. `among` has the rows of a
    sample of one ranking, all of whose pairs are held out; all pairs must count.
    """

    listed: Index | None
    keep_ties: bool
    groups: QueryGroups | None = None
    among: Index | None = None

    def of_query(self, rows: Index, codes: Index, loss: Loss) -> Index | None:
        """Positions of pairs in ascending `rows`; None for all pairs that count."""
        if self.listed is not None:
            inside = codes[self.listed[:, 0]] == codes[rows[0]]
            return np.asarray(np.searchsorted(rows, self.listed[inside]), dtype=np.intp)
        if self.keep_ties and loss.ties == "exclude":
            first, second = np.triu_indices(len(rows), 1)
            return np.column_stack((first, second))
        return None


@dataclass(frozen=True, eq=False)
class ComparisonFolds:
    """Comparisons are held out, one at a time or in folds.

    `fold` has the number of the fold of each comparison, and -1 for a comparison that is always
    used for training; None: each comparison by itself, or the comparisons in `only`. With `refit`,
    the ranker is refitted without each fold.
    """

    fold: Index | None = None
    only: Index | None = None
    refit: bool = False


@dataclass(frozen=True, eq=False)
class Items:
    """Items are held out with all of their comparisons.

    With `both`, each comparison is predicted without the comparisons of either item. Otherwise,
    each comparison is predicted twice: without the comparisons of its first item, and without the
    comparisons of its second item.
    """

    both: bool = True


Plan: TypeAlias = Queries | Pairs | ComparisonFolds | Items | Cells


def alike(sets: Sequence[Index], width: int, block: int = BLOCK) -> Iterator[tuple[Index, Index]]:
    """(numbers of some sets, rows of each of them), for sets of the same size.

    There are about `block` numbers at a time, if a row has `width` numbers.
    """
    sizes = np.array([len(one) for one in sets], dtype=np.intp)
    for size in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == size)
        step = max(1, block // max(1, size * width))
        for start in range(0, len(same), step):
            some = same[start : start + step]
            yield some, np.stack([sets[k] for k in some])


def choose_pairs(
    problem: HoldOutProblem, pairs: Any, random_state: Any, *, keep_ties: bool
) -> Pairs:
    if pairs is None:
        return Pairs(None, keep_ties)
    if isinstance(pairs, (int, np.integer)) and not isinstance(pairs, bool):
        return Pairs(_random_pairs(problem, int(pairs), random_state), keep_ties)
    listed = np.asarray(to_host(pairs))
    m = len(problem.y)
    if listed.ndim != 2 or listed.shape[1] != 2 or listed.dtype.kind not in "iu":
        raise DataError(
            f"pairs must be an integer or an array of row numbers of shape (n, 2): got {pairs!r}."
        )
    bad = (listed < 0) | (listed >= m)
    if bad.any():
        k = int(np.argmax(bad.any(axis=1)))
        raise DataError(
            f"pairs[{k}] = {listed[k].tolist()} is out of range: X has rows 0 to {m - 1}."
        )
    codes = problem.groups.codes
    invalid = (codes[listed[:, 0]] != codes[listed[:, 1]]) | (listed[:, 0] == listed[:, 1])
    if invalid.any():
        k = int(np.argmax(invalid))
        raise DataError(
            f"pairs[{k}] = {listed[k].tolist()} must be two different rows of the same query."
        )
    return Pairs(listed.astype(np.intp), keep_ties)


def pairs_of_groups(
    problem: HoldOutProblem, groups: QueryGroups, strata: QueryGroups, *, keep_ties: bool
) -> Pairs:
    """All pairs of rows of different groups and of the same stratum."""
    pairs = pairs_within(strata)
    pairs = pairs[groups.codes[pairs[:, 0]] != groups.codes[pairs[:, 1]]]
    y = problem.labels
    if not keep_ties:
        pairs = pairs[(y[pairs[:, 0]] != y[pairs[:, 1]]).any(axis=1)]
    if len(pairs) == 0:
        raise DataError(
            "No two rows of different groups (and of the same stratum) have different labels: "
            "there is no pair to hold out. Check the labels, groups and strata."
        )
    return Pairs(pairs, keep_ties, groups)


def pairs_within(groups: QueryGroups, what: str = "stratum") -> Index:
    """All pairs of rows of the same group, as row numbers of shape (n_pairs, 2)."""
    parts = [r[np.column_stack(np.triu_indices(len(r), 1))] for r in groups if len(r) > 1]
    if not parts:
        raise DataError(f"No {what} has two rows: there is no pair to hold out.")
    return np.concatenate(parts)


def _random_pairs(problem: HoldOutProblem, n: int, random_state: Any) -> Index:
    """n unordered pairs with different labels (in any output), drawn without replacement."""
    if n < 1:
        raise ParameterError(f"pairs must be at least 1: got {n}.")
    rng = as_generator(random_state)
    groups, y = problem.groups, problem.labels
    chances = groups.sizes * (groups.sizes - 1.0)
    if chances.sum() == 0:
        raise DataError("No query has two rows: there is no pair to hold out.")
    if n >= chances.sum() / 4:  # half of all pairs, or more: list them
        every = pairs_within(groups, "query")
        differ = (y[every[:, 0]] != y[every[:, 1]]).any(axis=1)
        every = rng.permutation(every[differ])[:n]
        _check_number_found(n, len(every))
        return every
    found: dict[tuple[int, int], None] = {}
    for _ in range(100):
        query = rng.choice(groups.n_groups, size=2 * n, p=chances / chances.sum())
        size = groups.sizes[query]
        i = rng.integers(0, size)
        j = (i + rng.integers(1, size)) % size
        first, second = (groups.order[groups.indptr[query] + part] for part in (i, j))
        differ = (y[first] != y[second]).any(axis=1)
        low, high = np.minimum(first, second)[differ], np.maximum(first, second)[differ]
        found.update(dict.fromkeys(zip(low.tolist(), high.tolist(), strict=True)))
        if len(found) >= n:
            break
    _check_number_found(n, len(found))
    return np.array(list(found)[:n], dtype=np.intp)


def _check_number_found(requested: int, found: int) -> None:
    if found == 0:
        raise DataError(
            "No two rows of a query have different labels: there is no pair to hold out."
        )
    if found < requested:
        warn(
            f"pairs={requested}, but only {found} pairs with different labels were found: all of "
            "these are held out.",
        )


REFUSED = 0.1  # relative error above which a hold-out is refused
UNRELIABLE = 1e-4  # relative error above which a hold-out has few correct digits
CLOSE = EPS / UNRELIABLE  # alphas below CLOSE times the norm of the data need a check
SAME_SCORES = 1e-2  # relative rounding error above which large alphas are refused
OF_FOLD, OF_PAIR = 100.0, 10.0  # errors of the matrix of a fold or pair, of norm 1, relative to EPS
COMPARED = 1e-2  # relative error that does not matter for which of many alphas is best
_WARNED_FROM = ContextVar("warned_from", default=UNRELIABLE)


def lost_in_rounding() -> DataError:
    """The error for an alpha that is too small to have an effect."""
    return DataError(
        "An alpha is too small relative to the rounding errors of the data: exact hold-outs are "
        "not possible. Use a larger alpha, or scale the features."
    )


def check_digits(norm: float, least: float) -> None:
    """Refuse an alpha that leaves a matrix singular up to rounding errors; warn if it is close.

    All plans call this function with the norm and the smallest eigenvalue, or bounds of both, of
    the matrix that an alpha makes regular, such as K + lam I.
    """
    error = EPS * norm / least if least > 0.0 else np.inf
    if not error < REFUSED:  # also if it is NaN
        raise lost_in_rounding()
    if error > _WARNED_FROM.get():
        warn(
            "An alpha is too small relative to the rounding errors of the kernel: its hold-outs "
            f"are unreliable (relative error up to {error:.0e}). Use larger alphas.",
        )


@contextmanager
def alphas_compared() -> Iterator[None]:
    """Alphas of a grid of ours are compared: warn only of errors that could change the choice."""
    token = _WARNED_FROM.set(COMPARED)
    try:
        yield
    finally:
        _WARNED_FROM.reset(token)


def check_large_alpha(lam: float, norm: float) -> None:
    """Refuse an alpha beyond which the scores of all rows are equal up to rounding errors."""
    if EPS * lam > SAME_SCORES * norm:
        raise DataError(
            "An alpha is too large relative to the kernel: held-out rows differ by no more than "
            "rounding errors. Use a smaller alpha, or scale the features."
        )


def not_definite(M: Any, lam: float) -> DataError:
    """The error for a kernel matrix for which M + lam I has no Cholesky factor.

    If M has a negative eigenvalue below -lam, the objective has no minimum.
    """
    s = backend_of(M).eigh(M)[0]
    if not float(s[0]) < -100.0 * len(s) * EPS * float(abs(s).max()):
        return lost_in_rounding()
    return DataError(
        f"The kernel is not positive semidefinite (it has the eigenvalue {float(s[0]):.3g}), and "
        "exact hold-outs need a larger alpha or another kernel. As an alternative, "
        "RankingSearchCV with a splitter refits."
    )


@contextmanager
def explained_rounding() -> Iterator[None]:
    """Replace the error of a numerically singular system by one that explains it."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise lost_in_rounding() from None
