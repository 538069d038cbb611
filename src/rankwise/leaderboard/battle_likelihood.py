"""The likelihood of battles, its penalized maximum, and the covariance there.

A battle has up to three predictors: eta, by how much the first item is better; tau, the logarithm
of the tie parameter; and, with judges, e, the logit of the share of verdicts that are given at
random. Outcomes are in the order first, second, tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, log_ndtr, ndtr

from rankwise.backends.arrays import Array, Index, Sparse, is_sparse
from rankwise.data.battles import Battles, number_in_order, number_labels
from rankwise.errors import DataError, warn
from rankwise.leaderboard.curvature import (
    DenseCurvature,
    curvature_of,
)
from rankwise.progress import Show, unseen
from rankwise.tables import plural

CHUNK = 1 << 15  # rows whose derivatives are computed at a time
SAMPLE, DISTINCT = 2000, 64  # a column with more distinct values in a sample is continuous
POSITION = "first place"  # the column that is 1 in every battle
ITEM_TIES = "item ties"  # the penalty of how much items differ in ties
SMALLEST = 1e-140  # size of a column whose coefficient has a finite variance
SHOWN = 5  # items that a message names
FEW_GROUPS = 20
POSITION_Z = 4.0  # how far beyond chance the first place must matter to be worth a warning


@dataclass(frozen=True, eq=False)
class Terms:
    """Logarithms of probabilities, and their derivatives by the predictors.

    `log_p` has shape (n_outcomes, n), `gradient` (n_outcomes, n_predictors, n) and `hessian`
    (n_outcomes, n_predictors, n_predictors, n), or (1, ...) where it is the same for all outcomes.
    """

    log_p: Array
    gradient: Array
    hessian: Array


Model = Callable[[Array, Array], Terms]


def logit(eta: Array, tau: Array) -> Terms:
    """Bradley-Terry: P(first) = 1 / (1 + exp(-eta)); no ties."""
    log_p = np.stack((-np.logaddexp(0.0, -eta), -np.logaddexp(0.0, eta)))
    p = np.exp(log_p)
    return Terms(log_p, np.stack((p[1], -p[0]))[:, None], -(p[0] * p[1])[None, None, None])


def davidson(eta: Array, tau: Array) -> Terms:
    """Davidson: P(first), P(second), P(tie) in proportion to exp(eta/2), exp(-eta/2), exp(tau)."""
    half = 0.5 * eta
    top = np.maximum(abs(half), tau)
    log_p = np.stack((half - top, -half - top, tau - top))
    p = np.exp(log_p)
    total = p.sum(axis=0)
    p /= total
    log_p -= np.log(total)
    a, b, t = p
    mean = 0.5 * (a - b)
    gradient = np.empty((3, 2, len(eta)))
    gradient[0, 0], gradient[1, 0], gradient[2, 0] = 0.5 - mean, -0.5 - mean, -mean
    gradient[:2, 1], gradient[2, 1] = -t, a + b
    hessian = np.empty((1, 2, 2, len(eta)))
    hessian[0, 0, 0] = mean**2 - 0.25 * (a + b)
    hessian[0, 0, 1] = hessian[0, 1, 0] = mean * t
    hessian[0, 1, 1] = -t * (a + b)
    return Terms(log_p, gradient, hessian)


def probit(eta: Array, tau: Array) -> Terms:
    """Thurstone: P(first) = Phi(eta); no ties."""
    log_p, slope, bend = _tail(np.stack((eta, -eta)))
    return Terms(log_p, np.stack((slope[0], -slope[1]))[:, None], bend[:, None, None])


def threshold(eta: Array, tau: Array) -> Terms:
    """Thurstone with ties: P(first) = Phi(eta - t), P(second) = Phi(-eta - t), t = exp(tau)."""
    t = np.exp(tau)
    log_tail, slope, bend = _tail(np.stack((eta, -eta)) - t)
    # From the side where both terms are small, so that their difference is exact.
    near, far = t - abs(eta), -t - abs(eta)
    p = np.maximum(ndtr(near) - ndtr(far), 1e-300)
    up, down = _density(eta + t) / p, _density(eta - t) / p
    gradient = np.empty((3, 2, len(eta)))
    gradient[0, 0], gradient[1, 0], gradient[2, 0] = slope[0], -slope[1], up - down
    gradient[:2, 1], gradient[2, 1] = -t * slope, t * (up + down)
    hessian = np.empty((3, 2, 2, len(eta)))
    hessian[:2, 0, 0] = bend
    hessian[0, 0, 1], hessian[1, 0, 1] = -t * bend[0], t * bend[1]
    hessian[:2, 1, 1] = t * t * bend - t * slope
    bends = (eta - t) * down - (eta + t) * up
    hessian[2, 0, 0] = bends - gradient[2, 0] ** 2
    crossed = -t * ((eta + t) * up + (eta - t) * down)
    hessian[2, 0, 1] = crossed - gradient[2, 0] * gradient[2, 1]
    hessian[2, 1, 1] = t * t * bends + gradient[2, 1] - gradient[2, 1] ** 2
    hessian[:, 1, 0] = hessian[:, 0, 1]
    return Terms(np.concatenate((log_tail, np.log(p)[None])), gradient, hessian)


def _tail(z: Array) -> tuple[Array, Array, Array]:
    """log Phi(z), its first and its second derivative."""
    log_p = log_ndtr(z)
    slope = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_p)
    return log_p, slope, -slope * (slope + z)


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))


MODELS: dict[tuple[str, bool], Model] = {
    ("logit", False): logit,
    ("logit", True): davidson,
    ("probit", False): probit,
    ("probit", True): threshold,
}
"""By link, and whether ties have a model."""


@dataclass(frozen=True, eq=False)
class Tally:
    """Distinct battles: who met whom, before which judge, with which covariates.

    `counts` has a column each for the first item's wins, the second's wins, and ties.
    `judge` is None if judges are not modelled. `gold` is 0 where the right answer is not known, and
    otherwise 1 (the first item), 2 (the second) or 3 (neither).
    """

    first: Index
    second: Index
    counts: Array
    x: Array
    judge: Index | None = None
    gold: Index | None = None

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: Index) -> Tally:
        """Some rows."""
        more = (None if key is None else key[rows] for key in (self.judge, self.gold))
        return Tally(self.first[rows], self.second[rows], self.counts[rows], self.x[rows], *more)


def tally(
    first: Index,
    second: Index,
    outcome: Index,
    weight: Array,
    x: Array,
    judge: Index | None = None,
    gold: Index | None = None,
) -> tuple[Tally, Index]:
    """Count equal battles; also returns the row of every battle.

    With columns of `x` with many values, such as lengths, every battle is a separate row.
    """
    where = row = np.arange(len(first))
    if all(len(np.unique(column[:SAMPLE])) <= DISTINCT for column in x.T):
        keys = [first, second, *(key for key in (judge, gold) if key is not None)]
        keys += [np.unique(column, return_inverse=True)[1] for column in x.T]
        code = np.zeros(len(first), dtype=np.int64)
        for key in keys:
            size = int(key.max(initial=0)) + 1
            if code.max(initial=0) > 2**62 // size:  # numbers would overflow
                code = np.unique(code, return_inverse=True)[1]
            code = code * size + key
        _, where, row = np.unique(code, return_index=True, return_inverse=True)
    counts = outcome_counts(row, outcome, weight, len(where))
    more = (None if key is None else key[where] for key in (judge, gold))
    return Tally(first[where], second[where], counts, x[where], *more), row


def outcome_counts(row: Index, outcome: Index, weight: Array, n_rows: int) -> Array:
    """How often each outcome occurred in each row, of shape (n_rows, 3)."""
    sums = np.bincount(3 * row + outcome, weight, 3 * n_rows)
    return np.asarray(sums, dtype=np.float64).reshape(-1, 3)


@dataclass(frozen=True)
class Layout:
    """Where each kind of parameter is.

    The first parameters are common to all battles; ratings change by `steps` if they drift.
    `item_ties` is by how much each item raises the logarithm of the tie parameter, `slip` the
    common logit of slips, and `gold` the difference of ratings that a known right answer stands
    for. `deviations` of categories follow, and the effects of judges: a slice for each kind, with
    an entry for each judge.
    """

    items: slice
    steps: slice
    columns: slice
    tie: slice
    item_ties: slice
    slip: slice
    gold: slice
    deviations: slice
    effects: dict[str, slice]

    @classmethod
    def of(
        cls,
        n_items: int,
        n_columns: int,
        n_judges: int = 0,
        ties: bool = False,
        kinds: Sequence[str] = (),
        gold: bool = False,
        *,
        item_ties: int = 0,
        steps: int = 0,
        deviations: int = 0,
    ) -> Layout:
        sizes = [n_items, steps, n_columns, int(ties), item_ties, int("slips" in kinds), int(gold)]
        sizes += [deviations, *[n_judges] * len(kinds)]
        ends = np.cumsum(sizes).tolist()
        parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        items, moves, columns, tie, of_items, slip, known, apart = parts[:8]
        effects = dict(zip(kinds, parts[8:], strict=True))
        return cls(items, moves, columns, tie, of_items, slip, known, apart, effects)

    def with_parts(self, **parts: Any) -> Layout:
        """The same columns and models of ties, with other arguments of `Layout.of`."""
        own = {"n_items": self.items.stop, "n_columns": self.n_columns, "ties": self.ties}
        return Layout.of(**{**own, "item_ties": self.n_item_ties, **parts})

    @property
    def ties(self) -> bool:
        """Whether ties have a model."""
        return bool(self.tie.stop > self.tie.start)

    @property
    def n_item_ties(self) -> int:
        """The number of items, if they differ in how often they tie; otherwise 0."""
        return int(self.item_ties.stop - self.item_ties.start)

    @property
    def n_columns(self) -> int:
        return int(self.columns.stop - self.columns.start)

    @property
    def common(self) -> int:
        """Number of parameters that are common to all battles."""
        return int(self.gold.stop)

    @property
    def size(self) -> int:
        return int([self.deviations, *self.effects.values()][-1].stop)

    @property
    def groups(self) -> dict[str, slice]:
        """Parameters that are shrunk together."""
        more = {"steps": self.steps, ITEM_TIES: self.item_ties, "deviations": self.deviations}
        found = {name: part for name, part in more.items() if part.stop > part.start}
        return {"items": self.items, **found, **self.effects}

    def start(self) -> Array:
        """Equal items, few ties and slips, and judges who do not differ."""
        params = np.zeros(self.size)
        params[self.tie] = -1.0
        params[self.slip], params[self.gold] = SLIP_MEAN, GOLD_MEAN
        return params

    def priors(self, penalties: Mapping[str, float]) -> tuple[Array, Array]:
        """Means and precisions of the normal priors of all parameters."""
        mean, precision = np.zeros(self.size), np.zeros(self.size)
        for name, part in self.groups.items():
            precision[part] = penalties[name]
        for part, *prior in ((self.slip, SLIP_MEAN, 1.0), (self.gold, GOLD_MEAN, GOLD_PRECISION)):
            mean[part], precision[part] = prior
        return mean, precision


Entry: TypeAlias = tuple[int, Index | int, Array]
"""The number of a predictor, a parameter (by row, or one of all rows), and its factor by row."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihood of a tally as a function of all parameters.

    Predictors are linear in the parameters, unless judges have slopes; see `JudgedLikelihood`.
    """

    tally: Tally
    layout: Layout
    link: str

    @cached_property
    def entries(self) -> list[Entry]:
        """Predictors as sums over entries."""
        t, layout, one = self.tally, self.layout, np.ones(len(self.tally))
        found: list[Entry] = [(0, t.first, one), (0, t.second, -one)]
        found += [(0, layout.columns.start + k, x) for k, x in enumerate(t.x.T)]
        if layout.ties:
            found.append((1, layout.tie.start, one))
        if layout.n_item_ties:
            items = self.item_of(t.first), self.item_of(t.second)
            found += [(1, layout.item_ties.start + item, one) for item in items]
        return found

    def item_of(self, rated: Index) -> Index:
        """The items that are rated; in a cell, an item is rated as another one."""
        return rated

    def entries_at(self, params: Array) -> list[Entry]:
        """The derivatives of the predictors by the parameters, in the form of `entries`."""
        return self.entries

    @property
    def n_predictors(self) -> int:
        return 1 + int(self.layout.ties)

    @cached_property
    def counts(self) -> Array:
        """How often each outcome of the model occurred, a row per outcome.

        Without a model of ties, a tie is two half wins.
        """
        counts = self.tally.counts.T
        if not self.layout.ties:
            counts = counts[:2] + 0.5 * counts[2]
        return np.ascontiguousarray(counts)

    def with_counts(self, counts: Array) -> Likelihood:
        """The same battles, with other numbers of outcomes."""
        made = replace(self, tally=replace(self.tally, counts=counts))
        made.__dict__["entries"] = self.entries
        return made

    def without_judges(self) -> tuple[Likelihood, Index]:
        """The same battles before anybody, with equal rows added up; and the new row of each."""
        t = self.tally
        alone, row = tally(t.first, t.second, np.zeros(len(t), dtype=int), t.counts[:, 0], t.x)
        counts = np.zeros((len(alone), 3))
        for k, of in enumerate(t.counts.T):
            counts[:, k] = np.bincount(row, of, len(alone))
        return replace(self, tally=replace(alone, counts=counts)), row

    def divided(self, by: float) -> Likelihood:
        """The log-likelihood, divided by a number."""
        return self.with_counts(self.tally.counts / by)

    def predictors(self, params: Array) -> Array:
        """The predictors, of shape (n_predictors, n_rows)."""
        found = np.zeros((self.n_predictors, len(self.tally)))
        for q, i, x in self.entries:
            found[q] += x * params[i]
        return found

    def row_terms(self, predictors: Array) -> Terms:
        """Outcome probabilities and their derivatives by the predictors."""
        tau = predictors[1] if self.layout.ties else predictors[0]
        return MODELS[self.link, self.layout.ties](predictors[0], tau)

    def terms(self, params: Array) -> Iterator[tuple[slice, Terms]]:
        """The terms of some rows at a time."""
        predictors = self.predictors(params)
        for begin in range(0, len(self.tally), CHUNK):
            rows = slice(begin, begin + CHUNK)
            yield rows, self.row_terms(predictors[:, rows])

    def value(self, params: Array) -> float:
        """The log-likelihood."""
        parts = ((self.counts[:, rows] * terms.log_p).sum() for rows, terms in self.terms(params))
        return float(sum(parts))

    def expansion(self, params: Array) -> tuple[float, Array, Array]:
        """The log-likelihood, its gradient, and minus its second derivatives, by row.

        They have shapes (), (n_predictors, n_rows) and (n_predictors, n_predictors, n_rows).
        """
        n, q = len(self.tally), self.n_predictors
        g, h, value = np.empty((q, n)), np.empty((q, q, n)), 0.0
        for rows, terms in self.terms(params):
            counts = self.counts[:, rows]
            value += float(np.vdot(counts, terms.log_p))
            g[:, rows] = np.einsum("yn,yqn->qn", counts, terms.gradient)
            if len(terms.hessian) == 1:
                h[..., rows] = -counts.sum(axis=0) * terms.hessian[0]
            else:
                h[..., rows] = -np.einsum("yn,yqrn->qrn", counts, terms.hessian)
        return value, g, h

    def scores(self, params: Array) -> Array:
        """Derivatives of the log-likelihood of one battle, by outcome, predictor and row."""
        found = np.concatenate([terms.gradient for _, terms in self.terms(params)], axis=-1)
        if len(found) == 2:
            found = np.concatenate((found, found.mean(axis=0, keepdims=True)))
        return found

    def probabilities(self, params: Array) -> Array:
        """Of the outcomes of each row, of shape (n_rows, n_outcomes)."""
        parts = [terms.log_p for _, terms in self.terms(params)]
        return np.exp(np.concatenate(parts, axis=1)).T

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, Any]:
        """The log-likelihood, its gradient, and minus its second derivatives, by parameters."""
        value, g, h = self.expansion(params)
        return value, self.gather(params, g), self.gram(params, g, h, dense=dense)

    def gather(self, params: Array, g: Array) -> Array:
        """The gradient by parameters, from the gradient by the predictors of each row."""
        found = np.zeros(self.layout.size)
        for q, i, x in self.entries_at(params):
            _add(found, i, x * g[q])
        return found

    def gram(self, params: Array, g: Array, h: Array, *, dense: bool) -> Any:
        """The sum over rows of D' h D, with the derivatives D of the predictors of a row."""
        return gram_of(self.entries_at(params), h, self.layout.size, dense=dense)


