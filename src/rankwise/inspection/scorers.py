"""Fitted rankers as scorers of composed rows, each with its own way to divide a difference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, is_sparse, to_host
from rankwise.boosted.boosted_ranker import BoostedRanker
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import LeastSquaresRanker
from rankwise.estimators.ranker_rows import (
    DTYPES,
    prepare_rows,
    speaking_for_parts,
    validated,
)
from rankwise.export._endings import score_stages
from rankwise.gp.pairwise_gp import PairwiseGP
from rankwise.gp.process import OnColumns
from rankwise.inspection import shapley
from rankwise.inspection.composed_rows import NOBODY, UserRows, as_dense, differing
from rankwise.kernels import NamedKernel
from rankwise.model_selection.meta_rankers import (
    ROUNDING,
    MeanRanker,
    inner_model,
    is_within_queries,
)
from rankwise.problem import Basis, FeatureBasis
from rankwise.routing import last_step
from rankwise.svm.rank_svm import RankSVM

BLOCK = 2**21  # cells of composed rows at a time
ADDITIVE, EXACT, TREES, SAMPLED = "additive", "exact", "trees", "sampled"


@dataclass(frozen=True)
class ShareSettings:
    """How differences are divided where there is no closed form.

    `reference` is None, or the numbers of the rows that take the place of the other row.
    """

    reference: Index | None = None
    n_samples: int = 400
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Shares:
    """What each player adds to a difference, its variance if it was sampled, and how."""

    contributions: Array
    variance: Array
    ways: frozenset[str]

    @classmethod
    def exact(cls, contributions: Array, way: str = EXACT) -> Shares:
        return cls(contributions, np.zeros_like(contributions), frozenset([way]))


class Scorer(ABC):
    """Scores of rows in which some players take their columns from another row."""

    n_players: int

    @abstractmethod
    def composites(
        self, base: Index, donor: Index, active: Index, taken: NDArray[np.bool_]
    ) -> Array:
        """Scores of rows `base`, in which some players take their columns from rows `donor`.

        ``taken[k, j]`` tells whether player ``active[j]`` does so in row k.
        """

    def scores(self, rows: Index) -> Array:
        """Scores of rows as they are."""
        nobody = np.zeros(0, dtype=np.intp)
        return self.composites(rows, rows, nobody, np.zeros((len(rows), 0), dtype=bool))

    def changes(self, base: Index, donor: Index, player: int) -> Array:
        """How scores of rows `base` change if one player moves to the rows `donor`."""
        taken = np.ones((len(base), 1), dtype=bool)
        return self.composites(base, donor, np.array([player]), taken) - self.scores(base)

    @abstractmethod
    def moving(self, one: int, others: Index) -> Index:
        """The players that differ between a row and some others."""

    def shares(self, one: int, other: int, settings: ShareSettings) -> Shares:
        """f(one) - f(other), divided among the players by Shapley values.

        All subsets of up to 10 players are evaluated, and random orders of more.
        """
        reference = np.array([other]) if settings.reference is None else settings.reference
        active = np.union1d(self.moving(one, reference), self.moving(other, reference))
        contributions, variance = np.zeros(self.n_players), np.zeros(self.n_players)
        d = len(active)
        if d == 0:
            return Shares.exact(contributions)

        def value(sets: NDArray[np.bool_], base: Index) -> Array:
            first = self.composites(base, np.full(len(base), one), active, sets)
            if settings.reference is None:
                return first
            return first - self.composites(base, np.full(len(base), other), active, sets)

        if d <= shapley.MOST_ENUMERATED:

            def mean_value(sets: NDArray[np.bool_], _: Index) -> Array:
                return np.mean([value(sets, np.full(len(sets), b)) for b in reference], axis=0)

            contributions[active] = shapley.enumerated(mean_value, d)
            return Shares.exact(contributions)
        rng = np.random.default_rng(settings.seed)
        drawn = rng.permutation(np.resize(reference, settings.n_samples))

        def value_of_sample(sets: NDArray[np.bool_], numbers: Index) -> Array:
            return value(sets, drawn[numbers % len(drawn)])

        found = shapley.sampled(value_of_sample, d, settings.n_samples, rng)
        contributions[active], variance[active] = found
        return Shares(contributions, variance, frozenset([SAMPLED]))


@dataclass(frozen=True, eq=False)
class ModelScorer(Scorer):
    """A function of rows that returns one score for each, of which nothing else is known."""

    rows: UserRows
    predict: Callable[[Any], Array]

    @property
    def n_players(self) -> int:  # type: ignore[override]
        return self.rows.n_players

    def moving(self, one: int, others: Index) -> Index:
        players = self.rows.players[differing(self.rows.X, one, others)]
        return np.unique(players[players != NOBODY])

    def composites(
        self, base: Index, donor: Index, active: Index, taken: NDArray[np.bool_]
    ) -> Array:
        step = max(1, BLOCK // max(self.rows.X.shape[1], 1))
        found = []
        for start in range(0, len(base), step):
            part = slice(start, start + step)
            found.append(
                self.predict(self.rows.compose(base[part], donor[part], active, taken[part]))
            )
        return np.concatenate(found) if found else np.zeros(0)


def sums(players: Index, values: Array, n_players: int) -> Array:
    """The sum of the values of each player."""
    return np.bincount(players, values, n_players).astype(np.float64)


@dataclass(frozen=True, eq=False)
class AdditiveScorer(Scorer):
    """Sums of the effects of single columns, of shape (n_rows, n_columns)."""

    effects: Array
    players: Index
    n_players: int
    constant: float

    @cached_property
    def by_player(self) -> Array:
        """The effect of each player in each row; columns of nobody are left out."""
        found = np.zeros((len(self.effects), self.n_players))
        own = np.flatnonzero(self.players != NOBODY)
        np.add.at(found.T, self.players[own], self.effects[:, own].T)
        return found

    @cached_property
    def _whole(self) -> Array:
        return np.asarray(self.effects.sum(axis=1) + self.constant)

    def moving(self, one: int, others: Index) -> Index:
        return np.flatnonzero((self.by_player[others] != self.by_player[one]).any(axis=0))

    def composites(
        self, base: Index, donor: Index, active: Index, taken: NDArray[np.bool_]
    ) -> Array:
        gaps = self.by_player[donor][:, active] - self.by_player[base][:, active]
        return np.asarray(self._whole[base] + np.where(taken, gaps, 0.0).sum(axis=1))

    def changes(self, base: Index, donor: Index, player: int) -> Array:
        return np.asarray(self.by_player[donor, player] - self.by_player[base, player])

    def shares(self, one: int, other: int, settings: ShareSettings) -> Shares:
        gaps = self.effects[one] - self.effects[other]  # differences first, then sums
        own = self.players != NOBODY
        return Shares.exact(sums(self.players[own], gaps[own], self.n_players), ADDITIVE)


@dataclass(frozen=True)
class Term:
    """scale prod_j exp(-rates_j |x_j - y_j|^power), a product kernel.

    If power is None, scale sum_j rates_j x_j y_j, a linear kernel.
    """

    rates: Array
    power: int | None
    scale: float = 1.0

    def times(self, other: Term) -> Term | None:
        """The product, if one of the two is constant, or both have the same power."""
        for one, another in ((self, other), (other, self)):
            if one.power is not None and not one.rates.any():  # a constant
                return replace(another, scale=one.scale * another.scale)
        if self.power is None or self.power != other.power:
            return None
        return Term(self.rates + other.rates, self.power, self.scale * other.scale)


def kernel_terms(kernel: Any, n: int) -> list[Term] | None:
    """A kernel of n columns as a sum of products and linear kernels; None if it is no such sum."""
    if isinstance(kernel, NamedKernel):
        powers = {"rbf": 2, "laplacian": 1, "linear": None}
        if kernel.name not in powers:
            return None
        rate = 1.0 if kernel.name == "linear" else float(kernel.gamma)
        return [Term(np.full(n, rate), powers[kernel.name])]
    if isinstance(kernel, OnColumns):
        numbers = kernel.numbers(n)
        inner = kernel_terms(kernel.kernel, len(numbers))
        if inner is None:
            return None
        return [replace(term, rates=sums(numbers, term.rates, n)) for term in inner]
    if not hasattr(kernel, "clone_with_theta"):
        return None
    from sklearn.gaussian_process import kernels  # imported late: it takes a while

    kind = type(kernel)
    if kind is kernels.ConstantKernel:
        return [Term(np.zeros(n), 2, float(kernel.constant_value))]
    if kind is kernels.RBF:
        return [Term(np.broadcast_to(0.5 / np.square(kernel.length_scale), n), 2)]
    if kind is kernels.DotProduct:
        return [Term(np.ones(n), None), Term(np.zeros(n), 2, float(kernel.sigma_0) ** 2)]
    if kind not in (kernels.Sum, kernels.Product):
        return None
    one, two = (kernel_terms(part, n) for part in (kernel.k1, kernel.k2))
    if one is None or two is None:
        return None
    if kind is kernels.Sum:
        return one + two
    made = [a.times(b) for a in one for b in two]
    known = [term for term in made if term is not None]
    return known if len(known) == len(made) else None


class ClosedFormScorer(ModelScorer):
    """Shapley values in closed form, against the other row or the mean of a reference."""

    @abstractmethod
    def against(self, row: int, base: int) -> Array:
        """f(row) - f(base), divided among the players."""

    def shares(self, one: int, other: int, settings: ShareSettings) -> Shares:
        if settings.reference is None:
            return Shares.exact(self.against(one, other))
        found = [self.against(one, b) - self.against(other, b) for b in settings.reference]
        return Shares.exact(np.mean(found, axis=0))


@dataclass(frozen=True, eq=False)
class KernelScorer(ClosedFormScorer):
    """Sums of product kernels and linear kernels at points."""

    kernel: Any
    terms: Sequence[Term]
    points: Any
    weights: Array

    def against(self, row: int, base: int) -> Array:
        found = np.zeros(self.n_players)
        x, z, players = self.rows.X[row], self.rows.X[base], self.rows.players
        moves = (x != z) & (players != NOBODY)
        columns = np.flatnonzero(moves)
        if not len(columns):
            return found
        columns = columns[np.argsort(players[columns], kind="stable")]
        own, starts = np.unique(players[columns], return_index=True)
        at, rest = as_dense(self.points[:, columns]), np.flatnonzero(~moves)
        for term in self.terms:
            if term.power is None:
                slopes = term.scale * term.rates[columns] * (self.weights @ at)
                changes = slopes * (x[columns] - z[columns])
                found[own] += np.add.reduceat(changes, starts)
                continue
            P, Q = (
                np.exp(-np.add.reduceat(_distances(term, v, at, columns), starts, axis=1))
                for v in (x, z)
            )
            weights = self.weights * self._shared_factor(term, z, rest)
            found[own] += shapley.of_products(P, Q, weights)
        return found

    def _shared_factor(self, term: Term, z: Array, columns: Index) -> Array:
        """The product of the factors of the columns that do not move."""
        columns = columns[term.rates[columns] != 0.0]
        if not len(columns):
            return np.full(len(self.weights), term.scale)
        points = self.points[:, columns]
        if is_sparse(points):  # of a kernel with a name: all rates are equal
            return term.scale * self.kernel(z[None, columns], points)[0]
        return term.scale * np.exp(-_distances(term, z, points, columns).sum(axis=1))


def _distances(term: Term, row: Array, points: Array, columns: Index) -> Array:
    """-log of each factor."""
    with np.errstate(over="ignore"):  # an infinite distance is right
        gaps = np.abs(row[columns] - points)
        return np.asarray(term.rates[columns] * (gaps if term.power == 1 else gaps**2))


@dataclass(frozen=True, eq=False)
class TreeScorer(ClosedFormScorer):
    """Sums of trees, by LightGBM's contributions, or in closed form against other rows."""

    ranker: BoostedRanker

    def shares(self, one: int, other: int, settings: ShareSettings) -> Shares:
        """LightGBM's contributions, if every column has a player and there is no reference.

        Otherwise a tree is a sum over its leaves, each a product of indicators of its columns.
        """
        players = self.rows.players
        if settings.reference is None and (players != NOBODY).all():
            found = self.ranker.booster_.predict(
                self.rows.X[[one, other]], pred_contrib=True, num_threads=1
            )
            gaps = np.asarray(found)[0, :-1] - np.asarray(found)[1, :-1]
            return Shares.exact(sums(players, gaps, self.n_players), TREES)
        return super().shares(one, other, settings)

    @cached_property
    def _paths(self) -> tuple[Index, Index, NDArray[np.bool_], Array]:
        """Every node above every leaf, whether the first child leads there; values of leaves."""
        trees = self._nodes
        leaf, node, side = [], [], []
        for root in trees.roots:
            waiting: list[tuple[int, list[tuple[int, bool]]]] = [(int(root), [])]
            while waiting:
                at, above = waiting.pop()
                if at < 0:
                    leaf += [-1 - at] * len(above)
                    node += [number for number, _ in above]
                    side += [first for _, first in above]
                    continue
                waiting.append((int(trees.first[at]), [*above, (at, True)]))
                if trees.first[at] != trees.second[at]:
                    waiting.append((int(trees.second[at]), [*above, (at, False)]))
        return np.array(leaf), np.array(node), np.array(side, dtype=bool), trees.leaves

    @cached_property
    def _nodes(self) -> Any:
        return score_stages(self.ranker)[-1]

    def _goes_first(self, row: int) -> NDArray[np.bool_]:
        nodes = self._nodes
        x = self.rows.X[row][nodes.feature]
        first = np.where(np.isnan(x), nodes.missing_first.astype(bool), x <= nodes.threshold)
        return np.asarray(first, dtype=bool)

    def against(self, row: int, base: int) -> Array:
        leaf, node, side, leaves = self._paths
        found = np.zeros(self.n_players)
        passes = [self._goes_first(k)[node] == side for k in (row, base)]
        alive = np.ones(len(leaves), dtype=bool)
        alive[leaf[~passes[0] & ~passes[1]]] = False  # neither row passes the node
        moves = (passes[0] != passes[1]) & alive[leaf]
        who = self.rows.players[self._nodes.feature[node[moves]]]
        own, player = np.unique(who, return_inverse=True)
        some, place = np.unique(leaf[moves], return_inverse=True)
        if not len(own):
            return found
        P, Q = np.ones((len(some), len(own))), np.ones((len(some), len(own)))
        P[place[~passes[0][moves]], player[~passes[0][moves]]] = 0.0
        Q[place[~passes[1][moves]], player[~passes[1][moves]]] = 0.0
        found[own] = shapley.of_products(P, Q, leaves[some])
        return found


