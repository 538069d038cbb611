"""The options that several commands share: declared once, checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from inspect import Parameter, Signature, signature
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer

from rankwise.cli.input_files import normalized, read_data
from rankwise.rankers import ranker_class

if TYPE_CHECKING:
    from rankwise.data import LetorData

ALPHAS = "1e-3:1e8:23"
MODELS = ("rankrls", "rls", "sparse-rankrls", "sparse-rls")
CHOICES = {
    "model": MODELS,
    "kernel": ("linear", "rbf", "laplacian", "polynomial", "sigmoid", "cosine"),
    "ties": ("include", "exclude"),
    "weighting": ("pairs", "rows", "queries"),
    "landmark_method": ("random", "stratified", "kmeans", "rpcholesky", "leverage"),
}
KERNELS_WITH = {
    "gamma": ("rbf", "laplacian", "polynomial", "sigmoid"),
    "degree": ("polynomial",),
    "coef0": ("polynomial", "sigmoid"),
}
_ranker_option = partial(typer.Option, rich_help_panel="Ranker")
_data_option = partial(typer.Option, rich_help_panel="Data")
_selection_option = partial(typer.Option, rich_help_panel="Choosing alpha")
# Options whose parameter of the ranker has another name.
PARAMETERS = {"landmarks": "n_landmarks", "landmark_method": "landmarks", "seed": "random_state"}

TrainingFile = Annotated[
    Path,
    typer.Argument(metavar="TRAIN", exists=True, dir_okay=False, help="LETOR file to learn from."),
]
ModelOut = Annotated[
    Path, typer.Option("--out", "-o", metavar="MODEL", help="Where to write the model.")
]
ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", exists=True, dir_okay=False, help="Model file to read."),
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: parameters whose type is a dataclass of options.

    Typer reads options from a signature. The fields of each dataclass take the place of its
    parameter there; the command receives the object.
    """
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(command, eval_str=True).parameters.items():
        kind = parameter.annotation
        if not is_dataclass(kind):
            parameters.append(parameter)
            continue
        groups[name] = kind
        hints = get_type_hints(kind, include_extras=True)
        parameters += [
            Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
            for f in fields(kind)
        ]

    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{f.name: values.pop(f.name) for f in fields(kind)})
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


