"""LazyKernel: the compiled kernel of a recurrence, built at first use, or the reason why there is none."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from unspool import engine
from unspool.cells.equations import Equations
from unspool.engine.kernel import Place
from unspool.errors import UnspoolError
from unspool.nn.compiling import constant_result
from unspool.nn.known import Known
from unspool.nn.layout import Tensors


class LazyKernel:
    """The kernel of one cell's equations for given sizes, and the kinds of tensors that it has run with."""

    #: The kernel, once `why_not` has returned None.
    built: engine.Kernel

    def __init__(
        self,
        equations: Equations,
        input_size: int,
        hidden_size: int,
        places: Sequence[tuple[Place, Place]] | None = None,
    ) -> None:
        self._made_of = equations, input_size, hidden_size, places
        self._why_not: str | None = None
        #: Tensors that fit the kernel, by how many states they have: x, then the states, then the parameters.
        self.known: dict[int, Known] = {0: Known(), len(equations.states): Known()}

    def why_not(self, itemsize: int) -> str | None:
        """Build the kernel for numbers of this many bytes if needed. The reason if that fails, else None."""
        if not engine.enabled():
            return self._why_not or "UNSPOOL_ENGINE=off"
        if self._why_not is None:
            try:
                if not hasattr(self, "built"):
                    self.built = engine.Kernel(*self._made_of)
                self.built.prepare(itemsize)
            except UnspoolError as error:
                self._why_not = str(error)
                warnings.warn(f"{self._made_of[0].title} runs eagerly: {error}", RuntimeWarning, stacklevel=2)
        return self._why_not

    def has(self, itemsize: int) -> bool:
        """Whether there is a kernel for numbers of this many bytes already."""
        return hasattr(self, "built") and self.built.has(itemsize)

    @constant_result
    def can_build(self, dtype: torch.dtype) -> bool:
        """Whether there is a kernel for this dtype, for torch.compile, which cannot trace the build."""
        return self.why_not(dtype.itemsize) is None

    def remember(self, x: Tensor, states: Tensors, parameters: Tensors) -> None:
        """Recognise tensors of this kind from now on. x may have any number of steps and any batch size."""
        free = [(x, (None, None, x.shape[2])), *((state, (None, state.shape[1])) for state in states)]
        self.known[len(states)].add(free, parameters)

    def knows(self, x: Tensor, states: Tensors, parameters: Tensors) -> bool:
        """Whether the tensors are like those of an earlier call; their memory has to be looked at all the same."""
        if not states:
            return (x, *parameters) in self.known[0]
        known = self.known.get(len(states), ())
        return (x, *states, *parameters) in known and all(len(state) == x.shape[1] for state in states)
