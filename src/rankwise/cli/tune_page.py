"""The search of `rankwise tune`, in words, as a table, and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

from rankwise import RankingSearchCV
from rankwise.backends.arrays import Array
from rankwise.cli.data_options import in_one_line
from rankwise.cli.options import SelectionOptions
from rankwise.cli.terminal import note, write_page
from rankwise.holdout.scores import HeldOutScores, given_words, standard_errors
from rankwise.metric_names import metric_label
from rankwise.model_selection.meta_rankers import CandidateScores, behind_best
from rankwise.plots import figure_svg, new_axes, plot_hold_out, save_figure
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
class Tuned(CandidateScores):
    """A fitted search over settings and, for each of them, over alphas, the largest first.

    Candidates are named after their settings or, if there is one setting, after alpha, which is NaN
    for rankers without it. `errors` are the standard errors of scores.
    """

    search: RankingSearchCV
    settings: list[str]
    errors: Array
    title: str

    @classmethod
    def of(
        cls,
        rows: Any,
        rankers: Sequence[tuple[dict[str, Any], Any]],
        selection: SelectionOptions,
        folds: int | None,
        has_alpha: bool,
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
            random_state=None if by_query else 0,  # the same folds of rows each time
            verbose=True,
        ).fit(rows.X, rows.y, qid=rows.qid if by_query else None)
        settings = [_label(setting) for setting, _ in rankers]
        names = [setting for setting in settings for _ in alphas]
        if len(settings) == 1:
            names = [f"alpha {alpha:.4g}" if has_alpha else "" for alpha in alphas]
        scores, errors = (search.cv_results_[f"{name}_test_score"] for name in ("mean", "std"))
        values = search.query_scores_[:, np.isfinite(search.query_scores_).all(axis=0)]
        return cls(
            selection.metric_name,
            metric.greater_is_better,
            names,
            np.tile(alphas, len(settings)),
            scores if metric.greater_is_better else 0.0 - scores,
            *behind_best(values, search.best_index_),
            values.shape[1],
            search=search,
            settings=settings,
            errors=standard_errors(values) if values.shape[1] else errors,
            title=title,
        )

    @property
    def best_ranker(self) -> Any:
        """The best ranker, fitted to all rows."""
        found = self.search.best_estimator_
        return found[-1] if isinstance(found, Pipeline) and len(found) == 1 else found

    @property
    def best_alpha(self) -> float:
        """The alpha of the best ranker."""
        return float(self.alphas[self.search.best_index_])

    @property
    def has_alpha(self) -> bool:
        """Whether the rankers have an alpha."""
        return not np.isnan(self.best_alpha)

    @property
    def is_paired(self) -> bool:
        """Whether scores can be compared query by query, or fold by fold."""
        return self.n_queries > 0 and len(self) > 1

    def label(self, k: int) -> str:
        """The setting and the alpha of a candidate."""
        alpha = f", alpha {self.alphas[k]:.4g}"
        return self.names[k] + alpha * (self.has_alpha and len(self.settings) > 1)

    def words(self) -> list[str]:
        """The choice, its distance from the runner-up, and how reliable its score is."""
        best, metric, n = self.search.best_index_, metric_label(self.metric), len(self)
        lines = [
            f"{self.label(best) or 'The ranker'}: {metric} {self.scores[best]:.4f}, with a "
            f"standard error of {self.errors[best]:.4f}{given_words(self.search.shared_)}."
        ]
        if self.is_paired and self.runner_up is not None:
            _, second, gap = self.runner_up
            lines.append(gap.words("The best", f"the next ({second})", self.metric))
        if n > 1:
            lines.append(f"The best of {n} scores is optimistic: expect less on new queries.")
        return lines

    def to_table(self, *, top: int | None = None) -> Table:
        """Each setting at its best alpha, best first; of one setting all alphas, ascending."""
        single, ranked = len(self.settings) == 1, list(self.best_trials.values())
        shown = np.arange(len(self))[::-1] if single else np.array(ranked[:top])
        chosen = shown == self.search.best_index_
        columns: dict[Column, Any] = {}
        if not single:
            columns[Column("setting", "")] = [self.names[k] for k in shown]
        if self.has_alpha:
            columns[Column("alpha", ".4g")] = self.alphas[shown]
        best = frozenset({(int(np.argmax(chosen)), len(columns))})
        columns[Column(metric_label(self.metric))] = self.scores[shown]
        errors = (self.standard_errors if self.is_paired else self.errors)[shown].tolist()
        note = "" if single else "The first is chosen."
        if self.is_paired:
            columns[Column("behind")] = self.behind[shown]
            errors[int(np.argmax(chosen))] = None
        columns[Column("s.e.")] = errors
        if single and len(self) > 1:
            columns[Column("", "")] = np.where(chosen, "chosen", "").tolist()
        if len(shown) < len(ranked):
            note = f"The best {len(shown)} of {len(self.settings)} settings. {note}"
        rows = tuple(zip(*columns.values(), strict=True))
        note = f"{note}{BEHIND * self.is_paired}".strip()
        return Table(tuple(columns), rows, self.title, note, best)

    def curves(self) -> dict[str, HeldOutScores]:
        """The scores of the best settings at every alpha, ascending."""
        n, found = len(self) // len(self.settings), {}
        for setting in dict.fromkeys(k // n for k in list(self.best_trials.values())[:CURVES]):
            some = np.arange(setting * n, setting * n + n)[::-1]
            given = self.alphas[some], self.scores[some], self.errors[some]
            found[self.settings[setting]] = HeldOutScores(
                *given, self.metric, self.greater_is_better
            )
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
    value = f"{tuned.scores[best]:.4f} ± {tuned.errors[best]:.4f}"
    against = " against alpha" if tuned.has_alpha else ""
    alt = f"{metric} of held-out rows{against}. The best: {tuned.label(best)}, with {value}."
    tables = [tuned.to_table()]
    if len(tuned.settings) > 1 and tuned.has_alpha:
        label = tuned.names[best]
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
    summary = f"{tuned.title}: {metric} is best with {tuned.label(best)}, {value}."
    write_page(path, "tune", f"Tuning on {train.name}", summary, sections)


def _drawn(tuned: Tuned) -> tuple[Any, str]:
    """The best settings at every alpha, and how far they are behind the best; with a caption."""
    below = list(new_axes(tuned.has_alpha + tuned.is_paired))
    if not tuned.has_alpha:
        tuned.plot(top=8, ax=below[0])
        return below[0].figure, f"{HOW_FAR[0].upper()}{HOW_FAR[1:]}"
    ax, curves = below.pop(0), tuned.curves()
    caption = "Scores of held-out rows."
    if len(curves) > 1 and below:  # which has the intervals that compare settings
        none = np.full(len(tuned) // len(tuned.settings), np.nan)
        curves = {name: replace(curve, standard_error=none) for name, curve in curves.items()}
    else:
        caption += " Bands of one standard error."
    plot_hold_out(curves if len(tuned.settings) > 1 else next(iter(curves.values())), ax=ax)
    if len(tuned.settings) > CURVES:
        caption += f" The best {CURVES} of {len(tuned.settings)} settings."
    if below:
        tuned.plot(top=8, ax=below[0])
        caption += f" Below: {HOW_FAR}"
    return ax.figure, caption
