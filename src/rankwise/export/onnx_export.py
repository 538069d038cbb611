"""Models as ONNX graphs of plain operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import ExportError
from rankwise.export._endings import ProcessScores, TreeScores, is_within_queries
from rankwise.export._graph import KINDS, Graph, Value, onnx_model, require_onnx
from rankwise.export._model_stages import ModelStages, read_stages
from rankwise.export._stages import emit_all, emit_numbers
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
from rankwise.export.linear_model import feature_names
from rankwise.parameters import Choice, check_value

WANTED = 1e-5  # the relative difference above which float32 is not good enough, where we choose
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
    both.

    If the model scales features within queries, or is a mean of rankers that standardizes scores
    within queries, the graph takes the rows of one query at a time. Splitting a query over two
    calls changes its scores, without an error.

    Parameters
    ----------
    model : estimator
        A fitted ranker, or a pipeline or search with one. All least-squares rankers, RankSVM,
        PairwiseGP, BoostedRanker, and MeanRanker and AutoRanker of these work, with all kernels but
        functions and precomputed ones.
    precision : {"auto", "float32", "float64"}, default="auto"
        Of the input and the output. "auto": float32 if no difference of two scores of a query is
        off by more than 1e-5 of the range of the scores, float64 otherwise; the type of the input
        in the file shows which. Without `rows`, float32 also needs features that are known to lie
        within -2**24 and 2**24, where it represents all whole numbers; "float32" is refused
        otherwise. Where float32 arithmetic would lose digits, a graph with float32 input computes
        in float64.
    features : sequence of str, optional
        Names of the features, for the metadata of the file. None: the names that the model knows.
    rows : array-like or data frame of shape (n_rows, n_features), optional
        Rows on which the export is checked, in the precision in which you have them. None: drawn
        from the range of the training rows.
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
    stages = read_stages(model)
    names = feature_names(stages, features)
    given = check_rows(stages, names, rows, qid)
    if precision == "float32":
        refuse_in_doubt(given, "A graph with precision='float32'")
    ours, ending = given.scores(model, stages.names), stages.stages[-1]
    deviations = None
    if isinstance(ending, ProcessScores):
        deviations = given.deviations(model, stages.names)
    forms = [form for form in FORMS if precision in ("auto", form[0])]
    forms = [form for form in forms if ending.in_float32 or form[1] == "float64"]
    if precision == "auto" and given.doubt is not None:
        forms = forms[-1:]
    for form in forms:
        try:
            made = _made(stages, names, *form)
        except ExportError:  # a number of the model overflows float32
            if form == forms[-1]:
                raise
            continue
        check = _checked(made, given, ours, deviations, form[0])
        if check.passed and check.relative_difference <= WANTED:
            break
    way_out = "Scale the features when you fit the model."
    if form[0] == "float32":
        way_out = (
            'Use precision="float64" (--float64), or subtract a constant from features that are '
            "far from 0 before you fit the model. If features are float32 where the graph is used, "
            "check it on such rows."
        )
    refuse_unless_passed(check, way_out)
    return Export("onnx", made, check).with_notes(*_notes(stages, given, precision, *form))


def _notes(
    stages: ModelStages, rows: CheckRows, wanted: str, precision: str, arithmetic: str
) -> tuple[str, ...]:
    """What a user of the graph should know."""
    notes = []
    if wanted == "auto" and precision == "float64":
        why = rows.doubt or "In float32, rows could not be told apart."
        notes.append(f"Input and scores are float64. {why}")
    if arithmetic != precision:
        notes.append(f"The graph computes in {arithmetic}.")
    if is_within_queries(stages.stages):
        notes.append(
            "A call takes all rows of one query: a query that is split over two calls gets other "
            "scores, without an error."
        )
    return tuple(notes)


def append_scores(
    graph: Graph, stages: Sequence[Any], x: Value, precision: str, *, flat: bool
) -> dict[str, Value]:
    """Append all stages; the outputs are in the precision of the input.

    `flat` scores have no axis for outputs if there is one output.
    """
    arithmetic = np.dtype(graph.dtype).name
    if arithmetic != precision:
        x = graph.add("Cast", x, to=KINDS[arithmetic])
    *before, ending = stages
    x = emit_all(graph, before, x)
    if isinstance(ending, ProcessScores):
        found = dict(zip(("score", "std"), ending.emit_with_std(graph, x), strict=True))
    else:
        found = {"score": ending.emit(graph, x)}
    for name, value in found.items():
        if arithmetic != precision:
            value = graph.add("Cast", value, to=KINDS[precision])
        if flat and n_outputs(ending) == 1:
            value = graph.add("Reshape", value, np.array([-1]))
        found[name] = value
    return found


def n_outputs(ending: Any) -> int:
    """The number of scores of a row."""
    if isinstance(ending, ProcessScores | TreeScores):
        return 1
    if hasattr(ending, "parts"):
        return n_outputs(ending.parts[0][-1])
    return int(ending.weights.shape[1])


def _made(stages: ModelStages, names: tuple[str, ...], precision: str, arithmetic: str) -> bytes:
    graph, texts = Graph(np.dtype(arithmetic)), stages.texts
    x = emit_numbers(graph, texts, stages.n_features, KINDS[precision])
    outputs = append_scores(graph, stages.stages, x, precision, flat=True)
    within = is_within_queries(stages.stages)
    numbers = [name for k, name in enumerate(names) if k not in texts]
    properties = {
        "features": json.dumps(numbers, ensure_ascii=False),
        "rankwise": version("rankwise"),
        "rows": "all rows of one query" if within else "any rows",
    }
    if texts:
        properties["text"] = json.dumps([names[k] for k in texts], ensure_ascii=False)
    model = onnx_model(
        graph,
        outputs,
        n_numbers=len(numbers),
        n_texts=len(texts),
        n_outputs=n_outputs(stages.stages[-1]),
        dtype=precision,
        properties=properties,
    )
    return bytes(model.SerializeToString())


def _checked(
    made: bytes, rows: CheckRows, ours: Array, deviations: Array | None, precision: str
) -> ExportCheck:
    """Score rows with onnxruntime."""
    runtime = require_onnx("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors only
    session = runtime.InferenceSession(made, options, providers=["CPUExecutionProvider"])

    wanted = [given.name for given in session.get_inputs()]

    def score(X: Array) -> Array:
        with np.errstate(over="ignore"):  # the check finds what is not finite
            inputs = {"X": np.delete(X, list(rows.texts), axis=1).astype(precision)}
        if rows.texts:
            inputs["text"] = np.column_stack([t.worded(X[:, k]) for k, t in rows.texts.items()])
        found = session.run(None, {name: inputs[name] for name in wanted})
        return np.column_stack([part.reshape(len(X), -1) for part in found]).astype(np.float64)

    theirs = rows.by_query(score)
    n = ours.shape[1]
    return compare_scores(
        ours,
        theirs[:, :n],
        rows,
        target="onnx",
        precision=precision,
        deviations=None if deviations is None else (deviations, theirs[:, n:]),
    )
