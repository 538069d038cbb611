"""A list of ONNX operators, which becomes a model at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import ExportError, MissingExtraError

OPSET = 18  # from which on all reductions take their axes as an input
ML, ML_OPSET = "ai.onnx.ml", 5  # trees with float64 outputs, and texts
KINDS = {"float32": 1, "float64": 11}  # numbers of ONNX
IR_VERSION = 8  # the oldest with this operator set
LARGEST = 2**31 - 2**20  # bytes of a protobuf message

Value = str
"""The name of a value in a graph."""


@dataclass(frozen=True)
class Node:
    """An operator with the names of its inputs and outputs."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    domain: str = ""


@dataclass
class Graph:
    """Operators in the order of evaluation, and constants in the precision of the arithmetic."""

    dtype: Any
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def add(self, op: str, *inputs: Any, domain: str = "", **attributes: Any) -> Value:
        """Append an operator with one output; numbers and arrays become constants."""
        names = tuple(x if isinstance(x, str) else self.constant(x) for x in inputs)
        output = f"v{len(self.nodes)}"
        self.nodes.append(Node(op, names, (output,), attributes, domain))
        return output

    def constant(self, value: Any) -> Value:
        """A constant: floats in the precision of the arithmetic, whole numbers as int64."""
        array = np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else self.dtype)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ExportError(
                f"A number of the model overflows {np.dtype(self.dtype)}: use float64."
            )
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def sum(self, x: Value, axis: int) -> Value:
        """Sums over an axis, which is kept."""
        return self.add("ReduceSum", x, np.array([axis]), keepdims=1)

    def affine(self, x: Value, centre: Array, factor: Array) -> Value:
        """(x - centre) factor, with a difference that is exact for values close to the centre.

        The centre is rounded to the precision of the arithmetic, and what that leaves out is
        subtracted from the result, which is small.
        """
        with np.errstate(over="ignore"):  # `constant` checks
            rounded = np.asarray(centre).astype(self.dtype).astype(np.float64)
        if rounded.any():
            x = self.add("Sub", x, rounded)
        if (factor != 1.0).any():
            x = self.add("Mul", x, factor)
        rest = (centre - rounded) * factor
        return self.add("Sub", x, rest) if rest.any() else x

    def tensor(self, values: Any) -> Any:
        """An attribute that is a tensor: floats in the precision of the arithmetic."""
        array = np.asarray(values)
        return require_onnx().numpy_helper.from_array(
            array.astype(self.dtype) if array.dtype.kind == "f" else array
        )

    @property
    def kind(self) -> int:
        """The number of its arithmetic in ONNX."""
        return KINDS[np.dtype(self.dtype).name]

    @property
    def has_ml(self) -> bool:
        """Whether there are operators for trees or texts."""
        return any(node.domain == ML for node in self.nodes)

    def zeros(self, x: Value, n_columns: int) -> Value:
        """Zeros in as many rows as x has."""
        first = self.add("Gather", x, np.array([0]), axis=1)
        nothing = self.add("MatMul", self.add("Mul", first, 0.0), np.zeros((1, n_columns)))
        return nothing

    def distances(self, x: Value, points: Array, *, squared: bool) -> Value:
        """Sums over features of |x - p| or (x - p)^2, from differences, one feature at a time."""
        onnx = require_onnx()
        n_points, kind = len(points), onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        last = make("Mul", ["gap", "gap"], ["part"]) if squared else make("Abs", ["gap"], ["part"])
        body = onnx.helper.make_graph(
            [
                make("Unsqueeze", ["x", "one"], ["column"]),
                make("Sub", ["column", "p"], ["gap"]),
                last,
                make("Add", ["total", "part"], ["next"]),
            ],
            "distances",
            [
                info("total", kind, [None, n_points]),
                info("x", kind, [None]),
                info("p", kind, [n_points]),
            ],
            [info("next", kind, [None, n_points])],
            [onnx.numpy_helper.from_array(np.array([1]), "one")],
        )
        columns = self.add("Transpose", x, perm=[1, 0])
        start = self.zeros(x, n_points)
        return self.add("Scan", start, columns, points.T, body=body, num_scan_inputs=2)

    @property
    def n_bytes(self) -> int:
        """Memory of all constants."""
        return sum(array.nbytes for array in self.constants.values())


def onnx_model(
    graph: Graph,
    outputs: dict[str, Value],
    *,
    n_numbers: int,
    n_texts: int,
    n_outputs: int,
    dtype: Any,
    properties: Any,
) -> Any:
    """An ONNX model of a graph with the inputs X and text and these outputs, as `onnx.ModelProto`.

    Inputs without columns are left out. A value of the outputs has the shape (rows,), or (rows,
    n_outputs) for several.
    """
    onnx = require_onnx()
    if graph.n_bytes > LARGEST:
        raise ExportError(
            f"An ONNX file holds at most 2 GiB, and this model has {graph.n_bytes / 2**30:.1f} GiB "
            "of numbers. Use a ranker on landmarks, such as SparseRankRLS."
        )
    helper = onnx.helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shape = ["rows"] if n_outputs == 1 else ["rows", n_outputs]
    inputs = [("X", kind, ["rows", n_numbers])] if n_numbers else []
    if n_texts:
        inputs.append(("text", onnx.TensorProto.STRING, ["rows", n_texts]))
    nodes = [
        helper.make_node(node.op, node.inputs, node.outputs, domain=node.domain, **node.attributes)
        for node in graph.nodes
    ]
    nodes += [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
    made = helper.make_graph(
        nodes,
        "rankwise",
        [helper.make_tensor_value_info(*given) for given in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if graph.has_ml:
        opsets.append(helper.make_opsetid(ML, ML_OPSET))
    model = helper.make_model(
        made,
        producer_name="rankwise",
        opset_imports=opsets,
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, properties)
    onnx.checker.check_model(model)
    return model


def require_onnx(package: str = "onnx") -> Any:
    """The package onnx, or another one of the extra."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, "onnx") from error
