"""What packs weights once for many calls: kernels where there are any, else the same numbers by NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unspool import engine
from unspool.cells.equations import Equations
from unspool.engine.affine import Affine
from unspool.engine.packed import PackedCell
from unspool.errors import UnspoolError
from unspool.runtime.network import Array, Linear
from unspool.runtime.options import PLAIN, PlayOptions
from unspool.runtime.rounding import as_array, as_rounded

#: The most operations of a step that are compiled: an LSTM has 16, and a compiler takes minutes for thousands.
MOST_COMPILED = 512


def pack(
    equations: Equations, input_size: int, hidden_size: int, parameters: Mapping[str, Array], options: PlayOptions
) -> PackedCell | None:
    """The compiled cell; None where there is no kernel, which is said unless the environment wants it so."""
    if not engine.enabled():
        return None
    if len(equations.nodes) > MOST_COMPILED:
        said = f"it has {len(equations.nodes)} operations, and more than {MOST_COMPILED} are not compiled"
        warnings.warn(f"{equations.title} runs by NumPy: {said}", RuntimeWarning, stacklevel=3)
        return None
    try:
        return PackedCell(equations, input_size, hidden_size, parameters, int8=options.int8, threads=options.threads)
    except UnspoolError as error:
        warnings.warn(f"{equations.title} runs by NumPy: {error}", RuntimeWarning, stacklevel=3)
        return None


class LinearPlayer:
    """y = x Wᵀ + b over the last axis of x; a vector has the same result whatever others are with it, by a kernel.

    Example:
        head = LinearPlayer(network.head)
        head(x)  # (…, in) → (…, out)
    """

    def __init__(self, linear: Linear, options: PlayOptions = PLAIN) -> None:
        out, width = linear.weight.shape
        weight = as_array(as_rounded(linear.weight) if options.int8 else linear.weight)
        parameters = {"W_y": weight} | ({} if linear.bias is None else {"b_y": linear.bias})
        self.packed = pack(Affine().equations(linear.bias is not None), width, out, parameters, options)
        self._weight = None if self.packed else weight
        self._bias, self._out = linear.bias, out

    def __call__(self, x: Array) -> Array:
        if self.packed is None:
            assert self._weight is not None
            product: Array = x @ self._weight.T
            return product if self._bias is None else product + self._bias
        rows = np.ascontiguousarray(x, self.packed.dtype).reshape(1, -1, x.shape[-1])
        shape = (*x.shape[:-1], self._out)
        return self.packed.run(rows)[0].reshape(shape) if rows.size else np.zeros(shape, self.packed.dtype)

    def onto(self, read: Array) -> tuple[Callable[[], Any], Array]:
        """A call that maps what then stands in `read` (batch, in), and where it writes the result (batch, out)."""
        if self.packed is not None:
            stepper = self.packed.stepper(len(read), read)
            return stepper.step, stepper.out
        out = np.zeros((len(read), self._out), read.dtype)
        return lambda: np.copyto(out, self(read)), out


def play_linear(linear: Linear | None, options: PlayOptions = PLAIN) -> LinearPlayer | None:
    """The player of a linear map that a network may have."""
    return None if linear is None else LinearPlayer(linear, options)
