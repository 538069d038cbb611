"""The options that several commands share: declared once, checked once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from inspect import Parameter, Signature, cleandoc, getmro, signature
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NoReturn,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from rankwise.cli.terminal import PARAMETERS, duration, note
from rankwise.errors import ParameterError
from rankwise.metric_names import Metric, get_metric
from rankwise.progress import quiet
from rankwise.rankers import RANKERS, TRANSFORMERS, ranker_class

if TYPE_CHECKING:
    from rankwise.parameters import Rule

ALPHAS = "1e-3:1e8:23"
MOST_VALUES = 10_000  # of a grid
# Rankers of the library that these commands do not fit, and what to use instead.
ELSEWHERE = {
    "auto": "Use 'rankwise auto'.",
    "mean": "Use 'rankwise auto', whose model is a mean, or MeanRanker in Python.",
    "leaderboard": "Use 'rankwise leaderboard'.",
    "ranking-search": "Use 'rankwise tune'.",
    "two-sided-rankrls": "It learns from a table: use 'rankwise fit' with --rows and --columns.",
    "sparse-bilinear": "It learns from separate features of queries and documents: use "
    "SparseBilinearRanker in Python.",
}
# Scalings within queries, for rankers without a parameter for scaling.
SCALERS = {name.removesuffix("-scaler"): name for name in TRANSFORMERS if name.startswith("query-")}


def models() -> list[str]:
    """The names of the rankers that the commands fit."""
    return [name for name in RANKERS if name not in ELSEWHERE]


def metric_words() -> list[str]:
    """The names of all metrics, for shells that complete words."""
    from rankwise.metrics import METRICS

    return list(METRICS)


def lists_of(words: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell may complete in an option that takes words, perhaps several with commas."""

    def complete(incomplete: str) -> list[str]:
        begun, comma, _ = incomplete.rpartition(",")
        return [f"{begun}{comma}{word}" for word in words()]

    return complete


def kernel_words() -> list[str]:
    """The names of kernels."""
    from rankwise.kernels import KERNELS

    return list(KERNELS)


def scale_words() -> list[str]:
    """The names of scalings."""
    return [*SCALERS, "standard", "none", "auto"]


def setting_words(ctx: typer.Context) -> list[str]:
    """The parameters of the ranker, for shells that complete words."""
    return [f"{name}=" for name in RankerOptions(model=ctx.params["model"]).defaults]


