"""Rankers that live on landmarks, and see all rows: in memory, or block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Rows
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import (
    check_alpha,
    check_alphas,
    check_features_fit,
    check_random_state,
)
from rankwise.estimators._kernels import check_precomputed, make_kernel, training_kernel
from rankwise.estimators._landmarks import LandmarkChoice, Landmarks
from rankwise.estimators.least_squares import (
    LeastSquaresRanker,
    RegularizationPath,
    Solution,
    Space,
    Task,
    finite_kernel_product,
    join_tasks,
)
from rankwise.graph import Groups
from rankwise.kernels import Kernel, Precomputed
from rankwise.solvers.nystrom import LandmarkBasis

SPACE_ROWS = 4096  # of coordinates made at a time


@dataclass(frozen=True)
class Sums:
    """What a ranker keeps of the blocks that it has seen.

    `moments` and `n_pairs` have an entry for each task, `outputs` is the shape of a row's labels.
    """

    basis: LandmarkBasis
    moments: list[Any]
    n_pairs: list[int]
    n_rows: int
    outputs: tuple[int, ...]
    queries: set[Any] | None  # None: all rows are one ranking


class LandmarkRanker(LeastSquaresRanker):
    """f(x) = sum over landmarks r of a_r k(x, r); the loss is on all rows."""

    n_landmarks: int | None
    landmarks: Any
    random_state: Any

    # Routing, as in `RankerMixin`.
    __metadata_request__partial_fit = {"qid": True}  # noqa: RUF012

    def partial_fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Add rows to those of earlier calls: the result is that of `fit` on all of them.

        The first call chooses the landmarks among its rows (unless they are points), and they
        stay. Each call costs what `fit` to these rows costs, O(n r^2 + r^3), so give many rows
        at a time: as many as landmarks, at least. `fit` keeps no sums to add to: after it,
        `partial_fit` starts anew.

        Parameters
        ----------
        X, y
            As for `fit`.
        qid : array-like of shape (n_rows,)
            As for `fit`. The rows of a query must all be in one call. Without qid, all rows are
            one ranking, and there can be only one call.

        Returns
        -------
        self
        """
        alpha = check_alpha(self.alpha)
        sums: Sums | None = getattr(self, "_sums", None)
        X, y = self._validate(X, y, reset=sums is None, min_rows=2 if sums is None else 1)
        basis = self._settle(self._choose(X, qid)) if sums is None else sums.basis
        sums = self._add(sums, basis, X, y, qid)
        (solution,) = self._finish(basis, sums.moments, [alpha])
        self._sums = sums
        self._keep(solution)
        return self

    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """Fit to rows that do not fit in memory, and come in blocks of whole queries.

        Two passes: one draws rows to choose landmarks from, one sums; the first is spared where
        `landmarks` are points. Memory is that of a block and of some r by r matrices, whatever
        the number of blocks.

        Parameters
        ----------
        blocks : iterable
            Of triples (X, y, qid), or of objects with these attributes, such as
            `rankwise.data.LetorBlocks` gives. It must be possible to go through it twice: a
            list, or an object that starts again; a generator will do only if `landmarks` are
            points. The rows of a query must all be in one block.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import SparseRankRLS
        >>> rng = np.random.default_rng(0)
        >>> X, qid = rng.standard_normal((60, 2)), np.arange(60) // 6
        >>> y = np.sin(X[:, 0])
        >>> halves = [(X[half], y[half], qid[half]) for half in (slice(0, 30), slice(30, 60))]
        >>> ranker = SparseRankRLS(landmarks=np.arange(10))
        >>> scores = ranker.fit_blocks(halves).predict(X)
        >>> bool(np.allclose(scores, ranker.fit(X, y, qid=qid).predict(X)))
        True
        """
        alpha = check_alpha(self.alpha)
        sums = self._sum_blocks(blocks)
        (solution,) = self._finish(sums.basis, sums.moments, [alpha])
        self._keep(solution)
        return self

    def fit_path_blocks(self, blocks: Iterable[Any], alphas: Any) -> RegularizationPath:
        """As `fit_path`, for blocks as in `fit_blocks`.

        Parameters
        ----------
        blocks : iterable
            As for `fit_blocks`.
        alphas : sequence of float
            As for `fit_path`.

        Returns
        -------
        RegularizationPath
        """
        values = check_alphas(alphas)
        template = clone(self)
        sums = template._sum_blocks(blocks)
        solutions = template._finish(sums.basis, sums.moments, values.tolist())
        return RegularizationPath(values, template, solutions)

    def _solve(self, X: Any, tasks: list[Task], alphas: list[float], qid: Any) -> list[Solution]:
        basis = self._settle(self._choose(X, qid))
        return self._finish(basis, self._sum(basis, X, tasks), alphas)

    def _space(self, X: Any, qid: Any) -> Space:
        """Coordinates on landmarks, in which the regularizer is the identity."""
        basis = self._settle(self._choose(X, qid))
        check_features_fit(X.shape[0], basis.rank)
        features = np.empty((X.shape[0], basis.rank))
        for start in range(0, len(features), SPACE_ROWS):
            rows = slice(start, min(start + SPACE_ROWS, len(features)))
            features[rows] = basis.whiten(self._kernel_values(basis, X, rows))
        return Space(features=features)

    def _keep(self, solution: Solution) -> None:
        self.dual_coef_ = solution.weights

    @property
    def _weights(self) -> Array:
        return np.asarray(self.dual_coef_)

    def _products(self, X: Any, weights: Array) -> Any:
        return finite_kernel_product(self.kernel_, X, self._points, weights)

    @property
    def _points(self) -> Any:
        """What the kernel takes for the landmarks: points, or numbers of columns."""
        precomputed = isinstance(self.kernel_, Precomputed)
        return self.landmark_indices_ if precomputed else self.landmarks_

    def _choose(self, X: Any, qid: Any) -> Landmarks:
        choice, kernel = LandmarkChoice.of(self.landmarks, self.n_landmarks), self._make_kernel()
        if isinstance(kernel, Precomputed):
            check_precomputed(X)
        return choice.among(X, qid, kernel, check_random_state(self.random_state))

    def _make_kernel(self) -> Kernel:
        return make_kernel(self.kernel, self.gamma, self.degree, self.coef0, self.n_features_in_)

    def _settle(self, landmarks: Landmarks) -> LandmarkBasis:
        """Take these landmarks, and forget the model before."""
        kernel = self._make_kernel()
        if isinstance(kernel, Precomputed):
            K_RR = training_kernel(kernel, landmarks.points[:, landmarks.rows])
        else:
            K_RR = training_kernel(kernel, landmarks.points)
        basis = LandmarkBasis.of(K_RR)
        for stale in ("dual_coef_", "landmarks_", "landmark_indices_", "_sums"):
            self.__dict__.pop(stale, None)
        self.kernel_, self.rank_ = kernel, basis.rank
        if not isinstance(kernel, Precomputed):
            self.landmarks_ = landmarks.points
        if landmarks.rows is not None:
            self.landmark_indices_ = landmarks.rows
        return basis

    def _kernel_values(self, basis: LandmarkBasis, X: Any, rows: Rows) -> Array:
        """Kernel values of some rows against the landmarks that are kept."""
        K = self.kernel_(X[rows], self._points[basis.kept])
        return np.ascontiguousarray(K, dtype=np.float64)

    def _sum(self, basis: LandmarkBasis, X: Any, tasks: list[Task]) -> list[Any]:
        """Moments of each task, summed block by block."""

        def load(rows: Rows) -> Array:
            K = self._kernel_values(basis, X, rows)
            return basis.whiten(K) if basis.delicate else K

        return [self._moments(load, basis.rank, task) for task in tasks]

    def _add(self, sums: Sums | None, basis: LandmarkBasis, X: Any, y: Array, qid: Any) -> Sums:
        """The sums with those of another block of validated rows; counts queries."""
        names = set(Groups.of(qid, len(y)).names.tolist())
        queries = None if qid is None and not self._pointwise else names
        if sums is not None:
            _check_follows(sums, y, queries, pointwise=self._pointwise)
        tasks = self._tasks(y, qid)
        moments, n_pairs = self._sum(basis, X, tasks), [task.graph.n_pairs for task in tasks]
        n_rows = len(y)
        if sums is not None:
            moments = [a + b for a, b in zip(sums.moments, moments, strict=True)]
            n_pairs = [a + b for a, b in zip(sums.n_pairs, n_pairs, strict=True)]
            n_rows += sums.n_rows
            if sums.queries is not None and queries is not None:
                sums.queries.update(queries)
                queries = sums.queries
        self.n_queries_ = 1 if queries is None else len(queries)
        return Sums(basis, moments, n_pairs, n_rows, y.shape[1:], queries)

    def _sum_blocks(self, blocks: Iterable[Any]) -> Sums:
        if self.kernel == "precomputed":
            raise ParameterError(
                'kernel="precomputed" needs all rows at once: use fit, or another kernel.'
            )
        choice = LandmarkChoice.of(self.landmarks, self.n_landmarks)
        if choice.points is None and iter(blocks) is blocks:
            raise DataError(
                "The landmarks are chosen in a pass of their own, and these blocks can be gone "
                "through only once. Give a list or an object that starts again, or points as "
                "landmarks."
            )
        rng = check_random_state(self.random_state)
        basis = sums = None
        if choice.points is None:
            rows = ((X, qid) for X, _, qid in self._validated(blocks))
            first = next(rows, None)  # tells the number of features
            if first is None:
                raise _no_blocks()
            landmarks = choice.among_blocks(chain([first], rows), self._make_kernel(), rng)
            basis = self._settle(landmarks)
        for X, y, qid in self._validated(blocks):
            if basis is None:
                basis = self._settle(choice.among(X, qid, self._make_kernel(), rng))
            sums = self._add(sums, basis, X, y, qid)
        if sums is None:
            raise _no_blocks()
        self._check_enough(sums.n_pairs, sums.n_rows)
        return sums

    def _validated(self, blocks: Iterable[Any]) -> Iterator[tuple[Any, Array, Any]]:
        """The blocks, checked one after the other."""
        for k, block in enumerate(blocks):
            try:
                X, y, qid = (block.X, block.y, block.qid) if hasattr(block, "X") else block
            except (TypeError, ValueError):
                raise DataError(
                    f"Block {k} is not a triple (X, y, qid): got {type(block).__name__}."
                ) from None
            yield *self._validate(X, y, reset=k == 0, min_rows=1), qid

    def _finish(
        self, basis: LandmarkBasis, moments: list[Any], alphas: list[float]
    ) -> list[Solution]:
        """Equation (8) for each task and alpha."""
        by_task = []
        for sums in moments:
            solutions = []
            for z in basis.solve(sums.A, sums.b, alphas):
                a = basis.coefficients(z)
                # of the features that were summed, which are coordinates or kernel values
                weights = z if basis.delicate else a[basis.kept]
                solutions.append(Solution(a, sums.intercept(weights)))
            by_task.append(solutions)
        return join_tasks(by_task)


def _check_follows(sums: Sums, y: Array, queries: set[Any] | None, *, pointwise: bool) -> None:
    """A block fits those before it: as many outputs, and other queries."""
    if y.shape[1:] != sums.outputs:
        shapes = [f"{n[0]} columns" if n else "one column" for n in (y.shape[1:], sums.outputs)]
        raise DataError(f"y has {shapes[0]} here, but {shapes[1]} in the blocks before.")
    if pointwise:
        return
    if queries is None or sums.queries is None:
        raise DataError(
            "Without qid all rows are one ranking, which cannot be split into blocks: give the "
            "query of every row."
        )
    again = queries & sums.queries
    if again:
        raise DataError(
            f"Query {next(iter(again))} was in an earlier block as well ({len(again)} such "
            "queries): all rows of a query must come in one block. Sort the rows by qid."
        )


def _no_blocks() -> DataError:
    return DataError("There is no block of rows to learn from.")
