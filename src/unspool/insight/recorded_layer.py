"""RecordedLayer: one recurrent layer in one direction, with every value that it read and computed while recorded.

Arrays are float64, laid out (time, batch, width), in the order of time even where the layer ran backward. The states of
a cell with several, such as h and c, are side by side in one width, in the order of its equations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unspool.cells import Cell
from unspool.cells.equations import Equations
from unspool.cells.evaluate import Evaluator


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

    def pull(self, x: Tensor, states: Tensor, cotangents: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """One step of n sequences backward: the gradients of x, of the states before, and of the parameters."""
        x, states = x.detach().requires_grad_(), states.detach().requires_grad_()
        parameters = {name: value.detach().requires_grad_() for name, value in self.parameters.items()}
        with torch.enable_grad():
            new, _ = self.evaluate(parameters, x, tuple(self.split(states).values()))
            joined = torch.cat([value.expand(len(x), -1) for value in new], -1)
        inputs = [x, states, *parameters.values()]
        if not joined.requires_grad:
            found: list[Tensor | None] = [None] * len(inputs)
        else:
            found = list(torch.autograd.grad(joined, inputs, cotangents, allow_unused=True))
        whole = [torch.zeros_like(one) if got is None else got for one, got in zip(inputs, found, strict=True)]
        return whole[0], whole[1], dict(zip(parameters, whole[2:], strict=True))

    def jacobians(self, x: Tensor, states: Tensor) -> Tensor:
        """∂(states after)/∂(states before) of n steps: (n, states, states)."""
        rows, width = states.shape
        found = states.new_empty(rows, width, width)
        together = max(1, 2**22 // (width * width))  # Jacobians that are computed at once
        for first in range(0, rows, together):
            part = slice(first, first + together)
            old = states[part].detach().requires_grad_()
            with torch.enable_grad():
                new = self.advance(x[part].detach(), old)
            basis = torch.eye(width, dtype=states.dtype).unsqueeze(1).expand(width, len(old), width)
            if not new.requires_grad:
                found[part] = 0
                continue
            (rows_of,) = torch.autograd.grad(new, old, basis, is_grads_batched=True)
            found[part] = rows_of.transpose(0, 1)
        return found
