"""What a recurrent node of ONNX starts from, and how long its sequences are: taken over, noted, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from unspool.errors import DataError
from unspool.exchange.gates import Parameters

Array = NDArray[Any]
#: Inputs of a node: its lengths, and its initial states with their letters.
LENGTHS, STATES = 4, {5: "h", 6: "c"}
#: Operators that give numbers of what they read first, in other shapes; and those that join what they read.
SHAPING = ("Identity", "Expand", "Tile", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Transpose", "Cast", "Gather")
JOINING = ("Concat",)
#: How far back the origin of a state is looked for.
FARTHEST = 64


class Starts:
    """The initial states of the recurrent nodes of a graph.

    Args:
        graph: The graph.
        tensors: What it has as data.
        notes: Where inputs of the graph that a layer is given in a call are noted.
    """

    def __init__(self, graph: onnx.GraphProto, tensors: Mapping[str, onnx.TensorProto], notes: list[str]) -> None:
        self._tensors, self._notes = tensors, notes
        self._makers = {name: node for node in graph.node for name in node.output}
        self._inputs = {one.name for one in graph.input}

    def of(self, node: onnx.NodeProto, count: int, parameters: Parameters) -> list[Parameters] | None:
        """The initial states of each direction by their names in a layer; None where they are zeros."""
        title = node.name or node.output[0]
        given = dict(enumerate(node.input))
        if given.get(LENGTHS):
            self._notes.append(f"{title} reads lengths: give `lengths` in a call")
        hidden = next(len(value) for name, value in parameters.items() if name.startswith("W_"))
        found = {letter: self._state(node, given.get(place, ""), (count, hidden)) for place, letter in STATES.items()}
        if not any(value is not None for value in found.values()):
            return None
        letters = ("h", "c") if node.op_type == "LSTM" else ("h",)
        zeros = np.zeros((count, hidden), np.float32)
        full = {letter: zeros if (value := found[letter]) is None else value for letter in letters}
        return [{f"initial_{letter}": value[side] for letter, value in full.items()} for side in range(count)]

    def _state(self, node: onnx.NodeProto, name: str, shape: tuple[int, int]) -> Array | None:
        """One state (directions, units) that all sequences start from; None for zeros, and for what a call gives."""
        if not name or self._is_zero(name):
            return None
        title = node.name or node.output[0]
        if self._is_input(name):
            self._notes.append(f"{title} starts from the input {name!r}: give it as the state in a call")
            return None
        if name not in self._tensors:
            remedy = "Save the model with states that are data, zeros or inputs"
            raise DataError(f"node {title!r} computes its initial state {name!r}. {remedy}.")
        return _of_all_sequences(node, read_array(node, self._tensors[name]), shape)

    def _is_zero(self, name: str, farthest: int = FARTHEST) -> bool:
        """Whether a value is zeros, whatever its shape."""
        if name in self._tensors:
            return not np.any(numpy_helper.to_array(self._tensors[name]))
        maker = self._makers.get(name)
        if maker is None or not farthest:
            return False
        if maker.op_type == "ConstantOfShape":
            return all(not np.any(numpy_helper.to_array(helper.get_attribute_value(one))) for one in maker.attribute)
        return bool(self._origins(maker)) and all(self._is_zero(one, farthest - 1) for one in self._origins(maker))

    def _is_input(self, name: str, farthest: int = FARTHEST) -> bool:
        """Whether a value is an input of the graph, in whatever shape."""
        if name in self._inputs or not farthest:
            return name in self._inputs and name not in self._tensors
        maker = self._makers.get(name)
        origins = [] if maker is None else self._origins(maker)
        return bool(origins) and all(self._is_input(one, farthest - 1) for one in origins)

    def _origins(self, maker: onnx.NodeProto) -> list[str]:
        if maker.op_type in JOINING:
            return list(maker.input)
        return list(maker.input[:1]) if maker.op_type in SHAPING else []


def _of_all_sequences(node: onnx.NodeProto, given: Array, shape: tuple[int, int]) -> Array:
    """What every sequence of a batch starts from, of (directions, batch, units)."""
    title = node.name or node.output[0]
    layout = next((one.i for one in node.attribute if one.name == "layout"), 0)
    by_direction = given.swapaxes(0, 1) if layout and given.ndim == 3 else given
    if by_direction.ndim != 3 or (by_direction.shape[0], by_direction.shape[2]) != shape or not by_direction.shape[1]:
        raise DataError(f"node {title!r} has an initial state of shape {given.shape}, which does not fit its weights.")
    if (by_direction != by_direction[:, :1]).any():
        remedy = "Save the model with one state for all, or with states that are inputs"
        raise DataError(f"node {title!r} starts each sequence of a batch from another state. {remedy}.")
    return np.asarray(by_direction[:, 0])


def read_array(node: onnx.NodeProto, tensor: onnx.TensorProto) -> Array:
    """A tensor of real numbers, in float32."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise DataError(f"node {node.name!r} has weights in another file. Save the model as one file.")
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise DataError(f"node {node.name!r} has weights that cannot be read: {error}.") from error
    if array.dtype.kind != "f":
        raise DataError(f"node {node.name!r} has weights of type {array.dtype}, not of real numbers.")
    return np.asarray(array, np.float32)
