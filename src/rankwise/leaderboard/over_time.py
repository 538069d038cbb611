"""Ratings that change: battles that count less as they age, and ratings that drift.

With a half-life, a battle of age a has the weight 2^(-a / half-life). Ratings err by chance, and
because old battles are about old ratings. To first order, with the curvature K, the weighted
gradients s_b of battles, the information B_p of the battles of period p, and the true ratings
theta_p of that period and theta_T now, the estimate theta is

    K (theta - theta_T) = sum_b s_b - sum_p B_p (theta_T - theta_p).

If ratings take independent steps, of variance q in a unit of time, theta_T - theta_p is the sum of
the steps after p. So with the gram M of gradients and the penalties P, the covariance is

    K^-1 (M + P + q sum_p gap_p C_p C_p') K^-1,    C_p = sum_{r <= p} B_r.

`SeenDrift` estimates q from residuals.

With drift, ratings of item i in periods p are a random walk,

    theta_i0 ~ N(0, 1 / penalty),    theta_ip - theta_i(p-1) ~ N(0, drift^2 gap_p),

where gap_p is the time between the periods. The penalty and the drift maximize the evidence. In
terms of steps, the prior is diagonal; in terms of ratings, the second derivatives have a block for
each period, and diagonal blocks between neighbours, so that one period after the other can be
eliminated: O(n_periods n_items^3) time and O(n_periods n_items^2) memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from rankwise.backends.arrays import Array, Index
from rankwise.data.battles import LEAST_WEIGHT, Battles
from rankwise.errors import DataError, warn
from rankwise.leaderboard.battle_likelihood import (
    BattleProblem,
    GroupScores,
    Layout,
    Likelihood,
    Mode,
    by_evidence,
    decided,
    gram_of,
    maximize,
    mixed,
    outcome_counts,
    over_widths,
    tally,
)
from rankwise.progress import Show

MONTH = 365.25 / 12  # days
YEAR = 365.25
PERIODS = 24  # of times that are not dates
EXACT = 1500  # parameters up to which traces are exact
FORGOTTEN = 1e-4  # of the influence of the last period: earlier ones are left out of a square
FINE = 2e-2  # tolerance of log penalties
INTEGRATED = 10**9  # n_periods n_items^3 up to which the drift is averaged over
PROBES = 24  # vectors that estimate a trace beyond
LARGEST = 2**31  # bytes of the blocks of all periods
CHANGES = np.geomspace(0.02, 8.0, 40)  # standard deviations of a change over all time
CHANGE_SCALE = 0.5  # of their prior, also with drift
NO_CHANGE = 0.1  # prior probability
SURE = 0.01  # of p_none, below which changes are reported
LATE = 6.0  # times the variance by chance: a half-life is too long
ROWS = 500  # random steps, where ratings are many
BLOCK = 25
HALF_LIVES = tuple(2.0**k for k in range(-6, 2))  # tried by "auto", in terms of all time
DRIFTS = (0.1, 0.2, 0.4, 0.8, 1.6)  # tried by "auto", in terms of a year or of all time
CUTS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # shares of battles between which later ones are predicted


def age_weights(battles: Battles, half_life: float) -> Array:
    """Weights that halve with each half-life before the latest battle.

    Weights that rounding errors would hide are 0.
    """
    assert battles.time is not None
    found = np.exp2((battles.time - battles.time.max()) / half_life)
    return np.where(found < LEAST_WEIGHT, 0.0, found)


def aged(battles: Battles, half_life: float) -> Battles:
    """The same battles with weights by their age."""
    return replace(battles, weight=battles.weight * age_weights(battles, half_life))


@dataclass(frozen=True, eq=False)
class SeenDrift:
    """What residuals say about changes of ratings that a likelihood takes as constant.

    `variance` is the mean of the variance of a change in a unit of time, given the residuals, and
    `p_none` the probability that there is none. `response` are minus the derivatives of the
    gradient by the ratings of all periods: a row for each parameter, and a column for each period
    and item. `gap` is the time from one period to the next, and from the last to the latest battle.
    """

    variance: float
    p_none: float
    response: Any
    gap: Array

    @classmethod
    def of(cls, problem: BattleProblem, params: Array) -> SeenDrift:
        """From the battles of a problem.

        Periods have battles of equal weight. If the likelihood is by category, an item is another
        item in each. The variance of a score is its information times the mean weight of the
        period, times a number that fits the squares of all scores of groups.
        """
        assert problem.time is not None  # checked before
        likelihood, row, n = problem.likelihood, problem.row, len(problem.features)
        items = problem.layout.items.stop
        period, gap = _of_equal_weight(problem.time, abs(problem.weight))
        P = len(gap)
        code, cell = np.unique(row * P + period, return_inverse=True)
        old, at = likelihood.tally.take(code // P), code % P
        counts = outcome_counts(cell, problem.outcome, problem.weight, len(code))
        cells = replace(likelihood, tally=replace(old, counts=counts))
        _, g, h = cells.expansion(params)
        entries = cells.entries_at(params)
        rated = [
            (q, at * n + cells.item_of(i), x)
            for q, i, x in entries
            if not isinstance(i, int) and i.max() < items
        ]
        score, information = np.zeros((2, P * n))
        response: Any = sp.csr_array((cells.layout.size, P * n))
        for r, j, z in rated:
            score += np.bincount(j, z * g[r], P * n)
            information += np.bincount(j, z * z * h[r, r], P * n)
            for q, i, x in entries:
                where = np.broadcast_to(i, j.shape), j
                part = sp.coo_array((h[q, r] * x * z, where), shape=response.shape)
                response = response + part.tocsr()
        unit = np.arange(len(row)) if problem.group is None else problem.group
        _, unit = np.unique(unit * P + period, return_inverse=True)
        own = GroupScores.of(cells, params, cell, problem.outcome, problem.weight, unit).matrix
        squares = float(np.square(own[:, :items].data).sum())
        information = np.maximum(information.reshape(P, n), 0.0)
        noise = np.bincount(period, problem.weight**2) / np.bincount(period, abs(problem.weight))
        noise *= squares / (noise @ information.sum(axis=1))
        # An item changes relative to its opponents, which change as well.
        r, _, z = rated[0]
        pair = np.sort([cells.item_of(side) for side in (old.first, old.second)], axis=0)
        pairs, number = np.unique(pair[0] * n + pair[1], return_inverse=True)
        met = np.square(np.bincount(number, z * z * h[r, r]))
        shared = np.bincount(pairs // n, met, n) + np.bincount(pairs % n, met, n)
        relative = 1.0 + shared / np.maximum(information.sum(axis=0), 1e-150) ** 2
        widths = np.append(0.0, CHANGES)
        variances = widths**2 / gap.sum()
        found = walk_evidence(
            score.reshape(P, n) / noise[:, None], information / noise[:, None], gap[:-1],
            variances[:, None] * relative,
        )  # fmt: skip
        log_p = found @ (1.0 / relative)  # two opponents tell the same twice
        prior = CHANGES**2 * np.exp(-CHANGES / CHANGE_SCALE)
        log_p[0] += np.log(NO_CHANGE)
        log_p[1:] += np.log((1.0 - NO_CHANGE) * prior / prior.sum())
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        return cls(float(p @ variances), float(p[0]), response, gap)

    @cached_property
    def rows(self) -> Array:
        """Rows whose gram is the variance of the gradient through changes of ratings.

        With many ratings, random steps stand for the steps of all of them.
        """
        P = len(self.gap)
        width = self.response.shape[1]
        rng, found = np.random.default_rng(0), []
        exact = width <= ROWS
        for begin in range(0, width if exact else ROWS, BLOCK):
            if exact:
                steps = np.eye(width)[begin : begin + BLOCK]
            else:
                steps = rng.choice([-1.0, 1.0], (BLOCK, width)) / np.sqrt(ROWS)
            steps = steps.reshape(len(steps), P, -1) * np.sqrt(self.variance * self.gap)[:, None]
            later = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
            found.append(self.response @ later.reshape(len(steps), -1).T)
        return np.concatenate(found, axis=1).T

    def warn(
        self, scores: GroupScores, half_life: Any, *, dated: bool, group: Index | None
    ) -> None:
        """Warn if ratings change by more than chance, and more than a half-life can follow.

        In a steady state, the variance by chance is proportional to 1 / half-life, and the variance
        by changes to the half-life. Their sum is the smallest where the two are equal.
        """
        if self.p_none > SURE or isinstance(half_life, str):
            return
        if half_life is None:
            span, unit = (YEAR, "a year") if dated else (float(self.gap.sum()), "over all time")
            warn(
                f"Ratings change by {np.sqrt(self.variance * span):.2g} {unit}, more than by "
                "chance, but all battles count the same. So intervals are too narrow for the "
                'latest ratings: use drift="evidence" or half_life="auto".'
                + (" If battles of a session depend on each other, pass groups." * (group is None))
            )
            return
        items = slice(0, self.response.shape[1] // len(self.gap))
        squares = scores.matrix[:, items].multiply(scores.matrix[:, items]).sum(axis=0)
        moved = np.square(self.rows[:, items]).sum(axis=0)
        seen = squares > 0
        ratio = float(np.median(moved[seen] / squares[seen]))
        if ratio > LATE:
            warn(
                f"Ratings change faster than half_life={half_life:g} can follow: old battles "
                f"mislead more than chance does. Use about {half_life / np.sqrt(ratio):.2g}, "
                'half_life="auto" or drift="evidence".'
            )

    def added_to(self, scores: GroupScores) -> GroupScores:
        """Scores that vary by chance and through changes of ratings."""
        rows = sp.csr_array(self.rows / np.sqrt(scores.correction))
        return replace(scores, matrix=sp.vstack((scores.matrix, rows)).tocsr())


def warn_about_short_half_life(battles: Battles, half_life: float) -> None:
    """Warn if so little is left of all battles that the penalty determines the ratings."""
    left = float(age_weights(battles, half_life).sum())
    if left < min(len(battles.items), 0.5 * len(battles)):
        unit = "days" if battles.dated else "the unit of the times"
        warn(
            f"With half_life={half_life:g}, all {len(battles):,} battles together count as "
            f"{left:.2g} of the latest: ratings are hardly determined. A half-life is in {unit}."
        )


def _of_equal_weight(time: Array, weight: Array) -> tuple[Index, Array]:
    """The period of each battle; times between periods, and from the last to the latest battle."""
    order = np.argsort(time, kind="stable")
    sums = np.cumsum(weight[order])
    ends = np.searchsorted(sums, sums[-1] * np.arange(1, PERIODS) / PERIODS)
    _, period = np.unique(np.searchsorted(time[order[ends]], time), return_inverse=True)
    mean = np.bincount(period, weight * time) / np.bincount(period, weight)
    return period, np.diff(mean, append=time.max())


def walk_evidence(score: Array, information: Array, gap: Array, variances: Array) -> Array:
    """The log-likelihood of scores of items by period, if ratings are random walks.

    score / information is a rating with variance 1 / information. Items are apart, and nothing is
    known about the first ratings. `variances` of the steps in a unit of time have a row for each
    that is tried. The result has the same shape.
    """
    mean, precision, found = np.zeros((3, *variances.shape))
    for p, (s, J) in enumerate(zip(score, information, strict=True)):
        if p:
            precision = precision / (1.0 + precision * variances * gap[p - 1])
        seen = J > 0
        about = np.divide(s, J, out=np.zeros_like(s), where=seen) - mean
        with np.errstate(divide="ignore"):
            variance = 1.0 / precision + 1.0 / J
        known = seen & (precision > 0)
        found += np.where(known, -0.5 * (np.log(variance) + about**2 / variance), 0.0)
        gain = np.divide(J, precision + J, out=np.zeros_like(precision), where=precision + J > 0)
        mean = mean + gain * about
        precision = precision + J
    return found


def best_on_later_battles(
    battles: Battles, candidates: list[Any], fit: Callable[[Any, Battles], Any]
) -> Any:
    """The candidate whose fits to earlier battles best predict the battles that follow.

    Battles are cut at several times. ``fit(candidate, earlier)`` is a leaderboard, which predicts
    the battles from one cut to the next; the candidate with the smallest log-loss is the best. No
    battle is predicted from later ones. Times with equal battles are not divided. The first
    candidate stays unless the gain over it is larger than its standard error: of many candidates,
    one is better by chance where battles are few.
    """
    assert battles.time is not None
    counted = battles.take((battles.outcome != 3) & (battles.weight > 0))
    assert counted.time is not None
    ends = np.unique(np.quantile(counted.time, CUTS, method="inverted_cdf"))
    if len(ends) < 2:
        raise DataError('"auto" needs battles at two or more times.')
    of_cuts = [np.zeros((len(candidates), 0))]
    for begin, end in pairwise(ends.tolist()):
        earlier = counted.take(counted.time <= begin)
        later = counted.take((counted.time > begin) & (counted.time <= end))
        if not len(later) or not decided(earlier).any():
            continue
        of_cuts.append(np.array([log_losses(fit(one, earlier), later) for one in candidates]))
    losses = np.concatenate(of_cuts, axis=1)
    best = int(np.argmin(losses.sum(axis=1)))
    gains = losses[0] - losses[best]
    gain, n = gains.sum(), len(gains)
    standard_error = np.sqrt(n * np.var(gains, ddof=1)) if n > 1 else np.inf
    return candidates[best if gain > standard_error else 0]


def log_losses(board: Any, battles: Battles) -> Array:
    """The logarithms of the probabilities of outcomes, negative, times the weights."""
    first, second = battles.items[battles.pairs].T
    p = board.predict_proba(first, second, context=battles.context)
    log_p = np.log(np.maximum(p, 1e-300))
    if p.shape[1] == 2:  # a tie is two half wins
        log_p = np.column_stack((log_p, log_p.mean(axis=1)))
    return -battles.weight * log_p[np.arange(len(battles)), battles.outcome]


@dataclass(frozen=True, eq=False)
class CellLikelihood(Likelihood):
    """The likelihood as if an item were another item in each period or category.

    Such an item is a cell, in the order of categories; `item` and `category` are of each cell.
    """

    item: Index
    category: Index

    @classmethod
    def of(cls, problem: BattleProblem, category: Index, *, every: bool = False) -> BattleProblem:
        """The problem with cells that have battles, or with every cell."""
        t, n = problem.likelihood.tally, problem.layout.items.stop
        sides = [n * category + side[problem.row] for side in (t.first, t.second)]
        code, cell = np.unique(np.concatenate(sides), return_inverse=True)
        if every:
            code, cell = np.arange(n * (int(category.max()) + 1)), np.concatenate(sides)
        first, second = cell.reshape(2, -1)
        counts, row = tally(first, second, problem.outcome, problem.weight, t.x[problem.row])
        layout = problem.layout.with_parts(n_items=len(code))
        cells = cls(counts, layout, problem.likelihood.link, code % n, code // n)
        return replace(problem, likelihood=cells, row=row)

    def item_of(self, rated: Index) -> Index:
        return np.asarray(self.item[rated])

    def rest(self, h: Array) -> tuple[Array, Array]:
        """Minus second derivatives by a rating and another parameter, and by two others."""
        t, total = self.tally, self.layout.items.stop
        size = self.layout.size - total
        border, entries = np.zeros((total, size)), []
        for q, i, x in self.entries[2:]:
            w, a = h[0, q] * x, i - total
            for sign, item in ((1.0, t.first), (-1.0, t.second)):
                added = np.bincount(item * size + a, sign * w, total * size)
                border += added.reshape(total, size)
            entries.append((q, a, x))
        return border, gram_of(entries, h, size, dense=True)


@dataclass(frozen=True, eq=False)
class WalkMatrix:
    """Minus second derivatives by the ratings of all periods, and by the other parameters.

    `blocks` has a block per period, of which only the upper triangle is filled, and `border` the
    derivatives by a rating and another parameter. `root` are the factors of steps.
    """

    blocks: Array
    border: Array
    corner: Array
    root: Array

    @classmethod
    def of(cls, plain: CellLikelihood, root: Array, h: Array) -> WalkMatrix:
        """From second derivatives by the predictors."""
        t, total = plain.tally, plain.layout.items.stop
        n = total // len(root)
        # The period is part of the number of a cell.
        code = np.minimum(t.first, t.second) * n + np.maximum(t.first, t.second) % n
        sums = np.bincount(code, -h[0, 0], total * n)
        blocks = np.asarray(sums, dtype=np.float64).reshape(-1, n, n)
        own = np.bincount(t.first, h[0, 0], total) + np.bincount(t.second, h[0, 0], total)
        blocks[:, np.arange(n), np.arange(n)] += own.reshape(-1, n)
        return cls(blocks, *plain.rest(h), root)

    def diagonal(self) -> Array:
        """By first ratings and steps, for gaps of 1."""
        own = np.einsum("pii->pi", self.blocks)
        later = np.cumsum(own[::-1], axis=0)[::-1]
        return np.concatenate((later.ravel(), self.corner.diagonal()))

    def curvature(self, precision: Array, items: slice, level: float) -> WalkCurvature:
        """With `precision` of first ratings and steps, and `level` on all first ratings."""
        (P, n, _), root = self.blocks.shape, self.root
        links = precision[n : n * P].reshape(P - 1, n) / root[1:] ** 2
        here = np.arange(n)
        factors: list[tuple[Array, bool]] = []
        for p in range(P):
            K = self.blocks[p].T.copy(order="F")  # only its lower triangle is used
            if p == 0:
                K[here, here] += precision[:n]
                K += level
            else:
                inverse, _ = dpotri(factors[-1][0], lower=1)
                K[here, here] += links[p - 1]
                inverse *= links[p - 1][:, None]
                inverse *= links[p - 1]
                K -= inverse
            if p < P - 1:
                K[here, here] += links[p]
            if not np.isfinite(K[here, here]).all():
                raise LinAlgError("not finite")
            factors.append(cho_factor(K, lower=True, overwrite_a=True, check_finite=False))
        made = WalkCurvature(factors, links, self.border, self.border, (np.eye(1), True), root)
        solved = made.solve_ratings(self.border)
        corner = self.corner + np.diag(precision[n * P :]) - self.border.T @ solved
        factor = cho_factor(corner, lower=True) if len(corner) else (np.eye(0), True)
        return replace(made, solved=solved, corner=factor)


@dataclass(frozen=True, eq=False)
class WalkLikelihood:
    """The likelihood of battles as a function of first ratings and steps.

    `plain` is the same as a function of the ratings of all periods, as if an item in another period
    were another item.
    """

    plain: CellLikelihood
    n_items: int
    gap: Array

    @property
    def n_periods(self) -> int:
        return len(self.gap) + 1

    @cached_property
    def layout(self) -> Layout:
        n = self.n_items
        return self.plain.layout.with_parts(n_items=n, steps=n * (self.n_periods - 1))

    @cached_property
    def root(self) -> Array:
        """The factor of each period's steps."""
        return np.sqrt(np.append(1.0, self.gap))[:, None]

    def ratings(self, params: Array) -> Array:
        """The parameters of `plain`: ratings of all periods, columns, ties."""
        end = self.layout.steps.stop
        steps = params[:end].reshape(self.n_periods, -1) * self.root
        return np.concatenate((np.cumsum(steps, axis=0).ravel(), params[end:]))

    def value(self, params: Array) -> float:
        """The log-likelihood."""
        return self.plain.value(self.ratings(params))

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, WalkMatrix]:
        """The log-likelihood, its gradient, and minus its second derivatives by ratings."""
        at = self.ratings(params)
        value, g, h = self.plain.expansion(at)
        end = self.layout.steps.stop
        by_rating = self.plain.gather(at, g)
        later = np.cumsum(by_rating[:end].reshape(self.n_periods, -1)[::-1], axis=0)[::-1]
        gradient = np.concatenate(((later * self.root).ravel(), by_rating[end:]))
        return value, gradient, WalkMatrix.of(self.plain, self.root, h)


