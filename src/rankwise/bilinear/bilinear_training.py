"""From parameters and triplets to W: the choice of rate and λ, the fit, the refit, checkpoints.

Rate and λ are chosen on a fifth of the queries, which are held out with all of their triplets.
Short runs with different rates, and then with different λ, learn from the other queries. W before
the first step is a candidate as well.

Few held-out triplets are in the wrong order where the start is good: their share hardly
distinguishes two runs. Runs are therefore compared by the log loss of the order, log(1 + exp(-s
margin)), with the scale s that is best for the run: W may have any scale.

A better order of all documents may be a worse order of the first ones, which people look at. W
before the first step is therefore kept, unless the average precision of the held-out queries rises
as well, by more than a standard error. Each of them ranks the documents that the held-out queries
prefer, or the documents of its own triplets, if these come with their own. Where one document is
relevant, average precision is the reciprocal of its rank, and its mean is MRR.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from rankwise.backends.arrays import Array
from rankwise.bilinear.algorithm_1 import CSR, OVERFLOWED, BilinearSGD, Ints, TransposedSGD
from rankwise.bilinear.triplets import (
    BLOCK,
    Draw,
    DrawnTriplets,
    HeldOutQueries,
    TripletSampler,
    TripletsInOrder,
    split_queries,
)
from rankwise.errors import DataError, ModelFileError, warn
from rankwise.files import replacing
from rankwise.metrics import average_precision
from rankwise.progress import progress_bar

FIT, REFIT = "fit", "refit"
CURVE_POINTS = 20
MAX_TRIALS = 20
"""Fits in the search for a density."""
REPEATS = 5
"""The search ends after so many trials in a row with densities that were seen before."""
TOLERANCE = 0.05
"""The density may be this much lower than the target, relative to it."""
LARGEST_RATE = {"adagrad": 4.0, "constant": 4.0, "invsqrt": 200.0}
RATES = 4.0 ** np.arange(-5, 1)
"""Rates to try, relative to the largest; if two are equally good, the first is used."""
TOTAL_SHRINKAGE = (1.0, 0.3, 0.1, 0.03, 0.003)
"""λ to try: by how much they shrink a weight of a typical row during the run."""
MIN_STEPS, MAX_ENTRIES = 200, 20_000_000
"""Limits of a short run: steps, and entries of W, which grows fast without an L1 norm."""
BLOCK_NUMBERS = 2**23
"""Of q'W at a time."""
LOG_SCALES = (-5.0, 10.0)
"""Of margins that are divided by the largest."""
FORMAT = 9
"""Of checkpoints. It increases with every change of the steps or their state."""
NOTE = "note"

SCORES_OVERFLOWED = (
    "Scores q'Wd overflow: the values of Q and D are too large. Scale their rows, for example with "
    'sklearn.preprocessing.normalize(X, norm="max").'
)

HeldOut = tuple[CSR, CSR, Ints]
"""Queries, documents, and triplets of their rows."""
Table = dict[str, list[float]]
"""Columns of numbers: a learning curve, or the runs of a choice."""


def new_curve() -> Table:
    """A learning curve; its loss is the mean hinge loss since the previous record."""
    return {"step": [], "loss": [], "density": [], "error": []}


def new_trials() -> Table:
    """Runs that were tried, and how they order held-out triplets."""
    return {"eta0": [], "alpha": [], "n_iter": [], "loss": [], "score": [], "precision": []}


def add_line(table: Table, *values: float) -> None:
    """Add a value to each column."""
    for name, value in zip(table, values, strict=True):
        table[name].append(float(value))


def number(value: Any) -> float | None:
    """A parameter that is a number; None if it is to be chosen ("auto", or None in old files)."""
    return None if value is None or isinstance(value, str) else float(value)


def given_lam(ranker: Any) -> float | None:
    """λ; None if it is to be chosen."""
    return number(ranker.alpha) if ranker.structure == "sparse" else 0.0


def learner_for(
    ranker: Any, start: sp.csr_array, eta0: float, lam: float, *, refit: sp.csr_array | None = None
) -> BilinearSGD:
    """A learner for the structure of W, before the first step.

    With `refit`, only the entries of that matrix change, and nothing shrinks.
    """
    how = ranker.options_in("shrinkage")
    prior = start if how.to == "init" else None
    steps = {"eta0": eta0, "schedule": ranker.schedule, "shrink_every": how.every, "prior": prior}
    if refit is not None:
        return BilinearSGD(refit, lam=0.0, frozen=True, **steps)
    learner = TransposedSGD if how.penalty == "columns" else BilinearSGD
    return learner(
        start if prior is None else sp.csr_array(start.shape, dtype=start.dtype),
        lam=lam,
        frozen=ranker.structure in ("diagonal", "identity"),
        dense_from=0 if ranker.structure == "dense" else None,
        grouped=how.penalty != "l1",
        **steps,
    )


