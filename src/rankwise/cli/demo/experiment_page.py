"""The results of `rankwise demo`: a table, and a page with figures."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rankwise import __version__
from rankwise.cli.demo.experiment import Experiment
from rankwise.metrics import paired_test
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
