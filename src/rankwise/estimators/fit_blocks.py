"""Fitting to rows that come in blocks, or in several calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Self

from sklearn.base import clone

from rankwise.backends.arrays import (
    Array,
    Backend,
    as_given,
    backend_of,
    is_sparse,
    is_tensor,
    to_host,
)
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import (
    LeastSquaresRanker,
    RegularizationPath,
    explain_calls,
    only_solution,
    warn_of_steps,
)
from rankwise.estimators.ranker_rows import (
    check_training,
    choose_scale,
    column_sample,
    learn_scaling,
    moved,
    note_queries,
    note_rows,
    scale_training,
    scaled_rows,
    shared_by_choice,
    statistics_of,
    warn_of_scales,
)
from rankwise.graph.query_groups import QueryGroups, check_ids, nothing_to_rank
from rankwise.parameters import as_generator, check_alphas, check_parameters
from rankwise.problem import (
    FeatureBasis,
    FeatureSpace,
    Fit,
    LandmarkSpace,
    LandmarkSystem,
    Solution,
)
from rankwise.problem.block_sums import BlockProducts, BlockSums, check_outputs, total_of
from rankwise.progress import progress_bar
from rankwise.scaling import ColumnStatistics, Scaling
from rankwise.solvers.shifted_cg import shifted_cg, unsolved_residual

NO_BLOCKS = "There are no blocks of rows to learn from."
ONCE = (
    "There are several passes over the blocks, but these allow only one. Pass a list or another "
    "object that can be iterated repeatedly, or, for a ranker on landmarks, pass these as points."
)


class FitBlocksMixin(LeastSquaresRanker):
    """Adds `partial_fit`, `fit_blocks` and `path_blocks` to a ranker on landmarks."""

    @abstractmethod
    def make_space(self, n_features: int) -> LandmarkSpace:
        """The space that the parameters describe."""

    # Routing, as in `RankerMixin`.
    __metadata_request__partial_fit = {"qid": True}  # noqa: RUF012

    @explain_calls
    def partial_fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Add rows to the rows of earlier calls, as if `fit` were called with all of them.

        The first call chooses the landmarks among its rows (unless they are points) and must have
        more rows than landmarks; later calls keep these landmarks. Each call costs as much as `fit`
        on its rows, including O(r^3) time for r landmarks, so pass at least as many rows as
        landmarks at a time. After `fit`, which does not store sums, `partial_fit` starts again.
        `alpha` may change between calls, but not from a number to "auto"; other parameters may not
        change. All scores are 0 until there are pairs that count.

        Parameters
        ----------
        X, y
            As for `fit`.
        qid : array-like of shape (n_rows,)
            As for `fit`. All rows of a query must be in the same call. Without qid, all rows form
            one ranking, and only one call is possible.

        Returns
        -------
        self
        """
        check_parameters(self, self.parameters)
        sums: BlockSums | None = getattr(self, "block_sums_", None)
        min_rows = 2 if sums is None else 1
        X, y = check_training(self, X, y, reset=sums is None, min_rows=min_rows)
        loss, qid = self.make_loss(), to_host(qid)
        groups = QueryGroups.of(qid, X.shape[0])
        if sums is None:
            X, _ = scale_training(self, X, groups, has_queries=qid is not None)
            system = self.make_space(X.shape[1]).system(X, qid)
            sums = BlockSums.of(system, loss, X, y, qid, with_folds=self.alpha == "auto")
        else:
            _check_unchanged(self, self.make_space(X.shape[1]), sums)
            note_rows(self, X)
            note_queries(self, groups)
            X = scaled_rows(self, X, groups)
            sums = _on_backend(sums, backend_of(X)).with_block(loss, X, y, qid)
        fit_sums(self, sums, X, sums.n_queries)
        if not hasattr(self, "block_sums_"):
            warn_of_scales(self, X)
        self.block_sums_ = sums
        return self

    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """Fit to rows that do not fit in memory, in blocks of whole queries.

        There are two passes over the blocks: the first samples rows from which landmarks are
        chosen, the second sums moments. If `landmarks` are points, only the second pass is needed.
        scale="standard" and gamma="scale" need another pass. Scalings within queries do not.
        Memory is needed for a block, a few r by r matrices, and the sampled rows (20 for each
        landmark, at least 10,000). Only the set of query ids grows with the number of blocks.

        Parameters
        ----------
        blocks : iterable
            Triples (X, y, qid), or objects with these attributes, such as the blocks of
            `rankwise.data.LetorBlocks`. It must allow two passes, like a list; a generator is
            accepted only if `landmarks` are points. All rows of a query must be in the same block.

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
        >>> ranker = SparseRankRLS(alpha=0.1, landmarks=np.arange(10))
        >>> scores = ranker.fit_blocks(halves).predict(X, qid=qid)
        >>> bool(np.allclose(scores, ranker.fit(X, y, qid=qid).predict(X, qid=qid)))
        True
        """
        sums, X = sum_blocks(self, blocks, with_folds=self.alpha == "auto")
        fit_sums(self, sums, X, sums.n_queries)
        warn_of_scales(self, X)
        return self

    def path_blocks(self, blocks: Iterable[Any], alphas: Any = None) -> RegularizationPath:
        """Rankers for many values of alpha, fitted to blocks of rows.

        Parameters
        ----------
        blocks : iterable
            As for `fit_blocks`.
        alphas : sequence of float, optional
            As for `path`.

        Returns
        -------
        RegularizationPath
        """
        given = None if alphas is None else check_alphas(alphas)
        template = clone(self)
        sums, X = sum_blocks(template, blocks)
        return path_of_sums(template, sums, given, X)


