"""Least-squares rankers by their stable names, so that no test needs a list of them."""

from rankwise.estimators.base import LeastSquaresRanker
from rankwise.rankers import RANKERS, ranker_class


def least_squares_rankers(*, besides=()):
    """The classes of registered least-squares rankers that are not among `besides`."""
    classes = [ranker_class(name) for name in RANKERS]
    known = {type(ranker) if not isinstance(ranker, type) else ranker for ranker in besides}
    return [c for c in classes if issubclass(c, LeastSquaresRanker) and c not in known]
