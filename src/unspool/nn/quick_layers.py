"""Layers of a drop-in by quick kernel calls, where all tensors are like those of earlier calls, or fit as they are."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unspool.nn.chain import Chain, find_chain, join
from unspool.nn.drop_in_checks import find_changed, find_starts, is_settled
from unspool.nn.entry import Call
from unspool.nn.route import is_quick, is_watched
from unspool.nn.wavefront import may_be_worth

#: What determines the chain of a drop-in → the chain.
_of_drop_ins: dict[tuple[Any, ...], Chain] = {}


def enter(call: Call, layer: Any, input: Tensor, hx: Any) -> Any:
    """The result of a call of all layers by the entry in C++, or None if something has to be asked in more detail.

    The entry looks at the shapes, types and memory of all tensors itself. Here is what it cannot see.

    Args:
        call: the entry.
        layer: a drop-in.
        input: a batch, with three dimensions.
        hx: the initial state or states, if they are given.

    Returns:
        `(output, state)` as torch.nn's.
    """
    if layer.bidirectional or layer.recompute is not None or (layer.dropout and layer.training) or is_watched():
        return None
    weights, names, registered = layer._flat_weights, layer._flat_weights_names, layer._parameters
    if len(weights) != len(names):
        return None
    for name, weight in zip(names, weights, strict=True):
        if registered.get(name) is not weight or type(weight) is not nn.Parameter:
            return None
    layers, first = layer.num_layers, layer.batch_first
    sizes = layer.input_size, layer.hidden_size, layer.proj_size
    made_of = type(layer), layer.mode, layer.reset, layer.gates, sizes, layers, layer.bias, len(weights)
    try:
        chain = _of_drop_ins.get(made_of)
    except TypeError:  # something that is no option of a layer
        return None
    if chain is None:
        if find_changed(layer) is not None:
            return None
        chain = _of_drop_ins[made_of] = find_chain(tuple(layer.runners()), stacked=True)
    x = _with_time_first(input) if first else input
    if x is None:
        return None
    if hx is None:
        tensors = (x, *weights)
    else:
        starts = find_starts(hx, layers)
        if starts is None or len(weights) % layers:
            return None
        each = len(weights) // layers
        tensors = tuple(join(x, starts, [weights[each * k : each * (k + 1)] for k in range(layers)]))
    at_once = layers > 1 and may_be_worth(x, sum(weight.numel() for weight in weights), layers)
    found = chain.enter(call, tensors, at_once)
    if not found:
        return None
    return found[0].transpose(0, 1) if first else found[0], layer._as_torch(found[1:])


def _with_time_first(input: Tensor) -> Tensor | None:
    """A batch that has its rows first, if its steps lie side by side all the same."""
    if min(input.shape[:2]) > 1:
        return None
    try:
        return input.transpose(0, 1)
    except RuntimeError:  # there is no memory behind it
        return None


def run_quickly(layer: Any, input: Tensor, hx: Any) -> Any:
    """The result of a call through Python, or None if something about it has to be asked in more detail.

    Args:
        layer: a drop-in of one layer in one direction.
        input: a batch with time first.
        hx: the initial state or states, if they are given.

    Returns:
        `(output, state)` as torch.nn's.
    """
    if layer.recompute is not None or input.is_nested or find_changed(layer) is not None or not is_settled(layer):
        return None
    starts, parameters = find_starts(hx, 1), layer._flat_weights
    if starts is None:
        return None
    runner = layer.runners()[0]
    if not is_quick(runner.kernel, parameters, input, starts[0]):
        return None
    output, final = runner.run_quick(parameters, input, starts[0], False, True)
    return output, layer._as_torch(final)
