"""PairwiseGP: cost and accuracy of a posterior with uncertainty.

BoTorch's PairwiseGP is an optional peer: if it is not installed, its claims are skipped. Davidson's
model has 60 numbers to find; the process has a distribution of 59 ratings, and chooses its scale.
The posterior takes six sweeps, each about five factorizations.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV

from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import PairwiseGP

ROWS, COMPARISONS, FLIPPED, NEW = 400, 1000, 0.05, 5000
VOTED, VOTES, TIES = 59, 8931, 0.39
LINEAR_ROWS, LINEAR_COLUMNS, LINEAR_PAIRS = 7861, 40, 4000
ASKED = 1000
ITEMS, PAIRS = 2000, 5000
MANY_ITEMS, MANY_PAIRS, LANDMARKS = 50_000, 100_000, 300


def sinc_problem(seed: int) -> dict[str, Any]:
    """Comparisons of points by sinc, some of them flipped; new pairs with and without flips."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, (ROWS, 1))
    first = rng.integers(0, ROWS, COMPARISONS)
    second = (first + rng.integers(1, ROWS, COMPARISONS)) % ROWS
    ahead = np.sinc(X[first, 0]) > np.sinc(X[second, 0])
    ahead ^= rng.random(COMPARISONS) < FLIPPED
    both = np.column_stack((first, second))
    new = rng.uniform(-4, 4, (2, NEW, 1))
    truth = np.sinc(new[0, :, 0]) > np.sinc(new[1, :, 0])
    return {
        "X": X,
        "pairs": np.where(ahead[:, None], both, both[:, ::-1]),
        "new": new,
        "truth": truth,
        "noisy": truth ^ (rng.random(NEW) < FLIPPED),
    }


def figures(problem: dict[str, Any], chance: Any) -> tuple[float, float]:
    """Pair error, and minus the mean log-likelihood of noisy comparisons."""
    error = float(np.mean((chance > 0.5) != problem["truth"]))
    loss = -float(np.log(np.where(problem["noisy"], chance, 1 - chance)).mean())
    return error, loss


def ours(problem: dict[str, Any]) -> Any:
    gp = PairwiseGP().fit_pairs(problem["X"], problem["pairs"])
    return gp.predict_preference(*problem["new"], observed=True)


def nystroem(problem: dict[str, Any]) -> Any:
    """Logistic regression on differences of Nystroem features, tuned by five folds."""
    X, pairs = problem["X"], problem["pairs"]
    sign = np.where(np.arange(len(pairs)) % 2, 1, -1)
    best: tuple[float, Any, Any] = (-np.inf, None, None)
    for gamma in (0.5, 1.0, 2.0, 4.0, 8.0):
        features = Nystroem(gamma=gamma, n_components=100, random_state=0).fit(X)
        F = features.transform(X)
        search = GridSearchCV(
            LogisticRegression(fit_intercept=False, max_iter=3000),
            {"C": np.logspace(-1, 4, 11)},
            scoring="neg_log_loss",
        ).fit((F[pairs[:, 0]] - F[pairs[:, 1]]) * sign[:, None], sign)
        if search.best_score_ > best[0]:
            best = (search.best_score_, features, search)
    _, features, search = best
    first, second = (features.transform(part) for part in problem["new"])
    return search.predict_proba(first - second)[:, 1]


