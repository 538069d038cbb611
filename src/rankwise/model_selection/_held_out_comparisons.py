"""Exact hold-outs of comparisons, of their groups, and of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.estimators.least_squares.fit_pairs import FitPairsMixin
from rankwise.holdout.alpha_grid import data_alphas
from rankwise.holdout.comparison_hold_out import edges_of, without_items
from rankwise.holdout.comparison_scores import GREATER_IS_BETTER, ObservedComparisons
from rankwise.holdout.held_out_edges import Edges
from rankwise.holdout.held_out_scores import HeldOutScores
from rankwise.holdout.hold_out_problem import explained_rounding, plain_problem
from rankwise.parameters import Choice, Whole, check_alphas, check_value
from rankwise.tables import Column, Table

METRIC = Choice(*GREATER_IS_BETTER)


@dataclass(frozen=True, eq=False, repr=False)
class LeaveComparisonOut(HeldOutScores):
    """Predictions for held-out comparisons, and their quality.

    Attributes
    ----------
    alphas, score, standard_error, metric, greater_is_better, shared
        As for `HeldOutScores`; nothing is shared. The standard error is that of groups, if there
        are any.
    differences : ndarray of shape (n_alphas, n_predictions)
        f(first) - f(second), plus what the context adds, by a ranker trained without the
        comparison.
    compared : ndarray of shape (n_predictions,)
        The number of the comparison that each prediction is for.
    observed : ObservedComparisons
        Margins, weights and groups of these comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_comparison_out
    >>> rng = np.random.default_rng(0)
    >>> X, pairs = rng.standard_normal((30, 3)), rng.permutation(30).reshape(15, 2)
    >>> gap = X[pairs[:, 0], 0] - X[pairs[:, 1], 0]
    >>> result = leave_comparison_out(RankRLS(), X, pairs, margin=np.sign(gap), alphas=[1.0, 10.0])
    >>> result.accuracy.round(2)
    array([1., 1.])
    """

    differences: Array
    compared: Index
    observed: ObservedComparisons

    @property
    def accuracy(self) -> Array:
        """The share of winners that were predicted, for each alpha; a tie counts half."""
        return self.scores("accuracy")[0]

    @property
    def log_loss(self) -> Array:
        """The mean of minus the logarithm of the probability of the outcome."""
        return self.scores("log_loss")[0]

    @property
    def brier(self) -> Array:
        """The mean squared error of the probability that the first item wins."""
        return self.scores("brier")[0]

    @property
    def squared_error(self) -> Array:
        """The mean squared error of the margin."""
        return self.scores("squared_error")[0]

    @property
    def calibration_error(self) -> Array:
        """The mean distance of predicted from observed frequencies, in ten bins."""
        return np.array([self.observed.calibration_error(p) for p in self.probabilities])

    @cached_property
    def probabilities(self) -> Array:
        """P(first wins) for each alpha and prediction.

        It is a logistic function of the held-out difference, with a slope that was fitted to
        the other groups (or comparisons), in five folds.
        """
        return np.stack([self.observed.probability(one) for one in self.differences])

    def scores(self, metric: str) -> tuple[Array, Array]:
        """A metric for each alpha, and its standard errors.

        Parameters
        ----------
        metric : {"accuracy", "log_loss", "brier", "squared_error"}
        """
        check_value("metric", metric, METRIC)
        return scores_of(metric, self.observed, self.differences, lambda: self.probabilities)

    def baselines(self) -> dict[str, dict[str, float]]:
        """Every metric of a random guess, and of "the first one wins"."""
        return {
            name: {metric: self.observed.score(metric, *given)[0] for metric in GREATER_IS_BETTER}
            for name, given in self.observed.baselines().items()
        }

    def to_table(self) -> Table:
        """A row for each alpha, and one for each baseline."""
        by_metric = {metric: self.scores(metric) for metric in GREATER_IS_BETTER}
        rows: list[tuple[Any, ...]] = []
        for k, alpha in enumerate(self.alphas):
            accuracy, error = (part[k] for part in by_metric["accuracy"])
            rest = [by_metric[metric][0][k] for metric in ("log_loss", "brier", "squared_error")]
            best = "best" if k == self.best_index else ""
            rows.append((f"{alpha:.4g}", accuracy, error, *rest, self.calibration_error[k], best))
        for name, found in self.baselines().items():
            rest = [found["log_loss"], found["brier"], None, None, ""]
            rows.append((name, found["accuracy"], None, *rest))
        columns = tuple(
            Column(name)
            for name in ("alpha", "accuracy", "s.e.", "log-loss", "Brier", "squared error",
                         "calibration", "")
        )  # fmt: skip
        return Table(columns, tuple(rows))

    def _frame_columns(self) -> dict[str, Array]:
        columns = {"alpha": self.alphas}
        for metric in GREATER_IS_BETTER:
            columns[metric], columns[f"{metric}_error"] = self.scores(metric)
        return {**columns, "calibration_error": self.calibration_error}


def scores_of(
    metric: str, observed: ObservedComparisons, differences: Array, probabilities: Any
) -> tuple[Array, Array]:
    """A metric of differences for each alpha, and its standard errors.

    `probabilities` is a function, which is called if the metric needs them.
    """
    needed = metric in ("log_loss", "brier")
    chances = probabilities() if needed else [None] * len(differences)
    found = [observed.score(metric, d, p) for d, p in zip(differences, chances, strict=True)]
    score, error = np.array(found).T
    return score, error


def leave_comparison_out(
    estimator: Any,
    X: Any,
    pairs: Any,
    *,
    margin: Any = None,
    weight: Any = None,
    groups: Any = None,
    context: Any = None,
    alphas: Any = None,
    metric: str = "squared_error",
    n_splits: int | None = None,
) -> LeaveComparisonOut:
    """Predict every comparison by a ranker trained without it, without refitting.

    Predictions are those of refits to the same rows X and the other comparisons, up to rounding: a
    column of the context is scaled without the held-out comparisons. With groups, a comparison is
    predicted without its whole group: a prompt, a rater, a session. All single comparisons take
    little more time than the fits. A group of g comparisons takes O(g^2 d + g^3) time for each
    alpha and d coordinates (features, landmarks or, with a kernel matrix, rows), or O(d^3) if that
    is less.

    Parameters
    ----------
    estimator : RankRLS or SparseRankRLS
        It is cloned, not fitted. Landmarks are chosen among all rows.
    X, pairs, margin, weight, groups, context
        As for `RankRLS.fit_pairs`. `pairs` may be `rankwise.data.Comparisons`.
    alphas : sequence of float, optional
        None: the alpha of the estimator or, if it is "auto", a grid that follows the scale of the
        data.
    metric : {"accuracy", "log_loss", "brier", "squared_error"}, default="squared_error"
        What `best_alpha` is chosen by. The result has all of them. ``alpha="auto"`` is chosen by
        the squared error, too. The accuracy is often the same for many alphas.
    n_splits : int, optional
        Number of folds of groups (or of single comparisons) to hold out. None: one at a time.

    Returns
    -------
    LeaveComparisonOut

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_comparison_out
    >>> rng = np.random.default_rng(0)
    >>> X, pairs = rng.standard_normal((50, 3)), rng.integers(0, 25, (200, 2)) + [0, 25]
    >>> f = X @ [1.0, -1.0, 0.0]
    >>> won = f[pairs[:, 0]] - f[pairs[:, 1]] + rng.standard_normal(200) > 0
    >>> print(leave_comparison_out(RankRLS(), X, pairs, margin=won, alphas=[1.0, 100.0]))
    alpha       accuracy    s.e.  log-loss   Brier  squared error  calibration
    ----------  --------  ------  --------  ------  -------------  -----------
    1             0.8100  0.0278    0.3793  0.1251         0.5276       0.0385  best
    100           0.7950  0.0286    0.3824  0.1265         0.5459       0.0609
    random        0.5000       –    0.6931  0.2500              –            –
    first wins    0.5900       –    0.6769  0.2419              –            –
    """
    check_value("metric", metric, METRIC)
    given = {"margin": margin, "weight": weight, "groups": groups, "context": context}
    edges, values = edge_system(estimator, X, pairs, given, alphas)
    graph = edges.graph
    n = len(graph.first)
    codes = np.arange(n) if graph.group_of_pair is None else graph.group_of_pair
    fold = codes
    if n_splits is not None:
        check_value("n_splits", n_splits, Whole(2, int(codes.max()) + 1))
        fold = codes % n_splits
    with explained_rounding():
        differences = without_folds(edges, values.tolist(), fold)
    return _result(values, differences, np.arange(n), graph, codes, metric)


def leave_item_out(
    estimator: Any,
    X: Any,
    pairs: Any,
    *,
    new: str = "both",
    margin: Any = None,
    weight: Any = None,
    groups: Any = None,
    context: Any = None,
    alphas: Any = None,
    metric: str = "squared_error",
) -> LeaveComparisonOut:
    """Predict comparisons of items that nobody has compared yet, without refitting.

    Predictions are those of refits to the same rows X without the comparisons of these items, up to
    rounding. The features of new items are known: their rows have a part in the scaling of features
    and in landmarks.

    Parameters
    ----------
    estimator : RankRLS or SparseRankRLS
    X, pairs, margin, weight, context, alphas, metric
        As for `leave_comparison_out`.
    new : {"both", "one"}, default="both"
        "both": a comparison is predicted without all comparisons of either item, as a comparison
        of two new items. "one": without those of its first item, and again without those of its
        second: a new item against a known one. There are then two predictions for each comparison,
        first those without the first items.
    groups : array-like of shape (n_pairs,), optional
        Groups of comparisons for standard errors. None: each comparison on its own.

    Returns
    -------
    LeaveComparisonOut

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import leave_item_out
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> pairs = [[1, 0], [2, 1], [3, 2], [3, 0]]
    >>> leave_item_out(RankRLS(alpha=1.0), X, pairs).differences.round(2)
    array([[0.5, 0.3, 0.5, 1.5]])
    """
    check_value("new", new, Choice("both", "one"))
    check_value("metric", metric, METRIC)
    given = {"margin": margin, "weight": weight, "groups": groups, "context": context}
    edges, values = edge_system(estimator, X, pairs, given, alphas)
    graph, both = edges.graph, new == "both"
    n = len(graph.first)
    differences = np.empty((len(values), n if both else 2 * n))
    with explained_rounding():
        for members, side, found in without_items(edges, values.tolist(), both=both):
            differences[:, members + n * side] = found[:, :, 0]
    compared = np.arange(n) if both else np.tile(np.arange(n), 2)
    codes = np.arange(n) if graph.group_of_pair is None else graph.group_of_pair
    return _result(values, differences, compared, graph, codes, metric)


def edge_system(
    ranker: Any, X: Any, pairs: Any, given: dict[str, Any], alphas: Any
) -> tuple[Edges, Array]:
    """The comparisons of a ranker, which is cloned, and the alphas to hold them out for."""
    if not isinstance(ranker, FitPairsMixin) or not isinstance(ranker, LeastSquaresRanker):
        raise ParameterError(
            "Exact hold-outs of comparisons need RankRLS or SparseRankRLS: got "
            f"{type(ranker).__name__}. RankingSearchCV.fit_pairs refits any ranker."
        )
    ranker = clone(ranker)
    values = None
    if alphas is not None or ranker.alpha != "auto":
        values = check_alphas(ranker.alpha if alphas is None else alphas)
        if values.min() == 0:
            raise ParameterError(
                "Exact hold-outs need alphas above 0: got 0. Use a small alpha instead."
            )
    problem = ranker.make_pairs_problem(X, pairs, **given)
    if problem.space.has_own_hold_outs:
        raise ParameterError(
            f"Components of {type(ranker).__name__} are not linear in the comparisons: use RankRLS "
            "or SparseRankRLS, or RankingSearchCV.fit_pairs, which refits."
        )
    graph = problem.comparisons
    if graph.margin.ndim > 1:
        raise DataError(
            f"Hold-outs of comparisons need one margin per pair: got shape {graph.margin.shape}."
        )
    if len(graph.first) < 2:
        raise DataError("Holding out a comparison needs at least two: got one.")
    excess = problem.space.without_comparisons(problem)
    problem = plain_problem(problem)
    edges = edges_of(problem, 1 if values is None else len(values))  # which checks for overflow
    edges = replace(edges, excess=excess)
    return edges, data_alphas(problem) if values is None else values


def without_folds(edges: Edges, lams: Sequence[float], fold: Index) -> Array:
    """Differences of all comparisons without their fold, shape (n_lams, n)."""
    n = len(fold)
    if np.array_equal(fold, np.arange(n)):
        return edges.single(np.arange(n), lams)[:, :, 0]
    if fold.max() == 0:
        raise DataError("Holding out groups needs at least two groups: got one.")
    order = np.argsort(fold, kind="stable")
    starts = np.flatnonzero(np.diff(fold[order], prepend=-1))
    out = np.empty((len(lams), n))
    out[:, order] = edges.sets(np.split(order, starts[1:]), lams)[:, :, 0]
    return out


def _result(
    alphas: Array, differences: Array, compared: Index, graph: Any, codes: Index, metric: str
) -> LeaveComparisonOut:
    observed = ObservedComparisons(graph.margin[compared], graph.weight[compared], codes[compared])

    def probabilities() -> Array:
        return np.stack([observed.probability(one) for one in differences])

    score, error = scores_of(metric, observed, differences, probabilities)
    return LeaveComparisonOut(
        alphas, score, error, metric, GREATER_IS_BETTER[metric], differences, compared, observed
    )
