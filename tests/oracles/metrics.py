"""Ranking metrics of one query from their definitions: loops over pairs, all orders of ties.

Every function returns None if the metric is undefined.
"""

from itertools import permutations, product
from math import log2, sqrt


def sign(r):
    """The sign function of the RankRLS paper: 0 at 0."""
    return (r > 0) - (r < 0)


def sign_minus(r):
    """The sign function of the KPCRank paper: -1 at 0."""
    return 1 if r > 0 else -1


def disagreement(y, f, score_ties="half", label_ties="exclude"):
    """Equation (3) of the RankRLS paper over the number of pairs, pair by pair."""
    cost, counted = 0.0, 0
    for i in range(len(y)):
        for j in range(i):
            if label_ties == "exclude" and y[i] == y[j]:
                continue
            counted += 1
            if score_ties == "wrong" and y[i] != y[j] and f[i] == f[j]:
                cost += 1
            else:
                cost += abs(sign(y[i] - y[j]) - sign(f[i] - f[j])) / 2
    return cost / counted if counted else None


def one_sided_disagreement(y, f):
    """Share of the comparisons "i is preferred to j", each in this one direction, by sign_minus."""
    costs = [
        abs(sign_minus(y[i] - y[j]) - sign_minus(f[i] - f[j])) / 2
        for i in range(len(y))
        for j in range(len(y))
        if y[i] > y[j]
    ]
    return sum(costs) / len(costs) if costs else None


def symmetric_disagreement(y, f, sign, label_ties):
    """Equation (1) of the sparse RankRLS paper: all ordered pairs, with either signum function."""
    costs = [
        abs(sign(y[i] - y[j]) - sign(f[i] - f[j])) / 2
        for i in range(len(y))
        for j in range(len(y))
        if i != j and (label_ties == "half" or y[i] != y[j])
    ]
    return sum(costs) / len(costs) if costs else None


def tau_b(y, f):
    """Kendall's tau_b; 0 if all scores are equal but the labels are not."""
    agree = by_label = by_score = 0
    for i in range(len(y)):
        for j in range(i):
            agree += sign(y[i] - y[j]) * sign(f[i] - f[j])
            by_label += y[i] != y[j]
            by_score += f[i] != f[j]
    if not by_label:
        return None
    return agree / sqrt(by_label * by_score) if by_score else 0.0


def orders(f, score_ties):
    """Every order of the rows by descending score that the treatment of ties allows."""
    stable = sorted(range(len(f)), key=lambda i: -f[i])
    if score_ties == "order":
        return [stable]
    blocks = [[i for i in stable if f[i] == score] for score in sorted(set(f), reverse=True)]
    return [sum(parts, ()) for parts in product(*(permutations(block) for block in blocks))]


def expected(metric, y, f, score_ties):
    """The mean of a metric of ranked labels over all orders of ties."""
    values = [metric([y[i] for i in order]) for order in orders(f, score_ties)]
    return None if values[0] is None else sum(values) / len(values)


def average_precision(y, f, k=None, relevant=1, score_ties="average"):
    def of_order(ranked):
        hits = [label >= relevant for label in ranked]
        if not any(hits):
            return None
        precisions = [sum(hits[: r + 1]) / (r + 1) for r in range(len(hits[:k])) if hits[r]]
        return sum(precisions) / sum(hits)

    return expected(of_order, y, f, score_ties)


def reciprocal_rank(y, f, k=None, relevant=1, score_ties="average"):
    def of_order(ranked):
        ranks = [r for r, label in enumerate(ranked, start=1) if label >= relevant]
        if not ranks:
            return None
        return 1 / ranks[0] if k is None or ranks[0] <= k else 0.0

    return expected(of_order, y, f, score_ties)


def precision_at_k(y, f, k, relevant=1, score_ties="average"):
    def of_order(ranked):
        if not any(label >= relevant for label in ranked):
            return None
        return sum(label >= relevant for label in ranked[:k]) / k

    return expected(of_order, y, f, score_ties)


def recall_at_k(y, f, k, relevant=1, score_ties="average"):
    def of_order(ranked):
        hits = [label >= relevant for label in ranked]
        return sum(hits[:k]) / sum(hits) if any(hits) else None

    return expected(of_order, y, f, score_ties)


def success_at_k(y, f, k, relevant=1, score_ties="average"):
    def of_order(ranked):
        hits = [label >= relevant for label in ranked]
        return float(any(hits[:k])) if any(hits) else None

    return expected(of_order, y, f, score_ties)


def rank_biased_precision(y, f, persistence=0.8, relevant=1, score_ties="average"):
    def of_order(ranked):
        hits = [label >= relevant for label in ranked]
        if not any(hits):
            return None
        return (1 - persistence) * sum(persistence**r for r, hit in enumerate(hits) if hit)

    return expected(of_order, y, f, score_ties)


def expected_reciprocal_rank(y, f, max_grade, k=None, score_ties="average"):
    def of_order(ranked):
        if max(ranked) <= 0:
            return None
        total, reached = 0.0, 1.0
        for rank, label in enumerate(ranked[:k], start=1):
            stop = (2**label - 1) / 2**max_grade
            total += reached * stop / rank
            reached *= 1 - stop
        return total

    return expected(of_order, y, f, score_ties)


def ndcg(y, f, k=None, gain="exponential", discount="log2", score_ties="average"):
    def dcg(ranked):
        total = 0.0
        for rank, label in enumerate(ranked[:k], start=1):
            worth = 2**label - 1 if gain == "exponential" else label
            if discount == "log2":
                total += worth / log2(rank + 1)
            else:
                total += worth if rank == 1 else worth / log2(rank)
        return total

    best = dcg(sorted(y, reverse=True))
    if not best:
        return None
    return expected(lambda ranked: dcg(ranked) / best, y, f, score_ties)


def by_query(metric, y, f, qid, undefined):
    """{query: value} in order of first appearance, with `undefined` as in the library."""
    values = {}
    for query in dict.fromkeys(qid):
        rows = [i for i in range(len(y)) if qid[i] == query]
        value = metric([y[i] for i in rows], [f[i] for i in rows])
        if value is None and undefined != "skip":
            value = undefined
        if value is not None:
            values[query] = value
    return values