def botorch(problem: dict[str, Any]) -> tuple[float, Any]:
    """Seconds of the fit, and the predicted probabilities."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP as Peer
    from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.perf_counter()
        model = Peer(torch.tensor(problem["X"]), torch.tensor(problem["pairs"]))
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        spent = time.perf_counter() - begin
        with torch.no_grad():
            both = model.posterior(torch.tensor(np.stack(tuple(problem["new"]), axis=1)))
            mean = both.mean.squeeze(-1).numpy()
            cov = both.distribution.covariance_matrix.numpy()
    variance = cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    # Its noise has a standard deviation of sqrt 2 in a difference.
    return spent, ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(variance + 2.0))


def beside_peers() -> list[Result]:
    what = f"sinc, {FLIPPED:.0%} flipped, n = {ROWS}, N = {COMPARISONS}"
    problem = sinc_problem(0)
    PairwiseGP().fit_pairs(problem["X"], problem["pairs"][:50])  # compiles
    (error, loss), (peer_error, peer_loss) = (
        figures(problem, f(problem)) for f in (ours, nystroem)
    )
    results = [
        Result(
            f"log-loss of new comparisons, {what}",
            f"{loss:.4f} (pair error {error:.4f})",
            f"logistic regression on Nystroem features: {peer_loss:.4f} ({peer_error:.4f})",
            loss / peer_loss,
            1.0,
        )
    ]
    if importlib.util.find_spec("botorch") is None:
        print("BoTorch is not installed: its claims are skipped.", file=sys.stderr)
        return results
    best, chance = botorch(problem)
    (spent,) = best_times(lambda: PairwiseGP().fit_pairs(problem["X"], problem["pairs"]), repeats=2)
    best = min(best, botorch(problem)[0])  # the first call loads and compiles
    peer_error, peer_loss = figures(problem, chance)
    return [
        *results,
        Result(f"fit, {what}", seconds(spent), f"BoTorch: {seconds(best)}", spent / best, 0.5),
        Result(
            f"log-loss of new comparisons, {what}",
            f"{loss:.4f} (pair error {error:.4f})",
            f"BoTorch: {peer_loss:.4f} ({peer_error:.4f})",
            loss / peer_loss,
            1.0,
        ),
    ]


def many_rows() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ITEMS, 8))
    f = 2 * np.sin(X).sum(axis=1)
    first = rng.integers(0, ITEMS, PAIRS)
    second = (first + rng.integers(1, ITEMS, PAIRS)) % ITEMS
    ahead = f[first] - f[second] + rng.standard_normal(PAIRS) > 0
    both = np.column_stack((first, second))
    pairs = np.where(ahead[:, None], both, both[:, ::-1])
    kernel = 10.0 * Matern(4.0, nu=2.5)  # of full rank: the hardest case
    gp = PairwiseGP(kernel, optimizer=None)
    gp.fit_pairs(X[:50], [[0, 1], [2, 3]])
    K = np.asfortranarray(kernel(X) + np.eye(ITEMS))
    fitted, cholesky = best_times(
        lambda: gp.fit_pairs(X, pairs),
        lambda: lapack.dpotrf(K, lower=1, clean=0, overwrite_a=0),
        repeats=2,
    )
    return [
        Result(
            f"posterior, n = {ITEMS}, N = {PAIRS}, fixed hyperparameters",
            seconds(fitted),
            f"one Cholesky factorization of {ITEMS}: {seconds(cholesky)}",
            fitted / cholesky,
            35.0,
        )
    ]


def inducing() -> list[Result]:
    extra = extra_memory(many_problem, fit_many)
    problem = many_problem()
    begin = time.perf_counter()
    gp = fit_many(problem)
    spent = time.perf_counter() - begin
    score = gp.score(problem[0][:5000], problem[2][:5000])
    size = f"n = {MANY_ITEMS:,}, N = {MANY_PAIRS:,}, {LANDMARKS} landmarks"
    return [
        Result(f"memory of a fit, {size}", megabytes(extra), "4 GiB", extra / 2**32, 1.0),
        Result(
            f"fit with fixed hyperparameters, {size}",
            f"{seconds(spent)}, {score:.4f} of pairs right",
            "a minute",
            spent / 60,
            float("inf"),
        ),
    ]


def many_problem() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((MANY_ITEMS, 4))
    f = 2 * np.sin(2 * X).sum(axis=1)
    first = rng.integers(0, MANY_ITEMS, MANY_PAIRS)
    second = (first + rng.integers(1, MANY_ITEMS, MANY_PAIRS)) % MANY_ITEMS
    ahead = f[first] - f[second] + rng.standard_normal(MANY_PAIRS) > 0
    both = np.column_stack((first, second))
    PairwiseGP(optimizer=None).fit_pairs(X[:50], [[0, 1], [2, 3]])
    return X, np.where(ahead[:, None], both, both[:, ::-1]), f


def fit_many(problem: tuple[Any, Any, Any]) -> PairwiseGP:
    X, pairs, _ = problem
    gp = PairwiseGP(
        10.0 * RBF(1.5), optimizer=None, n_landmarks=LANDMARKS, landmarks="kmeans", random_state=0
    )
    return gp.fit_pairs(X, pairs)


def votes_with_ties() -> tuple[Any, Any, Any]:
    """Items without features, and votes of which 39% are ties."""
    rng = np.random.default_rng(0)
    quality = 0.8 * rng.standard_normal(VOTED)
    first = rng.integers(0, VOTED, VOTES)
    second = (first + rng.integers(1, VOTED, VOTES)) % VOTED
    gap = quality[first] - quality[second] + rng.standard_normal(VOTES)
    tie = np.abs(gap) < np.quantile(np.abs(gap), TIES)
    return quality, np.column_stack((first, second)), np.where(tie, 0.0, np.sign(gap))


def davidson(pairs: Any, outcome: Any) -> Any:
    """Davidson's model of ties by maximum likelihood, with its gradient: one term for each vote."""
    first, second = pairs.T
    win, loss = (outcome > 0).astype(float), (outcome < 0).astype(float)
    tie = 1.0 - win - loss

    def objective(x: Any) -> tuple[float, Any]:
        score, nu = x[:-1], x[-1]
        terms = np.stack((score[first], score[second], nu + 0.5 * (score[first] + score[second])))
        top = terms.max(axis=0)
        chance = np.exp(terms - top)
        total = chance.sum(axis=0)
        chance /= total
        value = win @ terms[0] + loss @ terms[1] + tie @ terms[2] - (top + np.log(total)).sum()
        off = chance - np.stack((win, loss, tie))
        by_score = np.bincount(first, off[0] + 0.5 * off[2], VOTED)
        by_score += np.bincount(second, off[1] + 0.5 * off[2], VOTED)
        penalty = 0.005 * (score @ score)  # fixes the level
        return penalty - float(value), np.append(by_score + 0.01 * score, off[2].sum())

    return minimize(objective, np.zeros(VOTED + 1), jac=True, method="L-BFGS-B").x[:-1]


