"""Metrics that count pairs: disagreement error, concordance index, Kendall's tau_b."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.metrics.ranked_queries import Array, RankedQueries
from rankwise.metrics.ranking_metric import ranking_metric
from rankwise.parameters import Choice

_ONE_LABEL = "only one row or only one distinct label"


@ranking_metric(
    "Disagreement error",
    options={"score_ties": Choice("half", "wrong"), "label_ties": Choice("exclude", "half")},
    undefined="skip",
    lacks=_ONE_LABEL,
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
        return _divide(twice, 2.0 * (total - label_tied))
    return _divide(twice + (label_tied - both_tied), 2.0 * total)


@ranking_metric("Concordance index", options={}, undefined="skip", lacks=_ONE_LABEL)
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


@ranking_metric("Kendall tau_b", options={}, undefined="skip", lacks=_ONE_LABEL)
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
    return _divide(concordant - discordant, np.sqrt(by_label * by_score))


def _divide(numerator: NDArray[Any], denominator: NDArray[Any]) -> Array:
    """The quotient, NaN where the denominator is 0."""
    out = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out