@dataclass
class TrainingRecord:
    """How far a fit has come: everything but the state of the learner."""

    eta0: float = 0.0
    lam: float = 0.0
    n_steps: int = 0
    trials: Table = field(default_factory=new_trials)
    seed: int = 0
    stage: str = FIT
    lams: list[float] = field(default_factory=list)
    densities: list[float] = field(default_factory=list)
    curve: Table = field(default_factory=new_curve)
    refit_curve: Table = field(default_factory=new_curve)

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
        columns = value if isinstance(value, dict) and list(value) == list(known) else {"": None}
        same_length = len({len(column or ()) for column in columns.values()}) == 1
        return same_length and all(_is_like(columns[name], []) for name in columns)
    if isinstance(known, list):
        return isinstance(value, list) and all(type(entry) in (int, float) for entry in value)
    if isinstance(known, str):
        return value in (FIT, REFIT)
    kinds = (int,) if isinstance(known, int) else (int, float)
    return type(value) in kinds and 0 <= value < math.inf


def fingerprint(params: dict[str, Any], arrays: list[NDArray[Any]]) -> str:
    """A hash of parameters and data."""
    digest = hashlib.sha256(json.dumps(params, sort_keys=True, default=repr).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class FitCheckpoint:
    """The file of a fit, written atomically at intervals, with the fit's `fingerprint`."""

    path: Path
    owner: str
    every: int

    def check_folder(self) -> None:
        """Raise an error before a long fit if the file cannot be written."""
        try:  # permissions alone do not tell
            with tempfile.TemporaryFile(dir=self.path.resolve().parent):
                writable = not self.path.is_dir()
        except OSError:
            writable = False
        if not writable:
            raise DataError(
                f"The checkpoint {self.path} cannot be written: create its folder, or choose "
                "another path."
            )

    def save(self, note: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write a note and arrays, replacing the file."""
        text = json.dumps({"format": FORMAT, "owner": self.owner, **note})
        members: dict[str, Any] = {NOTE: np.array(text), **arrays}
        with replacing(self.path) as beside, beside.open("wb") as file:
            np.savez(file, **members)

    def load(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """The note and arrays saved last; None if there is no file."""
        if not self.path.exists():
            return None
        try:
            if not zipfile.is_zipfile(self.path):
                raise ValueError("it is not an .npz file")
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            note = json.loads(str(arrays.pop(NOTE)))
            owner, written_as = note["owner"], note["format"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ModelFileError(
                f"{self.path} is damaged or not a checkpoint of rankwise: {error}. Delete it to "
                "start again."
            ) from error
        if written_as != FORMAT:
            raise ModelFileError(
                f"The checkpoint {self.path} was written by another version of rankwise (format "
                f"{written_as}, expected {FORMAT}): resume with that version, or delete it to "
                "start again."
            )
        if owner != self.owner:
            raise DataError(
                f"The checkpoint {self.path} belongs to a fit to other data or with other "
                "parameters. Pass the same ones to resume it, or delete it to start again."
            )
        return note, arrays


def share_in_wrong_order(margins: Array) -> float:
    """Share of margins below 0; a margin of 0 counts half."""
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
    curve: Table,
    *,
    record_every: int,
    pause_every: int,
    held_out: HeldOut | None = None,
    patience: int | None = None,
    show: Callable[[int, str], None] | None = None,
) -> Iterator[int]:
    """Learn up to step `n_steps`; yield every `pause_every` steps and at the end.

    The result does not depend on where a run is paused, recorded, or resumed. With `patience`,
    learning ends when the error on held-out triplets has not decreased for that many records.
    `show` is called with the step and a few words after each record.
    """
    while learner.step < n_steps and not has_stalled(curve["error"], patience):
        t = learner.step
        stops = [(t // every + 1) * every for every in (BLOCK, record_every, pause_every)]
        stop = min(*stops, n_steps)
        begin = time.perf_counter()
        learner.advance(Q, D, sampler.between(t, stop))
        seconds = time.perf_counter() - begin
        if stop % record_every == 0 or stop == n_steps:
            since = stop - (curve["step"][-1] if curve["step"] else 0)
            loss = float(learner.totals[0]) / max(since, 1)
            density = learner.count() / math.prod(learner.shape)
            error = share_in_wrong_order(learner.margins(*held_out)) if held_out else math.nan
            add_line(curve, stop, loss, density, error)
            learner.totals[:] = 0.0
            if show:
                speed = (stop - t) / max(seconds, 1e-9)
                show(stop, f"loss {loss:.3f}, density {density:.1%}, {speed:,.0f} steps/s")
        if stop % pause_every == 0 or stop == n_steps or has_stalled(curve["error"], patience):
            yield stop


@dataclass(frozen=True)
class Order:
    """How triplets and documents of held-out queries are ordered, by query."""

    losses: Array  # log loss of triplets
    shares: Array  # share of triplets in the right order
    precisions: Array  # average precision of documents

    def better_than(self, other: Order) -> bool:
        """Whether loss and precision are better by more than a standard error, and shares hold."""
        gains = other.losses - self.losses, self.precisions - other.precisions
        clear = all(gain.mean() > gain.std() / math.sqrt(len(gain)) for gain in gains)
        return bool(clear and self.shares.mean() >= other.shares.mean())


def order_of(margins: Array, queries: Ints, precisions: Array) -> Order:
    """The order of triplets, from q'W(d+ - d-) and their queries; ties are half right."""
    _, query = np.unique(queries, return_inverse=True)
    counts = np.bincount(query)
    largest = np.abs(margins).max()
    unit = margins / largest if largest > 0.0 else margins

    def losses(log_scale: float) -> Array:
        return np.asarray(np.bincount(query, np.logaddexp(0.0, -math.exp(log_scale) * unit)))

    best = minimize_scalar(lambda x: losses(x).sum(), bounds=LOG_SCALES, method="bounded")
    right = (margins > 0.0) + 0.5 * (margins == 0.0)
    return Order(losses(best.x) / counts, np.bincount(query, right) / counts, precisions)


def precisions_of(W: sp.csr_array, Q: CSR, D: CSR, held: HeldOutQueries) -> Array:
    """The average precision of the documents that each held-out query ranks.

    If one document is relevant, this is the reciprocal of its rank.
    """
    queries, starts = np.unique(held.query, return_index=True)
    ends = np.append(starts[1:], len(held.query))
    rows, documents = (
        sp.csr_array((X.data, X.indices, X.indptr), shape=(len(X.indptr) - 1, width))
        for X, width in zip((Q, D), W.shape, strict=True)
    )
    scores, ranked, known = np.empty(len(held.query)), None, np.zeros(0, np.int64)
    size = max(1, BLOCK_NUMBERS // max(W.shape[1], 1))
    for begin in range(0, len(queries), size):
        projected = (rows[queries[begin : begin + size]] @ W).toarray()
        for k, q in enumerate(projected, begin):
            part = slice(starts[k], ends[k])
            if ranked is None or not np.array_equal(held.document[part], known):
                known = held.document[part]
                ranked = documents[known]
            scores[part] = ranked @ q
    if not np.isfinite(scores).all():
        raise DataError(SCORES_OVERFLOWED)
    found = average_precision(held.relevant, scores, held.query, per_query=True)
    return np.asarray(found.values)


@dataclass(frozen=True)
class StepRun:
    """A short run: its rate, λ and sum of rates, and how it orders the held-out triplets."""

    eta0: float
    lam: float
    sum_of_rates: float
    order: Order
    overflowed: bool


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
    draw : callable or None
        Draws triplets; None: `triplets` are taken in order.
    n_steps : int
    shared : bool
        Whether queries are documents as well.
    triplets : ndarray of shape (n, 3) or None
        All of them; None: they are drawn from classes or grades.
    record : TrainingRecord
        With the seed of the sampler; a checkpoint brings its own.
    checkpoint : FitCheckpoint or None
        Where to save, and to resume from.
    """

    ranker: Any
    Q: CSR
    D: CSR
    held_out: HeldOut | None
    start: sp.csr_array
    draw: Draw | None
    n_steps: int
    shared: bool
    triplets: Ints | None
    record: TrainingRecord
    checkpoint: FitCheckpoint | None = None
    sampler: TripletSampler = field(init=False)
    aside: HeldOutQueries = field(init=False)

    def run(self) -> sp.csr_array:
        """W; `record` has the rate, λ, the number of steps and the curves."""
        learner = self._resumed()
        if self.draw is not None:
            self.sampler = DrawnTriplets(self.draw, self.record.seed)
        elif self.triplets is not None:
            self.sampler = TripletsInOrder(self.triplets)
        by_density = self.ranker.target_density is not None
        lam_is_chosen = given_lam(self.ranker) is None and not by_density
        chooses = number(self.ranker.eta0) is None or lam_is_chosen
        stops = bool(self.ranker.early_stopping) and self.held_out is None
        if chooses or stops:
            n_queries = len(self.Q.indptr) - 1
            self.sampler, self.aside = split_queries(
                self.sampler, n_queries, self.shared, self.triplets, self.record.seed
            )
            if isinstance(self.sampler, TripletsInOrder):
                self.n_steps = len(self.sampler.triplets)
            if stops:
                self.held_out = self.Q, self.D, self.aside.triplets
        if not chooses:
            return self._fit_and_refit(learner)
        if learner is None:
            chosen = self._choose(0.0 if by_density else given_lam(self.ranker))
            if chosen is None:
                return self._start_again()
            self.record.eta0, self.record.lam = chosen
        W = self._fit_and_refit(learner)
        order = self._order(BilinearSGD(W, lam=0.0, eta0=1.0))
        self._note(self.record.eta0, self.record.lam, self.record.n_steps, order)
        better = order.better_than(self._order(self._new_learner(1.0, 0.0)))
        return W if better else self._start_again()

    def _resumed(self) -> BilinearSGD | None:
        saved = self.checkpoint.load() if self.checkpoint else None
        if saved is None:
            return None
        note, arrays = saved
        self.record = TrainingRecord.of(note)
        nothing = sp.csr_array(self.start.shape, dtype=self.start.dtype)
        refit = nothing if self.record.stage == REFIT else None
        learner = self._new_learner(self.record.eta0, self.record.lam, refit=refit)
        learner.restore(arrays)
        if learner.step > self.record.n_steps:
            raise ModelFileError(
                f"The checkpoint is damaged: it is at step {learner.step} of "
                f"{self.record.n_steps}. Delete it to start again."
            )
        return learner

    def _new_learner(
        self, eta0: float, lam: float, refit: sp.csr_array | None = None
    ) -> BilinearSGD:
        return learner_for(self.ranker, self.start, eta0, lam, refit=refit)

    def _choose(self, lam: float | None) -> tuple[float, float] | None:
        """The rate and λ (None: to be chosen); None if no run is better than the start."""
        start = self._order(self._new_learner(1.0, 0.0))
        self._note(0.0, 0.0, 0, start)
        eta0, schedule = number(self.ranker.eta0), self.ranker.schedule
        rates = [eta0] if eta0 is not None else (LARGEST_RATE[schedule] * RATES).tolist()
        best, *others = self._short_runs([(rate, lam or 0.0) for rate in rates])
        if all(run.overflowed for run in (best, *others)):
            raise DataError(OVERFLOWED)
        if lam is None:
            candidates = [
                (run.eta0, shrinkage / run.sum_of_rates)
                for run in [best, *others[:1]]
                for shrinkage in TOTAL_SHRINKAGE
            ]
            best, *_ = self._short_runs(candidates)
        if not best.order.better_than(start):
            return None
        # Sums of rates grow with the root of the number of steps.
        longer = math.sqrt(self.n_steps / self._short_steps()) if lam is None else 1.0
        return best.eta0, best.lam / longer

    def _short_runs(self, candidates: list[tuple[float, float]]) -> list[StepRun]:
        """Runs with rates and λ, the best first."""
        runs = [self._short_run(eta0, lam) for eta0, lam in candidates]
        return sorted(runs, key=lambda run: float(run.order.losses.mean()))

    def _short_run(self, eta0: float, lam: float) -> StepRun:
        learner, n_steps, total = self._new_learner(eta0, lam), self._short_steps(), math.inf
        overflowed = False
        try:
            for t in range(0, n_steps, BLOCK):
                triplets = self.sampler.between(t, min(t + BLOCK, n_steps))
                learner.advance(self.Q, self.D, triplets)
            order, total = self._order(learner), learner.sum_of_rates()
        except DataError:  # W or its scores overflowed: the worst order
            overflowed = True
            triplets, n_ranking = self.aside.triplets, len(np.unique(self.aside.query))
            order = order_of(np.full(len(triplets), -1.0), triplets[:, 0], np.zeros(n_ranking))
        self._note(eta0, lam, n_steps, order)
        return StepRun(eta0, lam, total, order, overflowed)

    def _short_steps(self) -> int:
        """4 % of all steps or 2,000, and no more than memory allows."""
        mean_q, mean_d = (len(X.indices) / max(len(X.indptr) - 1, 1) for X in (self.Q, self.D))
        affordable = int(MAX_ENTRIES / max(2.0 * mean_q * mean_d, 1.0))
        return min(self.n_steps, max(2000, self.n_steps // 25), max(MIN_STEPS, affordable))

    def _order(self, learner: BilinearSGD) -> Order:
        """The order of the held-out triplets by a W; raises DataError if their scores overflow."""
        triplets = self.aside.triplets
        margins = learner.margins(self.Q, self.D, triplets)
        if not np.isfinite(margins).all():
            raise DataError(SCORES_OVERFLOWED)
        precisions = precisions_of(learner.weights(), self.Q, self.D, self.aside)
        return order_of(margins, triplets[:, 0], precisions)

    def _note(self, eta0: float, lam: float, n_steps: int, order: Order) -> None:
        """Add a run to the trials."""
        result = order.losses.mean(), order.shares.mean(), order.precisions.mean()
        add_line(self.record.trials, eta0, lam, n_steps, *result)

    def _start_again(self) -> sp.csr_array:
        """W before the first step, which is better than anything that was learned."""
        start, *others = self.record.trials["precision"]
        warn(
            "No rate and alpha ranks held-out queries better than the initial W by more than a "
            f"standard error: their mean average precision is {start:.4f} at the start, and "
            f"{max(others):.4f} after the best of {len(others)} runs (see trials_). The initial W "
            "is kept. More queries or triplets may help; numbers for alpha and eta0 avoid the "
            "choice.",
        )
        self.record = TrainingRecord(trials=self.record.trials, seed=self.record.seed)
        return self.start

    def _fit_and_refit(self, learner: BilinearSGD | None) -> sp.csr_array:
        record = self.record
        if record.stage == FIT:
            record.n_steps = self.n_steps
            learner = self._fit(learner)
            record.n_steps = learner.step
            learner.trim()  # W is copied next
            if not self.ranker.refit or self.ranker.structure != "sparse":
                return learner.weights()
            record.stage = REFIT
            changes = learner.changes()
            del learner  # two of them would be twice the memory
            learner = self._new_learner(record.eta0, 0.0, refit=changes)
            del changes
        assert learner is not None
        self._learn(learner, record.refit_curve, "refit")
        return learner.weights()

    def _learn(self, learner: BilinearSGD, curve: Table, description: str) -> None:
        n, patience = self.record.n_steps, self.ranker.early_stopping
        bar = progress_bar(description, n, keep=True) if self.ranker.verbose else nullcontext()
        with bar as show:
            for _ in learn(
                learner, self.Q, self.D, self.sampler, n, curve,
                record_every=self.ranker.record_every or max(1, n // CURVE_POINTS),
                pause_every=self.checkpoint.every if self.checkpoint else n,
                held_out=self.held_out, show=show,
                patience=(5 if patience is True else int(patience)) or None,
            ):  # fmt: skip
                if self.checkpoint:
                    self.checkpoint.save(vars(self.record), learner.state())

    def _fit(self, learner: BilinearSGD | None) -> BilinearSGD:
        """Algorithm 1, repeated until the density is right if one is wanted."""
        record, target = self.record, self.ranker.target_density
        if target is None:
            learner = learner or self._new_learner(record.eta0, record.lam)
            self._learn(learner, record.curve, "fit")
            return learner
        entry = 1.0 / max(math.prod(self.start.shape), 1)
        search = DensitySearch(target, record.lams, record.densities, entry)
        constant = self.ranker.schedule == "constant"
        sum_of_rates = record.eta0 * (self.n_steps if constant else 2.0 * math.sqrt(self.n_steps))
        while True:
            given_up = search.exhausted()
            if learner is None:
                record.lam = search.nearest() if given_up else search.next(1.0 / sum_of_rates)
                record.curve = new_curve()
                learner = self._new_learner(record.eta0, record.lam)
            self._learn(learner, record.curve, f"alpha {record.lam:.2g}")
            if not given_up:
                record.lams.append(record.lam)
                record.densities.append(record.curve["density"][-1])
            if search.found():
                return learner
            if search.exhausted() and record.lam == search.nearest():
                warn(
                    f"No alpha gave the density {target:g}: the nearest of {len(search.lams)} fits "
                    f"has {record.curve['density'][-1]:.3g}, with alpha={record.lam:.6g}, which is "
                    "used. Take more steps, shrink W more often, or use another target_density."
                )
                return learner
            learner = None


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
        before, last = self.densities[:-REPEATS], self.densities[-REPEATS:]
        repeated = bool(before) and set(last) <= set(before)
        return len(self.lams) >= MAX_TRIALS or repeated or self._saturated()

    def _saturated(self) -> bool:
        """Whether all trials are too sparse, and a much lower λ left hardly more entries."""
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
