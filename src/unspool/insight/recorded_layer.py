"""RecordedLayer: one recurrent layer in one direction, with every value that it read and computed while recorded.

Arrays are float64, laid out (time, batch, width), in the order of time even where the layer ran backward. The states of
a cell with several, such as h and c, are side by side in one width, in the order of its equations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from unspool.cells import Cell
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator
from unspool.insight.differentiated_step import make_linear_layer
from unspool.insight.linear_step import LinearLayer


@dataclass(frozen=True, eq=False)
class RecordedLayer:
    """One recurrent layer in one direction."""

    name: str  # the module's path in the model, with torch.nn's suffix of its parameters: "rnn.l0_reverse"
    label: str  # for people: "layer 1", "layer 2 ←"
    level: int  # from 0, the lowest
    reverse: bool
    cell: Cell
    equations: Equations
    evaluate: Evaluator
    parameters: Mapping[str, Tensor]
    x: Tensor
    before: Tensor  # the states before each step
    after: Tensor  # the states after each step
    named: Mapping[str, Tensor]  # every named value of the equations
    live: Tensor  # (time, batch): within the length of the sequence
    widths: Mapping[str, int]  # of the states

    @property
    def output(self) -> Tensor:
        """The output of the layer: its first state."""
        return self.after[..., : next(iter(self.widths.values()))]

    def to(self, dtype: torch.dtype) -> RecordedLayer:
        """The same in another precision."""
        if dtype == self.x.dtype:
            return self
        return replace(
            self,
            x=self.x.to(dtype),
            before=self.before.to(dtype),
            after=self.after.to(dtype),
            parameters={name: value.to(dtype) for name, value in self.parameters.items()},
            named={name: value.to(dtype) for name, value in self.named.items()},
        )

    def split(self, states: Tensor) -> dict[str, Tensor]:
        """States by name."""
        return dict(zip(self.widths, states.split(list(self.widths.values()), -1), strict=True))

    def advance(self, x: Tensor, states: Tensor) -> Tensor:
        """One step of n sequences: (n, input) and (n, states) → (n, states); differentiable."""
        new, _ = self.evaluate(self.parameters, x, tuple(self.split(states).values()))
        return torch.cat([value.expand(len(x), -1) for value in new], -1)

    @cached_property
    def linear(self) -> LinearLayer:
        """Its steps for small changes and gradients."""
        return make_linear_layer(self.equations, self.parameters, self.widths)

    def pull(self, x: Tensor, states: Tensor, cotangents: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """One step of n sequences backward: the gradients of x, of the states before, and of the parameters."""
        step = self.linear.at(x, states)
        found = step.pull(cotangents)
        own = step.gradients(found)
        parameters = {name: own.get(name, torch.zeros_like(value)) for name, value in self.parameters.items()}
        return torch.zeros_like(x) if found.x is None else found.x, found.states, parameters

    def jacobians(self, x: Tensor, states: Tensor) -> Tensor:
        """∂(states after)/∂(states before) of n steps: (n, states, states)."""
        return self.linear.at(x, states).jacobians()