@dataclass(frozen=True, eq=False)
class WeightedScorer(Scorer):
    """A weighted sum of scorers; weights differ between rows if scores are scaled by query.

    Attributes
    ----------
    parts : list of Scorer
    weights : ndarray of shape (n_parts, n_rows)
    """

    parts: Sequence[Scorer]
    weights: Array
    n_players: int
    constants: Array  # of shape (n_rows,)

    def moving(self, one: int, others: Index) -> Index:
        found = [part.moving(one, others) for part in self.parts]
        return np.unique(np.concatenate(found))

    def composites(
        self, base: Index, donor: Index, active: Index, taken: NDArray[np.bool_]
    ) -> Array:
        found = self.constants[base].copy()
        for part, weight in zip(self.parts, self.weights, strict=True):
            found += weight[base] * part.composites(base, donor, active, taken)
        return found

    def changes(self, base: Index, donor: Index, player: int) -> Array:
        found = np.zeros(len(base))
        for part, weight in zip(self.parts, self.weights, strict=True):
            found += weight[base] * part.changes(base, donor, player)
        return found

    def shares(self, one: int, other: int, settings: ShareSettings) -> Shares:
        contributions, variance = np.zeros(self.n_players), np.zeros(self.n_players)
        ways: frozenset[str] = frozenset()
        for part, weight in zip(self.parts, self.weights[:, one], strict=True):
            found = part.shares(one, other, settings)
            contributions += weight * found.contributions
            variance += weight**2 * found.variance
            ways |= found.ways
        return Shares(contributions, variance, ways)


