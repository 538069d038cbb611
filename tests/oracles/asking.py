"""What a session knows, computed in the plainest way."""

import itertools

import numpy as np


def wrong_pairs(order, scores):
    """The share of pairs of an order, the best first, whose second item has the higher score."""
    pairs = list(itertools.combinations(order, 2))
    return sum(scores[j] > scores[i] for i, j in pairs) / len(pairs)


def best_items(scores, k):
    """The set of the k items with the highest scores."""
    return set(sorted(range(len(scores)), key=lambda i: -scores[i])[:k])


def outcome_information(mean, variance, slips):
    """Mutual information of an answer and a difference of N(mean, variance), by quadrature."""
    from scipy.stats import norm

    z = np.linspace(-8, 8, 2001)
    weight = norm.pdf(z)
    weight /= weight.sum()
    p = slips + (1 - 2 * slips) * norm.cdf(mean + np.sqrt(variance) * z)

    def entropy(p):
        return -p * np.log(p) - (1 - p) * np.log1p(-p)

    return entropy(weight @ p) - weight @ entropy(p)


class PlainLog:
    """Which answers count: a list of operations, gone through from the start every time."""

    def __init__(self):
        self.operations = []

    def counted(self):
        """(first, second, outcome, rater) of each answer that counts, in no order."""
        answers, dropped = {}, set()
        for kind, *given in self.operations:
            if kind == "answer":
                number, *rest = given
                answers[number] = [*rest, True]
            elif kind == "undo":
                mine = [n for n, a in answers.items() if a[3] == given[0] and a[4]]
                if mine:
                    answers[max(mine)][4] = False
            elif kind == "withdraw":
                answers[given[0]][4] = False
            elif kind == "change":
                answers[given[0]][2], answers[given[0]][4] = given[1], True
            elif kind == "drop":
                (dropped.add if given[1] else dropped.discard)(given[0])
        return sorted(
            tuple(a[:4])
            for a in answers.values()
            if a[4] and a[2] != "skip" and a[3] not in dropped
        )