InputArgument = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]
InputArguments = Annotated[list[Path], typer.Argument(exists=True, dir_okay=False)]
InputFile = Annotated[Path | None, typer.Option(exists=True, dir_okay=False)]
Out = Annotated[Path | None, typer.Option("--out", "-o")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Positive = Annotated[int, typer.Option(min=1)]
Count = Annotated[int | None, typer.Option(min=1)]
Seed = Annotated[int, typer.Option(min=0)]
TrainingFile = Annotated[
    Path,
    typer.Argument(
        exists=True, dir_okay=False, metavar="TRAIN", help="LETOR file or table to learn from."
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="Model file to read.")
]
ModelOut = Annotated[
    Path, typer.Option("--out", "-o", metavar="MODEL", help="Where to write the model.")
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist already.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")
]
UNTIMED = ("ask", "info", "completion")
_ENTRY = re.compile(r"(\w+) : (.+?)(?:, panel=(.+?))?(?:, default=(.+))?")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make the options of a command from its signature and its docstring.

    The section Parameters of the docstring contains the help of each option, after a line ``name :
    METAVAR, panel=words, default=words``. A parameter may be a group of options, a dataclass with
    docstring: its fields take the place of the parameter, and the command receives the object. Each
    command also has the option --quiet, and prints at its end how long it took.
    """
    groups: dict[str, Any] = {}
    texts = option_texts(command)
    parameters: list[Parameter] = []
    for name, parameter in signature(command, eval_str=True).parameters.items():
        kind = parameter.annotation
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(_declared(name, kind, parameter.default, texts))
            continue
        groups[name] = kind
        hints = get_type_hints(kind, include_extras=True)
        helps: dict[str, dict[str, Any]] = {}
        for base in reversed(getmro(kind)):
            helps |= option_texts(base)
        parameters += [_declared(f.name, hints[f.name], f.default, helps) for f in fields(kind)]

    parameters.append(_declared("be_quiet", Quiet, False, {}))
    timed = command.__name__ not in UNTIMED

    def run(*, be_quiet: bool, **values: Any) -> None:
        begin = perf_counter()
        for name, kind in groups.items():
            values[name] = kind(**{f.name: values.pop(f.name) for f in fields(kind)})
        with quiet(be_quiet):
            command(**values)
            if timed:
                note(f"Done in {duration(perf_counter() - begin)}.")

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def option_texts(documented: Any) -> dict[str, dict[str, Any]]:
    """The metavar, the help and the default of each option in a docstring, and its panel."""
    texts: dict[str, dict[str, Any]] = {}
    panel = getattr(documented, "panel", None)
    _, _, section = cleandoc(documented.__doc__ or "").partition(PARAMETERS)
    for line in section.splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry:
            name, metavar, alone, default = entry.groups()
            texts[name] = text = {"metavar": metavar, "help": "", "show_default": default or True}
            text["rich_help_panel"] = alone or panel
        else:
            text["help"] = f"{text['help']} {line.strip()}".strip()
    return texts


def _declared(name: str, kind: Any, default: Any, texts: dict[str, dict[str, Any]]) -> Parameter:
    """A parameter as typer reads it, with the help that `texts` has for it."""
    kind, info = get_args(kind)[:2] if get_origin(kind) is Annotated else (kind, typer.Option())
    info = copy(info)
    negated = bool in (kind, *get_args(kind)) and default is not False  # with a --no-...
    argument = isinstance(info, typer.models.ArgumentInfo)
    if info.default is ... and not (info.param_decls or negated or argument):
        info.param_decls = (f"--{name.replace('_', '-')}",)
    for key, value in texts.get(name, {}).items():
        if value is not None:
            setattr(info, key, value)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


@dataclass(frozen=True, kw_only=True)
class RankerOptions:
    """A ranker and its parameters, whose names, valid values and defaults the ranker declares.

    Parameters
    ----------
    model : NAME
        rankrls compares the rows of a query. rls is plain regression. sparse-rankrls and sparse-rls
        use a kernel on landmarks, for very many rows. additive-rankrls sums functions of single
        features. transductive-rankrls also learns from rows without labels. kpcrank and kpcr choose
        a number of kernel components. ranksvm has a hinge loss. pairwise-gp is a Gaussian process,
        for few rows. boosted grows trees with LightGBM.
    kernel : NAME, default=linear, or rbf for sparse models and components
        linear, rbf, laplacian, polynomial, sigmoid or cosine. With a kernel other than linear, the
        model file contains the training rows or the landmarks.
    scale : NAME, default=query-minmax, or auto for a file without query ids
        Scale features within each query to [0, 1] (query-minmax), to mean 0 and variance 1
        (query-standard) or to ranks (query-ranks); over all rows (standard); not at all (none); or
        as the ranker chooses (auto).
    settings : NAME=VALUE
        Any other parameter of the ranker, by its name in Python, as in --set gamma=0.1
        --set ties=exclude. A wrong name lists all.
    """

    panel: ClassVar = "Ranker"
    model: Annotated[str, typer.Option(autocompletion=models)] = "rankrls"
    kernel: Annotated[str | None, typer.Option(autocompletion=lists_of(kernel_words))] = None
    scale: Annotated[str | None, typer.Option(autocompletion=lists_of(scale_words))] = None
    settings: Annotated[list[str] | None, typer.Option("--set", autocompletion=setting_words)] = (
        None
    )

    @property
    def ranker_class(self) -> Any:
        """The class of the ranker."""
        if self.model in ELSEWHERE:
            refuse("model", f"{self.model} cannot be fitted here. {ELSEWHERE[self.model]}")
        if self.model not in models():
            refuse("model", f"Choose from {', '.join(models())}: got {self.model!r}.")
        return ranker_class(self.model)

    @property
    def defaults(self) -> dict[str, Any]:
        """The parameters of the ranker, and their defaults."""
        from rankwise.parameters import default_parameters  # imports NumPy, which help does without

        return default_parameters(self.ranker_class)

    @property
    def has_alpha(self) -> bool:
        """Whether there is an alpha to choose: its default is not 0, as for components."""
        return self.defaults.get("alpha", 0) != 0

    @property
    def is_refitted(self) -> bool:
        """Whether the ranker must be refitted to hold out rows."""
        return not self.has_alpha or self._is_scaled_by_pipeline

    @property
    def _is_scaled_by_pipeline(self) -> bool:
        """Whether the ranker has kernels, but no parameter for scaling."""
        return "kernel" in self.defaults and "scale" not in self.defaults

    def check_alpha(self, **options: Any) -> None:
        """Refuse options that choose alpha if the ranker has none to choose."""
        if "alpha" in self.defaults:  # it may still be given
            options.pop("alpha", None)
        if not self.has_alpha:
            refuse_all(options, f"{self.model} has no alpha to choose: leave this out.")

    def single(self) -> Any:
        """The one ranker that the options describe."""
        for name, values in self._given().items():
            if len(values) > 1:
                option = name if name in ("kernel", "scale") else "set"
                refuse(option, f"Give one value of {name}. To try several, use 'rankwise tune'.")
        return next(ranker for _, ranker in self.combinations())

    def combinations(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Every combination of the values listed: the parameters that differ, and a ranker.

        Kernels that do not depend on a parameter are not tried for each of its values.
        """
        cls, given, tried = self.ranker_class, self._given(), []
        seed = {"random_state": 0} if "random_state" in self.defaults else {}
        for values in product(*given.values()):
            chosen = dict(zip(given, values, strict=True))
            for name in self._unused(chosen):
                chosen.pop(name, None)
            if chosen in tried:
                continue
            tried.append(chosen)
            shown = {name: "none" if v is None else v for name, v in chosen.items()}
            setting = {name: shown.get(name) for name, v in given.items() if len(v) > 1}
            scale = chosen.pop("scale") if self._is_scaled_by_pipeline and self.scale else None
            yield setting, _scaled(cls(**seed | chosen), scale)

    def settle_scale(self, ranker: Any, *, has_queries: bool) -> Any:
        """A ranker with the scaling that is the default for its training file."""
        if self.scale is not None or not has_queries:
            return ranker
        if self._is_scaled_by_pipeline:
            return _scaled(ranker, "query-minmax")
        if "scale" in self.defaults:
            ranker.set_params(scale="query-minmax")
        return ranker

    def _given(self) -> dict[str, list[Any]]:
        """The values of each parameter that is given, checked by the rules of the ranker."""
        from rankwise.parameters import AnyOf, Choice

        rules: dict[str, Rule | None] = dict.fromkeys(self.defaults)
        rules |= getattr(self.ranker_class, "parameters", {})
        if self._is_scaled_by_pipeline:
            rules["scale"] = AnyOf(None, Choice(*SCALERS))
        options = {"kernel": self.kernel, "scale": self.scale}
        texts = {name: text for name, text in options.items() if text is not None}
        for entry in self.settings or ():
            name, equals, text = entry.partition("=")
            if not equals or name in ("alpha", "kernel", "scale"):
                refuse("set", f"Give NAME=VALUE, and alpha, kernel and scale alone: got {entry!r}.")
            texts[name] = text
        for name in texts:
            if name not in rules:
                listed = ", ".join(sorted(rules))
                raise ParameterError(f"{self.model} has no parameter {name!r}, only {listed}.")
        given = {name: values_of(name, text, rules[name]) for name, text in texts.items()}
        unused = set(given).intersection(
            *(self._unused({"kernel": kernel}) for kernel in given.get("kernel", [None]))
        )
        if unused:
            refuse("set", f"{min(unused)} has no effect on this kernel: leave it out.")
        return given

    def _unused(self, chosen: dict[str, Any]) -> list[str]:
        """The parameters on which the kernel does not depend."""
        from rankwise.kernels import KERNEL_SETTINGS

        kernel: Any = chosen.get("kernel") or self.defaults.get("kernel")
        names = KERNEL_SETTINGS["polynomial"] if isinstance(kernel, str) else ()
        return [name for name in names if name not in KERNEL_SETTINGS.get(kernel, ())]


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """How to choose alpha.

    Parameters
    ----------
    alphas : A, default=auto; 1 for ranksvm, 0 for kpcrank and kpcr
        Regularization strength: a number, auto, or values to choose from. These are a list, as in
        0.1,1,10, or FROM:TO:COUNT, evenly spaced on a logarithmic scale, as in 1e-3:1e8:23.
    metric : NAME, default=ndcg@10 for grades in queries, else disagreement
        Metric to choose by: ndcg@10, MAP, MRR, precision@5, disagreement, auc, ... A wrong name
        lists them all.
    relevant : LABEL, default=1
        Rows with at least this label are relevant, for metrics that count relevant rows, such as
        MAP and MRR.
    """

    panel: ClassVar = "Choosing alpha"
    alphas: Annotated[str | None, typer.Option("--alpha", "--alphas")] = None
    metric: Annotated[str | None, typer.Option(autocompletion=metric_words)] = None
    relevant: float | None = None

    @property
    def grid(self) -> list[float]:
        """The values of alpha to try."""
        from rankwise.parameters import Number

        text = ALPHAS if self.alphas is None or self.alphas == "auto" else self.alphas
        return [float(alpha) for alpha in values_of("alpha", text, Number(0))]

    def for_rows(self, rows: Any) -> SelectionOptions:
        """The same with the metric that suits rows, if none is named."""
        if self.metric is not None:
            return self
        import numpy as np

        from rankwise.metric_names import default_metric

        n_queries = 1 if rows.qid is None else len(np.unique(rows.qid))
        return replace(self, metric=default_metric(rows.y, n_queries))

    @property
    def metric_name(self) -> str:
        """What to choose by."""
        return self.metric or "disagreement"

    def chosen_metric(self) -> Metric:
        """The metric to choose by, with the option --relevant."""
        metric = get_metric(self.metric_name)
        if self.relevant is None:
            return metric
        if not metric.counts_relevant:
            refuse("relevant", f"--metric {self.metric_name} does not use it: leave it out.")
        return replace(metric, function=partial(metric.function, relevant=self.relevant))

    def remarks_on(self, alpha: float) -> list[str]:
        """A hint where the best alpha is the first or last that was tried; none elsewhere."""
        grid = self.grid
        if len(grid) == 1 or alpha not in (min(grid), max(grid)) or min(grid) == 0:
            return []
        end = "smallest" if alpha == min(grid) else "largest"
        return [f"The best alpha is the {end} one tried: widen --alphas to see whether more helps."]


def values_of(name: str, text: str, rule: Rule | None) -> list[Any]:
    """The values of a list with commas, or of FROM:TO:COUNT, each of which the rule allows."""
    import numpy as np

    from rankwise.parameters import Number, Whole, parse_parameter

    read = None if rule is None else rule.read(text)
    if read is not None:
        return [read]
    if ":" not in text:
        parts = [parse_parameter(name, part.strip(), rule) for part in text.split(",")]
        return list(dict.fromkeys(parts))
    ends = text.split(":")
    if len(ends) != 3:
        forms = f"FROM:TO:COUNT, as in {ALPHAS}, or a list, as in 0.1,1,10"
        raise ParameterError(f"{name} must be {forms}: got {text!r}.")
    low, high = (parse_parameter(name, end, Number(0, open_low=True)) for end in ends[:2])
    count = parse_parameter(f"the COUNT of {name}", ends[2], Whole(1, MOST_VALUES))
    grid: list[float] = np.geomspace(low, high, count).tolist()
    return grid


def split_names(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _scaled(ranker: Any, scale: str | None) -> Any:
    """A ranker, or a pipeline that scales its features."""
    if scale is None:
        return ranker
    from sklearn.pipeline import make_pipeline

    return make_pipeline(ranker_class(SCALERS[scale])(), ranker)


def refuse_all(options: Mapping[str, Any], why: str) -> None:
    """Raise an error about the first of some options that is given."""
    for name, value in options.items():
        if value is not None and value is not False:
            refuse(name, why)


def refuse(option: str, why: str) -> NoReturn:
    """Raise an error about an option."""
    raise typer.BadParameter(why, param_hint=f"'--{option.replace('_', '-')}'")
