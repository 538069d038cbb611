"""Metrics by name, such as "ndcg@10" or "map"."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rankwise.errors import ParameterError
from rankwise.metric_labels import name_parts
from rankwise.metrics.graded_metrics import expected_reciprocal_rank, ndcg
from rankwise.metrics.pairwise import concordance_index, disagreement_error, kendall_tau
from rankwise.metrics.relevance_metrics import (
    average_precision,
    precision_at_k,
    rank_biased_precision,
    recall_at_k,
    reciprocal_rank,
    success_at_k,
)


class Metric(NamedTuple):
    """A metric ``function(y, scores, qid=None, ...)`` and whether larger values are better.

    Examples
    --------
    >>> from rankwise.metrics import get_metric
    >>> get_metric("ndcg@10").greater_is_better
    True
    """

    function: Callable[..., Any]
    greater_is_better: bool


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "disagreement": Metric(disagreement_error, False),
        "concordance": Metric(concordance_index, True),
        "auc": Metric(concordance_index, True),
        "kendall_tau": Metric(kendall_tau, True),
        "rbp": Metric(rank_biased_precision, True),
        "map": Metric(average_precision, True),
        "mrr": Metric(reciprocal_rank, True),
        "precision": Metric(precision_at_k, True),
        "recall": Metric(recall_at_k, True),
        "success": Metric(success_at_k, True),
        "err": Metric(expected_reciprocal_rank, True),
        "ndcg": Metric(ndcg, True),
    }
)

LARGEST_GRADE = 30
"""Larger whole numbers are not grades: the gain 2^y - 1 of NDCG would see only the largest."""


def get_metric(name: str) -> Metric:
    """Look up a metric by its name.

    Parameters
    ----------
    name : str
        A key of `METRICS`, in upper or lower case; ``"ndcg@5"``, ``"map@5"`` and the like set a
        cut-off.

    Returns
    -------
    Metric
        The function, and whether larger values are better.

    Examples
    --------
    >>> function, greater_is_better = get_metric("ndcg@1")
    >>> function([1, 0], [0.2, 0.7]), greater_is_better
    (0.0, True)
    """
    base, cutoff = name_parts(name)
    if base not in METRICS or (cutoff and not _takes(base, "k")):
        listed = ", ".join(repr(key) for key in METRICS)
        raise ParameterError(
            f"metric must be one of {listed}; those from 'map' on also with a cut-off, as in "
            f"'ndcg@10': got {name!r}."
        )
    metric = METRICS[base]
    if not cutoff:
        return metric
    return metric._replace(function=partial(metric.function, k=int(cutoff)))


def find_name(known: Iterable[str], name: str) -> str | None:
    """The one of some names that stands for the same metric; None if there is none.

    Parameters
    ----------
    known : iterable of str
    name : str

    Returns
    -------
    str or None

    Examples
    --------
    >>> find_name(["MAP", "P@5"], "precision@5"), find_name(["MAP"], "mrr")
    ('P@5', None)
    """
    known = list(known)
    if name in known:
        return name
    wanted = name_parts(name)
    return next((each for each in known if wanted[0] and name_parts(each) == wanted), None)


def look_up(means: Mapping[str, float], name: str, notes: Sequence[str] = ()) -> float:
    """The mean of a metric, by any of its names.

    Parameters
    ----------
    means : mapping of str to float
    name : str
    notes : sequence of str
        Which metrics are missing, and why.

    Returns
    -------
    float

    Raises
    ------
    KeyError
        If it is not there.

    Examples
    --------
    >>> look_up({"NDCG@10": 0.5}, "ndcg@10")
    0.5
    """
    found = find_name(means, name)
    if found is None:
        listed = ", ".join(repr(key) for key in means)
        raise KeyError(" ".join([f"There is no {name!r}, only {listed}.", *notes]))
    return means[found]


def counts_relevant(name: str) -> bool:
    """Whether a metric only counts rows as relevant or not, as "map" does.

    Parameters
    ----------
    name : str

    Returns
    -------
    bool

    Examples
    --------
    >>> counts_relevant("map@5"), counts_relevant("ndcg@5")
    (True, False)
    """
    return _takes(name_parts(name)[0], "relevant")


def _takes(base: str, option: str) -> bool:
    """Whether a metric declares an option."""
    return base in METRICS and option in inspect.signature(METRICS[base].function).parameters


def are_grades(y: Any) -> bool:
    """Whether labels are whole numbers from 0 to `LARGEST_GRADE`.

    Parameters
    ----------
    y : array-like

    Returns
    -------
    bool

    Examples
    --------
    >>> are_grades([0, 2, 1]), are_grades([0.5, 1])
    (True, False)
    """
    labels = np.asarray(y)
    return bool(((labels == np.floor(labels)) & (labels >= 0) & (labels <= LARGEST_GRADE)).all())


def default_metric(y: Any, n_queries: int) -> str:
    """The metric to choose by if none is named: ndcg@10 for grades in queries, else disagreement.

    Parameters
    ----------
    y : array-like
        Labels.
    n_queries : int

    Returns
    -------
    str

    Examples
    --------
    >>> default_metric([0, 2, 1, 0], n_queries=2), default_metric([0.5, 2.5], n_queries=1)
    ('ndcg@10', 'disagreement')
    """
    return "ndcg@10" if n_queries > 1 and are_grades(y) else "disagreement"
