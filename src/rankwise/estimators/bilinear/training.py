"""From the parameters of the bilinear ranker to W: trials of λ, the run, the refit."""

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

from rankwise.errors import RankwiseWarning
from rankwise.estimators.bilinear.checkpoint import Checkpoint
from rankwise.solvers.bilinear.draws import Draws
from rankwise.solvers.bilinear.layout import Sparse
from rankwise.solvers.bilinear.learner import Learner, Settings
from rankwise.solvers.bilinear.run import Curve, DensitySearch, HeldOut, Progress, follow

FIT, REFIT = "fit", "refit"


@dataclass(frozen=True)
class Problem:
    """Rows, in the columns that the solver works with."""

    Q: Sparse
    D: Sparse
    held_out: HeldOut | None


@dataclass(frozen=True)
class Course:
    """How a fit goes.

    Attributes
    ----------
    settings : Settings
        With the λ to use, or to try first where `target_density` is given.
    structure : str
    n_steps : int
    target_density : float or None
    refit : bool
    record_every, pause_every : int
    verbose : bool
    """

    settings: Settings
    structure: str
    n_steps: int
    target_density: float | None
    refit: bool
    record_every: int
    pause_every: int
    verbose: bool


@dataclass
class Outcome:
    """W, and how it came about."""

    W: sp.csr_array
    lam: float
    curve: Curve
    refit_curve: Curve | None


@dataclass
class _Place:
    """Where a fit is: all of it that is not in the learner."""

    stage: str = FIT
    lams: list[float] = field(default_factory=list)
    densities: list[float] = field(default_factory=list)
    lam: float = 0.0
    curve: Curve = field(default_factory=Curve)
    refit_curve: Curve = field(default_factory=Curve)

    def note(self) -> dict[str, Any]:
        return {**vars(self), "curve": vars(self.curve), "refit_curve": vars(self.refit_curve)}

    @classmethod
    def of(cls, note: dict[str, Any]) -> _Place:
        names = cls.__dataclass_fields__
        curves = {name: Curve(**note[name]) for name in ("curve", "refit_curve")}
        return cls(**{**{name: note[name] for name in names}, **curves})


def find_weights(
    course: Course,
    problem: Problem,
    start: sp.csr_array,
    draw: Callable[[int], Draws],
    seed: int,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Fit, as often as the search for a density needs, and refit; from a checkpoint if there is.

    Parameters
    ----------
    course : Course
    problem : Problem
    start : CSR array
        W before the first step.
    draw : callable
        Makes the draws for a seed.
    seed : int
        Of the draws, where there is no checkpoint that knows its own.
    checkpoint : Checkpoint, optional

    Returns
    -------
    Outcome
    """
    place, learner = _Place(lam=course.settings.lam), None
    saved = checkpoint.load() if checkpoint else None
    if saved:
        note, arrays = saved
        place, seed = _Place.of(note), int(note["seed"])
        learner = _learner(course, sp.csr_array(start.shape), place)
        learner.restore(arrays)
    draws = draw(seed)

    def run(learner: Learner, curve: Curve, words: str) -> None:
        with _bar(course, words) as tell:
            for _ in follow(
                learner, problem.Q, problem.D, draws, course.n_steps, curve,
                record_every=course.record_every, pause_every=course.pause_every,
                held_out=problem.held_out, tell=tell,
            ):  # fmt: skip
                if checkpoint:
                    checkpoint.save({**place.note(), "seed": seed}, learner.state())

    if place.stage == FIT:
        learner = _fit(course, start, place, learner, run)
        if not course.refit:
            return Outcome(learner.weights(), place.lam, place.curve, None)
        place.stage = REFIT
        W = learner.weights()
        del learner  # two of them would be twice the memory
        learner = _learner(course, W, place)
        del W
    assert learner is not None
    run(learner, place.refit_curve, "refit")
    return Outcome(learner.weights(), place.lam, place.curve, place.refit_curve)


def _fit(
    course: Course,
    start: sp.csr_array,
    place: _Place,
    learner: Learner | None,
    run: Callable[[Learner, Curve, str], None],
) -> Learner:
    """Algorithm 1, repeated until the density is right where one is wanted."""
    if course.target_density is None:
        learner = learner or _learner(course, start, place)
        run(learner, place.curve, "fit")
        return learner
    entry = 1.0 / max(math.prod(start.shape), 1)
    search = DensitySearch(course.target_density, place.lams, place.densities, entry)
    while True:
        given_up = search.exhausted()
        if learner is None:
            place.lam = search.nearest() if given_up else search.next(course.settings.lam)
            place.curve = Curve()
            learner = _learner(course, start, place)
        run(learner, place.curve, f"alpha {place.lam:.2g}")
        if not given_up:
            place.lams.append(place.lam)
            place.densities.append(place.curve.density[-1])
        if search.found():
            return learner
        if search.exhausted() and place.lam == search.nearest():
            warnings.warn(_nearest_only(search, course, place), RankwiseWarning, stacklevel=5)
            return learner
        learner = None


def _nearest_only(search: DensitySearch, course: Course, place: _Place) -> str:
    if max(search.densities) < search.target:
        advice = "No more entries than that are reached: use more steps, or ask for less."
    elif course.settings.shrink_every > 1:
        advice = "Density jumps there: use a smaller shrink_every."
    else:
        advice = "Density jumps there: ask for another one."
    return (
        f"No alpha was found whose density is {search.target:g}: the nearest in {len(search.lams)} "
        f"fits is {place.curve.density[-1]:.3g}, of alpha={place.lam:.6g}, which is used. {advice}"
    )


def _learner(course: Course, W: sp.csr_array, place: _Place) -> Learner:
    if place.stage == REFIT:
        return Learner(W, replace(course.settings, lam=0.0), frozen=True)
    return Learner(
        W,
        replace(course.settings, lam=place.lam),
        dense=course.structure == "dense",
        frozen=course.structure == "diagonal",
    )


@contextmanager
def _bar(course: Course, words: str) -> Iterator[Callable[[Progress], None] | None]:
    """A line on stderr with loss, density and speed."""
    if not course.verbose:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (  # no more than 80 characters together
        TextColumn("{task.description}", markup=False),
        BarColumn(10),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[words]}", markup=False),
    )
    with Bar(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task(words, total=course.n_steps, words="")

        def tell(now: Progress) -> None:
            text = (
                f"loss {now.loss:.3f}, density {now.density:.1%}, "
                f"{now.steps_per_second:,.0f} steps/s"
            )
            bar.update(task, completed=now.step, words=text, refresh=True)

        yield tell


def first_lam(eta0: float, schedule: str, n_steps: int) -> float:
    """A λ to begin a search with: the sum of all shrinkage is about 1."""
    if schedule == "constant":
        return 1.0 / (eta0 * n_steps)
    return 1.0 / (2.0 * eta0 * np.sqrt(n_steps))
