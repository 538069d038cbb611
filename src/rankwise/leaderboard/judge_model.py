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
    Entry,
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
        gold = plain.tally.gold is not None
        layout = plain.layout.with_parts(n_judges=n_judges, kinds=kinds, gold=gold)
        return cls(plain.tally, layout, plain.link, n_judges, n_features, np.zeros(n_judges))

    def with_deviation(self, deviation: Array) -> JudgedLikelihood:
        """The same with these standard deviations of slopes, 0 without slopes."""
        if "slope" not in self.layout.effects:
            return self
        made = replace(self, deviation=deviation)
        for name in ("entries", "cells", "counts", "totals"):  # cached
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
    def entries(self) -> list[Entry]:
        """Predictors as sums over entries, of the common parameters."""
        t, layout, one = self.tally, self.layout, np.ones(len(self.tally))
        # Where the right answer is known, the difference of ratings is not.
        rated = one if t.gold is None else (t.gold == 0).astype(float)
        found: list[Entry] = [(0, t.first, rated), (0, t.second, -rated)]
        for k, x in enumerate(t.x.T, layout.columns.start):
            in_d = k >= layout.columns.stop - self.n_features
            found.append((0, k, x * rated) if in_d else (1, k, x))
        if layout.ties:
            found.append((2, layout.tie.start, one))
        if layout.n_item_ties:
            found += [(2, layout.item_ties.start + item, one) for item in (t.first, t.second)]
        if "slips" in layout.effects:
            found.append((self.n_predictors - 1, layout.slip.start, one))
        if t.gold is not None:
            found.append((0, layout.gold.start, GOLD_SIGN[t.gold]))
        return found

    @cached_property
    def cells(self) -> Index:
        """Where rows and entries are in an array of judges, kinds of effects, and `common`."""
        nc, kinds = self.layout.common, range(len(self.layout.effects))
        at = nc * len(kinds) * self.judge
        return np.concatenate([at + nc * kind + i for kind in kinds for _, i, _ in self.entries])

    @property
    def predictor_of(self) -> dict[str, int]:
        """The predictor that each effect of judges is part of."""
        number = {"slope": 1, "ties": 2, "place": 1, "slips": self.n_predictors - 1}
        return {kind: number[kind] for kind in self.layout.effects}

    def predictors(self, params: Array) -> Array:
        """The predictors, and below them the slopes and their deviations, by row."""
        q = self.n_predictors
        found = np.zeros((q + 2, len(self.tally)))
        for r, i, x in self.entries:
            found[r] += x * params[i]
        found[q] = 1.0
        for kind, r in self.predictor_of.items():
            found[q if kind == "slope" else r] += params[self.layout.effects[kind]][self.judge]
        found[q + 1] = self.deviation[self.judge]
        return found

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
        found = dict.fromkeys(self.layout.effects, np.ones(len(self.tally)))
        if "slope" in found:
            found["slope"] = sum((x * params[i] for q, i, x in self.entries if not q), np.zeros(1))
        return found

    def entries_at(self, params: Array) -> list[Entry]:
        """The derivatives of the predictors by the parameters."""
        effects, number = self.layout.effects, self.predictor_of
        return self.entries + [
            (number[kind], effects[kind].start + self.judge, factor)
            for kind, factor in self.factors(params).items()
        ]

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, Any]:
        """As of `Likelihood`; dense if there is room for the common parameters."""
        return super().expand(params, dense=dense or self.layout.common <= DENSE)

    def gram(self, params: Array, g: Array, h: Array, *, dense: bool) -> Any:
        """Minus the second derivatives by the parameters: an `Arrow`, or a sparse matrix."""
        if not dense:
            return self._sparse_gram(params, g, h)
        nc, n_judges, factors = self.layout.common, self.n_judges, self.factors(params)
        number, n_kinds = self.predictor_of, len(factors)
        B, sides = np.empty((n_judges, n_kinds, n_kinds)), []
        for a, (kind, f) in enumerate(factors.items()):
            q = number[kind]
            for b, other in enumerate(list(factors)[: a + 1]):
                v = h[q, number[other]] * f * factors[other]
                B[:, a, b] = B[:, b, a] = np.bincount(self.judge, v, n_judges)
            # The slope times d: eta bends by both together.
            by = [h[q, 0] * f - (g[1] if kind == "slope" else 0.0), *(h[q, 1:] * f)]
            sides += [by[r] * x for r, _, x in self.entries]
        values, shape = np.concatenate(sides), (n_judges * n_kinds, nc)
        if shape[0] * nc <= CELLS:
            X: Any = np.bincount(self.cells, values, shape[0] * nc).reshape(n_judges, n_kinds, nc)
        else:
            X = sp.coo_array((values, np.divmod(self.cells, nc)), shape=shape).tocsr()
        at = nc + np.arange(n_judges)[:, None] + n_judges * np.arange(n_kinds)
        C = gram_of(self.entries, h, nc, dense=True)
        return Arrow(C, [EqualBlocks(at, B, X)], exact=shape[0] <= FEW_EFFECTS)

    def _sparse_gram(self, params: Array, g: Array, h: Array) -> Sparse:
        found = gram_of(self.entries_at(params), h, self.layout.size, dense=False)
        if "slope" in self.layout.effects:
            row = self.layout.effects["slope"].start + self.judge
            for q, i, x in self.entries:
                if q == 0:
                    at = row, np.broadcast_to(i, row.shape)
                    cross = sp.coo_array((-g[1] * x, at), shape=found.shape).tocsr()
                    found = found + cross + cross.T
        return found


