"""Layers of a drop-in by quick kernel calls, where all tensors are like those of earlier calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.nn.drop_in_checks import find_changed, find_starts, is_settled
from unspool.nn.layer import to_time_major
from unspool.nn.route import is_quick


def run_quickly(layer: Any, input: Tensor, hx: Any) -> Any:
    """The result of a call, or None if something about it has to be asked in more detail.

    Args:
        layer: a drop-in whose layers run in one direction, with nothing between them.
        input: a batch, with three dimensions.
        hx: the initial state or states, if they are given.

    Returns:
        `(output, state)` as torch.nn's.
    """
    if layer.recompute is not None or find_changed(layer) is not None or not is_settled(layer):
        return None
    starts, weights = find_starts(hx, layer.num_layers), layer._flat_weights
    if starts is None:
        return None
    x, finals, width = to_time_major(input, layer.batch_first), [], layer.input_size
    for place, start in enumerate(starts):
        runner, parameters = layer._runner(width), layer._parameters_at(place, weights)
        if not is_quick(runner.kernel, parameters, x, start):
            return None
        x, final = runner.run_quick(parameters, x, start, False, True)
        finals.append(final)
        width = layer.proj_size or layer.hidden_size
    output = x.transpose(0, 1) if layer.batch_first else x
    if len(finals) == 1:
        return output, layer._as_torch(finals[0])
    return output, layer._as_torch(tuple(torch.cat(parts) for parts in zip(*finals, strict=True)))