def check_ranker(ranker: Any) -> None:
    """Refuse what is not a fitted ranker of rows."""
    if isinstance(ranker, type) or not hasattr(ranker, "predict"):
        raise ParameterError(f"ranker must be a fitted ranker: got {ranker!r}.")
    if hasattr(ranker, "fit"):  # a function in an object is what it is
        check_is_fitted(ranker)
    last = inner_model(last_step(ranker))
    scored = "items" if hasattr(last, "ratings_") else getattr(last, "scored", "rows")
    if scored != "rows":
        raise DataError(
            f"{type(last).__name__} scores {scored}, and not rows of features: there is no feature "
            "to explain its scores by."
        )


def read_scorer(model: Any, rows: UserRows, output: int = 0) -> Scorer:
    """A scorer of rows by a fitted model: a ranker, a pipeline or a search."""
    model = inner_model(model)
    steps = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
    last, reached = last_step(model), rows
    if getattr(last, "encoder_", None) is not None:
        steps, last = [*steps, last.encoder_], last.mean_ranker_
    for step in steps:
        behind = reached.through(step)
        if behind is None and is_within_queries(model):
            raise DataError(
                f"{type(step).__name__} mixes features, and features are scaled within queries: "
                "what a feature adds is not defined. Scale within queries first, or use another "
                "scaling."
            )
        if behind is None:
            return _of_model(model, rows, output)
        reached = behind
    return _scorer(inner_model(last), reached, output)


