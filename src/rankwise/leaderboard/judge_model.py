"""Judges who differ: their effects on the outcomes of battles, and how these are estimated.

Before a judge with the slope s, the tie rate r, the place p and the slips e, a battle with the
difference d of ratings has the predictors

    eta = s d + x @ coef + p,    tau = tie + r,    e = slip + e,

where ``s - 1``, r, p and e are normal with mean 0, and the variance of each is chosen by the
evidence. Given the ratings, judges are independent of each other. So the second derivatives have
the shape of an arrow, and the judges can be eliminated, one small block after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from rankwise.backends.arrays import Array, Index, Sparse, is_sparse
from rankwise.errors import ParameterError
from rankwise.leaderboard.battle_likelihood import (
    BOUNDS,
    DENSE,
    MAX_STEPS,
    MODELS,
    Expansion,
    Layout,
    Likelihood,
    Mode,
    Terms,
    by_evidence,
    evidence_excess,
    gram_of,
    log_evidence,
    maximize,
    newton_step,
)
from rankwise.leaderboard.curvature import Arrow, ArrowCurvature, EqualBlocks
from rankwise.progress import Show, unseen

KINDS = ("slope", "ties", "place", "slips")
STEP = 2**12  # rows whose derivatives are computed at a time: they stay in the cache
CELLS = 2**23  # numbers of a matrix of judges by items that is kept dense
SLIPS_Z, JUDGE_Z = 2.0, 3.5  # how surprising verdicts must be for slips to be tried
KEPT = 3.0  # by how much an effect must raise the logarithm of the evidence: strong evidence
SEEN = 0.5 * KEPT  # an effect with less alone is left out at first
NOISE = 2.0  # squared ratings relative to squared errors, below which slopes cannot be judged
PENALTIES = np.exp(np.linspace(*BOUNDS, 57))  # that the first look at an effect chooses from
SLOPE_Z = 3.0  # how surprising the votes of some judge must be for slopes and remarks
ROUGH, FINE = 0.3, 3e-3  # tolerances of log penalties, while effects are chosen and after
CARELESS_SLOPE, CARELESS_SLIPS = 0.5, 0.25
MIXED, FARTHEST = 4, 10.0  # iterations that are combined, and how far, in terms of the last
NEAR = 0.3  # change of a number from which on they are nearly linear
CLOSE = 3e-4  # a last step this small leaves an error of its square, and the curvature
LEAST = 1e-8  # standard deviation of a slope
LONGEST = 2.0  # change of a parameter in one step
FEW_EFFECTS = 500  # of judges, whose variances include the uncertainty of ratings
LEAST_SLOPE = 0.2  # a mean slope that may be the unit of ratings
MOST_JUDGES = 512  # that a mean over all judges is taken of
GOLD_SIGN = np.array([0.0, 1.0, -1.0, 0.0])  # by code: not known, first, second, tie


def with_slips(terms: Terms, e: Array) -> Terms:
    """The same with a share s = 1 / (1 + exp(-e)) of verdicts given at random.

    P = (1 - s) Q + s / K with the outcome model's Q and K outcomes. With r = (1 - s) Q / P, the
    probability that a verdict was meant, log P has r times the derivatives of log Q, and
    (1 - r) - s by e. Second derivatives are replaced by their expectation, minus the Fisher
    information: they themselves may have any sign.
    """
    n_outcomes, q, n = terms.gradient.shape
    meant = terms.log_p - np.logaddexp(0.0, e)
    random = -np.logaddexp(0.0, -e) - np.log(n_outcomes)
    log_p = np.logaddexp(meant, random)
    r = np.exp(meant - log_p)
    gradient = np.empty((n_outcomes, q + 1, n))
    gradient[:, :q] = r[:, None] * terms.gradient
    gradient[:, q] = (1.0 - r) - expit(e)
    information = np.einsum("yn,yqn,yrn->qrn", np.exp(log_p), gradient, gradient)
    return Terms(log_p, gradient, -information[None])


@dataclass(frozen=True, eq=False)
class JudgedLikelihood(Likelihood):
    """The likelihood with effects of judges; the last `n_features` columns are part of ratings.

    Its predictors are d, the rest of eta, tau and e. Slopes multiply ratings. If both were set to
    their most probable values, large ratings could make up for slopes that are hardly known. So the
    log-likelihood is the mean over two values of each slope, `deviation` above and below. With
    their posterior standard deviations, this is the variational bound of the evidence.
    """

    n_judges: int
    n_features: int
    deviation: Array

    @classmethod
    def of(
        cls, plain: Likelihood, n_judges: int, n_features: int, kinds: Sequence[str]
    ) -> JudgedLikelihood:
        """With these kinds of effects."""
        old, gold = plain.layout, plain.tally.gold is not None
        layout = Layout.of(
            old.items.stop, old.n_columns, n_judges, old.ties, kinds, gold,
            item_ties=old.n_item_ties,
        )  # fmt: skip
        return cls(plain.tally, layout, plain.link, n_judges, n_features, np.zeros(n_judges))

    def with_deviation(self, deviation: Array) -> JudgedLikelihood:
        """The same with these standard deviations of slopes, 0 without slopes."""
        if "slope" not in self.layout.effects:
            return self
        made = replace(self, deviation=deviation)
        for name in ("parts", "of_items", "cells", "counts", "rated", "totals"):  # cached
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name]
        return made

    @property
    def judge(self) -> Index:
        assert self.tally.judge is not None  # only such tallies have effects of judges
        return self.tally.judge

    @property
    def n_predictors(self) -> int:
        return 2 + int(self.layout.ties) + int("slips" in self.layout.effects)

    @cached_property
    def rated(self) -> Array:
        """1 for rows whose difference of ratings is unknown, 0 where the right answer is known."""
        gold = self.tally.gold
        return np.ones(len(self.tally)) if gold is None else (gold == 0).astype(float)

    @cached_property
    def parts(self) -> list[tuple[int, int, Array]]:
        """Common parameters other than items: number, predictor and factor."""
        t, layout = self.tally, self.layout
        columns = range(layout.columns.start, layout.columns.stop)
        found: list[tuple[int, int, Array]] = []
        for k, x in zip(columns, t.x.T, strict=True):
            in_d = k >= layout.columns.stop - self.n_features
            found.append((k, 0, x * self.rated) if in_d else (k, 1, x))
        one = np.ones(len(t))
        if layout.ties:
            found.append((layout.tie.start, 2, one))
        if "slips" in layout.effects:
            found.append((layout.slip.start, self.n_predictors - 1, one))
        if t.gold is not None:
            found.append((layout.gold.start, 0, GOLD_SIGN[t.gold]))
        return found

    @cached_property
    def of_items(self) -> list[tuple[slice, int, float, Array]]:
        """Parameters of items: where, predictor, sign for the second item, and factor by row."""
        found = [(self.layout.items, 0, -1.0, self.rated)]
        if self.layout.n_item_ties:
            found.append((self.layout.item_ties, 2, 1.0, np.ones(len(self.tally))))
        return found

    @cached_property
    def cells(self) -> Index:
        """Where rows and their items are in an array of judges, kinds of effects, and `common`."""
        t, nc, kinds = self.tally, self.layout.common, range(len(self.layout.effects))
        columns = [part.start + i for part, *_ in self.of_items for i in (t.first, t.second)]
        at = nc * len(kinds) * self.judge
        return np.concatenate([at + nc * kind + column for kind in kinds for column in columns])

    @property
    def predictor_of(self) -> dict[str, int]:
        """The predictor that each effect of judges is part of."""
        number = {"slope": 1, "ties": 2, "place": 1, "slips": self.n_predictors - 1}
        return {kind: number[kind] for kind in self.layout.effects}

    def predictors(self, params: Array) -> Array:
        """The predictors, and below them the slopes and their deviations, by row."""
        t, q = self.tally, self.n_predictors
        found = np.zeros((q + 2, len(t)))
        found[0] = self.differences(params)
        for k, r, x in self.parts:
            if r:
                found[r] += params[k] * x
        for part, r, _, _ in self.of_items[1:]:
            found[r] += params[part][t.first] + params[part][t.second]
        found[q] = 1.0
        for kind, r in self.predictor_of.items():
            found[q if kind == "slope" else r] += params[self.layout.effects[kind]][self.judge]
        found[q + 1] = self.deviation[self.judge]
        return found

    def differences(self, params: Array) -> Array:
        """The differences d of ratings, by row."""
        t = self.tally
        found = self.rated * (params[t.first] - params[t.second])
        for k, r, x in self.parts:
            if not r:
                found += params[k] * x
        return np.asarray(found)

    def _signs(self) -> tuple[float, ...]:
        return (1.0, -1.0) if self.deviation.any() else (0.0,)

    def row_terms(self, predictors: Array) -> Terms:
        """Means of log-probabilities over the two slopes, and derivatives by the predictors."""
        d, c, *rest, slope, deviation = predictors
        signs = self._signs()
        log_p: Any = 0.0
        gradient = hessian = log_p
        for sign in signs:
            s = slope + sign * deviation
            terms = super().row_terms(np.stack((s * d + c, *rest[: int(self.layout.ties)])))
            if "slips" in self.layout.effects:
                terms = with_slips(terms, rest[-1])
            first, bend = terms.gradient[:, :1], terms.hessian[:, :1, :1]
            cross = terms.hessian[:, :1, 1:]
            log_p = log_p + terms.log_p / len(signs)
            gradient = gradient + np.concatenate((s * first, terms.gradient), axis=1) / len(signs)
            top = np.concatenate((s * s * bend, s * bend, s * cross), axis=2)
            low = np.concatenate((s * terms.hessian[:, :, :1], terms.hessian), axis=2)
            hessian = hessian + np.concatenate((top, low), axis=1) / len(signs)
        return Terms(log_p, gradient, hessian)

    def expansion(self, params: Array) -> tuple[float, Array, Array]:
        """As of `Likelihood`; sums over outcomes are written out for Davidson's model."""
        if self.link != "logit" or not self.layout.ties or "slips" in self.layout.effects:
            return super().expansion(params)
        predictors, counts, totals = self.predictors(params), self.counts, self.totals
        n, value = len(totals), 0.0
        g, h = np.empty((3, n)), np.empty((3, 3, n))
        for begin in range(0, n, STEP):
            rows = slice(begin, begin + STEP)
            given = predictors[:, rows], counts[:, rows], totals[rows]
            value += self._expand_davidson(*given, g[:, rows], h[..., rows])
        return value, g, h

    def _expand_davidson(
        self, predictors: Array, counts: Array, n: Array, g: Array, h: Array
    ) -> float:
        """The log-likelihood of some rows with n battles; writes their gradient and bends.

        With z = |eta| / 2, outcomes have probabilities in proportion to 1, exp(-2 z) and
        exp(tau - z).
        """
        d, c, tau, slope, deviation = predictors
        won, lost, tied = counts
        signs, half_d, half_c, tie = self._signs(), 0.5 * d, 0.5 * c, np.exp(tau)
        share, ahead = n / len(signs), 0.5 * (won - lost)
        gap, ties, log_total = np.zeros((3, len(n)))
        g[0], h[:] = 0.0, 0.0
        for sign in signs:
            s = slope + sign * deviation
            half = s * half_d + half_c
            z = abs(half)
            near = np.exp(-z)
            far, t = near * near, tie * near
            total = 1.0 + far + t
            z += np.log(total)
            log_total += z
            t /= total
            mean = np.copysign(1.0 - far, half) / total
            rest = 1.0 - t
            bend, cross = rest - mean * mean, mean * t
            sb = s * bend
            gap += mean
            g[0] += s * mean
            ties += t
            h[0, 0] += s * sb
            h[0, 1] += sb
            h[1, 1] += bend
            h[0, 2] += s * cross
            h[1, 2] += cross
            h[2, 2] += t * rest
        h[:2, :2] *= 0.25 * share
        h[:2, 2] *= -0.5 * share
        h[2, 2] *= share
        h[1, 0], h[2, 0], h[2, 1] = h[0, 1], h[0, 2], h[1, 2]
        share *= 0.5
        g[0] = ahead * slope - share * g[0]
        g[1] = ahead - share * gap
        g[2] = tied - 2.0 * share * ties
        value = tied @ tau + ahead @ (slope * d + c) - 2.0 * share @ log_total
        return float(value)

    @cached_property
    def totals(self) -> Array:
        """The number of battles of each row."""
        return np.asarray(self.counts.sum(axis=0))

    def probabilities(self, params: Array) -> Array:
        """Of the outcomes of each row, before judges with the most probable effects."""
        d, c, *rest, slope, _ = self.predictors(params)
        terms = super().row_terms(np.stack((slope * d + c, *rest[: int(self.layout.ties)])))
        if "slips" in self.layout.effects:
            terms = with_slips(terms, rest[-1])
        return np.exp(terms.log_p).T

    def factors(self, params: Array) -> dict[str, Array]:
        """The derivatives of predictors by the effects of judges."""
        one = np.ones(len(self.tally))
        d = self.differences(params) if "slope" in self.layout.effects else one
        return {kind: d if kind == "slope" else one for kind in self.layout.effects}

    def entries_at(self, params: Array) -> list[tuple[int, Index, Array]]:
        """The derivatives of the predictors by the parameters."""
        t, n = self.tally, len(self.tally)
        found = []
        for part, q, sign, x in self.of_items:
            found += [(q, part.start + t.first, x), (q, part.start + t.second, sign * x)]
        found += [(q, np.full(n, k), x) for k, q, x in self.parts]
        effects, number = self.layout.effects, self.predictor_of
        return found + [
            (number[kind], effects[kind].start + self.judge, factor)
            for kind, factor in self.factors(params).items()
        ]

    def gather(self, params: Array, g: Array) -> Array:
        """The gradient by parameters, from the gradient by the predictors of each row."""
        layout = self.layout
        found, factors = np.zeros(layout.size), self.factors(params)
        for part, q, sign, x in self.of_items:
            found[part] = self._by_item(x * g[q], sign)
        for k, q, x in self.parts:
            found[k] = x @ g[q]
        for kind, q in self.predictor_of.items():
            found[layout.effects[kind]] = np.bincount(
                self.judge, factors[kind] * g[q], self.n_judges
            )
        return found

    def _by_item(self, values: Array, sign: float) -> Array:
        """Sums of the values of rows by their first item, and with a sign by the second."""
        t, n = self.tally, self.layout.items.stop
        return np.bincount(t.first, values, n) + sign * np.bincount(t.second, values, n)

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, Any]:
        """As of `Likelihood`; dense if there is room for the common parameters."""
        return super().expand(params, dense=dense or self.layout.common <= DENSE)

    def gram(self, params: Array, g: Array, h: Array, *, dense: bool) -> Any:
        """Minus the second derivatives by the parameters: an `Arrow`, or a sparse matrix."""
        layout = self.layout
        if not dense:
            return self._sparse_gram(params, g, h)
        t, n, nc, n_judges = self.tally, layout.items.stop, layout.common, self.n_judges
        factors, of_items = self.factors(params), self.of_items
        pair = t.first * n + t.second
        C = np.zeros((nc, nc))
        for a, (part, q, sign, x) in enumerate(of_items):
            for across, r, turn, z in of_items[: a + 1]:
                w = h[q, r] * x * z
                met = np.bincount(pair, w, n * n).reshape(n, n)
                block = turn * met + sign * met.T + np.diag(self._by_item(w, sign * turn))
                C[part, across], C[across, part] = block, block.T
            for k, r, z in self.parts:
                C[part, k] = C[k, part] = self._by_item(h[q, r] * x * z, sign)
        for i, (k, q, x) in enumerate(self.parts):
            for m, r, z in self.parts[: i + 1]:
                C[k, m] = C[m, k] = (h[q, r] * x) @ z
        number, n_kinds = self.predictor_of, len(factors)
        B, sides = np.empty((n_judges, n_kinds, n_kinds)), []
        totals = np.empty((n_judges, n_kinds, len(self.parts)))
        for a, (kind, f) in enumerate(factors.items()):
            q = number[kind]
            for b, other in enumerate(list(factors)[: a + 1]):
                v = h[q, number[other]] * f * factors[other]
                B[:, a, b] = B[:, b, a] = np.bincount(self.judge, v, n_judges)
            # The slope times d: eta bends by both together.
            by = [h[q, 0] * f - (g[1] if kind == "slope" else 0.0), *(h[q, 1:] * f)]
            for _, r, sign, x in of_items:
                sides += [by[r] * x, sign * by[r] * x]
            for i, (_, r, x) in enumerate(self.parts):
                totals[:, a, i] = np.bincount(self.judge, by[r] * x, n_judges)
        columns = np.array([k for k, _, _ in self.parts], dtype=np.intp)
        values = np.concatenate(sides)
        if n_kinds * n_judges * nc <= CELLS:
            X: Any = np.bincount(self.cells, values, n_judges * n_kinds * nc)
            X = X.reshape(n_judges, n_kinds, nc)
            X[:, :, columns] = totals
        else:
            shape = n_judges * n_kinds, nc
            X = sp.coo_array((values, np.divmod(self.cells, nc)), shape=shape).tocsr()
            flat = totals.ravel(), np.tile(columns, shape[0])
            ends = len(columns) * np.arange(shape[0] + 1)
            X = X + sp.csr_array((*flat, ends), shape=shape)
        at = nc + np.arange(n_judges)[:, None] + n_judges * np.arange(n_kinds)
        return Arrow(C, [EqualBlocks(at, B, X)], exact=n_judges * n_kinds <= FEW_EFFECTS)

    def _sparse_gram(self, params: Array, g: Array, h: Array) -> Sparse:
        layout, t = self.layout, self.tally
        found = gram_of(self.entries_at(params), h, layout.size, dense=False)
        if "slope" not in layout.effects:
            return found
        row = layout.effects["slope"].start + self.judge
        parts = [(t.first, self.rated), (t.second, -self.rated)]
        parts += [(np.full(len(t), k), x) for k, q, x in self.parts if q == 0]
        for i, x in parts:
            cross = sp.coo_array((-g[1] * x, (row, i)), shape=found.shape).tocsr()
            found = found + cross + cross.T
        return found

    def curvature(self, matrix: Any, precision: Array, level: float) -> Any:
        """Of the matrix, with `precision` on its diagonal and `level` on all entries of items."""
        if is_sparse(matrix):
            return super().curvature(matrix, precision, level)
        return ArrowCurvature.of(matrix, precision, self.layout.items, level)


