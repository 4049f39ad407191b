"""Layer: sequence in, sequence out. Layout, checks and initial states are solved here once for every layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unspool.nn.checks import check_input, check_lengths, check_state


class Layer(nn.Module):
    """A module called as `output, state = layer(x, state, lengths=…)`.

    x is (time, batch, input_size), with `batch_first` (batch, time, input_size), or, unbatched, (time, input_size).
    The output is laid out alike. States have no time axis: (batch, width), or (width,) unbatched, nested as the
    layer's parts are. Steps beyond a row's length give zeros, leave its state as it was, and change nothing else.
    """

    input_size: int
    output_size: int
    batch_first: bool

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        *,
        lengths: Sequence[int] | Tensor | None = None,
        trace: bool = False,
    ) -> Any:
        """`(output, state)`; with `trace=True` `(output, state, every named value at every step)`."""
        return self._call(x, state, lengths, trace)

    def run(self, x: Tensor, state: Any, ends: Tensor | None, trace: bool) -> tuple[Any, Any, Any]:
        """Output, final state and trace for checked, batched, time-major input."""
        raise NotImplementedError

    def state_shapes(self, rows: int) -> Any:
        """The shape of each state for a batch of `rows`, nested as states are."""
        raise NotImplementedError

    def initial_state(self, rows: int, like: Tensor) -> Any:
        """The state to start from when none is given: zeros."""
        return map_leaves(like.new_zeros, self.state_shapes(rows))

    def check_state(self, state: Any, rows: int, like: Tensor | None) -> None:
        """Refuse a given state that does not fit a batch of `rows`."""
        check_state(state, self.state_shapes(rows), like)

    def _call(self, x: Tensor, state: Any, lengths: Sequence[int] | Tensor | None, trace: bool, **options: Any) -> Any:
        like: Tensor | None = next(self.parameters(), None)
        check_input(x, self.input_size, like)
        like = x if like is None else like
        batched = x.dim() == 3
        x = to_time_major(x, self.batch_first)
        steps, rows, _ = x.shape
        ends = None if lengths is None else check_lengths(lengths, steps, rows, x.device)
        if state is None:
            state = self.initial_state(rows, x)
        else:
            state = state if batched else map_leaves(lambda part: part.unsqueeze(0), state)
            self.check_state(state, rows, like)
        output, state, values = self.run(x, state, ends, trace, **options)

        def leave(sequence: Tensor) -> Tensor:
            return from_time_major(sequence, batched, self.batch_first)

        output = map_leaves(leave, output)
        state = state if batched else map_leaves(lambda part: part.squeeze(0), state)
        return (output, state, map_leaves(leave, values)) if trace else (output, state)


def to_time_major(x: Tensor, batch_first: bool) -> Tensor:
    """(time, batch, width), whatever the layout was."""
    if x.dim() == 2:
        return x.unsqueeze(1)
    return x.transpose(0, 1) if batch_first else x


def from_time_major(x: Tensor, batched: bool, batch_first: bool) -> Tensor:
    """The layout that `to_time_major` came from."""
    if not batched:
        return x.squeeze(1)
    return x.transpose(0, 1) if batch_first else x


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same nesting of tuples, lists and dicts, with the function applied to what they hold."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, part) for key, part in tree.items()}
    if isinstance(tree, tuple | list) and not isinstance(tree, torch.Size):
        return type(tree)(map_leaves(function, part) for part in tree)
    return function(tree) if isinstance(tree, Tensor | torch.Size) else tree


def valid_steps(ends: Tensor, steps: int) -> Tensor:
    """(time, batch, 1): whether a step lies within its row's length."""
    return (torch.arange(steps, device=ends.device).unsqueeze(1) < ends).unsqueeze(-1)
