"""The body that every task's model has in common: recurrent layers, ours or torch.nn's, from a config's section."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from torch import Tensor, nn

from unspool import nn as recurrent
from unspool.cells import CATALOGUE, find_cell
from unspool.errors import ArgumentError
from unspool.learning.settings import Positive, Section, Share, Size


def _known_cell(name: str) -> str:
    find_cell(name)
    return name


class BodySettings(Section):
    """The recurrent layers of a model."""

    cell: Annotated[str, AfterValidator(_known_cell)] = Field("lstm", description=f"one of {', '.join(CATALOGUE)}")
    hidden: Size = Field(256, description="units of each layer")
    layers: Size = Field(1, description="layers on top of each other")
    residual: bool = Field(False, description="a layer's output is its input plus its state, from the second on")
    dropout: Share = Field(0.0, description="between layers, and before and after them")
    variational: bool = Field(False, description="dropout uses one mask for all steps")
    recurrent_dropout: Share = Field(0.0, description="of the state on its way into the next step, one mask a window")
    weight_dropout: Share = Field(0.0, description="of the recurrent weights, one mask a window")
    zoneout: Share = Field(0.0, description="units that keep their old state at a step")
    initial: Positive | None = Field(None, description="all weights uniform within ± this; else torch.nn's way")
    forget_bias: float | None = Field(None, description="of gates that keep the state")
    engine: Literal["kernel", "torch"] = Field("kernel", description="kernel: ours; torch: torch.nn's own layers")


def make_body(settings: BodySettings, input_size: int) -> nn.Module:
    """The recurrent layers, called as `output, state = body(x, state)`."""
    if settings.engine == "torch":
        return TorchBody(settings, input_size)
    body = recurrent.Stack(
        settings.cell,
        input_size,
        settings.hidden,
        settings.layers,
        residual=[settings.residual and level > 0 for level in range(settings.layers)],
        dropout=settings.dropout,
        variational=settings.variational,
        recurrent_dropout=settings.recurrent_dropout,
        weight_dropout=settings.weight_dropout,
        zoneout=settings.zoneout,
    )
    if settings.forget_bias is not None:
        recurrent.init.forget_bias_(body, settings.forget_bias)
    return body


#: Cells that torch.nn has, and what makes them.
IN_TORCH: dict[str, Any] = {
    "elman": nn.RNN,
    "elman-relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
    "lstm": nn.LSTM,
    "gru-reset-after": nn.GRU,
}


class TorchBody(nn.Module):
    """torch.nn's layers in the place of ours: to compare, or where theirs are wanted."""

    def __init__(self, settings: BodySettings, input_size: int) -> None:
        super().__init__()
        if settings.cell.lower() not in IN_TORCH:
            raise ArgumentError.of(
                "engine", "torch", f"has no cell {settings.cell!r}", f"Take --cell {', '.join(IN_TORCH)}, or our engine"
            )
        ours = ("residual", "variational", "recurrent_dropout", "weight_dropout", "zoneout", "forget_bias")
        asked = [name for name in ours if getattr(settings, name)]
        if asked:
            raise ArgumentError.of("engine", "torch", f"has no {', '.join(asked)}", "Leave it out, or take our engine")
        make = IN_TORCH[settings.cell.lower()]
        self.layers = make(
            input_size, settings.hidden, settings.layers, dropout=settings.dropout * (settings.layers > 1)
        )
        self.output_size = settings.hidden

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """As a stack is called; the state is torch.nn's."""
        output, state = self.layers(x, state)
        return output, state
