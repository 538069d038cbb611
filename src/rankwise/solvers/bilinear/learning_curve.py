"""Learning over many steps, with records of loss, density and held-out error on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.solvers.bilinear.bilinear_sgd import BilinearSGD
from rankwise.solvers.bilinear.lazy_steps import CSR, Ints
from rankwise.solvers.bilinear.triplet_sampling import BLOCK, TripletSampler, triplets_between


@dataclass
class LearningCurve:
    """Records of a run.

    Attributes
    ----------
    step : list of int
    loss : list of float
        Mean hinge loss of the steps since the previous record.
    density : list of float
        Share of the entries of W that are not 0.
    error : list of float
        Share of held-out triplets in the wrong order, ties counting half; NaN without any.
    """

    step: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    density: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)

    def arrays(self) -> dict[str, Array]:
        """The records as arrays, by name."""
        return {name: np.array(values, dtype=np.float64) for name, values in vars(self).items()}


@dataclass(frozen=True)
class TripletRows:
    """Queries, documents, and triplets of their rows."""

    Q: CSR
    D: CSR
    triplets: Ints

    def error(self, learner: BilinearSGD) -> float:
        """Share of triplets in the wrong order, as in section IV.A; ties count half."""
        return share_in_wrong_order(learner.margins(self.Q, self.D, self.triplets))


def share_in_wrong_order(margins: Array) -> float:
    """Share of margins below 0; those that are 0 count half."""
    return float(np.mean(margins < 0.0) + 0.5 * np.mean(margins == 0.0))


@dataclass(frozen=True)
class LearningProgress:
    """Where a run stands."""

    step: int
    loss: float
    density: float
    steps_per_second: float


def learn(
    learner: BilinearSGD,
    Q: CSR,
    D: CSR,
    sampler: TripletSampler,
    n_steps: int,
    curve: LearningCurve,
    *,
    record_every: int,
    pause_every: int,
    held_out: TripletRows | None = None,
    show: Callable[[LearningProgress], None] | None = None,
) -> Iterator[int]:
    """Learn up to step `n_steps`; yield every `pause_every` steps and at the end.

    The result does not depend on where a run is paused, recorded, or resumed: both intervals are
    rounded up to whole batches of the learner.
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
        learner.advance(Q, D, triplets_between(sampler, t, stop))
        seconds = time.perf_counter() - begin
        if stop % record_every == 0 or stop == n_steps:
            since = stop - (curve.step[-1] if curve.step else 0)
            curve.step.append(stop)
            curve.loss.append(float(learner.totals[0]) / max(since, 1))
            learner.totals[:] = 0.0
            curve.density.append(learner.count() / size)
            curve.error.append(held_out.error(learner) if held_out else float("nan"))
            if show:
                speed = (stop - t) / max(seconds, 1e-9)
                show(LearningProgress(stop, curve.loss[-1], curve.density[-1], speed))
        if stop % pause_every == 0 or stop == n_steps:
            yield stop
