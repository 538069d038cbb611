"""What the demo shows: a table, and a page with figures."""

from __future__ import annotations

import shlex
from pathlib import Path

from rankwise.cli.demo.study import ALPHAS, Study
from rankwise.metrics import paired_test
from rankwise.plots import (
    figure_svg,
    plot_alpha_path,
    plot_ndcg_curve,
    plot_query_differences,
)
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

METRICS = ("NDCG@1", "NDCG@5", "NDCG@10", "NDCG", "disagreement", "Kendall tau_b")


def comparison(study: Study) -> Table:
    """The rankers on the test queries, side by side."""
    test = study.parts["test"]
    return comparison_table(
        {trial.name: trial.evaluation for trial in study.trials},
        metrics=METRICS,
        title=f"{test.n_queries} test queries, {len(test.y):,} rows",
        note="p: two-sided paired Wilcoxon signed-rank test over queries.",
    )


def write_report(study: Study, real: Study, seconds: float, path: Path) -> Path:
    """Write the page about both studies."""
    errors = [trial.evaluation["disagreement"] for trial in study.trials]
    summary = (
        f"RankRLS learned to order the rows of {study.parts['train'].n_queries} queries and was "
        f"tested on {study.parts['test'].n_queries} new ones. It puts {errors[0]:.1%} of their "
        f"pairs in the wrong order; plain regression, tuned in the same way, {errors[1]:.1%}."
    )
    page = Page(
        "Ranking instead of regression",
        summary,
        [
            _results(study, seconds),
            _problem(study),
            _tuning(study),
            _test(study),
            _real(real),
            _commands(path.parent),
        ],
        footer=_footer(),
    )
    return page.write(path)


def _results(study: Study, seconds: float) -> Section:
    ours, plain = study.trials
    test = paired_test(ours.evaluation, plain.evaluation, "NDCG@10")
    return Section(
        "",
        [
            Facts(
                (
                    (f"{test.mean_a:.3f}", "NDCG@10 of RankRLS on new queries"),
                    (f"{test.mean_b:.3f}", "NDCG@10 of plain regression"),
                    (f"{test.wins} : {test.losses}", "queries won and lost by RankRLS"),
                    (f"{seconds:.1f} s", "to load, train, tune and test everything here"),
                )
            )
        ],
    )


def _problem(study: Study) -> Section:
    train, valid, test = study.parts.values()
    return Section(
        "The problem",
        [
            Text(
                f"Rows with {train.X.shape[1]} features and grades from 0 to 4 are to be ordered "
                f"within their queries. {len(train.y):,} rows of {train.n_queries} queries are for "
                f"training, {len(valid.y):,} of {valid.n_queries} for choosing the regularization, "
                f"{len(test.y):,} of {test.n_queries} for the test."
            ),
            Text(
                "The data are generated, in a way that is common in practice: queries differ. For "
                "some of them nearly every row is good, for others hardly any, for reasons that "
                "say nothing about the order within a query. Regression spends its effort on "
                "these differences and is misled by them. RankRLS compares only rows of the same "
                "query, and costs no more than the regression does."
            ),
        ],
    )


def _tuning(study: Study) -> Section:
    one, plain = (_milliseconds(trial.fit_seconds) for trial in study.trials)
    path = _milliseconds(study.trials[0].path_seconds)
    curves = {trial.name: trial.errors for trial in study.trials}
    figure = plot_alpha_path(ALPHAS, curves, ylabel="pairs in wrong order")
    best = "; ".join(
        f"{trial.name} is best at α = {trial.alpha:.4g}, with {trial.errors.min():.1%}"
        for trial in study.trials
    )
    return Section(
        "Choosing the regularization",
        [
            Text(
                f"One RankRLS fit takes {one}, plain regression {plain}. All {len(ALPHAS)} values "
                f"of α, which share one factorization, take {path}. "
                "Each is judged by the share of pairs of the validation queries that it puts in "
                "the wrong order."
            ),
            Figure(
                figure_svg(figure.figure),
                alt=f"Disagreement error against alpha on the validation queries. {best}.",
                caption="Disagreement error on the validation queries. Dotted lines mark the "
                "values that were chosen.",
            ),
        ],
    )


def _test(study: Study) -> Section:
    ours, plain = study.trials
    by_position = plot_ndcg_curve({trial.name: trial.ndcg for trial in study.trials})
    gaps = ours.ndcg[:, 9] - plain.ndcg[:, 9]
    by_query = plot_query_differences(gaps, names=(ours.name, plain.name))
    means = [(t.name, t.ndcg.mean(axis=0)) for t in study.trials]
    ends = "; ".join(f"{n}: {m[0]:.3f} at 1, {m[9]:.3f} at 10, {m[-1]:.3f} at 20" for n, m in means)
    return Section(
        "On queries that nobody has seen",
        [
            comparison(study),
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
                caption="The same comparison query by query, which is what the paired test looks "
                "at.",
            ),
        ],
    )


def _real(study: Study) -> Section:
    rows = tuple(
        (
            trial.name,
            trial.alpha,
            trial.evaluation["disagreement"],
            trial.evaluation["Kendall tau_b"],
        )
        for trial in study.trials
    )
    columns = Column("ranker"), Column("α", ".4g"), Column("disagreement"), Column("Kendall tau_b")
    test = study.parts["test"]
    return Section(
        "Where there is only one query, nothing is lost",
        [
            Text(
                "With one global ranking, comparing all pairs is regression with a free intercept. "
                'With `weighting="rows"`, which divides the weight of a pair by the number of '
                "rows, even α means the same. Real data show it: patients ranked by how far "
                f"their diabetes has progressed after a year, tested on {len(test.y)} of them."
            ),
            Table(columns, rows),
        ],
    )


def _commands(folder: Path) -> Section:
    return Section(
        "Go on from here",
        [
            Text("The model and the data lie beside this page. On the command line:"),
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


def _footer() -> str:
    from rankwise import __version__

    return f"Made by `rankwise demo`, rankwise {__version__}. The best value of each row is bold."


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.{0 if seconds > 0.01 else 1}f} ms"
