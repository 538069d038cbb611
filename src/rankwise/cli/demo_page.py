"""The experiment of `rankwise demo`, two rankers that are tuned alike, and its page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import RLS, RankRLS
from rankwise.cli.terminal import called_as, write_page
from rankwise.data import LetorData, load_dataset, make_ranking
from rankwise.metrics import (
    RankingEvaluation,
    disagreement_error,
    evaluate_ranking,
    ndcg,
    paired_test,
)
from rankwise.plots import plot_alpha_path, plot_ndcg_curve, plot_query_differences
from rankwise.report import Code, Column, Facts, Figure, Section, Table, Text, comparison_table

ALPHAS = np.logspace(-1, 6, 29)
BOLD = Text("The best value in each row is bold.")
N_QUERIES = {"train": 40, "valid": 60, "test": 120}


@dataclass(frozen=True, eq=False)
class TunedRanker:
    """A ranker with the alpha that was best on the validation rows.

    Attributes
    ----------
    errors : ndarray of shape (n_alphas,)
        Share of validation pairs in the wrong order, for every alpha.
    scores : ndarray of shape (n_rows,)
        Of the test rows.
    evaluation : RankingEvaluation
        On the test rows.
    """

    name: str
    ranker: Any
    errors: NDArray[np.float64]
    scores: NDArray[np.float64]
    evaluation: RankingEvaluation

    @property
    def alpha(self) -> float:
        return float(self.ranker.alpha)


@dataclass(frozen=True, eq=False)
class Experiment:
    """Rows for training, validation and test, and two rankers, RankRLS first."""

    parts: Mapping[str, LetorData]
    rankers: tuple[TunedRanker, ...]

    @classmethod
    def of(cls, X: Any, y: Any, qid: Any, shares: Sequence[Any]) -> Experiment:
        """Tune both rankers on the first two shares of rows, and test them on the third."""
        parts = {
            name: LetorData(X[rows], y[rows], None if qid is None else qid[rows])
            for name, rows in zip(N_QUERIES, shares, strict=True)
        }
        rankers = {"RankRLS": RankRLS(), "RLS (plain regression)": RLS()}
        return cls(parts, tuple(_tune(name, one, **parts) for name, one in rankers.items()))

    def n_queries(self, part: str) -> int:
        """How many queries a part has."""
        return len(np.unique(np.asarray(self.parts[part].qid)))


def _tune(
    name: str, ranker: Any, train: LetorData, valid: LetorData, test: LetorData
) -> TunedRanker:
    """Fit for every alpha, choose on the validation rows, evaluate on the test rows."""
    path = ranker.path(train.X, train.y, ALPHAS, qid=train.qid)
    errors = [
        disagreement_error(valid.y, s, valid.qid) for s in path.predict(valid.X, qid=valid.qid)
    ]
    chosen = path.estimator(int(np.argmin(errors)))
    scores = chosen.predict(test.X, qid=test.qid)
    evaluation = evaluate_ranking(test.y, scores, test.qid)
    return TunedRanker(name, chosen, np.array(errors), scores, evaluation)


def query_experiment(seed: int) -> Experiment:
    """Rows graded from 0 to 4 in queries, some of which have better rows throughout than others."""
    problem = make_ranking(
        sum(N_QUERIES.values()), rows_per_query=(5, 30), n_features=200, informative=30, noise=0.8,
        n_levels=5, grading="global", query_effect=0.65, random_state=seed,
    )  # fmt: skip
    ends = np.searchsorted(problem.qid, np.cumsum(list(N_QUERIES.values()))[:-1])
    X = np.round(problem.X, 3)  # short numbers make small files
    return Experiment.of(X, problem.y, problem.qid + 1, np.split(np.arange(len(X)), ends))


def global_experiment(seed: int) -> Experiment:
    """Real patients in one ranking, by the progress of their diabetes within a year."""
    data = load_dataset("diabetes")
    order = np.random.default_rng(seed).permutation(len(data.y))
    return Experiment.of(np.asarray(data.X), data.y, None, np.split(order, [200, 300]))


def comparison(experiment: Experiment) -> Table:
    """The rankers on the test queries, side by side."""
    test = experiment.parts["test"]
    return comparison_table(
        {tuned.name: tuned.evaluation for tuned in experiment.rankers},
        metrics=("NDCG@1", "NDCG@5", "NDCG@10", "NDCG", "disagreement", "Kendall tau_b"),
        title=f"{experiment.n_queries('test')} test queries, {len(test.y):,} rows",
        note="p: two-sided paired Wilcoxon signed-rank test over queries.",
    )


def write_report(experiment: Experiment, real: Experiment, path: Path) -> None:
    """Write the page about both experiments."""
    errors = [tuned.evaluation["disagreement"] for tuned in experiment.rankers]
    summary = (
        f"RankRLS learned to order the rows of {experiment.n_queries('train')} queries and was "
        f"tested on {experiment.n_queries('test')} new ones. It puts {errors[0]:.1%} of their "
        f"pairs in the wrong order; plain regression, tuned in the same way, {errors[1]:.1%}."
    )
    sections = [
        Section("", [_results(experiment)]),
        Section("The problem", _problem(experiment)),
        Section("Choosing the regularization", _tuning(experiment)),
        Section("On new queries", [comparison(experiment), BOLD, *_test(experiment)]),
        Section("Where there is only one query, nothing is lost", _real(real)),
        Section("Next steps", _commands(path.parent)),
    ]
    write_page(path, "demo", "Ranking instead of regression", summary, sections)


def _results(experiment: Experiment) -> Facts:
    ours, plain = experiment.rankers
    test = paired_test(ours.evaluation, plain.evaluation, "NDCG@10")
    return Facts(
        (
            (f"{test.mean_a:.3f}", "NDCG@10 of RankRLS on new queries"),
            (f"{test.mean_b:.3f}", "NDCG@10 of plain regression"),
            (f"{test.wins} : {test.losses}", "queries won and lost by RankRLS"),
            (f"{test.p_value:.2g}", "p-value of the difference, a paired Wilcoxon test"),
        )
    )


def _problem(experiment: Experiment) -> list[Text]:
    train, valid, test = experiment.parts.values()
    n_train, n_valid, n_test = map(experiment.n_queries, experiment.parts)
    return [
        Text(
            f"The task is to order rows with {train.X.shape[1]} features and grades from 0 to 4 "
            f"within their queries. {len(train.y):,} rows of {n_train} queries are for training, "
            f"{len(valid.y):,} of {n_valid} for choosing the regularization, {len(test.y):,} of "
            f"{n_test} for the test."
        ),
        Text(
            "The data are generated, with a property that is common in practice: queries differ. "
            "For some of them nearly every row is good, for others hardly any, for reasons "
            "unrelated to the order within a query. Regression fits these differences and is "
            "misled by them. RankRLS compares only rows of the same query, and costs no more than "
            "regression."
        ),
    ]


def _tuning(experiment: Experiment) -> list[Text | Figure]:
    curves = {tuned.name: tuned.errors for tuned in experiment.rankers}
    axes = plot_alpha_path(ALPHAS, curves, ylabel="pairs in wrong order")
    best = "; ".join(
        f"{tuned.name} is best at α = {tuned.alpha:.4g}, with {tuned.errors.min():.1%}"
        for tuned in experiment.rankers
    )
    return [
        Text(
            f"All {len(ALPHAS)} values of α share one factorization and take little longer than "
            "one. The score of each is the share of pairs of the validation queries that it puts "
            "in the wrong order."
        ),
        Figure.of(
            axes,
            f"Disagreement error against alpha on the validation queries. {best}.",
            "Disagreement error on the validation queries. Dotted lines mark the chosen values.",
        ),
    ]


def _test(experiment: Experiment) -> list[Figure]:
    test = experiment.parts["test"]
    values = {
        tuned.name: ndcg(test.y, tuned.scores, test.qid, k=range(1, 21), per_query=True).values
        for tuned in experiment.rankers
    }
    (ours, plain), (first, second) = values.values(), values
    gaps = ours[:, 9] - plain[:, 9]
    means = {name: found.mean(axis=0) for name, found in values.items()}
    ends = "; ".join(
        f"{name}: {mean[0]:.3f} at 1, {mean[9]:.3f} at 10, {mean[-1]:.3f} at 20"
        for name, mean in means.items()
    )
    return [
        Figure.of(
            plot_ndcg_curve(values),
            f"NDCG by position on the test queries. {ends}.",
            "NDCG down the ranking, mean over the test queries with a band of 95 % confidence.",
        ),
        Figure.of(
            plot_query_differences(gaps, names=(first, second)),
            f"Difference in NDCG@10 for each test query: RankRLS is better on "
            f"{int((gaps > 0).sum())} and plain regression on {int((gaps < 0).sum())}.",
            "The same comparison query by query, as in the paired test.",
        ),
    ]


def _real(experiment: Experiment) -> list[Text | Table]:
    metrics = "disagreement", "Kendall tau_b"
    rows = tuple(
        (tuned.name, tuned.alpha, *(tuned.evaluation[metric] for metric in metrics))
        for tuned in experiment.rankers
    )
    return [
        Text(
            "With one global ranking, comparing all pairs is regression with a free intercept. "
            'With `weighting="rows"`, which divides the weight of a pair by the number of rows, '
            "even α means the same. Real data show it: patients ranked by the progress of their "
            f"diabetes within a year, tested on {len(experiment.parts['test'].y)} of them."
        ),
        Table((Column("ranker"), Column("α", ".4g"), *map(Column, metrics)), rows),
    ]


SHELL = """\
cd {folder}
{program} info train.txt
{program} fit train.txt --valid valid.txt --out mine.rankwise
{program} evaluate mine.rankwise test.txt"""
PYTHON = """\
from rankwise import load_model
from rankwise.data import read_letor
from rankwise.metrics import evaluate_ranking

ranker = load_model("model.rankwise")
test = read_letor("test.txt")
print(evaluate_ranking(test.y, ranker.predict(test.X), test.qid))"""


def _commands(folder: Path) -> list[Text | Code]:
    called = called_as(anywhere=True)
    return [
        Text("The model and the data are in the folder of this page. On the command line:"),
        Code(SHELL.format(folder=shlex.quote(str(folder.resolve())), program=called)),
        Text("In Python:"),
        Code(PYTHON),
    ]
