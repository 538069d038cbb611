"""What a fitted leaderboard tells: standings, settled pairs, coefficients, judges, next pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index
from rankwise.data.battles import Battles, number_labels
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.pair_strategies import PairStrategy, suggest_pairs
from rankwise.graph.comparison_checks import check_context
from rankwise.leaderboard.outcome_models import MODELS
from rankwise.parameters import Number, Whole, as_generator, check_value
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class BoardTable(TableMixin):
    """Columns of equal length, by name, that print as a table and become a data frame."""

    columns: Mapping[str, Any]
    formats: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    note: str = ""

    def to_table(self) -> Table:
        """The result as a table."""
        heads = tuple(Column(name, self.formats.get(name, ".3f")) for name in self.columns)
        rows = zip(*(np.asarray(column).tolist() for column in self.columns.values()), strict=True)
        return Table(heads, tuple(rows), self.title, self.note)

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of plain values, unrounded; None where there is no number."""
        names, columns = list(self.columns), self.columns.values()
        rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
        return [
            {
                name: value if value == value else None
                for name, value in zip(names, row, strict=True)
            }
            for row in rows
        ]

    def _frame_columns(self) -> Mapping[str, Any]:
        return self.columns

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Standings(BoardTable):
    """The items from best to worst, with intervals; made by `Leaderboard.standings`.

    The columns are item, rating, low, high, rank (by rating), rank_low, rank_high, p_first (the
    probability that the item is the best), group, battles, and both_bad (the share of battles in
    which both items were bad). Items of a group cannot be told apart from the first item of the
    group.
    """

    def to_table(self) -> Table:
        """As a table, with both ends of an interval in one column."""
        c = self.columns
        digits = 0 if self.formats.get("rating") == ".0f" else 2
        ranks = [
            f"{low}" if low == high else f"{low}–{high}"
            for low, high in zip(c["rank_low"], c["rank_high"], strict=True)
        ]
        shown = {
            "rank": c["rank"], "item": c["item"], "rating": c["rating"],
            "interval": _intervals(c["low"], c["high"], digits),
            "ranks": ranks, "P(first)": c["p_first"], "group": c["group"], "battles": c["battles"],
        }  # fmt: skip
        if np.nansum(c["both_bad"]):
            shown["both bad"] = c["both_bad"]
        formats = {"rating": f".{digits}f", "P(first)": ".2f", "both bad": ".2f"}
        return BoardTable(shown, formats, self.title, self.note).to_table()

    def plot(self, *, top: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw ratings with their intervals, the ranks beside them; see `plot_ratings`."""
        from rankwise.plots import plot_ratings

        c = self.columns
        return plot_ratings(
            c["rating"], c["low"], c["high"], names=c["item"],
            ranks=(c["rank_low"], c["rank_high"]), group=c["group"], top=top, ax=ax,
        )  # fmt: skip


class JudgeTable(BoardTable):
    """Judges, their slips and preferences for the first place; made by `Leaderboard.judges`."""

    def to_table(self) -> Table:
        """As a table, with both ends of an interval in one column."""
        c = self.columns
        shown: dict[str, Any] = {"judge": c["judge"], "battles": c["battles"]}
        for name in ("slips", "first place"):
            shown[name] = c[name]
            shown[f"{name}, interval"] = _intervals(c[f"{name}, low"], c[f"{name}, high"], 2)
        formats = dict.fromkeys(shown, ".2f")
        return BoardTable(shown, formats, self.title, self.note).to_table()


class ShareTable(BoardTable):
    """Observed beside predicted shares of pairs; made by `Leaderboard.shares`."""

    def to_table(self) -> Table:
        """As a table, with the predicted share in brackets."""
        c = self.columns
        shown: dict[str, Any] = {name: c[name] for name in ("item", "other", "battles")}
        for word in ("wins", "loses", "ties"):
            if word in c:
                shares = zip(c[word], c[f"{word}, predicted"], strict=True)
                shown[word] = [f"{seen:.2f} ({predicted:.2f})" for seen, predicted in shares]
        if np.nansum(c["both_bad"]):
            shown["both bad"] = c["both_bad"]
        formats = {"battles": ".6g", "both bad": ".2f"}
        note = self.note or "Observed shares, and those that the ratings predict in brackets."
        return BoardTable(shown, formats, self.title, note).to_table()


def _intervals(low: Any, high: Any, digits: int) -> list[str]:
    return [f"{a:.{digits}f} to {b:.{digits}f}" for a, b in zip(low, high, strict=True)]


Z = np.linspace(-9.0, 9.0, 241)  # where the largest of the normal values may be
X = np.linspace(-7.0, 7.0, 43)  # normal scores of the standard error


def range_quantile(level: float, n: int, df: int) -> float:
    """The `level` quantile of the range of n standard normal values over their standard error.

    The standard error has `df` degrees of freedom, independent of the values. With s of the
    distribution of the standard error, P(range < q s) is the mean over s of

        n integral phi(z) (Phi(z) - Phi(z - q s))^(n - 1) dz.

    The same as ``scipy.stats.studentized_range.ppf``, which takes seconds, in milliseconds.

    Examples
    --------
    >>> round(range_quantile(0.95, 10, 60), 2)
    4.65
    """
    s = np.sqrt(chi2.ppf(ndtr(X), df) / df)
    weights, density = (_normal_weights(points) for points in (X, Z))
    below = ndtr(Z)

    def short(q: float) -> float:
        inner = (below - ndtr(Z - q * s[:, None])) ** (n - 1) @ density
        return float(weights @ (n * inner)) - level

    return float(brentq(short, 1e-6, 200.0 if df > 2 else 1e4, xtol=1e-10))


def _normal_weights(points: Array) -> Array:
    """Of the trapezoidal rule for means over the normal distribution."""
    return np.asarray(np.exp(-0.5 * points**2) / np.sqrt(2 * np.pi) * (points[1] - points[0]))


ELO = 400 / np.log(10)  # points of one unit of log-odds
ELO_MEAN = 1000.0
CELLS = 2**20  # draws of items that are ranked at a time
BLOCK = 500  # items whose pairs with all others are looked at together
NOISE = {"logit": 1.702, "probit": 1.0}  # of the probit that is closest to each link


class BoardResults:
    """The methods of a `Leaderboard` that need its fitted attributes only."""

    link: str
    position: bool
    level: float
    n_groups_: int
    items_: NDArray[Any]
    ratings_: Array
    rating_std_: Array
    covariance_: Array | None
    draws_: Array
    coef_: Array
    coef_std_: Array
    coef_names_: list[str]
    judges_: NDArray[Any]
    judge_slips_: Array
    judge_positions_: Array
    judge_intervals_: Array
    pair_counts_: Array
    pair_shares_: Array
    params_: dict[str, Array]
    battles_: Battles

    def standings(self, *, elo: bool = False) -> Standings:
        """The items from best to worst, with intervals of ratings and ranks.

        Two items can be told apart if their ratings differ by more than the critical value of
        Tukey and Kramer, which holds for all pairs at once. A group begins with the best item that
        is not in a group yet, and goes on to the last one that cannot be told apart from it.

        Parameters
        ----------
        elo : bool, default=False
            Whether ratings are in points of Elo with the mean 1,000: 400 points are odds of 10 to
            1. With the logit link only.

        Returns
        -------
        Standings
            With `to_frame`, `to_table` and `plot`.
        """
        check_is_fitted(self)
        if elo and self.link != "logit":
            raise ParameterError('Points of Elo belong to the logit link: use link="logit".')
        scale, mean = (ELO, ELO_MEAN) if elo else (1.0, 0.0)
        order = self._order()
        half = self._quantile(self.level) * self.rating_std_
        ranks = self._ranks()
        low, high = self._rank_interval(ranks, self.level)
        battles = np.bincount(self.battles_.pairs.ravel(), minlength=len(self.items_))
        bad = self._both_bad_shares(list(self.battles_.pairs.T), len(self.items_))
        columns = {
            "item": self.items_[order],
            "rating": (mean + scale * self.ratings_)[order],
            "low": (mean + scale * (self.ratings_ - half))[order],
            "high": (mean + scale * (self.ratings_ + half))[order],
            "rank": np.arange(1, len(order) + 1),
            "rank_low": low[order],
            "rank_high": high[order],
            "p_first": (ranks == 1).mean(axis=0)[order],
            "group": self._groups(order)[order],
            "battles": battles[order],
            "both_bad": bad[order],
        }
        note = (
            "Items of a group cannot be told apart from its first item (all pairs tested); "
            f"{100 * self.level:.4g}% intervals."
        )
        return Standings(columns, {"rating": ".0f" if elo else ".3f"}, note=note)

    def _both_bad_shares(self, codes: list[Index], n: int) -> Array:
        """By item or pair, the share of battles in which both are bad; NaN without battles.

        `codes` has one or more numbers below n for each battle.
        """
        b = self.battles_
        total, bad = np.zeros(n), np.zeros(n)
        for code in codes:
            total += np.bincount(code, b.weight, n)
            bad += np.bincount(code, b.weight * (b.outcome == 3), n)
        return np.divide(bad, total, out=np.full(n, np.nan), where=total > 0)

    def _order(self) -> Index:
        return np.argsort(-self.ratings_, kind="stable")

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
            By default that of the leaderboard.

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
            By default that of the leaderboard.

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

    def _settler(self) -> Callable[[Index], NDArray[np.int8]]:
        """A function that gives some rows of `settled`."""
        if self.covariance_ is None:
            about = self.draws_ - self.ratings_.astype(self.draws_.dtype)
            own = np.square(about).mean(axis=0)
        else:
            own = self.covariance_.diagonal()
        df = max(self.n_groups_ - 1, 1)
        # For all pairs at once: the difference of two items has the variance of two values.
        critical = range_quantile(self.level, len(self.items_), df) / float(np.sqrt(2))

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
        """For each pair of items, whether their order is settled.

        Returns
        -------
        ndarray of shape (n_items, n_items)
            1 where the item of the row is better than that of the column, -1 where it is worse, 0
            where the two cannot be told apart. Wrong for any of the pairs with probability 1 -
            `level`, by the critical value of Tukey and Kramer.
        """
        check_is_fitted(self)
        n, rows = len(self.items_), self._settler()
        return np.vstack([rows(np.arange(k, min(k + BLOCK, n))) for k in range(0, n, BLOCK)])

    def predict(self, items: Any = None) -> Array:
        """The ratings of items, by their ids; None: of all."""
        check_is_fitted(self)
        return self.ratings_ if items is None else self.ratings_[self._numbers(items)]

    def predict_proba(self, first: Any, second: Any, *, context: Any = None) -> Array:
        """Probabilities of the outcomes of battles.

        Parameters
        ----------
        first, second : array-like of shape (n_battles,)
            Ids of items.
        context : array-like of shape (n_battles, n_columns), optional
            None: covariates are zero. The first place has its common effect only if the
            leaderboard was fitted with ``position=True``.

        Returns
        -------
        ndarray of shape (n_battles, n_outcomes)
            That the first wins, that the second wins and, if ties have a model, of a tie.
        """
        check_is_fitted(self)
        a, b = self._numbers(first), self._numbers(second)
        if a.shape != b.shape:
            raise DataError(
                f"first and second must have the same length: got {len(a)} and {len(b)} entries."
            )
        eta = self.ratings_[a] - self.ratings_[b]
        begin = 0
        if self.position or len(self.judges_):
            begin = 1
            eta = eta + (self.coef_[0] if self.position else 0.0)
        if context is not None:
            values = check_context(context, len(a))[0]
            fitted = self.battles_.context
            width = 0 if fitted is None else fitted.shape[1]
            if values is None or values.shape[1] != width:
                raise DataError(
                    f"context needs {width} columns, as in fit: got shape {np.shape(context)}."
                )
            eta = eta + values @ self.coef_[begin : begin + width]
        ties = "tie" in self.params_
        tau = float(self.params_["tie"][0]) if ties else 0.0
        return np.exp(MODELS[self.link, ties](eta, tau).log_p).T

    def _numbers(self, ids: Any) -> Index:
        number = {name: k for k, name in enumerate(self.items_.tolist())}
        entries = np.asarray(ids).ravel().tolist()
        unknown = [name for name in entries if name not in number]
        if unknown:
            raise DataError(
                f"The leaderboard has no item {unknown[0]!r}: it has {len(number)} others."
            )
        return np.array([number[name] for name in entries], dtype=np.intp)

    def coefficients(self) -> BoardTable:
        """Coefficients of covariates, with intervals and z values."""
        check_is_fitted(self)
        half = self._quantile(self.level) * self.coef_std_
        z = np.divide(self.coef_, self.coef_std_, out=np.zeros_like(half), where=half > 0)
        columns = {
            "column": np.array(self.coef_names_, dtype=object),
            "coefficient": self.coef_,
            "low": self.coef_ - half,
            "high": self.coef_ + half,
            "z": z,
        }
        return BoardTable(columns, {"z": ".1f"})

    def judges(self) -> JudgeTable:
        """Slips and the preference for the first place of each judge, with intervals."""
        judge = self._judge_of_battles()
        numbers = {name: k for k, name in enumerate(self.judges_.tolist())}
        codes = [numbers[name] for name in judge.tolist() if name in numbers]
        columns: dict[str, Any] = {
            "judge": self.judges_,
            "battles": np.bincount(codes, minlength=len(self.judges_)),
        }
        for name, values, (low, high) in (
            ("slips", self.judge_slips_, self.judge_intervals_[0]),
            ("first place", self.judge_positions_, self.judge_intervals_[1]),
        ):
            columns |= {name: values, f"{name}, low": low, f"{name}, high": high}
        return JudgeTable(columns)

    def _judge_of_battles(self) -> NDArray[Any]:
        """The judge of each battle; raises an error if there are none."""
        check_is_fitted(self)
        if self.battles_.judge is None:
            raise DataError("The battles have no judges: pass judge to fit.")
        return self.battles_.judge

    def agreement(self) -> BoardTable:
        """How often two judges agree on battles of the same items in the same group.

        A judge beside itself: how often it agrees with itself where it judged a pair twice, for
        example in both orders.
        """
        names, judge = number_labels(self._judge_of_battles())
        b = self.battles_
        if b.groups is None:
            raise DataError("Agreement is over battles of the same group: pass groups to fit.")
        turned = b.pairs[:, 0] > b.pairs[:, 1]
        verdict = np.where(turned & (b.outcome < 2), 1 - b.outcome, b.outcome)
        low, high = np.sort(b.pairs, axis=1).T
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
        halves = np.where(i == j, 2, 1)
        columns = {
            "judge": names[i],
            "other": names[j],
            "common": (both[i, j] / halves).astype(np.intp),
            "agree": same[i, j] / both[i, j],
        }
        return BoardTable(columns)

    def shares(self) -> ShareTable:
        """For each pair of items that met, observed beside predicted shares of outcomes.

        Shares of wins, losses and ties are of the battles in which not both items were bad, and
        missing if there are none. The share of those in which both were bad is of all battles of
        the pair.
        """
        check_is_fitted(self)
        counts, predicted, n = self.pair_counts_, self.pair_shares_, len(self.items_)
        low, high = np.sort(self.battles_.pairs, axis=1).T
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
        words = ("wins", "loses", "ties")[: observed.shape[1]]
        for k, word in enumerate(words):
            columns |= {word: observed[:, k], f"{word}, predicted": predicted[:, k]}
        bad = self._both_bad_shares([pair], len(codes))
        columns["both_bad"] = bad[np.searchsorted(codes, i * n + j)]
        return ShareTable(columns, {"battles": ".6g"})

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
            "bald": the pair whose outcome says most about the ratings; "eubo" and "thompson"
            look for the best item. An object has the method `choose`, as in
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
        if candidates is not None and np.ndim(candidates):
            given = np.asarray(candidates)
            if given.ndim != 2 or given.shape[1] != 2:
                raise DataError(f"candidates needs two columns of ids: got shape {given.shape}.")
            candidates = self._numbers(given).reshape(-1, 2)

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

    def plot(self, *, top: int | None = None, ax: Any = None) -> Any:
        """Draw the standings."""
        return self.standings().plot(top=top, ax=ax)
