"""Call: one run of one recurrence, cut out of the model's graph, and the ways of gradients through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unspool.insight.unit import Unit
from unspool.nn.unroll import States


@dataclass(frozen=True, eq=False)
class Call:
    """One run of one recurrence."""

    unit: Unit  # with what passed in this call alone
    x: Tensor  # as the graph has it
    starts: States  # as the graph has them
    output: Tensor  # a leaf of the graph
    finals: States  # leaves of the graph
    ends: Tensor  # lengths of the rows

    @property
    def leaves(self) -> list[Tensor]:
        """What the rest of the model reads of this call."""
        return [self.output, *self.finals]

    def inject(self, cotangents: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
        """Cotangents of the leaves as those of the states after each step, and of the starts of rows without steps."""
        steps = self.unit.after
        found = torch.zeros_like(steps)
        if cotangents[0] is not None:
            found[..., : self.output.shape[-1]] += cotangents[0].to(found) * self.unit.live.unsqueeze(-1)
        rows = torch.arange(steps.shape[1])
        last = torch.zeros_like(self.ends) if self.unit.reverse else self.ends - 1
        final = torch.cat(
            [
                torch.zeros_like(leaf, dtype=found.dtype) if got is None else got.to(found)
                for leaf, got in zip(self.finals, cotangents[1:], strict=True)
            ],
            -1,
        )
        some = self.ends > 0
        found[last[some], rows[some]] += final[some]
        return found, final * ~some.unsqueeze(-1)

    def pull(self, cotangents: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Through every step on its own: gradients of x and of the states before each step, and of the parameters."""
        live = self.unit.live
        x, before = torch.zeros_like(self.unit.x), torch.zeros_like(self.unit.before)
        found = self.unit.pull(self.unit.x[live], self.unit.before[live], cotangents[live])
        x[live], before[live] = found[0], found[1]
        return x, before, found[2]

    def pull_input(self, cotangents: Tensor) -> Tensor:
        """Of `pull` the gradient of x alone, in the model's own numbers."""
        unit = self.unit.to(self.output.dtype)
        live = unit.live
        found = torch.zeros_like(unit.x)
        x = unit.x[live].requires_grad_()
        with torch.enable_grad():
            new = unit.advance(x, unit.before[live])
        if new.requires_grad:
            (found[live],) = torch.autograd.grad(new, x, cotangents[live].to(x))
        return found

    def cross(self, before: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of states before each step as those after the step that gave them, and of the starts."""
        start = torch.zeros_like(before[0])
        if not len(before):
            return before, start
        moved = torch.zeros_like(before)
        rows = torch.arange(before.shape[1])
        some = self.ends > 0
        first = (self.ends - 1 if self.unit.reverse else torch.zeros_like(self.ends))[some]
        start[some] = before[first, rows[some]]
        rest = before.clone()
        rest[first, rows[some]] = 0
        if self.unit.reverse:
            moved[1:] = rest[:-1]
        else:
            moved[:-1] = rest[1:]
        return moved, start

    def adjoints(self, cotangents: Tensor, final: Tensor) -> tuple[Tensor, Tensor]:
        """Total gradients of the states after each step, and of the starts, from those that come from outside.

        In the model's own numbers, since it goes step by step, and that takes time.
        """
        unit = self.unit.to(self.output.dtype)
        steps = range(len(unit.x))
        found, carried = torch.zeros_like(cotangents, dtype=unit.x.dtype), final.to(unit.x)
        for t in steps if unit.reverse else reversed(steps):
            live = unit.live[t]
            if not live.any():
                continue
            found[t] = (carried + cotangents[t]) * live.unsqueeze(-1)
            old = unit.before[t].requires_grad_()
            with torch.enable_grad():
                new = unit.advance(unit.x[t], old)
            back: Tensor | None = None
            if new.requires_grad:
                (back,) = torch.autograd.grad(new, old, found[t], allow_unused=True)
            carried = torch.where(live.unsqueeze(-1), torch.zeros_like(old) if back is None else back, carried)
        return found.double(), carried.double()
