"""Models with recurrent layers, and the rules for these: dropout of each, gates that agree, losses on lower ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.errors import ArgumentError
from unspool.learning.gates import gate_penalty, neighbouring_gates
from unspool.learning.layer_dropout import LayerDropout
from unspool.nn import Recurrent, Stack
from unspool.nn.regularised import Rates, drop_units
from unspool.tasks.body import BodySettings, make_body


class Reading(NamedTuple):
    """What the layers make of a sequence."""

    sequences: list[Tensor]  # of the layers that have heads, from the lowest up; the last is the top's
    state: Any
    extra: Tensor | None  # the penalty on gates, in training


class Layered(nn.Module):
    """A model that has a body. Its class says what comes before the layers and after them."""

    def make_layers(self, settings: BodySettings, input_size: int, bidirectional: bool = False) -> None:
        """The layers, and what the settings say of them."""
        self.body = make_body(settings, input_size, bidirectional)
        self.dropout = 0.0 if settings.dropout == "auto" else settings.dropout
        self.layer_dropout = LayerDropout(settings.layers) if settings.dropout == "auto" else None
        self.variational, self.gate_penalty = settings.variational, settings.gate_penalty
        self.levels = [*settings.supervised, settings.layers - 1]

    def read(self, x: Tensor, state: Any = None, lengths: Tensor | None = None) -> Reading:
        """The layers over what they read, time first."""
        watching = self.layer_dropout is not None and self.layer_dropout.watching
        penalised = self.gate_penalty and self.training
        if not isinstance(self.body, Stack) or not (len(self.levels) > 1 or watching or penalised):
            output, state = self._body(x, state, lengths=lengths)
            return Reading([output], state, None)
        sequences, final = self._body(x, state, lengths=lengths, every_layer=True)
        if self.layer_dropout is not None and watching:
            self.layer_dropout.watch(sequences, lengths)
        extra = None
        if penalised:
            pairs = neighbouring_gates(self.body, x, sequences, state, lengths=lengths)
            extra = self.gate_penalty * torch.stack([gate_penalty(*pair, lengths=lengths) for pair in pairs]).sum()
        return Reading([sequences[level] for level in self.levels], final, extra)

    def drop_input(self, values: Tensor) -> Tensor:
        """Dropout of what the lowest layer reads; where rates are the layers' own, it has none."""
        return values if self.layer_dropout is not None else self.drop(values)

    def drop(self, values: Tensor) -> Tensor:
        """Dropout of a sequence that the layers gave, or of one vector a row, as the settings have it."""
        p = self.dropout if self.layer_dropout is None else float(self.layer_dropout.rates[-1])
        if self.variational and values.dim() == 3:
            return drop_units(values, p, self.training)
        return functional.dropout(values, p, self.training)

    def plain_layers(self) -> list[Recurrent]:
        """The layers one by one; refused where more than they lies between input and output."""
        body = self.body if isinstance(self.body, Stack) else None
        layers = [] if body is None else [layer for layer in body.layers if isinstance(layer, Recurrent)]
        for found, problem, remedy in (
            (body is None, "does not know the layers of torch.nn", "engine='kernel'"),
            (body is not None and len(layers) < len(body.layers), "has one direction of time", "bidirectional=False"),
            (body is not None and any(body.residual), "has no connections around layers", "residual=False"),
            (self.dropout or self.layer_dropout is not None, "has no dropout between layers", "dropout=0"),
            (
                body is not None and any(rates != Rates() for rates in body.rates),
                "has no chance in its layers",
                "recurrent_dropout=0, weight_dropout=0 and zoneout=0",
            ),
            (len(self.levels) > 1, "has one loss, that of the top", "supervision=0"),
            (self.gate_penalty, "has no penalty on gates", "gate_penalty=0"),
        ):
            if found:
                raise ArgumentError.of("learn", "predictive-coding", problem, f"Give {remedy}, or learn='bptt'")
        return layers

    def _body(self, x: Tensor, state: Any, **options: Any) -> Any:
        if self.layer_dropout is not None and isinstance(self.body, Stack):  # a checkpoint may have brought the rates
            self.body.dropout = [*self.layer_dropout.rates[:-1].tolist(), 0.0]
        return self.body(x, state, **options)


def with_lower(extra: Tensor | None, weights: Sequence[float], losses: Iterable[Tensor]) -> Tensor | None:
    """What training adds to the top's loss: Σ_ℓ λ_ℓ L_ℓ over the layers below, and what else there is."""
    for weight, loss in zip(weights, losses, strict=True):
        extra = weight * loss if extra is None else extra + weight * loss
    return extra