def fit_sums(ranker: Any, sums: BlockSums, X: Any, n_queries: int) -> None:
    """Fit a ranker to sums over rows, and choose alpha by their folds if it is "auto".

    X are rows on the device of the fitted arrays; None: the host.
    """
    choice = None
    if ranker.alpha == "auto":
        from rankwise.holdout.alpha_choice import choose_from_folds  # compiles loops

        choice = choose_from_folds(sums.system, sums.moments, sums.folds, sums.loss, sums.n_rows)
    alpha = float(ranker.alpha) if choice is None else choice.alpha
    ranker.set_fitted(*only_solution(sums.solve([alpha]), X))
    ranker.n_queries_ = n_queries
    space = ranker.make_space(ranker.n_features_in_)
    ranker.set_alpha(alpha, choice, shared_by_choice(ranker, space))


def alphas_of_sums(sums: BlockSums) -> Array:
    """The grid that follows the scale of the data."""
    from rankwise.holdout.alpha_choice import summed_alphas  # compiles loops

    return summed_alphas(sums.system, sums.moments, sums.n_rows)


def path_of_sums(
    template: Any, sums: BlockSums, alphas: Array | None, X: Any
) -> RegularizationPath:
    """Rankers for many values of alpha, or a grid of them, from sums over rows."""
    values = alphas_of_sums(sums) if alphas is None else alphas
    return RegularizationPath.of(values, template, sums.solve(values.tolist()), X)


class StepBlocksMixin(LeastSquaresRanker):
    """Adds `fit_blocks` and `path_blocks` to a linear ranker with a loss on pairs."""

    tol: float
    max_iter: int

    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """Fit a linear ranker to rows that do not fit in memory, in blocks of whole queries.

        Conjugate gradients pass over all blocks in every step, as in ``fit`` with
        ``solver="cg"``, and show their progress. Memory is needed for a block, for some vectors of
        the number of features, for the set of query ids and, with ``alpha="auto"``, for 10,000 rows
        that are held out: all folds and alphas share the passes.

        Parameters
        ----------
        blocks : iterable
            Triples (X, y, qid), or objects with these attributes, such as the blocks of
            `rankwise.data.LetorBlocks`, in NumPy or SciPy arrays. It must allow any number of
            passes, like a list. All rows of a query must be in the same block.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import RankRLS
        >>> rng = np.random.default_rng(0)
        >>> X, qid = rng.standard_normal((60, 3)), np.arange(60) // 6
        >>> y = X[:, 0] + rng.standard_normal(60)
        >>> halves = [(X[half], y[half], qid[half]) for half in (slice(0, 30), slice(30, 60))]
        >>> ranker = RankRLS(alpha=1.0).fit_blocks(halves)
        >>> bool(np.allclose(ranker.coef_, RankRLS(alpha=1.0).fit(X, y, qid=qid).coef_, rtol=1e-4))
        True
        """
        from rankwise.holdout.alpha_choice import choose_in_blocks  # compiles loops

        products, overview = _overview(self, blocks, with_squares=self.alpha == "auto")
        choice = None
        if self.alpha == "auto":
            choice = choose_in_blocks(products, overview, float(self.tol), self.max_iter)
        alpha = float(self.alpha) if choice is None else choice.alpha
        fit = _solve_blocks(self, products, [alpha])
        self.set_fitted(*only_solution(fit, None))
        warn_of_steps(self, fit)
        warn_of_scales(self, next(iter(products.blocks))[0])
        return self.set_alpha(alpha, choice, shared_by_choice(self, FeatureSpace))

    def path_blocks(self, blocks: Iterable[Any], alphas: Any = None) -> RegularizationPath:
        """Rankers for many values of alpha, fitted to blocks of rows in the passes of one.

        Parameters
        ----------
        blocks : iterable
            As for `fit_blocks`.
        alphas : sequence of float, optional
            As for `path`.

        Returns
        -------
        RegularizationPath
        """
        given = None if alphas is None else check_alphas(alphas)
        template: Any = clone(self)
        products, overview = _overview(template, blocks, with_squares=given is None)
        values: Array = overview.alphas() if given is None else given
        fit = _solve_blocks(template, products, values.tolist())
        warn_of_steps(template, fit)
        return RegularizationPath.of(values, template, fit, None)