def plain_ratings(plain: Likelihood, fixed: dict[str, float], begin: Array | None = None) -> Array:
    """Roughly the parameters without effects of judges."""
    rough = dict.fromkeys(plain.layout.groups, 1.0) | fixed
    return maximize(plain.without_judges()[0], rough, begin, tolerance=5e-2).params


def agreeing(plain: Likelihood, n_judges: int) -> Likelihood:
    """Votes, turned around if their judges disagree with most right answers."""
    t = plain.tally
    if t.gold is None or t.judge is None:
        return plain
    agreed = GOLD_SIGN[t.gold] * (t.counts[:, 0] - t.counts[:, 1])
    turned = (np.bincount(t.judge, agreed, n_judges) < 0)[t.judge]
    counts = t.counts.copy()
    counts[turned, :2] = counts[turned, 1::-1]
    return plain.with_counts(counts)


def slope_scores(plain: Likelihood, n_judges: int, n_features: int, params: Array) -> Array:
    """The z value of the slope of each judge, below 0 if ratings matter less to that judge.

    At parameters without effects of judges. All battles rate the items, those of the judge as well,
    so that z is rather too close to 0.
    """
    judged = JudgedLikelihood.of(plain, n_judges, n_features, ["slope"])
    params = moved(params, plain.layout, judged.layout)
    _, g, h = judged.expansion(params)
    q, d = judged.predictor_of["slope"], judged.factors(params)["slope"]
    bend = np.bincount(judged.judge, h[q, q] * d * d, n_judges)
    gradient = judged.gather(params, g)[judged.layout.effects["slope"]]
    return np.asarray(gradient / np.sqrt(np.maximum(bend, 1e-300)))


