"""Rate and alpha of the bilinear ranker, chosen by short runs on held-out queries.

A fifth of the queries are held out with all of their triplets. Short runs with different rates, and
then with different alphas, learn from the others. W before the first step is a candidate as well.

Few held-out triplets are in the wrong order where the start is good: their share hardly tells two
runs apart. So runs are compared by the log loss of the order, log(1 + exp(-s margin)), with the
scale s that is best for the run: W may have any scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from rankwise.backends.arrays import Array
from rankwise.data import draw_triplets
from rankwise.errors import DataError
from rankwise.solvers.bilinear.bilinear_sgd import OVERFLOWED, BilinearSGD
from rankwise.solvers.bilinear.step_arrays import CSR, Ints
from rankwise.solvers.bilinear.triplet_sampling import BLOCK, TripletSampler

SHARE_HELD_OUT = 0.2
MAX_HELD_OUT = 8000
"""Triplets."""
LARGEST_RATE = {"adagrad": 4.0, "constant": 4.0, "invsqrt": 200.0}
RATES = 4.0 ** np.arange(-5, 1)
"""Rates to try, relative to the largest; if two are equally good, the first is used."""
SHRINKAGE = (1.0, 0.3, 0.1, 0.03, 0.003)
"""Alphas to try: by how much they shrink a weight of a typical row during the run."""
MIN_STEPS, MAX_ENTRIES = 200, 20_000_000
"""Limits of a short run: steps, and entries of W, which grows fast without an L1 norm."""
LOG_SCALES = (-5.0, 10.0)
"""Of margins that are divided by the largest."""
SPLIT = 2**40
"""The random stream of the split; blocks of triplets have the streams 0, 1, ..."""

SCORES_OVERFLOWED = (
    "Scores q'Wd overflow: the values of Q and D are too large. Scale their rows, for example with "
    'sklearn.preprocessing.normalize(X, norm="max").'
)

Trials = dict[str, list[float]]
"""Runs that were tried: rate, alpha, steps, and how they order held-out triplets."""


def new_trials() -> Trials:
    """Trials without a run."""
    return {"eta0": [], "alpha": [], "n_iter": [], "loss": [], "score": []}


@dataclass(frozen=True)
class QuerySplit:
    """Triplets of the queries to learn from, and triplets of the others."""

    training: TripletSampler
    held_out: Ints


def split_queries(
    sampler: TripletSampler,
    n_queries: int,
    shared: bool,
    rows: Ints | None,
    seed: int,
    *,
    chooses: bool = True,
    stops: bool = False,
) -> QuerySplit:
    """Hold out a fifth of the queries, and the documents that go with them.

    Raises DataError if there are too few.

    Parameters
    ----------
    sampler : TripletSampler
    n_queries : int
        Rows of Q.
    shared : bool
        Whether queries are documents as well.
    rows : ndarray of shape (n, 3) or None
        All triplets; None: they are drawn from classes, or from documents of one query each.
    seed : int
    chooses, stops : bool
        What the held-out queries are for: to choose alpha and eta0, to stop early, or both.
    """
    rng = np.random.default_rng([seed, SPLIT])
    queries = np.unique((sampler.sample(rng, BLOCK) if rows is None else rows)[:, 0])
    held = np.zeros(n_queries, np.bool_)
    held[rng.permutation(queries)[: max(1, int(SHARE_HELD_OUT * len(queries)))]] = True
    columns = 3 if shared else 1
    training = sampler.select(lambda triplets: ~_any(held, triplets[:, :columns]))
    aside = np.empty((0, 3), np.int64)
    if rows is not None:
        mine = held[rows[:, 0]]
        left = rows[~_any(held, rows[:, :columns])]
        documents = preferred_documents(rows, mine)
        without = left[~_any(documents, left[:, 1:])]
        if 2 * len(without) >= max(len(left), 1):  # most triplets do without these documents
            training = training.select(lambda triplets: ~_any(documents, triplets[:, 1:]))
            aside = unseen_triplets(rows[mine], documents, without, rng)
    elif shared:
        apart = sampler.select(lambda triplets: ~_any(~held, triplets))
        aside = apart.sample(rng, MAX_HELD_OUT)
    if not len(aside):
        others = sampler.select(lambda triplets: held[triplets[:, 0]])
        aside = others.sample(rng, MAX_HELD_OUT)
    if not len(training.sample(rng, 1)):
        raise DataError(_too_few(len(queries), chooses=chooses, stops=stops))
    return QuerySplit(training, aside)


def _too_few(n_queries: int, *, chooses: bool, stops: bool) -> str:
    """The message if no query can be held out: what needs one, and what to do."""
    needs, instead = [], []
    if chooses:
        needs.append("alpha and eta0 are chosen on held-out queries")
        instead.append("set alpha and eta0 to numbers")
    if stops:
        needs.append("early_stopping needs held-out queries")
        instead.append("set early_stopping=False or pass triplets of other queries as held_out")
    few = "1 query is" if n_queries == 1 else f"{n_queries} queries are"
    ways = ", and ".join(instead)
    return (
        f"{' and '.join(needs)}, and {few} too few to hold some out. {ways[0].upper()}{ways[1:]}, "
        "or add triplets of other queries to learn from."
    )


def _any(mask: NDArray[np.bool_], rows: Ints) -> NDArray[np.bool_]:
    """Which lines have a row of the mask."""
    return np.asarray(np.logical_or.reduce(mask[rows], axis=1))


def preferred_documents(rows: Ints, mine: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Documents that some of the triplets prefer."""
    documents = np.zeros(rows[:, 1:].max() + 1, np.bool_)
    documents[rows[mine, 1]] = True
    return documents


