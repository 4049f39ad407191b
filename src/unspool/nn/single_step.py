"""Single steps of drop-ins with several layers by one operation of torch.

A call of kernels through the entry takes less time than that. Through Python it takes more where gradients are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from unspool.nn.checks import has_memory
from unspool.nn.drop_in_checks import check_attributes, check_for_torch, fit_states, is_settled
from unspool.nn.entry import ENTRY, find_call
from unspool.nn.known import Known
from unspool.nn.recording import is_traced
from unspool.nn.route import is_single_step_of_training

#: The operations by torch.nn's `mode`.
Operations = Mapping[str, Callable[..., tuple[Tensor, Tensor]]]
OF_RNN: Operations = {"RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}
OF_GRU: Operations = {"GRU": torch.gru}


def take_single_step(layer: Any, input: Tensor, hx: Any) -> Any:
    """The result of one step for a batch, or None if something about the call has to be asked in more detail.

    This is torch.nn's forward without its checks in Python, which take as long as ours: those of tensors like the ones
    of an earlier call.

    Args:
        layer: a drop-in with several layers.
        input: one step, with three dimensions.
        hx: the initial state or states, if they are given.

    Returns:
        `(output, state)` as torch.nn's.
    """
    if find_call() is not None and not (layer.bidirectional or (layer.dropout and layer.training)):
        return None  # the entry takes it once there are kernels
    if not layer.single_steps or not layer._matches_torch() or not is_single_step_of_training(input):
        return None
    if is_traced() or not is_settled(layer):
        return None
    ENTRY.notice()
    weights: list[Tensor] = layer._flat_weights
    try:
        if not _is_known(layer, weights, input, hx):
            _check(layer, weights, input, hx)
        if hx is None:
            rows = input.shape[0 if layer.batch_first else 1]
            hx = input.new_zeros(layer.num_layers * (2 if layer.bidirectional else 1), rows, layer.hidden_size)
        options = layer.bias, layer.num_layers, layer.dropout, layer.training, layer.bidirectional, layer.batch_first
        return layer.single_steps[layer.mode](input, hx, weights, *options)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return None  # the checks of a longer call say what is wrong


@lru_cache
def _find_known(*_kind: Any) -> Known:
    """What is known of calls of this kind."""
    return Known()


def _known(layer: nn.RNNBase, started: bool) -> Known:
    """What is known of layers of this kind and these sizes, with or without an initial state."""
    sizes = layer.input_size, layer.hidden_size, layer.proj_size, layer.num_layers
    return _find_known(started, layer.mode, *sizes, layer.bidirectional, layer.bias)


def _is_known(layer: nn.RNNBase, weights: list[Tensor], input: Tensor, hx: Any) -> bool:
    """Whether the tensors are like those of an earlier call, and their memory is there."""
    if hx is None:
        return (input, *weights) in _known(layer, False) and _are_held(input, weights)
    known = (input, hx, *weights) in _known(layer, True) and hx.shape[1] == input.shape[0 if layer.batch_first else 1]
    return known and _is_held(hx) and _are_held(input, weights)


def _are_held(input: Tensor, weights: list[Tensor]) -> bool:
    """Whether the storages hold all numbers of the input and of weights that are known to be contiguous."""
    for weight in weights:
        if weight.untyped_storage().nbytes() < weight.nbytes + weight.storage_offset() * weight.itemsize:
            return False
    return _is_held(input)


def _is_held(tensor: Tensor) -> bool:
    if not tensor.is_contiguous():
        return has_memory(tensor)
    return tensor.untyped_storage().nbytes() >= tensor.nbytes + tensor.storage_offset() * tensor.itemsize


def _check(layer: nn.RNNBase, weights: list[Tensor], input: Tensor, hx: Any) -> None:
    """Refuse what does not fit, and know tensors like these from now on."""
    states = None if hx is None else (hx,)
    check_attributes(layer)
    check_for_torch(layer, weights, input, states)
    if input.shape[2] != layer.input_size or (states is not None and not fit_states(layer, input, states)):
        raise ValueError("the input or the state does not fit")
    free: list[Any] = [(input, (None, None, layer.input_size))]
    if hx is not None:
        free.append((hx, (hx.shape[0], None, layer.hidden_size)))
    _known(layer, hx is not None).add(free, weights)