def slip_scores(likelihood: Likelihood, n_judges: int, params: Array) -> tuple[float, float]:
    """Whether some verdicts are given at random: z values, of all and of the worst judge.

    The derivative of the log-likelihood by the share of slips, at 0, is the sum over battles of
    1 / (K P(outcome)) - 1. Both are relative to the values from which on slips are worth a trial.
    """
    p, counts = likelihood.probabilities(params), likelihood.counts
    judge = np.asarray(likelihood.tally.judge)
    u = 1.0 / (p.shape[1] * p.T) - 1.0
    total = np.bincount(judge, (counts * u).sum(axis=0), n_judges)
    square = np.maximum(np.bincount(judge, (counts * u * u).sum(axis=0), n_judges), 1e-300)
    every, worst = total.sum() / np.sqrt(square.sum()), (total / np.sqrt(square)).max()
    return float(every) / SLIPS_Z, float(worst) / JUDGE_Z


@dataclass(frozen=True, eq=False)
class Start:
    """Where the maximum is searched from: parameters of a layout, and logarithms of penalties.

    `deviation` has the standard deviations of slopes, and `mixing` the iterations so far with this
    layout.
    """

    params: Array
    layout: Layout
    log_penalties: dict[str, float]
    deviation: Array
    mixing: Mixing | None = None

    def into(self, layout: Layout) -> Array:
        """The parameters in another layout."""
        return moved(self.params, self.layout, layout)


