"""The studies of `rankwise leaderboard`, `preferences` and `auc`, and their pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel
from sklearn.preprocessing import StandardScaler

from rankwise import PairwiseGP, RankRLS
from rankwise.backends.arrays import Array
from rankwise.cli.studies import rating_note, shown_judges, what_was_read
from rankwise.cli.terminal import write_page
from rankwise.data import ComparisonData
from rankwise.holdout.scores import ObservedComparisons, logistic_slope
from rankwise.model_selection import LeaveComparisonOut, leave_comparison_out, leave_item_out
from rankwise.model_selection.meta_rankers import clear_errors, shared_training
from rankwise.plots import plot_hold_out, plot_item_ranking, plot_reliability, plot_win_matrix
from rankwise.plots.item_plots import rank_intervals
from rankwise.report import Facts, Figure, Folded, Section, Text
from rankwise.tables import Column, Table, plural

if TYPE_CHECKING:
    from rankwise.data import BattleFile, RankingFile

COVARIATES = Text("Ratings are for covariates of zero, such as two responses of the same length.")
TIED = Text(
    "Two items are tied if their order is not settled. All pairs are tested at once, which takes "
    "larger differences than a test of one pair. So two items may be tied although their intervals "
    "do not overlap, or although each has a single rank."
)
JUDGES = Text(
    "The slope of a judge is how much ratings matter to the judge, where 1 is the mean. Below 0, a "
    "judge prefers the worse item. Each value is drawn towards the mean of all judges."
)
SURE = 0.95  # a probability to be the best, which one item tied with another may have
MOST_ITEMS = 60  # in pictures
MOST_AGREEING = 12  # judges whose agreement is shown
MOST_CELLS = 25  # items of the matrix
MOST_PAIRS = 20  # in the table of shares
MOST_CATEGORIES = 8  # with standings


def write_leaderboard(
    board: Any,
    standings: Any,
    file: BattleFile | RankingFile,
    concerns: list[str],
    decided: str,
    more: list[Table],
    source: Path,
    path: Path,
    every: str | None,
    how: dict[str, Any],
) -> None:
    """Standings, pictures, shares, coefficients, judges, and what was left out."""
    battles, n = board.battles_, len(board.items_)
    settled = abs(board.settled()).sum(dtype=int) / max(n * (n - 1), 1)
    facts = [
        (f"{len(battles):,}", "battles" if hasattr(file, "battles") else "rankings"),
        (f"{n:,}", "items"),
        (f"{board.n_groups_:,}", "independent groups"),
        (f"{settled:.0%}", "of all pairs of items can be told apart"),
    ]
    if board.both_bad_:
        facts.append((f"{board.both_bad_:.1%}", "of battles: both are bad"))
    decides = [Text(decided)] if decided else []
    unit, picture = rating_note(board, **how), _ratings(standings)
    covariates: list[Any] = [COVARIATES, *more] if len(board.coef_names_) else []
    judges: list[Any] = []
    if len(board.judges_):
        shown = shown_judges(board)
        judges = [Text(board.judges().note)] if shown is None else [JUDGES, shown]
    few = len(board.judges_) <= MOST_AGREEING
    grouped = battles.groups is not None and battles.groups.ndim == 1
    if judges and few and grouped and len(board.agreement()):
        judges.append(Text("How often two judges agree on the same battle:"))
        judges.append(board.agreement().to_table())
    sections = [
        Section("", [Facts(tuple(facts)), *map(Text, concerns)]),
        Section("Standings", [Text(unit), standings.to_table(), TIED, *decides, picture]),
        Section("History", [] if every is not None else _history(board, how)),
        Section("Categories" if every is None else "Periods", _categories(board, every, how)),
        Section("Covariates", covariates),
        Section("Judges", judges),
        Section("Ties", [board.item_ties().to_table()] if board.ties == "by item" else []),
        Section("Who wins against whom", [_matrix(board, standings), *_shares(board)]),
        Section("What was read", [Text(line) for line in _what_was_read(board, file)]),
    ]
    title = f"Leaderboard of {source.name}"
    write_page(path, "leaderboard", title, _summary(board, standings), sections)


def _summary(board: Any, standings: Any) -> str:
    """Who leads, and who cannot be told apart from the leader."""
    best = standings["item"][0]
    row = board.settled()[int(np.argmax(board.ratings_))]
    order = [k for k in np.argsort(-board.ratings_, kind="stable") if row[k] == 0]
    tied = [str(item) for item in board.items_[order] if item != best]
    first = f"{best} is the best with probability {standings['p_first'][0]:.2f}."
    also = " If all pairs are tested at once, it" if standings["p_first"][0] >= SURE else " It"
    if not tied:
        return f"{first} It can be told apart from all others."
    shown = ", ".join(tied[:5]) + (f" and {len(tied) - 5} more" if len(tied) > 5 else "")
    return f"{first}{also} cannot be told apart from {shown}."


def _ratings(standings: Any) -> Figure:
    shown = min(len(standings), MOST_ITEMS)
    caption = "Ratings with their intervals; on the right, intervals of ranks."
    if shown < len(standings):
        caption = f"The best {shown}. {caption}"
    alt = f"Ratings of {plural(shown, 'item')} with intervals, from best to worst"
    return Figure.of(standings.plot(top=shown), alt, caption)


def _history(board: Any, how: dict[str, Any]) -> list[Any]:
    """Ratings over time, if battles have times."""
    if getattr(board.battles_, "time", None) is None:
        return []
    model = "All battles until each time count the same."
    if board.half_life_:
        model = f"A battle counts half as much after {board.half_life_:.4g} days."
    elif board.drift_:
        model = f"Ratings drift by a standard deviation of {board.drift_:.3g} in a year."
    if not board.battles_.dated:
        model = model.replace(" days", "").replace("in a year", "in a unit of time")
    unit = rating_note(board, **how)
    caption = f"The best items, at several times, from the battles until then. {model} {unit}"
    picture = board.history(**how).plot()
    return [Figure.of(picture, "Ratings of the best items over time", caption)]


def _categories(board: Any, every: str | None, how: dict[str, Any]) -> list[Any]:
    """The categories, and standings within the largest; periods are also drawn."""
    if board.width_ is None:
        return []
    categories = board.categories(elo=how["elo"])
    found: list[Any] = [categories.to_table()]
    shown = np.argsort(-categories["battles"][:-1], kind="stable")[:MOST_CATEGORIES]
    if every is not None:
        caption = (
            "The items that are best at the end, each period by its own battles, shrunk towards "
            f"all battles by as much as the evidence says. {rating_note(board, **how)}"
        )
        picture = board.history(every=every, **how).plot()
        found.append(Figure.of(picture, "Ratings of the best items by period", caption))
        shown = np.arange(len(board.categories_))[-MOST_CATEGORIES:]
    for name in board.categories_[shown]:
        found.append(Folded(str(name), [board.within(name).standings(**how).to_table()]))
    return found


def _matrix(board: Any, standings: Any) -> Figure:
    """Observed shares of wins, the best items first."""
    n = len(board.items_)
    place = np.empty(n, dtype=int)
    place[np.argsort(-board.ratings_, kind="stable")] = np.arange(n)
    counts = board.pair_counts_
    i, j = place[counts[:, 0].astype(int)], place[counts[:, 1].astype(int)]
    ties = counts[:, 4] if counts.shape[1] > 4 else 0.0
    share = (counts[:, 2] + 0.5 * ties) / counts[:, 2:].sum(axis=1)
    shown = min(n, MOST_CELLS)
    shares = np.full((shown, shown), np.nan)
    best = (i < shown) & (j < shown)
    i, j, share = i[best], j[best], share[best]
    shares[i, j], shares[j, i] = share, 1.0 - share
    alt = f"How often each of {plural(shown, 'item')} won against each other item"
    caption = (
        "Share of battles that the item of the row won against the item of the column. A tie is "
        "half a win. Pairs that never met are empty."
    )
    if shown < n:
        caption = f"The best {shown}. {caption}"
    return Figure.of(plot_win_matrix(shares, names=standings["item"][:shown]), alt, caption)


def _shares(board: Any) -> list[Any]:
    shares = board.shares()
    table: Table = shares.to_table()
    worst = np.argsort(-np.nan_to_num(abs(shares["z"])), kind="stable")[:MOST_PAIRS]
    text = "Observed beside predicted shares, the pairs that fit worst first"
    if len(table.rows) > MOST_PAIRS:
        text += f": {MOST_PAIRS} of {len(table.rows):,} pairs"
    about = (
        f"{text}. z is the distance of the observed from the predicted wins, in standard errors. p "
        "is how often the largest of all these distances would be as large by chance."
    )
    return [Text(about), replace(table, rows=tuple(table.rows[k] for k in worst))]


def _what_was_read(board: Any, file: BattleFile | RankingFile) -> list[str]:
    rows = f"{plural(file.n_rows, 'row')}, recognized as: {file.schema}."
    bad = int((board.battles_.outcome == 3).sum()) if board.both_bad_ else 0
    both_bad = (
        f"In {plural(bad, 'battle')} both items were bad. These do not enter the ratings. Their "
        "shares are in the tables of standings and of pairs."
    )
    penalty = f"Penalty of ratings: {board.penalty_:.3g}."
    return [rows, *what_was_read(file), *([both_bad] if bad else []), penalty]


KERNEL_ITEMS = 2000  # up to which a kernel is tried
INTERVAL_ITEMS = 300  # up to which items get intervals
MOST_RANKED = 30  # items in the picture of the ranking
FOLDS = 5
Z = 1.96


@dataclass(frozen=True, eq=False)
class PreferenceStudy:
    """Rankers that were tried, and the best one, fitted to all comparisons.

    Attributes
    ----------
    data : ComparisonData
    trials : dict of str to LeaveComparisonOut
        Held-out comparisons, or groups of them, by kernel.
    kernel : str
        The kernel of the best ranker.
    ranker : RankRLS
    """

    data: ComparisonData
    trials: dict[str, LeaveComparisonOut]
    kernel: str
    ranker: Any

    @classmethod
    def of(cls, data: ComparisonData, kernels: tuple[str, ...]) -> PreferenceStudy:
        """Hold out comparisons for each kernel and alpha, and fit the best ranker."""
        trials = {
            kernel: leave_comparison_out(
                _ranker(kernel), data.X, data.comparisons, metric="log_loss"
            )
            for kernel in kernels
        }
        best = min(trials, key=lambda kernel: float(trials[kernel].score.min()))
        found = trials[best]
        ranker = _ranker(best, found.best_alpha).fit_pairs(data.X, data.comparisons)
        margin, weight = found.observed.margin, found.observed.weight
        difference = found.differences[found.best_index]
        ranker.preference_slope_ = logistic_slope(difference, margin, weight)
        return cls(data, trials, best, ranker)

    @property
    def best(self) -> LeaveComparisonOut:
        """The hold-outs of the best kernel."""
        return self.trials[self.kernel]

    @property
    def unit(self) -> str:
        """What was held out."""
        return "comparison" if self.data.comparisons.groups is None else "group"

    @cached_property
    def nested(self) -> tuple[ObservedComparisons, Array]:
        """Probabilities by rankers that were chosen without looking at the comparison's fold.

        In each of five folds of groups, kernel and alpha are chosen by the log-loss on the other
        folds.
        """
        observed = self.best.observed
        chances = np.concatenate([trial.probabilities for trial in self.trials.values()])
        loss = np.stack([observed.values("log_loss", p, p) for p in chances])
        out, fold = np.empty(len(observed.margin)), observed.codes % FOLDS
        for k in np.unique(fold):
            others = observed.weight * (fold != k)
            out[fold == k] = chances[int(np.argmin(loss @ others))][fold == k]
        return observed, out

    def nested_score(self, metric: str) -> tuple[float, float]:
        """A metric of `nested`, and its standard error."""
        observed, chance = self.nested
        return observed.score(metric, chance - 0.5, chance)

    @property
    def reach(self) -> float:
        """How many standard errors of `nested_score` a 95% interval reaches to either side."""
        n_groups = len(np.unique(self.best.observed.codes[self.best.observed.weight > 0]))
        return clear_errors(n_groups) * shared_training(FOLDS)

    @cached_property
    def new_items(self) -> LeaveComparisonOut:
        """Comparisons of two items, both of which are new."""
        ranker = _ranker(self.kernel, self.best.best_alpha)
        return leave_item_out(ranker, self.data.X, self.data.comparisons)

    @cached_property
    def process(self) -> Any:
        """A Gaussian process for intervals of scores and ranks; None if there are many items."""
        items = self.data.comparisons.items
        graded = not np.isin(self.data.comparisons.margin, (-1.0, 0.0, 1.0)).all()
        if items is None or len(items) > INTERVAL_ITEMS or graded:
            return None
        kernel = 0.1 * DotProduct(0.0, "fixed") + WhiteKernel(0.1)
        return PairwiseGP(kernel).fit_pairs(self.standardized, self.data.comparisons)

    @cached_property
    def standardized(self) -> Array:
        """Features with mean 0 and variance 1."""
        return StandardScaler().fit_transform(self.data.X)

    def tried_table(self) -> Table:
        """Each kernel at its best alpha, and the baselines."""
        rows: list[tuple[Any, ...]] = []
        for kernel, trial in self.trials.items():
            k = trial.best_index
            accuracy, loss = trial.scores("accuracy"), trial.scores("log_loss")
            chosen = "chosen" if kernel == self.kernel else ""
            parts = accuracy[0][k], accuracy[1][k], loss[0][k], loss[1][k]
            rows.append((f"RankRLS, {kernel}", float(trial.alphas[k]), *parts, chosen))
        winners_first = bool((self.best.observed.margin > 0).all())  # chosen, rejected: no baseline
        for name, found in self.best.baselines().items():
            if name != "random" and winners_first:
                continue
            label = "a random guess" if name == "random" else "the first one wins"
            rows.append((label, None, found["accuracy"], None, found["log_loss"], None, ""))
        names = ("accuracy", "s.e.", "log-loss", "s.e.", "")
        columns = Column("ranker"), Column("alpha", ".3g"), *map(Column, names)
        count = plural(len(self.data.comparisons), "comparison")
        title = f"Predictions for {count}, each by a ranker without its {self.unit}"
        return Table(columns, tuple(rows), title)

    def ranking_table(self, top: int | None) -> Table:
        """Items from best to worst, with intervals of scores and ranks if there are few."""
        scores, names, note = self.ranker.predict(self.data.X), self.data.names, ""
        columns = [Column("rank"), Column("item"), Column("score", ".3f")]
        intervals: list[tuple[str, ...]] = [()] * len(names)
        gp = self.process
        if gp is not None:
            X = self.standardized
            scores, std = gp.predict(X, contrast="mean", return_std=True)
            low, high = rank_intervals(gp.rank_probabilities(X, random_state=0))
            columns += [Column("95% interval"), Column("95% of ranks")]
            intervals = [
                (f"{s - Z * d:.2f} to {s + Z * d:.2f}", f"{a}" if a == b else f"{a} to {b}")
                for s, d, a, b in zip(scores, std, low, high, strict=True)
            ]
            note = (
                "Scores are relative to their mean, by a Gaussian process on the same features "
                "with an independent part for each item."
            )
        order = np.argsort(-scores, kind="stable")[:top]
        rows = tuple((k, names[i], float(scores[i]), *intervals[i]) for k, i in enumerate(order, 1))
        title = f"The best {len(rows)} of {len(names)} items" if top else "All items"
        return Table(tuple(columns), rows, title, note)

    def learned_tables(self) -> list[Table]:
        """The effects of features, for a linear ranker, and of the context, if there is one."""
        features = [self._feature_table()] if self.kernel == "linear" else []
        has_context = self.data.comparisons.context is not None
        return [*features, self._context_table()] if has_context else features

    def _feature_table(self, top: int = 15) -> Table:
        """The coefficients of a linear ranker, per standard deviation of a feature."""
        effect = self.ranker.coef_ * self.data.X.std(axis=0)
        order = np.argsort(-np.abs(effect), kind="stable")[:top]
        columns = Column("feature"), Column("effect of one s.d.", ".3f")
        rows = tuple((self.data.feature_names[k], float(effect[k])) for k in order)
        note = "The change of the score. The ranker was fitted to a difference of 1 for each win."
        return Table(columns, rows, "Effects of the features", note)

    def _context_table(self) -> Table:
        """The weights of the context."""
        weights = self.ranker.context_coef_.tolist()
        names = self.data.comparisons.context_names or [f"context {k}" for k in range(len(weights))]
        rows = tuple(zip(names, weights, strict=True))
        title = "What the context of a comparison adds to the difference of scores"
        note = "It is not part of the scores of items."
        return Table((Column("context"), Column("weight", ".3f")), rows, title, note)

    def conclusions(self) -> list[str]:
        """What to expect of the ranker, in sentences."""
        accuracy, error = self.nested_score("accuracy")
        loss, loss_error = self.nested_score("log_loss")
        low, high = accuracy - self.reach * error, accuracy + self.reach * error
        each = "comparison" if self.unit == "comparison" else "whole group"
        lines = [
            f"Expected accuracy on new comparisons: {accuracy:.3f} (95% interval {low:.3f} to "
            f"{high:.3f}), log-loss {loss:.3f} ± {loss_error:.3f}. Each {each} was predicted by "
            "rankers that did not see it, and that were chosen on the others."
        ]
        if low <= 0.5:
            lines.append("This may be no better than chance: add comparisons or features.")
        if self.data.comparisons.items is not None:
            (new,), (spread,) = self.new_items.scores("accuracy")
            lines.append(
                f"Two items that were never compared: {new:.3f} ± {spread:.3f}, with all "
                "comparisons of both held out."
            )
        return lines


def _ranker(kernel: str, alpha: Any = "auto") -> RankRLS:
    return RankRLS(alpha, kernel=kernel, scale="standard")


def write_preferences(study: PreferenceStudy, path: Path, source: str) -> None:
    """Accuracy, calibration, the ranking of items, and the effects of the features."""
    first, *others = study.conclusions()
    accuracy, error = study.nested_score("accuracy")
    loss, _ = study.nested_score("log_loss")
    brier, _ = study.nested_score("brier")
    observed, chance = study.nested
    facts = Facts(
        (
            (f"{accuracy:.3f} ± {study.reach * error:.3f}", "accuracy, 95% interval"),
            (f"{loss:.3f}", f"log-loss ({np.log(2):.3f} at random)"),
            (f"{brier:.3f}", "Brier score (0.25 at random)"),
            (f"{observed.calibration_error(chance):.3f}", "calibration error"),
        )
    )
    curves = plot_hold_out(study.trials, ylabel="held-out log-loss (± s.e.)")
    tried: list[Any] = [
        study.tried_table(),
        Figure.of(curves, "Log-loss against alpha, for each kernel"),
    ]
    ranking: list[Any] = []
    if study.data.comparisons.items is not None:
        drawn = [] if study.process is None else [_ranking(study)]
        ranking = [*drawn, study.ranking_table(None)]
    sections = [
        Section("", [facts, *map(Text, others)]),
        Section("Are the probabilities right?", _reliability(study)),
        Section("What was tried", tried),
        Section("The ranking", ranking),
        Section("What the ranker has learned", study.learned_tables()),
    ]
    write_page(path, "preferences", f"Preferences in {source}", first, sections)


def _reliability(study: PreferenceStudy) -> list[Figure]:
    """How often predicted winners won; nothing if nearly all comparisons are ties."""
    observed, chance = study.nested
    decided = (observed.margin != 0) & (observed.weight > 0)
    if decided.sum() < 2:
        return []
    margin, p = observed.margin[decided], chance[decided]
    ahead = p >= 0.5
    ax = plot_reliability(
        np.where(ahead, margin > 0, margin < 0),
        np.where(ahead, p, 1.0 - p),
        n_bins=max(2, min(10, int(decided.sum()) // 10)),
        data="held-out comparisons",
    )
    alt = "Observed frequency of wins against the predicted probability"
    caption = (
        "The predicted winner of each held-out comparison: its probability, and how often it won. "
        "Ties are left out."
    )
    return [Figure.of(ax, alt, caption)]


def _ranking(study: PreferenceStudy) -> Figure:
    names = study.data.names
    return Figure.of(
        plot_item_ranking(study.process, study.standardized, names=names, top=MOST_RANKED),
        "Scores of items with intervals, from best to worst",
        f"At most {MOST_RANKED} items. The numbers on the right are 95% intervals of the ranks.",
    )
