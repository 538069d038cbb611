"""The experiment of `rankwise demo`, two rankers that are tuned alike, and its page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import __version__
from rankwise.data import LetorData, load_dataset, make_ranking
from rankwise.estimators.least_squares.rankrls import RLS, RankRLS
from rankwise.metrics import (
    RankingEvaluation,
    disagreement_error,
    evaluate_ranking,
    ndcg,
    paired_test,
)
from rankwise.plots import figure_svg, plot_alpha_path, plot_ndcg_curve, plot_query_differences
from rankwise.report import (
    Code,
    Column,
    Facts,
    Figure,
    Page,
    Section,
    Table,
    Text,
    comparison_table,
)

ALPHAS = np.logspace(-1, 6, 29)
POSITIONS = range(1, 21)
N_QUERIES = {"train": 40, "valid": 60, "test": 120}


@dataclass(frozen=True, eq=False)
class TunedRanker:
    """A ranker with the alpha that was best on the validation rows.

    Attributes
    ----------
    errors : ndarray of shape (n_alphas,)
        Share of validation pairs in the wrong order, for every alpha.
    evaluation : RankingEvaluation
        Of the chosen ranker on the test rows.
    ndcg : ndarray of shape (n_queries, n_positions)
        Of the chosen ranker on the test queries; empty where there are no queries.
    """

    name: str
    ranker: Any
    errors: NDArray[np.float64]
    evaluation: RankingEvaluation
    ndcg: NDArray[np.float64]

    @property
    def alpha(self) -> float:
        return float(self.ranker.alpha)


@dataclass(frozen=True, eq=False)
class Experiment:
    """Rows for training, validation and test, the alphas tried, the rankers (RankRLS first)."""

    parts: Mapping[str, LetorData]
    alphas: NDArray[np.float64]
    rankers: tuple[TunedRanker, ...]

    def n_queries(self, part: str) -> int:
        """How many queries a part has."""
        return len(np.unique(np.asarray(self.parts[part].qid)))


def query_experiment(seed: int) -> Experiment:
    """Rows graded from 0 to 4 in queries, some of which have better rows throughout than others."""
    n_queries = sum(N_QUERIES.values())
    problem = make_ranking(
        n_queries, rows_per_query=(5, 30), n_features=200, informative=30, noise=0.8, n_levels=5,
        grading="global", query_effect=0.65, random_state=seed,
    )  # fmt: skip
    X = np.round(problem.X, 3)  # short numbers make small files
    ends = np.cumsum([0, *N_QUERIES.values()])
    parts = {}
    for name, start, stop in zip(N_QUERIES, ends[:-1], ends[1:], strict=True):
        rows = (problem.qid >= start) & (problem.qid < stop)
        parts[name] = LetorData(X[rows], problem.y[rows], problem.qid[rows] + 1)
    return Experiment(parts, ALPHAS, _tuned_rankers(parts))


def global_experiment(seed: int) -> Experiment:
    """Real patients in one ranking, by the progress of their diabetes within a year."""
    data = load_dataset("diabetes")
    order = np.random.default_rng(seed).permutation(len(data.y))
    X = np.asarray(data.X)
    shares = dict(zip(N_QUERIES, np.split(order, [200, 300]), strict=True))
    parts = {name: LetorData(X[rows], data.y[rows], None) for name, rows in shares.items()}
    return Experiment(parts, ALPHAS, _tuned_rankers(parts))


def _tuned_rankers(parts: Mapping[str, LetorData]) -> tuple[TunedRanker, ...]:
    rankers = {"RankRLS": RankRLS(), "RLS (plain regression)": RLS()}
    return tuple(_tune(name, ranker, **parts) for name, ranker in rankers.items())


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
    by_position = np.empty((0, 0))
    if test.qid is not None:
        by_position = ndcg(test.y, scores, test.qid, k=POSITIONS, per_query=True).values
    return TunedRanker(name, chosen, np.array(errors), evaluation, by_position)


MADE_BY = "Made by <code>rankwise demo</code>"  # how the page of a demo is recognized
METRICS = ("NDCG@1", "NDCG@5", "NDCG@10", "NDCG", "disagreement", "Kendall tau_b")


def comparison(experiment: Experiment) -> Table:
    """The rankers on the test queries, side by side."""
    test = experiment.parts["test"]
    return comparison_table(
        {tuned.name: tuned.evaluation for tuned in experiment.rankers},
        metrics=METRICS,
        title=f"{experiment.n_queries('test')} test queries, {len(test.y):,} rows",
        note="p: two-sided paired Wilcoxon signed-rank test over queries.",
    )


def write_report(
    experiment: Experiment, real: Experiment, path: Path, digests: Sequence[str]
) -> Path:
    """Write the page about both experiments; `digests` are those of the other files."""
    errors = [tuned.evaluation["disagreement"] for tuned in experiment.rankers]
    summary = (
        f"RankRLS learned to order the rows of {experiment.n_queries('train')} queries and was "
        f"tested on {experiment.n_queries('test')} new ones. It puts {errors[0]:.1%} of their "
        f"pairs in the wrong order; plain regression, tuned in the same way, {errors[1]:.1%}."
    )
    sections = [
        _results(experiment),
        _problem(experiment),
        _tuning(experiment),
        _test(experiment),
        _real(real),
        _commands(path.parent),
    ]
    page = Page(
        "Ranking instead of regression",
        summary,
        sections,
        footer=f"Made by `rankwise demo`, rankwise {__version__}. The best value in each row is "
        "bold.",
        remark=f"files of this demo: {' '.join(digests)}",
    )
    return page.write(path)


def _results(experiment: Experiment) -> Section:
    ours, plain = experiment.rankers
    test = paired_test(ours.evaluation, plain.evaluation, "NDCG@10")
    facts = (
        (f"{test.mean_a:.3f}", "NDCG@10 of RankRLS on new queries"),
        (f"{test.mean_b:.3f}", "NDCG@10 of plain regression"),
        (f"{test.wins} : {test.losses}", "queries won and lost by RankRLS"),
        (f"{test.p_value:.2g}", "p-value of the difference, a paired Wilcoxon test"),
    )
    return Section("", [Facts(facts)])


def _problem(experiment: Experiment) -> Section:
    train, valid, test = experiment.parts.values()
    n_train, n_valid, n_test = map(experiment.n_queries, experiment.parts)
    return Section(
        "The problem",
        [
            Text(
                f"The task is to order rows with {train.X.shape[1]} features and grades from 0 to "
                f"4 within their queries. {len(train.y):,} rows of {n_train} queries are for "
                f"training, {len(valid.y):,} of {n_valid} for choosing the regularization, "
                f"{len(test.y):,} of {n_test} for the test."
            ),
            Text(
                "The data are generated, with a property that is common in practice: queries "
                "differ. For some of them nearly every row is good, for others hardly any, for "
                "reasons unrelated to the order within a query. Regression fits these differences "
                "and is misled by them. RankRLS compares only rows of the same query, and costs "
                "no more than regression."
            ),
        ],
    )


def _tuning(experiment: Experiment) -> Section:
    curves = {tuned.name: tuned.errors for tuned in experiment.rankers}
    figure = plot_alpha_path(experiment.alphas, curves, ylabel="pairs in wrong order")
    best = "; ".join(
        f"{tuned.name} is best at α = {tuned.alpha:.4g}, with {tuned.errors.min():.1%}"
        for tuned in experiment.rankers
    )
    return Section(
        "Choosing the regularization",
        [
            Text(
                f"All {len(experiment.alphas)} values of α share one factorization and take little "
                "longer than one. The score of each is the share of pairs of the validation "
                "queries that it puts in the wrong order."
            ),
            Figure(
                figure_svg(figure.figure),
                alt=f"Disagreement error against alpha on the validation queries. {best}.",
                caption="Disagreement error on the validation queries. Dotted lines mark the "
                "chosen values.",
            ),
        ],
    )


def _test(experiment: Experiment) -> Section:
    ours, plain = experiment.rankers
    by_position = plot_ndcg_curve({tuned.name: tuned.ndcg for tuned in experiment.rankers})
    gaps = ours.ndcg[:, 9] - plain.ndcg[:, 9]
    by_query = plot_query_differences(gaps, names=(ours.name, plain.name))
    means = [(t.name, t.ndcg.mean(axis=0)) for t in experiment.rankers]
    ends = "; ".join(f"{n}: {m[0]:.3f} at 1, {m[9]:.3f} at 10, {m[-1]:.3f} at 20" for n, m in means)
    return Section(
        "On new queries",
        [
            comparison(experiment),
            Figure(
                figure_svg(by_position.figure),
                alt=f"NDCG by position on the test queries. {ends}.",
                caption="NDCG down the ranking, mean over the test queries with a band of 95 % "
                "confidence.",
            ),
            Figure(
                figure_svg(by_query.figure),
                alt=f"Difference in NDCG@10 for each test query: RankRLS is better on "
                f"{int((gaps > 0).sum())} and plain regression on {int((gaps < 0).sum())}.",
                caption="The same comparison query by query, as in the paired test.",
            ),
        ],
    )


def _real(experiment: Experiment) -> Section:
    metrics = "disagreement", "Kendall tau_b"
    columns = Column("ranker"), Column("α", ".4g"), *map(Column, metrics)
    rows = tuple(
        (tuned.name, tuned.alpha, *(tuned.evaluation[metric] for metric in metrics))
        for tuned in experiment.rankers
    )
    test = experiment.parts["test"]
    return Section(
        "Where there is only one query, nothing is lost",
        [
            Text(
                "With one global ranking, comparing all pairs is regression with a free intercept. "
                'With `weighting="rows"`, which divides the weight of a pair by the number of '
                "rows, even α means the same. Real data show it: patients ranked by the progress "
                f"of their diabetes within a year, tested on {len(test.y)} of them."
            ),
            Table(columns, rows),
        ],
    )


def _commands(folder: Path) -> Section:
    return Section(
        "Next steps",
        [
            Text("The model and the data are in the folder of this page. On the command line:"),
            Code(
                f"cd {shlex.quote(str(folder))}\n"
                "rankwise info train.txt\n"
                "rankwise fit train.txt --valid valid.txt --out mine.rankwise\n"
                "rankwise evaluate mine.rankwise test.txt"
            ),
            Text("In Python:"),
            Code(
                "from rankwise import load_model\n"
                "from rankwise.data import read_letor\n"
                "from rankwise.metrics import evaluate_ranking\n\n"
                'ranker = load_model("model.rankwise")\n'
                'test = read_letor("test.txt")\n'
                "print(evaluate_ranking(test.y, ranker.predict(test.X), test.qid))"
            ),
        ],
    )
