"""Ratings of named items from battles, with intervals of ratings and of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index
from rankwise.backends.parallel import blas_threads_for
from rankwise.data.battles import BattleFile, Battles, number_labels, read_battles
from rankwise.data.rankings import RankingFile, Rankings
from rankwise.data.times import as_datetimes, check_times, shown_time
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.pair_strategies import PairStrategy, suggest_pairs
from rankwise.graph.comparisons import check_comparison_ids, check_context
from rankwise.graph.query_groups import id_columns, lossless_array
from rankwise.leaderboard.battle_likelihood import (
    ITEM_TIES,
    MODELS,
    POSITION,
    BattleProblem,
    Mode,
    by_evidence,
    by_held_out,
    by_pair,
    check_order,
    decided,
    dependence_of,
    items_tie_apart,
    maximize,
    root_of,
    spread,
    warn_about_graph,
    warn_about_groups,
    warn_about_position,
    winners_first,
)
from rankwise.leaderboard.board_tables import (
    ELO,
    ELO_MEAN,
    BoardTable,
    History,
    Standings,
    intervals,
    range_quantile,
    rank_ranges,
    surprise,
)
from rankwise.leaderboard.categories import (
    Boards,
    are_periods,
    categories_in_order,
    fit_boards,
    more_than_chance,
)
from rankwise.leaderboard.fragility import Fragility, Removable, Target, fewest
from rankwise.leaderboard.gold_votes import with_gold_votes
from rankwise.leaderboard.judge_model import (
    KINDS,
    Panel,
    Start,
    Votes,
    averaged,
    check_kinds,
    remarks,
)
from rankwise.leaderboard.over_time import (
    DRIFTS,
    HALF_LIVES,
    SeenDrift,
    Walk,
    aged,
    best_on_later_battles,
    fit_walk,
    warn_about_short_half_life,
)
from rankwise.leaderboard.ranking_likelihood import RankingLists, warn_about_all_pairs
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    Rule,
    Whole,
    as_generator,
    check_parameters,
    check_value,
)
from rankwise.progress import Show, late_progress_bar, progress_bar, unseen

MOST_DIGITS = 7  # of coefficients
CELLS = 2**20  # draws of items that are ranked at a time
BLOCK = 500  # items whose pairs with all others are looked at together
NOISE = {"logit": 1.702, "probit": 1.0}  # of the probit that is closest to each link
DEPENDENT = 1.02  # from which on the dependence of battles changes the penalty
ALIKE = "Judges do not differ by more than chance: the votes of all of them count the same."
SEPARATED = 15.0  # a coefficient this large, per typical value of its column
FOR_BATTLES = {"link": "probit", "ties": "by item", "position": True}
Problem: TypeAlias = BattleProblem | RankingLists
OF_BATTLES = ("time", "judge", "by", "gold")  # arguments of fit
FOR_RANKINGS = {
    "link": 'use link="logit"',
    "ties": 'use ties="model"',
    "position": "pass starting places as a column of context",
    "half_life": "pass weight, smaller for older rankings",
    "drift": "pass weight, smaller for older rankings",
    "time": "pass weight, smaller for older rankings",
    "judge": "pass the judge of each ranking as groups",
    "by": "fit the rankings of each category alone",
    "gold": "fit the rankings that are known to be right alone",
}
"""What to do instead of options that are for battles."""


class Leaderboard(BaseEstimator):
    """Ratings of named items from battles, with intervals of ratings and of ranks.

    In a battle of items i and j with covariates x, the advantage of the first item is
    ``eta = theta_i - theta_j + x @ coef``, and P(first wins) is ``1 / (1 + exp(-eta))``
    (Bradley-Terry) or ``Phi(eta)`` (Thurstone). Ties have a separate model: Davidson's for the
    logit link, a threshold for the probit link. Ratings are normal with a variance chosen by the
    evidence. They are shrunk towards their mean, and less so as the number of battles grows.
    Coefficients are not shrunk.

    Standard errors are robust, by the sandwich formula over groups of battles that may depend on
    each other, such as the battles of a session. Intervals of ranks, and the probability of being
    the best, are computed from draws from the joint distribution of all ratings.

    O(n_battles log n_battles + n_items^3) time up to 3,000 parameters, O(n_battles) memory and
    O(n_items^2) for the covariance. Beyond, conjugate gradients on a sparse matrix replace the
    factorizations, and O(n_draws n_items) draws replace the covariance: 20,000 items with 1,000,000
    battles take about a minute, and 1 GB.

    Parameters
    ----------
    link : {"logit", "probit"}, default="logit"
        The model of Bradley and Terry, or Thurstone's.
    ties : {"model", "by item", "half"}, default="model"
        Whether ties have a separate probability, or count as half a win for both items. "by item":
        items may also differ in how often they tie, by normal effects with a variance chosen by
        the evidence, if the evidence keeps them; see `item_ties`.
    penalty : float, "evidence" or "held-out", default="evidence"
        1 / variance of the ratings. "evidence": the value that maximizes the evidence of the normal
        approximation, with a weak prior, worth two items of variance 1. "held-out": the value that
        best predicts held-out groups of battles, in five folds. 0: maximum likelihood.
    position : bool, default=False
        Whether the first place is an advantage, such as playing at home.
    half_life : float, "auto" or None, default=None
        With the times of battles: after how much time a battle counts half as much, in days for
        dates. "auto": the half-life with which earlier battles best predict later ones, or none
        unless it predicts better by more than one standard error. `rating_std_` is of the latest
        ratings: it adds changes of ratings, by as much as the residuals show.
    drift : float, "evidence", "auto" or None, default=None
        With the times of battles: ratings drift as a random walk, and `ratings_` are the latest. A
        number is the standard deviation of the change of a rating in a year (for times that are not
        dates, in a unit of time). "evidence": the value that maximizes the evidence. "auto": the
        value with which earlier battles best predict later ones, or no drift, as for `half_life`.
    period : float or None, default=None
        Ratings are constant within periods of this length. None: a month (30.4 days), or the 24th
        part of all time if times are not dates.
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
        Relative to their mean, with covariates at zero, for a judge of mean slope.
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
    item_ties_, item_ties_std_ : ndarray of shape (n_items,) or None
        With ``ties="by item"``, by how much each item raises the logarithm of the tie parameter,
        compared with the mean of all items, and standard errors; None if items do not differ by
        more than chance.
    tie_width_ : float or None
        Standard deviation of these effects among items.
    coef_, coef_std_ : ndarray of shape (n_columns,)
        Coefficients of the first place, of the context and of features of items, and their
        standard errors.
    coef_names_ : list of str
    judges_ : ndarray of shape (n_judges,)
        Ids of judges, if battles have judges.
    judge_kinds_ : list of str
        In what judges differ: some of "slope", "ties", "place" and "slips".
    judge_effects_ : ndarray of shape (n_judges, 4)
        Effects of judges in this order, as deviations from the common values: of the slope, of the
        logarithm of the tie parameter, of the preference for the first place, and of the logit of
        the share of slips.
    judge_covariances_ : ndarray of shape (n_judges, 4, 4)
        Covariance of the values of each judge: of the sums of common values and effects.
    judge_widths_ : ndarray of shape (4,)
        Standard deviations of the effects among judges.
    gold_power_ : float or None
        How much the outcomes count beside the right answers, from 0 to 1, if battles have right
        answers and no judges.
    both_bad_ : float
        Share of battles in which both items are bad. They do not enter the ratings.
    n_groups_ : int
        Number of independent groups of battles; the smaller number of two kinds.
    dependence_ : float
        How many battles of the groups tell as much as one independent battle, by which the penalty
        of the evidence is raised; 1 without groups.
    half_life_, drift_, width_ : float or None
        The half-life of battles, and the standard deviations of the change of a rating in a year
        and of deviations of categories.
    categories_ : ndarray of shape (n_categories,) or None
    category_ratings_, deviation_std_ : ndarray of shape (n_categories, n_items) or None
        Ratings in categories, relative to their mean, and standard errors of their deviations.
    battles_ : Battles or Rankings
        All battles so far, or the rankings.

    Examples
    --------
    >>> from rankwise import Leaderboard
    >>> first = ["ada", "ada", "bob", "cy", "cy", "bob"] * 20
    >>> second = ["bob", "cy", "cy", "ada", "bob", "ada"] * 20
    >>> winner = ["first", "tie", "first", "second", "second", "first"] * 20
    >>> board = Leaderboard().fit(first, second, winner)
    >>> print(board.standings())
    rank  item  rating  interval        ranks  P(first)  tied with  group  battles
    ----  ----  ------  --------------  -----  --------  ---------  -----  -------
       1  bob     1.08  0.67 to 1.50    1–2        0.92  2              1       80
       2  ada     0.56  0.19 to 0.93    1–2        0.08  1              1       80
       3  cy     -1.65  -1.91 to -1.38  3          0.00                 2       80
    <BLANKLINE>
    Ratings in log-odds. Intervals and ranks: 95% for each item alone. Tied with: the ranks of items
    that cannot be told apart, with all pairs tested at once.
    """

    parameters: ClassVar[dict[str, Rule]] = {
        "link": Choice("logit", "probit"),
        "ties": Choice("model", "by item", "half"),
        "penalty": AnyOf(Number(0), Choice("evidence", "held-out")),
        "position": Flag(),
        "half_life": AnyOf(Number(0, open_low=True), Choice("auto"), None),
        "drift": AnyOf(Number(0, open_low=True), Choice("evidence", "auto"), None),
        "period": AnyOf(Number(0, open_low=True), None),
        "level": Number(0, 1, open_low=True, open_high=True),
        "n_draws": Whole(100, 10**6),
    }
    #: What `predict` takes; rows, unless a ranker declares it.
    scored: ClassVar[str] = "named items"
    # Battles or rankings, and attributes that are None without time or categories.
    battles_: Any
    half_life_: float | None
    drift_: float | None
    width_: float | None
    categories_: Any
    category_ratings_: Any
    category_covariances_: Any
    category_p_: Any
    deviation_std_: Any
    item_ties_: Any
    item_ties_std_: Any
    tie_width_: float | None
    gold_power_: float | None
    dependence_: float

    def __init__(
        self,
        link: str = "logit",
        *,
        ties: str = "model",
        penalty: float | str = "evidence",
        position: bool = False,
        half_life: float | str | None = None,
        drift: float | str | None = None,
        period: float | None = None,
        level: float = 0.95,
        n_draws: int = 2000,
        random_state: Any = 0,
    ) -> None:
        self.link = link
        self.ties = ties
        self.penalty = penalty
        self.position = position
        self.half_life = half_life
        self.drift = drift
        self.period = period
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
        judges: str | Sequence[str] = "evidence",
        gold: Any = None,
        context: Any = None,
        time: Any = None,
        by: Any = None,
        items: Any = None,
        item_features: Any = None,
    ) -> Leaderboard:
        """Rate the items of battles.

        Parameters
        ----------
        first : array-like of shape (n_battles,), data frame, path or Battles
            Ids of the items that were shown first. Or a table or file with the columns that
            `rankwise.data.read_battles` knows, in place of `second` and `outcome`; `groups` and
            `judge`, `gold`, `time` and `by` are then names of columns, and `context` is a list of
            names. Or checked battles, which replace all that follows except `judges` and
            `item_features`.
        second : array-like of shape (n_battles,)
            Ids of the items that were shown second.
        outcome : array-like of shape (n_battles,)
            Who won: "first", "second", "tie" or "both_bad", or other words; see `Battles.of`.
        weight : array-like of shape (n_battles,), optional
            How much each battle counts.
        groups : array-like of shape (n_battles,) or (n_battles, 2), optional
            The session, prompt or judge of each battle. Standard errors assume independent groups.
            With two columns, such as judge and prompt, battles may depend on each other that share
            the judge or the prompt. With a table, two names of columns.
            None: the column of sessions or prompts, if a table has one; otherwise, all battles are
            independent.
        judge : array-like of shape (n_battles,), optional
            Who judged each battle. Effects of judges are shrunk towards the common values.
        judges : "evidence" or list of {"slope", "ties", "place", "slips"}, default="evidence"
            In what judges differ: in how much ratings matter to them ("slope", below zero for
            judges who prefer the worse item), how often they call a tie ("ties"), their preference
            for the first place ("place"), and the share of verdicts that they give at random
            ("slips"). An effect is normal among judges, with a variance chosen by the evidence.
            "evidence": the effects that the battles determine.
        gold : array-like of shape (n_battles,), optional
            The right answer of each battle, as in `outcome`; None, NaN or "" where it is not known.
            With `judge`, these battles do not rate their items: they show how good the judges are.
            Where most judges are right, votes alone show this nearly as well, and ratings lose
            these battles (in simulations, the log-loss of later votes rose by .001 with 10 or 20%
            of right answers, and by .005 with 60%). So pass them if judges may be mostly wrong.
            Without `judge`, the ratings are estimates of the ratings that right answers to all
            battles would give, such as human votes where all battles have votes of a model; see
            `rankwise.leaderboard.gold_votes`.
        context : array-like of shape (n_battles, n_columns), optional
            Covariates of battles. Code them so that positive values favour the first item.
        time : array-like of shape (n_battles,), optional
            When each battle was: dates (ISO text, datetime64, datetime objects, or numbers such as
            20261118), or other numbers. Needed for `half_life` and `drift`, and for `as_of`.
        by : array-like of shape (n_battles,), optional
            The category of each battle, such as a language. Ratings of a category are the overall
            ratings and deviations, which the evidence shrinks; see `categories` and `within`.
        items : array-like of shape (n_items,), optional
            The ids of all items. None: the items that occur.
        item_features : pandas DataFrame or dict, optional
            Features of items: rows by id. Ratings are shrunk towards what the features predict.

        Returns
        -------
        self
        """
        check_parameters(self, self.parameters)
        check_kinds(judges)
        battles = _battles(
            first, second, outcome, weight=weight, groups=groups, judge=judge, context=context,
            gold=gold, time=time, category=by, items=items,
        )  # fmt: skip
        warn_about_all_pairs(battles)
        self.judge_choice_ = judges if isinstance(judges, str) else list(judges)
        self._fit(battles, item_features)
        self.has_item_features_ = item_features is not None
        return self

    def fit_rankings(
        self,
        lists: Any,
        *,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
        items: Any = None,
        item_features: Any = None,
        **of_battles: Any,
    ) -> Leaderboard:
        """Rate items by rankings of several of them, such as races, by Plackett and Luce.

        The next item of a ranking is item i with probability ``exp(theta_i + x_i @ coef)`` over the
        sum of the same of all items that are left. Rankings of two items are battles without ties.
        The order of tied items is unknown: a ranking with ties has the sum of the probabilities of
        all orders that agree with it. Options that are for battles, such as ``link="probit"``, are
        refused.

        O(n_rankings k^2 + n_items^3) time for rankings of k items.

        Parameters
        ----------
        lists : sequence of sequences of ids, or Rankings
            The items of each ranking, the best first. Tied items are a list inside the list, and
            ``["a", ["b", "c", "d"]]`` is the best of four. Items that are not in a list took no
            part. Or checked rankings, such as the result of `rankwise.data.read_rankings`, which
            replace all that follows except `item_features`.
        weight : array-like of shape (n_rankings,), optional
            How much each ranking counts.
        groups : array-like of shape (n_rankings,), optional
            The session, season or judge of each ranking. Standard errors assume independent groups.
            None: all rankings are independent.
        context : array-like of shape (n_entries, n_columns), optional
            Covariates of items in rankings, such as a starting place: a row for each item of each
            list, in the order of the lists. Positive values favour the item.
        items : array-like of shape (n_items,), optional
            The ids of all items. None: the items that occur.
        item_features : pandas DataFrame or dict, optional
            Features of items: rows by id. Ratings are shrunk towards what the features predict.
        **of_battles
            Arguments of `fit`, such as `judge`, that rankings do not take: the error says what to
            do instead.

        Returns
        -------
        self

        References
        ----------
        R. L. Plackett (1975), The analysis of permutations, Applied Statistics 24.

        Examples
        --------
        >>> from rankwise import Leaderboard
        >>> races = [["ada", "bob", "cy"], ["bob", "ada", "cy"], ["cy", "ada"]] * 10
        >>> board = Leaderboard().fit_rankings(races)
        >>> board.ratings_.round(2).tolist()
        [0.07, 0.67, -0.73]
        """
        check_parameters(self, self.parameters)
        _check_for_rankings(self, of_battles)
        if isinstance(lists, RankingFile):
            lists = lists.rankings
        more = {"weight": weight, "groups": groups, "context": context, "items": items}
        if isinstance(lists, Rankings):
            twice = next((name for name, value in more.items() if value is not None), None)
            if twice is not None:
                raise ParameterError(
                    f"{twice} belongs to the rankings, which are given as a whole: pass it to "
                    "Rankings.of, with the lists."
                )
            rankings = lists
        else:
            rankings = Rankings.of(lists, **more)
        problem, rng = RankingLists.of(rankings, item_features), as_generator(self.random_state)
        warn_about_graph(problem.links, rankings.items, self.penalty, "rankings")
        self._forget()
        with blas_threads_for(problem.layout.size):
            with late_progress_bar("Ratings", 0) as show:
                _, mode = self._solved(problem, [], None, rng, show)
            self._set_fitted(rankings, problem, mode, rng)
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
        gold: Any = None,
        context: Any = None,
        time: Any = None,
        by: Any = None,
        item_features: Any = None,
    ) -> Leaderboard:
        """Add battles, also between new items.

        The result equals a fit to all battles, to the precision of the solver, which starts from
        the present ratings. With a half-life, old battles count less than before. Parameters are
        described in `fit`; pass `item_features` for all items, if the leaderboard uses them.

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
        self._check_whole()
        if isinstance(self.battles_, Rankings):
            raise DataError(
                "The leaderboard was fitted to rankings: call fit_rankings with all of them."
            )
        new = _battles(
            first, second, outcome, weight=weight, groups=groups, judge=judge, gold=gold,
            context=context, time=time, category=by,
        )  # fmt: skip
        self._check_item_features(item_features)
        check_parameters(self, self.parameters)
        before = self.__dict__.copy()
        try:
            return self._fit(self.battles_ + new, item_features, warm=True)
        except BaseException:  # battles that are refused leave everything as it was
            self.__dict__ = before
            raise

    def _fit(self, battles: Battles, item_features: Any, *, warm: bool = False) -> Leaderboard:
        rng = as_generator(self.random_state)
        kinds = self._kinds(battles)
        if self.position or ("place" in kinds and self.judge_choice_ != "evidence"):
            check_order(battles)
        self._forget()
        used = self._of_age(battles, item_features)
        problem = self._problem(used, item_features, kinds)
        if not problem.layout.ties:
            kinds = [kind for kind in kinds if kind != "ties"]
        if self.penalty == 0 and problem.features.shape[1]:
            raise ParameterError(
                "With features of items, ratings need a penalty: without one, they explain all "
                "that the features could."
            )
        warn_about_graph(problem.links, battles.items, self.penalty)
        if battles.gold is not None and battles.judge is None:
            if battles.category is not None:
                raise ParameterError(
                    "by cannot be combined with gold: fit the battles of each category alone."
                )
            problem, self.gold_power_ = with_gold_votes(problem, used)
        with blas_threads_for(problem.layout.size):
            with late_progress_bar("Ratings", 0) as show:
                tied = self.ties == "by item" and items_tie_apart(
                    problem.without_judges(), self._fixed, rng, show
                )
                if tied:
                    problem = problem.with_item_ties()
                begin = self._warm_start(problem) if warm else None
                drift = self._drift(used, item_features)
                if drift is not None:
                    walk = fit_walk(
                        problem, drift, self.period, self._fixed, show, dated=used.dated
                    )
                    self.drift_ = walk.drift
                    return self._set_cells(battles, problem, walk, rng)
                if used.category is not None:
                    boards = self._boards(used, problem, rng, show)
                    return self._set_cells(battles, problem, boards, rng)
                start = None
                if kinds and self.judge_choice_ == "evidence":
                    kinds, start = self._chosen(problem, kinds, begin, show)
                    if not (self.position or "place" in kinds):
                        # Without effects of the first place, it does not matter who came first.
                        problem = self._problem(used, item_features)
                        problem = problem.with_item_ties() if tied else problem
                        begin = self._warm_start(problem) if warm else None
                problem, mode = self._solved(problem, kinds, begin, rng, show, start)
            self._set_fitted(battles, problem, mode, rng)
        return self

    def _forget(self) -> None:
        """What only some models have."""
        self.half_life_ = self.drift_ = self.width_ = None
        self.categories_ = self.category_ratings_ = self.category_covariances_ = None
        self.deviation_std_ = self.category_p_ = None
        self.gold_power_, self.dependence_ = None, 1.0

    def _kinds(self, battles: Battles) -> list[str]:
        """The effects of judges that are considered.

        If winners are listed first, the order does not show which item came first.
        """
        if battles.judge is None:
            return []
        if self.judge_choice_ != "evidence":
            return [kind for kind in KINDS if kind in self.judge_choice_]
        if len(set(battles.judge.tolist())) < 2:
            return []
        return [kind for kind in KINDS if kind != "place" or not winners_first(battles)]

    # Time.

    def _of_age(self, battles: Battles, item_features: Any) -> Battles:
        """Battles with weights by their age; chooses the half-life, and checks options of time."""
        if self.half_life is None and self.drift is None:
            return battles
        if self.half_life is not None and self.drift is not None:
            raise ParameterError("half_life and drift are two models of time: use one of them.")
        if battles.time is None:
            raise DataError("half_life and drift need the times of battles: pass time to fit.")
        if self.drift is not None:
            given = {"judges": battles.judge, "by": battles.category, "gold": battles.gold}
            for name, values in given.items():
                if values is not None:
                    raise ParameterError(f"drift cannot be combined with {name}: use half_life.")
            if self.penalty == "held-out":
                raise ParameterError('With drift, penalty is "evidence" or a number.')
            return battles
        if self.half_life == "auto":
            span = float(np.ptp(battles.time))
            choices = [None, *(share * span for share in HALF_LIVES)] if span else [None]
            self.half_life_ = self._best_later("half_life", choices, battles, item_features)
        else:
            self.half_life_ = float(self.half_life)  # type: ignore[arg-type]
            warn_about_short_half_life(battles, self.half_life_)
        return self._aged(battles)

    def _aged(self, battles: Battles) -> Battles:
        half_life = self._fitted("half_life_")
        return battles if half_life is None else aged(battles, half_life)

    def _fitted(self, name: str) -> Any:
        """An attribute; None in files of versions without it."""
        return getattr(self, name, None)

    def _best_later(self, name: str, choices: list[Any], battles: Battles, features: Any) -> Any:
        """The value of a parameter with which earlier battles best predict later ones."""

        def fit(value: Any, earlier: Battles) -> Leaderboard:
            return self._again(earlier, features, n_draws=100, **{name: value})

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of the battles
            return best_on_later_battles(battles, choices, fit)

    def _again(self, data: Any, item_features: Any, **options: Any) -> Leaderboard:
        """The same model, with other options, fitted to other battles or rankings."""
        board = clone(self).set_params(**options)
        if isinstance(data, Rankings):
            return board.fit_rankings(data, item_features=item_features)
        return board.fit(data, judges=self.judge_choice_, item_features=item_features)

    def _drift(self, battles: Battles, features: Any) -> Any:
        """The drift, "evidence", or None if ratings do not drift."""
        if self.drift != "auto":
            return self.drift
        assert battles.time is not None  # checked before
        scale = 1.0 if battles.dated else 1.0 / np.sqrt(float(np.ptp(battles.time)) or 1.0)
        choices = [None, *(scale * value for value in DRIFTS)]
        found = self._best_later("drift", choices, battles, features)
        self.drift_ = found or 0.0
        return found

    def _boards(
        self, battles: Battles, problem: BattleProblem, rng: np.random.Generator, show: Show
    ) -> Boards:
        """Ratings of categories."""
        assert battles.category is not None
        if battles.judge is not None or self.penalty == "held-out":
            raise ParameterError(
                "by cannot be combined with judges (fit the battles of each category alone), or "
                "with penalty='held-out' (use 'evidence')."
            )
        counted = (battles.outcome != 3) & (battles.weight > 0)
        self.categories_, code = categories_in_order(battles.take(counted))
        if len(self.categories_) < 2:
            only = self.categories_.tolist()[0]
            raise DataError(
                f"Two or more categories or periods are needed: all battles are of {only!r}."
            )
        number = len(self.categories_)
        found = fit_boards(
            problem, code, number, self._fixed, show, aged=self.half_life is not None
        )
        self.category_ratings_, self.category_covariances_ = found.ratings, found.covariances
        self.deviation_std_ = found.deviation_std
        self.width_ = float(found.penalties["deviations"] ** -0.5)
        self.category_p_ = more_than_chance(problem, code, found.penalties, rng)
        return found

    def categories(self, *, elo: bool = False) -> BoardTable:
        """The categories, and whether their ratings differ from the overall ones by chance.

        The columns are category, battles, leader, the root mean square of the deviations of
        ratings, and p: how often deviations at least as large occur if categories are permuted
        among battles. The last row is about all categories together. Deviations are in Elo points
        if `elo`.
        """
        self._check_categories()
        names, codes = number_labels(self.battles_.category)
        place = [names.tolist().index(name) for name in self.categories_.tolist()]
        counts = np.bincount(codes, minlength=len(names))[place]
        deviation, scale = self.category_ratings_ - self.ratings_, ELO if elo else 1.0
        best = self.items_[np.argmax(self.category_ratings_, axis=1)]
        size = np.sqrt(np.square(deviation).mean(axis=1))
        columns = {
            "category": np.append(self.categories_.astype(object), "all"),
            "battles": np.append(counts, counts.sum()),
            "leader": np.append(best.astype(object), self.items_[np.argmax(self.ratings_)]),
            "deviation": scale * np.append(size, np.sqrt(np.square(deviation).mean())),
            "p": self.category_p_,
        }
        note = (
            f"Deviations of ratings from the overall ratings{', in Elo points' if elo else ''}; p "
            "is the share of permutations of categories with deviations as large."
        )
        formats = {"battles": ",", "deviation": ".1f" if elo else ".3f", "p": ".3f"}
        return BoardTable(columns, formats, note, self._headed(columns))

    def deviations(self) -> BoardTable:
        """By category and item: the rating, and its deviation from the overall one, with intervals.

        Intervals are for each deviation alone.
        """
        self._check_categories()
        C, n = self.category_ratings_.shape
        deviation = (self.category_ratings_ - self.ratings_).ravel()
        half = self._quantile(self.level) * self.deviation_std_.ravel()
        columns = {
            "category": np.repeat(self.categories_, n),
            "item": np.tile(self.items_, C),
            "rating": self.category_ratings_.ravel(),
            "deviation": deviation,
            "low": deviation - half,
            "high": deviation + half,
        }
        return BoardTable(columns, shown=self._headed(columns))

    def _headed(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Columns as they are printed: categories that follow each other in time are periods."""
        head = "period" if are_periods(self.battles_) else "category"
        return {head if name == "category" else name: each for name, each in columns.items()}

    def within(self, category: Any) -> Leaderboard:
        """The leaderboard of a category: its ratings, with intervals, standings and ranks.

        Parameters
        ----------
        category : str or int
            One of `categories_`.

        Returns
        -------
        Leaderboard
            With the battles of the category; it cannot be updated.
        """
        self._check_categories()
        names = self.categories_.tolist()
        if category not in names:
            raise DataError(f"There is no category {category!r}: there are {names[:10]}.")
        c, board = names.index(category), copy(self)
        board.battles_ = self.battles_.take(self.battles_.category == category)
        board.ratings_, board.covariance_ = self.category_ratings_[c], self.category_covariances_[c]
        board.rating_std_ = np.sqrt(np.maximum(board.covariance_.diagonal(), 0.0))
        rng, df = as_generator(self.random_state), max(self.n_groups_ - 1, 1)
        drawn = root_of(board.covariance_) @ rng.standard_normal((len(self.items_), self.n_draws))
        heavier = np.sqrt(df / rng.chisquare(df, size=(self.n_draws, 1)))
        board.draws_ = board.ratings_ + heavier * drawn.T
        votes = self._aged(board.battles_)
        votes = votes.take(votes.outcome != 3)
        p = board.predict_proba(*votes.items[votes.pairs].T, context=votes.context)
        counts = votes.weight[:, None] * np.eye(3)[votes.outcome]
        if p.shape[1] == 2:
            counts = counts[:, :2] + 0.5 * counts[:, 2:]
        one, two = votes.pairs.T
        board.pair_counts_, board.pair_shares_ = by_pair(one, two, counts, p, len(self.items_))
        return board

    def _check_whole(self) -> None:
        """Refuse what needs the battles of all categories, if only those of one are here."""
        check_is_fitted(self)
        if self._fitted("category_ratings_") is None:
            return
        only = set(self.battles_.category.tolist())
        if len(only) == 1:
            raise DataError(
                f"This is the leaderboard of {only.pop()!r}: ask the one of all categories."
            )

    def _check_item_features(self, given: Any) -> None:
        """Refuse another model than that of the fit."""
        fitted = bool(self._fitted("has_item_features_"))
        if (given is not None) != fitted:
            raise DataError(
                "Pass item_features, with a row for each item, if they were passed to fit: the "
                f"leaderboard was fitted {'with' if fitted else 'without'} item_features."
            )

    def _timed(self, item_features: Any) -> Battles:
        """The battles; raises an error if they have no times."""
        self._check_whole()
        self._check_item_features(item_features)
        data = self.battles_
        if isinstance(data, Rankings) or data.time is None:
            raise DataError("as_of and history need the times of battles: pass time to fit.")
        return data

    def _check_categories(self) -> None:
        self._check_whole()
        if self._fitted("category_ratings_") is None:
            raise DataError("The battles have no categories: pass by to fit.")

    def _set_cells(
        self,
        battles: Battles,
        problem: BattleProblem,
        walk: Walk | Boards,
        rng: np.random.Generator,
    ) -> Leaderboard:
        if not walk.converged:
            warn_about_convergence()
        V = walk.covariance
        deviations = (root_of(V) @ rng.standard_normal((len(V), self.n_draws))).T
        self._set_ratings(
            battles, problem, walk.params, walk.penalties, walk.n_groups, (V, deviations), rng
        )
        self._set_outcomes(battles, problem, walk.params)
        self._set_panel(problem, Panel.none(), walk.penalties)
        return self

    def as_of(self, time: Any, *, item_features: Any = None) -> Leaderboard:
        """The leaderboard as it was at a time: the same model, fitted to the battles until then.

        No later battle has any influence, also not on the half-life, the drift and the penalty.

        Parameters
        ----------
        time : str, datetime or number
            A date or a number, as the times of the battles.
        item_features : pandas DataFrame or dict, optional
            As for `fit`, if the leaderboard was fitted with it.

        Returns
        -------
        Leaderboard
            A new one, for all items of this leaderboard.

        Examples
        --------
        >>> from rankwise import Leaderboard
        >>> board = Leaderboard().fit(["a", "b", "a", "b"] * 9, ["b", "a", "b", "a"] * 9,
        ...                           [1, 0, 1, 1] * 9, time=range(36))
        >>> len(board.as_of(23).battles_)
        24
        """
        data = self._timed(item_features)
        assert data.time is not None
        (when,), dated = check_times([time], 1, lambda k: "as_of")
        if dated != data.dated:
            kinds = ["numbers", "dates"]
            raise DataError(f"The times of the battles are {kinds[data.dated]}: got {time!r}.")
        keep = data.time <= when
        if not keep.any():
            first = shown_time(float(data.time.min()), dated=data.dated)
            raise DataError(f"There are no battles until {time!r}: the first is of {first}.")
        until = data.take(keep)
        if until.category is not None:
            counted = until.category[(until.outcome != 3) & (until.weight > 0)]
            if len(set(counted.tolist())) < 2:
                until = replace(until, category=None)
        return self._again(until, item_features)

    def history(
        self,
        n_times: int = 12,
        *,
        times: Any = None,
        every: str | float | None = None,
        elo: bool = False,
        anchor: tuple[Any, float] | None = None,
        item_features: Any = None,
    ) -> History:
        """Ratings at several times, with intervals, each from the battles until then.

        Takes a fit for each time. With `every`, takes one fit, in which each period has ratings of
        its own: they are shrunk towards the overall ratings, by as much as the evidence says.

        Parameters
        ----------
        n_times : int, default=12
            The number of times, such that as many battles are between one and the next.
        times : sequence of dates or numbers, optional
            The times, instead of `n_times`.
        every : {"day", "week", "month", "quarter", "year"} or number, optional
            Ratings of each period of this length, instead of `n_times`: with dates, a word or a
            number of days. The time of a period is the time of its first battle.
        elo : bool, default=False
            Whether to convert ratings to Elo points, as in `standings`.
        anchor : tuple of an id and a number, optional
            An item and its rating at all times, as in `standings`. Times before its first battle,
            and periods without its battles, are left out.
        item_features : pandas DataFrame or dict, optional
            As for `fit`, if the leaderboard was fitted with it.

        Returns
        -------
        History
            With a row for each time and each item that had a battle until then: `to_frame`,
            `to_table` and `plot`.
        """
        data = self._timed(item_features)
        assert data.time is not None
        check_value("n_times", n_times, Whole(1))
        self._check_elo(elo)
        if every is not None:
            if times is not None:
                raise ParameterError("times and every both name times: use one of them.")
            boards = self._periods(data.every(every), item_features)
            return self._joined(boards, elo=elo, anchor=anchor)
        if times is None:
            shares = np.linspace(0, 1, n_times + 1)[1:]
            found = np.quantile(data.time, shares, method="inverted_cdf")
            found = np.unique(np.maximum(found, data.time[decided(data)].min()))
            times = as_datetimes(found, dated=data.dated)
        if not len(times):
            raise ParameterError("times is empty: give one or more times, or None.")
        boards = []
        with warnings.catch_warnings(), progress_bar("History", len(times)) as show:
            warnings.simplefilter("ignore")  # about the first battles
            for k, time in enumerate(times):
                boards.append((time, self.as_of(time, item_features=item_features)))
                show(k + 1)
        return self._joined(boards, elo=elo, anchor=anchor)

    def _periods(self, data: Battles, item_features: Any) -> list[tuple[Any, Leaderboard]]:
        """The first time and the leaderboard of each period; the categories are periods."""
        penalty = "evidence" if self.penalty == "held-out" else self.penalty
        plain = clone(self).set_params(half_life=None, drift=None, penalty=penalty)
        board = plain.fit(replace(data, judge=None, gold=None), item_features=item_features)
        assert data.time is not None
        boards = []
        for period in board.categories_:
            within = board.within(period)
            begin = as_datetimes(within.battles_.time.min(keepdims=True), dated=data.dated)
            boards.append((begin[0], within))
        return boards

    def _joined(
        self, boards: list[tuple[Any, Leaderboard]], *, elo: bool, anchor: tuple[Any, float] | None
    ) -> History:
        """Ratings of the items that had a battle, in each of several leaderboards."""
        if anchor is not None:
            fixed, _ = self._anchored(anchor)
            boards = [each for each in boards if each[1].battles_.counts[fixed]]
            if not boards:
                raise DataError(f"The anchor {anchor[0]!r} has no battle at these times.")
        parts = []
        for time, board in boards:
            met = np.flatnonzero(board.battles_.counts)
            shown = board._shown_ratings(elo=elo, anchor=anchor)  # noqa: SLF001 (its own class)
            columns = board.items_, *shown
            parts.append((np.full(len(met), time), *(column[met] for column in columns)))
        return History.of(parts, self.unit(elo=elo))

    def _problem(
        self, battles: Battles, item_features: Any, kinds: Sequence[str] = ()
    ) -> BattleProblem:
        return BattleProblem.of(
            battles, item_features=item_features, link=self.link, ties=self.ties,
            position=self.position or "place" in kinds,
        )  # fmt: skip

    def _maximum(
        self,
        problem: Problem,
        begin: Array | None,
        rng: np.random.Generator,
        show: Show,
    ) -> Mode:
        """The maximum of the likelihood, with its penalties."""
        likelihood = problem.likelihood
        if self.penalty == "evidence":
            before = {} if begin is None else {"items": float(np.log(self.penalty_))}
            return by_evidence(likelihood, {}, begin, before, show)
        if self.penalty == "held-out":
            group = np.arange(len(problem)) if problem.group is None else problem.group
            if group.max() < 1:
                raise DataError("penalty='held-out' needs two or more groups of battles.")
            return by_held_out(likelihood, problem.without, group, rng, begin, show)
        if len(problem.layout.groups) == 1:
            return maximize(likelihood, self._fixed, begin)
        return by_evidence(likelihood, self._fixed, begin, show=show)

    def _chosen(
        self, problem: BattleProblem, kinds: list[str], begin: Array | None, show: Show
    ) -> tuple[list[str], Start]:
        """The kinds of effects of judges that the evidence keeps, and a start.

        Votes of a group that depend on each other, beyond what the effects explain, count less: the
        evidence of effects would take them for signs of their judges.
        """

        votes = self._votes(problem, show)
        found, start = votes.choose(kinds, begin)
        if found and problem.group is not None:
            likelihood, mode = votes.maximum(found, start)
            scores = replace(problem, likelihood=likelihood).scores(mode.params)
            worth = dependence_of(mode, scores, problem.layout.items)
            if worth >= DEPENDENT:
                return replace(votes, plain=votes.plain.divided(worth)).choose(kinds, begin)
        return found, start

    def _votes(self, problem: BattleProblem, show: Show = unseen) -> Votes:
        n_features = problem.features.shape[1]
        return Votes(problem.likelihood, len(problem.judges), n_features, self._fixed, show)

    @property
    def _fixed(self) -> dict[str, float]:
        """Penalties that are given."""
        return {} if isinstance(self.penalty, str) else {"items": float(self.penalty)}

    def _solved(
        self,
        problem: Problem,
        kinds: list[str],
        begin: Array | None,
        rng: np.random.Generator,
        show: Show,
        start: Start | None = None,
    ) -> tuple[Any, Mode]:
        """As `_with_judges`, with the penalty of the evidence where groups count less."""
        problem, mode = self._with_judges(problem, kinds, begin, rng, show, start)
        if self.penalty != "evidence" or problem.group is None:
            return problem, mode
        likelihood: Any = problem.likelihood
        worth = dependence_of(mode, problem.scores(mode.params), problem.layout.items)
        if worth < DEPENDENT:
            return problem, mode
        self.dependence_ = worth
        own = {k: v / worth for k, v in mode.penalties.items() if k != "items"}
        log = {"items": float(np.log(mode.penalties["items"]))}
        found = by_evidence(likelihood.divided(worth), own, mode.params, log, show)
        penalties = mode.penalties | {"items": found.penalties["items"] * worth}
        return problem, maximize(likelihood, penalties, found.params)

    def _with_judges(
        self,
        problem: Problem,
        kinds: list[str],
        begin: Array | None,
        rng: np.random.Generator,
        show: Show,
        start: Start | None = None,
    ) -> tuple[Any, Mode]:
        """The maximum, and the problem with the effects of judges of these kinds."""
        if isinstance(problem, RankingLists) or not kinds:
            problem = problem.without_judges()
            return problem, self._maximum(problem, begin, rng, show)
        votes = self._votes(problem, show)
        if start is None:
            _, start = votes.first_guess(kinds, begin)
        likelihood, mode = votes.maximum(kinds, start)
        problem = replace(problem, likelihood=likelihood)
        if self.penalty == "held-out":
            mode = self._maximum(problem, mode.params, rng, show)
        return problem, mode

    def _warm_start(self, problem: BattleProblem) -> Array:
        """The present parameters by item; new items and judges start at zero."""
        layout = problem.layout
        params = layout.start()
        n = len(self.items_)  # the old items come first
        params[layout.items][:n] = self.params_["items"]
        if problem.names == self.coef_names_:
            params[layout.columns] = self.coef_ * problem.scales
        if layout.ties and "tie" in self.params_:
            params[layout.tie] = self.params_["tie"]
        before = self._fitted("item_ties_")
        if layout.n_item_ties and before is not None:
            params[layout.item_ties][:n] = before
        return params

    def _set_fitted(
        self, data: Battles | Rankings, problem: Problem, mode: Mode, rng: np.random.Generator
    ) -> None:
        _warn_about_maximum(problem, mode)
        likelihood: Any = problem.likelihood
        layout = problem.layout
        if layout.effects:
            mode = averaged(likelihood, mode)
        scores = problem.scores(mode.params)
        if isinstance(problem, BattleProblem) and isinstance(data, Battles):
            if problem.time is not None and np.ptp(problem.time):
                drift = SeenDrift.of(problem, mode.params)
                drift.warn(scores, self.half_life, dated=data.dated, group=problem.group)
                if self.half_life is not None:
                    scores = drift.added_to(scores)
            if POSITION not in problem.names:
                warn_about_position(problem, mode.params)
        with late_progress_bar("Intervals", self.n_draws) as show:
            spread_of = spread(
                mode, scores, layout.items, self.n_draws, rng, show, dependence=self.dependence_
            )
        panel = Panel.of(likelihood, len(problem.judges), mode, *spread_of)
        params, spread_of = panel.of_the_mean(likelihood, mode, *spread_of, rng)
        self._set_ratings(data, problem, params, mode.penalties, scores.fewest, spread_of, rng)
        self._set_outcomes(data, problem, mode.params)
        self.params_["slip"] = params[layout.slip]
        self._set_panel(problem, panel, mode.penalties)

    def _set_panel(self, problem: Problem, panel: Panel, penalties: Mapping[str, float]) -> None:
        """The judges and their effects, with slopes relative to their mean."""
        self.judges_, self.judge_kinds_ = problem.judges, list(problem.layout.effects)
        widths = np.array([penalties.get(kind, np.inf) ** -0.5 for kind in KINDS])
        self.judge_widths_ = widths / np.array([panel.slope, 1.0, 1.0, 1.0])
        panel = panel.relative()
        self.judge_effects_, self.judge_covariances_ = panel.mean, panel.covariance
        self.judge_shares_ = panel.share

    def _set_outcomes(self, data: Any, problem: Problem, params: Array) -> None:
        """Ties, shares of outcomes, and the share of battles in which both are bad."""
        layout, of_rankings = problem.layout, isinstance(problem, RankingLists)
        if layout.ties:
            self.tie_ = float(np.exp(params[layout.tie][0]))
            self.params_["tie"] = params[layout.tie]
        else:
            self.tie_ = float("nan") if of_rankings or self.ties == "half" else 0.0
        bad = np.zeros(1) if of_rankings else data.weight * (data.outcome == 3)
        self.both_bad_ = float(bad.sum() / data.weight.sum())
        self.pair_counts_, self.pair_shares_ = problem.pair_shares(params)

    def _set_ratings(
        self,
        data: Battles | Rankings,
        problem: Problem,
        params: Array,
        penalties: Mapping[str, float],
        n_groups: int,
        spread_of: tuple[Array | None, Array],
        rng: np.random.Generator,
    ) -> None:
        """Ratings and coefficients with their errors, from the covariance and from draws."""
        layout, (covariance, deviations) = problem.layout, spread_of
        self.n_groups_, df = n_groups, max(n_groups - 1, 1)
        warn_about_groups(n_groups)
        # With few groups, draws are from Student's t distribution, as intervals are.
        heavier = np.sqrt(df / rng.chisquare(df, size=(self.n_draws, 1)))
        self.battles_, self.items_ = data, data.items
        self.ratings_ = problem.ratings(params)
        draws = problem.ratings(deviations)
        if covariance is None:
            self.covariance_ = None
            self.rating_std_ = draws.std(axis=0, dtype=float)
            errors = deviations[:, : layout.common].std(axis=0, dtype=float)
        else:
            errors = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
            to_ratings = problem.rating_map()
            self.covariance_ = to_ratings @ covariance @ to_ratings.T
            self.rating_std_ = np.sqrt(np.maximum(self.covariance_.diagonal(), 0.0))
        draws *= heavier
        draws += self.ratings_
        self.draws_ = draws
        self.penalty_ = penalties["items"]
        self.coef_names_ = problem.names
        self.coef_ = params[layout.columns] / problem.scales
        self.coef_std_ = errors[layout.columns] / problem.scales
        self.params_ = {"items": params[layout.items]}
        self.item_ties_ = self.item_ties_std_ = self.tie_width_ = None
        if layout.n_item_ties:
            self.item_ties_ = params[layout.item_ties]
            if covariance is None:
                apart = deviations[:, layout.item_ties]
                apart = apart - apart.mean(axis=1, keepdims=True)
                self.item_ties_std_ = apart.std(axis=0, dtype=float)
            else:
                center = np.eye(len(self.items_)) - 1.0 / len(self.items_)
                own = center @ covariance[layout.item_ties, layout.item_ties] @ center
                self.item_ties_std_ = np.sqrt(np.maximum(own.diagonal(), 0.0))
            self.tie_width_ = float(penalties[ITEM_TIES] ** -0.5)

    # Results.

    def unit(self, *, elo: bool = False) -> str:
        """What ratings and coefficients are in: log-odds, probits, or Elo points if `elo`."""
        self._check_elo(elo)
        return "Elo points" if elo else "log-odds" if self.link == "logit" else "probits"

    def _check_elo(self, elo: bool) -> None:
        if elo and self.link != "logit":
            raise ParameterError('Elo points need the logit link: use link="logit".')

    def standings(self, *, elo: bool = False, anchor: tuple[Any, float] | None = None) -> Standings:
        """The items from best to worst, with intervals of ratings and ranks.

        Two items can be told apart if their ratings differ by more than the critical value of
        Tukey and Kramer, which holds for all pairs at once. A group begins with the best item that
        is not in a group yet, and ends with the last item that cannot be told apart from it.

        Parameters
        ----------
        elo : bool, default=False
            Whether to convert ratings to Elo points with mean 1,000: 400 points are odds of 10 to
            1. With the logit link only.
        anchor : tuple of an id and a number, optional
            Move all ratings so that this item has this rating, as in ``("gpt-4", 1000)``. Intervals
            are then of the distance to this item.

        Returns
        -------
        Standings
            With `to_frame`, `to_table` and `plot`.
        """
        check_is_fitted(self)
        self._check_elo(elo)
        order = np.argsort(-self.ratings_, kind="stable")
        rating, lower, upper = self._shown_ratings(elo=elo, anchor=anchor)
        ranks = self._ranks()
        low, high = self._rank_interval(ranks, self.level)
        of_rankings = isinstance(self.battles_, Rankings)
        if of_rankings:
            bad = np.full(len(self.items_), np.nan)
        else:
            bad = self._shares_of(3, self.battles_.pairs.T, len(self.items_))
        columns = {
            "item": self.items_[order],
            "rating": rating[order],
            "low": lower[order],
            "high": upper[order],
            "rank": np.arange(1, len(order) + 1),
            "rank_low": low[order],
            "rank_high": high[order],
            "p_first": (ranks == 1).mean(axis=0)[order],
            "tied_with": self._tied(order),
            "group": self._groups(order)[order],
            "rankings" if of_rankings else "battles": self.battles_.counts[order],
            "both_bad": bad[order],
        }
        unit = self.unit(elo=elo)
        note = (
            f"Ratings in {unit}. Intervals and ranks: {100 * self.level:.4g}% for "
            "each item alone. Tied with: the ranks of items\nthat cannot be told apart, with all "
            "pairs tested at once."
        )
        return Standings(columns, {"rating": ".0f" if elo else ".3f"}, note, unit=unit)

    def _shown_ratings(
        self, *, elo: bool, anchor: tuple[Any, float] | None
    ) -> tuple[Array, Array, Array]:
        """Ratings and both ends of their intervals, as `standings` shows them."""
        scale, mean = (ELO, ELO_MEAN) if elo else (1.0, 0.0)
        error = self.rating_std_
        if anchor is not None:
            fixed, rating = self._anchored(anchor)
            mean = rating - scale * self.ratings_[fixed]
            error = self._distance_errors(fixed)
        half = self._quantile(self.level) * error
        ends = self.ratings_ - half, self.ratings_ + half
        return mean + scale * self.ratings_, mean + scale * ends[0], mean + scale * ends[1]

    def _anchored(self, anchor: tuple[Any, float]) -> tuple[int, float]:
        """The number of the item that an anchor names, and its rating."""
        is_pair = isinstance(anchor, tuple | list) and len(anchor) == 2
        if not (is_pair and Number().allows(anchor[1])):
            raise ParameterError(
                f'anchor must be an item and its rating, as in ("gpt-4", 1000): got {anchor!r}.'
            )
        (fixed,) = self._numbers([anchor[0]])
        return int(fixed), float(anchor[1])

    def _shares_of(self, outcome: int, codes: Sequence[Index], n: int, *, among: int = 4) -> Array:
        """By item or pair, the share of an outcome among those below; NaN without battles.

        `codes` has one or more numbers below n for each battle.
        """
        b = self.battles_
        weight, total, found = b.weight * (b.outcome < among), np.zeros(n), np.zeros(n)
        for code in codes:
            total += np.bincount(code, weight, n)
            found += np.bincount(code, weight * (b.outcome == outcome), n)
        return np.divide(found, total, out=np.full(n, np.nan), where=total > 0)

    def _quantile(self, level: float) -> float:
        """Standard errors on each side of an interval."""
        return float(student.isf((1 - level) / 2, max(self.n_groups_ - 1, 1)))

    def to_frame(self) -> Any:
        """The standings as a pandas data frame, best items first."""
        return self.standings().to_frame()

    def interval(self, level: float | None = None) -> tuple[Array, Array]:
        """The ends of an interval of each rating, in the order of `items_`.

        Parameters
        ----------
        level : float, optional
            By default the level of the leaderboard.

        Returns
        -------
        low, high : ndarray of shape (n_items,)
        """
        check_is_fitted(self)
        half = self._quantile(self._level(level)) * self.rating_std_
        return self.ratings_ - half, self.ratings_ + half

    def rank_interval(self, level: float | None = None) -> tuple[Index, Index]:
        """The lowest and highest rank of each item, in the order of `items_`; 1 is the best.

        The outer quantiles of its ranks in the draws.

        Parameters
        ----------
        level : float, optional
            By default the level of the leaderboard.

        Returns
        -------
        low, high : ndarray of shape (n_items,)
        """
        return self._rank_interval(self._ranks(), self._level(level))

    def _level(self, level: float | None) -> float:
        if level is None:
            return self.level
        check_value("level", level, Number(0, 1, open_low=True, open_high=True))
        return level

    def _rank_interval(self, ranks: NDArray[np.int32], level: float) -> tuple[Index, Index]:
        outside = (1 - level) / 2
        ends = np.quantile(ranks, [outside, 1 - outside], axis=0, method="inverted_cdf")
        low, high = ends.astype(np.intp)
        return low, high

    def top(self, k: int = 1) -> Array:
        """The probability of each item to be among the best k."""
        check_is_fitted(self)
        check_value("k", k, Whole(1, len(self.items_)))
        return np.asarray((self._ranks() <= k).mean(axis=0))

    def _ranks(self) -> NDArray[np.int32]:
        """The rank of each item in each draw, from 1."""
        check_is_fitted(self)
        n = len(self.items_)
        ranks = np.empty(self.draws_.shape, dtype=np.int32)
        places, step = np.arange(1, n + 1, dtype=np.int32)[None], max(CELLS // n, 1)
        for k in range(0, len(ranks), step):
            order = np.argsort(-self.draws_[k : k + step], axis=1)
            np.put_along_axis(ranks[k : k + step], order, places, axis=1)
        return ranks

    def _critical(self) -> float:
        """Standard errors of a difference that is settled."""
        df = max(self.n_groups_ - 1, 1)
        # For all pairs at once: the difference of two items has the variance of two values.
        return range_quantile(self.level, len(self.items_), df) / float(np.sqrt(2))

    def _settler(self) -> Callable[[Index], NDArray[np.int8]]:
        """A function that returns some rows of `settled`."""
        if self.covariance_ is None:
            about = self.draws_ - self.ratings_.astype(self.draws_.dtype)
            own = np.square(about).mean(axis=0)
        else:
            own = self.covariance_.diagonal()
        critical = self._critical()

        def rows(chosen: Index) -> NDArray[np.int8]:
            if self.covariance_ is None:
                shared = about[:, chosen].T @ about / len(about)
            else:
                shared = self.covariance_[chosen]
            error = np.sqrt(np.maximum(own[chosen][:, None] + own - 2 * shared, 0.0))
            difference = self.ratings_[chosen][:, None] - self.ratings_
            settled = abs(difference) > critical * error
            return np.where(settled, np.sign(difference), 0).astype(np.int8)

        return rows

    def _distance_errors(self, fixed: int) -> Array:
        """Standard errors of the distances of all ratings to one of them."""
        if self.covariance_ is None:
            return np.asarray((self.draws_ - self.draws_[:, [fixed]]).std(axis=0, dtype=float))
        V = self.covariance_
        return np.sqrt(np.maximum(V.diagonal() + V[fixed, fixed] - 2 * V[fixed], 0.0))

    def _tied(self, order: Index) -> NDArray[Any]:
        """For the items in this order, the ranks of those that cannot be told apart from each."""
        rows, found = self._settler(), []
        for begin in range(0, len(order), BLOCK):
            chosen = order[begin : begin + BLOCK]
            for k, settled in enumerate(rows(chosen)[:, order], begin):
                ranks = np.flatnonzero(settled == 0)
                found.append(rank_ranges(ranks[ranks != k] + 1))
        return np.array(found, dtype=object)

    def _groups(self, order: Index) -> Index:
        """The number of the group of each item, from 1."""
        settled, group, number, k = self._settler(), np.zeros(len(order), dtype=np.intp), 0, 0
        while k < len(order):
            number += 1
            behind = settled(order[[k]])[0, order[k:]] > 0
            size = int(np.argmax(behind)) if behind.any() else len(behind)
            group[order[k : k + size]] = number
            k += size
        return group

    def settled(self) -> NDArray[np.int8]:
        """For each pair of items, whether one is better at the confidence level.

        Returns
        -------
        ndarray of shape (n_items, n_items)
            1 where the item of the row is better than the item of the column, -1 where it is worse,
            0 where the two cannot be told apart. Wrong for any of the pairs with probability 1 -
            `level`, by the critical value of Tukey and Kramer.
        """
        check_is_fitted(self)
        n, rows = len(self.items_), self._settler()
        return np.vstack([rows(np.arange(k, min(k + BLOCK, n))) for k in range(0, n, BLOCK)])

    def predict(self, items: Any = None) -> Array:
        """The ratings of items, by their ids; None: of all items."""
        check_is_fitted(self)
        return self.ratings_ if items is None else self.ratings_[self._numbers(items)]

    def predict_proba(
        self, first: Any, second: Any, *, judge: Any = None, context: Any = None
    ) -> Array:
        """Probabilities of the outcomes of battles.

        Parameters
        ----------
        first, second : array-like of shape (n_battles,)
            Ids of items.
        judge : array-like of shape (n_battles,) or single id, optional
            Who judges, with the uncertainty about the judge. None, or a judge who is not known:
            averaged over all judges, each as often as in the battles of the fit.
        context : array-like of shape (n_battles, n_columns), optional
            None: covariates are zero.

        Returns
        -------
        ndarray of shape (n_battles, n_outcomes)
            Of a win of the first item, a win of the second and, if ties have a model, a tie.
        """
        check_is_fitted(self)
        a, b = self._numbers(first, "first"), self._numbers(second, "second")
        if a.shape != b.shape:
            raise DataError(
                f"first and second must have the same length: got {len(a)} and {len(b)} entries."
            )
        begin = int(POSITION in self.coef_names_[:1])
        shift = np.full(len(a), self.coef_[0] if begin else 0.0)
        if context is not None:
            values = check_context(context, len(a))[0]
            fitted = self.battles_.context
            width = 0 if fitted is None else fitted.shape[1]
            if values is None or values.shape[1] != width:
                raise DataError(
                    f"context needs {width} columns, as in fit: got shape {np.shape(context)}."
                )
            shift = shift + values @ self.coef_[begin : begin + width]
        d = self.ratings_[a] - self.ratings_[b]
        tie = self.params_.get("tie")
        item_ties = self._fitted("item_ties_")
        if tie is not None and item_ties is not None:
            tie = tie + item_ties[a] + item_ties[b]
        elif tie is not None:
            tie = np.full(len(a), tie[0])
        slip = self.params_.get("slip", np.zeros(0))
        number = self._judge_numbers(judge, len(a))
        if not self._fitted("judge_kinds_"):
            tau = np.zeros(len(a)) if tie is None else tie
            return np.exp(MODELS[self.link, tie is not None](d + shift, tau).log_p).T
        panel = Panel(self.judge_effects_, self.judge_covariances_, self.judge_shares_)
        return panel.probabilities(number, d, shift, tie, slip, self.link)

    def _judge_numbers(self, judge: Any, n: int) -> Index:
        """The number of the judge of each battle; -1 for judges who are not known."""
        if judge is None:
            return np.full(n, -1)
        if not len(self.judges_):
            raise DataError("The leaderboard was fitted without judges: leave out judge.")
        one = isinstance(judge, str) or np.ndim(judge) == 0
        ids = check_comparison_ids("judge", [judge] * n if one else judge, n, "battle")
        number = {name: k for k, name in enumerate(self.judges_.tolist())}
        return np.array([number.get(name, -1) for name in ids.tolist()], dtype=np.intp)

    def _numbers(self, ids: Any, name: str = "items") -> Index:
        """The numbers of items by their ids: one, a column, or the rows of several columns."""
        number = {item: k for k, item in enumerate(self.items_.tolist())}
        text = isinstance(ids, str | bytes)
        if text or not hasattr(ids, "__len__") or getattr(ids, "shape", None) == ():
            ids = [ids.item() if hasattr(ids, "item") else ids]
        columns = id_columns(ids) or [ids]
        checked = [check_comparison_ids(name, column, None, "row") for column in columns]
        entries = np.column_stack([column.astype(object) for column in checked]).ravel().tolist()
        unknown = [item for item in entries if item not in number]
        if unknown:
            kind = self.items_.dtype.kind
            whole = kind in "iu"
            if kind in "iuU" and isinstance(unknown[0], str if whole else int):
                raise DataError(
                    f"The ids of items are {'integers' if whole else 'text'}, such as "
                    f"{next(iter(number))!r}: got {unknown[0]!r}."
                )
            raise DataError(
                f"The leaderboard has no item {unknown[0]!r}: it has {len(number)} others."
            )
        return np.array([number[item] for item in entries], dtype=np.intp)

    def coefficients(self, *, elo: bool = False) -> BoardTable:
        """Coefficients of covariates, with intervals and z values.

        A coefficient is the change of the first item's rating for a change of 1 in the covariate:
        in log-odds (or probits), or in Elo points if `elo`.
        """
        check_is_fitted(self)
        unit, scale = self.unit(elo=elo), ELO if elo else 1.0
        half = self._quantile(self.level) * self.coef_std_
        z = np.divide(self.coef_, self.coef_std_, out=np.zeros_like(half), where=half > 0)
        columns = {
            "column": np.array(self.coef_names_, dtype=object),
            "coefficient": scale * self.coef_,
            "low": scale * (self.coef_ - half),
            "high": scale * (self.coef_ + half),
            "z": z,
        }
        least = float(np.min(scale * half, initial=1.0, where=half > 0))
        # Two digits of the narrowest interval: some covariates are per token, or per day.
        digits = int(np.clip(1 - np.floor(np.log10(least)), 1 if elo else 3, MOST_DIGITS))
        points = dict.fromkeys(("coefficient", "low", "high"), f".{digits}f")
        whose = "an" if isinstance(self.battles_, Rankings) else "the first"
        note = f"In {unit}: the change of {whose} item's rating for a change of 1 in the column."
        return BoardTable(columns, {**points, "z": ".1f"}, note)

    def judges(self) -> BoardTable:
        """The slope, tie parameter, place and slips of each judge, with intervals.

        Judges with remarks come first. Only effects that differ among judges are printed. A judge
        is an adversary if the interval of the slope lies below 0. A judge is careless if it lies
        below 0.5 and chance does not explain the votes (z below -3, with ratings by all battles),
        or if the interval of slips lies above 0.25.
        """
        judge = self._judge_of_battles()
        if not hasattr(self, "judge_effects_"):
            raise DataError("The leaderboard is from an older version: fit its battles again.")
        numbers = {name: k for k, name in enumerate(self.judges_.tolist())}
        codes = [numbers[name] for name in judge.tolist() if name in numbers]
        columns: dict[str, Any] = {
            "judge": self.judges_,
            "battles": np.bincount(codes, minlength=len(self.judges_)),
        }
        panel = Panel(self.judge_effects_, self.judge_covariances_, self.judge_shares_)
        place = self.coef_[0] if POSITION in self.coef_names_[:1] else 0.0
        tie, slip = (self.params_.get(name, np.zeros(0)) for name in ("tie", "slip"))
        shown = dict(columns)
        found = panel.table(self._quantile(self.level), place, tie, slip)
        for kind, (name, values, low, high) in found.items():
            columns |= {name: values, f"{name}, low": low, f"{name}, high": high}
            if kind in self.judge_kinds_:
                shown |= {name: values, f"{name}, interval": intervals(low, high, 2)}
        z = np.full(len(self.judges_), -np.inf)  # where right answers tell who is careless
        if "slope" in self.judge_kinds_ and self.battles_.gold is None:
            problem = self._problem(self._aged(self.battles_), None)
            votes = Votes(problem.likelihood, len(problem.judges), 0, {})
            z = votes.slope_scores(votes.ratings())
        said = remarks(found, z)
        order = np.argsort([not remark for remark in said], kind="stable")
        for each in (columns, shown):
            each.update({name: np.asarray(values)[order] for name, values in each.items()})
            each["remark"] = [said[k] for k in order]
        note = "" if self.judge_kinds_ else ALIKE
        return BoardTable(columns, dict.fromkeys(shown, ".2f"), note, shown)

    def item_ties(self) -> BoardTable:
        """How often the battles of each item are tied, by item, with intervals.

        The columns are item, battles, ties, low, high and share, the share of ties among battles
        that are not both bad. `ties` is the tie parameter in battles with an average item, and the
        interval is of what the item contributes. With ``ties="by item"`` only.
        """
        check_is_fitted(self)
        if self.ties != "by item":
            raise DataError('Items have tie parameters of their own with ties="by item".')
        b, n = self.battles_, len(self.items_)
        effect, error = np.zeros(n), np.full(n, np.nan)
        if self.item_ties_ is not None:
            effect, error = self.item_ties_, self._quantile(self.level) * self.item_ties_std_
        order = np.argsort(-effect, kind="stable")
        shown: dict[str, Any] = {
            "item": self.items_[order],
            "battles": b.counts[order],
            "ties": (self.tie_ * np.exp(effect))[order],
        }
        low, high = ((self.tie_ * np.exp(effect + side * error))[order] for side in (-1, 1))
        share = self._shares_of(2, b.pairs.T, n, among=3)[order]
        columns = shown | {"low": low, "high": high, "share": share}
        note = "Tie parameters in battles with an average item."
        if self.item_ties_ is None:
            note = "Items do not differ in ties by more than chance."
        shown |= {"interval": intervals(low, high, 2), "share": share}
        return BoardTable(columns, {"ties": ".2f", "share": ".2f"}, note, shown)

    def _judge_of_battles(self) -> NDArray[Any]:
        """The judge of each battle; raises an error if there are none."""
        check_is_fitted(self)
        if isinstance(self.battles_, Rankings) or self.battles_.judge is None:
            raise DataError("The battles have no judges: pass judge to fit.")
        return self.battles_.judge

    def agreement(self) -> BoardTable:
        """How often two judges agree on battles of the same items in the same group.

        On the diagonal, how often a judge agrees with itself on pairs that it judged twice, for
        example in both orders. Judges with most common battles come first.
        """
        names, judge = number_labels(self._judge_of_battles())
        b = self.battles_
        if b.groups is None:
            raise DataError("Agreement is over battles of the same group: pass groups to fit.")
        turned = b.pairs[:, 0] > b.pairs[:, 1]
        verdict = np.where(turned & (b.outcome < 2), 1 - b.outcome, b.outcome)
        low, high = np.sort(b.pairs, axis=1).T
        if b.groups.ndim == 2:
            raise DataError("Agreement needs one column of groups: there are two.")
        group = number_labels(b.groups)[1]
        n = len(b.items)
        case = np.unique((group * n + low) * n + high, return_inverse=True)[1]
        one, shape = np.ones(len(case)), (len(names), 4 * (int(case.max()) + 1))
        A = sp.coo_array((one, (judge, 4 * case + verdict)), shape=shape).tocsr()
        B = sp.coo_array((one, (judge, case)), shape=(len(names), shape[1] // 4)).tocsr()
        same, both = (A @ A.T).toarray(), (B @ B.T).toarray()
        own = np.bincount(judge, minlength=len(names))
        same[np.diag_indices_from(same)] -= own
        both[np.diag_indices_from(both)] -= own
        i, j = np.triu_indices(len(names))
        met = both[i, j] > 0
        i, j = i[met], j[met]
        common = (both[i, j] / np.where(i == j, 2, 1)).astype(np.intp)
        order = np.argsort(-common, kind="stable")
        i, j = i[order], j[order]
        columns = {
            "judge": names[i],
            "other": names[j],
            "common": common[order],
            "agree": same[i, j] / both[i, j],
        }
        return BoardTable(columns)

    def shares(self) -> BoardTable:
        """For each pair of items that met, observed beside predicted shares of outcomes.

        Shares of wins, losses and ties exclude battles in which both items were bad, and are
        missing if no other battles remain. The share of such battles refers to all battles of the
        pair. `z` is how far the observed wins, with a tie as half a win, are from the predicted
        ones, in standard errors of independent battles, and `p` how often the largest of all such
        distances would be as large by chance.
        """
        check_is_fitted(self)
        counts, predicted, n = self.pair_counts_, self.pair_shares_, len(self.items_)
        if isinstance(self.battles_, Rankings):
            pairs = counts[:, :2].astype(np.intp)
        else:
            pairs = self.battles_.pairs
        low, high = np.sort(pairs, axis=1).T
        codes, pair = np.unique(low * n + high, return_inverse=True)
        only_bad = np.setdiff1d(codes, (counts[:, 0] * n + counts[:, 1]).astype(np.intp))
        if len(only_bad):
            more = np.zeros((len(only_bad), counts.shape[1]))
            more[:, 0], more[:, 1] = np.divmod(only_bad, n)
            counts = np.vstack((counts, more))
            predicted = np.vstack((predicted, np.full_like(more[:, 2:], np.nan)))
        total = counts[:, 2:].sum(axis=1)
        order = np.argsort(-total, kind="stable")
        counts, total, predicted = counts[order], total[order], predicted[order]
        i, j = counts[:, :2].astype(np.intp).T
        observed = np.full_like(predicted, np.nan)
        np.divide(counts[:, 2:], total[:, None], out=observed, where=total[:, None] > 0)
        columns = {"item": self.items_[i], "other": self.items_[j], "battles": total}
        shown: dict[str, Any] = dict(columns)
        words = ("wins", "loses", "ties")[: observed.shape[1]]
        for word, seen, expected in zip(words, observed.T, predicted.T, strict=True):
            columns |= {word: seen, f"{word}, predicted": expected}
            shown[word] = [f"{a:.2f} ({b:.2f})" for a, b in zip(seen, expected, strict=True)]
        if isinstance(self.battles_, Rankings):
            columns["both_bad"] = np.full(len(i), np.nan)
        else:
            bad = self._shares_of(3, [pair], len(codes))
            columns["both_bad"] = bad[np.searchsorted(codes, i * n + j)]
        columns["z"], columns["p"] = shown["z"], shown["p"] = surprise(total, observed, predicted)
        if np.nansum(columns["both_bad"]):
            shown["both bad"] = columns["both_bad"]
        formats = {"battles": ".6g", "both bad": ".2f", "z": ".1f", "p": ".2g"}
        note = "Observed shares, and in brackets the shares that the ratings predict."
        return BoardTable(columns, formats, note, shown)

    def suggest_pairs(
        self,
        n_pairs: int = 1,
        *,
        strategy: str | PairStrategy = "bald",
        candidates: Any = None,
        random_state: Any = 0,
    ) -> NDArray[Any]:
        """Which items to compare next, the most useful pair first.

        Pairs are chosen as by `PairwiseGP.suggest_pair`, under the joint distribution of ratings.

        Parameters
        ----------
        n_pairs : int, default=1
        strategy : {"bald", "eubo", "thompson", "random"} or object, default="bald"
            "bald": the pair whose outcome is most informative about the ratings; "eubo" and
            "thompson" look for the best item. An object has the method `choose`, as in
            `PairwiseGP.suggest_pair`.
        candidates : array-like of shape (n_candidates, 2), int or None
            Pairs of ids to choose from, the number of pairs to draw, or None for all.
        random_state : int, Generator or None, default=0

        Returns
        -------
        ndarray of shape (n_pairs, 2)
            Ids.
        """
        check_is_fitted(self)
        rng = as_generator(random_state)
        if hasattr(candidates, "__len__"):
            if len(id_columns(candidates)) != 2:
                shape = lossless_array(candidates, "candidates").shape
                raise DataError(f"candidates needs two columns of ids: got shape {shape}.")
            candidates = self._numbers(candidates, "candidates").reshape(-1, 2)

        def moments(rows: Index) -> tuple[Array, Array]:
            if self.covariance_ is None:
                return self.ratings_[rows], np.cov(self.draws_[:, rows].T)
            return self.ratings_[rows], self.covariance_[np.ix_(rows, rows)]

        def sample(rows: Index, n: int) -> Array:
            return self.draws_[rng.integers(0, len(self.draws_), n)][:, rows]

        chosen = suggest_pairs(
            strategy, n_pairs, len(self.items_), candidates, rng, moments=moments, sample=sample,
            noise=NOISE[self.link],
        )  # fmt: skip
        return self.items_[chosen]

    def fragility(
        self,
        change: Any = "leader",
        *,
        by: str = "battles",
        item_features: Any = None,
    ) -> Fragility:
        """The fewest battles without which the order of items is another one.

        The influence of each battle on the ratings, to first order, shows which to remove; see
        `rankwise.leaderboard.fragility.fewest`. Refits, with the penalty chosen again, verify that
        the order changes, and that it does not with one battle less. So the number is exact for the
        battles in this order; another choice of battles could need fewer. Up to 30 pairs of items
        are tried, first those whose difference is small in terms of its variance.

        Takes about one fit, O(n_battles) for each pair of items, and four to twelve refits.

        Parameters
        ----------
        change : "leader", int or pair of ids, default="leader"
            What is to change. "leader": who is first. A number k: which items are the first k. Two
            ids: the order of these items if it is not settled; otherwise whether it is settled.
        by : {"battles", "groups"}, default="battles"
            What is removed: single battles (or rankings), or whole groups.
        item_features : pandas DataFrame or dict, optional
            As for `fit`, if the leaderboard was fitted with it.

        Returns
        -------
        Fragility
            Prints as a sentence.
        """
        check_is_fitted(self)
        check_value("by", by, Choice("battles", "groups"))
        self._check_item_features(item_features)
        if self._fitted("drift_") or self._fitted("category_ratings_") is not None:
            raise DataError(
                "fragility is for one rating of each item, without drift and categories: use "
                "half_life, or battles of one category."
            )
        target = Target.of(self, change)
        pairs, margins = target.pairs, target.margins
        if target.settled:
            margins = margins - self._least_settled(pairs[0])
        units = Removable.of(self.battles_, by)
        falls = self._falls(item_features, pairs, units)

        def again(removed: Index) -> Leaderboard:
            data = self.battles_.take(units.without(removed))
            return self._again(data, item_features, n_draws=100)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about battles without some of them
            return fewest(target, units, falls, margins, again)

    def _least_settled(self, pair: Index) -> float:
        """How large the difference of two ratings must be to be settled."""
        chosen = self.draws_[:, pair] - self.ratings_[pair]
        error = float(np.std(chosen[:, 0] - chosen[:, 1]))
        if self.covariance_ is not None:
            V = self.covariance_[np.ix_(pair, pair)]
            error = float(np.sqrt(V[0, 0] + V[1, 1] - 2 * V[0, 1]))
        return self._critical() * error

    def _falls(self, item_features: Any, pairs: Index, units: Removable) -> Array:
        """By how much the difference of each pair falls without each unit, to first order."""
        data, rng = self.battles_, as_generator(self.random_state)
        number, begin, kinds = units.number, None, self._fitted("judge_kinds_") or []
        problem: Any
        with warnings.catch_warnings(), blas_threads_for(len(self.items_)):
            warnings.simplefilter("ignore")
            if isinstance(data, Rankings):
                problem = RankingLists.of(data, item_features)
            else:
                used = self._aged(data)
                problem = self._problem(used, item_features, kinds)
                if self._fitted("item_ties_") is not None:
                    problem = problem.with_item_ties()
                begin = None if kinds else self._warm_start(problem)
                # Weights of old battles may be 0.
                counted = (used.outcome != 3) & (used.weight > 0)
                number = number[counted]
                if used.gold is not None and used.judge is None:
                    problem, _ = with_gold_votes(problem, used)
                    number = np.concatenate((number[used.gold[counted] >= 0], number))
            problem, mode = self._with_judges(problem, kinds, begin, rng, unseen)
            matrix = problem.unit_scores(mode.params, number)
        # Ratings are linear in the parameters.
        contrasts = np.zeros((len(pairs), problem.layout.size))
        contrasts[np.arange(len(pairs)), pairs[:, 0]] = 1.0
        contrasts[np.arange(len(pairs)), pairs[:, 1]] -= 1.0
        features = problem.features
        if features.shape[1]:
            change = features[pairs[:, 0]] - features[pairs[:, 1]]
            end = problem.layout.columns.stop
            contrasts[:, end - features.shape[1] : end] = (
                change / problem.scales[-features.shape[1] :]
            )
        # Before judges, ratings are for a mean slope.
        unit = float(np.linalg.norm(self.ratings_))
        unit /= max(float(np.linalg.norm(problem.ratings(mode.params))), 1e-300)
        falls = np.zeros((len(pairs), len(units)))
        falls[:, : matrix.shape[0]] = unit * (matrix @ mode.curvature.solve(contrasts.T)).T
        return falls

    def plot(self, *, top: int | None = None, ax: Any = None) -> Any:
        """Draw the standings."""
        return self.standings().plot(top=top, ax=ax)


def _check_for_rankings(board: Leaderboard, of_battles: Mapping[str, Any]) -> None:
    """Refuse what rankings do not take, and say what to do instead."""
    unknown = next((name for name in of_battles if name not in OF_BATTLES), None)
    if unknown is not None:
        raise TypeError(f"fit_rankings() got an unexpected keyword argument {unknown!r}")
    given = {name for name, value in of_battles.items() if value is not None}
    given |= {name for name, value in FOR_BATTLES.items() if getattr(board, name) == value}
    given |= {name for name in ("half_life", "drift") if getattr(board, name) is not None}
    for name, instead in FOR_RANKINGS.items():
        if name in given:
            value = f"={FOR_BATTLES[name]!r}" if name in FOR_BATTLES else ""
            raise ParameterError(f"{name}{value} is for battles: {instead}.")


def _warn_about_maximum(problem: Problem, mode: Mode) -> None:
    """Warn if a coefficient grows without bound, or the maximum was not found."""
    large = abs(mode.params[problem.layout.columns]) > SEPARATED
    if large.any():
        warn(
            f"The coefficient of {problem.names[int(np.argmax(large))]!r} has no bound: the column "
            "separates wins from losses."
        )
    elif not mode.converged:
        warn_about_convergence()


def warn_about_convergence() -> None:
    warn(
        "The ratings did not converge: do not rely on them. Use a larger penalty, or check the "
        "battles for items that won or lost every time.",
        ConvergenceWarning,
    )


def _battles(first: Any, second: Any, outcome: Any, **more: Any) -> Battles:
    """Checked battles, from the arguments of `fit`."""
    if isinstance(first, BattleFile):
        first = first.battles
    table = isinstance(first, str | Path | Mapping) or hasattr(first, "columns")
    given = {"second": second, "outcome": outcome, **more}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(first, Battles) or table:
        columns = ("groups", "judge", "gold", "context", "time", "category") if table else ()
        twice = next((name for name in given if name not in columns), None)
        if twice is not None:
            raise ParameterError(
                f"{twice} belongs to the battles, which are given as a whole: pass it to "
                "Battles.of, with the items."
            )
        return _read(first, **given) if table else first
    if second is None or outcome is None:
        raise DataError(
            "Give first, second and outcome, one entry per battle (the outcome is 1 if first has "
            "the winners), or a table, a path or a Battles object."
        )
    return Battles.of(first, **given)


def _read(table: Any, *, context: Any = (), **columns: Any) -> Battles:
    """The battles of a table or file; warns of rows that are left out."""
    groups = columns.get("groups")
    two = isinstance(groups, list | tuple) and all(isinstance(name, str) for name in groups)
    for name, column in columns.items():
        if not (column is None or isinstance(column, str) or (name == "groups" and two)):
            raise ParameterError(f"With a table, {name} is the name of a column.")
    style = [context] if isinstance(context, str) else list(context)
    found = read_battles(table, style=style, **columns)
    if found.dropped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.dropped.items())
        warn(f"Rows that are left out: {reasons}.")
    return found.battles
