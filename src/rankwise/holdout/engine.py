"""The hold-out engine: what is held out, its predictions, and their quality.

Where exact hold-outs of everything would take too long, a sample is held out:

- `sampled_rows`: P of some rows of one ranking;
- `sampled_folds`: some queries of a kernel matrix, or some rows of a regression;
- `folds_by_sums`: folds that are subtracted from the sums of all rows;
- `refitted_folds`: refits, or conjugate gradients for all folds side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, as_given, backend_of, is_sparse, to_host
from rankwise.backends.parallel import SMALL, map_in_threads, threads_for
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout.hold_out_problem import (
    CLOSE,
    ComparisonFolds,
    HoldOutProblem,
    Items,
    Pairs,
    Plan,
    Queries,
    column_size,
    explained_rounding,
    plain_problem,
)
from rankwise.holdout.leave_comparison_out import (
    HeldComparisons,
    held_comparisons,
    without_items,
)
from rankwise.holdout.leave_pair_out import (
    PairDifferences,
    all_pair_losses,
    pair_differences,
    pair_errors,
)
from rankwise.holdout.leave_query_out import (
    Rescaling,
    dual_folds,
    fold_residuals,
    lifted_root_kernel,
    primal_folds,
    solve_without,
)
from rankwise.holdout.pair_differences import (
    TIED,
    add_losses,
    listed_differences,
    rounding_error,
    settled_rows,
)
from rankwise.holdout.pair_systems import DenseP, Laplacian, LowRankP, centred, on_diagonal
from rankwise.holdout.scores import (
    GREATER_IS_BETTER,
    HeldOutScores,
    ObservedComparisons,
    score_predictions,
)
from rankwise.holdout.signed_hold_outs import SignedComparisons, signed_pairs, signed_queries
from rankwise.holdout.table_hold_out import Cells
from rankwise.kernels import Precomputed
from rankwise.metrics import get_metric
from rankwise.metrics.comparison_metrics import clustered_mean, squared_error_of
from rankwise.problem import (
    Coordinates,
    FeatureSpace,
    KernelSpace,
    Loss,
    PairLoss,
    Problem,
    RowLoss,
    System,
    Task,
)
from rankwise.problem.block_sums import without_rows
from rankwise.problem.problem import side_by_side
from rankwise.scaling import ColumnStandard
from rankwise.solvers.band import BandForm
from rankwise.solvers.ridge_path import CentredMoments
from rankwise.solvers.shifted_cg import is_solved, shifted_cg

EXACT = "A formula turns the fit to all rows into the fit without each unit."
SUMS = "The sums of each fold are subtracted from the sums of all rows."
REFITTED = "The ranker is refitted without each fold."
SIGNED_PAIRS = (
    "Where the same weights are 0 without a pair as with all rows, a formula turns one fit into "
    "the other; elsewhere, the moments are solved again."
)

Keep = Callable[[int, int, PairDifferences], None]


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Predictions for held-out rows, for each alpha.

    Attributes
    ----------
    problem : HoldOutProblem
    alphas : ndarray of shape (n_alphas,)
    predictions : ndarray of shape (n_alphas, n, n_outputs)
        Scores of the held-out rows, up to a constant in each unit unless the loss has an intercept.
    held : ndarray of shape (n,)
        The numbers of the held-out rows.
    unit : ndarray of shape (n,)
        The query or fold within which each row is compared, as a number.
    exact : bool
        Whether predictions come from fits to all rows by a formula; otherwise, from refits.
    why : str
        The reason, as a sentence.
    shared : tuple of str
        What was computed from all rows; see `HeldOutScores.shared`.
    """

    problem: HoldOutProblem
    alphas: Array
    predictions: Array
    held: Index
    unit: Index
    exact: bool = True
    why: str = EXACT
    shared: tuple[str, ...] = ()

    def values(self, metric: str, k: int) -> Array:
        """A metric of each unit at the alpha with index k, one output after the other."""
        labels, predictions = self.problem.labels[self.held], to_host(self.predictions[k])
        columns = zip(labels.T, predictions.T, strict=True)
        function, _ = get_metric(metric)
        return np.concatenate(
            [function(y, f, self.unit, per_query=True).values for y, f in columns]
        )

    def score(self, metric: str) -> HeldOutScores:
        """The mean of a metric over units, with its standard error, for each alpha."""
        labels, predictions = self.problem.labels[self.held], to_host(self.predictions)
        note = "" if self.why in (EXACT, SUMS, REFITTED) else self.why
        if metric != "squared_error":
            found = score_predictions(self.alphas, labels, predictions, metric, self.unit)
            return replace(found, shared=self.shared, note=note)
        residuals = labels - predictions
        if self.why != EXACT:  # the scores of a fold have no intercept
            for k in np.unique(self.unit):
                here = self.unit == k
                residuals[:, here] -= residuals[:, here].mean(axis=1, keepdims=True)
        squared = (residuals**2).mean(axis=2)
        spread = squared.std(axis=1, ddof=1) / np.sqrt(squared.shape[1])
        return HeldOutScores(
            self.alphas, squared.mean(axis=1), spread, metric, False, shared=self.shared
        )


