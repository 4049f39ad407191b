"""The body that every task's model has in common: recurrent layers, ours or torch.nn's, from a config's section."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from unspool import nn as recurrent
from unspool.cells import CATALOGUE, find_cell
from unspool.errors import ArgumentError
from unspool.learning.settings import Effect, NotNegative, Positive, Section, Share, Size
from unspool.nn.layer import map_leaves

#: Cells that torch.nn has, and what makes them.
IN_TORCH: dict[str, Any] = {
    "elman": nn.RNN,
    "elman-relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
    "lstm": nn.LSTM,
    "gru-reset-after": nn.GRU,
}
#: Steps that a convolution without memory sees at once.
KERNEL = 3
#: Settings of a body that it has not.
NOT_IN_TORCH = (
    *("residual", "variational", "recurrent_dropout", "weight_dropout", "zoneout", "forget_bias"),
    *("gate_penalty", "supervision"),
)
#: Settings that say something of recurrent layers alone.
OF_LAYERS = ("cell", "layers", *NOT_IN_TORCH, "engine")
#: Settings of training that say something of what recurrent layers give.
OF_OUTPUT = ("activation_penalty", "temporal_penalty")
#: Settings by which the gates of a layer do not follow from what it reads and gives.
HIDING_GATES = ("residual", "recurrent_dropout", "weight_dropout", "zoneout")


def _known_cell(name: str) -> str:
    find_cell(name)
    return name


class BodySettings(Section):
    """The recurrent layers of a model."""

    effects: ClassVar[tuple[Effect, ...]] = (
        Effect(("residual",), "layers", (1,), among=False),
        Effect(("variational",), "dropout", (0,), among=False),
        Effect(("forget_bias",), "initial", (None, "orthogonal")),
    )

    cell: Annotated[str, AfterValidator(_known_cell)] = Field("lstm", description=f"one of {', '.join(CATALOGUE)}")
    hidden: Size = Field(256, description="units of each layer")
    layers: Size = Field(1, description="layers on top of each other")
    residual: bool = Field(False, description="a layer's output is its input plus its state, from the second on")
    dropout: Share | Literal["auto"] = Field(
        0.0, description="between layers, and before and after them; auto: a rate for each layer, by its activity"
    )
    variational: bool = Field(False, description="dropout uses one mask for all steps")
    recurrent_dropout: Share = Field(0.0, description="of the state on its way into the next step, one mask a window")
    weight_dropout: Share = Field(0.0, description="of the recurrent weights, one mask a window")
    zoneout: Share = Field(0.0, description="units that keep their old state at a step")
    initial: Positive | Literal["orthogonal"] | None = Field(
        None, description="all weights uniform within ± this; orthogonal: recurrent matrices are; else torch.nn's way"
    )
    forget_bias: float | None = Field(None, description="of gates that keep the state")
    gate_penalty: NotNegative = Field(
        0.0, description="times what is shut by a layer's output gate and by the next one's input gate (lstm)"
    )
    supervision: NotNegative | tuple[NotNegative, ...] = Field(
        0.0, description="weight of an auxiliary loss on each layer below the top; one for all, or one each"
    )
    engine: Literal["kernel", "torch"] = Field("kernel", description="kernel: ours; torch: torch.nn's own layers")

    @model_validator(mode="after")
    def _fits_engine(self) -> Self:
        if self.engine == "torch" and self.cell.lower() not in IN_TORCH:
            cells = ", ".join(IN_TORCH)
            raise ArgumentError.of("engine", "torch", f"has no cell {self.cell!r}", f"Take one of {cells}, or kernel")
        asked = self._given(NOT_IN_TORCH) + (["dropout auto"] if self.dropout == "auto" else [])
        asked += ["initial orthogonal"] if self.initial == "orthogonal" else []
        if self.engine == "torch" and asked:
            raise ArgumentError.of("engine", "torch", f"has no {', '.join(asked)}", "Leave it out, or take kernel")
        return self

    @model_validator(mode="after")
    def _fits_layers(self) -> Self:
        if isinstance(self.supervision, tuple) and len(self.supervision) != self.layers - 1:
            problem = f"is not one weight for each of the {self.layers - 1} layer(s) below the top"
            raise ArgumentError.of("supervision", self.supervision, problem, "Give one number for all of them")
        if self.supervision and self.layers == 1:
            problem = "is for layers below the top, and there is one layer"
            raise ArgumentError.of("supervision", self.supervision, problem, "Leave it out, or give layers=2")
        return self

    @model_validator(mode="after")
    def _has_gates(self) -> Self:
        def refuse(problem: str, remedy: str) -> ArgumentError:
            return ArgumentError.of("gate_penalty", self.gate_penalty, problem, remedy)

        cell = self.cell.lower()
        if not self.gate_penalty:
            return self
        if cell == "lstm-open":
            raise refuse("is 0 for lstm-open, whose output gate is held open", "Leave it out, or take lstm")
        if cell != "lstm":
            raise refuse(f"is for the gates of lstm, and the cell is {self.cell}", "Leave it out, or take lstm")
        if self.layers < 2:
            raise refuse("is between neighbouring layers, and there is one", "Leave it out, or give layers=2")
        if hiding := self._given(HIDING_GATES):
            raise refuse(f"cannot see gates through {', '.join(hiding)}", "Leave one of them out")
        return self

    def _given(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if getattr(self, name) not in (None, False, 0)]

    @property
    def supervised(self) -> dict[int, float]:
        """Layers below the top that have heads of their own, by number, and the weights of their losses."""
        given = self.supervision
        weights = given if isinstance(given, tuple) else (given,) * (self.layers - 1)
        return {level: weight for level, weight in enumerate(weights) if weight}


def make_body(settings: BodySettings, input_size: int, bidirectional: bool = False) -> nn.Module:
    """The recurrent layers, called as `output, state = body(x, state, lengths=…)`."""
    if settings.engine == "torch":
        return TorchBody(settings, input_size, bidirectional)
    body = recurrent.Stack(
        settings.cell,
        input_size,
        settings.hidden,
        settings.layers,
        bidirectional=bidirectional,
        residual=[settings.residual and level > 0 for level in range(settings.layers)],
        dropout=0.0 if settings.dropout == "auto" else settings.dropout,
        variational=settings.variational,
        recurrent_dropout=settings.recurrent_dropout,
        weight_dropout=settings.weight_dropout,
        zoneout=settings.zoneout,
    )
    if settings.forget_bias is not None:
        recurrent.init.forget_bias_(body, settings.forget_bias)
    return body


def spread_weights(model: nn.Module, settings: BodySettings) -> None:
    """Weights uniform within ± `initial`, or recurrent matrices orthogonal, if the settings say so."""
    if settings.initial == "orthogonal":
        recurrent.init.orthogonal_(model)
    elif settings.initial is not None:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -settings.initial, settings.initial)


def make_memoryless(
    reader: str, width: int, hidden: int
) -> recurrent.BagOfVectors | recurrent.SharedFCN | recurrent.Convolution:
    """What makes one vector of a sequence without a memory: "bag", "fcn" or "cnn"."""
    if reader == "bag":
        return recurrent.BagOfVectors(width, mean=True)
    if reader == "fcn":
        return recurrent.SharedFCN(width, hidden, hidden)
    return recurrent.Convolution(width, hidden, KERNEL)


class StatelessBody(nn.Module):
    """A perceptron at every step in the place of layers: what can be said without a memory."""

    def __init__(self, settings: BodySettings, input_size: int) -> None:
        super().__init__()
        self.network = recurrent.StatelessMLP(input_size, settings.hidden, settings.hidden)

    def forward(self, x: Tensor, state: Any = None, *, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """As a stack is called; there is no state."""
        return self.network(x, lengths=lengths), state or ()


class TorchBody(nn.Module):
    """torch.nn's layers in the place of ours: to compare, or where theirs are wanted."""

    def __init__(self, settings: BodySettings, input_size: int, bidirectional: bool = False) -> None:
        super().__init__()
        make = IN_TORCH[settings.cell.lower()]
        assert settings.dropout != "auto"  # the settings refuse it
        sizes = input_size, settings.hidden, settings.layers
        self.layers = make(*sizes, dropout=settings.dropout * (settings.layers > 1), bidirectional=bidirectional)
        self.output_size = settings.hidden * (1 + bidirectional)

    def forward(self, x: Tensor, state: Any = None, *, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """As a stack is called; in the state too rows come first, and torch.nn's layers after them."""
        state = None if state is None else map_leaves(_swap, state)
        if lengths is None:
            output, state = self.layers(x, state)
        else:
            packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
            packed, state = self.layers(packed, state)
            output, _ = pad_packed_sequence(packed, total_length=len(x))
        return output, map_leaves(_swap, state)


def _swap(part: Tensor) -> Tensor:
    return part.transpose(0, 1).contiguous()
