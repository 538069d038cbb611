"""Fitting to comparisons instead of scores."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, as_given, backend_of, is_sparse, to_host
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.base import LeastSquaresRanker, RegularizationPath
from rankwise.estimators.ranker_rows import check_rows, scale_training
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons, check_context
from rankwise.graph.preference_graph import ComparisonGraph
from rankwise.parameters import check_parameters
from rankwise.problem import Problem, Task
from rankwise.problem.context_space import ContextSpace, context_scale

EQUAL = 1e-9  # relative to the spread of scores: differences that are only rounding errors
SHOWN = 3  # parts, and items of a part, that the warning names
FREQUENCIES = 4


class FitPairsMixin(LeastSquaresRanker):
    """Adds `fit_pairs` to a ranker with a loss on pairs."""

    n_comparisons_: int

    def fit_pairs(
        self,
        X: Any,
        pairs: Any,
        *,
        margin: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
    ) -> Self:
        """Fit to comparisons between rows.

        Minimizes ``sum_l w_l (margin_l - (f(x_i) - f(x_j)))^2 + alpha |f|^2`` over the comparisons
        l = (i, j). N comparisons cost as much as N rows in `fit`, but no more than the rows of X
        if all features or kernel values are in memory. The parameters `ties` and `weighting` refer
        to queries and have no effect here.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        pairs : array-like of shape (n_pairs, 2), or rankwise.data.Comparisons
            Row numbers of X, the preferred row first. Pairs may be repeated and may contradict
            each other. `Comparisons` contain item ids, outcomes and everything below.
        margin : array-like of shape (n_pairs,) or (n_pairs, n_outputs), optional
            The difference between the scores of the first and the second row. None: 1. Booleans
            (True: the first row won) and the words "first", "tie" and "second" mean 1, 0 and -1.
            If there are only 1s and 0s, 0 could be meant as a tie or as a loss: integers are
            refused, and floats are ties, with a warning.
        weight : array-like of shape (n_pairs,), optional
            The weight of each comparison. None: 1.
        groups : array-like of shape (n_pairs,), optional
            The prompt, rater or session of each comparison. ``alpha="auto"``, the slope of
            `predict_preference` and the components of KPCRank are then chosen by holding out
            whole groups, instead of single comparisons.
        context : array-like of shape (n_pairs, n_columns), optional
            Features z of the comparisons themselves, such as the position of the first row. The
            margin is then f(x_i) - f(x_j) + z'g, and `context_coef_` is g. `predict` returns f.
            Each column is scaled to the mean squared distance of compared rows, so that alpha
            shrinks its coefficient little. Not for KPCRank.

        Returns
        -------
        self

        Examples
        --------
        >>> from rankwise import RankRLS
        >>> answers = [[0.2, 1.0], [0.9, 0.1], [0.5, 0.4]]
        >>> ranker = RankRLS(alpha=0.01).fit_pairs(answers, [[1, 0], [1, 2], [2, 0]])
        >>> ranker.predict(answers).argsort()[::-1]
        array([1, 2, 0])
        """
        from rankwise.holdout.alpha_choice import preference_slope  # compiles loops

        given = {"margin": margin, "weight": weight, "groups": groups, "context": context}
        comparisons, problem = self._check_pairs(X, pairs, given)
        self.fit_problem(problem)
        self.n_comparisons_ = int((comparisons.weight > 0).sum())
        self.preference_slope_ = None
        if self.exact_search:
            self.preference_slope_ = preference_slope(
                problem, float(self.alpha_), kernels=self.alpha == "auto"
            )
        warn_of_parts(self, X, comparisons, problem.n_rows)
        return self

    def path_pairs(
        self,
        X: Any,
        pairs: Any,
        alphas: Any = None,
        *,
        margin: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
    ) -> RegularizationPath:
        """Rankers from comparisons for many values of alpha, at little more than the cost of one.

        Parameters
        ----------
        X, pairs, margin, weight, groups, context
            As for `fit_pairs`.
        alphas : sequence of float, optional
            As for `path`.

        Returns
        -------
        RegularizationPath
            Scores and rankers for each alpha. This ranker itself is not fitted.

        Examples
        --------
        >>> from rankwise import RankRLS
        >>> X = [[0.0, 1.0], [1.0, 0.5], [2.0, 0.0]]
        >>> path = RankRLS().path_pairs(X, [[1, 0], [2, 1]], [0.1, 10.0])
        >>> path.predict(X).round(2)
        array([[-0.38,  0.58,  1.54],
               [-0.08,  0.12,  0.32]])
        """
        template = clone(self)
        problem = template.make_pairs_problem(
            X, pairs, margin=margin, weight=weight, groups=groups, context=context
        )
        return template.path_of_problem(problem, alphas)

    def make_pairs_problem(self, X: Any, pairs: Any, **given: Any) -> Problem:
        """Validate parameters and comparisons, and make a problem from them.

        This is the first half of `fit_pairs`, and the first step of exact hold-outs. Like
        `fit_pairs`, it resets the ranker.

        Parameters
        ----------
        X, pairs, **given
            As for `fit_pairs`.

        Returns
        -------
        rankwise.problem.Problem
        """
        return self._check_pairs(X, pairs, given)[1]

    def _check_pairs(
        self, X: Any, pairs: Any, given: dict[str, Any]
    ) -> tuple[Comparisons, Problem]:
        """The comparisons and their problem."""
        check_parameters(self, self.parameters)
        rows = check_rows(self, X, reset=True, min_rows=2)
        comparisons = Comparisons.given(X, rows.shape[0], pairs, **given)
        if not (comparisons.weight > 0).any():
            raise DataError("All comparisons have weight 0: there is nothing to learn from.")
        self.n_queries_ = 1
        groups = QueryGroups.of(None, rows.shape[0])
        rows, _ = scale_training(self, rows, groups, has_queries=False)
        space, context = self.space_of(rows), None
        if comparisons.context is not None:
            if not space.takes_context:
                raise ParameterError(
                    f"{type(self).__name__} has no context: use RankRLS, SparseRankRLS, RankSVM or "
                    "PairwiseGP, or leave the context out."
                )
            if space.signs is not None:
                raise ParameterError(
                    "monotone and a context of comparisons cannot be combined: leave one of them "
                    "out."
                )
            scale = context_scale(space, rows, comparisons)
            context = comparisons.context * scale
            space = ContextSpace(space, scale)
        graph = ComparisonGraph.of(rows.shape[0], comparisons, context)
        problem = Problem(rows, [Task(graph, None)], self.make_loss(), space)
        return comparisons, problem.settled()

    def predict_preference(self, X1: Any, X2: Any, *, context: Any = None) -> Any:
        """Probability that a row of X1 is preferred to the row of X2, row by row.

        Only after `fit_pairs`. The probability is 1 / (1 + exp(-a (f(x1) - f(x2)))). The slope a,
        `preference_slope_`, is fitted to held-out differences: each comparison is predicted without
        it or its group (Platt, 1999).

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        context : array-like of shape (n_pairs, n_columns), optional
            Features of the comparisons, if the ranker was fitted with them. None: 0, which
            compares the rows themselves.

        Returns
        -------
        ndarray of shape (n_pairs,)

        Examples
        --------
        >>> from rankwise import RankRLS
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> ranker = RankRLS(alpha=1.0).fit_pairs(X, [[1, 0], [2, 1], [3, 1], [2, 3]])
        >>> bool(ranker.predict_preference([[3.0]], [[0.0]])[0] > 0.5)
        True
        """
        check_is_fitted(self)
        slope = getattr(self, "preference_slope_", None)
        if slope is None:
            from rankwise.holdout.alpha_choice import KERNEL_ROWS

            if getattr(self, "n_comparisons_", None) == 1:
                raise ParameterError(
                    "Probabilities need a slope, which is fitted to comparisons that are held out, "
                    "and the fit had a single comparison: fit_pairs needs at least two."
                )
            raise ParameterError(
                "Probabilities need a fit to comparisons, fit_pairs, with one margin per pair, and "
                'a linear kernel, landmarks (SparseRankRLS), or alpha="auto" with up to '
                f"{KERNEL_ROWS} rows. An alpha given as a number must not be so small that it is "
                "lost in rounding errors, and a kernel must be positive semidefinite."
            )
        one, two = self.predict(X1), self.predict(X2)
        if one.shape != two.shape:
            raise DataError(
                f"X1 and X2 are compared row by row: got {len(one)} and {len(two)} rows."
            )
        difference = one - two
        if context is not None:
            on = backend_of(one)
            effect = fitted_context(self, context, len(one)) @ self.context_coef_
            difference = difference + on.cast(on.array(effect), one.dtype)
        return 1.0 / (1.0 + backend_of(one).xp.exp(-slope * difference))


def warn_of_parts(ranker: Any, X: Any, comparisons: Comparisons, n_rows: int) -> None:
    """Warn if parts of the comparisons are not linked, so that their relative order is undefined.

    Comparisons fall into parts with no chain of comparisons between them. Features that items of
    different parts share may still rank them. Where they share none, as indicators of items do, a
    penalized fit gives all parts the same mean score.
    """
    part = comparisons.part_of_row(n_rows)
    n_parts = int(part.max()) + 1
    if n_parts == 1:
        return
    scores = np.asarray(to_host(ranker.predict(X)), dtype=np.float64).reshape(n_rows, -1)
    sizes = np.bincount(part)
    means = _part_means(part, sizes, scores)
    spread = np.abs(scores - scores.mean(axis=0)).max(axis=0)
    if (spread == 0).any():
        return
    order = np.argsort(means[:, 0], kind="stable")
    close = np.abs(np.diff(means[order], axis=0)) <= EQUAL * spread
    same = np.flatnonzero(close.all(axis=1))
    if not len(same):
        return
    # Equal means are no coincidence, unless the rows of the two parts are the same on average.
    seen = _part_means(part, sizes, _fingerprints(ranker, X))
    one, two = order[same], order[same + 1]
    distinct = (np.abs(seen[one] - seen[two]) > EQUAL * np.abs(seen).max(axis=0)).any(axis=1)
    unlinked = np.unique(np.concatenate((one[distinct], two[distinct])))
    if not len(unlinked):
        return
    unlinked = unlinked[np.argsort(-sizes[unlinked], kind="stable")]
    named = [_named(comparisons.names(np.flatnonzero(part == k))) for k in unlinked[:SHOWN]]
    more = f"; and {len(unlinked) - SHOWN} more parts" if len(unlinked) > SHOWN else ""
    warn(
        f"The comparisons fall into {len(unlinked)} parts that neither comparisons nor shared "
        "features link, and items of different parts cannot be ranked against each other: "
        f"{'; '.join(named)}{more}. Compare items of different parts, or rank each part on its "
        "own: Comparisons.parts() lists them."
    )


def _part_means(part: Any, sizes: Any, values: Array) -> Array:
    sums = [np.bincount(part, column, len(sizes)) for column in values.T]
    return np.column_stack(sums) / sizes[:, None]


def _fingerprints(ranker: Any, X: Any) -> Array:
    """Some numbers for each row, the same for equal rows: waves along random directions."""
    graphs = hasattr(ranker.kernel, "as_rows")
    given = ranker.kernel.as_rows(X) if graphs else as_given(X)
    given = given if is_sparse(given) else np.asarray(to_host(given), dtype=np.float64)
    rng = np.random.default_rng(0)
    along = rng.standard_normal((given.shape[1], FREQUENCIES))
    values = np.asarray(given @ along)
    largest = np.abs(values).max(axis=0)
    return np.sin(values / np.where(largest > 0, largest, 1.0) + np.arange(FREQUENCIES))


def _named(names: Any) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN].tolist())
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{shown}{rest}"


def fitted_context(ranker: Any, context: Any, n_pairs: int) -> Array:
    """The context of new comparisons, with the columns that a ranker was fitted to."""
    coef = getattr(ranker, "context_coef_", None)
    if coef is None:
        raise ParameterError(
            f"This {type(ranker).__name__} was fitted without context: pass context to fit_pairs."
        )
    values, _ = check_context(context, n_pairs)
    assert values is not None  # context is not None
    if values.shape[1] != len(coef):
        raise DataError(
            f"context has {values.shape[1]} columns, but the ranker was fitted with {len(coef)}."
        )
    return values