@dataclass(frozen=True, eq=False)
class PairHoldOut:
    """Held-out pairs of rows, block by block: their differences are not stored.

    `exact`, `why` and `shared` are as for `HoldOut`.
    """

    problem: HoldOutProblem
    plan: Pairs
    exact: bool = True
    why: str = EXACT
    shared: tuple[str, ...] = ()

    @property
    def alphas(self) -> Array:
        return self.problem.alphas

    def blocks(self, task: int) -> Iterator[tuple[int, PairDifferences]]:
        """(index of the alpha, f(first) - f(second) of some pairs) of a task."""
        if self.problem.problem.space.signs is not None:
            problem = plain(self.problem)
            mus = [strength(problem.loss, lam, len(problem.y) - 2) for lam in problem.lams]
            return signed_pairs(problem, self.plan, mus)
        if self.plan.among is None:
            return pair_differences(self.problem, task, self.plan)
        return self._sampled_blocks(self.plan.among)

    def _sampled_blocks(self, some: Index) -> Iterator[tuple[int, PairDifferences]]:
        """All pairs of some rows, of one system for all outputs."""
        problem, on = self.problem, backend_of(self.problem.y)
        m, n = len(problem.y), len(some)
        y, labels = on.contiguous(problem.y[some]), problem.labels[some]
        mus = [strength(problem.loss, lam, m - 2) for lam in problem.lams]
        first, second = np.triu_indices(n, 1)
        differ = (labels[first] != labels[second]).any(axis=1)
        first, second = first[differ], second[differ]
        place, rows = n * first + second, (some[first], some[second])
        for k, (P, Py) in enumerate(sampled_rows(problem, some, mus)):
            entries = P.P.reshape(-1)[place]
            found = listed_differences(entries, P.diagonal, y, Py, first, second, tied=P.tied)
            yield k, PairDifferences(*rows, found)

    def losses(self, keep: Keep | None = None) -> tuple[Array, Array]:
        """(loss, compared): errors and numbers of the held-out pairs of each row.

        `loss` has shape (n_alphas, n_rows, n_outputs), `compared` (n_rows, n_outputs). Each block
        of pairs is passed to ``keep(task, index of the alpha, block)``.
        """
        problem, on = self.problem, backend_of(self.problem.y)
        loss = np.zeros((len(problem.alphas), *problem.y.shape))
        compared, sampled = np.zeros(problem.y.shape), self.plan.among is not None
        for task in range(1 if sampled else problem.n_tasks):
            columns = slice(None) if sampled else problem.columns(task)
            labels = on.contiguous(problem.y[:, columns])
            task_loss = on.zeros(len(problem.alphas), *labels.shape)
            task_compared = on.zeros(len(problem.alphas), *labels.shape)
            with problem.problem.blas_threads():
                all_pairs = None
                if keep is None and problem.problem.space.signs is None:
                    all_pairs = all_pair_losses(problem, task, self.plan, labels)
                for a, (lost, n_pairs) in enumerate(all_pairs or []):
                    task_loss[a], task_compared[a] = lost, n_pairs
                for a, block in [] if all_pairs else self.blocks(task):
                    add_losses(*block, labels, task_loss[a], task_compared[a])
                    if keep is not None:
                        keep(task, a, block)
            loss[..., columns] = to_host(task_loss)
            compared[:, columns] = to_host(task_compared[0])
        return loss, compared

    def errors(
        self, units: QueryGroups | None = None, keep: Keep | None = None
    ) -> tuple[Array, Array]:
        """Share of wrong pairs and its standard error, shape (n_alphas, n_outputs)."""
        return pair_errors(*self.losses(keep), self.problem.groups, units)

    def score(self, metric: str = "disagreement") -> HeldOutScores:
        """The share of wrong pairs, averaged over outputs."""
        if metric != "disagreement":
            raise ValueError(f"Pairs are scored by their disagreement, not by {metric}.")
        score, spread = (values.mean(axis=1) for values in self.errors())
        return HeldOutScores(self.alphas, score, spread, metric, False, shared=self.shared)


