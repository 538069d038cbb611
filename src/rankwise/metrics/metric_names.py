"""Metrics by name, such as "ndcg@10" or "map"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rankwise.errors import ParameterError
from rankwise.graph.query_groups import QueryGroups
from rankwise.metrics.listwise import average_precision, ndcg, precision_at_k, reciprocal_rank
from rankwise.metrics.pairwise import concordance_index, disagreement_error, kendall_tau


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
        "map": Metric(average_precision, True),
        "mrr": Metric(reciprocal_rank, True),
        "precision": Metric(precision_at_k, True),
        "ndcg": Metric(ndcg, True),
    }
)
_PRINTED = {"p": "precision", "kendall tau_b": "kendall_tau"}  # the names in tables
_WITH_CUTOFF = ("precision", "ndcg")


def get_metric(name: str) -> Metric:
    """Look up a metric by its name.

    Parameters
    ----------
    name : str
        A key of `METRICS`, in upper or lower case; ``"ndcg@5"`` and ``"precision@5"`` set the
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
    match = re.fullmatch(r"([a-z_ ]+)(?:@([1-9][0-9]*))?", str(name).lower())
    base, cutoff = match.groups() if match else ("", None)
    base = _PRINTED.get(base, base)
    if base not in METRICS or (cutoff and base not in _WITH_CUTOFF):
        listed = ", ".join(repr(key) for key in METRICS)
        raise ParameterError(
            f"metric must be one of {listed}, the last two also with a cut-off, as in 'ndcg@10': "
            f"got {name!r}."
        )
    metric = METRICS[base]
    if not cutoff:
        return metric
    return metric._replace(function=partial(metric.function, k=int(cutoff)))


def default_metric(y: Any, groups: QueryGroups) -> str:
    """The metric to choose rankers by, where the user has named none.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    groups : QueryGroups

    Returns
    -------
    str
        "ndcg@10" if there are several queries and all labels are grades, that is, whole numbers
        from 0 to 30; "disagreement" otherwise.
    """
    labels = np.asarray(y)
    grades = labels.min() >= 0 and labels.max() <= 30 and bool((labels == labels.round()).all())
    return "ndcg@10" if groups.n_groups > 1 and grades else "disagreement"