def _of_model(model: Any, rows: UserRows, output: int) -> ModelScorer:
    """A scorer that knows only what a model predicts."""
    return ModelScorer(rows, lambda X: _column(model.predict(X), output))


def _scorer(ranker: Any, rows: UserRows, output: int) -> Scorer:
    """The scorer of a ranker, on the rows that it gets."""
    ranker = getattr(ranker, "mean_ranker_", ranker)
    if isinstance(ranker, Pipeline):
        return read_scorer(ranker, rows, output)
    if isinstance(ranker, MeanRanker):
        return _mean(ranker, rows, output)
    if isinstance(ranker, LeastSquaresRanker):
        return _least_squares(ranker, rows, output)
    if isinstance(ranker, RankSVM):
        basis = getattr(ranker, "basis_", FeatureBasis("primal"))
        weights = ranker.coef_ if basis.linear else ranker.dual_coef_
        return _in_basis(basis, _column(weights, output), 0.0, _checked(ranker, rows))
    if isinstance(ranker, BoostedRanker):
        numbers = _checked(ranker, rows, ensure_all_finite="allow-nan")
        threads = {"num_threads": 1}
        return TreeScorer(numbers, lambda Z: ranker.booster_.predict(Z, **threads), ranker)
    if isinstance(ranker, PairwiseGP):
        return _gp(ranker, _checked(ranker, rows))
    return _of_model(ranker, rows, output)


