"""A linear model that ranks like another model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.errors import DataError, RankwiseWarning
from rankwise.estimators.rankrls import RankRLS
from rankwise.metrics import disagreement_error, ndcg
from rankwise.metrics.ranking_scorer import are_grades
from rankwise.model_selection.meta_rankers import PairedDifference
from rankwise.model_selection.rows import LabelledRows, make_splits, take
from rankwise.routing import predict_with_queries

FOLDS = 5
CUTOFF = 10  # of NDCG


@dataclass(frozen=True, eq=False, repr=False)
class Distilled:
    """A linear ranker fitted to the scores of a model, and what that costs; made by `distil`.

    Attributes
    ----------
    ranker : RankRLS
        The linear ranker, fitted to all rows.
    agreement : float
        The share of pairs of held-out rows (of the same query) in the order of the model.
    loss : PairedDifference or None
        By how much NDCG@10 of the model exceeds NDCG@10 of linear rankers on queries held out
        from these; None without graded labels.
    n_rows : int
    """

    ranker: RankRLS
    agreement: float
    loss: PairedDifference | None
    n_rows: int

    def __str__(self) -> str:
        held_out = f"On held-out rows, {self.agreement:.1%} of the pairs are in the model's order"
        if self.loss is None:
            return f"{held_out}."
        error = self.loss.standard_error
        spread = "" if error != error else f" (standard error {error:.4f})"
        change = "lower" if self.loss.difference >= 0 else "higher"
        amount = f"{abs(self.loss.difference):.4f} {change}"
        return f"{held_out}, and NDCG@{CUTOFF} is {amount} than the model's{spread}."

    def __repr__(self) -> str:
        return f"<Distilled: {self}>"


def distil(model: Any, X: Any, y: Any = None, *, qid: Any = None) -> Distilled:
    """Fit a linear ranker to the scores that a model gives to rows.

    This is for targets that take linear models only. Take rows of queries like those the target
    will see; they need no labels. What is lost is measured on held-out queries: five times, a
    linear ranker is fitted to four fifths of them.

    Parameters
    ----------
    model : estimator
        A fitted ranker, pipeline or search.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,), optional
        Labels, for the loss in NDCG@10. They are not used for training. If the model was trained on
        these rows, its NDCG is too high, and so is the loss.
    qid : array-like of shape (n_rows,), optional
        The query of every row. None: one global ranking.

    Returns
    -------
    Distilled

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.export import distil, to_solr
    >>> data = make_ranking(30, n_features=3, n_levels=3, random_state=0)
    >>> model = RankRLS(1.0, kernel="rbf").fit(data.X, data.y, qid=data.qid)
    >>> distilled = distil(model, data.X, data.y, qid=data.qid)
    >>> distilled.agreement > 0.8
    True
    >>> to_solr(distilled.ranker).check.passed
    True
    """
    qid = to_host(qid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankwiseWarning)
        scores = np.asarray(to_host(predict_with_queries(model, X, qid)), dtype=np.float64)
    if scores.ndim != 1:
        raise DataError(
            f"A model with one score per row can be distilled: got {scores.shape[1]} scores."
        )
    if np.ptp(scores) == 0:
        raise DataError("The model gives all rows the same score: there is nothing to distil.")
    _check_complete(X)
    data = LabelledRows.of(X, scores, qid)
    ranker = _linear().fit(X, scores, qid=qid)
    held_out, folds = _held_out_scores(data, scores)
    agreement = 1.0 - float(disagreement_error(scores, held_out, _queries(data, folds)))
    labels = None if y is None else np.asarray(to_host(y))
    loss = None
    if labels is not None and are_grades(labels) and len(np.unique(labels)) > 1:
        by = _queries(data, folds)
        ours, theirs = (
            ndcg(labels, f, by, k=CUTOFF, per_query=True).values for f in (scores, held_out)
        )
        loss = PairedDifference.of(np.asarray(ours) - np.asarray(theirs))
    return Distilled(ranker, agreement, loss, len(scores))


def _linear() -> RankRLS:
    return RankRLS(scale="standard")


def _held_out_scores(data: LabelledRows, scores: Array) -> tuple[Array, Any]:
    """Scores of linear rankers that were fitted without the query of the row, and the folds."""
    n_units = data.groups.n_groups if data.qid is not None else len(data) // 2
    if n_units < 2:
        raise DataError(
            "To measure the loss, whole queries are held out: at least two are needed, or, "
            "without qid, four rows."
        )
    splits = make_splits(min(FOLDS, n_units), data, None)
    out, folds = np.empty(len(scores)), np.empty(len(scores), dtype=np.intp)
    for k, test in enumerate(splits.tests):
        train = splits.train(k, len(data))
        ranker = _linear().fit(take(data.X, train), scores[train], qid=data.queries(train))
        out[test], folds[test] = ranker.predict(take(data.X, test)), k
    return out, folds


def _queries(data: LabelledRows, folds: Any) -> Any:
    """Rows that are compared: the rows of a query, or of a fold in one global ranking."""
    return folds if data.qid is None else data.qid


def _check_complete(X: Any) -> None:
    if is_sparse(X):
        return
    try:
        values = np.asarray(to_host(X), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "The rows have text, but a linear model needs numbers: make a feature for each "
            "category, and fit to these, or export the model to ONNX."
        ) from None
    if np.isnan(values).any():
        column = int(np.argmax(np.isnan(values).any(axis=0)))
        raise DataError(
            f"Column {column} has missing values. A linear model cannot be fitted to them: give "
            "rows that have every feature."
        )
