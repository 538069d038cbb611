"""Metrics that count pairs: disagreement error, concordance index, Kendall's tau_b."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rankwise.backends.arrays import Index
from rankwise.errors import UndefinedMetricError
from rankwise.graph.query_groups import QueryGroups
from rankwise.metric_names import register
from rankwise.metrics.ranked_queries import Array, RankedQueries, as_column
from rankwise.metrics.ranking_metric import divided, ranking_metric
from rankwise.parameters import Choice

_ONE_LABEL = "only one row or only one distinct label"


@ranking_metric(
    "disagreement",
    greater_is_better=False,
    options={"score_ties": Choice("half", "wrong"), "label_ties": Choice("exclude", "half")},
    undefined="skip",
    lacks=_ONE_LABEL,
    evaluated=("whole",),
)
def disagreement_error(
    ranked: RankedQueries, *, score_ties: str = "half", label_ties: str = "exclude"
) -> Array:
    r"""Share of the pairs of a query that the scores order wrongly, averaged over queries.

    .. math::

        \frac{1}{N} \sum_{i < j} W_{ij}\,
        \tfrac12 \left| \operatorname{sign}(y_i - y_j) - \operatorname{sign}(f_i - f_j) \right|,
        \qquad N = \sum_{i < j} W_{ij},

    within each query. A pair in the wrong order counts 1, a pair that ties on one side only
    counts 1/2, and 0 is perfect. With the defaults it is one minus the concordance index.

    Parameters
    ----------
    score_ties : {"half", "wrong"}, default="half"
        What a pair with different labels and equal scores counts: 1/2, as in (3) of [1]_, or 1.
        The second follows from sign(0) = -1 in [3]_ for a comparison seen from the preferred row.
        In equation (4) of that paper, where a symmetric W has each pair in both orders, a tie
        counts 1 in one order and 0 in the other. There the two conventions agree; they differ on
        comparisons that are listed in one direction only.
    label_ties : {"exclude", "half"}, default="exclude"
        Whether only pairs with different labels count (W_ij = 1 where the labels differ), or all
        pairs of a query, as on the all-pairs graph of [1]_. Equal labels with different scores
        then count 1/2, and 0 with equal scores.

    Notes
    -----
    O(n log n) time in the rows of a query, by Knight's algorithm; O(n) memory. Pairs are counted
    in integers.

    References
    ----------
    .. [1] Pahikkala, Tsivtsivadze, Airola, Boberg, Salakoski, "Learning to rank with pairwise
       regularized least-squares" (2007), equation (3).
    .. [2] Tsivtsivadze, Pahikkala, Airola, Boberg, Salakoski, "A sparse regularized
       least-squares preference learning algorithm" (2008), equation (1).
    .. [3] Tsivtsivadze, Cseke, Heskes, "Kernel principal component ranking" (2009), equation (4).

    Examples
    --------
    >>> disagreement_error([2, 1, 0], [0.9, 0.2, 0.4])  # one of three pairs
    0.3333
    >>> disagreement_error([1, 0], [0.5, 0.5])
    0.5
    >>> disagreement_error([1, 0], [0.5, 0.5], score_ties="wrong")
    1.0
    """
    total, discordant, label_tied, score_tied, both_tied = ranked.pair_counts.T
    weight = 1 if score_ties == "half" else 2
    twice = 2 * discordant + weight * (score_tied - both_tied)
    if label_ties == "exclude":
        return divided(twice, 2.0 * (total - label_tied))
    return divided(twice + (label_tied - both_tied), 2.0 * total)


@ranking_metric("concordance", undefined="skip", lacks=_ONE_LABEL)
def concordance_index(ranked: RankedQueries) -> Array:
    r"""Share of the pairs with different labels that the scores order correctly.

    .. math::

        \frac{|\{y_i > y_j, f_i > f_j\}| + \frac12 |\{y_i > y_j, f_i = f_j\}|}{|\{y_i > y_j\}|}

    within each query, averaged over queries. It is one minus `disagreement_error` and, for
    labels with two values, the area under the ROC curve (AUC).

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> concordance_index([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return 1.0 - disagreement_error.of_ranked(ranked)


register(replace(concordance_index.metric, name="auc", label="AUC"))


@ranking_metric(
    "kendall_tau", label="Kendall tau_b", undefined="skip", lacks=_ONE_LABEL, evaluated=("whole",)
)
def kendall_tau(ranked: RankedQueries) -> Array:
    r"""Kendall's rank correlation tau_b between labels and scores, averaged over queries.

    .. math::

        \tau_b = \frac{C - D}{\sqrt{(N - T_y)(N - T_f)}}

    with C concordant and D discordant pairs out of the N pairs of a query, of which T_y tie in
    the labels and T_f in the scores.

    Notes
    -----
    A query with different labels and equal scores has value 0, since such scores say nothing
    about the order. (SciPy returns NaN.) Which queries count therefore depends on the labels
    alone, and two rankers are averaged over the same queries.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> kendall_tau([3, 2, 1], [0.3, 0.2, 0.1])
    1.0
    >>> kendall_tau([2, 1, 1, 0], [0.9, 0.1, 0.5, 0.1], qid=["a", "a", "b", "b"])
    1.0
    """
    total, discordant, label_tied, score_tied, both_tied = ranked.pair_counts.T
    concordant = total - discordant - label_tied - score_tied + both_tied
    by_label = (total - label_tied).astype(np.float64)
    by_score = np.maximum(total - score_tied, 1).astype(np.float64)
    return divided(concordant - discordant, np.sqrt(by_label * by_score))


def weighted_concordance(y: Any, scores: Any, qid: Any, weights: Array) -> float:
    """The concordance index, where a pair counts the product of the weights of its rows.

    The share of correct pairs is averaged over the queries that have pairs of different labels, all
    with the same weight; rows of weight 0 are left out.

    O(n log n) time for each bit of the number of different labels.

    Examples
    --------
    >>> weighted_concordance([1, 0, 0], [0.5, 0.9, 0.1], None, np.array([1.0, 1.0, 3.0]))
    0.75
    """
    labels, values = as_column(y, "y"), as_column(scores, "scores")
    kept = np.flatnonzero(weights)
    groups = QueryGroups.of(qid, len(labels)).take(kept)
    labels, values, weights, code = labels[kept], values[kept], weights[kept], groups.codes
    weights = weights / np.bincount(code, weights)[code]  # does not change shares
    level, place = (np.unique(column, return_inverse=True)[1] for column in (labels, values))
    correct, total = np.zeros((2, groups.n_groups))
    # Two labels differ first in one bit: each pair is in one block of rows, one on either side.
    for bit in range(int(level.max(initial=0)).bit_length()):
        order = np.lexsort((place, level >> (bit + 1), code))
        query, block, score = code[order], level[order] >> (bit + 1), place[order]
        is_above = (level[order] >> bit) & 1 == 1
        below, above = (np.where(side, weights[order], 0.0) for side in (~is_above, is_above))
        blocks, ties = _Runs.of(query, block), _Runs.of(query, block, score)
        before = np.cumsum(below) - below
        lower = before[ties.start] - before[blocks.start]
        correct += np.bincount(query, above * (lower + 0.5 * ties.sums(below)), groups.n_groups)
        total += np.bincount(query, above * blocks.sums(below), groups.n_groups)
    if not (total > 0).any():
        raise UndefinedMetricError(
            f"The score is not defined for any of the {groups.n_groups} queries: each has only one "
            "row of weight above 0, or only one distinct label. Check y, qid and sample_weight."
        )
    return float((correct[total > 0] / total[total > 0]).mean())


class _Runs(NamedTuple):
    """Runs of rows that have the same values in some columns."""

    starts: Index
    start: Index  # of the run of each row

    @classmethod
    def of(cls, *columns: Index) -> _Runs:
        new = np.ones(len(columns[0]), dtype=bool)
        new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
        starts = np.flatnonzero(new)
        return cls(starts, np.repeat(starts, np.diff(np.append(starts, len(new)))))

    def sums(self, values: Array) -> Array:
        """The sum over the run of each row."""
        lengths = np.diff(np.append(self.starts, len(values)))
        return np.repeat(np.add.reduceat(values, self.starts), lengths)
