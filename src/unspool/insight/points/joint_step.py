"""Joint step: what small changes and gradients become in one step of all layers of a system, with its input held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unspool.insight.linear_step import LinearStep


@dataclass(frozen=True)
class Wire:
    """What a layer reads of those below, and what it passes up."""

    skip: bool = False  # it reads the two outputs below it side by side
    residual: bool = False  # the layer below passes up its state plus what it reads


class JointStep:
    """One step of n joint states, linear around them.

    Args:
        steps: of the layers, from the lowest up.
        wires: of each layer but the lowest.
        outputs: the width of each layer's output.
    """

    def __init__(self, steps: Sequence[LinearStep], wires: Sequence[Wire], outputs: Sequence[int]) -> None:
        self.steps, self.wires, self.outputs = steps, wires, outputs
        self.widths = [sum(step.layer.widths) for step in steps]

    def push(self, states: Tensor) -> Tensor:
        """The change after the step from that before it, (n, states)."""
        new: list[Tensor] = []
        rising: list[Tensor | None] = [None]  # the input is held
        for number, (step, part) in enumerate(zip(self.steps, states.split(self.widths, -1), strict=True)):
            new.append(step.push(part, self._rise(number, new, rising)))
        return torch.cat(new, -1)

    def _rise(self, number: int, new: Sequence[Tensor], rising: list[Tensor | None]) -> Tensor | None:
        """The change of what a layer reads; `rising` is what the layers below passed up, and is continued."""
        if not number:
            return None
        wire, output = self.wires[number - 1], new[-1][..., : self.outputs[number - 1]]
        below = self._read(number - 1, rising) if wire.residual else None
        rising.append(output if below is None else output + below)
        return self._read(number, rising)

    def _read(self, number: int, rising: Sequence[Tensor | None]) -> Tensor | None:
        """What a layer reads of what rises; the input of the lowest does not change."""
        if not number or not self.wires[number - 1].skip:
            return rising[number]
        lower, upper = rising[number - 1], rising[number]
        if lower is None:
            assert upper is not None
            width = self.steps[number].input_size - upper.shape[-1]
            lower = upper.new_zeros(*upper.shape[:-1], width)
        return torch.cat([lower, upper], -1) if upper is not None else None

    def pull(self, states: Tensor) -> Tensor:
        """The gradient before the step from that after it, (n, states)."""
        parts = [part.clone() for part in states.split(self.widths, -1)]
        before: list[Tensor] = []
        passed: dict[int, Tensor] = {}  # gradients of what rises to each layer
        for number in reversed(range(len(self.steps))):
            found = self.steps[number].pull(parts[number], to_input=number > 0)
            before.append(found.states)
            if number and found.x is not None:
                self._sink(number, found.x, passed)
            if number:
                self._give(number, parts, passed)
        return torch.cat(before[::-1], -1)

    def _sink(self, number: int, gradient: Tensor, passed: dict[int, Tensor]) -> None:
        """Divide the gradient of what a layer reads among what rises."""
        if not number or not self.wires[number - 1].skip:
            _add(passed, number, gradient)
            return
        own = self.outputs[number - 1]
        _add(passed, number - 1, gradient[..., : gradient.shape[-1] - own])
        _add(passed, number, gradient[..., gradient.shape[-1] - own :])

    def _give(self, number: int, parts: list[Tensor], passed: dict[int, Tensor]) -> None:
        """Pass the gradient of what rises to a layer on to the layer below, and to what that one reads."""
        if number not in passed:
            return
        gradient = passed.pop(number)
        parts[number - 1][..., : self.outputs[number - 1]] += gradient
        if self.wires[number - 1].residual and number > 1:
            self._sink(number - 1, gradient, passed)

    def jacobians(self) -> Tensor:
        """∂(states after)/∂(states before): (n, states, states)."""
        own = [step.jacobians() for step in self.steps]
        found = own[0].new_zeros(len(own[0]), sum(self.widths), sum(self.widths))
        ends = torch.tensor([0, *self.widths]).cumsum(0).tolist()
        for source, block in enumerate(own):
            columns = slice(ends[source], ends[source + 1])
            found[:, columns, columns] = block
            new: list[Tensor] = [block.mT]  # changes of the layers from the source up, one per state of the source
            rising: list[Tensor | None] = [None] * (source + 1)
            for number in range(source + 1, len(self.steps)):
                x = self._rise(number, new, rising)
                new.append(self.steps[number].with_axis().push(None, x))
                found[:, ends[number] : ends[number + 1], columns] = new[-1].mT
        return found


def _add(passed: dict[int, Tensor], number: int, gradient: Tensor) -> None:
    passed[number] = passed[number] + gradient if number in passed else gradient
