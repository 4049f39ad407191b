"""What stands between the layers of a drop-in: the directions side by side, and dropout, as in torch.nn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


def join_directions(layer: nn.RNNBase, outputs: list[Tensor]) -> Tensor:
    """The output of the uppermost layer, its directions side by side."""
    return torch.cat(outputs[-2:], -1) if layer.bidirectional else outputs[-1]


def may_overlap(layer: Any, trace: bool) -> bool:
    """Whether each layer reads the whole output of the one below, so that layers may run at once."""
    dropped = layer.dropout and layer.training
    return not (trace or dropped or layer.bidirectional or layer.recompute is not None)


def stack_layers(finals: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    """The final states of all layers as torch.nn returns them: for each state, its layers along the first dimension."""
    return tuple(torch.stack(parts) for parts in zip(*finals, strict=True))


def drop(layer: nn.RNNBase, x: Tensor, ends: Tensor | None) -> Tensor:
    """Dropout between layers. With `ends` only the steps of a packed sequence draw, as in torch.nn."""
    if not layer.dropout or not layer.training:
        return x
    if ends is None:
        return functional.dropout(x, layer.dropout)
    data, batch_sizes, _, _ = pack_padded_sequence(x, ends.cpu())
    return pad_packed_sequence(PackedSequence(functional.dropout(data, layer.dropout), batch_sizes))[0]
