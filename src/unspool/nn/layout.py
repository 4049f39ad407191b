"""Layout: how a layer's parameter tensors hold the parameters of the equations."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from unspool.cells.equations import Equations
from unspool.engine.kernel import Place

Tensors = Sequence[Tensor]


class Layout:
    """One tensor per parameter, in the order of the equations. Subclasses say where the parameters lie otherwise."""

    #: Where in the tensors each parameter lies, and what is added to it; None where each tensor is one parameter.
    places: Sequence[tuple[Place, Place]] | None = None

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def shapes(self, equations: Equations, input_size: int, hidden_size: int) -> list[tuple[int, ...]]:
        """The shape of each tensor."""
        return list(equations.shapes(input_size, hidden_size).values())

    def named(self, tensors: Tensors) -> dict[str, Tensor]:
        """The parameters by name, as differentiable parts of the tensors."""
        return dict(zip(self.names, tensors, strict=True))
