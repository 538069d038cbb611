"""Rankers and transformers as steps of ``skl2onnx.to_onnx``.

skl2onnx asks an estimator that it does not know for three functions; `Skl2onnxMixin` gets them from
here. The arithmetic is float64, whatever the input is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.errors import ExportError
from rankwise.export._endings import ProcessScores
from rankwise.export._graph import OPSET, Graph, require_onnx
from rankwise.export._model_stages import score_stages, transformer_stages
from rankwise.export._stages import emit_all
from rankwise.export.onnx_export import append_scores, n_outputs


def parser(model: Any) -> Callable[..., list[str]]:
    """The names of the outputs: variable, or score and, for Gaussian processes, std."""

    def names(scope: Any = None, inputs: Any = None) -> list[str]:
        if not hasattr(model, "predict"):
            return ["variable"]
        ending = _stages(model)[-1]
        return ["score", "std"] if isinstance(ending, ProcessScores) else ["score"]

    return names


def shape_calculator(model: Any) -> Callable[[Any], None]:
    """Sets the types of outputs to the input's type, and their shapes to (rows, columns).

    Outputs for whole numbers are float64, as float32 cannot tell large ones apart.
    """

    def calculate(operator: Any) -> None:
        source = operator.inputs[0].type
        stages = _stages(model)
        n_columns = n_outputs(stages[-1]) if hasattr(model, "predict") else source.shape[1]
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
        precision = _precision(operator.outputs[0].type)
        graph = Graph(np.float64)
        given = operator.inputs[0]
        x = given.full_name
        if _precision(given.type) is None:  # whole numbers
            x = graph.add("Cast", x, to=require_onnx().TensorProto.DOUBLE)
        stages = _stages(model)
        if hasattr(model, "predict"):
            made = append_scores(graph, stages, x, precision or "float32", flat=False)
        else:
            x = graph.add("Cast", x, to=require_onnx().TensorProto.DOUBLE)
            kind = require_onnx().helper.np_dtype_to_tensor_dtype(np.dtype(precision or "float32"))
            made = {"variable": graph.add("Cast", emit_all(graph, stages, x), to=kind)}
        if graph.has_ml:
            raise ExportError(
                f"skl2onnx does not know the operators for the trees of {type(model).__name__}: "
                "use rankwise.export.to_onnx."
            )
        names = _append(graph, type(model).__name__, scope, container)
        for output, value in zip(operator.outputs, made.values(), strict=True):
            container.add_node(
                "Identity",
                [names.get(value, value)],
                [output.full_name],
                op_version=OPSET,
                name=scope.get_unique_operator_name("Identity"),
            )

    return convert


def _append(graph: Graph, prefix: str, scope: Any, container: Any) -> dict[str, str]:
    """Add constants and operators under names that are free; returns these by our names."""
    helper, names = require_onnx().helper, {}
    for name, array in graph.constants.items():
        names[name] = scope.get_unique_variable_name(f"{prefix}_{name}")
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        container.add_initializer(names[name], kind, array.shape, array.ravel())
    for node in graph.nodes:
        for name in node.outputs:
            names[name] = scope.get_unique_variable_name(f"{prefix}_{name}")
        container.add_node(
            node.op,
            [names.get(name, name) for name in node.inputs],
            [names[name] for name in node.outputs],
            op_version=OPSET,
            name=scope.get_unique_operator_name(node.op),
            **node.attributes,
        )
    return names


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