def seen_effects(
    likelihood: JudgedLikelihood, start: Start, kinds: Sequence[str]
) -> tuple[dict[str, float], Start]:
    """What the likelihood around a start says of each of these kinds of effects, which are 0 there.

    With the gradient g and the curvature h of a judge's effect, all else fixed, the effect is
    g / (h + p), and a penalty p raises the logarithm of the evidence by the sum over judges of

        (g^2 / (h + p) + log(p / (h + p))) / 2.

    Returns the largest rise by a penalty for each kind, and a start with these penalties.
    """
    layout, number = likelihood.layout, likelihood.predictor_of
    params, deviation = start.into(layout), start.deviation
    _, g, h = likelihood.with_deviation(deviation).expansion(params)
    gradient, factors = likelihood.gather(params, g), likelihood.factors(params)
    gains, log = {}, dict(start.log_penalties)
    for kind in kinds:
        part, q, f = layout.effects[kind], number[kind], factors[kind]
        bend = np.bincount(likelihood.judge, h[q, q] * f * f, likelihood.n_judges)
        share = 1.0 / (1.0 + bend / PENALTIES[:, None])  # of the penalty in the curvature
        rise = gradient[part] ** 2 * share / PENALTIES[:, None] + np.log(share)
        total = 0.5 * rise.sum(axis=1)
        best = int(np.argmax(total))
        gains[kind], log[kind] = float(total[best]), float(np.log(PENALTIES[best]))
        params[part] = gradient[part] / (bend + PENALTIES[best])
        if kind == "slope":
            deviation = np.sqrt(1.0 / (bend + PENALTIES[best]))
            if _mostly_noise(likelihood, params, h):
                gains[kind] = np.inf
    return gains, Start(params, layout, log, deviation)


