"""The RNN, GRU and LSTM nodes of an ONNX model as layers of unspool.nn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from torch import nn

from unspool.errors import DataError
from unspool.exchange.gates import Parameters, gru_parameters, lstm_parameters, make_layer, rnn_parameters
from unspool.exchange.imported import ImportedModel, Part, chained
from unspool.exchange.limits import check_file, check_numbers
from unspool.exchange.onnx_starts import Starts, read_array

Array = NDArray[Any]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
#: Activations of RNN that Elman's network has.
ELMAN = {"tanh": "tanh", "relu": "relu", "sigmoid": "sigmoid"}


def from_onnx(path: str | Path) -> ImportedModel:
    """Read the recurrent nodes of an ONNX model; everything else in it is left out.

    Args:
        path: A `.onnx` file, whose weights are inside. Both conventions of GRU (`linear_before_reset`), both directions
            and nodes without biases are read; peepholes, clipping and other activations are refused. Initial states
            that are data become `learn_initial`; states and lengths that are inputs are noted, to be given in a call.

    Returns:
        The layers by the names of their nodes.

    Raises:
        DataError: The file is not ONNX, or a node has no counterpart; the message names it.
        MissingPackageError: onnx is not installed.

    Example:
        layer = unspool.exchange.from_onnx("model.onnx").recurrent[0]
        output, state = layer(torch.randn(2, 10, 64))  # (batch, time, input_size)
    """
    path = Path(path)
    graph = read_model(path).graph
    tensors = constants(graph)
    _check_weights(graph, tensors, path)
    notes: list[str] = []
    starts = Starts(graph, tensors, notes)
    try:
        parts = [Part(node.name or node.output[0], _layer(node, tensors, starts)) for node in recurrent_nodes(graph)]
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} has a recurrent node that cannot be read: {error}. Save it again.") from error
    if not parts:
        raise DataError(f"{path} has no RNN, GRU or LSTM node. Give a model with recurrent layers.")
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        parts = [Part(f"{place}_{part.name}", part.module) for place, part in enumerate(parts)]
    others = sorted({node.op_type for node in graph.node} - {*GATES, "Constant", "Identity"})
    notes += [f"other nodes were left out: {', '.join(others)}"] if others else []
    return ImportedModel("onnx", chained(parts), notes, chain=len(parts) == 1)


def read_model(path: Path) -> onnx.ModelProto:
    """An ONNX model whose weights are inside the file."""
    size = check_file(path, ".onnx")
    if size >= 2**31:
        raise DataError(f"{path} cannot be read: ONNX files have less than 2 GB.")
    try:
        model = onnx.load(path, load_external_data=False)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf, onnx's C++ and its checker each raise their own kinds
        said = str(error).partition("\n")[0].removesuffix(".")
        raise DataError(f"{path} cannot be read as ONNX: {said}. Save it again.") from error
    return model


def recurrent_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The recurrent nodes, from the lowest up."""
    return [node for node in graph.node if node.op_type in GATES]


def constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Every tensor that the graph has as data."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
    return found


def _check_weights(graph: onnx.GraphProto, tensors: dict[str, onnx.TensorProto], path: Path) -> None:
    """Every node has a copy of its weights, which many nodes of a small file may name."""
    named = [name for node in recurrent_nodes(graph) for name in node.input[1:4] if name in tensors]
    check_numbers(sum(math.prod(tensors[name].dims) for name in named), path, path.stat().st_size)


def _layer(node: onnx.NodeProto, tensors: dict[str, onnx.TensorProto], starts: Starts) -> nn.Module:
    options = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    direction = options.get("direction", b"forward").decode()
    if direction not in ("forward", "reverse", "bidirectional"):
        raise DataError(f"node {node.name!r} has the direction {direction!r}, which is none.")
    count = 2 if direction == "bidirectional" else 1
    cell = _check_options(node, options, count)
    W, R, B = _weights(node, tensors, count)
    sides = [_direction(node.op_type, cell, W[side], R[side], None if B is None else B[side]) for side in range(count)]
    initial = starts.of(node, count, sides[0])
    return make_layer(cell, sides, reverse=direction == "reverse", initial=initial)


def _check_options(node: onnx.NodeProto, options: dict[str, Any], count: int) -> str:
    """The cell that a node is."""
    given = [one.decode().lower() for one in options.get("activations", [])]
    usual = [one.lower() for one in DEFAULTS[node.op_type]]
    each = [given[place : place + len(usual)] for place in range(0, len(given), len(usual))] or [usual]
    for name in ("clip", "activation_alpha", "activation_beta", "input_forget"):
        if options.get(name):
            raise DataError(f"node {node.name!r} has `{name}`, which our cells do not have.")
    if len(node.input) > 7 and node.input[7]:
        raise DataError(f"node {node.name!r} has peepholes, which our LSTM does not have.")
    if any(one != each[0] for one in each) or (given and len(each) != count):
        raise DataError(f"node {node.name!r} has different activations in its directions: {given}.")
    if node.op_type == "RNN" and each[0][0] in ELMAN:
        return ELMAN[each[0][0]]
    if node.op_type == "RNN" or each[0] != usual:
        raise DataError(f"node {node.name!r} has the activations {each[0]}, not {usual}.")
    return "lstm" if node.op_type == "LSTM" else "gru-reset-after" if options.get("linear_before_reset") else "gru"


def _weights(
    node: onnx.NodeProto, tensors: dict[str, onnx.TensorProto], count: int
) -> tuple[Array, Array, Array | None]:
    """W, R and B of all directions, of shapes that fit each other."""
    names = [*node.input, "", "", ""]
    found: list[Array | None] = []
    for name in names[1:4]:
        if name and name not in tensors:
            raise DataError(f"node {node.name!r} computes its weights {name!r}. Save a model that has them as data.")
        found.append(read_array(node, tensors[name]) if name else None)
    W, R, B = found
    assert W is not None
    assert R is not None  # the checker wants both
    hidden = R.shape[-1]
    rows = GATES[node.op_type] * hidden
    fits = W.ndim == 3 and W.shape[:2] == (count, rows) and R.shape == (count, rows, hidden)
    if not fits or (B is not None and B.shape != (count, 2 * rows)):
        raise DataError(f"node {node.name!r} has weights of shapes {W.shape} and {R.shape}, which do not fit.")
    return W, R, B


def _direction(kind: str, cell: str, W: Array, R: Array, B: Array | None) -> Parameters:
    first, second = (None, None) if B is None else np.split(B, 2)
    if kind == "GRU":
        return gru_parameters(W, R, first, second, "zrn", cell == "gru-reset-after")
    total = None if first is None else first + second
    return rnn_parameters(W, R, total) if kind == "RNN" else lstm_parameters(W, R, total, "iofg")