@dataclass(frozen=True, eq=False)
class WalkCurvature:
    """Minus second derivatives with penalties, one period eliminated after the other.

    `factors` are of what is left of the block of each period, and `links` what joins it to the
    next. `root` are the factors of steps.
    """

    factors: list[tuple[Array, bool]]
    links: Array
    border: Array
    solved: Array
    corner: tuple[Array, bool]
    root: Array

    def solve_ratings(self, R: Array) -> Array:
        """The inverse of the part of ratings, times columns."""
        P, n = len(self.factors), len(self.factors[0][0])
        z = R.reshape(P, n, -1).copy()
        begin = int(np.argmax(z.any(axis=(1, 2))))  # zeros before stay zeros
        for p in range(begin, P):
            if p > begin:
                z[p] += self.links[p - 1][:, None] * z[p - 1]
            z[p] = cho_solve(self.factors[p], z[p], check_finite=False)
        for p in range(P - 2, -1, -1):
            z[p] += cho_solve(
                self.factors[p], self.links[p][:, None] * z[p + 1], check_finite=False
            )
        return np.asarray(z.reshape(len(R), -1))

    def solve_by_rating(self, R: Array) -> Array:
        """The inverse by ratings of all periods and other parameters, times columns."""
        end = len(self.border)
        x = self.solve_ratings(R[:end])
        if not self.border.shape[1]:
            return x
        y = cho_solve(self.corner, R[end:] - self.border.T @ x)
        return np.concatenate((x - self.solved @ y, y))

    def log_det(self) -> float:
        """The logarithm of the determinant, up to a constant."""
        factors = [factor for factor, _ in (*self.factors, self.corner)]
        return 2.0 * sum(float(np.log(factor.diagonal()).sum()) for factor in factors)

    def to_steps(self, X: Array) -> Array:
        """First ratings and steps, from columns of ratings of all periods."""
        end, P = len(self.border), len(self.factors)
        steps = np.diff(X[:end].reshape(P, -1, X.shape[1]), axis=0, prepend=0.0)
        return np.concatenate(((steps / self.root[..., None]).reshape(end, -1), X[end:]))

    def solve(self, R: Array) -> Array:
        """The inverse by first ratings and steps, times R."""
        end, P = len(self.border), len(self.factors)
        columns = R.reshape(len(R), -1)
        by_step = columns[:end].reshape(P, -1, columns.shape[1]) / self.root[..., None]
        by_rating = by_step - np.concatenate((by_step[1:], np.zeros_like(by_step[:1])))
        given = np.concatenate((by_rating.reshape(end, -1), columns[end:]))
        return self.to_steps(self.solve_by_rating(given)).reshape(R.shape)

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        """The sums of the diagonal of the inverse, over groups of parameters."""
        size = len(self.border) + self.border.shape[1]
        if size <= EXACT:
            diagonal = self.solve(np.eye(size)).diagonal()
            return {name: float(diagonal[part].sum()) for name, part in groups.items()}
        probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(size, PROBES))
        diagonal = (probes * self.solve(probes)).mean(axis=1)
        return {name: float(diagonal[part].sum()) for name, part in groups.items()}