@dataclass(frozen=True, eq=False)
class ComparisonHoldOut:
    """Predictions for held-out comparisons, for each alpha.

    Attributes
    ----------
    predictions : ndarray of shape (n_alphas, n, n_outputs)
        f(first) - f(second), plus what the context adds.
    held : ndarray of shape (n,)
        The numbers of the comparisons; with ``Items(both=False)``, each of them twice.
    observed : ObservedComparisons
        Margins, weights and groups of these comparisons.
    """

    alphas: Array
    predictions: Array
    held: Index
    observed: ObservedComparisons
    exact: bool = True
    why: str = EXACT
    shared: tuple[str, ...] = ()

    def counted(self) -> ComparisonHoldOut:
        """Without the comparisons of weight 0."""
        kept, observed = self.observed.weight > 0, self.observed
        parts = (observed.margin[kept], observed.weight[kept], observed.codes[kept])
        predictions, held = self.predictions[:, kept], self.held[kept]
        return replace(
            self, predictions=predictions, held=held, observed=ObservedComparisons(*parts)
        )

    @cached_property
    def probabilities(self) -> Array:
        """P(first wins) for each alpha and comparison; see `ObservedComparisons.probability`."""
        return np.stack([self.observed.probability(one) for one in self.predictions[:, :, 0]])

    def scores(self, metric: str) -> tuple[Array, Array]:
        """A metric of each alpha, and its standard error over groups."""
        observed = self.observed
        if metric == "squared_error":
            margin = observed.margin.reshape(len(self.held), -1)
            squared = squared_error_of(margin, self.predictions).mean(axis=2)
            found = [clustered_mean(v, observed.weight, observed.codes) for v in squared]
        else:
            needed = metric in ("log_loss", "brier")
            chances: Any = self.probabilities if needed else [None] * len(self.alphas)
            pairs = zip(self.predictions[:, :, 0], chances, strict=True)
            found = [observed.score(metric, d, p) for d, p in pairs]
        score, error = np.array(found).T
        return score, error

    def score(self, metric: str) -> HeldOutScores:
        """A metric of each alpha, with its standard error over groups."""
        note = "" if self.why in (EXACT, REFITTED) else self.why
        found = *self.scores(metric), metric, GREATER_IS_BETTER[metric]
        return HeldOutScores(self.alphas, *found, shared=self.shared, note=note)


def hold_out(problem: Any, plan: Plan) -> Any:
    """Predict what a plan holds out, by fits without it, for all alphas of the problem.

    Returns a `HoldOut` for queries and rows, a `PairHoldOut` for pairs, and a `ComparisonHoldOut`
    for comparisons and items, each of a `HoldOutProblem`. For the cells of a table, `problem` is a
    `TableProblem`, which returns a `TableHoldOut`.
    """
    if isinstance(plan, Cells):
        return problem.hold_out(plan)
    if isinstance(plan, Pairs):
        shared = problem.shared(scaling=True)
        if problem.problem.space.signs is not None:
            return PairHoldOut(problem, plan, False, SIGNED_PAIRS, shared)
        return PairHoldOut(problem, plan, shared=shared)
    with explained_rounding(), problem.problem.blas_threads():
        if isinstance(plan, (ComparisonFolds, Items)):
            return _comparisons(problem, plan)
        return _rows(problem, plan)


def _rows(problem: HoldOutProblem, plan: Queries) -> HoldOut:
    folds, queries, sampled = plan.folds(problem.groups), plan.whole_queries, plan.sampled
    inner, alphas, why = problem.problem, problem.alphas, EXACT
    held = np.concatenate(folds)
    fold_of = np.repeat(np.arange(len(folds)), [len(fold) for fold in folds])
    everything = len(held) == len(problem.y)
    weighted = inner.row_weights is not None and (problem.loss.has_intercept or not queries)
    signed, changed = inner.space.signs is not None, False
    given = problem  # rows of features that are mapped are not scaled again, and not fitted to
    if signed:
        problem, weighted = plain(problem), not queries
        inner = problem.problem
    if sampled and inner.space.form(inner.X) != "cg":
        predictions, why = folds_by_sums(problem, folds, one_ranking=not queries), SUMS
    elif sampled or weighted or not (queries or everything or plan.only is not None):
        alphas, predictions = refitted_folds(problem, folds, one_ranking=not queries)
        why = REFITTED
    elif signed:
        check_folds(problem, folds)
        predictions, changes = signed_queries(problem, folds, _rescaling(given, folds))
        changed, why = changes.n_changed > 0, changes.why
    elif not everything:
        predictions = sampled_folds(problem, folds)
    else:
        if queries and inner.space.has_own_hold_outs:
            check_folds(problem, folds)
            predictions = inner.space.hold_out_queries(inner, problem.lams, folds)
        else:
            predictions = predict_folds(problem, folds, whole_queries=queries)
        why = EXACT if queries or problem.loss.ties == "include" else REFITTED
        order = np.argsort(held)  # these predictions are in the order of the rows
        held, fold_of = held[order], fold_of[order]
    scaling = problem.scaling
    own = scaling is not None and scaling.within_queries and queries
    shared = problem.shared(scaling=not own and not rescales(given, len(folds)))
    unit = problem.groups.codes[held] if queries else fold_of
    if everything and (np.diff(held) < 0).any():
        order = np.argsort(held, kind="stable")
        held, unit, predictions = held[order], unit[order], predictions[:, order]
    exact = why != REFITTED and not changed
    return HoldOut(given, alphas, predictions, held, unit, exact, why, shared)


