"""The two losses of least-squares rankers: on pairs of rows, and on rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from rankwise.backends.arrays import Array, Loader, to_host
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.estimators._checks import check_alpha, check_choice, check_has_pairs
from rankwise.estimators._device import returned
from rankwise.estimators.least_squares.base import Solution, Task, side_by_side
from rankwise.graph import PreferenceGraph
from rankwise.graph.query_graph import TIES, WEIGHTINGS
from rankwise.solvers.moments import CentredMoments, Moments

if TYPE_CHECKING:
    from rankwise.estimators.least_squares.base import LeastSquaresRanker as Ranker
else:
    Ranker = object


class PairwiseLoss(Ranker):
    """Squared errors of differences, over the pairs that count."""

    ties: str
    weighting: str

    def fit_pairs(self, X: Any, pairs: Any, *, margin: Any = None, weight: Any = None) -> Self:
        """Fit to comparisons between rows.

        Minimizes sum_l w_l (margin_l - (f(x_i) - f(x_j)))^2 + alpha |f|^2 over the comparisons
        l = (i, j), of which N cost what N rows cost in `fit`, or, with features or all rows in
        memory, what as many rows as X has cost, whichever is less. The parameters `ties` and
        `weighting` are about queries, and have no part in it.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        pairs : array-like of shape (n_pairs, 2)
            Rows of X, the preferred one first. Repeated and contradictory pairs are fine.
        margin : array-like of shape (n_pairs,) or (n_pairs, n_outputs), optional
            By how much the first is better. None: by 1, every time.
        weight : array-like of shape (n_pairs,), optional
            How much each comparison counts. None: 1.

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
        alpha = check_alpha(self.alpha)
        self._check_choices()
        X = self._validate_rows(X)
        comparisons = (to_host(values) for values in (pairs, margin, weight))
        graph = PreferenceGraph.from_pairs(X.shape[0], *comparisons)
        check_has_pairs(graph.n_pairs, graph.n_rows)
        self.n_queries_ = 1
        (solution,) = self._solve(X, [Task(graph, None)], [alpha], qid=None)
        self._keep(returned(solution, X))
        return self

    @property
    def _loss_parameters(self) -> tuple[Any, ...]:
        return self.ties, self.weighting

    def _check_choices(self) -> None:
        check_choice("ties", self.ties, TIES)
        check_choice("weighting", self.weighting, WEIGHTINGS)

    def _tasks(self, y: Array, qid: Any) -> list[Task]:
        self._check_choices()

        def task(labels: Array | None, targets: Array) -> Task:
            graph = PreferenceGraph.from_scores(
                to_host(labels), qid, n_rows=len(y), ties=self.ties, weighting=self.weighting
            )
            return Task(graph, targets)

        if self.ties == "include":
            return [task(None, y)]
        if y.ndim == 1:
            return [task(y, y)]
        return [task(column, column) for column in y.T]

    def _check_enough(self, n_pairs: list[int], n_rows: int) -> None:
        for n in n_pairs:
            check_has_pairs(n, n_rows, self.n_queries_, self.ties)

    def _moments(self, load: Loader, n_features: int, task: Task, on: Backend) -> Moments:
        return Moments.of_blocks(load, n_features, task.graph, task.y, on)

    def _with_intercepts(
        self, weights: list[Array], mean_scores: Callable[[Array], Array], y_mean: Array
    ) -> list[Solution]:
        return [Solution(w, 0.0) for w in weights]


class PointwiseLoss(Ranker):
    """Squared errors of rows, with an intercept that is not penalized."""

    _pointwise = True
    _loss_parameters = ()

    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to scored rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        qid : array-like of shape (n_rows,), optional
            Does not change the fit, whose loss knows no pairs: it is checked and counted, so
            that rankers can be exchanged and `score` can tell that queries matter.

        Returns
        -------
        self
        """
        return super().fit(X, y, qid=qid)

    def _tasks(self, y: Array, qid: Any) -> list[Task]:
        # 1/m (m I - 11') centres: what is left of the squared errors at the best intercept.
        return [Task(PreferenceGraph.from_groups(None, n_rows=len(y), weighting="rows"), y)]

    def _check_enough(self, n_pairs: list[int], n_rows: int) -> None:
        if n_rows < 2:
            raise DataError("There is a single row: a regression needs two at least.")

    def _moments(self, load: Loader, n_features: int, task: Task, on: Backend) -> CentredMoments:
        assert task.y is not None  # comparisons have no pointwise loss
        return CentredMoments.of_blocks(load, n_features, task.y, on)

    def _with_intercepts(
        self, weights: list[Array], mean_scores: Callable[[Array], Array], y_mean: Array
    ) -> list[Solution]:
        means = mean_scores(side_by_side(weights)).reshape(len(weights), *weights[0].shape[1:])
        y_mean = backend_of(means).array(y_mean)
        return [Solution(w, _plain(y_mean - m)) for w, m in zip(weights, means, strict=True)]

    def _keep(self, solution: Solution) -> None:
        super()._keep(solution)  # type: ignore[safe-super]  # the space's, which comes next
        self.intercept_ = solution.intercept


def _plain(value: Array) -> Array | float:
    """A float for one output, an array for several."""
    return float(value) if value.ndim == 0 else value
