"""rankwise tune: choose alpha and the rest without a validation file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwise.cli.inputs import normalized, read_data
from rankwise.cli.options import (
    ALPHAS,
    FILE,
    USES,
    KernelName,
    LandmarkCount,
    Method,
    Model,
    Ranker,
    Seed,
    Ties,
    Weighting,
    check_writable,
    make_ranker,
    parse_alphas,
    parse_names,
    remark_on_ends,
)
from rankwise.cli.terminal import note, show, stepping, working

PICTURES = (".svg", ".png", ".pdf", ".html")


def tune(
    train: Annotated[
        Path, typer.Argument(metavar="TRAIN", **FILE, help="LETOR file to learn from.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL", help="Where to write the best model.")
    ],
    model: Model = Ranker.rankrls,
    landmarks: LandmarkCount = None,
    landmark_method: Method = None,
    seed: Seed = None,
    alphas: Annotated[
        str,
        typer.Option(
            metavar="GRID",
            help="Values of alpha: FROM:TO:COUNT, evenly spaced in the logarithm, or a list with "
            "commas.",
        ),
    ] = ALPHAS,
    ties: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Whether pairs with equal labels count: include, exclude or both.",
            show_default="include",
        ),
    ] = None,
    weighting: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="A pair weighs 1 (pairs), or one over the rows, or over the pairs, of its query "
            "(rows, queries).",
            show_default="pairs",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="linear, rbf, laplacian, polynomial, sigmoid, cosine.",
            show_default="linear, or rbf for sparse models",
        ),
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option(
            metavar="GRID", help="Of the kernels that have it.", show_default="1 / features"
        ),
    ] = None,
    degree: Annotated[
        float | None, typer.Option(metavar="D", help="Of the polynomial kernel.", show_default="3")
    ] = None,
    coef0: Annotated[
        float | None,
        typer.Option(metavar="C", help="Of polynomial and sigmoid kernels.", show_default="1.0"),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What to choose by: disagreement, kendall_tau, auc, MAP, MRR, ndcg, ndcg@10, "
            "precision@10, ...",
        ),
    ] = "disagreement",
    relevant: Annotated[
        float | None,
        typer.Option(
            metavar="LABEL",
            help="Rows with at least this label are relevant, for MAP, MRR and precision.",
            show_default="1",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help="Hold out so many folds of whole queries.",
            show_default="one query at a time",
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
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to draw the metric against alpha: .svg, .png, .pdf, or .html for a page "
            "with tables.",
            show_default="MODEL with .svg",
        ),
    ] = None,
) -> None:
    """Choose alpha, and more, by exact hold-outs; fit the best to all rows; write it to a file.

    No validation file is needed: every query is predicted by rankers that were trained on all
    others, for every alpha, exactly and without refitting, which costs little more than a fit.
    In a file without queries, every pair of rows is held out in this way (or, with --folds, that
    many folds of rows).

    Options with a LIST or GRID take several values with commas between them, and every
    combination is tried. Prints how well each does at its best alpha, with the standard error
    over queries, draws a picture of it, and writes the model. With --normalize, the model file
    remembers it, and predict and evaluate do the same to their data.

    \b
    Examples:
      rankwise tune train.txt --out model.rankwise
      rankwise tune train.txt --normalize --metric MAP --ties include,exclude \\
          -o model.rankwise
      rankwise tune train.txt --kernel linear,rbf --gamma 0.01:1:5 --folds 10 \\
          --plot report.html -o model.rankwise
      rankwise tune train.txt --model sparse-rankrls --landmarks 300 --gamma 0.01:1:5 \\
          --normalize -o model.rankwise
    """
    from rankwise.persistence import save_model

    grid = parse_alphas(alphas)
    kernels = kernel or model.default_kernel
    of_landmarks = {"landmarks": landmarks, "landmark-method": landmark_method, "seed": seed}
    others = {"degree": degree, "coef0": coef0}
    settings = list(_settings(model, ties, weighting, kernels, gamma, others, of_landmarks))
    check_writable(out, train)
    picture = _place_of_picture(plot, out)
    data = read_data(train, n_features=features, whose="--features")
    data = normalized(data) if normalize else data
    # Compiles loops: only now, when all arguments are known to make sense.
    from rankwise.cli.tune.study import HoldOut, Study, Trial, describe, varied

    hold_out = HoldOut(data, metric, relevant, folds)
    names = varied([setting for setting, _ in settings])
    trials = []
    with stepping("Holding out", len(settings)) as step:
        for setting, ranker in settings:
            step(describe(setting, names))
            result = hold_out.of(ranker, grid)
            trials.append(Trial(setting, ranker, result, hold_out.quantity))
    study = Study(hold_out, tuple(trials))
    best = study.best
    with working(f"Fitting the best to {len(data.y):,} rows"):
        best.ranker.set_params(alpha=best.alpha).fit(data.X, data.y, qid=data.qid)
    save_model(best.ranker, out, normalized_per_query=normalize)
    _report(study, picture, train)
    remark_on_ends(best.alpha, grid)
    note(f"Wrote {out}: {best.ranker} fitted to {len(data.y):,} rows, {data.X.shape[1]} features.")


def _settings(
    model: Ranker,
    ties: str | None,
    weighting: str | None,
    kernel: str,
    gamma: str | None,
    others: dict[str, float | None],
    of_landmarks: dict[str, Any],
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Every combination of what was listed: its parameters, and a ranker with them."""
    kernels = parse_names(kernel, KernelName, "--kernel")
    gammas = [None] if gamma is None else parse_alphas(gamma, "--gamma")
    given = {"gamma": gamma, **others}
    for name, value in given.items():
        if value is not None and not any(k in USES[name] for k in kernels):
            raise typer.BadParameter(
                f"None of these kernels has it: it is for {', '.join(USES[name])}.",
                param_hint=f"'--{name}'",
            )
    of_ties = [None] if ties is None else parse_names(ties, Ties, "--ties")
    weightings = [None] if weighting is None else parse_names(weighting, Weighting, "--weighting")
    for name in kernels:
        of_kernel = {key: value for key, value in others.items() if name in USES[key]}
        for width in gammas if name in USES["gamma"] else [None]:
            for tie, weight in product(of_ties, weightings):
                ranker = make_ranker(
                    model, {"ties": tie, "weighting": weight}, name,
                    {"gamma": width, **of_kernel}, of_landmarks,
                )  # fmt: skip
                yield {"kernel": name, "gamma": width, "ties": tie, "weighting": weight}, ranker


def _place_of_picture(plot: Path | None, out: Path) -> Path | None:
    """Where the picture goes; None where nobody asked for one and matplotlib is missing."""
    from rankwise.errors import MissingExtraError
    from rankwise.plots import require_matplotlib

    path = out.with_suffix(".svg") if plot is None else plot
    try:
        require_matplotlib()
    except MissingExtraError as error:
        if plot is not None:
            raise
        note(f"No picture: {error}")
        return None
    if path.suffix.lower() not in PICTURES:
        raise typer.BadParameter(
            f"Pictures end with {', '.join(PICTURES)}: got {path.name!r}.", param_hint="'--plot'"
        )
    if path.resolve() == out.resolve():
        raise typer.BadParameter(
            f"The picture would take the place of the model, {out}.", param_hint="'--plot'"
        )
    check_writable(path)
    return path


def _report(study: Any, picture: Path | None, train: Path) -> None:
    """Print the table, and draw the picture."""
    from rankwise.cli.tune.page import settings_table, write_picture

    show(settings_table(study))
    if picture is not None:
        write_picture(study, picture, train)
        note(f"Wrote {picture}: open {picture.resolve().as_uri()}")
