"""TimeDelay: answers later, so that each answer has seen some of the future."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells.cell import check_size
from unspool.errors import ArgumentTypeError
from unspool.nn.layer import Layer, valid_steps


class TimeDelay(Layer):
    """A layer whose output for step t is read at step t + `delay`.

    After each row's last step the layer reads `delay` steps of zeros, and goes on in its state. A delay of
    0 is the layer itself. The state and trace are the layer's; the trace runs over the delayed steps too.
    """

    def __init__(self, layer: Layer, delay: int) -> None:
        super().__init__()
        if not isinstance(layer, Layer):
            raise ArgumentTypeError.of("layer", layer, "is not a layer of unspool.nn", "Give a Recurrent or a Stack")
        self.layer = layer
        self.delay = check_size("delay", delay, least=0)
        self.input_size, self.output_size, self.batch_first = layer.input_size, layer.output_size, layer.batch_first

    def run(self, x: Tensor, state: Any, ends: Tensor | None, trace: bool) -> tuple[Tensor, Any, Any]:
        steps, rows, width = x.shape
        if not steps:
            return self.layer.run(x, state, ends, trace)
        later = torch.cat((x, x.new_zeros(self.delay, rows, width)))
        if ends is None:
            output, state, values = self.layer.run(later, state, None, trace)
            return output[self.delay :], state, values
        inside = valid_steps(ends, len(later))
        late_ends = torch.where(ends > 0, ends + self.delay, ends)
        output, state, values = self.layer.run(later.masked_fill(~inside, 0.0), state, late_ends, trace)
        return output[self.delay :].masked_fill(~inside[:steps], 0.0), state, values

    def state_shapes(self, rows: int) -> Any:
        return self.layer.state_shapes(rows)

    def initial_state(self, rows: int, like: Tensor) -> Any:
        return self.layer.initial_state(rows, like)

    def check_state(self, state: Any, rows: int, like: Tensor | None) -> None:
        self.layer.check_state(state, rows, like)

    def extra_repr(self) -> str:
        return f"delay={self.delay}"