def _comparisons(problem: HoldOutProblem, plan: ComparisonFolds | Items) -> ComparisonHoldOut:
    inner, alphas, why = problem.problem, problem.alphas, EXACT
    graph, signed = inner.comparisons, None
    n, lams = len(graph.first), problem.lams
    if isinstance(plan, ComparisonFolds) and plan.refit:
        assert plan.fold is not None
        alphas, held, predictions = _refitted_comparisons(problem, plan.fold)
        why = REFITTED
    else:
        comparisons: HeldComparisons
        if inner.space.signs is None:
            excess = inner.space.without_comparisons(inner)
            comparisons = held_comparisons(plain_problem(inner), excess)
        else:
            comparisons = signed = SignedComparisons.of_problem(plain(problem))
        if isinstance(plan, Items):
            held = np.arange(n) if plan.both else np.tile(np.arange(n), 2)
            predictions = without_items(comparisons, lams, both=plan.both)
        elif plan.fold is None:
            held = np.arange(n) if plan.only is None else plan.only
            predictions = comparisons.single(held, lams)
        else:
            held = np.argsort(plan.fold, kind="stable")[np.count_nonzero(plan.fold < 0) :]
            starts = np.flatnonzero(np.diff(plan.fold[held], prepend=-1))
            predictions = comparisons.sets(np.split(held, starts[1:]), lams)
            order = np.argsort(held)
            held, predictions = held[order], predictions[:, order]
    if signed is not None:
        why = signed.changes.why
    codes = np.arange(n) if graph.group_of_pair is None else graph.group_of_pair
    observed = ObservedComparisons(graph.margin[held], graph.weight[held], codes[held])
    exact = why == EXACT or (signed is not None and not signed.changes.n_changed)
    return ComparisonHoldOut(alphas, predictions, held, observed, exact, why)


def plain(problem: HoldOutProblem) -> HoldOutProblem:
    """The same hold-out problem on features, on landmarks or with a kernel."""
    return replace(problem, problem=plain_problem(problem.problem))


def _refitted_comparisons(problem: HoldOutProblem, fold: Index) -> tuple[Array, Index, Array]:
    """The alphas that are solved, the comparisons of all folds, and predictions for them."""
    inner = problem.problem
    graph, rests = inner.comparisons, []
    members = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
    for held in members:
        weight = graph.weight.copy()
        weight[held] = 0.0
        rests.append(replace(inner, tasks=[Task(replace(graph, weight=weight), None)]))
    rows = [np.arange(inner.n_rows)] * len(rests)
    alphas, scores = refitted_scores(inner, rests, problem.alphas, rows)
    found = [
        np.stack([graph.incidence[held] @ f for f in of_fold])
        for held, of_fold in zip(members, scores, strict=True)
    ]
    return alphas, np.concatenate(members), np.concatenate(found, axis=1)


OUTLIER = 1e-3  # smallest deviation without a fold, relative to all rows, for sums of squares
RESCALED_FLOPS = 3e11  # of systems of single folds, about half a minute

Strength = Callable[[float, int], float]  # (lam, rows left) -> mu


def rescales(problem: HoldOutProblem, n_folds: int) -> bool:
    """Whether each fold is held out of the standardization of features as well.

    This needs linear functions, and a system for each fold, which must not take too long.
    """
    space, X = problem.problem.space, problem.problem.X
    if not isinstance(problem.scaling, ColumnStandard) or not space.linear:
        return False
    (m, d), n_lams = X.shape, len(problem.alphas)
    if space.direct_form(X) == "primal":
        flops = n_lams * d**3 / 3
    elif is_sparse(as_given(X)):
        return False
    else:
        flops = m**2 * d + n_lams * m**3
    return bool(n_folds * problem.n_tasks * flops <= RESCALED_FLOPS)


def predict_folds(problem: HoldOutProblem, folds: Sequence[Index], *, whole_queries: bool) -> Array:
    """Predictions for folds of whole queries, or of rows of one ranking.

    Shape (n_alphas, n_rows, n_outputs).
    """
    rescaling, loss = _rescaling(problem, folds), problem.loss
    is_refitted = loss.ties == "exclude" and not (whole_queries or loss.has_intercept)
    inner = problem.problem
    if rescaling is not None and inner.space.direct_form(inner.X) == "dual":
        is_refitted = True  # rescaled rows have another kernel matrix
    if is_refitted:
        out = backend_of(problem.y).empty(len(problem.alphas), *problem.y.shape)
        _refit_folds(problem, folds, rescaling, np.arange(len(folds)), out)
        return out
    if whole_queries and not loss.has_intercept:
        check_folds(problem, folds)
        by_task = [_pairwise_folds(problem, k, folds, rescaling) for k in range(problem.n_tasks)]
        predictions: Array = backend_of(problem.y).xp.concatenate(by_task, axis=2)
        return predictions

    def mu(lam: float, n_left: int) -> float:
        return lam if loss.has_intercept else strength(loss, lam, n_left)

    given = problem.coordinates, problem.y, folds, problem.lams, mu
    out = ridge_folds(*given, add_intercept=loss.has_intercept, rescaling=rescaling)
    if rescaling is not None:
        # Far from the mean of the others, the sums of their squares and of the intercept cancel.
        far = np.flatnonzero(rescaling.deviations.min(axis=1) < OUTLIER)
        _refit_folds(problem, folds, rescaling, far, out)
    return out


