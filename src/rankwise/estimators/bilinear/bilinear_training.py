"""From the parameters of the bilinear ranker to W: trials of λ, the fit, the refit."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.errors import RankwiseWarning
from rankwise.estimators.bilinear.bilinear_parameters import learner_for
from rankwise.estimators.bilinear.fit_checkpoint import FitCheckpoint
from rankwise.solvers.bilinear.bilinear_sgd import BilinearSGD, SGDSettings, SGDState
from rankwise.solvers.bilinear.density_search import DensitySearch
from rankwise.solvers.bilinear.lazy_steps import CSR
from rankwise.solvers.bilinear.learning_curve import (
    LearningCurve,
    LearningProgress,
    TripletRows,
    learn,
)
from rankwise.solvers.bilinear.triplet_sampling import TripletSampler

FIT, REFIT = "fit", "refit"


@dataclass(frozen=True)
class FitPlan:
    """How to fit.

    Attributes
    ----------
    settings : SGDSettings
        With the λ to use, or to try first if there is a `target_density`.
    structure : str
    n_steps : int
    target_density : float or None
    refit : bool
    record_every, pause_every : int
    verbose : bool
    """

    settings: SGDSettings
    structure: str
    n_steps: int
    target_density: float | None
    refit: bool
    record_every: int
    pause_every: int
    verbose: bool


@dataclass
class BilinearFit:
    """W, and the records of the run."""

    W: sp.csr_array
    lam: float
    curve: LearningCurve
    refit_curve: LearningCurve | None


@dataclass
class _Position:
    """How far a fit has come: everything but the state of the learner."""

    stage: str = FIT
    lams: list[float] = field(default_factory=list)
    densities: list[float] = field(default_factory=list)
    lam: float = 0.0
    curve: LearningCurve = field(default_factory=LearningCurve)
    refit_curve: LearningCurve = field(default_factory=LearningCurve)

    def note(self) -> dict[str, Any]:
        return {**vars(self), "curve": vars(self.curve), "refit_curve": vars(self.refit_curve)}

    @classmethod
    def of(cls, note: dict[str, Any]) -> _Position:
        names = cls.__dataclass_fields__
        curves = {name: LearningCurve(**note[name]) for name in ("curve", "refit_curve")}
        return cls(**{**{name: note[name] for name in names}, **curves})


def fit_weights(
    plan: FitPlan,
    Q: CSR,
    D: CSR,
    held_out: TripletRows | None,
    start: sp.csr_array,
    sampler_for: Callable[[int], TripletSampler],
    seed: int,
    checkpoint: FitCheckpoint | None = None,
) -> BilinearFit:
    """Fit, as often as the density search needs, and refit; resumes from a checkpoint.

    Parameters
    ----------
    plan : FitPlan
    Q, D : CSR
        Rows, in the column order of the solver.
    held_out : TripletRows or None
    start : CSR array
        W before the first step.
    sampler_for : callable
        Makes the sampler for a seed.
    seed : int
        Of the sampler; a checkpoint brings its own.
    checkpoint : FitCheckpoint, optional

    Returns
    -------
    BilinearFit
    """
    position, learner = _Position(lam=plan.settings.lam), None
    saved = checkpoint.load() if checkpoint else None
    if saved:
        note, arrays = saved
        position, seed = _Position.of(note), int(note["seed"])
        learner = _learner(plan, sp.csr_array(start.shape), position)
        learner.restore(SGDState(**arrays))
    sampler = sampler_for(seed)

    def run(learner: BilinearSGD, curve: LearningCurve, words: str) -> None:
        with _bar(plan, words) as show:
            for _ in learn(
                learner, Q, D, sampler, plan.n_steps, curve,
                record_every=plan.record_every, pause_every=plan.pause_every,
                held_out=held_out, show=show,
            ):  # fmt: skip
                if checkpoint:
                    checkpoint.save({**position.note(), "seed": seed}, vars(learner.state()))

    if position.stage == FIT:
        learner = _fit(plan, start, position, learner, run)
        if not plan.refit:
            return BilinearFit(learner.weights(), position.lam, position.curve, None)
        position.stage = REFIT
        W = learner.weights()
        del learner  # two of them would be twice the memory
        learner = _learner(plan, W, position)
        del W
    assert learner is not None
    run(learner, position.refit_curve, "refit")
    return BilinearFit(learner.weights(), position.lam, position.curve, position.refit_curve)


def _fit(
    plan: FitPlan,
    start: sp.csr_array,
    position: _Position,
    learner: BilinearSGD | None,
    run: Callable[[BilinearSGD, LearningCurve, str], None],
) -> BilinearSGD:
    """Algorithm 1, repeated until the density is right if one is wanted."""
    if plan.target_density is None:
        learner = learner or _learner(plan, start, position)
        run(learner, position.curve, "fit")
        return learner
    entry = 1.0 / max(math.prod(start.shape), 1)
    search = DensitySearch(plan.target_density, position.lams, position.densities, entry)
    while True:
        given_up = search.exhausted()
        if learner is None:
            position.lam = search.nearest() if given_up else search.next(plan.settings.lam)
            position.curve = LearningCurve()
            learner = _learner(plan, start, position)
        run(learner, position.curve, f"alpha {position.lam:.2g}")
        if not given_up:
            position.lams.append(position.lam)
            position.densities.append(position.curve.density[-1])
        if search.found():
            return learner
        if search.exhausted() and position.lam == search.nearest():
            warnings.warn(_nearest_only(search, plan, position), RankwiseWarning, stacklevel=5)
            return learner
        learner = None


def _nearest_only(search: DensitySearch, plan: FitPlan, position: _Position) -> str:
    if max(search.densities) < search.target:
        advice = "W has no more entries than that: use more steps, or a lower target_density."
    elif plan.settings.shrink_every > 1:
        advice = "The density jumps there: use a smaller shrink_every."
    else:
        advice = "The density jumps there: use another target_density."
    return (
        f"No alpha gave the density {search.target:g}: the nearest of {len(search.lams)} fits has "
        f"{position.curve.density[-1]:.3g}, with alpha={position.lam:.6g}, which is used. {advice}"
    )


def _learner(plan: FitPlan, W: sp.csr_array, position: _Position) -> BilinearSGD:
    if position.stage == REFIT:
        return BilinearSGD(W, replace(plan.settings, lam=0.0), frozen=True)
    return learner_for(plan.structure, W, replace(plan.settings, lam=position.lam))


@contextmanager
def _bar(plan: FitPlan, words: str) -> Iterator[Callable[[LearningProgress], None] | None]:
    """A line on stderr with loss, density and speed."""
    if not plan.verbose:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (  # no more than 80 characters together
        TextColumn("{task.description}", markup=False),
        BarColumn(10),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task(words, total=plan.n_steps, words="")

        def show(now: LearningProgress) -> None:
            text = (
                f"loss {now.loss:.3f}, density {now.density:.1%}, "
                f"{now.steps_per_second:,.0f} steps/s"
            )
            bar.update(task, completed=now.step, words=text, refresh=True)

        yield show


@dataclass(frozen=True)
class FrequencyOrder:
    """Columns of documents by decreasing frequency.

    What a step reads then lies close together in memory, where steps spend most of their time.

    Attributes
    ----------
    order : ndarray of shape (n_features,)
        The original number of each new column.
    """

    order: NDArray[np.int32]

    @classmethod
    def of(cls, D: sp.csr_array) -> FrequencyOrder:
        """The order for some documents."""
        counts = np.bincount(D.indices, minlength=D.shape[1])
        return cls(np.argsort(-counts, kind="stable").astype(np.int32))

    def apply(self, X: sp.csr_array) -> sp.csr_array:
        """The same rows with reordered columns."""
        return _with_columns(X, np.argsort(self.order).astype(np.int32))

    def undo(self, W: sp.csr_array) -> sp.csr_array:
        """The same rows with the original columns."""
        return _with_columns(W, self.order)


def _with_columns(X: sp.csr_array, numbers: NDArray[np.int32]) -> sp.csr_array:
    moved = sp.csr_array((X.data.copy(), numbers[X.indices], X.indptr), shape=X.shape)
    moved.sort_indices()
    return moved
