"""The likelihood of rankings of several items each, by Plackett and Luce.

An entry, an item i in a ranking with covariates x, has the score eta = theta_i + x @ coef. The
items of a ranking are chosen one after the other, from those that are left. With S the items that
are left, item i is next with probability

    exp(eta_i) / sum of exp(eta_j) over j in S.

The order of tied items is unknown: a ranking with ties has the sum of the probabilities of all
orders that agree with it. So items that are tied for the last place are below all others, and
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logsumexp

from rankwise.backends.arrays import Array, Index, Sparse
from rankwise.data.battles import Battles, number_labels
from rankwise.data.rankings import Rankings
from rankwise.errors import DataError, warn
from rankwise.leaderboard.battle_likelihood import (
    GroupScores,
    Layout,
    RatedItems,
    column_scales,
    item_feature_rows,
)

CELLS = 1 << 20  # second derivatives by entries that are computed at a time
NODES = 58  # of the trapezoidal rule for ties, for up to 15 items
LOOKED_AT = 2000  # battles that may be all pairs of rankings


@dataclass(frozen=True, eq=False)
class Tie:
    """Tied items of some rankings, as many in each, with others below them.

    The items have the columns `begin`, ..., `begin + size - 1` of a row of a `Block`.
    """

    row: Index
    begin: Index
    size: int

    @property
    def columns(self) -> Index:
        return np.asarray(self.begin[:, None] + np.arange(self.size))


@dataclass(frozen=True, eq=False)
class Block:
    """Rankings of the same number of items, a row for each.

    `item` has the numbers of items, the best first, `x` their covariates, and `number` the numbers
    of rankings. `single` marks items that are not tied and not last: each was chosen from itself
    and those after it.
    """

    item: Index
    x: Array
    number: Index
    single: Array
    ties: list[Tie]

    @classmethod
    def of(cls, item: Index, place: Index, x: Array, number: Index) -> Block:
        n, k = item.shape
        edge = np.ones((n, 1), dtype=bool)
        begins = np.hstack((edge, np.diff(place, axis=1) != 0))
        ends = np.hstack((begins[:, 1:], edge))
        single = begins & ends
        single[:, -1] = False
        ties: list[Tie] = []
        row, begin = np.nonzero(begins & ~ends)
        end = np.argmax(ends[row] & (np.arange(k) >= begin[:, None]), axis=1)
        for size in np.unique(end - begin + 1):
            # Items that are tied for the last place say nothing.
            kept = (end - begin + 1 == size) & (end < k - 1)
            if kept.any():
                ties.append(Tie(row[kept], begin[kept], int(size)))
        return cls(item, x, number, single.astype(np.float64), ties)

    @cached_property
    def pairs(self) -> tuple[Index, Index]:
        """Columns i <= j of all pairs of entries of a row."""
        return np.triu_indices(self.item.shape[1])

    def derivatives(self, eta: Array, *, second: bool) -> tuple[Array, Array, Array | None]:
        """Of each row: the log-likelihood, its gradient, and minus its second derivatives by eta.

        They have shapes (n,), (n, k) and (n, k (k + 1) / 2), the last for `pairs` of entries. With
        V_p the sum of exp(eta) over the columns from p on, and c_p the derivative of the
        log-likelihood by log V_p,

            gradient_i = direct_i + exp(eta_i) sum of c_p / V_p over p <= i,

        and the second derivatives by i and j have the sum of -c_p / V_p^2 over p <= min(i, j).
        """
        k = eta.shape[1]
        eta = eta - eta.max(axis=1, keepdims=True)
        size = np.exp(eta)
        v = np.cumsum(size[:, ::-1], axis=1)[:, ::-1]
        log_v = np.log(v)
        value = np.einsum("nk,nk->n", self.single, eta - log_v)
        direct, c = self.single, -self.single
        bends = []
        if self.ties:
            direct = direct.copy()
        for tie in self.ties:
            row, below = tie.row, tie.begin + tie.size
            rest = log_v[row, below]
            f, g, H = tied(eta[row[:, None], tie.columns] - rest[:, None])
            np.add.at(value, row, f)
            direct[row[:, None], tie.columns] += g
            c[row, below] -= g.sum(axis=1)
            bends.append((tie, below, rest, H))
        c /= v
        pulled = size * np.cumsum(c, axis=1)
        if not second:
            return value, direct + pulled, None
        i, j = self.pairs
        c /= v
        hessian = (np.cumsum(c, axis=1) * size)[:, i]
        hessian *= size[:, j]
        hessian[:, i == j] -= pulled
        for tie, below, rest, H in bends:
            # By eta: differences of the tied items from the logarithm of V below them.
            D = np.zeros((len(tie.row), tie.size, k))
            D -= (np.exp(eta[tie.row] - rest[:, None]) * (np.arange(k) >= below[:, None]))[:, None]
            one = np.arange(tie.size)
            D[np.arange(len(D))[:, None], one, tie.columns] += 1.0
            np.add.at(hessian, tie.row, (np.swapaxes(D, 1, 2) @ (H @ D))[:, i, j])
        return value, direct + pulled, hessian


def tied(d: Array) -> tuple[Array, Array, Array]:
    """The log-probability that some items are all chosen before the others; derivatives by d.

    `d` has a row for each case, with the differences of the scores of the items and the logarithm
    of the sum V of exp(eta) of all others. If items arrive after exponential times with rates
    exp(eta), they arrive in the order of Plackett and Luce. So the probability is that all of them
    arrive before the first of the others, at time exp(s) / V:

        integral of prod_i (1 - exp(-exp(s + d_i))) exp(s - exp(s)) ds.

    Substituting s = y - exp(-y), the trapezoidal rule has an error of about 1e-12, and up to 1e-7
    if d exceeds 10. The logarithm is concave. O(n_items) for each of 58 points or more, where a sum
    over orders has n_items! terms.
    """
    m = d.shape[1]
    # With many items, the largest value of the integrand may be narrow, and beyond log(m).
    y = np.linspace(-3.5, 5.0 + np.log1p(m / 60), NODES * int(np.ceil(np.sqrt((m + 1) / 16))))
    stretch = np.exp(-y)
    s = y - stretch
    with np.errstate(over="ignore", under="ignore"):
        rate = np.exp(s + d[:, :, None])
        h = np.log(-np.expm1(-rate)).sum(axis=1) + s - np.exp(s) + np.log1p(stretch)
        slope = rate / np.expm1(rate)  # of the logarithms by d
        bend = slope * (1.0 - np.minimum(rate, 1e300) - slope)
    slope[~np.isfinite(slope)] = 0.0
    bend[~np.isfinite(bend)] = 0.0
    total = logsumexp(h, axis=1)
    weight = np.exp(h - total[:, None])
    mean = np.einsum("niq,nq->ni", slope, weight)
    away = slope - mean[:, :, None]
    H = -np.einsum("niq,njq->nij", away * weight[:, None], away)
    one = np.arange(m)
    H[:, one, one] -= np.einsum("niq,nq->ni", bend, weight)
    return total + np.log(y[1] - y[0]), mean, H


@dataclass(frozen=True, eq=False)
class RankingLikelihood:
    """Log-likelihood of rankings as a function of ratings and coefficients."""

    blocks: list[Block]
    weight: Array
    layout: Layout

    def with_weights(self, weight: Array) -> RankingLikelihood:
        """The same rankings with other weights."""
        return replace(self, weight=weight)

    def divided(self, by: float) -> RankingLikelihood:
        """The log-likelihood, divided by a number."""
        return self.with_weights(self.weight / by)

    def scores(self, params: Array, block: Block) -> Array:
        """The score of each entry of a block."""
        found: Array = params[block.item]
        columns = params[self.layout.columns]
        return found + block.x @ columns if len(columns) else found

    def value(self, params: Array) -> float:
        """The log-likelihood."""
        total = 0.0
        for block in self.blocks:
            values = block.derivatives(self.scores(params, block), second=False)[0]
            total += float(self.weight[block.number] @ values)
        return total

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, Array | Sparse]:
        """The log-likelihood, its gradient, and minus its second derivatives."""
        size, begin = self.layout.size, self.layout.columns.start
        n_items, n_columns = self.layout.items.stop, size - begin
        value, gradient = 0.0, np.zeros(size)
        upper: Any = np.zeros(n_items**2) if dense else sp.csr_array((n_items, n_items))
        across, corner = np.zeros((n_items, n_columns)), np.zeros((n_columns, n_columns))
        for block in self.blocks:
            w, item = self.weight[block.number], block.item
            values, g, H = block.derivatives(self.scores(params, block), second=True)
            assert H is not None
            value += float(w @ values)
            g *= w[:, None]
            H *= w[:, None]
            gradient += np.bincount(item.ravel(), g.ravel(), size)
            i, j = block.pairs
            if n_columns:
                HX = np.zeros_like(block.x)
                for h, a, b in zip(H.T, i.tolist(), j.tolist(), strict=True):
                    HX[:, a] += h[:, None] * block.x[:, b]
                    if a != b:
                        HX[:, b] += h[:, None] * block.x[:, a]
                gradient[begin:] += np.einsum("nk,nkc->c", g, block.x)
                corner += np.einsum("nkc,nkd->cd", block.x, HX)
                for c in range(n_columns):
                    across[:, c] += np.bincount(item.ravel(), HX[..., c].ravel(), n_items)
            H[:, i == j] *= 0.5
            row, column = item[:, i], item[:, j]
            if dense:
                code = (n_items * row + column).ravel()
                upper += np.bincount(code, H.ravel(), n_items**2)
            else:
                entries = H.ravel(), (row.ravel(), column.ravel())
                upper = upper + sp.coo_array(entries, (n_items, n_items)).tocsr()
        if dense:
            half = upper.reshape(n_items, n_items)
            return value, gradient, np.block([[half + half.T, across], [across.T, corner]])
        parts = [[upper + upper.T, sp.csr_array(across)], [sp.csr_array(across.T), corner]]
        return value, gradient, sp.block_array(parts).tocsr()

    def group_scores(self, params: Array, group: Index) -> Sparse:
        """Gradients, summed within groups of rankings: a row for each, a column per parameter."""
        data, rows, columns = [], [], []
        for block in self.blocks:
            g = block.derivatives(self.scores(params, block), second=False)[1]
            g *= self.weight[block.number][:, None]
            number = group[block.number]
            data.append(g.ravel())
            rows.append(np.repeat(number, g.shape[1]))
            columns.append(block.item.ravel())
            for c in range(self.layout.size - self.layout.columns.start):
                data.append((g * block.x[..., c]).sum(axis=1))
                rows.append(number)
                columns.append(np.full(len(g), self.layout.columns.start + c))
        entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
        return sp.coo_array(entries, shape=(int(group.max()) + 1, self.layout.size)).tocsr()


@dataclass(frozen=True, eq=False)
class RankingLists(RatedItems):
    """The likelihood of rankings, and the scaled covariates `x` of their entries.

    Features of items are the last columns.
    """

    judges: ClassVar[Array] = np.zeros(0)  # rankings have none
    likelihood: RankingLikelihood
    rankings: Rankings
    x: Array
    group: Index | None
    names: list[str]
    scales: Array
    features: Array

    @classmethod
    def of(cls, rankings: Rankings, item_features: Any = None) -> RankingLists:
        """Check what only whole rankings can show."""
        r, sizes = rankings, rankings.sizes
        features, feature_names = item_feature_rows(item_features, r.items)
        names: list[str] = []
        x = np.zeros((len(r.item), 0))
        if r.context is not None:
            x = r.context
            names += r.context_names or [f"x{k}" for k in range(x.shape[1])]
        x, names = np.column_stack((x, features[r.item])), names + feature_names
        # Only differences within a ranking count.
        for c in range(x.shape[1]):
            x[:, c] -= (np.bincount(r.ranking, x[:, c], len(r)) / np.maximum(sizes, 1))[r.ranking]
        scales = column_scales(x, names)
        x = x / scales
        last = np.zeros(len(r), dtype=np.intp)
        np.maximum.at(last, r.ranking, r.place)
        used = (last > 0) & (r.weight > 0)
        if not used.any():
            raise DataError(
                "No ranking has an item above another: there is nothing to rank the items by."
            )
        begins, blocks = np.cumsum(sizes) - sizes, []
        for size in np.unique(sizes[used]):
            numbers = np.flatnonzero(used & (sizes == size))
            for number in np.array_split(numbers, -(-len(numbers) * size**2 // CELLS)):
                entry = begins[number][:, None] + np.arange(size)
                blocks.append(Block.of(r.item[entry], r.place[entry], x[entry], number))
        layout = Layout.of(len(r.items), len(names))
        group = None if r.groups is None else number_labels(r.groups)[1]
        likelihood = RankingLikelihood(blocks, r.weight, layout)
        return cls(likelihood, r, x, group, names, scales, features)

    def __len__(self) -> int:
        return len(self.rankings)

    @property
    def layout(self) -> Layout:
        return self.likelihood.layout

    def without(self, out: Any) -> tuple[RankingLikelihood, RankingLikelihood]:
        """The likelihoods of the rankings that stay, and of those that are held out."""
        w, given = self.likelihood.weight, self.likelihood.with_weights
        return given(np.where(out, 0.0, w)), given(np.where(out, w, 0.0))

    @property
    def links(self) -> tuple[Index, Index]:
        """Each item of a ranking beside each item of the next place."""
        return self.rankings.neighbours()

    def without_judges(self) -> RankingLists:
        return self

    def scores(self, params: Array) -> GroupScores:
        """Gradients of the log-likelihood, summed within groups."""
        group = np.arange(len(self)) if self.group is None else self.group
        used = np.unique(group[np.concatenate([block.number for block in self.likelihood.blocks])])
        return GroupScores(self.unit_scores(params, group)[used], len(used))

    def unit_scores(self, params: Array, unit: Index) -> Sparse:
        """Gradients, summed within units of rankings: a row for each, a column per parameter."""
        return self.likelihood.group_scores(params, unit)

    def pair_shares(self, params: Array) -> tuple[Array, Array]:
        """For each pair of items: numbers of both and how often each was ahead; predicted shares.

        Of two items of a ranking, the first is ahead with probability 1 / (1 + exp(-eta)), where
        eta is the difference of their scores, whoever else takes part.
        """
        rankings = self.rankings
        better, worse = rankings.pairs()
        n, weight = len(rankings.items), rankings.weight[rankings.ranking[better]]
        one, two = rankings.item[better], rankings.item[worse]
        eta = params[one] - params[two]
        if self.names:
            eta = eta + (self.x[better] - self.x[worse]) @ params[self.layout.columns]
        p = expit(eta)
        turned = one > two
        code = np.where(turned, two * n + one, one * n + two)
        if n * n <= len(code):
            codes, pair = np.arange(n * n), code
        else:
            codes, pair = np.unique(code, return_inverse=True)
        total, ahead, predicted = (
            np.bincount(pair, values, len(codes))
            for values in (weight, weight * ~turned, weight * np.where(turned, 1.0 - p, p))
        )
        met = np.flatnonzero(total)
        codes, total, ahead, predicted = codes[met], total[met], ahead[met], predicted[met]
        counts = np.column_stack((codes // n, codes % n, ahead, total - ahead))
        return counts, np.column_stack((predicted, total - predicted)) / total[:, None]


def warn_about_all_pairs(battles: Battles) -> None:
    """Warn if battles without groups are all pairs of rankings, one ranking after the other.

    Looks at the first battles: all pairs of a list have the first item ahead of each other, then
    the second ahead of each after it, and so on.
    """
    if battles.groups is not None or len(battles) < 3:
        return
    pairs, outcome = battles.pairs[:LOOKED_AT].tolist(), battles.outcome[:LOOKED_AT].tolist()
    wins = [(a, b) if code == 0 else (b, a) for (a, b), code in zip(pairs, outcome, strict=True)]
    begin = inside = longest = 0
    while begin < len(wins):
        best, size = wins[begin][0], 1
        while begin + size < len(wins) and wins[begin + size][0] == best:
            size += 1
        order = [best, *(loser for _, loser in wins[begin : begin + size])]
        all_pairs = list(combinations(order, 2))
        if size > 1 and wins[begin : begin + len(all_pairs)] == all_pairs:
            size = len(all_pairs)
            inside, longest = inside + size, max(longest, len(order))
        begin += size
    if inside > 0.9 * len(wins):
        warn(
            f"The battles seem to be all pairs of rankings (of up to {longest} items), which "
            "depend on each other: intervals are too narrow. Call fit_rankings with the rankings. "
            "For pairs, give groups, with the ranking of each battle, and weight, with 2 / k for "
            "rankings of k items."
        )
