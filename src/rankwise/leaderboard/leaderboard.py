"""Ratings of named items from battles, with intervals of ratings and of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array
from rankwise.backends.threads import blas_threads_for
from rankwise.data.battle_files import BattleFile, read_battles
from rankwise.data.battles import Battles
from rankwise.errors import DataError, ParameterError, warn
from rankwise.graph.id_arrays import id_array
from rankwise.leaderboard.battle_problem import (
    BattleProblem,
    check_order,
    warn_about_graph,
    warn_about_groups,
    warn_about_position,
)
from rankwise.leaderboard.board_results import BoardResults
from rankwise.leaderboard.penalized_newton import (
    DENSE,
    Mode,
    by_evidence,
    by_held_out,
    maximize,
    start,
)
from rankwise.leaderboard.sandwich import GroupScores, spread
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    Rule,
    Whole,
    as_generator,
    check_parameters,
)
from rankwise.progress import Show, progress_bar, unseen

LONG = 500_000  # battles from which on progress is shown
SEPARATED = 15.0  # a coefficient this large, per typical value of its column


class Leaderboard(BoardResults, BaseEstimator):
    """Ratings of named items from battles, with intervals of ratings and of ranks.

    In a battle of items i and j with covariates x, the advantage of the first item is
    ``eta = theta_i - theta_j + x @ coef``, and P(first wins) is ``1 / (1 + exp(-eta))``
    (Bradley-Terry) or ``Phi(eta)`` (Thurstone). Ties have a model of their own: Davidson's for the
    logit link, a threshold for the probit link. Ratings are normal with a variance that the
    evidence chooses: they are shrunk, but the less, the more battles there are. Coefficients are
    not shrunk.

    Standard errors are robust, by the sandwich formula over groups of battles that may depend on
    each other, such as those of a session. Intervals of ranks, and the probability of being the
    best, are those of draws from the joint distribution of all ratings.

    O(n_battles log n_battles + n_items^3) time up to 3,000 parameters, O(n_battles) memory and
    O(n_items^2) for the covariance. Beyond, conjugate gradients on a sparse matrix take the place
    of factorizations, and O(n_draws n_items) that of the covariance: 20,000 items with 1,000,000
    battles take about a minute, and 1 GB.

    Parameters
    ----------
    link : {"logit", "probit"}, default="logit"
        The model of Bradley and Terry, or that of Thurstone.
    ties : {"model", "half"}, default="model"
        Whether ties have a probability of their own, or count as half a win for both items.
    penalty : float, "evidence" or "held-out", default="evidence"
        1 / variance of the ratings. "evidence": where the evidence of the normal approximation is
        largest, with a prior that is worth two items of variance 1. "held-out": the best at
        predicting groups of battles that were held out, in five folds. 0: maximum likelihood.
    position : bool, default=False
        Whether the first place has an effect of its own, as with home advantage.
    level : float, default=0.95
        Of all intervals.
    n_draws : int, default=2000
        Number of draws from the joint distribution of ratings.
    random_state : int, Generator or None, default=0
        For the draws, and for the folds of "held-out".

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        Ids.
    ratings_ : ndarray of shape (n_items,)
        Relative to their mean, with covariates at zero.
    rating_std_ : ndarray of shape (n_items,)
        Standard errors of `ratings_`.
    covariance_ : ndarray of shape (n_items, n_items) or None
        Of `ratings_`; None if there are more than 3,000 parameters.
    draws_ : ndarray of shape (n_draws, n_items)
        Draws from the joint distribution of ratings.
    penalty_ : float
        The penalty of ratings.
    tie_ : float
        nu of Davidson's model (P(tie) relative to a win between equals), or the threshold of the
        probit link; 0 if no tie occurred, NaN with ``ties="half"``.
    coef_, coef_std_ : ndarray of shape (n_columns,)
        Coefficients of the first place, of the context and of features of items, and their
        standard errors.
    coef_names_ : list of str
    judges_ : ndarray of shape (n_judges,)
        Ids of judges, if battles have judges.
    judge_slips_, judge_positions_ : ndarray of shape (n_judges,)
        For each judge, the share of verdicts given at random, and the preference for the first
        place.
    both_bad_ : float
        Share of battles in which both items are bad. They do not enter the ratings.
    n_groups_ : int
        Number of independent groups of battles.
    battles_ : Battles
        All battles so far.

    Examples
    --------
    >>> from rankwise import Leaderboard
    >>> first = ["ada", "ada", "bob", "cy", "cy", "bob"] * 20
    >>> second = ["bob", "cy", "cy", "ada", "bob", "ada"] * 20
    >>> winner = ["first", "tie", "first", "second", "second", "first"] * 20
    >>> board = Leaderboard().fit(first, second, winner)
    >>> print(board.standings())
    rank  item  rating  interval        ranks  P(first)  group  battles
    ----  ----  ------  --------------  -----  --------  -----  -------
       1  bob     1.08  0.67 to 1.50    1–2        0.92      1       80
       2  ada     0.56  0.19 to 0.93    1–2        0.08      1       80
       3  cy     -1.65  -1.91 to -1.38  3          0.00      2       80
    <BLANKLINE>
    Items of a group cannot be told apart from its first item (all pairs tested); 95% intervals.
    """

    parameters: ClassVar[dict[str, Rule]] = {
        "link": Choice("logit", "probit"),
        "ties": Choice("model", "half"),
        "penalty": AnyOf(Number(0), Choice("evidence", "held-out")),
        "position": Flag(),
        "level": Number(0, 1, open_low=True, open_high=True),
        "n_draws": Whole(100, 10**6),
    }
    #: What `predict` takes; rows, if a ranker does not say it.
    scored: ClassVar[str] = "named items"

    def __init__(
        self,
        link: str = "logit",
        *,
        ties: str = "model",
        penalty: float | str = "evidence",
        position: bool = False,
        level: float = 0.95,
        n_draws: int = 2000,
        random_state: Any = 0,
    ) -> None:
        self.link = link
        self.ties = ties
        self.penalty = penalty
        self.position = position
        self.level = level
        self.n_draws = n_draws
        self.random_state = random_state

    # Fitting.

    def fit(
        self,
        first: Any,
        second: Any = None,
        outcome: Any = None,
        *,
        weight: Any = None,
        groups: Any = None,
        judge: Any = None,
        context: Any = None,
        items: Any = None,
        item_features: Any = None,
    ) -> Leaderboard:
        """Rate the items of battles.

        Parameters
        ----------
        first : array-like of shape (n_battles,), data frame, path or Battles
            Ids of the items that were shown first. Or a table or file with the columns that
            `rankwise.data.read_battles` knows, in place of `second` and `outcome`; `groups` and
            `judge` are then names of columns, and `context` is a list of such. Or checked battles,
            in place of all that follows but `item_features`.
        second : array-like of shape (n_battles,)
            Ids of the items that were shown second.
        outcome : array-like of shape (n_battles,)
            Who won: "first", "second", "tie" or "both_bad", or other words; see `Battles.of`.
        weight : array-like of shape (n_battles,), optional
            How much each battle counts.
        groups : array-like of shape (n_battles,), optional
            The session, prompt or voter of each battle. Standard errors are those of independent
            groups. None: all battles are independent; of a table, those of a column of sessions or
            prompts, if there is one.
        judge : array-like of shape (n_battles,), optional
            Who judged each battle. Each judge gets a share of verdicts at random and a preference
            for the first place, shrunk towards the common values.
        context : array-like of shape (n_battles, n_columns), optional
            Covariates of battles, as advantages of the first item.
        items : array-like of shape (n_items,), optional
            The ids of all items. None: those that occur.
        item_features : pandas DataFrame or dict, optional
            Features of items: rows by id. Ratings are shrunk towards what the features predict.

        Returns
        -------
        self
        """
        check_parameters(self, self.parameters)
        battles = _battles(
            first, second, outcome, weight=weight, groups=groups, judge=judge, context=context,
            items=items,
        )  # fmt: skip
        self._fit(battles, self._problem_of(battles, item_features), None)
        self.has_item_features_ = item_features is not None
        return self

    def update(
        self,
        first: Any,
        second: Any = None,
        outcome: Any = None,
        *,
        weight: Any = None,
        groups: Any = None,
        judge: Any = None,
        context: Any = None,
        item_features: Any = None,
    ) -> Leaderboard:
        """Add battles, which may be of new items.

        The result is that of a fit to all battles, to the precision of the solver. Old battles are
        not counted again, and the solver begins with the present ratings. Parameters are those of
        `fit`; `item_features` has the features of all items, if the leaderboard has any.

        Examples
        --------
        >>> from rankwise import Leaderboard
        >>> from rankwise.data import make_battles
        >>> battles = make_battles(5, 400, random_state=0).battles
        >>> board = Leaderboard().fit(battles.take(slice(0, 300)))
        >>> board = board.update(battles.take(slice(300, 400)))
        >>> whole = Leaderboard().fit(battles)
        >>> bool(abs(board.ratings_ - whole.ratings_).max() < 1e-7)
        True
        """
        check_is_fitted(self)
        new = _battles(
            first, second, outcome, weight=weight, groups=groups, judge=judge, context=context
        )
        if (item_features is not None) != self.has_item_features_:
            raise DataError(
                "The leaderboard has features of items: pass item_features with a row for each of "
                "the old and new items."
                if self.has_item_features_
                else "The leaderboard was fitted without item_features: fit it again with them."
            )
        check_parameters(self, self.parameters)
        battles = self.battles_ + new
        before: BattleProblem | None = getattr(self, "_problem", None)
        if (
            before is None
            or self.has_item_features_
            or before.options != (self.link, self.ties, self.position)
        ):
            problem = self._problem_of(battles, item_features)
        else:
            problem = before.grown(battles.take(slice(len(self.battles_), None)))
        return self._fit(battles, problem, self._warm_start(problem))

    def _fit(self, battles: Battles, problem: BattleProblem, begin: Array | None) -> Leaderboard:
        rng = as_generator(self.random_state)
        if self.penalty == 0 and problem.features.shape[1]:
            raise ParameterError(
                "With features of items, ratings need a penalty: without one, they explain all "
                "that the features could."
            )
        warn_about_graph(problem, battles.items, self.penalty)
        with blas_threads_for(problem.layout.size):
            with self._watched("Ratings", 0, problem) as show:
                mode = self._maximum(problem, begin, rng, show)
            _warn_about_maximum(problem, mode)
            self._set_fitted(battles, problem, mode, rng)
        self._problem = problem.without_caches()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without the counts of battles: an update of a copy counts all battles again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_problem"}

    def _problem_of(self, battles: Battles, item_features: Any) -> BattleProblem:
        if self.position or battles.judge is not None:
            check_order(battles)
        return BattleProblem.of(
            battles, link=self.link, ties=self.ties, position=self.position,
            item_features=item_features,
        )  # fmt: skip

    @contextmanager
    def _watched(self, what: str, total: int, problem: BattleProblem) -> Iterator[Show]:
        """Show progress where it takes long."""
        large = problem.layout.size > DENSE or len(problem.row) > LONG
        with progress_bar(what, total) if large else nullcontext(unseen) as show:
            yield show

    def _maximum(
        self, problem: BattleProblem, begin: Array | None, rng: np.random.Generator, show: Show
    ) -> Mode:
        likelihood = problem.likelihood
        if self.penalty == "evidence":
            before = {} if begin is None else {"items": float(np.log(self.penalty_))}
            return by_evidence(likelihood, {}, begin, before, show)
        if self.penalty == "held-out":
            group = problem.group
            if group is None:
                group = np.arange(len(problem.row))
            if group.max() < 1:
                raise DataError("penalty='held-out' needs two or more groups of battles.")
            return by_held_out(
                likelihood, problem.row, problem.outcome, problem.weight, group, rng, begin, show
            )
        fixed = {"items": float(self.penalty)}
        if len(problem.layout.groups) == 1:
            return maximize(likelihood, fixed, begin)
        return by_evidence(likelihood, fixed, begin, show=show)

    def _warm_start(self, problem: BattleProblem) -> Array:
        """The present parameters, by item and judge; those of new ones are zero."""
        layout, params = problem.layout, start(problem.layout)
        n = len(self.items_)  # the old items come first
        params[layout.items][:n] = self.params_["items"]
        if problem.names == self.coef_names_:
            params[layout.columns] = self.coef_ * problem.scales
        if layout.ties and "tie" in self.params_:
            params[layout.tie] = self.params_["tie"]
        return params

    def _set_fitted(
        self, battles: Battles, problem: BattleProblem, mode: Mode, rng: np.random.Generator
    ) -> None:
        layout, params = problem.layout, mode.params
        scores = GroupScores.of(
            problem.likelihood, params, problem.row, problem.outcome, problem.weight, problem.group
        )
        self.n_groups_ = scores.n_groups
        warn_about_groups(self.n_groups_)
        if not (self.position or layout.n_judges):
            warn_about_position(problem, params)
        with self._watched("Intervals", self.n_draws, problem) as show:
            found = spread(mode, scores, layout.items, self.n_draws, rng, show)
        df = max(self.n_groups_ - 1, 1)
        # With few groups, draws are from Student's t distribution, as intervals are.
        heavier = np.sqrt(df / rng.chisquare(df, size=(self.n_draws, 1)))
        self.battles_ = battles
        self.items_ = battles.items
        self.ratings_ = problem.ratings(params)
        draws = problem.ratings(found.draws)
        columns = found.draws[:, layout.columns]
        if found.covariance is None:
            self.covariance_ = None
            self.rating_std_, std = draws.std(axis=0, dtype=float), columns.std(axis=0, dtype=float)
        else:
            std = np.sqrt(np.maximum(found.covariance.diagonal(), 0.0))[layout.columns]
            to_ratings = problem.rating_map()
            self.covariance_ = to_ratings @ found.covariance @ to_ratings.T
            self.rating_std_ = np.sqrt(np.maximum(self.covariance_.diagonal(), 0.0))
        draws *= heavier
        draws += self.ratings_
        self.draws_ = draws
        self.penalty_ = mode.penalties["items"]
        self.coef_names_ = problem.names
        self.coef_ = params[layout.columns] / problem.scales
        self.coef_std_ = std / problem.scales
        self.params_ = {"items": params[layout.items], "tie": params[layout.tie]}
        if layout.ties:
            self.tie_ = float(np.exp(params[layout.tie][0]))
        else:
            self.tie_ = 0.0 if self.ties == "model" else float("nan")
            self.params_.pop("tie")
        self.judges_ = id_array(problem.judges)
        self._set_judges(problem, params, found.draws, heavier)
        bad = battles.outcome == 3
        self.both_bad_ = float((battles.weight * bad).sum() / battles.weight.sum())
        self.pair_counts_, self.pair_shares_ = _pair_shares(problem, params)

    def _set_judges(
        self, problem: BattleProblem, params: Array, draws: Array, heavier: Array
    ) -> None:
        """Slips and preferences of judges, and intervals of them from draws."""
        layout = problem.layout

        def of(values: Array) -> tuple[Array, Array]:
            place = values[..., layout.columns][..., :1] / problem.scales[:1]
            return (
                expit(values[..., layout.slips] + values[..., layout.common_slip]),
                np.asarray(values[..., layout.places] + place),
            )

        if not layout.n_judges:
            empty = np.zeros(0)
            self.judge_slips_, self.judge_positions_ = empty, empty
            self.judge_intervals_ = np.zeros((2, 2, 0))
            return
        self.judge_slips_, self.judge_positions_ = of(params)
        outside = (1 - self.level) / 2
        self.judge_intervals_ = np.array(
            [
                np.quantile(part, [outside, 1 - outside], axis=0)
                for part in of(params + heavier * draws)
            ]
        )


def _warn_about_maximum(problem: BattleProblem, mode: Mode) -> None:
    """Warn if a coefficient grows without bound, or the maximum was not found."""
    large = abs(mode.params[problem.layout.columns]) > SEPARATED
    if large.any():
        warn(
            f"The coefficient of {problem.names[int(np.argmax(large))]!r} has no bound: the column "
            "separates wins from losses."
        )
    elif not mode.converged:
        warn(
            "The ratings did not converge: do not rely on them. Use a larger penalty, or check the "
            "battles for items that won or lost all of theirs.",
            ConvergenceWarning,
        )


def _battles(first: Any, second: Any, outcome: Any, **more: Any) -> Battles:
    """Checked battles, from the arguments of `fit`."""
    if isinstance(first, BattleFile):
        first = first.battles
    elif isinstance(first, str | Path | Mapping) or hasattr(first, "columns"):
        return _of_table(first, second, outcome, **more)
    if isinstance(first, Battles):
        more |= {"second": second, "outcome": outcome}
        twice = [name for name, value in more.items() if value is not None]
        if twice:
            raise ParameterError(
                f"{twice[0]} belongs to the battles: pass it to Battles.of, with the items."
            )
        return first
    if second is None or outcome is None:
        raise DataError(
            "Give first, second and outcome, one entry per battle (the outcome is 1 if first has "
            "the winners), or a table, a path or a Battles object."
        )
    return Battles.of(first, second, outcome, **more)


def _of_table(
    table: Any, second: Any, outcome: Any, *, groups: Any, judge: Any, context: Any, **more: Any
) -> Battles:
    """The battles of a table or file; warns of rows that are left out."""
    more |= {"second": second, "outcome": outcome}
    given = next((name for name, value in more.items() if value is not None), None)
    if given is not None:
        raise ParameterError(
            f"The battles are those of a table, to which {given} does not belong: pass arrays, or "
            "what rankwise.data.read_battles returns."
        )
    for name, column in (("groups", groups), ("judge", judge)):
        if column is not None and not isinstance(column, str):
            raise ParameterError(f"With a table, {name} is the name of a column.")
    style = [context] if isinstance(context, str) else [] if context is None else list(context)
    found = read_battles(table, groups=groups, judge=judge, style=style)
    if found.dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.dropped.items())
        warn(f"Rows that are left out: {reasons}.")
    return found.battles


def _pair_shares(problem: BattleProblem, params: Array) -> tuple[Array, Array]:
    """For each pair of items: numbers of both and counts of outcomes; and predicted shares.

    Outcomes are in the order: the first of the two wins, the second wins, and ties if these have a
    model.
    """
    t, likelihood = problem.likelihood.tally, problem.likelihood
    turned = t.first > t.second
    low, high = np.minimum(t.first, t.second), np.maximum(t.first, t.second)
    n = problem.layout.n_items
    code, pair = np.unique(low * n + high, return_inverse=True)
    counts = likelihood.counts.T.copy()
    expected = likelihood.probabilities(params) * counts.sum(axis=1, keepdims=True)
    for values in (counts, expected):
        values[turned, :2] = values[turned, 1::-1]
    sums = partial(np.bincount, pair, minlength=len(code))
    observed, predicted = (
        np.column_stack([sums(weights=column) for column in values.T])
        for values in (counts, expected)
    )
    shares = predicted / predicted.sum(axis=1, keepdims=True)
    return np.column_stack((code // n, code % n, observed)), shares
