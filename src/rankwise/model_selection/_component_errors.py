"""Held-out errors for every number of components."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from rankwise.errors import ParameterError
from rankwise.estimators.component_choice import ComponentErrors
from rankwise.estimators.kpcrank import ComponentMixin
from rankwise.parameters import check_alphas


def component_errors(
    estimator: Any, X: Any, y: Any, *, qid: Any = None, alphas: Any = None
) -> ComponentErrors | list[ComponentErrors]:
    """Held-out errors for 1, 2, 3, ... components, which ``n_components="cv"`` chooses by.

    The parameter `cv` of the estimator defines what is held out:

    - an integer: folds of queries (of rows, without qid). Each fold is held out of a refit,
      including its components. O(m^2 p) time for each fold.
    - "leave_query_out": every query, exactly and without refits, with the components of all rows.
      The components use the features of held-out rows, but no labels. The errors are therefore
      slightly optimistic if queries are few or very different. O(m^2 p) time for the components,
      O(m p^2 log q) for q queries, and O(p^3) for each query.
    - "leave_pair_out": every pair of rows of one ranking, also exactly and with the components of
      all rows. O(m^2) time for each number of components.

    The smallest of these errors is too small as an estimate for new rows, because it is chosen:
    report `nested_error` of the result.

    Parameters
    ----------
    estimator : KPCRank or KPCR
        Its parameter `n_components` is ignored.
    X, y, qid
        As for `fit` of the estimator.
    alphas : sequence of float, optional
        Ridge penalties to use in place of the parameter `alpha`. All share the components.

    Returns
    -------
    ComponentErrors or list of ComponentErrors
        With `alphas`, a list with the errors for each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import ComponentOptions, KPCRank
    >>> from rankwise.model_selection import component_errors
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((200, 2)), np.arange(200) // 10
    >>> y = X[:, 0] + rng.standard_normal(200)
    >>> options = ComponentOptions(cv="leave_query_out", max_components=8)
    >>> found = component_errors(KPCRank(options=options), X, y, qid=qid)
    >>> found.n_components
    array([1, 2, 3, 4, 5, 6, 7, 8])
    >>> found.one_se_n_components <= found.best_n_components
    True
    >>> len(component_errors(KPCRank(options=options), X, y, qid=qid, alphas=[0.0, 1.0]))
    2
    """
    if not isinstance(estimator, ComponentMixin):
        raise ParameterError(
            f"component_errors needs a KPCRank or KPCR: got {type(estimator).__name__}."
        )
    if alphas is None and estimator.alpha == "auto":
        raise ParameterError(
            'component_errors needs numbers: alpha is "auto". Give alphas, as in '
            "alphas=[0.0, 0.1, 1.0], or set alpha to a number."
        )
    ranker = clone(estimator).set_params(n_components="cv")
    problem = ranker.make_problem(X, y, qid=qid)
    given = [float(ranker.alpha)] if alphas is None else check_alphas(alphas).tolist()
    errors: list[ComponentErrors] = problem.space.errors(problem, given)
    return errors[0] if alphas is None else errors