def _overview(
    ranker: Any, blocks: Iterable[Any], *, with_squares: bool
) -> tuple[BlockProducts, Any]:
    """The products of checked blocks, and what a first pass over them finds."""
    from rankwise.holdout.alpha_choice import BlockOverview  # compiles loops

    check_parameters(ranker, ranker.parameters)
    if ranker.kernel != "linear" or ranker.device is not None:
        raise ParameterError(
            f'fit_blocks needs kernel="linear" and device=None: got kernel={ranker.kernel!r} and '
            f"device={ranker.device!r}. SparseRankRLS has other kernels and devices."
        )
    if ranker.monotone:
        raise ParameterError(
            "fit_blocks solves by conjugate gradients, which do not take monotone: use fit, which "
            "needs a matrix of the features beside the rows, or leave monotone out."
        )
    checked = CheckedBlocks(ranker, blocks, repeated=True, host_only=True)
    products = BlockProducts(checked, ranker.make_loss())
    overview = BlockOverview.of(products, with_squares=with_squares)
    if overview.n_rows == 0:
        raise DataError(NO_BLOCKS)
    ranker.n_queries_ = max(len(overview.names), 1)
    products.loss.check_learnable(overview.n_pairs, overview.n_rows, ranker.n_queries_)
    return products, overview


def _solve_blocks(ranker: Any, products: BlockProducts, alphas: list[float]) -> Fit:
    b, tol, done = products.right_hand_side(), float(ranker.tol), 0
    with progress_bar("Passes over the blocks", ranker.max_iter) as show:

        def apply(P: Array) -> Array:
            nonlocal done
            done += 1
            show(min(done, ranker.max_iter))
            return products(P)

        found = shifted_cg(apply, b, alphas, tol=tol, max_iter=ranker.max_iter)
    _, y, _ = next(iter(products.blocks))
    weights = [w[:, 0] if y.ndim == 1 else w for w in found.solutions]
    basis = FeatureBasis("cg", found.n_iter)
    solutions = [Solution(w, 0.0) for w in weights]
    return Fit(basis, solutions, unsolved_residual(found, tol), found.n_iter, tol)


def sum_blocks(
    ranker: Any, blocks: Iterable[Any], *, with_folds: bool = False
) -> tuple[BlockSums, Any]:
    """The sums over all blocks, and the rows of the last block, which determine the device."""
    check_parameters(ranker, ranker.parameters)
    if ranker.kernel == "precomputed":
        raise ParameterError(
            'kernel="precomputed" needs all rows at once: use fit, or another kernel.'
        )
    has_points = ranker.make_space(1).choice.points is not None
    checked = CheckedBlocks(ranker, blocks, repeated=not has_points or ranker.gamma == "scale")
    system = None if has_points else _system_of_blocks(ranker, checked)
    loss, sums, X = ranker.make_loss(), None, None
    low, high = float("inf"), -float("inf")
    for X, y, qid in checked:
        low, high = min(low, float(y.min())), max(high, float(y.max()))
        if sums is None:
            if system is None:  # landmarks are points
                system = ranker.make_space(X.shape[1]).system(X, qid)
            sums = BlockSums.of(system, loss, X, y, qid, with_folds=with_folds)
        else:
            sums = sums.with_block(loss, X, y, qid)
    if sums is None:
        raise DataError(NO_BLOCKS if system is None else ONCE)
    ranker.n_queries_ = sums.n_queries
    sums.check_learnable()
    if low == high:  # a regression, whose labels may be constant within each block
        raise nothing_to_rank(1, sums.n_rows)
    return sums, X