def gram_of(entries: list[Entry], h: Array, size: int, *, dense: bool) -> Any:
    """The sum over rows of D' h D, for the derivatives D in `entries`."""
    half: Any = np.zeros((size, size)) if dense else sp.csr_array((size, size))
    for k, (q, i, x) in enumerate(entries):
        for r, j, z in [(q, i, 0.5 * x), *entries[k + 1 :]]:  # half of the diagonal
            values = h[q, r] * (x * z)
            if dense:
                _add_products(half, i, j, values)
            else:
                at = np.broadcast_to(i, values.shape), np.broadcast_to(j, values.shape)
                half = half + sp.coo_array((values, at), shape=(size, size)).tocsr()
    return half + half.T


def _add(found: Array, i: Index | int, values: Array) -> None:
    """Add each value in its place."""
    if isinstance(i, int):
        found[i] += values.sum()
    else:
        found += np.bincount(i, values, len(found))


def _add_products(half: Array, i: Index | int, j: Index | int, values: Array) -> None:
    """Add each value in row i and column j."""
    size = len(half)
    if isinstance(i, int):
        _add(half[i], j, values)
    elif isinstance(j, int):
        _add(half[:, j], i, values)
    elif i is j:
        _add(half.reshape(-1)[:: size + 1], i, values)
    else:
        half += np.bincount(size * i + j, values, size * size).reshape(size, size)


