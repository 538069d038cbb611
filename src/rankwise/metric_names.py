"""Metrics by name: what a metric declares, and how its name is typed and shown.

The metrics themselves are in `rankwise.metrics`, which registers them here. The names are in a
lower layer because tables, pictures and the command line also show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from rankwise.errors import ParameterError

Undefined: TypeAlias = float | Literal["skip", "raise"]
LARGEST_GRADE = 30
"""Larger whole numbers are not grades: the gain 2^y - 1 of NDCG would see only the largest."""


@dataclass(frozen=True)
class Metric:
    """A metric and what it declares; it unpacks as ``function, greater_is_better``.

    Attributes
    ----------
    function : callable
        ``function(y, scores, qid=None, ...)``.
    greater_is_better : bool
        False for errors.
    name : str
        What people type, in lower case.
    label : str
        What tables and pictures show; people may type it as well. Empty: the name.
    other_names : tuple of str
        Further names that people may type, in lower case.
    options : mapping of str to rule
        The valid values of each keyword parameter.
    undefined : float or {"skip", "raise"}
        What happens by default to a query where the metric is undefined.
    lacks : str
        Completes "query 7 has ..." for such a query; `str.format` fills in the options.
    evaluated : tuple of {"whole", "cutoffs"}
        Whether `evaluate_ranking` shows it for whole rankings, at cut-offs, both, or not at all.
    of : {"scores", "difference", "probability"}
        What is predicted: scores of rows, or for comparisons the difference of two scores or the
        probability that the first item wins.

    Examples
    --------
    >>> from rankwise.metrics import get_metric
    >>> get_metric("ndcg@10").greater_is_better
    True
    """

    function: Any
    greater_is_better: bool
    name: str = ""
    label: str = ""
    other_names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    undefined: Undefined = "skip"
    lacks: str = ""
    evaluated: tuple[str, ...] = ()
    of: str = "scores"

    def __iter__(self) -> Iterator[Any]:
        return iter((self.function, self.greater_is_better))

    @property
    def shown(self) -> str:
        """The label, or the name if there is none."""
        return self.label or self.name

    @property
    def takes_cutoff(self) -> bool:
        """Whether people may type a cut-off, as in "ndcg@10"."""
        return "k" in self.options

    @property
    def counts_relevant(self) -> bool:
        """Whether it only counts rows as relevant or not, as "map" does."""
        return "relevant" in self.options

    def options_from(self, rules: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the options that this metric has under the same rule."""
        return {
            option: values[option]
            for option, rule in rules.items()
            if option in values and self.options.get(option) == rule
        }


_RANKING: dict[str, Metric] = {}
_COMPARISON: dict[str, Metric] = {}

METRICS: Mapping[str, Metric] = MappingProxyType(_RANKING)
"""Metrics of rankings by name, in the order in which they were registered."""

COMPARISON_METRICS: Mapping[str, Metric] = MappingProxyType(_COMPARISON)
"""Metrics of predicted comparisons by name."""


def register(metric: Metric) -> None:
    """Make a metric known by its name; a later one of the same name replaces it."""
    (_RANKING if metric.of == "scores" else _COMPARISON)[metric.name] = metric


def get_metric(name: str) -> Metric:
    """Look up a metric by its name.

    Parameters
    ----------
    name : str
        A key of `METRICS`, in upper or lower case; ``"ndcg@5"``, ``"map@5"`` and the like set a
        cut-off, and ``"linear-ndcg@5"`` has linear gains.

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
    metric, cutoff = _find(name)
    if metric is None or (cutoff and not metric.takes_cutoff):
        listed = ", ".join(repr(known) for known in METRICS)
        cut = ", ".join(repr(known) for known, each in METRICS.items() if each.takes_cutoff)
        raise ParameterError(
            f"metric must be one of {listed}: got {name!r}. A cut-off, as in 'ndcg@10', is for "
            f"{cut}. 'linear-ndcg' has linear gains."
        )
    if cutoff is None:
        return metric
    return replace(metric, function=partial(metric.function, k=int(cutoff)))


def find_name(known: Iterable[str], name: str) -> str | None:
    """The known name of the same metric; None if there is none.

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
    wanted = metric_label(str(name)).lower()
    return next((each for each in known if metric_label(each).lower() == wanted), None)


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
        If the metric is missing.

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


def metric_label(name: str) -> str:
    """A metric as tables and pictures show it; other names as they are.

    Examples
    --------
    >>> metric_label("ndcg@10"), metric_label("precision@5"), metric_label("my score")
    ('NDCG@10', 'P@5', 'my score')
    """
    metric, cutoff = _find(name, METRICS, COMPARISON_METRICS)
    if metric is None:
        return name
    return metric.shown if cutoff is None else f"{metric.shown}@{cutoff}"


def described(name: str) -> str:
    """The label of a metric, and whether lower values are better.

    Examples
    --------
    >>> described("disagreement")
    'disagreement (lower is better)'
    """
    return metric_label(name) + ("" if is_gain(name) else " (lower is better)")


def is_gain(name: str) -> bool:
    """Whether greater values of a metric are better; True for unknown names.

    Examples
    --------
    >>> is_gain("map"), is_gain("disagreement"), is_gain("my score")
    (True, False, True)
    """
    metric, _ = _find(name, METRICS, COMPARISON_METRICS)
    return metric is None or metric.greater_is_better


def _find(name: str, *known: Mapping[str, Metric]) -> tuple[Metric | None, str | None]:
    """The metric of a name, or None; and the cut-off in the name."""
    import_module("rankwise.metrics")  # registers the metrics
    match = re.fullmatch(r"(linear[- ])?([^@]+)(?:@([1-9][0-9]*))?", str(name).lower())
    linear, base, cutoff = match.groups() if match else (None, "", None)
    for metrics in known or (METRICS,):
        for metric in metrics.values():
            if base in (metric.name, metric.shown.lower(), *metric.other_names):
                return (_linear(metric) if linear else metric), cutoff
    return None, cutoff


def _linear(metric: Metric) -> Metric | None:
    """A metric with linear gains; None if it has no gains."""
    if "gain" not in metric.options:
        return None
    return replace(
        metric,
        function=partial(metric.function, gain="linear"),
        name=f"linear-{metric.name}",
        label=f"linear {metric.shown}",
        options={name: rule for name, rule in metric.options.items() if name != "gain"},
    )


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
    return _kind_of(y) == "grades"


def are_fractions(y: Any) -> bool:
    """Whether labels are from 0 to `LARGEST_GRADE`, but not all of them whole numbers.

    Parameters
    ----------
    y : array-like

    Returns
    -------
    bool

    Examples
    --------
    >>> are_fractions([0.5, 1]), are_fractions([0, 1]), are_fractions([-0.5, 1])
    (True, False, False)
    """
    return _kind_of(y) == "fractions"


def _kind_of(y: Any) -> str:
    """The kind of labels: grades, fractions, or an empty string for others."""
    import numpy as np  # imported late: the command line lists metrics without it

    labels = np.asarray(y)
    if not ((labels >= 0) & (labels <= LARGEST_GRADE)).all():
        return ""
    return "grades" if (labels == np.floor(labels)).all() else "fractions"


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
