"""RankRLS with 120 digits: of all rows, of some of them, and of comparisons."""

import mpmath
import numpy as np

DIGITS = 120


class PreciseRanker:
    """Fits to any rows of a small problem: (L K + alpha I) a = L y.

    L centres the rows of each query that are left, as pairs with weights 1 / rows do.
    """

    def __init__(self, X, y, *, gamma=None):
        with mpmath.workdps(DIGITS):
            rows = [[mpmath.mpf(float(x)) for x in row] for row in X]
            self.y = [mpmath.mpf(float(label)) for label in y]
            self.K = mpmath.matrix([[_kernel(p, q, gamma) for q in rows] for p in rows])
            # The limit of small alphas, relative to distances of rows.
            size = max(self.distance(i, j) for i in range(len(rows)) for j in range(i))
            self.least = size * mpmath.mpf(10) ** -40  # its square is above 1e-120

    def distance(self, i, j):
        return self.K[i, i] + self.K[j, j] - 2 * self.K[i, j]

    def scores(self, out, rest, alpha, qid=None, *, intercept=False):
        """Scores of the rows `out` of a ranker that is trained on the rows `rest`."""
        with mpmath.workdps(DIGITS):
            n = len(rest)
            codes = [0] * n if qid is None else [qid[i] for i in rest]
            sizes = {code: codes.count(code) for code in codes}
            L = mpmath.matrix(n, n)
            for p in range(n):
                for q in range(n):
                    share = mpmath.mpf(int(codes[p] == codes[q])) / sizes[codes[p]]
                    L[p, q] = (p == q) - share
            a = self._weights(L, L * mpmath.matrix([self.y[i] for i in rest]), rest, alpha)
            scores = [self._score(i, rest, a) for i in out]
            if not intercept:
                return scores
            mean = mpmath.fsum(self.y[i] - self._score(i, rest, a) for i in rest) / n
            return [score + mean for score in scores]

    def without_comparison(self, pairs, margins, k, alpha):
        """The difference of pair k, of a ranker that is trained on the other comparisons."""
        with mpmath.workdps(DIGITS):
            n = len(self.y)
            L, b = mpmath.matrix(n, n), mpmath.matrix(n, 1)
            for other, (i, j) in enumerate(pairs):
                if other == k:
                    continue
                L[i, i] += 1
                L[j, j] += 1
                L[i, j] -= 1
                L[j, i] -= 1
                b[i] += mpmath.mpf(float(margins[other]))
                b[j] -= mpmath.mpf(float(margins[other]))
            rest = range(n)
            a = self._weights(L, b, rest, alpha)
            i, j = pairs[k]
            return self._score(i, rest, a) - self._score(j, rest, a)

    def _weights(self, L, b, rest, alpha):
        n = len(rest)
        K = mpmath.matrix([[self.K[i, j] for j in rest] for i in rest])
        lam = max(mpmath.mpf(alpha), self.least)
        return mpmath.lu_solve(L * K + lam * mpmath.eye(n), b)

    def _score(self, i, rest, a):
        return mpmath.fsum(self.K[i, j] * weight for j, weight in zip(rest, a, strict=True))


def _kernel(p, q, gamma):
    if gamma is None:
        return mpmath.fsum(a * b for a, b in zip(p, q, strict=True))
    distance = mpmath.fsum((a - b) ** 2 for a, b in zip(p, q, strict=True))
    # Less 1: dual weights sum to zero, so that constants do not matter.
    return mpmath.expm1(-mpmath.mpf(gamma) * distance)


def centred(scores):
    """Scores less their mean, as an array of floats."""
    with mpmath.workdps(DIGITS):
        mean = mpmath.fsum(scores) / len(scores)
        return np.array([float(score - mean) for score in scores])