class RatedItems:
    """Ratings of a problem with `layout`, and with `features` of items in the last columns."""

    features: Array
    scales: Array

    @property
    def layout(self) -> Layout:
        """Where each kind of parameter is."""
        raise NotImplementedError

    def ratings(self, params: Array) -> Array:
        """Ratings relative to their mean, of shape params.shape[:-1] + (n_items,)."""
        found = params[..., self.layout.items]
        n_features = self.features.shape[1]
        if n_features:
            last = params[..., self.layout.columns][..., -n_features:]
            found = found + (last / self.scales[-n_features:]) @ self.features.T
        return np.asarray(found - found.mean(axis=-1, keepdims=True))

    def rating_map(self) -> Array:
        """The matrix that maps parameters to ratings."""
        return self.ratings(np.eye(self.layout.common)).T


@dataclass(frozen=True, eq=False)
class BattleProblem(RatedItems):
    """The likelihood of battles, and where each battle is in it.

    `row`, `outcome`, `weight`, `time` and `group` are of the battles that count: battles in which
    both items are bad, or without weight, do not. `sign` is -1 where the likelihood has the two
    items in the other order. `crossed` are groups of a second kind. Columns are divided by their
    `scales`.
    `features` are the centred features of items.
    """

    likelihood: Likelihood
    row: Index
    outcome: Index
    weight: Array
    time: Array | None
    sign: Array
    group: Index | None
    crossed: Index | None
    judges: NDArray[Any]
    names: list[str]
    scales: Array
    features: Array

    @classmethod
    def of(
        cls, battles: Battles, *, link: str, ties: str, position: bool, item_features: Any = None
    ) -> BattleProblem:
        """Check what only whole battles can show, and count."""
        b = battles.take(np.flatnonzero((battles.outcome != 3) & (battles.weight > 0)))
        if not (b.outcome < 2).any():
            raise DataError(
                "No battle has a winner: there is nothing to rank the items by. Check the outcomes."
            )
        judges, judge = (np.zeros(0), None) if b.judge is None else number_labels(b.judge)
        features, feature_names = item_feature_rows(item_features, battles.items)
        x, names = _columns(b, position=position)
        first, second = b.pairs.T
        if feature_names:
            x = np.column_stack((x, features[first] - features[second]))
            names += feature_names
        scales = column_scales(x, names)
        # Unless it matters who was shown first, both orders of a pair count as one.
        turned = (first > second) & (POSITION not in names)
        sign = np.where(turned, -1.0, 1.0)
        outcome = np.where(turned & (b.outcome < 2), 1 - b.outcome, b.outcome)
        sides = np.where(turned, second, first), np.where(turned, first, second)
        gold = None
        if judge is not None and b.gold is not None:
            gold = 1 + np.where(turned & (b.gold >= 0) & (b.gold < 2), 1 - b.gold, b.gold)
        counts, row = tally(*sides, outcome, b.weight, sign[:, None] * (x / scales), judge, gold)
        votes = b.outcome if judge is not None or b.gold is None else b.gold
        modelled = ties != "half" and bool((votes == 2).any())  # by the votes that count
        layout = Layout.of(len(battles.items), len(names), ties=modelled)
        columns = (
            [None] if b.groups is None else list(b.groups.T if b.groups.ndim == 2 else [b.groups])
        )
        group, crossed = [*map(_numbered, columns), None][:2]
        return cls(
            Likelihood(counts, layout, link), row, outcome, b.weight, b.time, sign, group,
            crossed, judges, names, scales, features,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.row)

    def scores(self, params: Array) -> GroupScores:
        """Gradients of the log-likelihood, summed within groups."""
        found = self.scores_of(params, self.group)
        if self.crossed is None or self.group is None:
            return found
        code = self.group * (int(self.crossed.max()) + 1) + self.crossed
        shared = self.scores_of(params, np.unique(code, return_inverse=True)[1])
        return replace(found, other=self.scores_of(params, self.crossed), shared=shared)

    def scores_of(self, params: Array, group: Index | None) -> GroupScores:
        """Gradients, summed within other groups, or of single battles."""
        battles = self.row, self.outcome, self.weight
        return GroupScores.of(self.likelihood, params, *battles, group)

    def unit_scores(self, params: Array, unit: Index) -> Sparse:
        """Gradients, summed within units of battles: a row for each, a column per parameter."""
        return self.scores_of(params, unit).matrix

    def pair_shares(self, params: Array) -> tuple[Array, Array]:
        """For each pair of items: numbers of both and counts of outcomes; and predicted shares."""
        t, likelihood = self.likelihood.tally, self.likelihood
        given = likelihood.counts.T, likelihood.probabilities(params), self.layout.items.stop
        return by_pair(t.first, t.second, *given)

    def without_judges(self) -> BattleProblem:
        """The same battles, whoever judged them."""
        if self.likelihood.tally.judge is None:
            return self
        likelihood, row = self.likelihood.without_judges()
        return replace(self, likelihood=likelihood, row=row[self.row])

    def with_item_ties(self) -> BattleProblem:
        """The same, with items that differ in how often they tie."""
        old = self.layout
        layout = old.with_parts(item_ties=old.items.stop if old.ties else 0)
        return replace(self, likelihood=replace(self.likelihood, layout=layout))

    @property
    def layout(self) -> Layout:
        return self.likelihood.layout

    @property
    def links(self) -> tuple[Index, Index]:
        """Items that won, and those that lost; both for a tie."""
        t = self.likelihood.tally
        a, b, ties = t.counts.T
        won = np.concatenate((t.first[a + ties > 0], t.second[b + ties > 0]))
        lost = np.concatenate((t.second[a + ties > 0], t.first[b + ties > 0]))
        return won, lost

    def without(self, out: NDArray[np.bool_]) -> tuple[Likelihood, Likelihood]:
        """The likelihoods of the battles that stay, and of those that are held out."""
        total = self.likelihood.tally.counts
        counts = outcome_counts(self.row[out], self.outcome[out], self.weight[out], len(total))
        return self.likelihood.with_counts(total - counts), self.likelihood.with_counts(counts)