def beside_davidson() -> list[Result]:
    quality, pairs, outcome = votes_with_ties()
    gp = PairwiseGP(WhiteKernel(1.0), tie_model="threshold")
    X = np.arange(VOTED)[:, None]
    gp.fit_pairs(X, pairs[:500], margin=outcome[:500])
    fitted, plain, peer = best_times(
        lambda: gp.fit_pairs(X, pairs, margin=outcome),
        lambda: clone(gp).set_params(flips=0.0).fit_pairs(X, pairs, margin=outcome),
        lambda: davidson(pairs, outcome),
    )
    ours, theirs = (
        np.corrcoef(scores, quality)[0, 1] for scores in (gp.predict(X), davidson(pairs, outcome))
    )
    what = f"{VOTED} items, {VOTES:,} votes, {TIES:.0%} ties"
    return [
        Result(
            f"fit with a threshold, {what}",
            f"{seconds(fitted)}, correlation with the truth {ours:.4f}",
            f"Davidson's model by SciPy: {seconds(peer)}, {theirs:.4f}",
            fitted / peer,
            20.0,
        ),
        Result(
            f'flips="auto", {what}',
            seconds(fitted),
            f"flips=0.0: {seconds(plain)}",
            fitted / plain,
            2.0,
        ),
    ]


def linear_kernel() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((LINEAR_ROWS, LINEAR_COLUMNS))
    f = X @ (0.4 * rng.standard_normal(LINEAR_COLUMNS))
    first = rng.permutation(LINEAR_ROWS)[:LINEAR_PAIRS]
    second = (first + rng.integers(1, LINEAR_ROWS, LINEAR_PAIRS)) % LINEAR_ROWS
    won = f[first] - f[second] + rng.standard_normal(LINEAR_PAIRS) > 0
    pairs = np.column_stack((first, second))
    gp = PairwiseGP(1.0 * DotProduct(0.0, "fixed"))
    gp.fit_pairs(X[:100, :2], pairs[:20] % 100, margin=won[:20])
    peer = LogisticRegressionCV(
        Cs=10,
        fit_intercept=False,
        scoring="neg_log_loss",
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )
    fitted, tuned = best_times(
        lambda: gp.fit_pairs(X, pairs, margin=won), lambda: peer.fit(X[first] - X[second], won)
    )
    return [
        Result(
            f"linear kernel, {LINEAR_ROWS:,} x {LINEAR_COLUMNS} features, {LINEAR_PAIRS:,} pairs",
            seconds(fitted),
            f"LogisticRegressionCV on differences: {seconds(tuned)}",
            fitted / tuned,
            5.0,
        )
    ]


def a_question() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ASKED, 5))
    f = 2 * np.sin(X).sum(axis=1)
    first = rng.integers(0, ASKED, 2 * ASKED)
    second = (first + rng.integers(1, ASKED, 2 * ASKED)) % ASKED
    won = f[first] - f[second] + rng.standard_normal(2 * ASKED) > 0
    gp = PairwiseGP(4.0 * Matern(2.0, nu=2.5), optimizer=None)
    gp.fit_pairs(X, np.column_stack((first, second)), margin=won)

    def ask() -> None:
        i, j = gp.suggest_pair(X)
        gp.tell([i, j], margin=bool(f[i] - f[j] + rng.standard_normal() > 0))

    ask()  # computes the moments of all rows
    question, refit = best_times(
        ask, lambda: clone(gp).fit_pairs(X, gp.pairs_, margin=gp.margin_), repeats=5
    )
    return [
        Result(
            f"a question (suggest_pair and tell), {ASKED:,} rows",
            seconds(question),
            f"the posterior from the start: {seconds(refit)}",
            question / refit,
            0.3,
        )
    ]


def cases() -> list[Result]:
    return [
        *beside_peers(),
        *beside_davidson(),
        *linear_kernel(),
        *a_question(),
        *many_rows(),
        *inducing(),
    ]
