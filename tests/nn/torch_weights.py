"""Copies the weights of torch.nn's recurrent modules into layers of ours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unspool.nn.bidirectional import Bidirectional
from unspool.nn.recurrent import Recurrent
from unspool.nn.stack import Stack

#: How torch.nn stacks the blocks of each kind of module, by the names of our linear maps.
ORDER = {"RNN": "h", "LSTM": "ifgo", "GRU": "rzn"}
CELL = {"RNN": "elman", "LSTM": "lstm", "GRU": "gru-reset-after"}


def blocks(module: nn.RNNBase, layer: int = 0, reverse: bool = False) -> dict[str, Tensor]:
    """One layer and direction of a torch.nn module, under our parameters' names."""
    kind = type(module).__name__
    suffix = f"_l{layer}{'_reverse' if reverse else ''}"
    parts = {
        name: dict(zip(ORDER[kind], getattr(module, name + suffix).detach().chunk(len(ORDER[kind])), strict=True))
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    found = {}
    for gate in ORDER[kind]:
        separate = kind == "GRU" and gate == "n"  # its recurrent product stands inside the reset gate
        recurrent, bias = parts["weight_hh"][gate], parts["bias_hh"][gate]
        found[f"W_{gate}"] = parts["weight_ih"][gate]
        found["U_hn" if separate else f"U_{gate}"] = recurrent
        found[f"b_{gate}"] = parts["bias_ih"][gate] if separate else parts["bias_ih"][gate] + bias
        if separate:
            found["b_hn"] = bias
    return found


def copy_weights(module: nn.RNNBase, into: nn.Module, layer: int = 0, reverse: bool = False) -> None:
    """Fill a Recurrent with one layer and direction of a torch.nn module."""
    assert isinstance(into, Recurrent)
    into.load_state_dict(blocks(module, layer, reverse))


def copy_stack(module: nn.RNNBase, into: Stack) -> None:
    """Fill a Stack with all layers and directions of a torch.nn module."""
    for level, layer in enumerate(into.layers):
        if isinstance(layer, Bidirectional):
            copy_weights(module, layer.ahead, level)
            copy_weights(module, layer.back, level, reverse=True)
        else:
            copy_weights(module, layer, level)


def by_direction(state: Tensor | tuple[Tensor, ...]) -> list[Tensor | tuple[Tensor, ...]]:
    """torch.nn's final state as a list with one entry a layer and direction, nested as a Recurrent's."""
    if isinstance(state, Tensor):
        return list(torch.unbind(state))
    return list(zip(*(torch.unbind(part) for part in state), strict=True))