def slip_scores(likelihood: JudgedLikelihood, params: Array) -> tuple[float, float]:
    """Whether some verdicts are given at random: z values, of all and of the worst judge.

    The derivative of the log-likelihood by the share of slips, at 0, is the sum over battles of
    1 / (K P(outcome)) - 1. Both are relative to the values from which on slips are worth a trial.
    """
    p, counts = likelihood.probabilities(params), likelihood.counts
    judge, n_judges = likelihood.judge, likelihood.n_judges
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


@dataclass(frozen=True, eq=False)
class Votes:
    """Battles before judges: their likelihood without effects, and the penalties that are given.

    The last `n_features` columns are part of ratings. `show` gets the number of steps.
    """

    plain: Likelihood
    n_judges: int
    n_features: int
    fixed: dict[str, float]
    show: Show = unseen

    def likelihood(self, kinds: Sequence[str]) -> JudgedLikelihood:
        """With these kinds of effects."""
        return JudgedLikelihood.of(self.plain, self.n_judges, self.n_features, kinds)

    def ratings(self, begin: Array | None = None) -> Array:
        """Roughly the parameters without effects of judges."""
        rough = dict.fromkeys(self.plain.layout.groups, 1.0) | self.fixed
        return maximize(self.plain.without_judges()[0], rough, begin, tolerance=5e-2).params

    def agreeing(self) -> Votes:
        """Votes, turned around if their judges disagree with most right answers."""
        t = self.plain.tally
        if t.gold is None or t.judge is None:
            return self
        agreed = GOLD_SIGN[t.gold] * (t.counts[:, 0] - t.counts[:, 1])
        turned = (np.bincount(t.judge, agreed, self.n_judges) < 0)[t.judge]
        counts = t.counts.copy()
        counts[turned, :2] = counts[turned, 1::-1]
        return replace(self, plain=self.plain.with_counts(counts))

    def slope_scores(self, params: Array) -> Array:
        """The z value of the slope of each judge, below 0 if ratings matter less to that judge.

        At parameters without effects of judges. All battles rate the items, those of the judge as
        well, so that z is rather too close to 0.
        """
        judged = self.likelihood(["slope"])
        params = moved(params, self.plain.layout, judged.layout)
        _, g, h = judged.expansion(params)
        q, d = judged.predictor_of["slope"], judged.factors(params)["slope"]
        bend = np.bincount(judged.judge, h[q, q] * d * d, self.n_judges)
        gradient = judged.gather(params, g)[judged.layout.effects["slope"]]
        return np.asarray(gradient / np.sqrt(np.maximum(bend, 1e-300)))

    def first_guess(
        self, kinds: Sequence[str], begin: Array | None
    ) -> tuple[dict[str, float], Start]:
        """A start with these kinds of effects, and what each alone adds to the evidence.

        Where right answers are known, votes of judges who mostly disagree with them are turned
        around for the first ratings.
        """
        likelihood = self.likelihood(kinds)
        if begin is None:  # soon found, and a good start
            begin = self.agreeing().ratings()
        start = Start(begin, self.plain.layout, {}, likelihood.deviation)
        return seen_effects(likelihood, start, kinds)

    def choose(self, kinds: Sequence[str], begin: Array | None = None) -> tuple[list[str], Start]:
        """The kinds of effects that the evidence keeps, and a start.

        Kinds that add little alone are left out at first, and looked at again beside the others.
        Others are left out if they add little to the rest. If no judge disagrees with the ratings
        by more than chance, slopes must raise the evidence of the whole model. Slips are added if
        verdicts are more surprising than chance allows, and the evidence of the normal
        approximation grows.
        """
        plain = self.plain
        tried, in_doubt = [kind for kind in kinds if kind != "slips"], False
        gold = plain.tally.gold is not None
        if not gold and plain.layout.size <= DENSE:  # the evidence needs a matrix
            begin = self.ratings(begin)
            in_doubt = self.slope_scores(begin).min() >= -SLOPE_Z
        gains, start = self.first_guess(tried, begin)
        wanted = [kind for kind in tried if gains[kind] >= SEEN]
        likelihood, left_out = self.likelihood(wanted), [k for k in tried if k not in wanted]
        while wanted:
            likelihood, mode, start = self._joint(wanted, start)
            gains = evidence_gains(likelihood, mode)
            if in_doubt and "slope" in wanted:
                # With few battles, ratings that follow some judges fit well by chance.
                rest = [kind for kind in wanted if kind != "slope"]
                gains["slope"] = log_evidence(likelihood, mode) - self._evidence(rest, start)
            worst = min(gains, key=gains.__getitem__)
            if gains[worst] < KEPT:
                wanted = [kind for kind in wanted if kind != worst]
                likelihood = self.likelihood(wanted)
                continue
            if not left_out:
                break
            gains, again = seen_effects(self.likelihood([*wanted, *left_out]), start, left_out)
            more = [kind for kind in left_out if gains[kind] >= KEPT]
            if not more:
                break
            left_out, start = [kind for kind in left_out if kind not in more], again
            wanted = [*wanted, *more]
        if "slips" not in kinds or plain.layout.size > DENSE:  # slips need the evidence
            return wanted, start
        if gold and not wanted:  # right answers would be part of one of the models only
            return wanted, start
        if max(slip_scores(likelihood, start.into(likelihood.layout))) > 1.0:
            known = log_evidence(likelihood, mode) if wanted else self._evidence([], start)
            trial, other, found = self._joint([*wanted, "slips"], start)
            if log_evidence(trial, other) > known + KEPT:
                return [*wanted, "slips"], found
        return wanted, start

    def _joint(
        self, kinds: Sequence[str], start: Start, tolerance: float = ROUGH
    ) -> tuple[JudgedLikelihood, Mode, Start]:
        return joint(self.likelihood(kinds), self.fixed, start, self.show, tolerance)

    def _evidence(self, kinds: Sequence[str], start: Start) -> float:
        if kinds:
            return log_evidence(*self._joint(kinds, start)[:2])
        alone, _ = self.plain.without_judges()
        mode = by_evidence(alone, self.fixed, start.into(alone.layout), show=self.show)
        return log_evidence(alone, mode)

    def maximum(self, kinds: Sequence[str], start: Start) -> tuple[JudgedLikelihood, Mode]:
        """The maximum with effects of these kinds, and with the penalties of the evidence."""
        likelihood, _, end = self._joint(kinds, start, FINE)
        penalties = dict(self.fixed)
        penalties |= {name: float(np.exp(value)) for name, value in end.log_penalties.items()}
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


