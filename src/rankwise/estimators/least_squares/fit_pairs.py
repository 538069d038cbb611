"""Fitting to comparisons instead of scores."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._scaling import scale_training
from rankwise.estimators._validation import check_rows
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.parameters import check_parameters
from rankwise.problem import Problem, Task


class FitPairsMixin:
    """Adds `fit_pairs` to a ranker with a loss on pairs."""

    parameters: ClassVar[Any]
    make_loss: Any
    make_space: Any
    fit_problem: Any
    predict: Any
    alpha: Any
    alpha_: float

    def fit_pairs(self, X: Any, pairs: Any, *, margin: Any = None, weight: Any = None) -> Self:
        """Fit to comparisons between rows.

        Minimizes sum_l w_l (margin_l - (f(x_i) - f(x_j)))^2 + alpha |f|^2 over the comparisons
        l = (i, j). N comparisons cost as much as N rows in `fit`, but no more than the rows of X
        if all features or kernel values are in memory. The parameters `ties` and `weighting` refer
        to queries and have no effect here.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        pairs : array-like of shape (n_pairs, 2)
            Row numbers of X, the preferred row first. Pairs may be repeated and may contradict
            each other.
        margin : array-like of shape (n_pairs,) or (n_pairs, n_outputs), optional
            The difference between the scores of the first and the second row. None: 1. Booleans
            (True: the first row won) and the words "first", "tie" and "second" mean 1, 0 and -1.
        weight : array-like of shape (n_pairs,), optional
            The weight of each comparison. None: 1.

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
        check_parameters(self, self.parameters)
        X = check_rows(self, X, reset=True, min_rows=2)
        comparisons = (to_host(values) for values in (pairs, margin, weight))
        graph = PreferenceGraph.from_pairs(X.shape[0], *comparisons)
        if not graph.n_pairs:
            raise DataError("All comparisons have weight 0: there is nothing to learn from.")
        self.n_queries_ = 1
        X = scale_training(self, X, QueryGroups.of(None, X.shape[0]), has_queries=False)
        space = self.make_space(X.shape[1])
        from rankwise.holdout.alpha_choice import settled  # compiles loops
        from rankwise.holdout.preference_slope import preference_slope

        problem = settled(Problem(X, [Task(graph, None)], self.make_loss(), space))
        self.fit_problem(problem)
        self.preference_slope_ = preference_slope(
            problem, float(self.alpha_), kernels=self.alpha == "auto"
        )
        return self

    def predict_preference(self, X1: Any, X2: Any) -> Any:
        """Probability that a row of X1 is preferred to the row of X2, row by row.

        Only after `fit_pairs`.
        It is 1 / (1 + exp(-a (f(x1) - f(x2)))). The slope a, `preference_slope_`, was fitted to the
        differences that fits without each comparison predict for it (Platt, 1999).

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)

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
            raise ParameterError(
                "Probabilities need a fit to comparisons, fit_pairs, with one margin per pair, and "
                'a linear kernel, landmarks (SparseRankRLS), or alpha="auto" with up to 4,000 rows.'
            )
        one, two = self.predict(X1), self.predict(X2)
        if one.shape != two.shape:
            raise DataError(
                f"X1 and X2 are compared row by row: got {len(one)} and {len(two)} rows."
            )
        return 1.0 / (1.0 + backend_of(one).xp.exp(-slope * (one - two)))
