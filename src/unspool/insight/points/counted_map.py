"""CountedMap: a map whose evaluations are counted against a budget, with its Jacobians.

One evaluation is one step of one state. A Jacobian counts as many as it has rows, which is what reverse mode takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

#: One step of n states, (n, states) → (n, states); differentiable.
Map = Callable[[Tensor], Tensor]
#: Numbers of the Jacobians that are computed at once.
TOGETHER = 2**22
#: Jacobians of wider states are not formed by the solver; then one of its steps takes about so many evaluations.
WIDE, MOVE = 1024, 40


class Linear(Protocol):
    """A map that is linear around n states."""

    def push(self, states: Tensor, /) -> Tensor:
        """The change after a step from that before it."""

    def pull(self, states: Tensor, /) -> Tensor:
        """The gradient before a step from that after it."""

    def jacobians(self) -> Tensor:
        """(n, states, states)."""


class CountedMap:
    """A map with a budget. Who uses it asks `affords` first: an evaluation beyond the budget is still made."""

    def __init__(self, step: Map, budget: int, linear: Callable[[Tensor], Linear] | None = None) -> None:
        self._step, self.budget, self.used, self._linear = step, budget, 0, linear

    def can_do_without(self, width: int) -> bool:
        """Whether states are so wide that solutions are found without forming Jacobians."""
        return self._linear is not None and width > WIDE

    def cost_of_move(self, width: int) -> int:
        """About how many evaluations a step of the solver takes."""
        return MOVE if self.can_do_without(width) else width + 1

    def linear(self, states: Tensor) -> Linear:
        """The map, linear around n states; its products are counted by `count`."""
        assert self._linear is not None
        return self._linear(states)

    def count(self, evaluations: int) -> None:
        """Note evaluations that were made of the linear map."""
        self.used += evaluations

    def affords(self, evaluations: int) -> bool:
        """Whether so many more evaluations are within the budget."""
        return self.used + evaluations <= self.budget

    def __call__(self, states: Tensor) -> Tensor:
        """One step of n states."""
        self.used += len(states)
        with torch.no_grad():
            return self._step(states).detach()

    def jacobians(self, states: Tensor) -> Tensor:
        """∂F/∂s at n states: (n, states, states)."""
        count, width = states.shape
        self.used += count * width
        found = states.new_zeros(count, width, width)
        together = max(1, TOGETHER // max(1, width * width))
        for first in range(0, count, together):
            part = slice(first, first + together)
            found[part] = self._jacobians(states[part])
        return found

    def _jacobians(self, states: Tensor) -> Tensor:
        if self._linear is not None:
            return self._linear(states).jacobians()
        count, width = states.shape
        old = states.detach().requires_grad_()
        with torch.enable_grad():
            new = self._step(old)
        if not new.requires_grad:
            return states.new_zeros(count, width, width)
        basis = torch.eye(width, dtype=states.dtype).unsqueeze(1).expand(width, count, width)
        (found,) = torch.autograd.grad(new, old, basis, is_grads_batched=True)
        return found.transpose(0, 1)
