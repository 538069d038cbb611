"""From the parameters of the bilinear ranker to W: trials of λ, the fit, the refit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.errors import ModelFileError, warn
from rankwise.estimators.bilinear.bilinear_parameters import (
    first_lam,
    given_lam,
    learner_for,
    number,
    prior_of,
    steps_of,
)
from rankwise.estimators.bilinear.fit_checkpoint import FitCheckpoint
from rankwise.estimators.bilinear.step_choice import (
    StepChoice,
    Trials,
    new_trials,
    split_queries,
)
from rankwise.progress import progress_bar
from rankwise.solvers.bilinear.bilinear_sgd import BilinearSGD
from rankwise.solvers.bilinear.learning import Curve, DensitySearch, learn, new_curve
from rankwise.solvers.bilinear.step_arrays import CSR, Ints
from rankwise.solvers.bilinear.triplet_sampling import TripletSampler, TripletsInOrder

FIT, REFIT = "fit", "refit"
CURVE_POINTS = 20


@dataclass
class TrainingRecord:
    """How far a fit has come: everything but the state of the learner."""

    eta0: float = 0.0
    lam: float = 0.0
    n_steps: int = 0
    trials: Trials = field(default_factory=new_trials)
    seed: int = 0
    stage: str = FIT
    lams: list[float] = field(default_factory=list)
    densities: list[float] = field(default_factory=list)
    curve: Curve = field(default_factory=new_curve)
    refit_curve: Curve = field(default_factory=new_curve)

    @classmethod
    def of(cls, note: dict[str, Any]) -> TrainingRecord:
        """The record in the note of a checkpoint, checked."""
        for name, known in vars(cls()).items():
            if not _is_like(note.get(name), known):
                raise ModelFileError(
                    f"The checkpoint is damaged: {name} is missing, or has impossible values. "
                    "Delete it to start again."
                )
        return cls(**{name: note[name] for name in vars(cls())})


def _is_like(value: Any, known: Any) -> bool:
    """Whether a value of a checkpoint is of the kind of a known one."""
    if isinstance(known, dict):
        return (
            isinstance(value, dict)
            and list(value) == list(known)
            and all(_is_like(value[name], known[name]) for name in known)
            and len({len(numbers) for numbers in value.values()}) == 1
        )
    if isinstance(known, list):
        return isinstance(value, list) and all(type(entry) in (int, float) for entry in value)
    if isinstance(known, str):
        return value in (FIT, REFIT)
    if isinstance(known, int):
        return type(value) is int and value >= 0
    return type(value) in (int, float) and 0 <= value < math.inf


@dataclass
class BilinearTraining:
    """A choice of rate and λ, a fit, repeated as often as the density search needs, and a refit.

    Attributes
    ----------
    ranker : SparseBilinearRanker
        With valid parameters.
    Q, D : CSR
    held_out : tuple (Q, D, triplets) or None
    start : CSR array
        W before the first step.
    sampler_for : callable
        Makes the sampler for a seed.
    n_steps : int
    shared : bool
        Whether queries are documents as well.
    triplets : ndarray of shape (n, 3) or None
        All of them; None: they are drawn from classes or grades.
    record : TrainingRecord
        With the seed of the sampler; a checkpoint brings its own.
    checkpoint : FitCheckpoint or None
        Where to save, and to resume from.
    checkpoint_every : int
    """

    ranker: Any
    Q: CSR
    D: CSR
    held_out: tuple[CSR, CSR, Ints] | None
    start: sp.csr_array
    sampler_for: Callable[[int], TripletSampler]
    n_steps: int
    shared: bool
    triplets: Ints | None
    record: TrainingRecord
    checkpoint: FitCheckpoint | None = None
    checkpoint_every: int = 25_000
    sampler: TripletSampler = field(init=False)

    def run(self) -> sp.csr_array:
        """W; `record` has the rate, λ, the number of steps and the curves."""
        learner = self._resumed()
        self.sampler = self.sampler_for(self.record.seed)
        stops_on_split = self.ranker.early_stopping and self.held_out is None
        if not self._chosen() and not stops_on_split:
            return self._run(learner)
        n_queries, seed = len(self.Q.indptr) - 1, self.record.seed
        split = split_queries(
            self.sampler, n_queries, self.shared, self.triplets, seed,
            chooses=self._chosen(), stops=stops_on_split,
        )  # fmt: skip
        self.sampler = split.training
        if isinstance(split.training, TripletsInOrder):
            self.n_steps = len(split.training.triplets)
        if stops_on_split:
            self.held_out = self.Q, self.D, split.held_out
        if not self._chosen():
            return self._run(learner)
        choice = StepChoice(
            self.Q, self.D, split, self._from_start, self.n_steps, self.record.trials
        )
        if learner is None:
            chosen = choice.choose(
                self.ranker.schedule,
                number(self.ranker.eta0),
                0.0 if self.ranker.target_density is not None else given_lam(self.ranker),
            )
            if chosen is None:
                return self._start_again()
            self.record.eta0, self.record.lam = chosen
        W = self._run(learner)
        order = choice.order(BilinearSGD(W, lam=0.0, eta0=1.0))
        start = choice.order(self._from_start(1.0, 0.0))
        choice.note(self.record.eta0, self.record.lam, self.record.n_steps, order)
        return W if order.better_than(start) else self._start_again()

    def _chosen(self) -> bool:
        """Whether the rate or λ is chosen on held-out queries."""
        by_density = self.ranker.target_density is not None
        return number(self.ranker.eta0) is None or (
            given_lam(self.ranker) is None and not by_density
        )

    def _from_start(self, eta0: float, lam: float) -> BilinearSGD:
        return learner_for(self.ranker, self.start, eta0, lam)

    def _start_again(self) -> sp.csr_array:
        """W before the first step, which is better than anything that was learned."""
        start, *others = self.record.trials["score"]
        warn(
            "No rate and alpha ranks held-out queries, by more than a standard error, better than "
            f"W before the first step: {start:.4f} of their triplets are in the right order at the "
            f"start, and {max(others):.4f} after the best of {len(others)} runs (see trials_). W "
            "stays as it was. More queries or triplets may help; numbers for alpha and eta0 avoid "
            "the choice.",
        )
        record = self.record
        self.record = TrainingRecord(trials=record.trials, seed=record.seed)
        return self.start

    def _run(self, learner: BilinearSGD | None) -> sp.csr_array:
        """W after the fit and the refit."""
        if self.record.stage == FIT:
            self.record.n_steps = self.n_steps
            learner = self._fit(learner)
            self.record.n_steps = learner.step
            learner.trim()  # W is copied next
            if not self.ranker.refit or self.ranker.structure != "sparse":
                return learner.weights()
            self.record.stage = REFIT
            changes = learner.changes()
            del learner  # two of them would be twice the memory
            learner = self._refitted(changes)
            del changes
        assert learner is not None
        self._learn(learner, self.record.refit_curve, "refit")
        return learner.weights()

    def _resumed(self) -> BilinearSGD | None:
        saved = self.checkpoint.load() if self.checkpoint else None
        if saved is None:
            return None
        note, arrays = saved
        self.record = TrainingRecord.of(note)
        nothing = sp.csr_array(self.start.shape, dtype=self.start.dtype)
        at_fit = self.record.stage == FIT
        learner = self._new_learner() if at_fit else self._refitted(nothing)
        learner.restore(arrays)
        if learner.step > self.record.n_steps:
            raise ModelFileError(
                f"The checkpoint is damaged: it is at step {learner.step} of "
                f"{self.record.n_steps}. Delete it to start again."
            )
        return learner

    def _new_learner(self) -> BilinearSGD:
        return self._from_start(self.record.eta0, self.record.lam)

    def _refitted(self, changes: sp.csr_array) -> BilinearSGD:
        """A learner of the entries that have changed, or of those of W that are not 0."""
        rate = steps_of(self.ranker, self.record.eta0)
        prior = prior_of(self.ranker, self.start)
        return BilinearSGD(changes, lam=0.0, frozen=True, prior=prior, **rate)

    def _learn(self, learner: BilinearSGD, curve: Curve, description: str) -> None:
        n = self.record.n_steps
        with _bar(self.ranker.verbose, description, n) as show:
            for _ in learn(
                learner, self.Q, self.D, self.sampler, n, curve,
                record_every=self.ranker.record_every or max(1, n // CURVE_POINTS),
                pause_every=self.checkpoint_every if self.checkpoint else n,
                held_out=self.held_out, show=show,
                patience=self.ranker.n_iter_no_change if self.ranker.early_stopping else None,
            ):  # fmt: skip
                if self.checkpoint:
                    self.checkpoint.save(vars(self.record), learner.state())

    def _fit(self, learner: BilinearSGD | None) -> BilinearSGD:
        """Algorithm 1, repeated until the density is right if one is wanted."""
        record, target = self.record, self.ranker.target_density
        if target is None:
            learner = learner or self._new_learner()
            self._learn(learner, record.curve, "fit")
            return learner
        entry = 1.0 / max(math.prod(self.start.shape), 1)
        search = DensitySearch(target, record.lams, record.densities, entry)
        while True:
            given_up = search.exhausted()
            if learner is None:
                first = first_lam(self.ranker.schedule, record.eta0, self.n_steps)
                record.lam = search.nearest() if given_up else search.next(first)
                record.curve = new_curve()
                learner = self._new_learner()
            self._learn(learner, record.curve, f"alpha {record.lam:.2g}")
            if not given_up:
                record.lams.append(record.lam)
                record.densities.append(record.curve["density"][-1])
            if search.found():
                return learner
            if search.exhausted() and record.lam == search.nearest():
                warn(self._nearest_only(search))
                return learner
            learner = None

    def _nearest_only(self, search: DensitySearch) -> str:
        if max(search.densities) < search.target:
            advice = "W has no more entries than that: use more steps, or a lower target_density."
        elif self.ranker.shrink_every > 1:
            advice = "The density jumps there: use a smaller shrink_every."
        else:
            advice = "The density jumps there: use another target_density."
        return (
            f"No alpha gave the density {search.target:g}: the nearest of {len(search.lams)} fits "
            f"has {self.record.curve['density'][-1]:.3g}, with alpha={self.record.lam:.6g}, which "
            f"is used. {advice}"
        )


@contextmanager
def _bar(
    verbose: bool, description: str, n_steps: int
) -> Iterator[Callable[[int, str], None] | None]:
    """A line on stderr, or in a notebook, with loss, density and speed."""
    if not verbose:
        yield None
        return
    with progress_bar(description, n_steps, keep=True) as show:
        yield show


def by_frequency(D: sp.csr_array) -> NDArray[np.int32]:
    """New numbers of the columns of D, by decreasing frequency.

    What a step reads then lies close together in memory, where steps spend most of their time.
    """
    counts = np.bincount(D.indices, minlength=D.shape[1])
    return np.argsort(np.argsort(-counts, kind="stable")).astype(np.int32)


def renumbered(X: sp.csr_array, numbers: NDArray[np.int32]) -> sp.csr_array:
    """The same rows with other numbers of the columns."""
    moved = sp.csr_array((X.data.copy(), numbers[X.indices], X.indptr), shape=X.shape)
    moved.sort_indices()
    return moved