def _mostly_noise(likelihood: JudgedLikelihood, params: Array, h: Array) -> bool:
    """Whether ratings are hardly larger than their errors: then they say nothing of slopes.

    Adversaries can make them so.
    """
    t, items = likelihood.tally, likelihood.layout.items
    known = np.bincount(t.first, h[1, 1], items.stop) + np.bincount(t.second, h[1, 1], items.stop)
    return bool(np.square(params[items]).mean() < NOISE * (1.0 / (1.0 + known)).mean())


def first_guess(
    plain: Likelihood,
    n_judges: int,
    n_features: int,
    kinds: Sequence[str],
    fixed: dict[str, float],
    begin: Array | None,
) -> tuple[dict[str, float], Start]:
    """A start with these kinds of effects, and what each alone adds to the evidence.

    Where right answers are known, votes of judges who mostly disagree with them are turned around
    for the first ratings.
    """
    likelihood = JudgedLikelihood.of(plain, n_judges, n_features, kinds)
    if begin is None:  # soon found, and a good start
        begin = plain_ratings(agreeing(plain, n_judges), fixed)
    return seen_effects(likelihood, Start(begin, plain.layout, {}, likelihood.deviation), kinds)


def choose_effects(
    plain: Likelihood,
    n_judges: int,
    n_features: int,
    kinds: Sequence[str],
    fixed: dict[str, float],
    *,
    begin: Array | None = None,
    show: Show = unseen,
) -> tuple[list[str], Start]:
    """The kinds of effects that the evidence keeps, and a start.

    Kinds that add little alone are left out at first, and looked at again beside the others. Others
    are left out if they add little to the rest. If no judge disagrees with the ratings by more than
    chance, slopes must raise the evidence of the whole model. Slips are added if verdicts are more
    surprising than chance allows, and the evidence of the normal approximation grows.
    """

    def with_effects(wanted: Sequence[str]) -> JudgedLikelihood:
        return JudgedLikelihood.of(plain, n_judges, n_features, wanted)

    def evidence_of(some: Sequence[str]) -> float:
        if some:
            return log_evidence(*_joint(with_effects(some), fixed, start, show, ROUGH)[:2])
        alone, _ = plain.without_judges()
        return log_evidence(alone, by_evidence(alone, fixed, start.into(alone.layout), show=show))

    tried, in_doubt = [kind for kind in kinds if kind != "slips"], False
    gold = plain.tally.gold is not None
    if not gold and plain.layout.size <= DENSE:  # the evidence needs a matrix
        begin = plain_ratings(plain, fixed, begin)
        in_doubt = slope_scores(plain, n_judges, n_features, begin).min() >= -SLOPE_Z
    gains, start = first_guess(plain, n_judges, n_features, tried, fixed, begin)
    wanted = [kind for kind in tried if gains[kind] >= SEEN]
    likelihood, left_out = with_effects(wanted), [kind for kind in tried if kind not in wanted]
    while wanted:
        likelihood, mode, start = _joint(with_effects(wanted), fixed, start, show, ROUGH)
        gains = evidence_gains(likelihood, mode)
        if in_doubt and "slope" in wanted:
            # With few battles, ratings that follow some judges fit well by chance.
            rest = [kind for kind in wanted if kind != "slope"]
            gains["slope"] = log_evidence(likelihood, mode) - evidence_of(rest)
        worst = min(gains, key=gains.__getitem__)
        if gains[worst] < KEPT:
            wanted = [kind for kind in wanted if kind != worst]
            likelihood = with_effects(wanted)
            continue
        if not left_out:
            break
        gains, again = seen_effects(with_effects([*wanted, *left_out]), start, left_out)
        more = [kind for kind in left_out if gains[kind] >= KEPT]
        if not more:
            break
        left_out, start = [kind for kind in left_out if kind not in more], again
        wanted = [*wanted, *more]
    if "slips" not in kinds or plain.layout.size > DENSE:  # slips need the evidence, so a matrix
        return wanted, start
    if gold and not wanted:  # right answers would be part of one of the models only
        return wanted, start
    if max(slip_scores(likelihood, n_judges, start.into(likelihood.layout))) > 1.0:
        known = log_evidence(likelihood, mode) if wanted else evidence_of([])
        trial, other, found = _joint(with_effects([*wanted, "slips"]), fixed, start, show, ROUGH)
        if log_evidence(trial, other) > known + KEPT:
            return [*wanted, "slips"], found
    return wanted, start


def by_evidence_of_judges(
    plain: Likelihood,
    n_judges: int,
    n_features: int,
    kinds: Sequence[str],
    fixed: dict[str, float],
    start: Start,
    show: Show = unseen,
) -> tuple[Likelihood, Mode]:
    """The maximum with effects of these kinds, and with the penalties of the evidence."""
    likelihood = JudgedLikelihood.of(plain, n_judges, n_features, kinds)
    likelihood, _, end = _joint(likelihood, fixed, start, show, FINE)
    penalties = fixed | {name: float(np.exp(value)) for name, value in end.log_penalties.items()}
    likelihood = likelihood.with_deviation(end.deviation)
    at = Expansion.of(likelihood, end.params, DENSE)
    mean, precision = likelihood.layout.priors(penalties)
    for _ in range(2):
        gradient = at.gradient - precision * (at.params - mean)
        curvature, step, damped = newton_step(likelihood, at, precision, gradient)
        if damped or abs(step).max() > NEAR:
            break
        if abs(step).max() < CLOSE:
            at = replace(at, params=at.params + step)
            return likelihood, Mode(at, penalties, precision, curvature, True)
        at = Expansion.of(likelihood, at.params + step, DENSE)
    return likelihood, maximize(likelihood, penalties, at)


