"""The number of parameters of a model, and how many more torch.nn has for the same layers."""

from __future__ import annotations

from torch import nn

from unspool.cells import LSTM, Elman, ResetAfterGRU
from unspool.language import Message
from unspool.nn.recurrent import Recurrent

#: Cells that torch.nn has, too.
SHARED = (Elman, LSTM, ResetAfterGRU)


def tell_parameters(model: nn.Module) -> str:
    """The number of parameters; where biases are merged that are two in torch.nn, also torch.nn's number.

    Example:
        >>> tell_parameters(unspool.nn.Recurrent("elman", 3, 4))
        '32 (36 in torch.nn, which has two biases where one is enough)'
    """
    count = sum(parameter.numel() for parameter in model.parameters())
    merged = sum(_count_merged(module) for module in model.modules() if isinstance(module, Recurrent))
    if not merged:
        return f"{count:,}"
    template = "{count:,} ({torch:,} in torch.nn, which has two biases where one is enough)"
    return Message(template, count=count, torch=count + merged)


def _count_merged(layer: Recurrent) -> int:
    """The size of the biases that stand for two: those of maps that read both the input and the state."""
    if not isinstance(layer.cell, SHARED):
        return 0
    sizes = {name: value.numel() for name, value in layer.cell_parameters().items()}
    gates = [name.removeprefix("b_") for name in sizes if name.startswith("b_")]
    return sum(sizes[f"b_{gate}"] for gate in gates if {f"W_{gate}", f"U_{gate}"} <= sizes.keys())
