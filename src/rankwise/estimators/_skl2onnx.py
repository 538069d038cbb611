"""What skl2onnx asks of an estimator that it does not know."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# By name, and imported when skl2onnx asks: rankers do not depend on what is made of them.
CONVERTER = "rankwise.export.skl2onnx_converter"


class Skl2onnxMixin:
    """Lets ``skl2onnx.to_onnx`` convert an estimator, alone or in a pipeline."""

    def onnx_parser(self) -> Any:
        """For skl2onnx: a function that names the outputs."""
        return import_module(CONVERTER).parser(self)

    def onnx_shape_calculator(self) -> Any:
        """For skl2onnx: a function that sets the types and shapes of the outputs."""
        return import_module(CONVERTER).shape_calculator(self)

    def onnx_converter(self) -> Any:
        """For skl2onnx: a function that adds the operators."""
        return import_module(CONVERTER).converter(self)
