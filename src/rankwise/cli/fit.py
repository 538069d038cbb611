"""rankwise fit: from a LETOR file to a model file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.inputs import normalized, read_data
from rankwise.cli.options import (
    ALPHAS,
    FILE,
    KernelName,
    LandmarkCount,
    Method,
    Model,
    Ranker,
    Seed,
    Ties,
    Weighting,
    check_writable,
    judge,
    make_ranker,
    parse_alphas,
    remark_on_ends,
)
from rankwise.cli.sources import InMemory, OnCluster, Streamed, connected, open_stream
from rankwise.cli.terminal import note, show, working

if TYPE_CHECKING:
    from rankwise.data import LetorData


def fit(
    train: Annotated[
        Path, typer.Argument(metavar="TRAIN", **FILE, help="LETOR file to learn from.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL", help="Where to write the model.")
    ],
    model: Model = Ranker.rankrls,
    landmarks: LandmarkCount = None,
    landmark_method: Method = None,
    seed: Seed = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            metavar="A", min=0.0, help="Strength of the regularization.", show_default="1.0"
        ),
    ] = None,
    kernel: Annotated[
        KernelName | None,
        typer.Option(
            metavar="NAME",
            help="linear, rbf, laplacian, polynomial, sigmoid or cosine. Others than linear keep "
            "all training rows in the model, or the landmarks.",
            show_default="linear, or rbf for sparse models",
        ),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(metavar="G", help="Of the kernel.", show_default="1 / features")
    ] = None,
    degree: Annotated[
        float | None, typer.Option(metavar="D", help="Of the polynomial kernel.", show_default="3")
    ] = None,
    coef0: Annotated[
        float | None,
        typer.Option(metavar="C", help="Of polynomial and sigmoid kernels.", show_default="1.0"),
    ] = None,
    ties: Annotated[
        Ties | None,
        typer.Option(help="Whether pairs with equal labels count.", show_default="include"),
    ] = None,
    weighting: Annotated[
        Weighting | None,
        typer.Option(
            help="A pair weighs 1; or one over the rows, or over the pairs, of its query.",
            show_default="pairs",
        ),
    ] = None,
    normalize: Annotated[
        bool,
        typer.Option("--normalize", help="Scale each feature of each query to \\[0, 1] first."),
    ] = False,
    features: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of features.", show_default="largest index in TRAIN"
        ),
    ] = None,
    valid: Annotated[
        Path | None, typer.Option(metavar="FILE", **FILE, help="LETOR file to choose alpha on.")
    ] = None,
    alphas: Annotated[
        str | None,
        typer.Option(
            metavar="GRID",
            help="Values to choose from: FROM:TO:COUNT, evenly spaced in the logarithm, or a "
            "list with commas.",
            show_default=ALPHAS,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to choose by: disagreement, kendall_tau, auc, MAP, MRR, ndcg, ndcg@10, "
            "precision@10, ...",
            show_default="disagreement",
        ),
    ] = None,
    relevant: Annotated[
        float | None,
        typer.Option(
            metavar="LABEL",
            help="Rows with at least this label are relevant, for MAP, MRR and precision.",
            show_default="1",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Read and sum TRAIN in N processes of this machine."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Read and sum TRAIN on the workers of a Dask scheduler, as in "
            "tcp://10.0.0.1:8786; they must see the file.",
        ),
    ] = None,
) -> None:
    """Fit a ranker to a LETOR file and write it to a model file.

    Without --valid, the model is fitted with --alpha. With it, one model per value of --alphas is
    fitted to TRAIN (together they cost little more than one), each ranks the queries of the
    validation file, and the best is kept; a table tells how each did.

    Models named sparse-... never hold TRAIN in memory: they go through the file block by block,
    so it may be larger than memory, but the rows of a query must stand together in it. (Without
    query ids all rows are one ranking, and are read at once.) More landmarks make better models,
    at a cost that grows with their square.

    With --workers or --cluster, parts of the file are read and summed by many processes, and the
    queries may stand in any order; this is for linear models and models named sparse-....

    With --normalize, the model file remembers it, and predict and evaluate do the same to their
    data. Model files hold no pickle: nothing in them runs when they are read.

    \b
    Examples:
      rankwise fit train.txt --alpha 10 --out model.rankwise
      rankwise fit train.txt --normalize --valid valid.txt --metric MAP -o m.rankwise
      rankwise fit train.txt --kernel rbf --valid valid.txt \\
          --alphas 1e-3:1e3:13 --out model.rankwise
      rankwise fit big.txt --model sparse-rankrls --landmarks 1000 -o m.rankwise
      rankwise fit big.txt --workers 4 -o m.rankwise
    """
    from rankwise.persistence import save_model

    choosing = {"--alphas": alphas, "--metric": metric, "--relevant": relevant}
    _check_alpha_options(alpha, valid, choosing)
    ranker = make_ranker(
        model, {"ties": ties, "weighting": weighting}, kernel,
        {"gamma": gamma, "degree": degree, "coef0": coef0},
        {"landmarks": landmarks, "landmark-method": landmark_method, "seed": seed},
    )  # fmt: skip
    grid = parse_alphas(alphas or ALPHAS)
    judged_by = judge(metric or "disagreement", relevant)
    check_writable(out, train, valid)
    ranker.set_params(alpha=1.0 if alpha is None else alpha)
    _check_cluster_options(ranker, workers, cluster, normalize=normalize)
    with connected(workers, cluster) as client:
        learner: OnCluster | Streamed | InMemory
        if client is not None:
            learner = OnCluster(ranker, train, features, client)
        else:
            learn = open_stream if model.on_landmarks else InMemory
            learner = learn(ranker, train, features, normalize=normalize)
        if valid is None:
            ranker = learner.fit()
        else:
            held_out = read_data(valid, n_features=learner.n_features, whose=str(train))
            held_out = normalized(held_out) if normalize else held_out
            path = learner.fit_path(grid)
            ranker = _choose(path, held_out, grid, metric or "disagreement", judged_by)
    save_model(ranker, out, normalized_per_query=normalize)
    note(f"Wrote {out}: {ranker} fitted to {learner.n_rows:,} rows, {learner.n_features} features.")


def _check_alpha_options(alpha: float | None, valid: Path | None, choosing: dict[str, Any]) -> None:
    """Nothing that is given may be without effect."""
    if valid is not None and alpha is not None:
        raise typer.BadParameter(
            "With --valid, alpha is chosen from --alphas: leave --alpha out.",
            param_hint="'--alpha'",
        )
    idle = [name for name, value in choosing.items() if value is not None]
    if valid is None and idle:
        raise typer.BadParameter(
            "This is for choosing alpha, which needs a validation file: give --valid as well.",
            param_hint=f"'{idle[0]}'",
        )


def _check_cluster_options(
    ranker: Any, workers: int | None, cluster: str | None, *, normalize: bool
) -> None:
    """One kind of workers, and nothing that they cannot do."""
    if workers is None and cluster is None:
        return
    if workers is not None and cluster is not None:
        raise typer.BadParameter(
            "Workers are those of this machine or those of a cluster: leave one out.",
            param_hint="'--workers'",
        )
    if normalize:
        raise typer.BadParameter(
            "Workers see parts of queries, which cannot be normalized: normalize the file first, "
            "or leave --workers and --cluster out.",
            param_hint="'--normalize'",
        )
    from rankwise.distributed._fit import check_summable

    check_summable(ranker)


def _choose(
    path: Any,
    valid: LetorData,
    alphas: list[float],
    metric: str,
    judged_by: tuple[Callable[..., float], bool],
) -> Any:
    """The ranker with the best alpha on the validation rows; prints a table of all."""
    import numpy as np

    from rankwise.report import Column, Table

    function, greater_is_better = judged_by
    with working(f"Scoring {len(valid.y):,} rows"):
        values = np.array([function(valid.y, s, valid.qid) for s in path.predict(valid.X)])
    best = int(np.argmax(values) if greater_is_better else np.argmin(values))
    show(
        Table(
            (Column("alpha", ".4g"), Column(metric), Column("", "")),
            tuple(
                (alpha, value, "chosen" if i == best else "")
                for i, (alpha, value) in enumerate(zip(alphas, values.tolist(), strict=True))
            ),
            best=frozenset({(best, 1)}),
        )
    )
    remark_on_ends(alphas[best], alphas)
    return path.estimator(best)
