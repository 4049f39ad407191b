"""System: layers that move together, as one map of their joint state.

A layer that reads the new state of the layer below, as in a stack, is coupled to it: their fixed points are those of
both together. How layers are wired is read from the recording: a plain stack, residual connections and skips. The
directions of a bidirectional layer, and layers that read something else, are systems by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from unspool.insight.points.joint_step import JointStep, Wire
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording
from unspool.language import Message
from unspool.nn.stack import Stack

#: Why a system does not contain the layers beside it.
BOTH_DIRECTIONS = "its directions run against each other in time, so they have no joint state"
SOMETHING_ELSE = "it does not read the output of the layer below directly"


@dataclass(frozen=True, eq=False)
class System:
    """Layers from the lowest up, all in one direction of time."""

    layers: tuple[RecordedLayer, ...]
    wires: tuple[Wire, ...]  # of each layer but the lowest
    entrance: bool  # whether the lowest one reads the data, and not another layer
    alone: str = ""  # why layers beside it are no part of it

    @property
    def label(self) -> str:
        """Such as `layer 1`, or `layer 1 to layer 3`."""
        first, last = self.layers[0].label, self.layers[-1].label
        return first if len(self.layers) == 1 else Message("{first} to {last}", first=first, last=last)

    @cached_property
    def widths(self) -> list[int]:
        """States of each layer."""
        return [layer.after.shape[-1] for layer in self.layers]

    @property
    def live(self) -> Tensor:
        """(time, batch): within the length of the sequence."""
        return self.layers[0].live

    @property
    def after(self) -> Tensor:
        """The recorded joint states, (time, batch, states)."""
        return torch.cat([layer.after for layer in self.layers], -1)

    @property
    def x(self) -> Tensor:
        """What the lowest layer read."""
        return self.layers[0].x

    def advance(self, x: Tensor, states: Tensor) -> Tensor:
        """One step of n joint states: (n, input) and (n, states) → (n, states); differentiable."""
        return torch.cat([new for _, _, new in self._go_up(x, states)], -1)

    def linear(self, x: Tensor, states: Tensor) -> JointStep:
        """One step of n joint states, linear around them."""
        found = zip(self.layers, self._go_up(x, states), strict=True)
        steps = [layer.linear.at(read, part) for layer, (read, part, _) in found]
        return JointStep(steps, self.wires, [next(iter(layer.widths.values())) for layer in self.layers])

    def _go_up(self, x: Tensor, states: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For each layer from the lowest up: what it reads, its states before the step, and after it."""
        read, rising = x, [x]
        new = x
        for number, (layer, part) in enumerate(zip(self.layers, states.split(self.widths, -1), strict=True)):
            if number:
                wire = self.wires[number - 1]
                rising.append(_passed(self.layers[number - 1], new, read, wire))
                read = torch.cat(rising[-2:], -1) if wire.skip else rising[-1]
            new = layer.advance(read, part)
            yield read, part, new


def _passed(layer: RecordedLayer, states: Tensor, read: Tensor, wire: Wire) -> Tensor:
    """What a layer passes up."""
    output = states[..., : next(iter(layer.widths.values()))]
    return output + read if wire.residual else output


def find_systems(recording: Recording) -> list[System]:
    """The systems of a model, from the lowest up."""
    entrances = {recording.calls[number].layer.name for number in recording.entrances}
    found: list[System] = []
    for place, layer in enumerate(recording.layers):
        both = sum(other.level == layer.level for other in recording.layers) > 1
        wire = None if both or not found else _find_wire(found[-1], layer, recording.model)
        if wire is not None:
            below = found[-1]
            found[-1] = replace(below, layers=(*below.layers, layer), wires=(*below.wires, wire))
            continue
        entrance = layer.name in entrances
        alone = BOTH_DIRECTIONS if both else SOMETHING_ELSE if place and not entrance else ""
        found.append(System((layer,), (), entrance, alone))
    return found


def _find_wire(below: System, layer: RecordedLayer, model: nn.Module) -> Wire | None:
    """How a layer reads the system below it; None if it does not, or in another direction of time."""
    last = below.layers[-1]
    if last.reverse != layer.reverse or not torch.equal(last.live, layer.live):
        return None
    guesses = (Wire(), Wire(residual=True), Wire(skip=True), Wire(skip=True, residual=True))
    for wire in _wires_of_stack(model, last.name, layer.name) or guesses:
        read = _reading(below.layers, [*below.wires, wire])
        if read is not None and read.shape == layer.x.shape and _agree(read[layer.live], layer.x[layer.live]):
            return wire
    return None


def _wires_of_stack(model: nn.Module, below: str, above: str) -> tuple[Wire, ...]:
    """The wire between two layers of one `Stack`, which knows it; empty if they are in none.

    Recorded values cannot always tell: on zeros all wirings look alike.
    """
    path, _, number = below.rpartition(".")
    if path != above.rpartition(".")[0] or path.rpartition(".")[2] != "layers" or not number.isdigit():
        return ()
    stack = model.get_submodule(path.rpartition(".")[0])
    return (Wire(stack.skip, stack.residual[int(number)]),) if isinstance(stack, Stack) else ()


def _reading(layers: Sequence[RecordedLayer], wires: Sequence[Wire]) -> Tensor | None:
    """What the layer above these reads, if it is wired like this."""
    rising = [layers[0].x]
    for layer, wire in zip(layers, wires, strict=True):
        if wire.residual and layer.x.shape != layer.output.shape:
            return None
        rising.append(_passed(layer, layer.after, layer.x, wire))
    return torch.cat(rising[-2:], -1) if wires[-1].skip else rising[-1]


def _agree(read: Tensor, own: Tensor) -> bool:
    return bool(((read - own).abs() <= 1e-5 * (1e-3 + own.abs().max())).all()) if own.numel() else True
