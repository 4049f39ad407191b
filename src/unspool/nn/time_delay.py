"""TimeDelay: outputs come later, so that each has seen some of the future."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError
from unspool.nn.checks import check_room
from unspool.nn.layer import Layer, as_layer, valid_steps
from unspool.nn.leaves import map_leaves
from unspool.nn.stack import Stack


class TimeDelay(Layer):
    """A layer whose output for step t is read at step t + `delay`.

    After each row's last step the layer reads `delay` steps of zeros and continues in its state. A delay of 0 is the
    layer itself. The state and the trace are the layer's; the trace includes the delayed steps. The final state
    includes them too, so a sequence cannot be cut into parts that are run one after the other.

    A call takes what the layer's call takes; around a Stack, with `every_layer=True`, it returns the list of all its
    layers' sequences, each delayed.

    Args:
        layer: A layer of `unspool.nn`, such as a Recurrent or a Stack.
        delay: How many steps of the future each output sees.

    Example:
        >>> layer = TimeDelay(Stack("gru", 8, 16, 2), delay=3)
        >>> output, state = layer(torch.randn(20, 4, 8))
        >>> output.shape
        torch.Size([20, 4, 16])
    """

    def __init__(self, layer: Layer, delay: int) -> None:
        super().__init__()
        self.layer = as_layer("layer", layer)
        self.delay = check_size("delay", delay, least=0)
        self.input_size, self.output_size, self.batch_first = layer.input_size, layer.output_size, layer.batch_first

    def run(
        self, x: Tensor, state: Any, ends: Tensor | None, trace: bool, every_layer: bool = False
    ) -> tuple[Any, Any, Any]:
        if every_layer and not isinstance(inner := _innermost(self), Stack):
            problem = f"asks for the layers of a {type(inner).__name__}"
            raise ArgumentError.of("every_layer", True, problem, "Leave it out, or delay a Stack")
        layer = as_layer("layer", self.layer)
        options: dict[str, Any] = {"every_layer": True} if every_layer else {}
        steps, rows, width = x.shape
        if not steps:
            return layer.run(x, state, ends, trace, **options)
        delay = check_size("delay", self.delay, least=0)
        check_room("delay", delay, (steps + delay) * rows * width, x)
        later = torch.cat((x, x.new_zeros(delay, rows, width)))
        if ends is None:
            output, state, values = layer.run(later, state, None, trace, **options)
            return map_leaves(lambda sequence: sequence[delay:], output), state, values
        inside = valid_steps(ends, len(later))
        late_ends = torch.where(ends > 0, ends + delay, ends)
        output, state, values = layer.run(later.masked_fill(~inside, 0.0), state, late_ends, trace, **options)

        def on_time(sequence: Tensor) -> Tensor:
            return sequence[delay:].masked_fill(~inside[:steps], 0.0)

        return map_leaves(on_time, output), state, values

    def state_shapes(self, rows: int) -> Any:
        return as_layer("layer", self.layer).state_shapes(rows)

    def initial_state(self, rows: int, like: Tensor) -> Any:
        return as_layer("layer", self.layer).initial_state(rows, like)

    def check_state(self, state: Any, rows: int, like: Tensor | None) -> None:
        as_layer("layer", self.layer).check_state(state, rows, like)

    def extra_repr(self) -> str:
        return f"delay={self.delay}"


def _innermost(layer: Layer) -> Layer:
    """What is delayed, be it several times."""
    while isinstance(layer, TimeDelay):
        layer = layer.layer
    return layer
