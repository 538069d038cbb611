"""The Gaussian process on items that a session asks about."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.asking.item_scores import MANY, SPREAD, DenseScores
from rankwise.asking.items import Item
from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError

if TYPE_CHECKING:
    from rankwise.asking.many_items import ManyItems
    from rankwise.gp.pairwise_gp import PairwiseGP

OWN_SPREAD = 0.5  # prior variance of own parts beside features
SPREAD_BOUNDS = (0.02, 200.0)
SLIPS = 0.04  # share of slips to expect
SPREAD_SCALE, _SLIPS_SCALE = 1.2, 0.5  # of logarithms of hyperparameters
MARGINS = {"first": "first", "second": "second", "tie": "tie", "both_bad": "tie"}


_filters = Lock()  # those of warnings belong to all threads


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Items that were not compared yet, and raters who are new, are nothing to warn about."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True, order=True)
class Comparison:
    """An answer that counts: numbers of two items, who was better, who said so."""

    first: int
    second: int
    outcome: str  # a key of MARGINS
    rater: str

    def normalized(self) -> Comparison:
        """With the smaller number first."""
        if self.first < self.second:
            return self
        turned = {"first": "second", "second": "first"}.get(self.outcome, self.outcome)
        return Comparison(self.second, self.first, turned, self.rater)


@dataclass(frozen=True, eq=False)
class HeldOutAnswers:
    """What all other answers say about each answer.

    Attributes
    ----------
    probability : ndarray of shape (n_answers,)
        Of the outcome, if it is no slip.
    mean : ndarray of shape (n_answers,)
        By how much the first item is better.
    margin : ndarray of shape (n_answers,)
        1: the first won, 0: a tie, -1: the second won.
    """

    probability: Array
    mean: Array
    margin: Array


def model_of(items: Sequence[Item]) -> ItemModel | ManyItems:
    """A model of items that knows no answer yet."""
    rows = np.array([item.features for item in items]) if items[0].features else None
    if len(items) <= MANY:
        return ItemModel(len(items), rows)
    from rankwise.asking.many_items import ManyItems

    return ManyItems(len(items), rows)


class ItemModel:
    """Scores of items, learned from comparisons.

    Without features, the scores of items are independent before any comparison. With features, a
    score is a smooth function of these plus a part of the item's own. How far scores differ in
    relation to the noise of answers, how smooth the function is, how many answers are slips, and
    how reliable each rater is, is learned from the answers. Priors keep a few answers from saying
    too much about this.

    Parameters
    ----------
    n_items : int
    features : ndarray of shape (n_items, n_features), optional
    """

    def __init__(self, n_items: int, features: Array | None = None) -> None:
        self.n_items = n_items
        self.X = np.arange(float(n_items))[:, None]
        self._columns = 0
        if features is not None:
            scaled = standardized(np.asarray(features, dtype=np.float64), n_items)
            self._columns = scaled.shape[1]
            self.X = np.hstack((self.X, scaled))
        self.gp: PairwiseGP | None = None

    def fit(self, comparisons: Sequence[Comparison]) -> ItemModel:
        """Learn from comparisons; their order does not matter."""
        from rankwise.gp.pairwise_gp import PairwiseGP

        ordered = sorted(c.normalized() for c in comparisons)
        kernel = self._kernel()
        has_ties = any(MARGINS[c.outcome] == "tie" for c in ordered)
        scales = [SPREAD_SCALE] * (len(kernel.theta) + has_ties) + [_SLIPS_SCALE]
        gp = PairwiseGP(kernel, tie_model="threshold", flips=SLIPS, prior_scale=scales)
        given: dict[str, Any] = {}
        if len({c.rater for c in ordered}) > 1:
            given["rater"] = [c.rater for c in ordered]
        with _without_warnings():
            self.gp = gp.fit_pairs(self.X, _pairs(ordered), margin=_margins(ordered), **given)
        return self

    def tell(self, comparisons: Sequence[Comparison]) -> None:
        """Learn from further comparisons, without a new choice of hyperparameters."""
        assert self.gp is not None
        if not comparisons:
            return
        rater = None if self.gp.raters_ is None else [c.rater for c in comparisons]
        with _without_warnings():
            self.gp.tell(_pairs(comparisons), margin=_margins(comparisons), rater=rater)

    def scores(self) -> DenseScores:
        """Mean and covariance of scores, in units of the noise of an answer."""
        assert self.gp is not None
        mean, covariance = self.gp.training_moments()
        return DenseScores(mean.copy(), covariance.copy())

    def held_out(self) -> HeldOutAnswers:
        """What all other answers say about each answer, in the order of the fit."""
        assert self.gp is not None
        if not len(self.gp.pairs_):
            return HeldOutAnswers(np.zeros(0), np.zeros(0), np.zeros(0))
        held_out, margin, slips = self.gp.leave_one_out(), self.gp.margin_, self.gp.flips_
        column = np.where(margin > 0, 0, np.where(margin < 0, 2, 1))
        p = held_out.probabilities[np.arange(len(margin)), column]
        q = np.clip((p - slips) / (1.0 - 2.0 * slips), 0.0, 1.0)
        return HeldOutAnswers(q, held_out.mean, margin)

    @property
    def slips(self) -> float:
        """The share of slips among answers."""
        assert self.gp is not None
        return float(self.gp.flips_)

    def _kernel(self) -> Any:
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        from rankwise.gp.process import OnColumns

        if not self._columns:
            return WhiteKernel(SPREAD, SPREAD_BOUNDS)
        columns = np.arange(1, 1 + self._columns)
        width = median_distance(self.X[:, 1:])
        smooth = ConstantKernel(SPREAD, SPREAD_BOUNDS) * RBF(width, (0.1 * width, 30.0 * width))
        own = WhiteKernel(OWN_SPREAD, (1e-3, SPREAD_BOUNDS[1]))
        return OnColumns(smooth, columns) + OnColumns(own, np.arange(1))


def _pairs(comparisons: Sequence[Comparison]) -> Index:
    return np.array([(c.first, c.second) for c in comparisons], dtype=np.intp).reshape(-1, 2)


def _margins(comparisons: Sequence[Comparison]) -> Any:
    return np.array([MARGINS[c.outcome] for c in comparisons], dtype="U6")


def standardized(features: Array, n_items: int) -> Array:
    """Columns with mean 0 and variance 1, without constant ones."""
    if features.ndim != 2 or len(features) != n_items:
        raise DataError(
            f"features need one row for each of the {n_items} items: got shape {features.shape}."
        )
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise DataError(
            f"features must be finite numbers: row {row}, column {column} is "
            f"{features[row, column]}. Fill it, or leave the column out."
        )
    centred = features - features.mean(axis=0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    varies = spread > 1e-12 * np.abs(features).max(axis=0, initial=1.0)
    if not varies.any():
        raise DataError("features are the same for all items: leave them out.")
    return np.asarray(centred[:, varies] / spread[varies])


def median_distance(X: Array) -> float:
    from scipy.spatial.distance import pdist

    distances = pdist(X[:500])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0
