"""Stacked: torch.nn's parameters (weight_ih, weight_hh, two biases, a projection) as those of the equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.cells.equations import Equations
from unspool.nn.recurrence import Layout, Tensors


class Stacked(Layout):
    """torch.nn stacks the gates' matrices in one tensor and has two biases, whose sum is the equations' one.

    Only the GRU whose reset gate acts after the product tells the two apart: there r multiplies the recurrent product
    with its own bias, in the map that the equations call "hn" and torch stacks last.
    """

    def __init__(self, equations: Equations, gates: Sequence[str]) -> None:
        bias = any(name.startswith("b_") for name in equations.parameters)
        self.projected = "U_p" in equations.parameters
        super().__init__(
            ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if bias else ()), *(("weight_hr",) * self.projected))
        )
        self.gates, self.bias = tuple(gates), bias
        self.apart = "U_hn" in equations.parameters
        self._places = [self._place(name) for name in equations.parameters]

    def shapes(self, equations: Equations, input_size: int, hidden_size: int) -> list[tuple[int, ...]]:
        rows = len(self.gates) * hidden_size
        shown = equations.size(next(iter(equations.states.values())), input_size, hidden_size)
        biases = [(rows,), (rows,)] if self.bias else []
        return [(rows, input_size), (rows, shown), *biases, *([(shown, hidden_size)] if self.projected else [])]

    def named(self, tensors: Tensors) -> dict[str, Tensor]:
        return name_parts(tensors, self.gates, self.bias, self.apart, self.projected)

    def parts(self, tensors: Tensors) -> tuple[list[int], Any]:
        whole = [tensor.contiguous() for tensor in tensors]
        sources = [whole[0], whole[1], whole[-1]]
        if self.bias:
            sources += [whole[2] + whole[3], whole[2], whole[3]]
        return self._addresses(sources), sources

    def gradients(self, tensors: Tensors) -> tuple[list[int], Callable[[], list[Tensor]]]:
        found = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
        sources = [found[0], found[1], found[-1]]
        if self.bias:
            sources += [found[2], found[2], found[3]]

        def finish() -> list[Tensor]:
            if self.bias and self.apart:
                shared = len(found[2]) * (len(self.gates) - 1) // len(self.gates)
                found[3][:shared] = found[2][:shared]
            elif self.bias:
                found[3].copy_(found[2])
            return found

        return self._addresses(sources), finish

    def _place(self, name: str) -> tuple[int, int]:
        """Where a parameter lies: weight_ih, weight_hh, weight_hr, the biases' sum, bias_ih or bias_hh; its gate."""
        letter, gate = name.split("_")
        if name == "U_p":
            return 2, 0
        last = len(self.gates) - 1
        if self.apart and gate in ("n", "hn"):
            return {"W": 0, "U": 1, "b": 5 if gate == "hn" else 4}[letter], last
        return {"W": 0, "U": 1, "b": 3}[letter], self.gates.index(gate)

    def _addresses(self, sources: list[Tensor]) -> list[int]:
        starts = [source.data_ptr() for source in sources]
        count = len(self.gates)
        blocks = [source.numel() // count * source.element_size() for source in sources]
        return [starts[source] + gate * blocks[source] for source, gate in self._places]


def name_parts(tensors: Tensors, gates: tuple[str, ...], bias: bool, apart: bool, projected: bool) -> dict[str, Tensor]:
    """The parameters of the equations, as differentiable parts of torch.nn's."""
    count = len(gates)
    found = {f"W_{gate}": part for gate, part in zip(gates, tensors[0].chunk(count), strict=True)}
    found |= {f"U_{gate}": part for gate, part in zip(gates, tensors[1].chunk(count), strict=True)}
    if bias:
        both = (tensors[2] + tensors[3]).chunk(count)
        found |= {f"b_{gate}": part for gate, part in zip(gates, both, strict=True)}
    if projected:
        found["U_p"] = tensors[-1]
    if apart:
        found["U_hn"] = found.pop("U_n")
        if bias:
            found["b_n"], found["b_hn"] = (side.chunk(count)[-1] for side in tensors[2:4])
    return found