def _joint(
    likelihood: JudgedLikelihood,
    fixed: dict[str, float],
    start: Start,
    show: Show,
    tolerance: float,
) -> tuple[JudgedLikelihood, Mode, Start]:
    """The maximum with the penalties of the evidence, and with deviations of slopes; and its end.

    A Newton step, a step of the penalties and new deviations are one iteration, which is
    accelerated, until no number moves by more than the tolerance.
    """
    layout, slopes = likelihood.layout, likelihood.layout.effects.get("slope", slice(0, 0))
    groups, names = layout.groups, [name for name in layout.groups if name not in fixed]
    log = np.array([start.log_penalties.get(name, 0.0) for name in names])
    deviation = start.deviation[: slopes.stop - slopes.start]
    state = np.concatenate((start.into(layout), log, np.log(np.maximum(deviation, LEAST))))
    ends, last, before = np.cumsum([layout.size, len(names)]), -np.inf, state
    mixing = start.mixing if start.layout == layout else None
    mixing = mixing or Mixing.of(np.split(state, ends))
    length, direction = 1.0, np.zeros(layout.size)
    for tried in range(MAX_STEPS):
        show(tried)
        params, log, deviation = np.split(state, ends)
        likelihood = likelihood.with_deviation(np.exp(deviation))
        at = Expansion.of(likelihood, params, DENSE)
        if not at.value > last - 0.1 * abs(last) - 10.0:  # also where it is not a number
            state, mixing = 0.5 * (state + before), Mixing(mixing.weight)
            continue
        last, before = at.value, state
        penalties = fixed | dict(zip(names, np.exp(log).tolist(), strict=True))
        mean, precision = layout.priors(penalties)
        gradient = at.gradient - precision * (params - mean)
        curvature, step, damped = newton_step(likelihood, at, precision, gradient)
        size, turned = float(abs(step).max()), float(step @ direction) < 0
        length = max(0.5 * length, 0.05) if turned and size > NEAR else min(1.2 * length, 1.0)
        params, direction = params + step * min(length, LONGEST / max(size, LONGEST)), step
        mode = Mode(replace(at, params=params), penalties, precision, curvature, False)
        traces = _traces(layout, curvature, names)
        excess = [
            evidence_excess(params[groups[name]], penalties[name], traces[name], name)
            for name in names
        ]
        log = np.clip(log + np.clip(excess, -2.0, 2.0), *BOUNDS)
        more = np.zeros(layout.size)
        if max(map(abs, excess), default=0.0) < NEAR:
            # Parameters and deviations of slopes follow the change of the penalties.
            for name, value in zip(names, log.tolist(), strict=True):
                more[groups[name]] = np.exp(value) - penalties[name]
        params = params - curvature.solve(more * (params - mean))
        if len(deviation):
            variance = own_variances(layout, curvature)["slope"]
            deviation = -0.5 * np.log(1.0 / variance + more[slopes])
        reached = np.concatenate((params, log, deviation))
        change = float(abs(reached - state).max())
        state = mixing.next(state, reached)
        if tried > 1 and change < tolerance and not damped:
            break
    params, log, deviation = np.split(state, ends)
    deviation = np.exp(deviation) if len(deviation) else 0.0 * start.deviation
    found = dict(zip(names, log.tolist(), strict=True))
    return likelihood, mode, Start(params, layout, found, deviation, mixing)


@dataclass
class Mixing:
    """Anderson's acceleration of a fixed-point iteration, with weights of the squared errors."""

    weight: Array
    inputs: list[Array] = field(default_factory=list)
    outputs: list[Array] = field(default_factory=list)
    change: float = np.inf

    @classmethod
    def of(cls, parts: list[Array]) -> Mixing:
        """Of a state in parts that count the same."""
        return cls(np.concatenate([np.full(len(part), 1.0 / max(len(part), 1)) for part in parts]))

    def next(self, given: Array, found: Array) -> Array:
        """Where to go on, once the iteration has found a state from a given one."""
        change = float(abs(found - given).max())
        if change > NEAR or change > 2.0 * self.change:
            self.inputs, self.outputs = [], []
        self.change = change
        self.inputs, self.outputs = [*self.inputs, given][-MIXED:], [*self.outputs, found][-MIXED:]
        errors = np.array(self.outputs) - np.array(self.inputs)
        if len(errors) == 1:
            return found
        root = np.sqrt(self.weight)
        share = np.linalg.lstsq((np.diff(errors, axis=0) * root).T, errors[-1] * root)[0]
        beyond = -share @ np.diff(self.outputs, axis=0)
        most = min(FARTHEST * change, NEAR)
        return found + beyond * min(1.0, most / max(float(abs(beyond).max()), 1e-300))


def own_variances(layout: Layout, curvature: Any) -> dict[str, Array]:
    """Of the effects of judges, by kind, given all common parameters.

    Without a matrix, given all other parameters.
    """
    if curvature.common is None:
        variance = 1.0 / (curvature.matrix.diagonal() + curvature.precision)
    else:
        variance = curvature.own_variances()
    return {kind: variance[part] for kind, part in layout.effects.items()}


def _traces(layout: Layout, curvature: Any, names: Iterable[str]) -> dict[str, float]:
    """The sums of variances; without a matrix, given all other parameters."""
    parts = {name: layout.groups[name] for name in names}
    if curvature.common is not None:
        return dict(curvature.traces(parts))
    variance = 1.0 / (curvature.matrix.diagonal() + curvature.precision)
    return {name: float(variance[part].sum()) for name, part in parts.items()}


def averaged(likelihood: JudgedLikelihood, mode: Mode) -> Mode:
    """The mode, moved to the maximum of the log-likelihood averaged over the effects of judges.

    At the most probable effects, ratings are too close to each other if judges have few votes. The
    effects u of a judge have a normal posterior, with the root R of its covariance. The average is
    over the points ``u + sqrt(k) R_a`` and ``u - sqrt(k) R_a`` for the k columns of R. One Newton
    step, so that an error of second order is left.
    """
    params, effects, curvature = mode.params, likelihood.layout.effects, mode.curvature
    alone, k = replace(likelihood, deviation=0.0 * likelihood.deviation), len(effects)
    root = _roots(likelihood.layout, curvature)
    mean, precision = likelihood.layout.priors(mode.penalties)
    gradient = precision * (mean - params)  # minus that of the log-likelihood, at the maximum
    for a in range(k):
        for sign in (1.0, -1.0):
            point = params.copy()
            for b, part in enumerate(effects.values()):
                point[part] += sign * np.sqrt(k) * root[:, b, a]
            gradient += alone.gather(point, alone.expansion(point)[1]) / (2 * k)
    step = curvature.solve(gradient)
    return replace(mode, at=replace(mode.at, params=params + step))


