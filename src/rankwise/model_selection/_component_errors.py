"""How many components? Held-out errors for every number of them."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from rankwise.errors import ParameterError
from rankwise.estimators.components.held_out_errors import ComponentErrors
from rankwise.estimators.components.kpcrank import ComponentMixin


def component_errors(estimator: Any, X: Any, y: Any, *, qid: Any = None) -> ComponentErrors:
    """Held-out errors for 1, 2, 3, ... components, as ``n_components="cv"`` looks at them.

    What is held out, and what the components have seen of it, is up to the parameter `cv` of the
    estimator:

    - a number: folds of queries (of rows, without qid), each with a refit whose components know
      nothing of the fold. O(m^2 p) time for each.
    - "leave_query_out": every query, exactly and without a refit, in the space of the components of
      all rows. Components know the features of the held-out rows, though never a label: a little
      optimistic where queries are few or unlike each other. O(m^2 p) time for the components,
      O(m p^2 log q) for q queries, and some p^3 for each.
    - "leave_pair_out": every pair of rows of one ranking, likewise. O(m^2) time for each number.

    Parameters
    ----------
    estimator : KPCRank or KPCR
        Its `alpha`, `cv` and `max_components` count; its `n_components` does not.
    X, y, qid
        As for its `fit`.

    Returns
    -------
    ComponentErrors

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRank
    >>> from rankwise.model_selection import component_errors
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((200, 2)), np.arange(200) // 10
    >>> y = X[:, 0] + rng.standard_normal(200)
    >>> found = component_errors(KPCRank(cv="leave_query_out", max_components=8), X, y, qid=qid)
    >>> found.n_components
    array([1, 2, 3, 4, 5, 6, 7, 8])
    >>> found.one_se_n_components <= found.best_n_components
    True
    """
    if not isinstance(estimator, ComponentMixin):
        raise ParameterError(
            f"component_errors needs a KPCRank or KPCR: got {type(estimator).__name__}."
        )
    ranker = clone(estimator).set_params(n_components="cv")
    problem = ranker.problem(X, y, qid=qid)
    (errors,) = problem.space.errors(problem, [float(ranker.alpha)])
    return errors