def _least_squares(ranker: LeastSquaresRanker, rows: UserRows, output: int) -> Scorer:
    if getattr(ranker.kernel, "as_rows", None) is not None:
        raise DataError(
            f"The kernel of this {type(ranker).__name__} compares graphs or other things that have "
            "no columns: there is no feature to explain its scores by."
        )
    with speaking_for_parts():
        prepared = prepare_rows(ranker, rows.X, rows.groups.codes, "explain")
    numbers = replace(rows, X=np.asarray(as_dense(to_host(prepared)), dtype=np.float64))
    weights = _column(ranker.solution_.weights, output)
    constant = _entry(to_host(ranker.solution_.intercept), output)
    return _in_basis(ranker.basis_, weights, constant, numbers)


def _in_basis(basis: Basis, weights: Array, constant: float, rows: UserRows) -> Scorer:
    """The scorer of weights in a basis, on rows of numbers."""
    effects = basis.effects(rows.X, weights)
    if effects is not None:
        return AdditiveScorer(effects, rows.players, rows.n_players, constant)

    def predict(Z: Array) -> Array:
        return np.asarray(to_host(basis.products(Z, weights)), dtype=np.float64) + constant

    found, made = basis.expansion(weights), None
    if found is not None:
        made = _of_kernel(found.kernel, found.points, found.weights, rows, predict)
    return made or ModelScorer(rows, predict)


