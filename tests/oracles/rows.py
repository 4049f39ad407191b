"""Ragged batches for the oracles, the obvious way: each row runs alone, over its own steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = dict[str, Array]
States = tuple[Array, ...]
Tape = list[dict[str, Array]]
Gradients = tuple[Parameters, Array, States]  # of the parameters, of x, of the initial states
Forward = Callable[[Parameters, Array, States], tuple[Array, States, Tape]]
Backward = Callable[[Parameters, Tape, Array, States], Gradients]


class Pass(NamedTuple):
    """What one forward and one backward pass give."""

    output: Array
    final: States
    gradients: Parameters
    d_x: Array
    d_states: States


def run_rows(
    forward: Forward,
    backward: Backward,
    parameters: Parameters,
    x: Array,
    states: States,
    lengths: Sequence[int],
    d_output: Array,
    d_final: States,
    reverse: bool = False,
) -> Pass:
    """Forward and backward over a padded batch; `d_output` and `d_final` are the loss's gradients of what comes out."""
    output = np.zeros_like(d_output)
    final = tuple(np.zeros_like(part) for part in d_final)
    gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
    d_x, d_states = np.zeros_like(x), tuple(np.zeros_like(state) for state in states)
    for row, length in enumerate(lengths):
        own = slice(row, row + 1)
        steps = np.arange(length)[:: -1 if reverse else 1]
        alone, end, tape = forward(parameters, x[steps, own], tuple(state[own] for state in states))
        output[steps, own] = alone
        back = backward(parameters, tape, d_output[steps, own], tuple(part[own] for part in d_final))
        d_x[steps, own] = back[1]
        for name, gradient in back[0].items():
            gradients[name] += gradient
        for whole, part in zip((*final, *d_states), (*end, *back[2]), strict=True):
            whole[own] = part
    return Pass(output, final, gradients, d_x, d_states)
