"""Ratings from single battles, by dense Newton steps."""

from itertools import combinations

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm


def outcome_probabilities(eta, tau, link, ties):
    """P(first), P(second) and, with a model of ties, P(tie) of one battle."""
    if link == "logit":
        first, second = np.exp(eta / 2), np.exp(-eta / 2)
        shares = [first, second, np.exp(tau)] if ties else [first, second]
        return np.array(shares) / sum(shares)
    if not ties:
        return np.array([norm.cdf(eta), norm.cdf(-eta)])
    first, second = norm.cdf(eta - np.exp(tau)), norm.cdf(-eta - np.exp(tau))
    return np.array([first, second, 1 - first - second])


def battle_log_likelihood(params, battle, n_items, link, ties):
    """Of one battle: (first, second, outcome, x); parameters as in `Layout`."""
    first, second, outcome, x = battle
    eta = params[first] - params[second] + x @ params[n_items : n_items + len(x)]
    tau = params[n_items + len(x)] if ties else 0.0
    return _log(outcome_probabilities(eta, tau, link, ties), outcome)


def _log(p, outcome):
    if outcome < len(p):
        return np.log(p[outcome])
    return 0.5 * (np.log(p[0]) + np.log(p[1]))  # a tie as two half wins


def judged_log_likelihood(common, effects, battle, link, ties, deviation=None):
    """Of one battle: (first, second, outcome, x, judge, gold), before a judge with effects.

    `common` has "items", "columns", "tie", "slip" and "gold", perhaps "item_ties", and `effects`
    has arrays of "slope", "ties", "place" and "slips", as far as there are any. The mean over two
    slopes.
    """
    first, second, outcome, x, judge, gold = battle
    own = {kind: values[judge] for kind, values in effects.items()}
    of_items = common.get("item_ties", np.zeros(len(common["items"])))
    tie = common["tie"] + of_items[first] + of_items[second]
    d = common["items"][first] - common["items"][second]
    if gold:  # 1: the first item is right, 2: the second, 3: neither
        d = {1: 1.0, 2: -1.0, 3: 0.0}[gold] * common["gold"]
    total = []
    for sign in (1, -1):
        slope = 1 + own.get("slope", 0.0) + sign * (0.0 if deviation is None else deviation[judge])
        eta = slope * d + x @ common["columns"] + own.get("place", 0.0)
        p = outcome_probabilities(eta, tie + own.get("ties", 0.0), link, ties)
        if "slips" in own:
            share = 1 / (1 + np.exp(-common["slip"] - own["slips"]))
            p = (1 - share) * p + share / len(p)
        total.append(_log(p, outcome))
    return np.mean(total)


def dense_newton(battles, weights, n_items, penalty, ties=False, n_columns=0):
    """Ratings, coefficients and tie parameter of the logit model, battle by battle.

    Also minus the second derivatives of the penalized likelihood, and the gradient of each battle.
    """
    size = n_items + n_columns + ties
    params = np.zeros(size)
    for _ in range(60):
        H, scores = np.zeros((size, size)), np.zeros((len(battles), size))
        for k, (first, second, outcome, x) in enumerate(battles):
            d = np.zeros(size)
            d[first], d[second] = 1.0, -1.0
            d[n_items : n_items + n_columns] = x
            p = outcome_probabilities(d @ params, params[-1], "logit", ties)
            # A multinomial logit: the gradient is the features of the outcome less their mean.
            features = np.array([d / 2, -d / 2, np.eye(size)[-1]])[: len(p)]
            mean = p @ features
            chosen = features[outcome] if outcome < len(p) else features.mean(axis=0)
            scores[k] = weights[k] * (chosen - mean)
            H += weights[k] * ((features - mean).T * p) @ (features - mean)
        ridge = np.zeros(size)
        ridge[:n_items] = penalty
        H += np.diag(ridge)
        step = np.linalg.solve(H, scores.sum(axis=0) - ridge * params)
        params = params + step
        if abs(step).max() < 1e-13:
            break
    return params, H, scores


def evidence_penalty(battles, weights, n_items, **options):
    """The penalty at which penalty (|u|^2 + 2) = n - penalty trace(S) + 2, by bisection."""

    def excess(log_penalty):
        penalty = np.exp(log_penalty)
        params, H, _ = dense_newton(battles, weights, n_items, penalty, **options)
        known = n_items - penalty * np.trace(np.linalg.inv(H)[:n_items, :n_items])
        return np.log(known + 2) - np.log(penalty * (params[:n_items] @ params[:n_items] + 2))

    return np.exp(brentq(excess, -6, 6, xtol=1e-12))


def fewest_battles(n_battles, changes, most):
    """The size of the smallest set of battles without which something changes, by trying all."""
    for size in range(1, most + 1):
        if any(changes(removed) for removed in combinations(range(n_battles), size)):
            return size
    return None