def strength(loss: Loss, lam: float, n_rows: int) -> float:
    """The mu of a ridge regression that equals one ranking of these rows at lam."""
    return lam / (loss.weight(n_rows, n_rows * (n_rows - 1) // 2) * n_rows)


def check_folds(problem: HoldOutProblem, folds: Sequence[Index]) -> None:
    """Each fold must leave a pair to learn from."""
    groups = problem.groups
    for task in problem.problem.tasks:
        has_pairs = task.graph.degrees > 0
        fold_of = np.repeat(np.arange(len(folds)), [len(fold) for fold in folds])
        held = np.bincount(fold_of, has_pairs[np.concatenate(folds)])
        if held.max() == np.count_nonzero(has_pairs):
            fold = folds[int(held.argmax())]
            name = groups.names[groups.codes[fold[np.argmax(has_pairs[fold])]]]
            raise DataError(
                f"Without query {name} there is no pair to learn from. Add queries with "
                "different labels, or use another kind of hold-out."
            )


def _pairwise_folds(
    problem: HoldOutProblem, task: int, folds: Sequence[Index], rescaling: Rescaling | None
) -> Array:
    graph, rows, y = problem.graph(task), problem.coordinates, problem.targets(task)
    if rows.kernel is not None:
        K = backend_of(y).copy(rows.kernel)
        return dual_folds(K, graph, y, folds, problem.lams, rows.shift)
    moments = problem.problem.coordinate_moments()
    known = None if moments is None else moments[task]
    return primal_folds(rows.features, graph, y, folds, problem.lams, rescaling, known)


def _rescaling(problem: HoldOutProblem, folds: Sequence[Index]) -> Rescaling | None:
    if not rescales(problem, len(folds)):
        return None
    assert isinstance(problem.scaling, ColumnStandard)
    row_weights = problem.problem.row_weights
    return Rescaling.of(problem.problem.X, folds, row_weights, problem.scaling)


def ridge_folds(
    rows: Coordinates,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    strength: Strength,
    *,
    add_intercept: bool,
    rescaling: Rescaling | None = None,
) -> Array:
    """Folds of rows of a ridge regression with an intercept, shape (n_lams, n_rows, n_outputs).

    This covers RLS, and also RankRLS on one global ranking: its loss on the n rows that are left is
    w n times the squared errors at the optimal intercept. Therefore RankRLS at lam is ridge
    regression at mu = ``strength(lam, n)`` = lam / (w n), with predictions that omit the intercept.

    From a kernel matrix, there is one inverse for each lam and each number of rows that are left,
    and a system of the size |U| of each fold. From features, systems have the size of the fold
    or the number of features.
    """
    longest = max(len(fold) for fold in folds)
    if rows.kernel is None and not (
        rescaling is None and add_intercept and longest < rows.features.shape[1]
    ):
        return _by_sums(
            rows.features,
            y,
            folds,
            lams,
            strength,
            add_intercept=add_intercept,
            rescaling=rescaling,
        )
    m, K, on = len(y), rows.kernel, backend_of(y)
    mean = y.mean(axis=0)
    t, out = on.contiguous(y - mean), on.empty(len(lams), *y.shape)
    if K is None:
        F = on.rows(rows.features, slice(None))
        F = F - F.mean(axis=0)
    laplacian = Laplacian.of_all_pairs(m, 1)  # lam / 1 is mu
    for f, lam in zip(out, lams, strict=True):
        mus = [strength(lam, m - len(fold)) for fold in folds]
        for mu in set(mus):  # folds that leave the same number of rows share a factorization
            same, close = [folds[k] for k, own in enumerate(mus) if own == mu], False
            if K is None:
                P: DenseP | LowRankP = LowRankP.of(F, laplacian, mu)
                close = mu < CLOSE * float((F**2).sum())
            else:
                P = DenseP.of(centred(on.copy(K)), laplacian, mu)
            Py = P.times(t)
            e = fold_residuals(P, Py, same, close=close)  # y - f of the fit without the fold
            if add_intercept:
                scores = t - e
            else:
                assert K is not None
                assert isinstance(P, DenseP)
                scores = on.zeros(*t.shape)
                for fold in same:
                    a_rest = (Py - P.P[:, fold] @ e[fold]) / mu
                    beside = 0.0 if rows.shift is None else rows.shift @ a_rest
                    scores[fold] = K[fold] @ a_rest + beside
            held = np.concatenate(same)
            codes = np.repeat(np.arange(len(same)), [len(fold) for fold in same])
            size = (abs(t) + abs(e))[held]
            f[held] = settled_rows(scores[held], size, codes, P.tied) + add_intercept * mean
    return out


def _by_sums(
    features: Any,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    strength: Strength,
    *,
    add_intercept: bool,
    rescaling: Rescaling | None,
) -> Array:
    """`ridge_folds` from the moments of all folds but one."""
    m, on = len(y), backend_of(features)
    X = on.rows(features, slice(None))
    centre, mean = X.mean(axis=0), y.mean(axis=0)
    out = on.empty(len(lams), *y.shape)
    # The intercept is the weight of an additional feature, which is not penalized.
    Z = X - centre
    Z = on.array(on.xp.hstack((Z, on.zeros(m, 1) + column_size(Z))))
    scales = None
    if rescaling is not None:
        scales = np.column_stack((rescaling.deviations, np.ones(len(folds))))
        centre = centre + on.array(rescaling.offset)
    mus = np.array([[strength(lam, m - len(fold)) for lam in lams] for fold in folds])

    def keep(fold: Index, w: Array) -> None:
        if add_intercept:
            out[:, fold] = Z[fold] @ w + mean
        else:
            out[:, fold] = (Z[fold, :-1] + centre) @ w[:, :-1]

    solve_without(Z, y - mean, folds, mus, keep, intercept=True, scales=scales)
    return out


def _refit_folds(
    problem: HoldOutProblem,
    folds: Sequence[Index],
    rescaling: Rescaling | None,
    chosen: Index,
    out: Array,
) -> None:
    """Refit without each chosen fold, in the coordinates of all rows, rescaled if they can be."""
    loss, groups, on = problem.loss, problem.groups, backend_of(problem.y)
    y, X = problem.by_output(problem.y), problem.problem.X
    for k in chosen.tolist():
        fold = folds[k]
        rest = np.setdiff1d(np.arange(len(y)), fold)
        space: FeatureSpace | KernelSpace = FeatureSpace()
        if rescaling is not None:
            scale = on.array(rescaling.deviations[k])
            offset = on.array(rescaling.offset * (not loss.has_intercept))
            train, test = on.rows(X, rest) / scale, (on.rows(X, fold) + offset) / scale
        elif problem.coordinates.kernel is None:
            train, test = (problem.coordinates.features[rows] for rows in (rest, fold))
        else:
            K, shift = problem.coordinates.kernel, problem.coordinates.shift
            space = KernelSpace(Precomputed())
            train, test = K[rest][:, rest], K[fold][:, rest]
            test = test if shift is None else test + shift[rest]
        tasks = loss.tasks(y[rest], groups.take(rest))
        loss.check_learnable([task.graph.n_pairs for task in tasks], len(rest), groups.n_groups)
        fit = Problem(train, tasks, loss, space).solve(problem.lams)
        for a, solution in enumerate(fit.solutions):
            scores = on.array(fit.basis.products(test, solution.weights)) + solution.intercept
            out[a, fold] = scores.reshape(len(fold), -1)


CHOICE_TOL, CHOICE_STEPS = 1e-3, 100  # of conjugate gradients


def sampled_rows(
    problem: HoldOutProblem, some: Index, mus: Sequence[float]
) -> Iterator[tuple[DenseP, Array]]:
    """P and P y of some rows, if all rows are one ranking whose pairs all count."""
    inner, y = problem.problem, problem.y
    y = y - y.mean(axis=0)
    system = inner.space.system(inner.X, inner.qid)
    if system is None:
        K = problem.coordinates.kernel
        assert K is not None
        return kernel_sample(K, y, some, mus)
    (moments,) = _regression_moments(problem, system)
    return feature_sample(moments, system.coordinates(inner.X)(some), y[some], mus)


def _regression_moments(problem: HoldOutProblem, system: System) -> list[CentredMoments]:
    """The moments of the coordinates of all rows, for a regression."""
    loss, X = RowLoss(), problem.problem.X
    tasks = loss.tasks(problem.by_output(problem.y), None)
    return [system.coordinate_moments(system.moments(X, task, loss)) for task in tasks]


def sampled_folds(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Some queries of a kernel matrix, or rows of a regression, shape (n_alphas, n, n_outputs).

    Rankers have predictions up to a constant in each query. See `dual_folds`: only the diagonal
    block of the rows of all folds is needed.
    """
    on, some = backend_of(problem.y), np.concatenate(folds)
    sizes = [len(fold) for fold in folds]
    parts, codes = np.split(np.arange(len(some)), np.cumsum(sizes)[:-1]), np.arange(len(folds))
    codes, y = np.repeat(codes, sizes), problem.y[some]
    out = on.empty(len(problem.alphas), *y.shape)
    if problem.loss.has_intercept:
        for f, (P, Py) in zip(out, sampled_rows(problem, some, problem.lams), strict=True):
            e = fold_residuals(P, Py, parts)
            f[:] = settled_rows(y - e, abs(y) + abs(e), codes, P.tied)
        return out
    for task in range(problem.n_tasks):
        columns, graph, K = problem.columns(task), problem.graph(task), problem.coordinates.kernel
        assert K is not None
        t, M = graph.root_target(problem.targets(task)), lifted_root_kernel(on.copy(K), graph)
        for f, (N, z) in zip(out, last_rows(M, t, some, problem.lams), strict=True):
            v = on.zeros(*t.shape)
            v[some] = fold_residuals(N, z, parts)
            e = graph.root_inverse(v)[some]
            size = abs(y[:, columns]) + abs(e)
            f[:, columns] = settled_rows(y[:, columns] - e, size, codes, N.tied)
    return out


def folds_by_sums(problem: HoldOutProblem, folds: Sequence[Index], *, one_ranking: bool) -> Array:
    """Scores of folds without an intercept, by subtracting their moments from the total.

    Pairs of one ranking that all count define a regression on the rows that are left.
    """
    inner, loss = problem.problem, problem.loss
    X, m, on = inner.X, inner.n_rows, backend_of(inner.X)
    system = inner.space.system(X, inner.qid)
    assert system is not None
    regression = RowLoss() if one_ranking else loss
    total: list[Any]
    if one_ranking:
        total = _regression_moments(problem, system)
    else:
        total = [system.coordinate_moments(one) for one in inner.moments(system)]
    y, load = problem.by_output(problem.y), system.coordinates(X)

    def held_out(fold: Index) -> Array:
        lams = problem.lams
        if one_ranking and not loss.has_intercept:
            lams = [strength(loss, lam, m - len(fold)) for lam in lams]
        F = load(fold)
        parts = regression.tasks(y[fold], None if one_ranking else inner.groups.take(fold))
        by_task = []
        for whole, part in zip(total, parts, strict=True):
            rest = whole - regression.moments(F.__getitem__, F.shape[1], part, on)
            weights = system.coordinate_weights(rest.A, rest.b, lams)
            columns = on.matmul(F, on.contiguous(side_by_side(weights)))
            scores = columns.reshape(len(fold), len(weights), -1)
            by_task.append(on.xp.moveaxis(scores, 1, 0))
        found: Array = on.xp.concatenate(by_task, axis=2)
        return found

    n_numbers = len(problem.alphas) * len(folds) * system.n_coordinates**3
    in_threads = on.is_host and system.n_coordinates <= SMALL
    threads = threads_for(n_numbers) if in_threads else 1
    by_fold: Array = on.xp.concatenate(map_in_threads(held_out, folds, threads), axis=1)
    return by_fold


def refitted_folds(
    problem: HoldOutProblem, folds: Sequence[Index], *, one_ranking: bool
) -> tuple[Array, Array]:
    """The alphas that are solved, and scores of folds without an intercept, by fits without them.

    The other alphas need too many steps of conjugate gradients.
    """
    inner = problem.problem
    loss = PairLoss() if problem.loss.has_intercept else problem.loss
    one_ranking = one_ranking or problem.loss.has_intercept
    groups = QueryGroups.of(None, inner.n_rows) if one_ranking else inner.groups
    y, rests = problem.by_output(problem.y), []
    for fold in folds:
        left = without_rows(groups, fold).with_row_weights(inner.row_weights)
        tasks = loss.tasks(y, left)
        loss.check_learnable([task.graph.n_pairs for task in tasks], inner.n_rows, 1)
        rests.append(replace(inner, tasks=tasks, loss=loss))
    alphas, scores = refitted_scores(inner, rests, problem.alphas, folds)
    return alphas, np.concatenate(scores, axis=1)


def refitted_scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """Scores of each part of the rows by the fit to the rest of the problem without it.

    Returns the alphas that are solved, and an array of shape (n_alphas, n_rows, n_outputs) for each
    part.
    """
    if problem.space.form(problem.X) == "cg":
        return _step_scores(problem, rests, alphas, parts)
    found = []
    for rest, rows in zip(rests, parts, strict=True):
        fit = rest.solve(alphas.tolist())
        columns = side_by_side([solution.weights for solution in fit.solutions])
        X = rest.X[rows]
        scores = np.asarray(to_host(fit.basis.products(X, backend_of(X).array(columns))))
        found.append(np.moveaxis(scores.reshape(len(rows), len(alphas), -1), 1, 0))
    return alphas, found


def _step_scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """`refitted_scores` of all parts from the same products; weights are not stored.

    A small tolerance is not needed to compare alphas. Those that need many steps are left out,
    unless there is only one.
    """
    space, on = problem.space, backend_of(problem.X)
    tasks = [task for rest in rests for task in rest.tasks]
    products = space.products(problem.X, tasks, problem.tasks[0].graph.compared)
    assert products is not None  # its form is "cg"
    held = np.concatenate(parts)
    observe, _ = on.products(as_given(problem.X)[held])
    tol, max_iter = max(CHOICE_TOL, space.tol), space.max_iter
    if len(alphas) > 1:
        max_iter = min(CHOICE_STEPS, max_iter)
    found = shifted_cg(
        products, products.b, alphas.tolist(), tol=tol, max_iter=max_iter, observe=observe
    )
    solved = np.flatnonzero(is_solved(found, tol)) if len(alphas) > 1 else np.arange(1)
    if not len(solved):
        raise DataError("No alpha is solved in so few steps.")
    scores = np.stack([to_host(found.solutions[k]) for k in solved])
    n_outputs, end, by_part = scores.shape[2] // len(parts), 0, []
    for k, part in enumerate(parts):
        start, end = end, end + len(part)
        by_part.append(scores[:, start:end, k * n_outputs : (k + 1) * n_outputs])
    return alphas[solved], by_part


def feature_sample(
    moments: CentredMoments, F: Array, y: Array, mus: Sequence[float]
) -> Iterator[tuple[DenseP, Array]]:
    """P = I - 11'/n - F V diag(1 / (s + mu)) V'F' for some rows F, from the moments of all n rows.

    `y` has the labels of these rows, less the mean of all labels. One eigendecomposition.
    """
    on = backend_of(F)
    s, V = on.eigh(on.copy(moments.A))
    V, s = on.contiguous(V), s.clip(min=0.0)
    W = on.matmul(on.contiguous(F - moments.F_mean), V)
    products = V.T @ moments.b.reshape(len(s), -1)
    for mu in mus:
        shrunk = W / (s + mu)
        P = on.matmul(-shrunk, W.T)
        P -= 1.0 / moments.n_rows
        yield DenseP(on_diagonal(P, on.zeros(len(P)) + 1.0), TIED), y - shrunk @ products


def kernel_sample(
    kernel: Array, y: Array, some: Index, mus: Sequence[float]
) -> Iterator[tuple[DenseP, Array]]:
    """mu (K + mu I)^-1 on some rows, without the constant vector; `y` is centred.

    The eigenvalue of the constant vector, which is 0, is raised to the size of the others, as in
    `DenseP`. For the cost, see `last_rows`.
    """
    K = centred(backend_of(y).copy(kernel))
    n, scale = len(K), float(abs(K.diagonal()).max())
    K += scale / n
    for mu, (N, z) in zip(mus, last_rows(K, y, some, mus), strict=True):
        yield DenseP(mu * N.P - mu / (mu + scale) / n, N.tied), mu * z


def last_rows(
    M: Array, t: Array, some: Index, lams: Sequence[float]
) -> Iterator[tuple[DenseP, Array]]:
    """(N[some][:, some], (N t)[some]) for N = (M + lam I)^-1 and each lam.

    Without the other rows, M + lam I becomes its Schur complement S, and N[some][:, some] is S^-1.
    For r other rows, r^3/3 + r^2 n flops give S by a Cholesky factorization; for many lam, these
    rows are reduced to band form once, and r n^2 flops give S. Raises `LinAlgError` if M + lam I is
    not definite.
    """
    on, n, norm = backend_of(M), len(some), float(abs(M.diagonal()).sum())
    rest = np.setdiff1d(np.arange(len(M)), some)
    own = on.xp.hstack((M[some[:, None], some], t[some]))
    other = on.contiguous(on.xp.hstack((M[rest[:, None], some], t[rest])))
    for lam, half in zip(lams, _halves(M[rest[:, None], rest], other, lams), strict=True):
        gram = on.add_gram(on.zeros(n + t.shape[1], n + t.shape[1]), half)
        left = own - on.mirror_gram(gram)[:n]
        N = on.inverse_definite(on.contiguous(left[:, :n]), lam)
        if N is None:
            raise _indefinite()
        tied = rounding_error(norm, float(N.diagonal().max()))
        yield DenseP(N, tied), on.matmul(N, on.contiguous(left[:, n:]))


def _halves(M: Array, Z: Array, lams: Sequence[float]) -> Iterator[Array]:
    """C^-1 Z for each lam, with some C C' = M + lam I up to a rotation of Z; M is overwritten."""
    on = backend_of(M)
    if len(M) == 0:
        yield from (Z for _ in lams)
        return
    if on.is_host and len(lams) > on.reduction_cost:
        form = BandForm.of(M)
        rotated = form.rotate(Z)
        yield from (form.solve_half(rotated, lam) for lam in lams)
        return
    diagonal = on.copy(M.diagonal())
    for lam in lams:
        on.diagonal(M)[:] = diagonal + lam
        factor = on.cholesky(M)
        if factor is None:
            raise _indefinite()
        yield on.contiguous(on.solve_triangular(factor, Z))


def _indefinite() -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError("The kernel is not positive semidefinite.")
