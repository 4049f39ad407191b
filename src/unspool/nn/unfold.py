"""Unfolded: a recurrent layer over a known number of steps, as a feed-forward network."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.cell import check_size
from unspool.errors import ArgumentTypeError, ShapeError
from unspool.nn.checks import check_input, check_state
from unspool.nn.layer import from_time_major, to_time_major
from unspool.nn.leaves import map_leaves
from unspool.nn.recurrent import Recurrent


class Step(nn.Module):
    """One layer of the feed-forward network: (x_t, states at t−1) → states at t, by a recurrent layer's weights."""

    def __init__(self, layer: Recurrent) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return self.layer.take_step(x, states)


class Unfolded(nn.Module):
    """A recurrent layer as one module per time step, `unfolded.steps[t]`.

    It is called as the layer is, `output, state = unfolded(x, state)`, for x of exactly `steps` steps.

    Args:
        layer: the recurrent layer.
        steps: how many steps to unfold.
        tied: whether the modules share the layer's own parameters. Otherwise each has a copy, whose gradient is its
            step's share of the shared parameters' gradient.

    Example:
        >>> layer = unspool.nn.Recurrent("gru", 3, 4)
        >>> unfolded = unspool.nn.Unfolded(layer, steps=5, tied=False)
        >>> unfolded(torch.randn(5, 2, 3))[0].sum().backward()
        >>> gradients = [step.layer.U_z.grad for step in unfolded.steps]  # they add up to the layer's
    """

    def __init__(self, layer: Recurrent, steps: int, tied: bool = True) -> None:
        super().__init__()
        if not isinstance(layer, Recurrent):
            raise ArgumentTypeError.of("layer", layer, "is not a Recurrent", "Unfold the layers of a stack one by one")
        check_size("steps", steps)
        self.input_size, self.output_size, self.batch_first = layer.input_size, layer.output_size, layer.batch_first
        self.reverse, self.tied = layer.reverse, tied
        self.steps = nn.ModuleList(Step(layer if tied else copy.deepcopy(layer)) for _ in range(steps))
        if not tied and layer.learn_initial:
            for step in self._walk()[1:]:
                _forget_initial_state(step.layer)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """`(output, state)`, with the layout of the layer's."""
        first = self._walk()[0].layer
        like = next(self.parameters(), None)
        check_input(x, self.input_size, like)
        batched = x.dim() == 3
        x = to_time_major(x, self.batch_first)
        if len(x) != len(self.steps):
            problem = f"has {len(x)} step(s) where {len(self.steps)} are unfolded"
            raise ShapeError.of("x", tuple(x.shape), problem, f"Give {len(self.steps)}, or unfold again")
        if state is None:
            state = first.initial_state(x.shape[1], x)
        else:
            state = state if batched else map_leaves(lambda part: part.unsqueeze(0), state)
            check_state(state, first.state_shapes(x.shape[1]), like)
        single = isinstance(state, Tensor)
        output, states = self._run(x, (state,) if single else tuple(state))
        state = states[0] if single else states
        output = from_time_major(output, batched, self.batch_first)
        return output, state if batched else map_leaves(lambda part: part.squeeze(0), state)

    def _run(self, x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Step after step over a time-major sequence: the output and the final states."""
        outputs = []
        for step, x_t in zip(self._walk(), x.flip(0) if self.reverse else x, strict=True):
            states = step(x_t, states)
            outputs.append(states[0])
        return torch.stack(outputs[::-1] if self.reverse else outputs), states

    def extra_repr(self) -> str:
        return f"tied={self.tied}"

    def _walk(self) -> list[Step]:
        """The modules in the order in which they run."""
        children = self.steps.children()
        steps = [step for step in children if isinstance(step, Step) and isinstance(step.layer, Recurrent)]
        if not steps or not isinstance(self.steps, nn.ModuleList) or len(steps) != len(self.steps):
            raise ArgumentTypeError.of("steps", self.steps, "are not all steps of a layer", "Unfold the layer again")
        return steps[::-1] if self.reverse else steps


def _forget_initial_state(layer: Recurrent) -> None:
    """Only the first step uses an initial state."""
    for state in layer.equations.states:
        delattr(layer, f"initial_{state}")
    layer.learn_initial = False
