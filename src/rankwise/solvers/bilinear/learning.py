"""Learning over many steps, with records on the way, and the search for a wanted density."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.bilinear.bilinear_sgd import BilinearSGD
from rankwise.solvers.bilinear.step_arrays import CSR, Ints
from rankwise.solvers.bilinear.triplet_sampling import BLOCK, TripletSampler

MAX_TRIALS = 20
PATIENCE = 5
"""The search ends after so many trials in a row with densities that were seen before."""
TOLERANCE = 0.05
"""The density may be this much lower than the target, relative to it."""

Curve = dict[str, list[float]]
"""Records of a run: step, mean hinge loss since the previous record, density of W, and error."""


def new_curve() -> Curve:
    """A curve without records."""
    return {"step": [], "loss": [], "density": [], "error": []}


def share_in_wrong_order(margins: Array) -> float:
    """Share of margins below 0; those that are 0 count half."""
    return float(np.mean(margins < 0.0) + 0.5 * np.mean(margins == 0.0))


def has_stalled(errors: list[float], patience: int | None) -> bool:
    """Whether the lowest error is `patience` records old; never if that is None."""
    if patience is None or not errors:
        return False
    return len(errors) - 1 - int(np.argmin(errors)) >= patience


def learn(
    learner: BilinearSGD,
    Q: CSR,
    D: CSR,
    sampler: TripletSampler,
    n_steps: int,
    curve: Curve,
    *,
    record_every: int,
    pause_every: int,
    held_out: tuple[CSR, CSR, Ints] | None = None,
    patience: int | None = None,
    show: Callable[[int, str], None] | None = None,
) -> Iterator[int]:
    """Learn up to step `n_steps`; yield every `pause_every` steps and at the end.

    The result does not depend on where a run is paused, recorded, or resumed: both intervals are
    rounded up to whole batches of the learner. With `patience`, learning ends when the error on
    held-out triplets has not decreased for that many records. `show` is called with the step and a
    few words after each record.
    """
    size = math.prod(learner.shape)
    record_every, pause_every = (
        -(-every // learner.batch) * learner.batch for every in (record_every, pause_every)
    )
    while learner.step < n_steps and not has_stalled(curve["error"], patience):
        t = learner.step
        stops = [(t // every + 1) * every for every in (BLOCK, record_every, pause_every)]
        stop = min(*stops, n_steps)
        begin = time.perf_counter()
        learner.advance(Q, D, sampler.between(t, stop))
        seconds = time.perf_counter() - begin
        if stop % record_every == 0 or stop == n_steps:
            since = stop - (curve["step"][-1] if curve["step"] else 0)
            error = math.nan
            if held_out is not None:
                error = share_in_wrong_order(learner.margins(*held_out))
            loss, density = float(learner.totals[0]) / max(since, 1), learner.count() / size
            for name, value in zip(curve, (stop, loss, density, error), strict=True):
                curve[name].append(value)
            learner.totals[:] = 0.0
            if show:
                speed = (stop - t) / max(seconds, 1e-9)
                show(stop, f"loss {loss:.3f}, density {density:.1%}, {speed:,.0f} steps/s")
        if stop % pause_every == 0 or stop == n_steps or has_stalled(curve["error"], patience):
            yield stop


@dataclass
class DensitySearch:
    """Finds the λ at which W has a wanted density, from the densities of earlier trials.

    Density falls with λ: log density is interpolated in log λ between the two nearest trials
    on either side, and extended beyond them.

    Parameters
    ----------
    target : float
    lams, densities : list of float
        Trials so far.
    entry : float
        Density of a single entry: a small W cannot come closer than this.
    """

    target: float
    lams: list[float] = field(default_factory=list)
    densities: list[float] = field(default_factory=list)
    entry: float = 0.0

    def found(self) -> bool:
        """Whether the last trial reached the target."""
        if not self.densities:
            return False
        slack = max(TOLERANCE * self.target, self.entry)
        return self.target - slack <= self.densities[-1] <= self.target

    def exhausted(self) -> bool:
        """Whether further trials are pointless."""
        before, last = self.densities[:-PATIENCE], self.densities[-PATIENCE:]
        repeated = bool(before) and set(last) <= set(before)
        return len(self.lams) >= MAX_TRIALS or repeated or self._saturated()

    def _saturated(self) -> bool:
        """Whether a much lower λ gave hardly more entries, all trials being too sparse."""
        trials = sorted(zip(self.lams, self.densities, strict=True))
        if len(trials) < 2 or max(self.densities) >= self.target:
            return False
        (low, most), (high, fewer) = trials[:2]
        return high >= 5.0 * low and most <= (1 + TOLERANCE) * fewer

    def nearest(self) -> float:
        """The λ whose density came closest."""
        k = min(range(len(self.lams)), key=lambda k: abs(self.densities[k] - self.target))
        return self.lams[k]

    def next(self, first: float) -> float:
        """The λ to try next; `first` before the first trial."""
        if not self.lams:
            return first
        slack = min(max(TOLERANCE, self.entry / self.target), 1.0)
        aim = math.log(self.target * (1 - slack / 2))
        trials = sorted(zip(self.lams, self.densities, strict=True))
        x = [math.log(lam) for lam, _ in trials]
        y = [math.log(max(density, 1e-12)) for _, density in trials]
        above = [k for k in range(len(y)) if y[k] > aim]
        below = [k for k in range(len(y)) if y[k] <= aim]
        if above and below:
            a, b = max(above), min(below)
            if a > b:  # not monotone: take the middle
                return math.exp((x[a] + x[b]) / 2)
            share = (y[a] - aim) / max(y[a] - y[b], 1e-12)
            return math.exp(x[a] + min(max(share, 0.05), 0.95) * (x[b] - x[a]))
        # All on one side: the step grows with the distance, as density is roughly 1 / λ.
        end = x[-1] if above else x[0]
        gap = (y[-1] if above else y[0]) - aim
        moved = len(self.densities) < 2 or self.densities[-1] != self.densities[-2]
        least = 0.2 if moved and (above or len(self.lams) < 2) else math.log(10.0)
        return math.exp(end + math.copysign(min(max(abs(gap), least), math.log(30.0)), gap))