@dataclass(frozen=True, kw_only=True)
class RankerOptions:
    """Which ranker. Options that are not given have the default of the ranker itself."""

    model: Annotated[
        str,
        _ranker_option(
            metavar="NAME",
            help="rankrls compares the rows of a query; rls is plain regression; sparse-rankrls "
            "and sparse-rls use a kernel on landmarks, for very many rows.",
        ),
    ] = "rankrls"
    kernel: Annotated[
        str | None,
        _ranker_option(
            metavar="NAME",
            help="linear, rbf, laplacian, polynomial, sigmoid or cosine. With all but linear, the "
            "model file holds the training rows, or the landmarks.",
            show_default="linear, or rbf for sparse models",
        ),
    ] = None
    gamma: Annotated[
        str | None,
        _ranker_option(
            metavar="G",
            help="Of the rbf, laplacian, polynomial and sigmoid kernels.",
            show_default="1 / features",
        ),
    ] = None
    degree: Annotated[
        float | None,
        _ranker_option(
            metavar="D",
            help="Of the polynomial kernel.",
            show_default="3",
        ),
    ] = None
    coef0: Annotated[
        float | None,
        _ranker_option(
            metavar="C",
            help="Of the polynomial and sigmoid kernels.",
            show_default="1.0",
        ),
    ] = None
    ties: Annotated[
        str | None,
        _ranker_option(
            metavar="NAME",
            help="Whether to include or exclude pairs with equal labels.",
            show_default="include",
        ),
    ] = None
    weighting: Annotated[
        str | None,
        _ranker_option(
            metavar="NAME",
            help="Weight of a pair: 1 (pairs), 1 / rows of its query (rows), or 1 / pairs of its "
            "query (queries).",
            show_default="rows",
        ),
    ] = None
    landmarks: Annotated[
        int | None,
        _ranker_option(
            metavar="R",
            min=1,
            help="Number of landmarks of a sparse model.",
            show_default="1000, or all rows where there are fewer",
        ),
    ] = None
    landmark_method: Annotated[
        str | None,
        _ranker_option(
            metavar="NAME",
            help=f"How to choose landmarks: {', '.join(CHOICES['landmark_method'])}.",
            show_default="random",
        ),
    ] = None
    seed: Annotated[
        int | None,
        _ranker_option(
            metavar="N",
            min=0,
            help="Seed for the choice of landmarks.",
            show_default="0",
        ),
    ] = None

    def single(self) -> Any:
        """The one ranker that the options describe."""
        rankers = [ranker for _, ranker in self.combinations()]
        if len(rankers) > 1:
            listed = ("kernel", "gamma", "ties", "weighting")
            option = next(name for name in listed if len(self._listed(name)) > 1)
            _refuse(option, "Give a single value here. To try several, use 'rankwise tune'.")
        return rankers[0]

    def combinations(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Every combination of the values listed: its varying parameters, and a ranker."""
        cls = ranker_class(_word("model", self.model))
        self._check_that_the_ranker_has_these(cls)
        defaults = _defaults(cls)
        fixed: dict[str, Any]
        fixed = {"degree": self.degree, "coef0": self.coef0, "n_landmarks": self.landmarks}
        if self.landmark_method is not None:
            fixed["landmarks"] = _word("landmark_method", self.landmark_method)
        if "random_state" in defaults:
            fixed["random_state"] = self.seed or 0
        kernels = self._listed("kernel") if self.kernel else [defaults.get("kernel")]
        for option, having in KERNELS_WITH.items():
            unused = "kernel" in defaults and not set(kernels) & set(having)
            if unused and getattr(self, option) is not None:
                _refuse(
                    option,
                    f"This is for the kernels {', '.join(having)}: got {', '.join(kernels)}.",
                )
        for kernel in kernels:
            has_gamma = kernel is None or kernel in KERNELS_WITH["gamma"]
            gammas = self._listed("gamma") if has_gamma else [None]
            for gamma, ties, weighting in product(
                gammas, self._listed("ties"), self._listed("weighting")
            ):
                varying = {"kernel": kernel, "gamma": gamma, "ties": ties, "weighting": weighting}
                given = {
                    name: value
                    for name, value in (varying | fixed).items()
                    if value is not None and kernel in (None, *KERNELS_WITH.get(name, kernels))
                }
                yield varying, cls(**given)

    def _listed(self, option: str) -> list[Any]:
        """The values of an option that may list several; one None where it is not given."""
        text = getattr(self, option)
        if text is None:
            return [None]
        return parse_numbers(text, option) if option == "gamma" else _words(option, text)

    def _check_that_the_ranker_has_these(self, cls: Any) -> None:
        for field in fields(self):
            parameter = PARAMETERS.get(field.name, field.name)
            unused = parameter != "model" and parameter not in _defaults(cls)
            if unused and getattr(self, field.name) is not None:
                having = [name for name in MODELS if parameter in _defaults(ranker_class(name))]
                _refuse(
                    field.name, f"This is for the models {', '.join(having)}: got {self.model}."
                )


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """How to read the training file."""

    normalize: Annotated[
        bool,
        _data_option(
            "--normalize",
            help="Scale each feature of each query to \\[0, 1] first.",
        ),
    ] = False
    features: Annotated[
        int | None,
        _data_option(
            metavar="N",
            min=1,
            help="Number of features.",
            show_default="largest index in TRAIN",
        ),
    ] = None

    def read(self, path: Path) -> LetorData:
        """All rows of the file."""
        data = read_data(path, n_features=self.features, whose="--features")
        return normalized(data) if self.normalize else data


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """How to choose alpha."""

    alphas: Annotated[
        str | None,
        _selection_option(
            metavar="GRID",
            help="Values to try: FROM:TO:COUNT, evenly spaced on a logarithmic scale, or a list "
            "such as 0.1,1,10.",
            show_default=ALPHAS,
        ),
    ] = None
    metric: Annotated[
        str | None,
        _selection_option(
            metavar="NAME",
            help="What to choose by: disagreement, kendall_tau, auc, MAP, MRR, ndcg, ndcg@10, "
            "precision@10, ...",
            show_default="disagreement",
        ),
    ] = None
    relevant: Annotated[
        float | None,
        _selection_option(
            metavar="LABEL",
            help="Rows with at least this label are relevant, for MAP, MRR and precision.",
            show_default="1",
        ),
    ] = None

    @property
    def grid(self) -> list[float]:
        """The values of alpha to try."""
        return parse_numbers(self.alphas or ALPHAS, "alphas")

    @property
    def metric_name(self) -> str:
        """What to choose by."""
        return self.metric or "disagreement"

    def metric_function(self) -> tuple[Callable[..., Any], bool]:
        """A function of labels, scores and queries, and whether larger values are better."""
        from rankwise.metrics import get_metric

        function, greater_is_better = get_metric(self.metric_name)
        if self.relevant is None:
            return function, greater_is_better
        if self.metric_name.partition("@")[0].lower() not in ("map", "mrr", "precision"):
            _refuse("relevant", f"--metric {self.metric_name} does not use it: leave it out.")
        return partial(function, relevant=self.relevant), greater_is_better

    def remark_on(self, alpha: float) -> str:
        """A hint where the best alpha is the first or last that was tried; empty elsewhere."""
        grid = self.grid
        if len(grid) == 1 or alpha not in (min(grid), max(grid)) or min(grid) == 0:
            return ""
        end = "smallest" if alpha == min(grid) else "largest"
        return f"The best alpha is the {end} one tried: widen --alphas to see whether more helps."


def parse_numbers(text: str, option: str) -> list[float]:
    """The numbers that FROM:TO:COUNT or a list with commas stands for."""
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
        _refuse(
            option,
            f"Give FROM:TO:COUNT with numbers above 0, as in {ALPHAS}, or a list with commas, as "
            f"in 0.1,1,10: got {text!r}.",
        )
    return values


def _words(option: str, text: str) -> list[str]:
    """The words that a list with commas stands for, each once."""
    return list(dict.fromkeys(_word(option, part.strip()) for part in text.split(",")))


def _word(option: str, text: str) -> str:
    """A word, checked to be one of those that the option takes."""
    if text not in CHOICES[option]:
        _refuse(option, f"Choose from {', '.join(CHOICES[option])}: got {text!r}.")
    return text


def _defaults(cls: Any) -> dict[str, Any]:
    """The parameters of a ranker with their defaults."""
    return {name: p.default for name, p in signature(cls).parameters.items()}


def _refuse(option: str, why: str) -> NoReturn:
    raise typer.BadParameter(why, param_hint=f"'--{option.replace('_', '-')}'")
