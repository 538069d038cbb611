"""Models as ONNX graphs of plain operators, and as steps of ``skl2onnx.to_onnx``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array
from rankwise.errors import ExportError
from rankwise.export._endings import ModelStages, read_stages, score_stages
from rankwise.export._graph import KINDS, ML, Graph, Value, kernel_values, require_onnx
from rankwise.export._stages import emit_all, emit_numbers, transformer_stages, width
from rankwise.export.checks import (
    TOLERANCE,
    CheckRows,
    Export,
    ExportCheck,
    check_rows,
    compare_scores,
    refuse_in_doubt,
    refuse_unless_passed,
)
from rankwise.export.linear_models import feature_names
from rankwise.parameters import Choice, check_value
from rankwise.two_sided.sides import dense

OPSET = 18  # from which on all reductions take their axes as an input
ML_OPSET = 5  # trees with float64 outputs, and texts
IR_VERSION = 8  # the oldest with this operator set
LARGEST = 2**31 - 2**20  # bytes of a protobuf message
DRAWN = 50  # rows, and as many columns, on which a table is checked
WANTED = 1e-5  # the relative difference above which float32 is not good enough, where we choose
LATE_TIMES = "In float32, times in the last minutes of a day may count as the next day."
FORMS = [("float32", "float32"), ("float32", "float64"), ("float64", "float64")]
"""Precision of input and output, and of the arithmetic in between: the smallest first."""


def to_onnx(
    model: Any,
    *,
    precision: str = "auto",
    features: Sequence[str] | None = None,
    rows: Any = None,
    qid: Any = None,
) -> Export:
    """A model as an ONNX graph of plain operators, checked with onnxruntime.

    The graph has the input ``X`` of shape (rows, features) and the output ``score``. The graph of a
    `PairwiseGP` has a second output, ``std``, the standard deviation of each score. Scalers and
    selections of a pipeline are part of the graph.

    If some features are text, for encoders of categories in the pipeline, they are a second input,
    ``text``, and ``X`` holds the other features. The metadata of the file contains the names of
    both. Dates, for a `TableEncoder`, are days since 1970-01-01 in ``X``, with times of day as
    fractions; the metadata lists them under "dates".

    If the model scales features within queries, or is a mean of rankers that standardizes scores
    within queries, the graph takes the rows of one query at a time. Splitting a query over two
    calls changes its scores, without an error.

    The graph of a `TwoSidedRankRLS` has the inputs ``rows`` and ``columns``, and the output
    ``score`` of shape (rows, columns). A side with several kernels has an input for each, as in
    ``rows``, ``rows_1``.

    Parameters
    ----------
    model : estimator
        A fitted ranker, or a pipeline or search with one. All least-squares rankers, RankSVM,
        PairwiseGP, BoostedRanker, TwoSidedRankRLS, and MeanRanker and AutoRanker of these work,
        with all kernels but functions and precomputed ones.
    precision : {"auto", "float32", "float64"}, default="auto"
        Of the input and the output. "auto": float32 if no difference of two scores of a query is
        off by more than 1e-5 of the range of the scores, float64 otherwise; the type of the input
        in the file shows which. Without `rows`, float32 also needs features that are known to lie
        within -2**24 and 2**24, where it represents all whole numbers; "float32" is refused
        otherwise. With dates, "auto" is float64: in float32, times in the last minutes of a day
        may count as the next day. Where float32 arithmetic would lose digits, a graph with float32
        input computes in float64.
    features : sequence of str, optional
        Names of the features, for the metadata of the file. None: the names that the model knows.
    rows : array-like or data frame of shape (n_rows, n_features), optional
        Rows on which the export is checked, in the precision in which you have them. None: drawn
        from the range of the training rows. For a `TwoSidedRankRLS`, a pair of rows and columns.
    qid : array-like of shape (n_rows,), optional
        The queries of these rows.

    Returns
    -------
    Export
        `content` is the file as bytes.

    Raises
    ------
    ExportError
        If there are no operators for the model, or the graph ranks rows differently.

    Examples
    --------
    >>> import numpy as np
    >>> from onnxruntime import InferenceSession
    >>> from rankwise import SparseRankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.export import to_onnx
    >>> data = make_ranking(20, n_features=3, random_state=0)
    >>> ranker = SparseRankRLS(1.0, n_landmarks=20, scale="standard", random_state=0)
    >>> ranker = ranker.fit(data.X, data.y, qid=data.qid)
    >>> session = InferenceSession(to_onnx(ranker).content)
    >>> (score,) = session.run(["score"], {"X": data.X.astype(np.float32)})
    >>> bool(abs(score - ranker.predict(data.X)).max() < 1e-4)
    True
    """
    check_value("precision", precision, Choice("auto", *TOLERANCE))
    require_onnx()
    require_onnx("onnxruntime")
    table = getattr(model, "best_estimator_", model)
    if hasattr(table, "sides_"):
        if features is not None or qid is not None:
            raise ExportError("A table has no features= and qid=: its inputs are rows and columns.")
        return _table_export(table, precision, rows)
    stages = read_stages(model)
    names = feature_names(stages, features)
    given = check_rows(stages, names, rows, qid)
    if precision == "float32":
        refuse_in_doubt(given, "A graph with precision='float32'")
    ours, ending = given.scores(model, stages.names), stages.stages[-1]
    n_outputs = ours.shape[1]
    spread = given.deviations(model, stages.names) if "std" in ending.names else None

    def checked(made: bytes, precision: str) -> ExportCheck:
        session, texts = _session(made), stages.texts
        wanted = [one.name for one in session.get_inputs()]

        def score(X: Array) -> Array:
            with np.errstate(over="ignore"):  # the check finds what is not finite
                inputs = {"X": np.delete(X, list(texts), axis=1).astype(precision)}
            if texts:
                inputs["text"] = np.column_stack([t.as_given(X[:, k]) for k, t in texts.items()])
            found = session.run(None, {name: inputs[name] for name in wanted})
            return np.column_stack([part.reshape(len(X), -1) for part in found]).astype(np.float64)

        theirs = given.by_query(score)
        return compare_scores(
            ours,
            theirs[:, :n_outputs],
            given,
            target="onnx",
            precision=precision,
            deviations=None if spread is None else (spread, theirs[:, n_outputs:]),
        )

    forms = [form for form in FORMS if precision in ("auto", form[0])]
    forms = [form for form in forms if ending.in_float32 or form[1] == "float64"]
    if precision == "auto" and (given.doubt is not None or stages.uses.dates):
        forms = forms[-1:]
    form, made, check = _smallest(forms, lambda *form: _made(stages, names, *form), checked)
    way_out = "Scale the features when you fit the model."
    if form[0] == "float32":
        way_out = (
            'Use precision="float64", or subtract a constant from features that are '
            "far from 0 before you fit the model. If features are float32 where the graph is used, "
            "check it on such rows."
        )
    refuse_unless_passed(check, way_out)
    return Export("onnx", made, check).with_notes(*_notes(stages, names, given, precision, *form))


def _smallest(
    forms: Sequence[tuple[str, str]],
    write: Callable[[str, str], bytes],
    check: Callable[[bytes, str], ExportCheck],
) -> tuple[tuple[str, str], bytes, ExportCheck]:
    """The first form whose file scores as the model does, or the last one; its file and check."""
    for form in forms:
        try:
            made = write(*form)
        except ExportError:  # a number of the model overflows float32
            if form == forms[-1]:
                raise
            continue
        found = check(made, form[0])
        if found.passed and found.relative_difference <= WANTED:
            break
    return form, made, found


def _notes(
    stages: ModelStages,
    names: tuple[str, ...],
    rows: CheckRows,
    wanted: str,
    precision: str,
    arithmetic: str,
) -> tuple[str, ...]:
    """What a user of the graph should know."""
    notes = []
    if wanted == "auto" and precision == "float64":
        why = rows.doubt or "In float32, rows could not be told apart."
        if stages.uses.dates:
            why = LATE_TIMES
        notes.append(f"Input and scores are float64. {why}")
    if arithmetic != precision:
        notes.append(f"The graph computes in {arithmetic}.")
    if stages.uses.dates:
        dates = ", ".join(names[k] for k in stages.uses.dates)
        notes.append(f"In X, dates are days since 1970-01-01, with times as fractions: {dates}.")
        if precision == "float32":
            notes.append(f'{LATE_TIMES} Give whole days, or use precision="float64".')
    if stages.within_queries:
        notes.append(
            "A call takes all rows of one query: a query that is split over two calls gets other "
            "scores, without an error."
        )
    return tuple(notes)


def append_scores(
    stages: Sequence[Any], x: Value, precision: str, *, flat: bool
) -> dict[str, Value]:
    """Append all stages to the graph of x; the outputs are in the precision of the input.

    `flat` scores have no axis for outputs if there is one output.
    """
    arithmetic = np.dtype(x.graph.dtype).name
    x = x if arithmetic == precision else x.cast(KINDS[arithmetic])
    *before, ending = stages
    found = ending.outputs(emit_all(before, x))
    for name, value in found.items():
        if arithmetic != precision:
            value = value.cast(KINDS[precision])
        if flat and width(stages, 0) == 1:
            value = value.apply("Reshape", np.array([-1]))
        found[name] = value
    return found


def _made(stages: ModelStages, names: tuple[str, ...], precision: str, arithmetic: str) -> bytes:
    """An ONNX file with the inputs X and text, if there are columns for them."""
    graph, texts, kind = Graph(np.dtype(arithmetic)), stages.texts, KINDS[precision]
    x = emit_numbers(graph, texts, stages.n_features, kind)
    outputs = append_scores(stages.stages, x, precision, flat=True)
    numbers = [name for k, name in enumerate(names) if k not in texts]
    properties = {
        "features": json.dumps(numbers, ensure_ascii=False),
        "rankwise": version("rankwise"),
        "rows": "all rows of one query" if stages.within_queries else "any rows",
    }
    inputs = [("X", kind, ["rows", len(numbers)])] if numbers else []
    if stages.uses.dates:
        properties["dates"] = json.dumps([names[k] for k in stages.uses.dates], ensure_ascii=False)
    if texts:
        properties["text"] = json.dumps([names[k] for k in texts], ensure_ascii=False)
        inputs.append(("text", require_onnx().TensorProto.STRING, ["rows", len(texts)]))
    n_outputs = width(stages.stages, 0)
    shape = ["rows"] if n_outputs == 1 else ["rows", n_outputs]
    return _file(graph, inputs, outputs, shape, kind, properties)


def _file(
    graph: Graph,
    inputs: list[tuple[str, int, list[Any]]],
    outputs: dict[str, Value],
    shape: list[Any],
    kind: int,
    properties: dict[str, str],
) -> bytes:
    """The file of a graph whose outputs are numbers of the same shape."""
    onnx = require_onnx()
    n_bytes = sum(array.nbytes for array in graph.constants.values())
    if n_bytes > LARGEST:
        raise ExportError(
            f"An ONNX file holds at most 2 GiB, and this model has {n_bytes / 2**30:.1f} GiB of "
            "numbers. Use a ranker on landmarks, such as SparseRankRLS."
        )
    info = onnx.helper.make_tensor_value_info
    ends = [
        onnx.helper.make_node("Identity", [value.name], [name], name)
        for name, value in outputs.items()
    ]
    made = onnx.helper.make_graph(
        graph.nodes + ends,
        "rankwise",
        [info(*given) for given in inputs],
        [info(name, kind, shape) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    opsets = {"": OPSET, ML: ML_OPSET} if graph.has_ml else {"": OPSET}
    model = onnx.helper.make_model(
        made,
        producer_name="rankwise",
        opset_imports=[onnx.helper.make_opsetid(*opset) for opset in opsets.items()],
        ir_version=IR_VERSION,
    )
    onnx.helper.set_model_props(model, properties)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _session(made: bytes) -> Any:
    """A file in onnxruntime."""
    runtime = require_onnx("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors only
    return runtime.InferenceSession(made, options, providers=["CPUExecutionProvider"])


# Tables with two sides ----------------------------------------------------------------------------


def _table_export(ranker: Any, precision: str, rows: Any) -> Export:
    """A graph of a `TwoSidedRankRLS`, in the smallest form that keeps the order of cells."""
    rng = np.random.default_rng(0)
    given = rows if rows is not None else [side.drawn(DRAWN, rng) for side in ranker.sides_]
    ours = ranker.predict(*given)
    n, m = ours.shape
    qid = {
        "columns": np.repeat(np.arange(n), m),
        "rows": np.tile(np.arange(m), n),
        "all": None,
    }[ranker.compare]
    words = f"{n} rows and {m} columns {'drawn' if rows is None else 'given'}"
    cells = CheckRows(np.empty((n * m, 0)), qid, words, rows is not None, {})
    arrays = [
        X
        for side, one in zip(ranker.sides_, given, strict=True)
        for X in (one if len(side.views) > 1 else [one])
    ]

    def checked(made: bytes, precision: str) -> ExportCheck:
        session = _session(made)
        given = zip(session.get_inputs(), arrays, strict=True)
        inputs = {one.name: np.asarray(X, dtype=precision) for one, X in given}
        theirs = session.run(None, inputs)[0].reshape(-1, 1).astype(np.float64)
        return compare_scores(
            ours.reshape(-1, 1), theirs, cells, target="onnx", precision=precision
        )

    forms = [form for form in FORMS if precision in ("auto", form[0])]
    _, made, check = _smallest(forms, lambda *form: _table_file(ranker, *form), checked)
    refuse_unless_passed(check, 'Use precision="float64", or scale the features.')
    return Export("onnx", made, check)


def _table_file(ranker: Any, precision: str, arithmetic: str) -> bytes:
    """The inputs of both sides, their features or kernel values, and the products of these."""
    graph, kind, inputs, sides = Graph(np.dtype(arithmetic)), KINDS[precision], [], []
    for name, side in zip(("rows", "columns"), ranker.sides_, strict=True):
        parts = []
        for k, view in enumerate(side.views):
            given = f"{name}_{k}" if k else name
            inputs.append((given, kind, [name, view.n_features]))
            x = graph.input(given)
            x = x if arithmetic == precision else x.cast(KINDS[arithmetic])
            if view.deviation is not None:
                x = x.affine(view.mean, 1.0 / view.deviation)
            if view.constant:
                x = x.apply("Concat", x.zeros(1) + 1.0, axis=1)
            if not side.linear:
                points = None if view.points is None else dense(view.points)
                x = kernel_values(view.kernel, x, points) * float(side.weights[k])
            parts.append(x)
        total = parts[0]
        for part in parts[1:]:
            total = total.apply("Add", part)
        sides.append(total)
    scores = sides[0] @ ranker.coef_ @ sides[1].apply("Transpose", perm=[1, 0])
    if arithmetic != precision:
        scores = scores.cast(kind)
    properties = {"rankwise": version("rankwise"), "rows": "any rows and columns"}
    return _file(graph, inputs, {"score": scores}, ["rows", "columns"], kind, properties)


# For skl2onnx, which asks an estimator that it does not know for three functions. The arithmetic is
# float64, whatever the input is.


def parser(model: Any) -> Callable[..., list[str]]:
    """The names of the outputs: variable, or score and, for Gaussian processes, std."""

    def names(scope: Any = None, inputs: Any = None) -> list[str]:
        if not hasattr(model, "predict"):
            return ["variable"]
        return [*_stages(model)[-1].names]

    return names


def shape_calculator(model: Any) -> Callable[[Any], None]:
    """Sets the types of outputs to the input's type, and their shapes to (rows, columns).

    Outputs for whole numbers are float64, as float32 cannot tell large ones apart.
    """

    def calculate(operator: Any) -> None:
        source = operator.inputs[0].type
        stages = _stages(model)
        n_columns = width(stages, source.shape[1])
        for output in operator.outputs:
            if _precision(source) is None:
                output.type = require_onnx("skl2onnx.common.data_types").DoubleTensorType()
            output.type.shape = [source.shape[0], n_columns]

    return calculate


def converter(model: Any) -> Callable[[Any, Any, Any], None]:
    """Adds the operators of the model to a graph of skl2onnx."""

    def convert(scope: Any, operator: Any, container: Any) -> None:
        if container.target_opset < OPSET:
            raise ExportError(
                f"{type(model).__name__} needs operators of ONNX {OPSET}: use target_opset={OPSET} "
                f"or a larger one (got {container.target_opset})."
            )
        precision = _precision(operator.outputs[0].type) or "float32"
        graph, stages = Graph(np.float64), _stages(model)
        x = graph.input("X")
        if _precision(operator.inputs[0].type) is None:  # whole numbers
            x = x.cast(KINDS["float64"])
        if hasattr(model, "predict"):
            made = append_scores(stages, x, precision, flat=False)
        else:
            found = emit_all(stages, x.cast(KINDS["float64"]))
            made = {"variable": found.cast(KINDS[precision])}
        if graph.has_ml:
            raise ExportError(
                f"skl2onnx does not know the operators for the trees of {type(model).__name__}: "
                "use rankwise.export.to_onnx."
            )
        kind, shape = KINDS[precision], ["rows", "columns"]
        file = _file(graph, [("X", kind, shape)], made, shape, kind, {})
        helpers = require_onnx("skl2onnx.helpers")
        helpers.add_onnx_graph(scope, operator, container, require_onnx().load_from_string(file))

    return convert


def _stages(model: Any) -> list[Any]:
    check_is_fitted(model)
    if hasattr(model, "predict"):
        return score_stages(model)
    return transformer_stages(model, model.n_features_in_)


def _precision(kind: Any) -> str | None:
    """The precision of a type of skl2onnx; None if it is not a float."""
    types = require_onnx("skl2onnx.common.data_types")
    if isinstance(kind, types.DoubleTensorType):
        return "float64"
    return "float32" if isinstance(kind, types.FloatTensorType) else None