def _system_of_blocks(ranker: Any, blocks: CheckedBlocks) -> LandmarkSystem:
    """A system on landmarks from a pass over the blocks."""
    rows = ((X, None if qid is None else check_ids(qid, len(y))) for X, y, qid in blocks)
    first = next(rows, None)  # for the number of features
    if first is None:
        raise DataError(NO_BLOCKS)
    on: Backend = backend_of(first[0])
    space = ranker.make_space(first[0].shape[1])
    given = ((as_given(X), qid) for X, qid in chain([first], rows))
    landmarks = space.choice.among_blocks(given, space.kernel, as_generator(space.random_state))
    return LandmarkSystem.of(space.kernel, landmarks, space.precision, on)


class CheckedBlocks:
    """Blocks (X, y, qid) that are validated one by one, and scaled.

    The first pass resets the ranker and chooses the scaling by the first block. If that needs
    statistics of all rows, there is a pass over the blocks to collect them. `repeated`: whether
    there are several passes in any case. `host_only`: whether to refuse tensors.
    """

    def __init__(
        self, ranker: Any, blocks: Iterable[Any], *, repeated: bool, host_only: bool = False
    ) -> None:
        if not isinstance(blocks, Iterable):
            raise DataError(f"blocks must be a list of triples (X, y, qid): got {blocks!r}.")
        if repeated and iter(blocks) is blocks:
            raise DataError(ONCE)
        self._ranker, self._blocks, self._is_new = ranker, blocks, True
        self._host_only = host_only
        self._outputs: tuple[int, ...] | None = None

    def __iter__(self) -> Iterator[tuple[Any, Array, Any]]:
        ranker = self._ranker
        for X, y, qid in self._validated():
            groups = QueryGroups.of(qid, len(y))
            if self._is_new:
                self._is_new, overview = False, column_sample(ranker, X)
                name = choose_scale(ranker, overview, has_queries=qid is not None)
                sparse = is_sparse(as_given(X))
                learn_scaling(ranker, name, overview, self._statistics, sparse=sparse)
            note_rows(ranker, X)
            note_queries(ranker, groups)
            yield scaled_rows(ranker, X, groups), y, qid

    def _statistics(self, scaling: Scaling | None) -> ColumnStatistics:
        """Statistics of all blocks, in the middle of the first pass."""
        found: ColumnStatistics = total_of(
            statistics_of(X, QueryGroups.of(qid, len(y)), scaling)
            for X, y, qid in self._validated(reset=False)
        )
        return found

    def _validated(self, *, reset: bool = True) -> Iterator[tuple[Any, Array, Any]]:
        first = reset and self._is_new
        for k, block in enumerate(self._blocks):
            if hasattr(block, "X") and hasattr(block, "y"):
                X, y, qid = block.X, block.y, getattr(block, "qid", None)
            elif isinstance(block, (tuple, list)) and len(block) == 3:
                X, y, qid = block
            else:
                raise DataError(
                    f"Block {k} is not a triple (X, y, qid): got {type(block).__name__}. Pass a "
                    "list of triples, as in [(X, y, qid)]."
                )
            if hasattr(X, "shape") and X.shape[0] == 0:
                continue
            if self._host_only and is_tensor(X):
                raise DataError(
                    "fit_blocks of a linear ranker takes NumPy or SciPy arrays: got tensors. Pass "
                    "X.cpu().numpy(), or use fit."
                )
            try:
                X, y = check_training(self._ranker, X, y, reset=first, min_rows=1)
                self._outputs = tuple(y.shape[1:]) if self._outputs is None else self._outputs
                check_outputs(y, self._outputs)
            except ValueError as error:
                error.add_note(f"The error is in block {k}, counting from 0.")
                raise
            yield X, y, to_host(qid)
            first = False


def _check_unchanged(ranker: Any, space: LandmarkSpace, sums: BlockSums) -> None:
    """Raise an error if parameters changed since the first block, except from "auto" alphas."""
    system, n_landmarks = sums.system, space.choice.number
    changed = {
        "scale": ranker.scale not in ("auto", ranker.scale_),
        "The kernel": space.kernel != system.basis.kernel,
        "precision": space.precision != system.precision,
        "n_landmarks": n_landmarks not in (None, system.factor.n_landmarks),
        'alpha (a number, and now "auto")': ranker.alpha == "auto"
        and sums.folds is None
        and sums.queries is not None,
    }
    for name in (name for name, differs in changed.items() if differs):
        raise ParameterError(
            f"{name} changed since the first block, but the sums of earlier blocks cannot be "
            "updated. Start again with a clone."
        )


def _on_backend(sums: BlockSums, on: Backend) -> BlockSums:
    """The sums on the device of the next block; they may come from a file or another device."""
    system = replace(sums.system, factor=moved(sums.system.factor, on))
    moments, folds = moved(sums.moments, on), moved(sums.folds, on)
    return replace(sums, system=system, moments=moments, folds=folds)