def joint(
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
    variance = curvature.own_variances()
    return {kind: variance[part] for kind, part in layout.effects.items()}


def _traces(layout: Layout, curvature: Any, names: Iterable[str]) -> dict[str, float]:
    """The sums of variances; without a matrix, given all other parameters."""
    parts = {name: layout.groups[name] for name in names}
    if curvature.common is not None:
        return dict(curvature.traces(parts))
    variance = curvature.own_variances()
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
    def of(cls, likelihood: Any, n: int, mode: Any, V: Array | None, draws: Array) -> Panel:
        """Of n judges: from the maximum, and the covariance V of common parameters or draws."""
        effects, curvature = likelihood.layout.effects, mode.curvature
        mean, covariance = np.zeros((n, len(KINDS))), np.zeros((n, len(KINDS), len(KINDS)))
        if not effects:  # judges do not differ
            return cls(mean, covariance, np.full(n, 1.0 / max(n, 1)))
        where = np.array([KINDS.index(kind) for kind in effects], dtype=np.intp)
        mean[:, where] = np.stack([mode.params[part] for part in effects.values()], axis=1)
        if V is not None:
            found = _judge_covariance(likelihood.layout, curvature, V)
        else:
            drawn = np.stack([draws[:, part] for part in effects.values()])
            for a, part in enumerate(_common_values(likelihood.layout)):
                drawn[a] += draws[:, part].sum(axis=1, keepdims=True)
            found = np.einsum("adj,bdj->jab", drawn, drawn, dtype=float) / len(draws)
        covariance[np.ix_(np.arange(n), where, where)] = found
        total = np.bincount(likelihood.judge, likelihood.counts.sum(axis=0), n)
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
    ) -> tuple[Array, tuple[Array | None, Array]]:
        """Parameters, and covariance and draws, with ratings for a judge of mean slope.

        Slopes and ratings are determined up to a common factor, apart from their priors. Ratings
        for the mean slope have a scale that the battles determine.
        """
        part, params = likelihood.layout.effects.get("slope"), mode.params.copy()
        if part is None or self.slope == 1.0:
            return params, (V, draws)
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
            curvature = mode.curvature
            n = part.stop - part.start
            follow = np.asarray(curvature.follow[part].sum(axis=0)).ravel() / n
            own = float(curvature.own_variances()[part].sum()) / n**2
            J = np.diag(np.where(rated, self.slope, 1.0)) + at[:, None] * follow
            V = J @ V @ J.T + own * at[:, None] * at
            noise = np.sqrt(own) * rng.standard_normal((len(draws), 1))
            draws = draws @ J.T + noise * at
        params[: len(rated)][rated] *= self.slope
        return params, (V, draws)

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
