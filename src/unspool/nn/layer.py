"""Layer: sequence in, sequence out. Layout, checks and initial states are solved here once for every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.nn.checks import check_input, check_lengths, check_state, check_viewable
from unspool.nn.leaves import map_leaves
from unspool.nn.recording import find_symbol, record_call, refuse_script
from unspool.nn.route import describe_routes, find_routes


class Layer(nn.Module):
    """The base of every layer: a module called as `output, state = layer(x, state, lengths=…)`.

    x is (time, batch, input_size), with `batch_first` (batch, time, input_size), or, unbatched, (time, input_size).
    The output has the same layout. States have no time axis: (batch, width), or (width,) unbatched, nested as the
    layer's parts are. Steps beyond a sequence's length give zeros, leave its state as it was, and change nothing else.

    A subclass defines `run`, `state_shapes`, and the attributes `input_size`, `output_size` and `batch_first`.

    Example:
        >>> layer = unspool.nn.Recurrent("gru", 3, 4)
        >>> output, state = layer(torch.randn(7, 2, 3))
        >>> output, state = layer(torch.randn(7, 2, 3), state, lengths=[7, 4])  # continues from there
    """

    input_size: int
    output_size: int
    batch_first: bool

    def forward(
        self,
        x: Tensor,
        state: Any = None,
        # not keyword-only: torch.onnx.export(dynamo=False) gives every default by its place
        lengths: Sequence[int] | Tensor | None = None,
        trace: bool = False,
        **options: Any,
    ) -> Any:
        """Run over a sequence or a batch of them.

        Args:
            x: the input.
            state: the state to start from, as a call returns it; by default `initial_state`.
            lengths: the number of steps of each sequence of a padded batch, in any order, zero allowed.
            trace: whether to return every named value of the equations at every step.
            **options: what the layer's `run` takes beyond this.

        Returns:
            `(output, state)`, or with `trace=True` `(output, state, values)`.
        """
        if (symbol := find_symbol(x, state, lengths)) is not None:
            return record_call(self, symbol, x, state, lengths=lengths, trace=trace, **options)
        like = self._first_parameter()
        check_input(x, self.input_size, like)
        like = x if like is None else like
        batched = x.dim() == 3
        x = to_time_major(x, self.batch_first)
        steps, rows, _ = x.shape
        ends = None if lengths is None else check_lengths(lengths, steps, rows, x.device)
        state = self._start(state, rows, x, like, batched)
        output, state, values = self.run(x, state, ends, trace, **options)

        def leave(sequence: Tensor) -> Tensor:
            return from_time_major(sequence, batched, self.batch_first)

        output = map_leaves(leave, output)
        state = state if batched else map_leaves(lambda part: part.squeeze(0), state)
        return (output, state, map_leaves(leave, values)) if trace else (output, state)

    def _first_parameter(self) -> Tensor | None:
        """The first parameter, if there is one; its own without a walk through the parts."""
        for parameter in self._parameters.values():
            if parameter is not None:
                return parameter
        return next(self.parameters(), None)

    def _start(self, state: Any, rows: int, x: Tensor, like: Tensor, batched: bool) -> Any:
        """The state to start from, with a batch axis."""
        try:
            if state is None:
                return self.initial_state(rows, x)
            state = state if batched else map_leaves(_with_batch, state)
            self.check_state(state, rows, like)
        except RecursionError as error:
            name = type(self).__name__
            raise ArgumentError(f"this {name} is a part of itself. Replace that part by another layer.") from error
        return state

    def __prepare_scriptable__(self) -> nn.Module:
        raise refuse_script(self)

    def run(self, x: Tensor, state: Any, ends: Tensor | None, trace: bool) -> tuple[Any, Any, Any]:
        """Output, final state and trace for checked, batched, time-major input."""
        raise NotImplementedError

    def state_shapes(self, rows: int) -> Any:
        """The shape of each state for a batch size of `rows`, nested as states are."""
        raise NotImplementedError

    def initial_state(self, rows: int, like: Tensor) -> Any:
        """The state that a call starts from when none is given. Nothing is run to find its shape.

        Args:
            rows: the batch size.
            like: a tensor of the dtype and on the device that the state is to have, such as x.

        Returns:
            Zeros, or what the layer has learned with `learn_initial`, nested as the states of a call.

        Example:
            >>> unspool.nn.Stack("lstm", 3, 4, num_layers=2).initial_state(5, torch.zeros(1))  # [(h, c), (h, c)]
        """
        return map_leaves(like.new_zeros, self.state_shapes(rows))

    def check_state(self, state: Any, rows: int, like: Tensor | None) -> None:
        """Refuse a given state that does not fit a batch size of `rows`."""
        check_state(state, self.state_shapes(rows), like)

    @property
    def engine(self) -> str:
        """How the layer runs on its own device and dtype, in its present mode, and why; see `unspool.nn.route`.

        Example:
            >>> unspool.nn.Recurrent("gru", 3, 4).engine
            'kernel: float32 on the CPU'
        """
        return describe_routes(find_routes(self))


def as_layer(name: str, part: object) -> Layer:
    """`part` as a layer; it may have been replaced by something else since."""
    if not isinstance(part, Layer):
        raise ArgumentTypeError.of(name, part, "is not a layer of unspool.nn", "Give a Recurrent or a Stack")
    return part


def _with_batch(state: Tensor | torch.Size) -> Tensor | torch.Size:
    """A state of one sequence as that of a batch of one; what is no tensor is refused later, with its place."""
    if not isinstance(state, Tensor):
        return state
    check_viewable("state", state)
    return state.unsqueeze(0)


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


def valid_steps(ends: Tensor, steps: int) -> Tensor:
    """(time, batch, 1): whether a step lies within its sequence's length."""
    return (torch.arange(steps, device=ends.device).unsqueeze(1) < ends).unsqueeze(-1)