def unseen_triplets(
    rows: Ints, documents: NDArray[np.bool_], training: Ints, rng: np.random.Generator
) -> Ints:
    """Held-out triplets between documents that are not learned from.

    A document that is preferred in training would look better than one that is not. If most given
    triplets compare with such a document, others are drawn from those that are held out.
    """
    learned = np.zeros(len(documents), np.bool_)
    learned[training[:, 1:]] = True
    given = rows[~learned[rows[:, 2]]]
    if 2 * len(given) < len(rows):
        pool, place = np.flatnonzero(documents), np.cumsum(documents) - 1
        pairs = np.unique(rows[:, :2], axis=0)
        pairs[:, 1] = place[pairs[:, 1]]
        pairs = pairs[np.bincount(pairs[:, 0])[pairs[:, 0]] < len(pool)]
        if not len(pairs):
            return given
        n_negatives = max(1, MAX_HELD_OUT // len(pairs))
        given = draw_triplets(pairs, len(pool), n_negatives=n_negatives, random_state=rng)
        given[:, 1:] = pool[given[:, 1:]]
    return given[rng.permutation(len(given))[:MAX_HELD_OUT]]


@dataclass(frozen=True)
class Order:
    """How held-out triplets are ordered: log loss and share in the right order, by query."""

    losses: Array
    shares: Array

    def better_than(self, other: Order) -> bool:
        """Whether the loss is lower by more than its standard error, and no fewer are right."""
        gain = other.losses - self.losses
        clear = gain.mean() > gain.std() / math.sqrt(len(gain))
        return bool(clear and self.shares.mean() >= other.shares.mean())


def order_of(margins: Array, queries: Ints) -> Order:
    """The order of triplets, from q'W(d+ - d-) and their queries; ties are half right."""
    _, query = np.unique(queries, return_inverse=True)
    counts = np.bincount(query)
    largest = np.abs(margins).max()
    unit = margins / largest if largest > 0.0 else margins

    def losses(log_scale: float) -> Array:
        return np.asarray(np.bincount(query, np.logaddexp(0.0, -math.exp(log_scale) * unit)))

    best = minimize_scalar(lambda x: losses(x).sum(), bounds=LOG_SCALES, method="bounded")
    right = (margins > 0.0) + 0.5 * (margins == 0.0)
    return Order(losses(best.x) / counts, np.bincount(query, right) / counts)


@dataclass(frozen=True)
class StepRun:
    """A run with a rate and a λ: its sum of rates, and what it makes of the held-out triplets."""

    eta0: float
    lam: float
    sum_of_rates: float
    order: Order
    overflowed: bool = False


@dataclass(frozen=True)
class StepChoice:
    """Short runs from which to choose a rate and λ.

    Attributes
    ----------
    Q, D : CSR
    split : QuerySplit
    learner : callable
        Makes a learner with W before the first step for a rate and λ.
    n_steps : int
        Of the run to choose for.
    trials : Trials
        Filled with the runs.
    """

    Q: CSR
    D: CSR
    split: QuerySplit
    learner: Callable[[float, float], BilinearSGD]
    n_steps: int
    trials: Trials

    def order(self, learner: BilinearSGD) -> Order:
        """How a W orders the held-out triplets; raises DataError if their scores overflow."""
        triplets = self.split.held_out
        margins = learner.margins(self.Q, self.D, triplets)
        if not np.isfinite(margins).all():
            raise DataError(SCORES_OVERFLOWED)
        return order_of(margins, triplets[:, 0])

    def note(self, eta0: float, lam: float, n_steps: int, order: Order) -> None:
        """Add a run to the trials."""
        run = (eta0, lam, n_steps, order.losses.mean(), order.shares.mean())
        for name, value in zip(self.trials, run, strict=True):
            self.trials[name].append(float(value))

    def choose(
        self, schedule: str, eta0: float | None, lam: float | None
    ) -> tuple[float, float] | None:
        """The rate and λ; None if no run is better than W before the first step.

        Parameters
        ----------
        schedule : str
        eta0, lam : float or None
            None: to be chosen.
        """
        start = self.order(self.learner(1.0, 0.0))
        self.note(0.0, 0.0, 0, start)
        rates = [eta0] if eta0 is not None else (LARGEST_RATE[schedule] * RATES).tolist()
        best, *others = self._ranked([(rate, lam or 0.0) for rate in rates])
        if all(run.overflowed for run in (best, *others)):
            raise DataError(OVERFLOWED)
        if lam is None:
            best, *_ = self._ranked(
                [
                    (run.eta0, shrinkage / run.sum_of_rates)
                    for run in [best, *others[:1]]
                    for shrinkage in SHRINKAGE
                ]
            )
        if not best.order.better_than(start):
            return None
        # Sums of rates grow with the root of the number of steps.
        longer = math.sqrt(self.n_steps / self._short_run()) if lam is None else 1.0
        return best.eta0, best.lam / longer

    def _ranked(self, candidates: list[tuple[float, float]]) -> list[StepRun]:
        """Runs with rates and λ, the best first."""
        runs = [self._run(eta0, lam) for eta0, lam in candidates]
        return sorted(runs, key=lambda run: float(run.order.losses.mean()))

    def _run(self, eta0: float, lam: float) -> StepRun:
        learner, n_steps, total = self.learner(eta0, lam), self._short_run(), math.inf
        overflowed = False
        try:
            for t in range(0, n_steps, BLOCK):
                triplets = self.split.training.between(t, min(t + BLOCK, n_steps))
                learner.advance(self.Q, self.D, triplets)
            order, total = self.order(learner), learner.sum_of_rates()
        except DataError:  # W or its scores overflowed: the worst order
            overflowed = True
            queries = self.split.held_out[:, 0]
            order = order_of(np.full(len(queries), -1.0), queries)
        self.note(eta0, lam, n_steps, order)
        return StepRun(eta0, lam, total, order, overflowed)

    def _short_run(self) -> int:
        """Steps: 4 % of all or 2,000, and no more than memory allows."""
        mean_q, mean_d = (len(X.indices) / max(len(X.indptr) - 1, 1) for X in (self.Q, self.D))
        affordable = int(MAX_ENTRIES / max(2.0 * mean_q * mean_d, 1.0))
        return min(self.n_steps, max(2000, self.n_steps // 25), max(MIN_STEPS, affordable))
