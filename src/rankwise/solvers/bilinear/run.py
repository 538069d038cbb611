"""A run over many steps: recorded, interrupted, gone on with; and the λ for a wanted density."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.bilinear.draws import BLOCK, Draws, between
from rankwise.solvers.bilinear.layout import Ints, Sparse
from rankwise.solvers.bilinear.learner import Learner

MAX_TRIALS = 20
PATIENCE = 5
"""Trials in a row that bring no density that was not seen before, until the search ends."""
TOLERANCE = 0.05
"""Relative; the density that is found may be this much less than what was asked for."""


@dataclass
class Curve:
    """What was seen on the way, one entry for each record.

    Attributes
    ----------
    step : list of int
    loss : list of float
        Mean hinge loss of the steps since the record before.
    density : list of float
        Share of the entries of W that are not 0.
    error : list of float
        Share of held-out triplets that are in the wrong order; NaN without any.
    """

    step: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    density: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)

    def arrays(self) -> dict[str, Array]:
        return {name: np.array(values, dtype=np.float64) for name, values in vars(self).items()}


@dataclass(frozen=True)
class HeldOut:
    """Triplets that the learner does not learn from."""

    Q: Sparse
    D: Sparse
    triplets: Ints

    def error(self, learner: Learner) -> float:
        """Share of triplets with q'Wd+ <= q'Wd-, as in section IV.A."""
        return float(np.mean(learner.margins(self.Q, self.D, self.triplets) <= 0.0))


@dataclass(frozen=True)
class Progress:
    """Where a run is."""

    step: int
    n_steps: int
    loss: float
    density: float
    steps_per_second: float


def follow(
    learner: Learner,
    Q: Sparse,
    D: Sparse,
    draws: Draws,
    n_steps: int,
    curve: Curve,
    *,
    record_every: int,
    pause_every: int,
    held_out: HeldOut | None = None,
    tell: Callable[[Progress], None] | None = None,
) -> Iterator[int]:
    """Learn up to step `n_steps`, and hand over every `pause_every` steps, and at the end.

    What comes out does not depend on where a run is paused, recorded, or begun anew: both
    intervals are rounded up to whole batches of the learner.
    """
    size = math.prod(learner.shape)
    record_every, pause_every = (
        -(-every // learner.batch) * learner.batch for every in (record_every, pause_every)
    )
    while learner.step < n_steps:
        t = learner.step
        stops = [(t // every + 1) * every for every in (BLOCK, record_every, pause_every)]
        stop = min(*stops, n_steps)
        begin = time.perf_counter()
        learner.advance(Q, D, between(draws, t, stop))
        seconds = time.perf_counter() - begin
        if stop % record_every == 0 or stop == n_steps:
            since = stop - (curve.step[-1] if curve.step else 0)
            curve.step.append(stop)
            curve.loss.append(float(learner.totals[0]) / max(since, 1))
            learner.totals[:] = 0.0
            curve.density.append(learner.count() / size)
            curve.error.append(held_out.error(learner) if held_out else float("nan"))
            if tell:
                speed = (stop - t) / max(seconds, 1e-9)
                tell(Progress(stop, n_steps, curve.loss[-1], curve.density[-1], speed))
        if stop % pause_every == 0 or stop == n_steps:
            yield stop


@dataclass
class DensitySearch:
    """The λ at which W has a wanted density, from the densities at the λ that were tried.

    Density falls with λ: log density is interpolated in log λ between the two nearest trials
    on either side, and extended beyond them.

    Parameters
    ----------
    target : float
    lams, densities : list of float
        Trials so far.
    entry : float
        Density of a single entry: a small W cannot come closer than that.
    """

    target: float
    lams: list[float] = field(default_factory=list)
    densities: list[float] = field(default_factory=list)
    entry: float = 0.0

    def found(self) -> bool:
        """Whether the last trial is it."""
        if not self.densities:
            return False
        slack = max(TOLERANCE * self.target, self.entry)
        return self.target - slack <= self.densities[-1] <= self.target

    def exhausted(self) -> bool:
        """Whether further trials are of no use."""
        before, last = self.densities[:-PATIENCE], self.densities[-PATIENCE:]
        return len(self.lams) >= MAX_TRIALS or (bool(before) and set(last) <= set(before))

    def nearest(self) -> float:
        """The λ whose density came closest."""
        k = min(range(len(self.lams)), key=lambda k: abs(self.densities[k] - self.target))
        return self.lams[k]

    def next(self, first: float) -> float:
        """The λ to try next; `first` where there is no trial yet."""
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
            if a > b:  # not monotone: trust the middle
                return math.exp((x[a] + x[b]) / 2)
            share = (y[a] - aim) / max(y[a] - y[b], 1e-12)
            return math.exp(x[a] + min(max(share, 0.05), 0.95) * (x[b] - x[a]))
        # All on one side: a step that grows with the distance, as densities go like 1 / λ or so.
        end = x[-1] if above else x[0]
        gap = (y[-1] if above else y[0]) - aim
        moved = len(self.densities) < 2 or self.densities[-1] != self.densities[-2]
        least = 0.2 if moved else math.log(10.0)
        return math.exp(end + math.copysign(min(max(abs(gap), least), math.log(30.0)), gap))