@dataclass(frozen=True, eq=False)
class Walk:
    """Ratings of the last period, as parameters of the battle problem, and their covariance."""

    params: Array
    covariance: Array
    penalties: dict[str, float]
    converged: bool
    n_groups: int
    drift: float


def fit_walk(
    problem: BattleProblem,
    drift: Any,
    period: float | None,
    fixed: dict[str, float],
    show: Show,
    *,
    dated: bool,
) -> Walk:
    """Fit drifting ratings to the battles of a problem.

    `drift` is the standard deviation of a change in a year, or in a unit of times that are not
    dates; unless a number, it is chosen by the evidence, as are penalties that are not `fixed`.
    Ratings are constant within periods of equal length, the last of which ends with the latest
    battle.
    """
    time = problem.time
    assert time is not None  # checked before
    unit = YEAR if dated else 1.0
    length = period or (MONTH if dated else max(float(np.ptp(time)) / PERIODS, 1e-300))
    if drift != "evidence":
        fixed = fixed | {"steps": unit / (float(drift) ** 2 * length)}
    ago, number = np.unique(-np.floor((time.max() - time) / length), return_inverse=True)
    n, P = problem.layout.items.stop, len(ago)
    if 8 * P * n * n > LARGEST:
        raise DataError(
            f"Drift of {n:,} items over {P} periods needs {8 * P * n * n / 2**30:.0f} GiB: give "
            "period a larger number, or use half_life."
        )
    cells: Any = CellLikelihood.of(problem, number, every=True)
    likelihood = WalkLikelihood(cells.likelihood, n, np.diff(ago))
    # Ratings that do not change are a good start.
    rough = dict.fromkeys(problem.layout.groups, 1.0)
    still = maximize(problem.likelihood, rough, tolerance=1e-2).params
    begin = likelihood.layout.start()
    begin[:n], begin[n * P :] = still[:n], still[n:]
    if len(fixed) == 2:
        mode = maximize(likelihood, fixed, begin)
    else:
        mode = by_evidence(likelihood, fixed, begin, {"steps": 3.0}, show, tolerance=FINE)
    parts, p_none, none = [(1.0, mode)], 0.0, mode
    if "steps" not in fixed and P > 1 and P * n**3 <= INTEGRATED:
        scale = CHANGE_SCALE / float(np.sqrt(likelihood.gap.sum()))
        parts, p_none, none = over_widths(likelihood, mode, "steps", scale)
    last, covariances = [], []
    for _, part in parts:
        scores = cells.scores(likelihood.ratings(part.params))
        covariances.append(_last_covariance(likelihood, part, scores))
        last.append(_last_params(likelihood, part))
    weights = np.array([weight for weight, _ in parts])
    params, covariance = mixed(weights, np.array(last), np.array(covariances))
    # Ratings are nearer to those that do not change, by the probability that none does. Errors are
    # if they change, and of this distance.
    apart = _last_params(likelihood, none) - params
    params += p_none * apart
    covariance += p_none * np.outer(apart, apart)
    penalties = {"steps": np.inf} | mode.penalties  # within one period, ratings do not change
    if len(parts) > 1:
        widths = np.array([part.penalties["steps"] ** -0.5 for _, part in parts])
        penalties["steps"] = float(weights @ widths) ** -2
    found = float(np.sqrt(unit / (penalties["steps"] * length)))
    return Walk(params, covariance, penalties, mode.converged, scores.fewest, found)


