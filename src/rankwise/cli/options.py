"""The options that several commands share: declared once, checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from inspect import Parameter, signature
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer

from rankwise.cli.terminal import with_parameters
from rankwise.metric_names import get_metric
from rankwise.rankers import ranker_class

ALPHAS = "1e-3:1e8:23"
MOST_VALUES = 10_000  # of a grid
MODELS = (
    *("rankrls", "rls", "sparse-rankrls", "sparse-rls", "additive-rankrls"),
    "transductive-rankrls",
    *("kpcrank", "kpcr", "ranksvm", "pairwise-gp", "boosted"),
)
# Rankers of the library that these commands do not fit, and what to use instead.
ELSEWHERE = {
    "auto": "Use 'rankwise auto'.",
    "mean": "Use 'rankwise auto', whose model is a mean, or MeanRanker in Python.",
    "leaderboard": "Use 'rankwise leaderboard'.",
    "ranking-search": "Use 'rankwise tune'.",
    "sparse-bilinear": "It learns from features of queries and features of documents, which LETOR "
    "files do not keep apart: use SparseBilinearRanker in Python.",
}
# Rankers that choose their parameters themselves, without an alpha to tune.
WITHOUT_ALPHA = ("kpcrank", "kpcr", "pairwise-gp", "boosted")
# Of these, the ones that take a ridge as well, or choose it together with the components.
WITH_RIDGE = ("kpcrank", "kpcr")
# Rankers without a parameter for scaling: a pipeline scales their features.
SCALERS = {
    "query-minmax": "query-minmax-scaler",
    "query-standard": "query-standard-scaler",
    "query-ranks": "query-ranks",
}
IN_PIPELINE = ("ranksvm", "pairwise-gp")
CHOICES = {
    "model": MODELS,
    "kernel": ("linear", "rbf", "laplacian", "polynomial", "sigmoid", "cosine"),
    "ties": ("include", "exclude"),
    "weighting": ("pairs", "rows", "queries"),
    "scale": ("auto", "query-minmax", "query-standard", "query-ranks", "standard", "none"),
    "landmark_method": ("random", "stratified", "kmeans", "rpcholesky", "leverage"),
    "loss": ("squared_hinge", "hinge", "rankrls", "lambdarank"),
}
KERNELS_WITH = {
    "gamma": ("rbf", "laplacian", "polynomial", "sigmoid"),
    "degree": ("polynomial",),
    "coef0": ("polynomial", "sigmoid"),
}
# Options whose parameter of the ranker has another name.
PARAMETERS = {
    "landmarks": "n_landmarks",
    "landmark_method": "landmarks",
    "seed": "random_state",
    "components": "n_components",
    "ramps": "n_ramps",
    "neighbors": "n_neighbors",
}
METRIC_HELP = "ndcg@10, MAP, MRR, precision@5, disagreement, auc, ... A wrong name lists them all."


def metric_words() -> list[str]:
    """The names of all metrics, for shells that complete words."""
    from rankwise.metrics import METRICS

    return list(METRICS)


def option(metavar: str, help: str, default: str | bool = True, **more: Any) -> Any:
    """An option; `default` describes its default where the value itself says nothing."""
    return typer.Option(metavar=metavar, help=help, show_default=default, **more)


def words_of(name: str) -> Callable[[str], list[str]]:
    """What a shell may complete in an option that takes words, perhaps several with commas."""

    def complete(incomplete: str) -> list[str]:
        begun, comma, _ = incomplete.rpartition(",")
        return [f"{begun}{comma}{word}" for word in CHOICES[name]]

    return complete


ranker_option = partial(option, rich_help_panel="Ranker")
alpha_option = partial(option, rich_help_panel="Choosing alpha")
input_option = partial(option, exists=True, dir_okay=False)
input_argument = partial(typer.Argument, exists=True, dir_okay=False)

TrainingFile = Annotated[
    Path, input_argument(metavar="TRAIN", help="LETOR file or table to learn from.")
]
ModelFile = Annotated[Path, input_argument(metavar="MODEL", help="Model file to read.")]
ModelOut = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="MODEL", help="Where to write the model. Needed, but for --dry-run."
    ),
]
FeatureNames = Annotated[
    Path | None,
    input_option(
        "FILE", "Names of the features, one per line.", "those of the model, or f1, f2, ..."
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist already.")]


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

    return with_parameters(run, parameters, like=command)


@dataclass(frozen=True, kw_only=True)
class RankerOptions:
    """Which ranker. Options that are not given have the default of the ranker itself."""

    model: Annotated[
        str,
        ranker_option(
            "NAME",
            "rankrls compares the rows of a query; rls is plain regression; sparse-rankrls "
            "and sparse-rls use a kernel on landmarks, for very many rows; additive-rankrls sums "
            "functions of single features; transductive-rankrls learns from rows without labels as "
            "well; kpcrank and kpcr use kernel components, whose number "
            "they choose; ranksvm has a hinge loss, and a kernel on landmarks if one is given; "
            "pairwise-gp is a Gaussian process, for few rows; boosted grows trees with "
            "LightGBM and chooses their number on held-out queries of TRAIN.",
            autocompletion=words_of("model"),
        ),
    ] = "rankrls"
    kernel: Annotated[
        str | None,
        ranker_option(
            "NAME",
            "linear, rbf, laplacian, polynomial, sigmoid or cosine. With all but linear, the "
            "model file holds the training rows, or the landmarks.",
            "linear, or rbf for sparse models and components",
            autocompletion=words_of("kernel"),
        ),
    ] = None
    gamma: Annotated[
        str | None,
        ranker_option(
            "G", "Of the rbf, laplacian, polynomial and sigmoid kernels.", "1 / features"
        ),
    ] = None
    degree: Annotated[float | None, ranker_option("D", "Of the polynomial kernel.", "3")] = None
    coef0: Annotated[
        float | None, ranker_option("C", "Of the polynomial and sigmoid kernels.", "1.0")
    ] = None
    scale: Annotated[
        str | None,
        ranker_option(
            "NAME",
            "Scale features within each query, to \\[0, 1] (query-minmax), to mean 0 and variance "
            "1 (query-standard) or to ranks (query-ranks); over all rows (standard); not at all "
            "(none); or as the ranker chooses (auto).",
            "query-minmax, or auto for a file without query ids",
            autocompletion=words_of("scale"),
        ),
    ] = None
    ties: Annotated[
        str | None,
        ranker_option(
            "NAME",
            "Whether to include or exclude pairs with equal labels.",
            "include",
            autocompletion=words_of("ties"),
        ),
    ] = None
    weighting: Annotated[
        str | None,
        ranker_option(
            "NAME",
            "Weight of a pair: 1 (pairs), 1 / rows of its query (rows), or 1 / pairs of its "
            "query (queries).",
            "rows",
            autocompletion=words_of("weighting"),
        ),
    ] = None
    loss: Annotated[
        str | None,
        ranker_option(
            "NAME",
            "Loss of ranksvm: squared_hinge, or hinge, which is slower; of boosted: rankrls or "
            "lambdarank.",
            "squared_hinge; rankrls",
            autocompletion=words_of("loss"),
        ),
    ] = None
    landmarks: Annotated[
        int | None,
        ranker_option(
            "R",
            "Number of landmarks of a sparse model; kpcrank, kpcr, pairwise-gp, and "
            "transductive-rankrls and ranksvm with a kernel can have them.",
            "1000 for sparse models, or all rows where there are fewer",
            min=1,
        ),
    ] = None
    landmark_method: Annotated[
        str | None,
        ranker_option(
            "NAME",
            f"How to choose landmarks: {', '.join(CHOICES['landmark_method'])}.",
            "random",
            autocompletion=words_of("landmark_method"),
        ),
    ] = None
    components: Annotated[
        int | None,
        ranker_option("P", "Number of components of kpcrank and kpcr.", "chosen by folds", min=1),
    ] = None
    ramps: Annotated[
        int | None,
        ranker_option("N", "Ramps of each feature in additive-rankrls.", "4", min=1),
    ] = None
    smoothness: Annotated[
        float | None,
        ranker_option(
            "S", "How smooth transductive-rankrls is between neighbouring rows.", "10", min=0
        ),
    ] = None
    neighbors: Annotated[
        int | None,
        ranker_option("N", "Neighbours of each row in transductive-rankrls.", "10", min=1),
    ] = None
    seed: Annotated[
        int | None, ranker_option("N", "Seed for random choices, as of landmarks.", "0", min=0)
    ] = None

    @property
    def has_alpha(self) -> bool:
        """Whether the ranker has an alpha to choose."""
        return _word("model", self.model) not in WITHOUT_ALPHA

    @property
    def is_refitted(self) -> bool:
        """Whether the ranker must be refitted to hold out rows."""
        return not self.has_alpha or self.model in IN_PIPELINE

    def check_alpha(self, *options: str) -> None:
        """Refuse options for alpha if the ranker has none."""
        if self.has_alpha:
            return
        for option in options:
            without = set(WITHOUT_ALPHA) - set(WITH_RIDGE if option == "alpha" else ())
            if self.model in without:
                having = ", ".join(name for name in MODELS if name not in without)
                refuse(option, f"This is for the models {having}: got {self.model}.")

    def single(self) -> Any:
        """The one ranker that the options describe."""
        rankers = [ranker for _, ranker in self.combinations()]
        if len(rankers) > 1:
            listed = ("kernel", "gamma", "scale", "ties", "weighting")
            several = next(name for name in listed if len(self._listed(name)) > 1)
            refuse(several, "Give a single value here. To try several, use 'rankwise tune'.")
        return rankers[0]

    def combinations(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Every combination of the values listed: its varying parameters, and a ranker."""
        cls = ranker_class(_word("model", self.model))
        self._check_that_the_ranker_has_these()
        defaults = _defaults(cls)
        fixed: dict[str, Any] = {
            "degree": self.degree,
            "coef0": self.coef0,
            "n_landmarks": self.landmarks,
            "n_components": self.components,
            "n_ramps": self.ramps,
            "smoothness": self.smoothness,
            "n_neighbors": self.neighbors,
        }
        if self.loss is not None:
            fixed["loss"] = _word("loss", self.loss)
        if self.landmark_method is not None:
            fixed["landmarks"] = _word("landmark_method", self.landmark_method)
        if "random_state" in defaults:
            fixed["random_state"] = self.seed or 0
        kernels: list[Any]
        kernels = self._listed("kernel") if self.kernel else [defaults.get("kernel")]
        for option, having in KERNELS_WITH.items():
            unused = "kernel" in defaults and not set(kernels) & set(having)
            if unused and getattr(self, option) is not None:
                got = ", ".join(kernels)
                refuse(option, f"This is for the kernels {', '.join(having)}: got {got}.")
        for kernel in kernels:
            has_gamma = kernel is None or kernel in KERNELS_WITH["gamma"]
            gammas = self._listed("gamma") if has_gamma else [None]
            names = ("scale", "ties", "weighting")
            for gamma, *others in product(gammas, *(self._listed(name) for name in names)):
                varying = {
                    "kernel": kernel,
                    "gamma": gamma,
                    **dict(zip(names, others, strict=True)),
                }
                given = {
                    name: value
                    for name, value in (varying | fixed).items()
                    if value is not None and kernel in (None, *KERNELS_WITH.get(name, kernels))
                }
                if given.get("scale") == "none":
                    given["scale"] = None
                scale = given.pop("scale", None) if self.model in IN_PIPELINE else None
                yield varying, _scaled(cls(**given), scale)

    def settle_scale(self, ranker: Any, *, has_queries: bool) -> Any:
        """A ranker with the scaling that is the default for its training file."""
        if self.scale is not None or not has_queries:
            return ranker
        if self.model in IN_PIPELINE:
            return _scaled(ranker, "query-minmax")
        if "scale" in ranker.get_params():
            ranker.set_params(scale="query-minmax")
        return ranker

    def _listed(self, option: str) -> list[Any]:
        """The values of an option that may list several; one None where it is not given."""
        text = getattr(self, option)
        if text is None:
            return [None]
        if option == "gamma":
            return parse_numbers(text, option)
        return list(dict.fromkeys(_word(option, part.strip()) for part in text.split(",")))

    def _check_that_the_ranker_has_these(self) -> None:
        for field in fields(self):
            if field.name == "model" or getattr(self, field.name) is None:
                continue
            having = [name for name in MODELS if _takes(name, field.name)]
            if self.model not in having:
                refuse(field.name, f"This is for the models {', '.join(having)}: got {self.model}.")
        if self.model in IN_PIPELINE:
            for name in self._listed("scale"):
                if name not in (None, "none", *SCALERS):
                    words = ", ".join((*SCALERS, "none"))
                    refuse("scale", f"For {self.model}, choose from {words}: got {name}.")


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """How to choose alpha."""

    alphas: Annotated[
        str | None,
        alpha_option(
            "GRID",
            "Values to try: FROM:TO:COUNT, evenly spaced on a logarithmic scale, or a list "
            "such as 0.1,1,10.",
            ALPHAS,
        ),
    ] = None
    metric: Annotated[
        str | None,
        alpha_option(
            "NAME",
            f"What to choose by: {METRIC_HELP}",
            "ndcg@10 for grades in queries, else disagreement",
            autocompletion=metric_words,
        ),
    ] = None
    relevant: Annotated[
        float | None,
        alpha_option(
            "LABEL",
            "Rows with at least this label are relevant, for metrics that count relevant rows, "
            "such as MAP and MRR.",
            "1",
        ),
    ] = None

    @property
    def grid(self) -> list[float]:
        """The values of alpha to try."""
        return parse_numbers(ALPHAS if self.alphas is None else self.alphas, "alphas")

    def for_rows(self, rows: Any) -> SelectionOptions:
        """The same with the metric that suits rows, if none is named."""
        if self.metric is not None:
            return self
        import numpy as np

        from rankwise.metrics.ranking_scorer import default_metric

        n_queries = 1 if rows.qid is None else len(np.unique(rows.qid))
        return replace(self, metric=default_metric(rows.y, n_queries))

    @property
    def metric_name(self) -> str:
        """What to choose by."""
        return self.metric or "disagreement"

    def metric_function(self) -> tuple[Callable[..., Any], bool]:
        """A function of labels, scores and queries, and whether larger values are better."""
        metric = get_metric(self.metric_name)
        if self.relevant is None:
            return metric.function, metric.greater_is_better
        if not metric.counts_relevant:
            refuse("relevant", f"--metric {self.metric_name} does not use it: leave it out.")
        return partial(metric.function, relevant=self.relevant), metric.greater_is_better

    def remark_on(self, alpha: float) -> str:
        """A hint where the best alpha is the first or last that was tried; empty elsewhere."""
        grid = self.grid
        if len(grid) == 1 or alpha not in (min(grid), max(grid)) or min(grid) == 0:
            return ""
        end = "smallest" if alpha == min(grid) else "largest"
        return f"The best alpha is the {end} one tried: widen --alphas to see whether more helps."