def _of_kernel(
    kernel: Any, points: Any, weights: Array, rows: UserRows, predict: Callable[[Any], Array]
) -> KernelScorer | None:
    """The scorer of a sum of kernel values; None if the kernel has no terms."""
    terms = kernel_terms(kernel, rows.X.shape[1])
    if terms is None:
        return None
    points = points if is_sparse(points) else np.asarray(points, dtype=np.float64)
    weights = np.asarray(weights, dtype=np.float64).ravel()
    return KernelScorer(rows, predict, kernel, terms, points, weights)


def _gp(ranker: PairwiseGP, rows: UserRows) -> Scorer:
    """The posterior mean: a mixture of expansions, or a linear function."""
    ending, n = score_stages(ranker)[-1], len(rows.X)
    weights = np.tile(np.asarray(ending.weights, dtype=np.float64)[:, None], n)
    parts: list[Scorer] = []
    for process in ending.processes:
        mean = np.asarray(process.mean).ravel()
        if process.is_linear:
            constant = float(process.constant)
            parts.append(AdditiveScorer(rows.X * mean, rows.players, rows.n_players, constant))
            continue

        def predict(Z: Array, process: Any = process, mean: Array = mean) -> Array:
            return np.asarray(process.kernel(Z, process.points) @ mean + process.constant)

        made = _of_kernel(process.kernel, process.points, mean, rows, predict)
        if made is None:
            return ModelScorer(rows, ranker.predict)
        parts.append(made)
    return WeightedScorer(parts, weights, rows.n_players, np.zeros(n))


def _mean(ranker: MeanRanker, rows: UserRows, output: int) -> Scorer:
    """The weighted sum of the parts, whose scores are scaled as in the queries as they are."""
    parts = [read_scorer(part, rows, output) for part in ranker.rankers_]
    n = rows.X.shape[0]
    weights, constants = np.empty((len(parts), n)), np.zeros(n)
    for k, part in enumerate(parts):
        weight = float(ranker.weights_[k])
        if ranker.means_ is not None and ranker.scales_ is not None:
            mean, scale = (_entry(values[k], output) for values in (ranker.means_, ranker.scales_))
            weights[k] = weight / scale
            constants -= weights[k] * mean
            continue
        scores = part.scores(np.arange(n))
        for one in rows.groups:
            of_query = scores[one]
            flat = np.ptp(of_query) <= ROUNDING * np.abs(scores).max()
            deviation = of_query.std()
            weights[k, one] = 0.0 if flat or deviation == 0 else weight / deviation
            constants[one] -= weights[k, one] * of_query.mean()
    return WeightedScorer(parts, weights, rows.n_players, constants)


def _checked(ranker: Any, rows: UserRows, **options: Any) -> UserRows:
    """The rows as dense numbers, with the errors of the ranker."""
    X = validated(ranker, rows.X, accept_sparse="csr", dtype=DTYPES, reset=False, **options)
    return replace(rows, X=np.asarray(as_dense(X), dtype=np.float64))


def _column(values: Any, output: int) -> Array:
    """One output of scores or weights."""
    array = np.asarray(to_host(values), dtype=np.float64)
    return array if array.ndim == 1 else array[:, output]


def _entry(values: Any, output: int) -> float:
    array = np.ravel(values)
    return float(array[output] if len(array) > 1 else array[0])