def _last_params(likelihood: WalkLikelihood, mode: Mode) -> Array:
    """Of the battle problem, with the ratings of the last period."""
    n, end = likelihood.n_items, likelihood.layout.steps.stop
    found = likelihood.ratings(mode.params)[end - n :]
    found[:n] -= found[:n].mean()
    return found


def _last_covariance(likelihood: WalkLikelihood, mode: Mode, scores: GroupScores) -> Array:
    """Of the last period's ratings and the other parameters, by the sandwich formula.

    With the gram M of scores, the derivatives H of the likelihood, the curvature K = H + P and the
    columns E of these parameters, X = K^-1 E: the covariance X' (M + P) X is E' X + X' (M - H) X.
    """
    curvature = mode.curvature
    n, end, total = likelihood.n_items, len(curvature.border), likelihood.layout.size
    X = curvature.solve_by_rating(np.eye(total, total - end + n, n - end))
    plain = likelihood.plain
    at = likelihood.ratings(mode.params)
    _, g, h = plain.expansion(at)
    rest = scores.outer() - plain.gram(at, g, h, dense=False)
    # Early periods hardly matter; their part is squared.
    size = abs(X[:end]).reshape(-1, n * X.shape[1]).max(axis=1)
    begin = n * int(np.argmax(size > FORGOTTEN * size.max()))
    found = X[end - n :] + X[begin:].T @ (rest[begin:][:, begin:] @ X[begin:])
    items = slice(0, n)
    found[items] -= found[items].mean(axis=0)
    found[:, items] -= found[:, items].mean(axis=1, keepdims=True)
    return np.asarray(0.5 * (found + found.T))
