"""The drop-ins as ONNX's own operators RNN, GRU and LSTM, for torch.onnx.export(dynamo=True).

That exporter would unroll torch.nn's layers into as many steps as its example has. These operators take any number.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.errors import ArgumentError
from unspool.nn.layout import Tensors

#: torch.nn's mode → the operator, the order of its gates by their places in torch.nn's, and its attributes.
OPERATORS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "RNN_TANH": ("RNN", (0,), {"activations": ["Tanh"]}),
    "RNN_RELU": ("RNN", (0,), {"activations": ["Relu"]}),
    "GRU": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "LSTM": ("LSTM", (0, 3, 1, 2), {}),
}


def export_layers(
    layer: nn.RNNBase, weights: Tensors, x: Tensor, states: tuple[Tensor, ...] | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """All layers of a drop-in, one operator each.

    Args:
        layer: the drop-in.
        weights: its weights, in the order of torch.nn's list of all weights.
        x: (time, batch, input_size).
        states: the initial states, (layers · directions, batch, width) each; None for zeros.

    Returns:
        The output (time, batch, width) and the final states.
    """
    if layer.proj_size:
        raise ArgumentError.of("proj_size", layer.proj_size, "is no part of ONNX's LSTM", "Use a layer without it")
    directions = 2 if layer.bidirectional else 1
    count = directions * len(layer._all_weights[0])
    finals = []
    for place in range(layer.num_layers):
        if place and layer.dropout:
            x = functional.dropout(x, layer.dropout, layer.training)
        start = [part[place * directions : (place + 1) * directions] for part in states or ()]
        x, *final = _export_one(layer, weights[place * count : (place + 1) * count], x, start)
        finals.append(final)
    return x, tuple(torch.cat(parts) for parts in zip(*finals, strict=True))


def _export_one(layer: nn.RNNBase, weights: Tensors, x: Tensor, start: list[Tensor]) -> list[Tensor]:
    """One layer in its directions: output and final states."""
    name, order, attributes = OPERATORS[layer.mode]
    directions = 2 if layer.bidirectional else 1
    attributes = {key: value * directions if isinstance(value, list) else value for key, value in attributes.items()}
    attributes["direction"] = "bidirectional" if layer.bidirectional else "forward"
    attributes["hidden_size"] = layer.hidden_size
    steps, rows, _ = x.shape
    state = (directions, rows, layer.hidden_size)
    shapes = [(steps, *state), *([state] * (2 if name == "LSTM" else 1))]
    given = (x, *_onnx_weights(weights, directions, order), None, *start)
    dtypes = [x.dtype] * len(shapes)
    output, *final = torch.onnx.ops.symbolic_multi_out(name, given, attributes, dtypes=dtypes, shapes=shapes)
    return [output.transpose(1, 2).reshape(steps, rows, directions * layer.hidden_size), *final]


def _onnx_weights(weights: Tensors, directions: int, order: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor | None]:
    """W, R and, if there are biases, B as ONNX's operators take them: directions first, their gates in ONNX's order."""
    count = len(weights) // directions
    each = [torch.stack([_in_order(weight, order) for weight in weights[place::count]]) for place in range(count)]
    return each[0], each[1], torch.cat(each[2:], 1) if each[2:] else None


def _in_order(weight: Tensor, order: tuple[int, ...]) -> Tensor:
    """The gates' blocks in another order."""
    blocks = weight.chunk(len(order))
    return torch.cat([blocks[place] for place in order])
