"""Linear rankers from blocks of rows, by conjugate gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from sklearn.base import clone

from rankwise.backends.arrays import Array, is_tensor
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._scaling import shared_by_choice
from rankwise.estimators.least_squares.base import RegularizationPath, only_solution, warn_of_steps
from rankwise.estimators.least_squares.fit_blocks import CheckedBlocks
from rankwise.parameters import check_alphas, check_parameters
from rankwise.problem import FeatureBasis, FeatureSpace, Fit, Solution
from rankwise.problem.block_products import BlockProducts
from rankwise.progress import progress_bar
from rankwise.solvers.shifted_cg import shifted_cg, unsolved_residual


class StepBlocksMixin:
    """Adds `fit_blocks` and `path_blocks` to a linear ranker with a loss on pairs."""

    alpha: Any
    kernel: Any
    device: Any
    tol: float
    max_iter: int
    n_queries_: int
    parameters: ClassVar[Any]
    make_loss: Any
    set_alpha: Any
    set_fitted: Any

    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """Fit a linear ranker to rows that do not fit in memory, in blocks of whole queries.

        Conjugate gradients pass over all blocks in every step, as in ``fit`` with
        ``solver="cg"``, and show their progress. Memory is needed for a block, for some vectors of
        the number of features, for the set of query ids and, with ``alpha="auto"``, for 10,000 rows
        that are held out: all folds and alphas share the passes.

        Parameters
        ----------
        blocks : iterable
            Triples (X, y, qid), or objects with these attributes, such as those of
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
        from rankwise.holdout.block_steps import choose_in_blocks  # compiles loops

        products, overview = _overview(self, blocks, with_squares=self.alpha == "auto")
        choice = None
        if self.alpha == "auto":
            choice = choose_in_blocks(products, overview, float(self.tol), self.max_iter)
        alpha = float(self.alpha) if choice is None else choice.alpha
        fit = _solve_blocks(self, products, [alpha])
        self.set_fitted(*only_solution(fit, None))
        warn_of_steps(self, fit)
        fitted: Self = self.set_alpha(alpha, choice, shared_by_choice(self, FeatureSpace))
        return fitted

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
    from rankwise.holdout.block_steps import BlockOverview  # compiles loops

    check_parameters(ranker, ranker.parameters)
    if ranker.kernel != "linear" or ranker.device is not None:
        raise ParameterError(
            f'fit_blocks needs kernel="linear" and device=None: got kernel={ranker.kernel!r} and '
            f"device={ranker.device!r}. SparseRankRLS has other kernels and devices."
        )
    if not isinstance(blocks, Iterable):
        raise DataError(f"blocks must be a list of triples (X, y, qid): got {blocks!r}.")
    if iter(blocks) is blocks:
        raise DataError(
            "Every step is a pass over the blocks, but these allow only one. Pass a list or "
            "another object that can be iterated repeatedly."
        )
    products = BlockProducts(HostBlocks(ranker, blocks), ranker.make_loss())
    overview = BlockOverview.of(products, with_squares=with_squares)
    if overview.n_rows == 0:
        raise DataError("There are no blocks of rows to learn from.")
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
    return Fit(basis, solutions, unsolved_residual(found, tol))


class HostBlocks(CheckedBlocks):
    """Checked blocks in NumPy or SciPy arrays."""

    def __iter__(self) -> Any:
        for X, y, qid in super().__iter__():
            if is_tensor(X):
                raise DataError(
                    "fit_blocks of a linear ranker takes NumPy or SciPy arrays: got tensors. Pass "
                    "X.cpu().numpy(), or use fit."
                )
            yield X, y, qid
