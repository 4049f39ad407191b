"""Call: one run of one recurrence, cut out of the model's graph, and how gradients pass through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unspool.insight.linear_step import LinearStep, Pulled
from unspool.insight.recorded_layer import RecordedLayer
from unspool.nn.unroll import States


@dataclass(frozen=True, eq=False)
class Call:
    """One run of one recurrence."""

    layer: RecordedLayer  # with the values of this call alone
    x: Tensor  # as the graph has it
    starts: States  # as the graph has them
    output: Tensor  # a leaf of the graph
    finals: States  # leaves of the graph
    ends: Tensor  # lengths of the sequences

    @property
    def leaves(self) -> list[Tensor]:
        """The tensors that the rest of the model reads from this call."""
        return [self.output, *self.finals]

    def has_read(self, name: str, x: Tensor, starts: Sequence[Tensor], ends: Tensor) -> bool:
        """Whether the layer of this name would repeat this call on such values."""
        own = [self.x, *self.starts, self.ends]
        same = all(torch.equal(one, other) for one, other in zip(own, [x, *starts, ends], strict=True))
        return self.layer.name == name and same

    def inject(self, cotangents: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
        """Cotangents of the leaves as those of the states after each step, and of the starts of empty sequences."""
        steps = self.layer.after
        found = torch.zeros_like(steps)
        if cotangents[0] is not None:
            found[..., : self.output.shape[-1]] += cotangents[0].to(found) * self.layer.live.unsqueeze(-1)
        rows = torch.arange(steps.shape[1])
        last = torch.zeros_like(self.ends) if self.layer.reverse else self.ends - 1
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

    def make_linear(self, dtype: torch.dtype = torch.float64) -> LinearStep:
        """Its live steps, linear around what was recorded."""
        layer, live = self.layer.to(dtype), self.layer.live
        return layer.linear.at(layer.x[live], layer.before[live])

    def pull(self, cotangents: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Through each step separately: gradients of x and of the states before each step, and of the parameters."""
        step = self.make_linear()
        x, before, found = self.pull_through(step, cotangents)
        return x, before, self.find_parameters(found, step)

    def pull_through(
        self, step: LinearStep, cotangents: Tensor, to_input: bool = True
    ) -> tuple[Tensor, Tensor, Pulled]:
        """Through each step separately: gradients of x (without `to_input` 0) and of the states before each step.

        The last is the same at live steps only, with what the gradients of parameters are made from.
        """
        live = self.layer.live
        found = step.pull(cotangents[live], to_input)
        x, before = cotangents.new_zeros(self.layer.x.shape), torch.zeros_like(cotangents)
        before[live] = found.states
        if found.x is not None:
            x[live] = found.x
        return x, before, found

    def find_parameters(self, pulled: Pulled, step: LinearStep) -> dict[str, Tensor]:
        """Gradients of the parameters, from what was pulled through the live steps."""
        own = step.gradients(pulled)
        known = self.layer.parameters.items()
        return {name: own[name] if name in own else torch.zeros_like(value) for name, value in known}

    def pull_input(self, cotangents: Tensor) -> Tensor:
        """The gradient of x that `pull` gives, in the model's own precision."""
        layer = self.layer.to(self.output.dtype)
        live = layer.live
        found = torch.zeros_like(layer.x)
        pulled = layer.linear.at(layer.x[live], layer.before[live]).pull(cotangents[live].to(layer.x)).x
        if pulled is not None:
            found[live] = pulled
        return found

    def cross(self, before: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the states before each step as those after the previous step, and of the starts."""
        start = torch.zeros_like(before[0])
        if not len(before):
            return before, start
        moved = torch.zeros_like(before)
        rows = torch.arange(before.shape[1])
        some = self.ends > 0
        first = (self.ends - 1 if self.layer.reverse else torch.zeros_like(self.ends))[some]
        start[some] = before[first, rows[some]]
        rest = before.clone()
        rest[first, rows[some]] = 0
        if self.layer.reverse:
            moved[1:] = rest[:-1]
        else:
            moved[:-1] = rest[1:]
        return moved, start

    def adjoints(self, cotangents: Tensor, final: Tensor) -> tuple[Tensor, Tensor]:
        """Total gradients of the states after each step, and of the starts, from those that enter from outside.

        In the model's own precision, since it goes step by step, which takes time.
        """
        layer = self.layer.to(self.output.dtype)
        found, carried = torch.zeros_like(cotangents, dtype=layer.x.dtype), final.to(layer.x)
        steps = [t for t, live in enumerate(layer.live.any(1).tolist()) if live]
        order = steps if layer.reverse else steps[::-1]
        cotangents = cotangents.to(layer.x)
        for t, step in zip(order, layer.linear.iterate(layer.x, layer.before, order), strict=True):
            live = layer.live[t].unsqueeze(-1)
            found[t] = (carried + cotangents[t]) * live
            carried = torch.where(live, step.pull(found[t], to_input=False).states, carried)
        return found.double(), carried.double()