def _roots(layout: Layout, curvature: Any) -> Array:
    """R with R R' the covariance of the effects of each judge, given all common parameters.

    Without a matrix, given all other parameters.
    """
    if curvature.common is not None:
        (inverse,) = curvature.inverses
        return np.asarray(np.linalg.cholesky(inverse[:, ::-1, ::-1])[:, ::-1, ::-1])
    deviations = np.sqrt(np.stack(list(own_variances(layout, curvature).values()), axis=1))
    return np.asarray(deviations[:, :, None] * np.eye(deviations.shape[1]))


def evidence_gains(likelihood: Likelihood, mode: Mode) -> dict[str, float]:
    """By how much each kind of effect raises the logarithm of the evidence.

    For an effect u of a judge with the posterior variance V, given all common parameters, and the
    penalty p, the normal approximation raises it by (u^2 / V + log(p V)) / 2.
    """
    found = {}
    for kind, V in own_variances(likelihood.layout, mode.curvature).items():
        u, penalty = mode.params[likelihood.layout.effects[kind]], mode.penalties[kind]
        found[kind] = 0.5 * float((u * u / V + np.log(penalty * V)).sum())
    return found


def moved(params: Array, old: Layout, new: Layout) -> Array:
    """Parameters in another layout; new ones start from their means."""
    found = new.start()
    for name in ("items", "columns", "tie", "slip", "gold"):
        part, before = getattr(new, name), getattr(old, name)
        # Only the first column, the first place, may be missing in one of them.
        same = min(part.stop - part.start, before.stop - before.start)
        found[part.stop - same : part.stop] = params[before.stop - same : before.stop]
    for kind in new.effects.keys() & old.effects.keys():
        found[new.effects[kind]] = params[old.effects[kind]]
    return found


