"""TorchLayout: where the equations' parameters lie in torch.nn's (weight_ih, weight_hh, two biases, a projection)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from unspool.cells.equations import Equations
from unspool.engine.kernel import NOWHERE, Place
from unspool.nn.layout import Layout, Tensors


class TorchLayout(Layout):
    """torch.nn stacks the gates' matrices in one tensor and has two biases, whose sum is the one of the equations.

    Only the GRU whose reset gate acts after the product needs both: there r multiplies the recurrent product with its
    own bias, in the map that the equations call "hn" and torch.nn stacks last.
    """

    def __init__(self, equations: Equations, gates: Sequence[str], input_size: int, hidden_size: int) -> None:
        bias = any(name.startswith("b_") for name in equations.parameters)
        self.projected = "U_p" in equations.parameters
        super().__init__(
            ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if bias else ()), *(("weight_hr",) * self.projected))
        )
        self.gates, self.bias = tuple(gates), bias
        self.apart = "U_hn" in equations.parameters
        shapes = self.shapes(equations, input_size, hidden_size)
        self.places = [self._place(name, hidden_size, [shape[-1] for shape in shapes]) for name in equations.parameters]

    def shapes(self, equations: Equations, input_size: int, hidden_size: int) -> list[tuple[int, ...]]:
        rows = len(self.gates) * hidden_size
        shown = equations.size(next(iter(equations.states.values())), input_size, hidden_size)
        biases = [(rows,), (rows,)] if self.bias else []
        return [(rows, input_size), (rows, shown), *biases, *([(shown, hidden_size)] if self.projected else [])]

    def named(self, tensors: Tensors) -> dict[str, Tensor]:
        return name_parts(tensors, self.gates, self.bias, self.apart, self.projected)

    def _place(self, name: str, rows: int, widths: Sequence[int]) -> tuple[Place, Place]:
        """Where a parameter lies, and where what is added to it: most biases are the sum of torch.nn's two."""
        letter, gate = name.split("_")
        if name == "U_p":
            return (len(self.names) - 1, 0), NOWHERE
        row = rows * (len(self.gates) - 1 if gate == "hn" else self.gates.index(gate))
        if letter == "W":
            return (0, row * widths[0]), NOWHERE
        if letter == "U":
            return (1, row * widths[1]), NOWHERE
        if self.apart and gate in ("n", "hn"):
            return (3 if gate == "hn" else 2, row), NOWHERE
        return (2, row), (3, row)


def name_parts(tensors: Tensors, gates: tuple[str, ...], bias: bool, apart: bool, projected: bool) -> dict[str, Tensor]:
    """The parameters of the equations, as differentiable parts of torch.nn's."""
    count = len(gates)
    found = _by_gate("W", gates, tensors[0]) | _by_gate("U", gates, tensors[1])
    if bias:
        found |= _by_gate("b", gates, tensors[2] + tensors[3])
    if projected:
        found["U_p"] = tensors[-1]
    if apart:
        found["U_hn"] = found.pop("U_n")
        if bias:
            found["b_n"], found["b_hn"] = (side.chunk(count)[-1] for side in tensors[2:4])
    return found


def _by_gate(letter: str, gates: tuple[str, ...], stacked: Tensor) -> dict[str, Tensor]:
    """The blocks of a parameter of torch.nn, by the names of the equations."""
    return {f"{letter}_{gate}": part for gate, part in zip(gates, stacked.chunk(len(gates)), strict=True)}