def by_pair(first: Index, second: Index, counts: Array, p: Array, n: int) -> tuple[Array, Array]:
    """For each pair of n items: numbers of both and counts of outcomes; and predicted shares.

    Outcomes are in the order: the first of the two wins, the second wins, and ties if these have a
    model.
    """
    low, high = np.minimum(first, second), np.maximum(first, second)
    code, pair = np.unique(low * n + high, return_inverse=True)
    counts = counts.copy()
    expected = p * counts.sum(axis=1, keepdims=True)
    turned = first > second
    for values in (counts, expected):
        values[turned, :2] = values[turned, 1::-1]
    rows = len(first)
    total = sp.csr_array((np.ones(rows), (pair, np.arange(rows))), shape=(len(code), rows))
    observed, predicted = (np.asarray(total @ values) for values in (counts, expected))
    sums = predicted.sum(axis=1, keepdims=True)  # 0 where weights of votes cancel
    shares = np.divide(predicted, sums, out=np.full_like(predicted, np.nan), where=sums != 0)
    return np.column_stack((code // n, code % n, observed)), shares


def _numbered(labels: NDArray[Any] | None) -> Index | None:
    if labels is None:
        return None
    whole = labels.dtype.kind in "iu"
    return np.unique(labels, return_inverse=True)[1] if whole else number_in_order(labels)[1]


def _columns(b: Battles, *, position: bool) -> tuple[Array, list[str]]:
    """The first place, if it matters, and the context; and their names."""
    columns, names = [np.zeros((len(b), 0))], []
    if position:
        columns.append(np.ones((len(b), 1)))
        names.append(POSITION)
    if b.context is not None:
        if POSITION in (b.context_names or []):
            raise DataError(
                f"A column of context is called {POSITION!r}, as is the effect of position: rename "
                "the column."
            )
        columns.append(b.context)
        names += b.context_names or [f"x{k}" for k in range(b.context.shape[1])]
    return np.column_stack(columns), names


def item_feature_rows(given: Any, items: NDArray[Any]) -> tuple[Array, list[str]]:
    """Features of items in the order of the items, centred, and their names."""
    if given is None:
        return np.zeros((len(items), 0)), []
    if hasattr(given, "columns") and hasattr(given, "index"):
        names = [str(name) for name in given.columns]
        rows = dict(zip(given.index.tolist(), np.asarray(given).tolist(), strict=True))
    elif isinstance(given, Mapping):
        rows = {name: np.atleast_1d(row).tolist() for name, row in given.items()}
        names = [f"z{k}" for k in range(len(next(iter(rows.values()), [])))]
    else:
        raise DataError(
            "item_features must be a data frame whose index has the ids of items, or a dictionary "
            f"of numbers by id: got {type(given).__name__}."
        )
    missing = [name for name in items.tolist() if name not in rows]
    if missing:
        raise DataError(
            f"item_features has no row for {missing[0]!r} ({len(missing)} of {len(items)} items)."
        )
    try:
        values = np.array([rows[name] for name in items.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if not np.isfinite(values).all():
        raise DataError("item_features must hold the same number of finite numbers for each item.")
    return values - values.mean(axis=0), names


def column_scales(x: Array, names: list[str]) -> Array:
    """The size of each column; raises an error if columns determine each other."""
    if not x.shape[1]:
        return np.ones(0)
    largest = abs(x).max(axis=0)
    extreme = np.flatnonzero(~((largest > SMALLEST) & (largest < 1.0 / SMALLEST)))
    if len(extreme):
        raise DataError(
            f"The largest value of the column {names[extreme[0]]!r} is {largest[extreme[0]]:.1g}: "
            "its coefficient cannot be estimated. Leave a column of zeros out, or multiply the "
            "column by a constant."
        )
    scales = largest * np.sqrt(np.square(x / largest).mean(axis=0))
    # What is left of each column after a regression on the columns before it.
    rest = np.square(np.diagonal(np.linalg.qr(x / scales).R)) / len(x)
    if len(rest) < x.shape[1] or (rest < 1e-10).any():
        k = int(np.argmin(np.append(rest > 1e-10, False)))
        raise DataError(
            f"The column {names[k]!r} is a combination of the columns before it "
            f"({', '.join(map(repr, names[:k]))}): leave one of them out."
        )
    return np.asarray(scales)


def warn_about_graph(
    links: tuple[Index, Index], items: NDArray[Any], penalty: Any, what: str = "battles"
) -> None:
    """Warn if battles do not link all items, or links lead only in one direction.

    Without a penalty, such ratings are infinite: raise an error.
    """

    def tell(found: str, what: str) -> None:
        if penalty == 0:
            raise DataError(f"{found}: give penalty a positive number.")
        warn(f"{found}: only the penalty {what}.")

    (won, lost), n = links, len(items)
    graph = sp.coo_array((np.ones(len(won)), (won, lost)), shape=(n, n)).tocsr()
    parts, part = connected_components(graph, directed=False)
    if parts > 1:
        small = np.flatnonzero(part == int(np.argmin(np.bincount(part))))
        tell(
            f"{what.capitalize()} do not link all items. There are {parts} parts, the smallest "
            f"with {_named(items[small])}, and items of different parts cannot be compared",
            "keeps their ratings together",
        )
    ahead, behind = np.bincount(won, minlength=n), np.bincount(lost, minlength=n)
    met = ahead + behind > 0
    for only, word in ((met & (behind == 0), "won"), (met & (ahead == 0), "lost")):
        if only.any():
            return tell(
                f"{_named(items[only])} {word} all {what}, which set no bound to such a rating",
                "bounds it",
            )
    strong = connected_components(graph, directed=True, connection="strong")[0]
    if strong > parts:
        tell(
            f"Some items never lost against any of the others ({strong} groups of items, each of "
            f"which is ahead of the next in all {what})",
            "determines the distances between these groups",
        )
    return None


def check_order(battles: Battles) -> None:
    """Refuse an effect of the first place if the first item won every battle.

    Then winners are listed before losers, and the order does not show which item came first.
    """
    if winners_first(battles):
        raise DataError(
            "The first item won every battle: the battles seem to list winners before losers, so "
            "that the effect of the first place is unknown. Leave out position, or give the items "
            "in the order in which they were shown."
        )


def winners_first(battles: Battles) -> bool:
    """Whether the first item won every battle that was won."""
    return bool((battles.outcome == 0).any() and not (battles.outcome == 1).any())


def decided(battles: Battles) -> NDArray[np.bool_]:
    """Which battles have a winner, by the votes and by the right answers that count as votes."""
    won = (battles.outcome < 2) & (battles.weight > 0)
    if battles.gold is None or battles.judge is not None:
        return won
    return won & (battles.gold >= 0) & (battles.gold < 2)


def warn_about_position(problem: BattleProblem, params: Array) -> None:
    """Warn if the first place wins more often than the ratings explain, and is not modelled.

    A score test: the sum of the scores of groups, divided by its standard error. If the first wins
    all battles, winners are listed before losers, and the order does not show which item came
    first.
    """
    if not np.where(problem.sign > 0, problem.outcome == 1, problem.outcome == 0).any():
        return
    scores = problem.likelihood.scores(params)[problem.outcome, 0, problem.row]
    scores = scores * problem.weight * problem.sign
    if problem.group is not None:
        scores = np.bincount(problem.group, weights=scores)
    error = float(np.sqrt(np.square(scores).sum()))
    if error == 0 or abs(scores.sum()) < POSITION_Z * error:
        return
    which = "first" if scores.sum() > 0 else "second"
    warn(
        f"The item shown {which} won more often than the ratings explain "
        f"({abs(scores.sum()) / error:.1f} standard errors): two orders of a pair are judged "
        "differently. Set position=True."
    )


def warn_about_groups(n_groups: int) -> None:
    """Warn if there are few independent groups."""
    if n_groups < FEW_GROUPS:
        warn(
            f"Intervals rest on {plural(n_groups, 'group')} of battles: they are rough with fewer "
            f"than {FEW_GROUPS}."
        )


def _named(items: NDArray[Any]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(map(repr, items[:SHOWN].tolist())) + more


DENSE = 3000  # parameters up to which matrices are formed
MAX_STEPS = 100
STEP_TOLERANCE = 1e-7  # a Newton step this small leaves an error of its square
LOST = 1e-15  # a penalty, relative to the sum of curvatures, that rounding errors hide
SLIP_MEAN = -3.0  # of the common logit of slips, before any battle
GOLD_MEAN, GOLD_PRECISION = 1.0, 25.0  # of the difference that a right answer stands for
BOUNDS = (np.log(1e-6), np.log(1e6))  # of log penalties
# What is known of variances before any battle: a variance, and how many parameters would tell it.
PRIORS = {"items": (1.0, 2.0), "steps": (2.5e-3, 2.0), "deviations": (2.5e-3, 2.0)}
EFFECT_PRIOR = (0.01, 0.1)  # of the effects of judges
EVIDENCE_TOLERANCE = 1e-10
WIDTH_STEP, MOST_WIDTHS = 0.35, 12  # of the grid of logarithms of standard deviations
WIDTH_LOST = 4.0  # log weights, relative to the largest, that are negligible
TIES_KEPT = 1.5  # by how much ties by item must raise the logarithm of the evidence
GRID = np.geomspace(1e-3, 1e2, 16)  # penalties that held-out groups choose from
FOLDS = 5
BLOCK = 20  # draws that are made at a time where there is no dense matrix
DRAW_TOLERANCE = 1e-3  # of such draws: far below the noise of 2,000 of them


class Modelled(Protocol):
    """A likelihood of battles or rankings, concave in its parameters or nearly so."""

    @property
    def layout(self) -> Layout: ...

    def value(self, params: Array) -> float:
        """The log-likelihood."""

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, Any]:
        """The log-likelihood, its gradient, and minus its second derivatives.

        These are in a form that `curvature_of` takes, and have a diagonal.
        """


@dataclass(frozen=True, eq=False)
class Expansion:
    """The log-likelihood around some parameters: value, gradient and minus second derivatives."""

    params: Array
    value: float
    gradient: Array
    matrix: Any

    @classmethod
    def of(cls, likelihood: Modelled, params: Array, dense: int) -> Expansion:
        with np.errstate(all="ignore"):  # a step that is too long is taken back
            return cls(params, *likelihood.expand(params, dense=len(params) <= dense))


@dataclass(frozen=True, eq=False)
class Mode:
    """The maximum: parameters, penalties, and curvature there."""

    at: Expansion
    penalties: dict[str, float]
    precision: Array
    curvature: Any
    converged: bool

    @property
    def params(self) -> Array:
        return self.at.params


def maximize(
    likelihood: Modelled,
    penalties: dict[str, float],
    at: Expansion | Array | None = None,
    *,
    tolerance: float = STEP_TOLERANCE,
    dense: int = DENSE,
    steps: int = MAX_STEPS,
) -> Mode:
    """Newton's method on the likelihood minus half the penalties times the squared parameters.

    A step is halved until it improves the sum. Up to `dense` parameters, its equations are solved
    by Cholesky factorization, O(rows + n_items^3) per step, beyond by preconditioned conjugate
    gradients, O(rows) per iteration. It begins `at` parameters, or at an expansion around some. If
    it ends after `steps`, the curvature is from before the last one.
    """
    layout = likelihood.layout
    if not isinstance(at, Expansion):
        at = Expansion.of(likelihood, layout.start() if at is None else at, dense)
    mean, precision = layout.priors(penalties)

    def goal(point: Expansion) -> float:
        return point.value - 0.5 * float(precision @ np.square(point.params - mean))

    converged, begin, last = False, 1.0, np.zeros(layout.size)
    for _ in range(steps):
        gradient = at.gradient - precision * (at.params - mean)
        curvature, step, damped = newton_step(likelihood, at, precision, gradient)
        if converged:
            return Mode(at, penalties, precision, curvature, not damped)
        size, reached = float(abs(step).max(initial=0.0)), goal(at)
        # Steps that turn back are too long, where the curvature is an expectation.
        begin = length = max(0.5 * begin, 0.05) if step @ last < 0 else min(1.2 * begin, 1.0)
        # Improvements below the rounding errors of the sum cannot be seen.
        blur = 1e-12 * (abs(reached) + 1.0)
        while True:
            trial = Expansion.of(likelihood, at.params + length * step, dense)
            if goal(trial) >= reached - blur or length < 1e-10:
                break
            length *= 0.5
        at, last = trial, length * step
        converged = length == begin and size < tolerance * max(1.0, float(abs(at.params).max()))
    return Mode(at, penalties, precision, curvature, False)


def newton_step(
    likelihood: Modelled, at: Expansion, precision: Array, gradient: Array
) -> tuple[Any, Array, bool]:
    """The curvature, the step, and whether curvature had to be added to find one upwards."""
    items, diagonal = likelihood.layout.items, at.matrix.diagonal()
    level, total = 0.0, float(diagonal[items].sum())
    if precision[0] <= LOST * total:  # then only differences of ratings are determined
        level = total / (2 * items.stop**2) + 1e-12
    damping = 0.0
    while True:
        extra = precision + damping * (abs(diagonal) + 1e-12)
        try:
            found = curvature_of(at.matrix, extra, items, level)
            return found, found.solve(gradient), damping > 0
        except (LinAlgError, DataError):
            # More than needed makes steps so short that they never leave a saddle.
            damping = max(3.0 * damping, 1e-3) if damping else 1e-6
            if damping > 1e8:
                raise


def evidence_excess(params: Array, penalty: float, trace: float, name: str) -> float:
    """By how much the logarithm of a penalty is too small, to first order; see `by_evidence`."""
    variance, worth = PRIORS.get(name, EFFECT_PRIOR)
    known = max(len(params) - penalty * trace, 0.0) + worth
    return float(np.log(known) - np.log(penalty * (params @ params + worth * variance)))


def by_evidence(
    likelihood: Modelled,
    fixed: dict[str, float],
    at: Expansion | Array | None = None,
    log_penalties: dict[str, float] | None = None,
    show: Show = unseen,
    *,
    tolerance: float = EVIDENCE_TOLERANCE,
) -> Mode:
    """The maximum with the penalties that maximize the evidence, except the `fixed` ones.

    The ratings are normal with variance 1 / penalty. At the maximum of the evidence of the normal
    approximation (MacKay, 1992), with n parameters u and the covariance S, and a weak gamma prior
    of the penalty, worth m = 2 parameters of variance v,

        penalty (|u|^2 + m v) = n - penalty trace(S) + m.

    Without the prior, a few battles could make the variance 0, and intervals with it. The
    logarithm of the penalty is found by the secant method, from `log_penalties` or 0, to the
    `tolerance`. Unless that is the smallest, each penalty gets a single step towards the maximum,
    and only the last penalty the maximum. `show` gets the number of penalties tried.
    """
    groups = likelihood.layout.groups
    free = [name for name in groups if name not in fixed]
    log = {name: (log_penalties or {}).get(name, 0.0) for name in free}
    moved, brief = 1.0 if free else 0.0, tolerance > EVIDENCE_TOLERANCE
    before: dict[str, tuple[float, float]] = {}
    longest = 10.0 if brief else np.inf  # step, as the maximum lags behind
    for tried in range(MAX_STEPS):
        show(tried)
        penalties = {**fixed, **{name: float(np.exp(log[name])) for name in free}}
        # As long as penalties still move much, a rough maximum will do.
        near = float(np.clip(0.1 * moved, STEP_TOLERANCE, 1e-2))
        steps = (1 if at is not None else 3) if brief else MAX_STEPS
        mode = maximize(likelihood, penalties, at, tolerance=near, steps=steps)
        at = mode.at
        traces = mode.curvature.traces({name: groups[name] for name in free})
        moved = 0.0
        for name in free:
            part = at.params[groups[name]]
            step = excess = evidence_excess(part, penalties[name], traces[name], name)
            if name in before:
                gone, change = log[name] - before[name][0], excess - before[name][1]
                if gone and change / gone < 0:
                    step = -excess * gone / change
            most = min(2.0, longest * abs(excess))
            before[name] = log[name], excess
            log[name] = float(np.clip(log[name] + np.clip(step, -most, most), *BOUNDS))
            moved = max(moved, abs(log[name] - before[name][0]))
        if moved < tolerance and (brief or near == STEP_TOLERANCE):
            break
    return maximize(likelihood, penalties, at, tolerance=1e-5) if brief else mode


def dependence_of(mode: Mode, scores: GroupScores, items: slice) -> float:
    """How many battles of groups tell as much as one that is independent: at least 1.

    The variance of the gradient within groups relative to the variance if battles were independent,
    tr(K^-1 M) / tr(K^-1 H), over the ratings, with the second derivatives H without penalties. A
    likelihood divided by it has the right curvature on average (Pauli, Racugno and Ventura,
    "Bayesian composite marginal likelihoods", 2011).
    """
    whole, common = mode.curvature, mode.curvature.common
    if common is None:
        return 1.0
    n = items.stop
    M, P = scores.gram(whole), whole.bias(mode.precision)
    seen = float(np.trace(common.solve(M)[items, items]))
    alone = n - float(np.trace(common.solve(P)[items, items]))
    return max(seen / max(alone, 1e-300), 1.0) if alone > 0.5 else 1.0


def items_tie_apart(
    problem: BattleProblem, fixed: dict[str, float], rng: np.random.Generator, show: Show
) -> bool:
    """Whether items differ in how often they tie, by the evidence.

    Where battles depend on each other, they count less. Where there are too many parameters for a
    matrix, by a fifth of the groups, held out.
    """
    if not problem.layout.ties:
        return False
    trial, group = problem.with_item_ties(), problem.group
    if trial.layout.size > DENSE:
        group = np.arange(len(problem.row)) if group is None else group
        out = (rng.permutation(int(group.max()) + 1) % FOLDS == 0)[group]
        losses = []
        for each in (problem, trial):
            train, test = each.without(out)
            losses.append(-test.value(by_evidence(train, fixed, show=show, tolerance=1e-2).params))
        return losses[1] < losses[0]
    plain = by_evidence(problem.likelihood, fixed, show=show)
    worth = 1.0
    if group is not None:
        worth = dependence_of(plain, problem.scores(plain.params), problem.layout.items)
    found = []
    for each in (problem, trial):
        likelihood = each.likelihood.divided(worth)
        found.append(log_evidence(likelihood, by_evidence(likelihood, fixed, show=show)))
    return found[1] > found[0] + TIES_KEPT


def log_evidence(likelihood: Modelled, mode: Mode) -> float:
    """Of the normal approximation, up to a constant."""
    mean, precision = likelihood.layout.priors(mode.penalties)
    shrunk = precision > 0
    about = mode.params - mean
    prior = 0.5 * float(np.log(precision[shrunk]).sum() - precision @ (about * about))
    return mode.at.value + prior - 0.5 * float(mode.curvature.log_det())


def over_widths(
    likelihood: Modelled, mode: Mode, name: str, scale: float
) -> tuple[list[tuple[float, Mode]], float, Mode]:
    """Maxima with several standard deviations of a group of parameters, and weights that sum to 1.

    Also the probability that the standard deviation is 0, if it is 1/2 before any battle, and the
    maximum with 0.

    The evidence of a standard deviation is skewed: where there are few battles, its maximum is too
    small or even 0, and intervals that take it as known are too narrow. The weights are the
    evidence of the normal approximation times a gamma prior of the standard deviation w,
    ``w exp(-w / scale)``, which is 0 at 0 (Chung et al., "A nondegenerate penalized likelihood
    estimator for variance parameters in multilevel models", 2013). They are computed on a grid of
    logarithms, on both sides of the `mode` as far as they are not negligible.
    """
    middle, found = -0.5 * float(np.log(mode.penalties[name])), {}

    def look(k: int, near: Mode) -> tuple[float, Mode]:
        log_width = middle + WIDTH_STEP * k
        penalties = mode.penalties | {name: float(np.exp(-2.0 * log_width))}
        here = maximize(likelihood, penalties, near.at, tolerance=1e-4)
        prior = 2.0 * log_width - float(np.exp(log_width)) / scale
        return log_evidence(likelihood, here) + prior, here

    found[0] = look(0, mode)
    for side in (1, -1):
        for k in range(side, side * (MOST_WIDTHS + 1), side):
            found[k] = look(k, found[k - side][1])
            if found[k][0] < max(value for value, _ in found.values()) - WIDTH_LOST:
                break
    best = max(value for value, _ in found.values())
    kept = [(float(np.exp(value - best)), each) for value, each in found.values()]
    kept = [(weight, each) for weight, each in kept if weight > np.exp(-WIDTH_LOST)]
    total = sum(weight for weight, _ in kept)
    # The smallest standard deviation stands for 0.
    none = mode.penalties | {name: float(np.exp(BOUNDS[1]))}
    still = maximize(likelihood, none, mode.at, tolerance=1e-4)
    odds = log_evidence(likelihood, still) - best - np.log(total * WIDTH_STEP / scale**2)
    return [(weight / total, each) for weight, each in kept], float(expit(odds)), still


def mixed(weights: Array, means: Array, covariances: Array) -> tuple[Array, Array]:
    """Mean and covariance of a mixture, whose parts are along the first axis."""
    mean = np.einsum("k,ki->i", weights, means)
    about = means - mean
    between = np.einsum("k,ki,kj->ij", weights, about, about)
    return mean, np.einsum("k,kij->ij", weights, covariances) + between


def by_held_out(
    likelihood: Modelled,
    without: Callable[[NDArray[np.bool_]], tuple[Modelled, Modelled]],
    group: Index,
    rng: np.random.Generator,
    params: Array | None = None,
    show: Show = unseen,
) -> Mode:
    """The maximum with the penalty of ratings that best predicts groups of battles held out.

    Five folds of whole groups. `without` divides the likelihood by a mask of battles. The penalties
    of judges come from the evidence of all battles.
    """
    n_groups = int(group.max()) + 1
    fold = rng.permutation(n_groups) % min(FOLDS, n_groups)
    losses = np.zeros(len(GRID))
    others = by_evidence(likelihood, {}, params)
    fixed = {name: value for name, value in others.penalties.items() if name != "items"}
    for k in range(min(FOLDS, n_groups)):
        train, test = without(fold[group] == k)
        at: Expansion | Array = others.params
        for i, penalty in enumerate(GRID):
            at = maximize(train, {**fixed, "items": float(penalty)}, at, tolerance=1e-3).at
            losses[i] -= test.value(at.params)
            show(len(GRID) * k + i + 1)
    best = float(GRID[int(np.argmin(losses))])
    return maximize(likelihood, {**fixed, "items": best}, others.at)


@dataclass(frozen=True, eq=False)
class GroupScores:
    """Gradients of the log-likelihood, summed within independent groups of battles.

    A row per group, and a column per parameter. With groups of two kinds, `other` has the sums by
    the second, and `shared` by both: sums of outer products are added, and `shared` subtracted
    (Cameron, Gelbach and Miller, "Robust inference with multiway clustering", 2011).
    """

    matrix: Sparse
    n_groups: int
    other: GroupScores | None = None
    shared: GroupScores | None = None

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        params: Array,
        row: Index,
        outcome: Index,
        weight: Array,
        group: Index | None,
    ) -> GroupScores:
        """From the row, outcome, weight and group of each battle; None: battles are independent."""
        scores = likelihood.scores(params)
        if group is None:
            # Equal battles have equal scores: the squares add up.
            n_groups = len(row)
            squares = outcome_counts(row, outcome, weight**2, len(likelihood.tally))
            row, outcome = np.nonzero(squares)
            weight, size = np.sqrt(squares[row, outcome]), len(row)
            group = np.arange(size)
        else:
            size = n_groups = int(group.max()) + 1
        g = scores[outcome, :, row] * weight[:, None]
        n = len(likelihood.tally)
        entries = [
            (g[:, q] * x[row], group, np.broadcast_to(i, n)[row])
            for q, i, x in likelihood.entries_at(params)
        ]
        values, i, j = (np.concatenate(part) for part in zip(*entries, strict=True))
        shape = (size, likelihood.layout.size)
        return cls(sp.coo_array((values, (i, j)), shape=shape).tocsr(), n_groups)

    @property
    def correction(self) -> float:
        """For a finite number of groups."""
        return self.n_groups / max(self.n_groups - 1, 1)

    def gram(self, curvature: DenseCurvature) -> Array:
        """The sum of outer products of the rows, for the common parameters of a curvature."""
        G: Any = curvature.eliminate(self.matrix)
        product: Any = G.T @ G
        dense = product.toarray() if is_sparse(product) else product
        M = np.asarray(dense * self.correction)
        if self.other is None or self.shared is None:
            return M
        other, shared = self.other.gram(curvature), self.shared.gram(curvature)
        # The difference may have negative eigenvalues, and a negative diagonal.
        scale = np.sqrt(np.maximum((M + other + shared).diagonal(), 1e-300))
        M = M + other - shared
        s, V = np.linalg.eigh(M / scale / scale[:, None])
        root = scale[:, None] * V * np.sqrt(np.maximum(s, 0.0))
        return np.asarray(root @ root.T)

    def outer(self) -> Sparse:
        """The same sum for all parameters."""
        own = self.matrix.T @ self.matrix * self.correction
        if self.other is None or self.shared is None:
            return own
        return own + self.other.outer() - self.shared.outer()

    @property
    def fewest(self) -> int:
        """The number of groups, or the smaller of two numbers."""
        return self.n_groups if self.other is None else min(self.n_groups, self.other.n_groups)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draws from the normal distribution with covariance ``gram()``, as columns.

        With groups of two kinds, the covariance is not reduced by what these share.
        """
        z = rng.standard_normal((self.matrix.shape[0], n)) * np.sqrt(self.correction)
        found = np.asarray(self.matrix.T @ z)
        return found if self.other is None else found + self.other.draw(n, rng)


def spread(
    mode: Mode,
    scores: GroupScores,
    items: slice,
    n_draws: int,
    rng: np.random.Generator,
    show: Show = unseen,
    *,
    dependence: float = 1.0,
) -> tuple[Array | None, Array]:
    """The covariance of parameters, and draws of their deviations from the estimate.

    The covariance is K^-1 (M + P) K^-1 with the curvature K, the gram M of scores, and the
    penalties P. M is the variance of the gradient when groups are independent. K^-1 P K^-1 is the
    square of the bias through the penalty, averaged over ratings with variance 1 / penalty; times
    the `dependence` of battles, by which the penalty was raised. If
    battles are independent and the model is right, M + P = K, and this is the usual K^-1. The
    common level of the ratings is taken out of it: only the penalty determines it, and if that is
    small, rounding errors of the level would hide the rest.

    Draws have the shape (n_draws, n_parameters), of the common parameters. Beyond `DENSE`
    parameters there are only draws, of all parameters, in single precision, and None for the
    covariance.
    """
    P = mode.precision
    whole, common = mode.curvature, mode.curvature.common
    if common is not None:
        M = scores.gram(whole) + dependence * whole.bias(P)
        half = _without_level(common.solve(M), items)
        covariance = _without_level(common.solve(half.T), items)
        draws = common.solve(root_of(M) @ rng.standard_normal((len(M), n_draws)))
        draws = _without_level(draws, items).T
        return 0.5 * (covariance + covariance.T), draws
    draws = np.empty((n_draws, len(P)), dtype=np.float32)
    for begin in range(0, n_draws, BLOCK):
        count = min(BLOCK, n_draws - begin)
        drawn = scores.draw(count, rng)
        drawn += np.sqrt(dependence * P)[:, None] * rng.standard_normal((len(P), count))
        solved = whole.solve(drawn, DRAW_TOLERANCE)
        draws[begin : begin + count] = _without_level(solved, items).T
        show(begin + count)
    return None, draws


def _without_level(values: Array, items: slice) -> Array:
    """Columns of parameters, in place, with ratings relative to their mean."""
    values[items] -= values[items].mean(axis=0)
    return values


def root_of(M: Array) -> Array:
    """A matrix R with R R' = M, which may be singular."""
    scale = np.sqrt(np.maximum(M.diagonal(), 1e-300))
    unit = M / scale / scale[:, None]
    try:
        return np.asarray(scale[:, None] * cholesky(unit, lower=True, check_finite=False))
    except LinAlgError:
        s, V = np.linalg.eigh(unit)
        return np.asarray(scale[:, None] * V * np.sqrt(np.maximum(s, 0.0)))
