"""Bidirectional: one cell forward in time, another backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells import Cell
from unspool.nn.layer import Layer, as_layer
from unspool.nn.recurrent import Recurrent


class Bidirectional(Layer):
    """Two independent layers of one kind of cell, one for each direction of time.

    The output is the forward layer's and the backward layer's side by side: twice as wide. The state is a pair
    (forward, backward), and so is the trace. Padding changes nothing: the backward layer starts at each sequence's own
    last step.

    Args:
        cell: of both directions, as in `Recurrent`.
        input_size: the width of x.
        hidden_size: the number of units per direction.
        bias: as in `Recurrent`.
        batch_first: whether x and the output are (batch, time, width).
        learn_initial: as in `Recurrent`.
        recompute: as in `Recurrent`.
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> output, (ahead, back) = unspool.nn.Bidirectional("gru", 3, 4)(torch.randn(7, 2, 3), lengths=[7, 5])
        >>> output.shape
        torch.Size([7, 2, 8])
    """

    def __init__(
        self,
        cell: str | Cell | type[Cell],
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        batch_first: bool = False,
        learn_initial: bool = False,
        recompute: int | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.ahead, self.back = (
            Recurrent(
                cell,
                input_size,
                hidden_size,
                bias=bias,
                reverse=reverse,
                learn_initial=learn_initial,
                recompute=recompute,
                device=device,
                dtype=dtype,
            )
            for reverse in (False, True)
        )
        self.input_size, self.hidden_size, self.batch_first = self.ahead.input_size, self.ahead.hidden_size, batch_first
        self.output_size = self.ahead.output_size + self.back.output_size

    def run(self, x: Tensor, state: Any, ends: Tensor | None, trace: bool) -> tuple[Tensor, Any, Any]:
        ahead_layer, back_layer = self._both()
        ahead, ahead_state, ahead_values = ahead_layer.run(x, state[0], ends, trace)
        back, back_state, back_values = back_layer.run(x, state[1], ends, trace)
        return torch.cat((ahead, back), -1), (ahead_state, back_state), (ahead_values, back_values)

    def state_shapes(self, rows: int) -> Any:
        ahead, back = self._both()
        return ahead.state_shapes(rows), back.state_shapes(rows)

    def initial_state(self, rows: int, like: Tensor) -> Any:
        ahead, back = self._both()
        return ahead.initial_state(rows, like), back.initial_state(rows, like)

    def _both(self) -> tuple[Layer, Layer]:
        return as_layer("ahead", self.ahead), as_layer("back", self.back)
