"""BackboneModel: the recurrent layers of a model and what the settings add: dropout, gate penalty, auxiliary losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.errors import ArgumentError
from unspool.learning.gates import gate_penalty, neighboring_gates
from unspool.learning.layer_dropout import LayerDropout
from unspool.models.backbone import make_backbone
from unspool.nn import Recurrent, Stack, TimeDelay
from unspool.nn.regularized import Rates, drop_units
from unspool.settings.model import Backbone


class Reading(NamedTuple):
    """The result of running the layers over a sequence."""

    sequences: list[Tensor]  # of the layers that have heads, from the lowest up; the last is the top's
    state: Any
    extra: Tensor | None  # the penalty on gates, in training


class BackboneModel(nn.Module):
    """A model with a backbone of recurrent layers. A subclass says what comes before the layers and after them."""

    #: A module called as `output, state = backbone(x, state, lengths=…)`, with `initial_state` and `output_size`.
    backbone: Any

    def make_layers(
        self, settings: Backbone, input_size: int, bidirectional: bool = False, time_delay: int = 0
    ) -> None:
        """Build the layers; called once by the constructor."""
        self.backbone = make_backbone(settings, input_size, bidirectional, time_delay)
        self.dropout = 0.0 if settings.dropout == "auto" else settings.dropout
        self.layer_dropout = LayerDropout(settings.layers) if settings.dropout == "auto" else None
        self.variational, self.gate_penalty = settings.variational_dropout, settings.gate_penalty
        self.levels = [*settings.supervised, settings.layers - 1]

    @property
    def stack(self) -> Stack | None:
        """The layers of the backbone; None where they are those of torch.nn, or a baseline."""
        inner = self.backbone.layer if isinstance(self.backbone, TimeDelay) else self.backbone
        return inner if isinstance(inner, Stack) else None

    @property
    def level_sizes(self) -> list[int]:
        """The output size of each layer that has a head, from the lowest up."""
        stack = self.stack
        if stack is None:
            return [self.backbone.output_size] * len(self.levels)
        return [stack.layers[level].output_size for level in self.levels]  # type: ignore[misc]

    def read(self, x: Tensor, state: Any = None, lengths: Tensor | None = None) -> Reading:
        """Run the layers over x (time, batch, width)."""
        self._set_dropout()
        watched = self._watched()
        penalized = bool(self.gate_penalty) and self.training
        every_layer = len(self.levels) > 1 or watched is not None or penalized
        if not every_layer or self.stack is None:
            output, state = self.backbone(x, state, lengths=lengths)
            return Reading([output], state, None)
        sequences, final = self.backbone(x, state, lengths=lengths, every_layer=True)
        if watched is not None:
            watched.watch(sequences, lengths)
        extra = self._penalize_gates(x, sequences, state, lengths) if penalized else None
        return Reading([sequences[level] for level in self.levels], final, extra)

    def _watched(self) -> LayerDropout | None:
        """The rates of `dropout='auto'`, while they are being measured."""
        return self.layer_dropout if self.layer_dropout is not None and self.layer_dropout.watching else None

    def _penalize_gates(self, x: Tensor, sequences: list[Tensor], state: Any, lengths: Tensor | None) -> Tensor:
        pairs = neighboring_gates(self.backbone, x, sequences, state, lengths=lengths)
        return self.gate_penalty * torch.stack([gate_penalty(*pair, lengths=lengths) for pair in pairs]).sum()

    def drop_input(self, values: Tensor) -> Tensor:
        """Dropout of the input of the lowest layer; none with `dropout='auto'`, which sets rates of outputs."""
        return values if self.layer_dropout is not None else self.drop(values)

    def drop(self, values: Tensor) -> Tensor:
        """Dropout of the layers' output, a sequence or one vector per example, as the settings have it."""
        p = self.dropout if self.layer_dropout is None else float(self.layer_dropout.rates[-1])
        if self.variational and values.dim() == 3:
            return drop_units(values, p, self.training)
        return functional.dropout(values, p, self.training)

    def plain_layers(self) -> list[Recurrent]:
        """The layers one by one; refused where there is more than them between input and output."""
        for problem, remedy in self._obstacles():
            raise ArgumentError.of(
                "learning_rule", "predictive-coding", problem, f"Give {remedy}, or `learning_rule='bptt'`"
            )
        assert isinstance(self.backbone, Stack)
        return [layer for layer in self.backbone.layers if isinstance(layer, Recurrent)]

    def _obstacles(self) -> Iterator[tuple[str, str]]:
        """What keeps the layers from being trained one by one, and the settings without it."""
        stack = self.stack
        if stack is None:
            yield "does not know the layers of torch.nn", "`engine='kernel'`"
            return
        dropped = any(rates != Rates() for rates in stack.rates)
        obstacles = (
            (stack is not self.backbone, "has no delay in time", "`time_delay=0`"),
            (
                not all(isinstance(layer, Recurrent) for layer in stack.layers),
                "has one direction of time",
                "`bidirectional=False`",
            ),
            (
                any(stack.residual) or stack.skip,
                "has no connections around layers",
                "`residual=False` and `skip=False`",
            ),
            (self.dropout or self.layer_dropout is not None, "has no dropout between layers", "`dropout=0`"),
            (dropped, "has no dropout within layers", "`recurrent_dropout=0`, `weight_dropout=0` and `zoneout=0`"),
            (len(self.levels) > 1, "has one loss, that of the top", "`deep_supervision=0`"),
            (self.gate_penalty, "has no penalty on gates", "`gate_penalty=0`"),
        )
        yield from ((problem, remedy) for there, problem, remedy in obstacles if there)

    def _set_dropout(self) -> None:
        """The rates of `dropout='auto'` are part of a checkpoint, which may just have been loaded."""
        if self.layer_dropout is not None and (stack := self.stack) is not None:
            stack.dropout = [*self.layer_dropout.rates[:-1].tolist(), 0.0]


def with_lower(extra: Tensor | None, weights: Sequence[float], losses: Iterable[Tensor]) -> Tensor | None:
    """What training adds to the loss of the top layer: Σ_ℓ λ_ℓ L_ℓ over the layers below, plus `extra`."""
    for weight, loss in zip(weights, losses, strict=True):
        extra = weight * loss if extra is None else extra + weight * loss
    return extra