def _judge_covariance(layout: Layout, curvature: ArrowCurvature, V: Array) -> Array:
    """Of the values of each judge, with the covariance V of common parameters.

    Of shape (n_judges, n_kinds, n_kinds).
    """
    (at,), (inverse,) = curvature.at, curvature.inverses
    shared = np.zeros((at.shape[1], len(V)))
    for a, part in enumerate(_common_values(layout)):
        shared[a, part] = 1.0
    found, step = inverse.copy(), max(CELLS // (at.shape[1] * len(V)), 1)
    for begin in range(0, len(at), step):
        some = at[begin : begin + step]
        T = curvature.follow[some.ravel()]
        T = (T.toarray() if is_sparse(T) else T).reshape(*some.shape, -1) + shared
        found[begin : begin + step] += (T @ V) @ np.swapaxes(T, 1, 2)
    return found


def _common_values(layout: Layout) -> list[slice]:
    """Where the value is that each kind of effect is added to; slopes have none."""
    begin = layout.columns.start  # the first place is the first column
    where = {"ties": layout.tie, "place": slice(begin, begin + 1), "slips": layout.slip}
    return [where.get(kind, slice(0, 0)) for kind in layout.effects]


@dataclass(frozen=True, eq=False)
class Panel:
    """The fitted judges: normal distributions of the values of each, in the order of `KINDS`.

    A value is the sum of a common value and an effect. `mean` has the effects, of shape
    (n_judges, 4), and `covariance` is of the values, of shape (n_judges, 4, 4); both are 0 for
    effects that do not vary. `share` is the share of battles of each judge.
    """

    mean: Array
    covariance: Array
    share: Array

    @classmethod
    def none(cls) -> Panel:
        """No judges."""
        return cls(np.zeros((0, 4)), np.zeros((0, 4, 4)), np.zeros(0))

    @classmethod
    def of(cls, likelihood: Likelihood, n: int, mode: Mode, V: Array | None, draws: Array) -> Panel:
        """Of n judges: from the maximum, and the covariance V of common parameters or draws."""
        effects, judge = likelihood.layout.effects, likelihood.tally.judge
        mean, covariance = np.zeros((n, len(KINDS))), np.zeros((n, len(KINDS), len(KINDS)))
        where = np.array([KINDS.index(kind) for kind in effects], dtype=np.intp)
        curvature: Any = mode.curvature
        if effects:
            mean[:, where] = np.stack([mode.params[part] for part in effects.values()], axis=1)
            if V is not None:
                found = _judge_covariance(likelihood.layout, curvature, V)
            else:
                drawn = np.stack([draws[:, part] for part in effects.values()])
                for a, part in enumerate(_common_values(likelihood.layout)):
                    drawn[a] += draws[:, part].sum(axis=1, keepdims=True)
                found = np.einsum("adj,bdj->jab", drawn, drawn, dtype=float) / len(draws)
            covariance[np.ix_(np.arange(n), where, where)] = found
        if judge is None:  # judges do not differ
            return cls(mean, covariance, np.full(n, 1.0 / max(n, 1)))
        total = np.bincount(judge, likelihood.counts.sum(axis=0), n)
        return cls(mean, covariance, total / total.sum())

    @property
    def slope(self) -> float:
        """The mean slope, by which ratings are multiplied; 1 if it is small or does not vary."""
        mean = 1.0 + float(self.mean[:, 0].mean()) if len(self.mean) else 1.0
        return mean if mean > LEAST_SLOPE else 1.0

    def relative(self) -> Panel:
        """The same with slopes relative to the mean slope."""
        mean, covariance = self.mean.copy(), self.covariance.copy()
        mean[:, 0] = (1.0 + mean[:, 0]) / self.slope - 1.0
        covariance[:, 0] /= self.slope
        covariance[:, :, 0] /= self.slope
        return Panel(mean, covariance, self.share)

    def of_the_mean(
        self,
        likelihood: Any,
        mode: Mode,
        V: Array | None,
        draws: Array,
        rng: np.random.Generator,
    ) -> tuple[Array, Array | None, Array]:
        """Parameters, covariance and draws, with ratings for a judge of mean slope.

        Slopes and ratings are determined up to a common factor, apart from their priors. Ratings
        for the mean slope have a scale that the battles determine.
        """
        part, params = likelihood.layout.effects.get("slope"), mode.params.copy()
        if part is None or self.slope == 1.0:
            return params, V, draws
        columns, n_features = likelihood.layout.columns, likelihood.n_features
        rated = np.zeros(likelihood.layout.common, dtype=bool)
        rated[likelihood.layout.items] = True
        rated[columns.stop - n_features : columns.stop] = True
        at = np.where(rated, params[: len(rated)], 0.0)
        if V is None:  # draws are of slopes, too
            change = draws[:, part].mean(axis=1, keepdims=True)
            factor = np.ones(draws.shape[1], dtype=draws.dtype)
            factor[: len(rated)][rated] = self.slope
            draws = draws * factor
            draws[:, : len(rated)] += (change * at).astype(draws.dtype)
        else:
            curvature: Any = mode.curvature
            n = part.stop - part.start
            follow = np.asarray(curvature.follow[part].sum(axis=0)).ravel() / n
            own = float(curvature.own_variances()[part].sum()) / n**2
            J = np.diag(np.where(rated, self.slope, 1.0)) + at[:, None] * follow
            V = J @ V @ J.T + own * at[:, None] * at
            noise = np.sqrt(own) * rng.standard_normal((len(draws), 1))
            draws = draws @ J.T + noise * at
        params[: len(rated)][rated] *= self.slope
        return params, V, draws

    def probabilities(
        self, judge: Index, difference: Array, shift: Array, tie: Any, slip: Array, link: str
    ) -> Array:
        """Of outcomes before judges with these numbers, of shape (n_battles, n_outcomes).

        Means over two values of the slope of a judge, a standard error above and below, as in the
        likelihood. A number of -1 stands for all judges, each as often as it judges. `tie` has the
        logarithm of the tie parameter of each battle, None without a model of ties, and `slip` the
        common parameter, if there is one.
        """
        out = np.empty((len(judge), 2 if tie is None else 3))
        states = [self.mean + sign * self._slope_errors for sign in (1.0, -1.0)]
        known, other = np.flatnonzero(judge >= 0), np.flatnonzero(judge < 0)
        own = [(0.5, state[judge[known]]) for state in states]
        if len(self.share) <= MOST_JUDGES:
            chosen, weight = np.arange(len(self.share)), self.share
        else:  # evenly, along the cumulative share
            ends, n = np.cumsum(self.share), MOST_JUDGES
            chosen = np.searchsorted(ends, (np.arange(n) + 0.5) / n * ends[-1])
            weight = np.full(n, 1.0 / n)
        everybody = [
            (0.5 * w, state[[k]]) for state in states for k, w in zip(chosen, weight, strict=True)
        ]
        for rows, drawn in ((known, own), (other, everybody if len(other) else [])):
            total: Any = np.zeros((out.shape[1], len(rows)))
            for weight_of, effect in drawn:
                slope, rate, place, slips = effect.T
                eta = (1.0 + slope) * difference[rows] + shift[rows] + place
                tau = (0.0 if tie is None else tie[rows]) + rate + np.zeros_like(eta)
                p = np.exp(MODELS[link, tie is not None](eta, tau).log_p)
                if len(slip):
                    share = expit(slip + slips)
                    p = (1.0 - share) * p + share / len(p)
                total += weight_of * p
            out[rows] = total.T
        return out

    @property
    def _slope_errors(self) -> Array:
        """Standard errors of slopes, in the place of slopes among the effects."""
        found = np.zeros_like(self.mean)
        found[:, 0] = np.sqrt(np.maximum(self.covariance[:, 0, 0], 0.0))
        return found

    def table(
        self, quantile: float, place: float, tie: Array, slip: Array
    ) -> dict[str, tuple[str, Array, Array, Array]]:
        """By kind of effect: its name, the values of judges, and the ends of their intervals."""
        common = np.array([1.0, tie[0] if len(tie) else -np.inf, place, -np.inf])
        common[3] = slip[0] if len(slip) else -np.inf
        shown = {"slope": "slope", "ties": "ties", "place": "first place", "slips": "slips"}
        back = {"ties": np.exp, "slips": expit}
        half = quantile * np.sqrt(np.maximum(np.einsum("jaa->ja", self.covariance), 0.0))
        found = {}
        for k, kind in enumerate(KINDS):
            middle = common[k] + self.mean[:, k]
            three = (middle, middle - half[:, k], middle + half[:, k])
            values, low, high = (np.asarray(back.get(kind, np.asarray)(each)) for each in three)
            found[kind] = shown[kind], values, low, high
        return found


def remarks(table: dict[str, tuple[str, Array, Array, Array]], z: Array) -> list[str]:
    """Who is an adversary, and who is careless, by the intervals of slopes and slips.

    With few battles, a slope near 0 can fit well by chance, with a narrow interval. So the slope of
    a careless judge must also be low by its z value.
    """
    _, _, _, slope = table["slope"]
    _, _, slips, _ = table["slips"]
    careless = (slope < CARELESS_SLOPE) & (z < -SLOPE_Z) | (slips > CARELESS_SLIPS)
    return np.where(slope < 0, "adversary", np.where(careless, "careless", "")).tolist()


def check_kinds(judges: Any) -> None:
    """Refuse what is not "evidence" or some of the kinds of effects."""
    several = isinstance(judges, list | tuple) and all(kind in KINDS for kind in judges)
    if judges != "evidence" and not several:
        raise ParameterError(
            f'judges must be "evidence" or a list of {", ".join(KINDS)}: got {judges!r}.'
        )
