"""Rankers that live on landmarks, and see all rows: in memory, or block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Loader, to_host
from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import NUMPY, at_home, backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import (
    check_alpha,
    check_alphas,
    check_features_fit,
    check_landmarks_fit,
    check_random_state,
)
from rankwise.estimators._device import moved, returned, with_precision
from rankwise.estimators._kernels import check_precomputed, make_kernel
from rankwise.estimators._landmark_choice import LandmarkChoice, Landmarks
from rankwise.estimators.least_squares.base import (
    LeastSquaresRanker,
    RegularizationPath,
    Solution,
    Space,
    Task,
    finite_kernel_product,
    join_tasks,
)
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import check_ids
from rankwise.kernels import Kernel, Precomputed
from rankwise.kernels.products import kernel_values
from rankwise.solvers.landmark_basis import LandmarkBasis

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
    parameters: tuple[Any, ...]
    queries: set[Any] | None  # None: all rows are one ranking

    @property
    def n_queries(self) -> int:
        return 1 if self.queries is None else len(self.queries)


class LandmarkRanker(LeastSquaresRanker):
    """f(x) = sum over landmarks r of a_r k(x, r); the loss is on all rows."""

    n_landmarks: int | None
    landmarks: Any
    random_state: Any
    #: Model files of before have no precision.
    precision: str = "float64"

    # Routing, as in `RankerMixin`.
    __metadata_request__partial_fit = {"qid": True}  # noqa: RUF012

    def partial_fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Add rows to those of earlier calls: the result is that of `fit` on all of them.

        The first call chooses the landmarks among its rows (unless they are points), and they
        stay: give it more rows than landmarks. Each call costs what `fit` to these rows costs,
        r^3 flops for r landmarks included, so give as many rows as landmarks at a time, at least.
        `fit` keeps no sums to add to: after it, `partial_fit` starts anew. `alpha` may change
        between calls, other parameters not. As long as no query has two rows that count, all
        scores are 0.

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
        alpha, qid = check_alpha(self.alpha), to_host(qid)
        sums: Sums | None = getattr(self, "_sums", None)
        X, y = self._validate(X, y, reset=sums is None, min_rows=2 if sums is None else 1)
        if sums is not None:  # which may come from a file, or from blocks that were elsewhere
            sums = moved(sums, backend_of(X))
        basis = self._choose_basis(X, qid) if sums is None else sums.basis
        sums = self._add(sums, basis, X, y, qid)
        (solution,) = self._finish(basis, sums.moments, [alpha])
        self._sums, self.n_queries_ = sums, sums.n_queries
        self._keep(returned(solution, X))
        return self

    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """Fit to rows that do not fit in memory, and come in blocks of whole queries.

        Two passes: one draws rows to choose landmarks from, one sums; the first is spared where
        `landmarks` are points. Memory is that of a block, of some r by r matrices, and of the
        rows that landmarks are chosen from (20 for each, 10,000 at least); of what grows with the
        number of blocks, only the query ids are kept.

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
        sums, X = self._sum_blocks(blocks)
        (solution,) = self._finish(sums.basis, sums.moments, [alpha])
        self._keep(returned(solution, X))
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
        sums, X = template._sum_blocks(blocks)
        solutions = template._finish(sums.basis, sums.moments, values.tolist())
        return RegularizationPath(values, template, [returned(s, X) for s in solutions])

    def _solve(self, X: Any, tasks: list[Task], alphas: list[float], qid: Any) -> list[Solution]:
        basis = self._choose_basis(X, qid)
        return self._finish(basis, self._sum(basis, X, tasks), alphas)

    def _space(self, X: Any, qid: Any) -> Space:
        """Coordinates on landmarks, in which the regularizer is the identity."""
        basis, on = self._choose_basis(X, qid), backend_of(X)
        check_features_fit(X.shape[0], basis.rank, on)
        features, values = on.empty(X.shape[0], basis.rank), self._loader(basis, X)
        for start in range(0, len(features), SPACE_ROWS):
            rows = slice(start, min(start + SPACE_ROWS, len(features)))
            features[rows] = basis.whiten(values(rows))
        return Space(features=features)

    def _keep(self, solution: Solution) -> None:
        self.dual_coef_ = solution.weights

    @property
    def _weights(self) -> Array:
        return self.dual_coef_

    def _products(self, X: Any, weights: Array) -> Any:
        return finite_kernel_product(self.kernel_, X, self._points, weights)

    @property
    def _points(self) -> Any:
        """What the kernel takes for the landmarks: points, or numbers of columns."""
        precomputed = isinstance(self.kernel_, Precomputed)
        return self.landmark_indices_ if precomputed else self.landmarks_

    def _choose_basis(self, X: Any, qid: Any) -> LandmarkBasis:
        return self._settle(self._choose(X, qid), backend_of(X))

    def _choose(self, X: Any, qid: Any) -> Landmarks:
        choice, kernel = self._choice(), self._make_kernel()
        if isinstance(kernel, Precomputed):
            check_precomputed(X)
        return choice.among(X, qid, kernel, check_random_state(self.random_state))

    def _choice(self) -> LandmarkChoice:
        names = getattr(self, "feature_names_in_", None)
        columns = getattr(self.landmarks, "columns", None)
        if names is not None and columns is not None and list(columns) != list(names):
            raise DataError(
                f"landmarks needs the columns of X, in their order, {', '.join(names)}: got "
                f"{', '.join(map(str, columns))}."
            )
        return LandmarkChoice.of(self.landmarks, self.n_landmarks)

    def _make_kernel(self) -> Kernel:
        return make_kernel(self.kernel, self.gamma, self.degree, self.coef0, self.n_features_in_)

    def _settle(self, landmarks: Landmarks, on: Backend = NUMPY) -> LandmarkBasis:
        """Take these landmarks, and forget the model before."""
        kernel = self._make_kernel()
        check_landmarks_fit(landmarks.points.shape[0], on)
        basis = LandmarkBasis.of(landmarks.kernel(kernel, on))
        for stale in ("dual_coef_", "landmarks_", "landmark_indices_", "_sums"):
            self.__dict__.pop(stale, None)
        self.kernel_, self.rank_ = kernel, basis.rank
        if not isinstance(kernel, Precomputed):
            self.landmarks_ = landmarks.points
        if landmarks.rows is not None:
            self.landmark_indices_ = landmarks.rows
        return basis

    def _loader(self, basis: LandmarkBasis, X: Any) -> Loader:
        """Kernel values of some rows against the landmarks that are kept."""
        on, kernel, points = backend_of(X), self.kernel_, self._points
        if not on.is_host and not isinstance(kernel, Precomputed):
            points = on.array(points)
        points = points[basis.kept]
        return lambda rows: on.contiguous(on.array(kernel_values(kernel, X[rows], points)))

    def _load(self, basis: LandmarkBasis, X: Any) -> Loader:
        """What is summed: kernel values of rows, or their coordinates where these are delicate."""
        values = self._loader(basis, X)
        if not basis.delicate:
            return values
        return lambda rows: basis.whiten(values(rows))

    def _sum(self, basis: LandmarkBasis, X: Any, tasks: list[Task]) -> list[Any]:
        """Moments of each task, summed block by block."""
        load, on = self._load(basis, X), with_precision(backend_of(X), self.precision)
        with np.errstate(over="ignore", invalid="ignore"):  # said when the system is solved
            return [self._moments(load, basis.rank, task, on) for task in tasks]

    def _add(self, sums: Sums | None, basis: LandmarkBasis, X: Any, y: Array, qid: Any) -> Sums:
        """The sums with those of another block of validated rows."""
        names = set(QueryGroups.of(qid, len(y)).names.tolist())
        queries = None if qid is None and not self._pointwise else names
        if sums is not None:
            if self._make_kernel() != self.kernel_ or self._loss_parameters != sums.parameters:
                raise ParameterError(
                    "The kernel, ties or weighting were changed since the first block: sums over "
                    "blocks cannot be. Begin anew, with a clone."
                )
            _check_follows(sums, y, queries, pointwise=self._pointwise)
        tasks = self._tasks(y, qid)
        moments, n_pairs = self._sum(basis, X, tasks), [task.graph.n_pairs for task in tasks]
        n_rows = len(y)
        if sums is not None:
            moments = [a + b for a, b in zip(sums.moments, moments, strict=True)]
            n_pairs = [a + b for a, b in zip(sums.n_pairs, n_pairs, strict=True)]
            n_rows += sums.n_rows
            if sums.queries is not None and queries is not None:
                queries = sums.queries | queries
        parameters = self._loss_parameters
        return Sums(basis, moments, n_pairs, n_rows, tuple(y.shape[1:]), parameters, queries)

    def _sum_blocks(self, blocks: Iterable[Any]) -> tuple[Sums, Any]:
        """The sums, and the rows of the last block, which tell where they are."""
        if self.kernel == "precomputed":
            raise ParameterError(
                'kernel="precomputed" needs all rows at once: use fit, or another kernel.'
            )
        if not isinstance(blocks, Iterable):
            raise DataError(f"blocks must be a list of triples (X, y, qid): got {blocks!r}.")
        choice = LandmarkChoice.of(self.landmarks, self.n_landmarks)
        basis = sums = X = None
        if choice.points is None:
            if iter(blocks) is blocks:
                raise _only_once()
            basis = self._settle(*self._choose_among(blocks, choice))
        for X, y, qid in self._validated(blocks):
            if basis is None:  # points are given, and X tells how many features they must have
                basis = self._choose_basis(X, qid)
            sums = self._add(sums, basis, X, y, qid)
        if sums is None:
            raise _no_blocks() if choice.points is not None else _only_once()
        self.n_queries_ = sums.n_queries
        self._check_enough(sums.n_pairs, sums.n_rows)
        return sums, X

    def _choose_among(
        self, blocks: Iterable[Any], choice: LandmarkChoice
    ) -> tuple[Landmarks, Backend]:
        """Landmarks in a pass of its own, and where rows are worked on."""
        rows = (
            (X, None if qid is None else check_ids(qid, len(y)))
            for X, y, qid in self._validated(blocks)
        )
        first = next(rows, None)  # tells the number of features
        if first is None:
            raise _no_blocks()
        rng, on = check_random_state(self.random_state), backend_of(first[0])
        at_rest = ((at_home(X), qid) for X, qid in chain([first], rows))
        return choice.among_blocks(at_rest, self._make_kernel(), rng), on

    def _validated(self, blocks: Iterable[Any]) -> Iterator[tuple[Any, Array, Any]]:
        """The blocks, checked one after the other."""
        first = True
        for k, block in enumerate(blocks):
            if hasattr(block, "X") and hasattr(block, "y"):
                X, y, qid = block.X, block.y, getattr(block, "qid", None)
            elif isinstance(block, (tuple, list)) and len(block) == 3:
                X, y, qid = block
            else:
                raise DataError(
                    f"Block {k} is not a triple (X, y, qid): got {type(block).__name__}. Give a "
                    "list of them, as in [(X, y, qid)]."
                )
            if hasattr(X, "shape") and X.shape[0] == 0:
                continue
            try:
                X, y = self._validate(X, y, reset=first, min_rows=1)
            except ValueError as error:
                error.add_note(f"This is about block {k}, counted from 0.")
                raise
            yield X, y, to_host(qid)
            first = False

    def _finish(
        self, basis: LandmarkBasis, moments: list[Any], alphas: list[float]
    ) -> list[Solution]:
        """Equation (8) for each task and alpha."""
        by_task = []
        delicate = basis.delicate
        for of_task in moments:
            solutions = []
            for z in basis.solve(of_task.A, of_task.b, alphas):
                a = basis.coefficients(z)
                # of the features that were summed, which are coordinates or kernel values
                weights = z if delicate else a[basis.kept]
                solutions.append(Solution(a, of_task.intercept(weights)))
            by_task.append(solutions)
        return join_tasks(by_task)


def _check_follows(sums: Sums, y: Array, queries: set[Any] | None, *, pointwise: bool) -> None:
    """A block fits those before it: as many outputs, and other queries."""
    if tuple(y.shape[1:]) != sums.outputs:
        shapes = [
            f"two dimensions, {n[0]} wide" if n else "one dimension"
            for n in (y.shape[1:], sums.outputs)
        ]
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


def _only_once() -> DataError:
    return DataError(
        "The landmarks are chosen in a pass of their own, and these blocks can be gone through "
        "only once. Give a list or an object that starts again, or points as landmarks."
    )


def _no_blocks() -> DataError:
    return DataError("There is no block of rows to learn from.")
