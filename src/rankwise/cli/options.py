"""What commands that fit have in common: their options, and what these mean."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from rankwise.cli.terminal import note
from rankwise.errors import ParameterError

ALPHAS = "1e-3:1e8:23"
Name = TypeVar("Name", bound=StrEnum)


class Ranker(StrEnum):
    rankrls = "rankrls"
    rls = "rls"
    sparse_rankrls = "sparse-rankrls"
    sparse_rls = "sparse-rls"

    @property
    def on_landmarks(self) -> bool:
        return self in (Ranker.sparse_rankrls, Ranker.sparse_rls)

    @property
    def compares_pairs(self) -> bool:
        return self in (Ranker.rankrls, Ranker.sparse_rankrls)

    @property
    def default_kernel(self) -> str:
        return "rbf" if self.on_landmarks else "linear"


class LandmarkMethod(StrEnum):
    random = "random"
    stratified = "stratified"
    kmeans = "kmeans"
    rpcholesky = "rpcholesky"
    leverage = "leverage"


class KernelName(StrEnum):
    linear = "linear"
    rbf = "rbf"
    laplacian = "laplacian"
    polynomial = "polynomial"
    sigmoid = "sigmoid"
    cosine = "cosine"


class Ties(StrEnum):
    include = "include"
    exclude = "exclude"


class Weighting(StrEnum):
    pairs = "pairs"
    rows = "rows"
    queries = "queries"


USES = {  # which options mean something to which kernel
    "gamma": ("rbf", "laplacian", "polynomial", "sigmoid"),
    "degree": ("polynomial",),
    "coef0": ("polynomial", "sigmoid"),
}
FILE = {"exists": True, "dir_okay": False}
Model = Annotated[
    Ranker,
    typer.Option(
        metavar="NAME",
        help="rankrls compares rows of a query; rls is plain regression; sparse-rankrls and "
        "sparse-rls have a kernel on landmarks, for very many rows.",
    ),
]
LandmarkCount = Annotated[
    int | None,
    typer.Option(
        metavar="R",
        min=1,
        help="How many landmarks a sparse model has.",
        show_default="1000, or all rows where there are fewer",
    ),
]
Method = Annotated[
    LandmarkMethod | None,
    typer.Option(
        metavar="NAME",
        help=f"How landmarks are chosen: {', '.join(LandmarkMethod)}.",
        show_default="random",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="What landmarks are drawn with.", show_default="0"),
]


def parse_alphas(text: str, option: str = "--alphas") -> list[float]:
    """The values that FROM:TO:COUNT or a list with commas means."""
    import numpy as np

    try:
        if ":" in text:
            low, high, count = text.split(":")
            values = np.geomspace(float(low), float(high), int(count)).tolist()
        else:
            values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 <= value < float("inf") for value in values):
        raise typer.BadParameter(
            f"Give FROM:TO:COUNT with numbers above 0, as in {ALPHAS}, or a list with commas, as "
            f"in 0.1,1,10: got {text!r}.",
            param_hint=f"'{option}'",
        )
    return values


def parse_names(text: str, names: type[Name], option: str) -> list[Name]:
    """The names that a list with commas means, each once."""
    try:
        return list(dict.fromkeys(names(part.strip()) for part in text.split(",")))
    except ValueError:
        raise typer.BadParameter(
            f"Give one or more of {', '.join(names)}, with commas between them: got {text!r}.",
            param_hint=f"'{option}'",
        ) from None


def make_ranker(
    model: Ranker,
    of_pairs: dict[str, Any],
    kernel: KernelName | None,
    of_kernel: dict[str, Any],
    of_landmarks: dict[str, Any],
) -> Any:
    """The ranker that the options describe, not fitted yet; dictionaries have them by name."""
    from rankwise.rankers import ranker_class

    kernel = kernel or KernelName(model.default_kernel)
    for name, value in of_kernel.items():
        if value is not None and kernel not in USES[name]:
            _refuse(name, f"The {kernel} kernel has none: it is for {', '.join(USES[name])}.")
    for name, value in of_pairs.items():
        if value is not None and not model.compares_pairs:
            _refuse(name, "This is about pairs, and plain regression knows none.")
    for name, value in of_landmarks.items():
        if value is not None and not model.on_landmarks:
            _refuse(name, "This is about landmarks, and only models named sparse-... have them")
    given: dict[str, Any]
    given = {name: str(value) for name, value in of_pairs.items() if value is not None}
    given |= {name: value for name, value in of_kernel.items() if value is not None}
    if model.on_landmarks:
        method, seed = of_landmarks["landmark-method"], of_landmarks["seed"]
        given |= {
            "n_landmarks": of_landmarks["landmarks"],
            "landmarks": str(method or LandmarkMethod.random),
            "random_state": seed or 0,
        }
    return ranker_class(model)(kernel=str(kernel), **given)


def _refuse(option: str, why: str) -> NoReturn:
    raise typer.BadParameter(why, param_hint=f"'--{option}'")


def check_not_input(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write over a file that is read."""
    for path in inputs:
        if out and path and out.exists() and path.exists() and out.samefile(path):
            raise ParameterError(f"{out} is an input of this command: write to another file.")


def check_writable(out: Path, *inputs: Path | None) -> None:
    """Say now, not after an hour of work, that the model cannot be written there."""
    from rankwise.files import replacing

    check_not_input(out, *inputs)

    class Enough(Exception):
        pass

    try:
        with replacing(out):
            raise Enough
    except Enough:
        pass


def judge(metric: str, relevant: float | None) -> tuple[Callable[..., float], bool]:
    """A function of labels, scores and queries, and whether larger values of it are better."""
    from functools import partial

    from rankwise.metrics import get_metric

    function, greater_is_better = get_metric(metric)
    if relevant is None:
        return function, greater_is_better
    if metric.partition("@")[0].lower() not in ("map", "mrr", "precision"):
        raise typer.BadParameter(
            f"It means nothing to --metric {metric}: leave it out.", param_hint="'--relevant'"
        )
    return partial(function, relevant=relevant), greater_is_better


def remark_on_ends(alpha: float, alphas: list[float]) -> None:
    """Say that the best alpha may lie beyond those that were tried."""
    if len(alphas) > 1 and alpha in (min(alphas), max(alphas)) and min(alphas) > 0:
        end = "smallest" if alpha == min(alphas) else "largest"
        note(
            f"The best alpha is the {end} that was tried: widen --alphas to see whether more helps."
        )
