"""The search of `rankwise tune`, in words, as a table, and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline

from rankwise import RankingSearchCV
from rankwise.cli.data_options import in_one_line
from rankwise.cli.options import SelectionOptions
from rankwise.cli.terminal import note, write_page
from rankwise.holdout.scores import HeldOutScores, given_words
from rankwise.metric_names import metric_label
from rankwise.model_selection import PairedDifference
from rankwise.plots import (
    figure_svg,
    new_axes,
    plot_differences_from_best,
    plot_hold_out,
    save_figure,
)
from rankwise.report import Column, Figure, Section, Table, Text

CURVES = 4  # as many as there are colours
HOW_FAR = (
    "how far each is behind the best on the same queries, with 95% intervals. Open circles may be "
    "as good as the best."
)
BEHIND = (
    " behind: how far each is behind the best on the same queries; s.e.: the standard error of "
    "this difference."
)


@dataclass(frozen=True, eq=False)
class Tuned:
    """A fitted search over settings and, for each of them, over alphas, the largest first.

    `settings` has a label for each setting, and `alphas` is [NaN] for rankers without an alpha.
    """

    search: RankingSearchCV
    settings: list[str]
    alphas: list[float]
    metric: str
    title: str

    @classmethod
    def of(
        cls,
        rows: Any,
        rankers: Sequence[tuple[dict[str, Any], Any]],
        selection: SelectionOptions,
        folds: int | None,
        has_alpha: bool,
        seed: int,
    ) -> Tuned:
        """Search over rankers, each given with its setting."""
        n_queries = 1 if rows.qid is None else len(np.unique(rows.qid))
        by_query = n_queries > 1
        cv: Any = folds or ("leave_query_out" if by_query else "leave_pair_out")
        title = f"{folds} folds of" if folds else f"{cv.replace('_', '-').capitalize()} over"
        if by_query:
            title += f"{' whole queries out of' if folds else ''} {n_queries:,} queries,"
        title += f" {len(rows.y):,} rows"
        alphas = sorted(selection.grid, reverse=True) if has_alpha else [float("nan")]
        models = [ranker for _, ranker in rankers]
        if any(isinstance(model, Pipeline) for model in models):
            models = [m if isinstance(m, Pipeline) else make_pipeline(m) for m in models]
        metric = selection.chosen_metric()
        search = RankingSearchCV(
            models[0],
            [_grid(model, alphas if has_alpha else None) for model in models],
            scoring=selection.metric_name if selection.relevant is None else metric,
            cv=cv,
            random_state=None if by_query else seed,
            verbose=True,
        ).fit(rows.X, rows.y, qid=rows.qid if by_query else None)
        settings = [_label(setting) for setting, _ in rankers]
        return cls(search, settings, alphas, selection.metric_name, title)

    @property
    def best_ranker(self) -> Any:
        """The best ranker, fitted to all rows."""
        found = self.search.best_estimator_
        return found[-1] if isinstance(found, Pipeline) and len(found) == 1 else found

    @property
    def best_alpha(self) -> float:
        """The alpha of the best ranker."""
        return self.alphas[self.search.best_index_ % len(self.alphas)]

    @property
    def has_alpha(self) -> bool:
        """Whether the rankers have an alpha."""
        return not np.isnan(self.alphas[0])

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The metric of each candidate, on its own scale."""
        return self.on_scale(self.search.cv_results_["mean_test_score"])

    def on_scale(self, scores: Any) -> Any:
        """Scores without the sign that makes greater ones better."""
        return 0.0 - scores if self.search.scorer_.negated else scores

    @cached_property
    def ranked(self) -> list[int]:
        """Each setting at its best alpha, as a candidate, best first; of one setting all alphas."""
        scores = self.search.cv_results_["mean_test_score"]
        found = np.arange(len(scores))
        if len(self.settings) > 1:
            by_setting = found.reshape(-1, len(self.alphas))
            found = np.array([row[np.argmax(scores[row])] for row in by_setting])
        return found[np.argsort(-scores[found], kind="stable")].tolist()

    def error(self, candidate: int) -> float:
        """The standard error of a score, over queries or folds."""
        values = self.search.query_scores_[candidate]
        if not len(values):
            return float(self.search.cv_results_["std_test_score"][candidate])
        return PairedDifference.of(values[np.isfinite(values)]).standard_error

    @property
    def is_paired(self) -> bool:
        """Whether scores can be compared query by query, or fold by fold."""
        return self.search.query_scores_.shape[1] > 0 and len(self.values) > 1

    def behind(self, candidate: int) -> PairedDifference:
        """How far a candidate is behind the best, query by query."""
        scores = self.search.query_scores_
        gap = scores[self.search.best_index_] - scores[candidate]
        return PairedDifference.of(gap[np.isfinite(gap)])

    def name(self, candidate: int) -> str:
        """The setting and the alpha of a candidate."""
        setting, k = divmod(candidate, len(self.alphas))
        alpha = f"alpha {self.alphas[k]:.4g}" if self.has_alpha else ""
        return ", ".join(filter(None, (self.settings[setting], alpha)))

    def words(self) -> list[str]:
        """The choice, its distance from the runner-up, and how reliable its score is."""
        best, metric = self.search.best_index_, metric_label(self.metric)
        lines = [
            f"{self.name(best) or 'The ranker'}: {metric} {self.values[best]:.4f}, with a standard "
            f"error of {self.error(best):.4f}{given_words(self.search.shared_)}."
        ]
        if self.is_paired:
            second = f"the next ({self.name(self.ranked[1])})"
            lines.append(self.behind(self.ranked[1]).words("The best", second, self.metric))
        n = len(self.values)
        optimistic = f"The best of {n} scores is optimistic: expect less on new queries."
        return [*lines, optimistic] if n > 1 else lines

    def table(self, *, top: int | None = None) -> Table:
        """Each setting at its best alpha, best first; of one setting all alphas, ascending."""
        single = len(self.settings) == 1
        shown = list(range(len(self.alphas)))[::-1] if single else self.ranked[:top]
        rows = [self._row(candidate) for candidate in shown]
        formats = {"setting": "", "alpha": ".4g", "": ""}
        columns = tuple(Column(name, formats.get(name, ".4f")) for name in rows[0])
        count = f"The best {len(shown)} of {len(self.settings)} settings. "
        note = "" if single else "The first is chosen."
        note = f"{count if len(shown) < len(self.ranked) else ''}{note}{BEHIND * self.is_paired}"
        place = shown.index(self.search.best_index_), list(rows[0]).index(metric_label(self.metric))
        cells = tuple(tuple(row.values()) for row in rows)
        return Table(columns, cells, self.title, note.strip(), frozenset({place}))

    def _row(self, candidate: int) -> dict[str, Any]:
        """The cells of a candidate, by the names of columns."""
        setting, k = divmod(candidate, len(self.alphas))
        row: dict[str, Any] = {"setting": self.settings[setting], "alpha": self.alphas[k]}
        row[metric_label(self.metric)] = self.values[candidate]
        is_best = candidate == self.search.best_index_
        if self.is_paired:
            gap = self.behind(candidate)
            row |= {"behind": gap.difference, "s.e.": None if is_best else gap.standard_error}
        else:
            row["s.e."] = self.error(candidate)
        if len(self.settings) > 1 or len(self.alphas) == 1:
            return row if self.has_alpha else {k: v for k, v in row.items() if k != "alpha"}
        return row | {"": "chosen" if is_best else ""}

    def curves(self) -> dict[str, HeldOutScores]:
        """The scores of the best settings at every alpha, ascending."""
        n, found = len(self.alphas), {}
        for setting in dict.fromkeys(candidate // n for candidate in self.ranked[:CURVES]):
            members = np.arange(setting * n, setting * n + n)[::-1]
            errors = np.array([self.error(candidate) for candidate in members])
            given = np.array(self.alphas[::-1]), self.values[members], errors, self.metric
            found[self.settings[setting]] = HeldOutScores(*given, not self.search.scorer_.negated)
        return found


def _grid(model: Any, alphas: list[float] | None) -> dict[str, Any]:
    """The parameters of a ranker or pipeline, and the alphas to try."""
    if isinstance(model, Pipeline):
        grid: dict[str, Any] = {"steps": [model.steps]}
        name = f"{model.steps[-1][0]}__alpha"
    else:
        grid = {key: [value] for key, value in model.get_params(deep=False).items()}
        name = "alpha"
    return grid if alphas is None else grid | {name: alphas}


def _label(setting: dict[str, Any]) -> str:
    parts = ((name, value) for name, value in setting.items() if value is not None)
    return ", ".join(f"{n} {v:g}" if isinstance(v, float) else f"{n} {v}" for n, v in parts)


def write_picture(tuned: Tuned, path: Path, train: Path) -> None:
    """Draw the best settings at every alpha, as a picture or, for .html, on a page with tables."""
    drawn, caption = _drawn(tuned)
    if path.suffix.lower() != ".html":
        save_figure(drawn, path)
        note(f"Wrote {path}: open {path.resolve().as_uri()}")
        return
    best, metric = tuned.search.best_index_, metric_label(tuned.metric)
    value = f"{tuned.values[best]:.4f} ± {tuned.error(best):.4f}"
    against = " against alpha" if tuned.has_alpha else ""
    alt = f"{metric} of held-out rows{against}. The best: {tuned.name(best)}, with {value}."
    tables = [tuned.table()]
    if len(tuned.settings) > 1 and tuned.has_alpha:
        label = tuned.settings[best // len(tuned.alphas)]
        every = tuned.curves()[label].to_table()
        tables.append(replace(every, title=f"Every alpha with {label}"))
    alpha = f", alpha = {tuned.best_alpha:.4g}" if tuned.has_alpha else ""
    model = f"`{in_one_line(tuned.best_ranker)}`{alpha}, fitted to all rows."
    sections = [
        Section("", [Text(line) for line in tuned.words()]),
        Section("", [Figure(figure_svg(drawn), alt=alt, caption=caption)]),
        Section("All settings", tables),
        Section("The model", [Text(model)]),
    ]
    summary = f"{tuned.title}: {metric} is best with {tuned.name(best)}, {value}."
    write_page(path, "tune", f"Tuning on {train.name}", summary, sections)


def _drawn(tuned: Tuned) -> tuple[Any, str]:
    """The best settings at every alpha, and how far they are behind the best; with a caption."""
    below = list(new_axes(tuned.has_alpha + tuned.is_paired))
    if not tuned.has_alpha:
        _plot_differences(tuned, below[0])
        return below[0].figure, f"{HOW_FAR[0].upper()}{HOW_FAR[1:]}"
    ax, curves = below.pop(0), tuned.curves()
    caption = "Scores of held-out rows."
    if len(curves) > 1 and below:  # which has the intervals that compare settings
        none = np.full(len(tuned.alphas), np.nan)
        curves = {name: replace(curve, standard_error=none) for name, curve in curves.items()}
    else:
        caption += " Bands of one standard error."
    plot_hold_out(curves if len(tuned.settings) > 1 else next(iter(curves.values())), ax=ax)
    if len(tuned.settings) > CURVES:
        caption += f" The best {CURVES} of {len(tuned.settings)} settings."
    if below:
        _plot_differences(tuned, below[0])
        caption += f" Below: {HOW_FAR}"
    return ax.figure, caption


def _plot_differences(tuned: Tuned, ax: Any) -> None:
    """Settings at their best alpha, or the alphas of a single setting, query by query."""
    scores, gain = tuned.on_scale(tuned.search.query_scores_), not tuned.search.scorer_.negated
    values = {tuned.name(candidate): scores[candidate] for candidate in tuned.ranked}
    plot_differences_from_best(values, metric=tuned.metric, greater_is_better=gain, top=8, ax=ax)
