"""GraphBuilder: an ONNX graph that grows by one operation per call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

#: The version of the operators, which ONNX Runtime has since 1.12; and that of the file format which goes with it.
OPSET, IR_VERSION = 17, 8

FLOAT, INTEGER = TensorProto.FLOAT, TensorProto.INT64
#: A side of a shape: a number, or the name of one that varies from call to call.
Side = int | str


class GraphBuilder:
    """Collects the nodes, weights, inputs and outputs of a graph; every value is known by its name.

    Args:
        outer: The graph whose values and weights this one sees, of the body of a loop; None for the graph of a model.

    Example:
        >>> graph = GraphBuilder()
        >>> x = graph.input("x", FLOAT, ("batch", 3))
        >>> graph.output("y", graph.add("Tanh", x), FLOAT, ("batch", 3))
    """

    def __init__(self, outer: GraphBuilder | None = None) -> None:
        self._outer = outer
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}
        self._known: dict[tuple[object, ...], str] = {}
        self._taken: set[str] = set() if outer is None else outer._taken

    def input(self, name: str, kind: int, shape: Sequence[Side]) -> str:
        """A further input; returns its name."""
        name = self._free(name)
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, kind: int, shape: Sequence[Side]) -> None:
        """A further output that is `value`."""
        name = self._free(name)
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"{name}_out"))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """A further node with one output, whose name is returned."""
        return self.add_many(operation, inputs, 1, **attributes)[0]

    def add_many(self, operation: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """A further node with several outputs, whose names are returned. An empty input is one that is left out."""
        outputs = [self._free(operation.lower()) for _ in range(count)]
        self.nodes.append(helper.make_node(operation, list(inputs), outputs, name=f"{outputs[0]}_node", **attributes))
        return outputs

    def floats(self, values: Any, name: str = "number") -> str:
        """A constant in float32; equal ones are one. Arrays are of any shape, numbers are scalars."""
        return self._constant(np.asarray(values, np.float32), name)

    def integers(self, values: Any, name: str = "whole") -> str:
        """A constant of 64-bit whole numbers."""
        return self._constant(np.asarray(values, np.int64), name)

    def body(self) -> GraphBuilder:
        """The graph of a loop's body, which sees what this graph has."""
        return GraphBuilder(self)

    def graph(self, name: str) -> onnx.GraphProto:
        """All that was added."""
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs, list(self._weights.values()))

    def model(self, name: str, metadata: Mapping[str, str]) -> onnx.ModelProto:
        """The graph as a model that says its operators' version, who wrote it, and `metadata`."""
        model = helper.make_model(
            self.graph(name),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="unspool",
            producer_version=metadata.get("version", ""),
        )
        helper.set_model_props(model, dict(metadata))
        return model

    def _constant(self, array: Array, name: str) -> str:
        if self._outer is not None:  # weights are those of the model: a loop reads them from outside
            return self._outer._constant(array, name)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            made = self._known[key] = self._free(name)
            self._weights[made] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), made)
        return self._known[key]

    def _free(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name
