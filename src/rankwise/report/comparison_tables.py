"""Tables that compare rankers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwise.errors import DataError
from rankwise.metric_names import described, is_gain
from rankwise.metrics import RankingEvaluation, paired_test
from rankwise.tables import Column, Table


def comparison_table(
    evaluations: Mapping[str, RankingEvaluation],
    *,
    metrics: Sequence[str] | None = None,
    title: str = "",
    note: str = "",
) -> Table:
    """Rankers side by side, the best mean of each metric in bold.

    Every ranker but the first comes with the two-sided p-value of a paired Wilcoxon signed-rank
    test over queries between it and the first.

    Parameters
    ----------
    evaluations : mapping of str to RankingEvaluation
        Names and evaluations on the same rows, the ranker of interest first.
    metrics : sequence of str, optional
        Which metrics, in which order. By default all that every ranker has.
    title, note : str, optional
        Text above and below the table.

    Examples
    --------
    >>> from rankwise.metrics import evaluate_ranking
    >>> y, qid = [1, 0, 0, 1], ["a", "a", "b", "b"]
    >>> good, bad = evaluate_ranking(y, y, qid), evaluate_ranking(y, [1, 0, 1, 0], qid)
    >>> print(comparison_table({"good": good, "bad": bad}, metrics=["MAP", "disagreement"]))
    metric                            good     bad  p
    ------------------------------  ------  ------  -
    MAP                             1.0000  0.7500  1
    disagreement (lower is better)  0.0000  0.5000  1
    """
    if not evaluations:
        raise DataError("There is nothing to compare: give at least one evaluation.")
    (first_name, first), *others = evaluations.items()
    names = _common_metrics(evaluations, metrics)
    columns = [Column("metric", ""), Column(first_name)]
    for name, _ in others:
        columns += [Column(name), Column("p" if len(others) == 1 else f"p ({name})", ".2g")]
    rows: list[tuple[Any, ...]] = []
    best: set[tuple[int, int]] = set()
    for metric in names:
        row: list[Any] = [described(metric), first[metric]]
        for _, other in others:
            row += [other[metric], _p_value(first, other, metric)]
        best |= {(len(rows), c) for c in _best(row, metric)}
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows), title, note, frozenset(best))


def _common_metrics(
    evaluations: Mapping[str, RankingEvaluation], metrics: Sequence[str] | None
) -> list[str]:
    (first, *others) = evaluations.values()
    common = [name for name in first.means if all(name in other.means for other in others)]
    if metrics is None:
        return common
    unknown = [name for name in metrics if name not in common]
    if unknown:
        raise DataError(
            f"Not every ranker has {unknown[0]!r}. All have {', '.join(map(repr, common))}."
        )
    return list(metrics)


def _p_value(a: RankingEvaluation, b: RankingEvaluation, metric: str) -> float | None:
    """The p-value of a paired test; None for a single query."""
    if len(a.per_query[metric]) < 2:
        return None
    return paired_test(a, b, metric).p_value


def _best(row: Sequence[Any], metric: str) -> list[int]:
    """Columns with the best mean, as rounded in the table; none if there is a single mean."""
    columns = [1, *range(2, len(row), 2)]
    if len(columns) == 1:
        return []
    choose = max if is_gain(metric) else min
    shown = {c: round(float(row[c]), 4) for c in columns}
    return [c for c in columns if shown[c] == choose(shown.values())]
