"""The λ at which W has a wanted density."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

MAX_TRIALS = 20
PATIENCE = 5
"""The search ends after so many trials in a row with densities that were seen before."""
TOLERANCE = 0.05
"""The density may be this much lower than the target, relative to it."""


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
        return len(self.lams) >= MAX_TRIALS or (bool(before) and set(last) <= set(before))

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
        least = 0.2 if moved else math.log(10.0)
        return math.exp(end + math.copysign(min(max(abs(gap), least), math.log(30.0)), gap))
