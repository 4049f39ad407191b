"""Weights of other libraries' recurrent layers as the parameters of our cells: gates, conventions and biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unspool.cells import GRU, LSTM, Cell, Elman, ResetAfterGRU
from unspool.nn import Bidirectional, Recurrent

Array = NDArray[Any]
Parameters = dict[str, Array]


def lstm_parameters(W: Array, U: Array, b: Array | None, order: str) -> Parameters:
    """Those of an LSTM from its gates' rows, which stand in this order of the letters i, f, g and o."""
    return _by_gate(W, U, b, order)


def gru_parameters(
    W: Array, U: Array, b: Array | None, recurrent_b: Array | None, order: str, reset_after: bool
) -> Parameters:
    """Those of a GRU whose z keeps the old state, from its gates' rows in this order of the letters z, r and n.

    Our GRU with the reset gate before the product lets z admit the new state: σ(−a) = 1 − σ(a).
    """
    if not reset_after:
        total = b if recurrent_b is None or b is None else b + recurrent_b
        found = _by_gate(W, U, total, order)
        return {name: -value if name.endswith("_z") else value for name, value in found.items()}
    found = _by_gate(W, U, b, order)
    found["U_hn"] = found.pop("U_n")
    if b is not None:
        beside = np.zeros_like(b) if recurrent_b is None else recurrent_b
        for gate, part in zip(order, np.split(beside, 3), strict=True):
            if gate == "n":
                found["b_hn"] = part
            else:
                found[f"b_{gate}"] = found[f"b_{gate}"] + part
    return found


def rnn_parameters(W: Array, U: Array, b: Array | None) -> Parameters:
    """Those of Elman's network."""
    return _by_gate(W, U, b, "h")


def _by_gate(W: Array, U: Array, b: Array | None, order: str) -> Parameters:
    found: Parameters = {}
    for letter, rows in (("W", W), ("U", U), *((("b", b),) if b is not None else ())):
        for gate, part in zip(order, np.split(rows, len(order)), strict=True):
            found[f"{letter}_{gate}"] = part
    return found


CELLS = {"lstm": LSTM, "gru": GRU, "gru-reset-after": ResetAfterGRU}


def make_layer(
    cell: str,
    directions: Sequence[Mapping[str, Array]],
    *,
    reverse: bool = False,
    initial: Sequence[Mapping[str, Array]] | None = None,
) -> nn.Module:
    """A recurrent layer with these parameters; with two sets of them, ahead and back, a bidirectional one.

    Args:
        cell: "lstm", "gru", "gru-reset-after", or an activation of Elman's network.
        directions: The parameters of one direction or of both.
        reverse: Whether the only direction is back in time.
        initial: The states that each direction starts from, as `initial_h` and so on; None: zeros.

    Returns:
        A Recurrent or a Bidirectional, which reads (batch, time, width).
    """
    made: Cell = CELLS[cell]() if cell in CELLS else Elman(cell)
    first = directions[0]
    hidden, width = next(value.shape for name, value in first.items() if name.startswith("W_"))
    bias = any(name.startswith("b_") for name in first)
    if initial is not None:
        directions = [{**one, **start} for one, start in zip(directions, initial, strict=True)]
        first = directions[0]
    learned = initial is not None
    if len(directions) == 2:
        both = Bidirectional(made, width, hidden, bias=bias, batch_first=True, learn_initial=learned)
        _fill(both.ahead, directions[0])
        _fill(both.back, directions[1])
        return both.eval()
    layer = Recurrent(made, width, hidden, bias=bias, batch_first=True, reverse=reverse, learn_initial=learned)
    _fill(layer, first)
    return layer.eval()


def _fill(layer: nn.Module, parameters: Mapping[str, Array]) -> None:
    layer.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in parameters.items()})