def parse_number(text: str) -> float:
    """A finite number; ValueError for all else, also for 1_0, which Python reads as 10."""
    number = float(text)
    if "_" in text or not abs(number) < float("inf"):
        raise ValueError(f"not a finite number: {text!r}")
    return number


def parse_whole(text: str) -> int:
    """A whole number; ValueError for all else, also for 1_0."""
    if "_" in text:
        raise ValueError(f"not a whole number: {text!r}")
    return int(text)


def parse_alpha(text: str) -> float | str:
    """A number of at least 0, or "auto"."""
    if text == "auto":
        return text
    try:
        value = parse_number(text)
    except ValueError:
        value = -1.0
    if value < 0:
        refuse("alpha", f"Give a number of at least 0, or auto: got {text!r}.")
    return value


def parse_numbers(text: str, option: str) -> list[float]:
    """The numbers that FROM:TO:COUNT or a list with commas stands for."""
    import numpy as np

    try:
        if ":" in text:
            low, high, count = text.split(":")
            n_values = parse_whole(count)
            if n_values > MOST_VALUES:
                refuse(option, f"Give at most {MOST_VALUES:,} values: got {text!r}.")
            values = np.geomspace(parse_number(low), parse_number(high), n_values).tolist()
        else:
            values = [parse_number(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 <= value < float("inf") for value in values):
        refuse(
            option,
            f"Give FROM:TO:COUNT with numbers above 0, as in {ALPHAS}, or a list with commas, as "
            f"in 0.1,1,10: got {text!r}.",
        )
    return values


def _word(option: str, text: str) -> str:
    """A word, checked to be one of those that the option takes."""
    if option == "model" and text in ELSEWHERE:
        refuse(option, f"{text} cannot be fitted here. {ELSEWHERE[text]}")
    if text not in CHOICES[option]:
        refuse(option, f"Choose from {', '.join(CHOICES[option])}: got {text!r}.")
    return text


def _takes(model: str, option: str) -> bool:
    """Whether a model has an option."""
    if model in IN_PIPELINE and option == "scale":
        return True
    if model == "pairwise-gp" and option == "kernel":
        return False  # it takes kernel objects, and learns the width of its own
    return PARAMETERS.get(option, option) in _defaults(ranker_class(model))


def _scaled(ranker: Any, scale: str | None) -> Any:
    """A ranker, or a pipeline that scales its features."""
    if scale is None:
        return ranker
    from sklearn.pipeline import make_pipeline

    return make_pipeline(ranker_class(SCALERS[scale])(), ranker)


def _defaults(cls: Any) -> dict[str, Any]:
    """The parameters of a ranker with their defaults."""
    return {name: p.default for name, p in signature(cls).parameters.items()}


def refuse(option: str, why: str) -> NoReturn:
    """Raise an error about an option."""
    raise typer.BadParameter(why, param_hint=f"'--{option.replace('_', '-')}'")
