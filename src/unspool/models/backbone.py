"""The backbone of every model: recurrent layers, ours or those of torch.nn, from the settings."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from unspool import nn as recurrent
from unspool.nn.leaves import map_leaves
from unspool.settings.model import Backbone

#: Cells that torch.nn has, and what makes them.
TORCH_LAYERS: dict[str, Any] = {
    "elman": nn.RNN,
    "elman-relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
    "lstm": nn.LSTM,
    "gru-reset-after": nn.GRU,
}


def make_backbone(settings: Backbone, input_size: int, bidirectional: bool = False, time_delay: int = 0) -> nn.Module:
    """Build the recurrent layers.

    Args:
        settings: Cell, sizes and regularization.
        input_size: The width of a step.
        bidirectional: Whether the layers read in both directions.
        time_delay: Steps that are read ahead of the one that the output is for.

    Returns:
        A module called as `output, state = backbone(x, state, lengths=…)`, with `initial_state(rows, like)`.
    """
    if settings.engine == "torch":
        return TorchBackbone(settings, input_size, bidirectional)
    stack = recurrent.Stack(
        list(settings.cells),
        input_size,
        list(settings.sizes),
        bidirectional=bidirectional,
        skip=settings.skip,
        residual=[settings.residual and level > 0 for level in range(settings.layers)],
        dropout=0.0 if settings.dropout == "auto" else settings.dropout,
        variational=settings.variational_dropout,
        recurrent_dropout=settings.recurrent_dropout,
        weight_dropout=settings.weight_dropout,
        zoneout=settings.zoneout,
    )
    if settings.forget_bias is not None:
        recurrent.init.forget_bias_(stack, settings.forget_bias)
    return recurrent.TimeDelay(stack, time_delay) if time_delay else stack


def initialize_weights(model: nn.Module, settings: Backbone) -> None:
    """Weights uniform within ± `init`, or orthogonal recurrent matrices, if the settings say so."""
    if settings.init == "orthogonal":
        recurrent.init.orthogonal_(model)
    elif settings.init is not None:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -settings.init, settings.init)


class TorchBackbone(nn.Module):
    """The layers of torch.nn, called as ours are: for comparison, or where theirs are wanted."""

    def __init__(self, settings: Backbone, input_size: int, bidirectional: bool = False) -> None:
        super().__init__()
        assert isinstance(settings.cell, str)  # the settings refuse several
        make = TORCH_LAYERS[settings.cell.lower()]
        assert settings.dropout != "auto"  # the settings refuse it
        sizes = input_size, settings.sizes[-1], settings.layers
        self.layers = make(*sizes, dropout=settings.dropout * (settings.layers > 1), bidirectional=bidirectional)
        self.output_size = settings.sizes[-1] * (1 + bidirectional)

    def forward(self, x: Tensor, state: Any = None, *, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """As a stack is called; in the state the batch comes first, and the layers of torch.nn after it."""
        state = None if state is None else map_leaves(_swap, state)
        if lengths is None:
            output, state = self.layers(x, state)
        else:
            packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
            packed, state = self.layers(packed, state)
            output, _ = pad_packed_sequence(packed, total_length=len(x))
        return output, map_leaves(_swap, state)

    def initial_state(self, rows: int, like: Tensor) -> Any:
        """The state to start from, for a batch of `rows`: zeros of the device and dtype of `like`."""
        layers = self.layers.num_layers * (1 + self.layers.bidirectional)
        h = like.new_zeros(rows, layers, self.layers.hidden_size)
        return (h, h.clone()) if isinstance(self.layers, nn.LSTM) else h


def _swap(part: Tensor) -> Tensor:
    return part.transpose(0, 1).contiguous()
