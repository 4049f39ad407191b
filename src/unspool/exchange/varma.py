"""The linear recurrent network and the VARMA process, each turned into the other.

Letters: x_t input (m), h_t state (n), y_t output (k), L the shift to the step before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unspool.cells import Linear
from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError
from unspool.nn.recurrent import Recurrent

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """h_t = A h_{t−1} + B x_t, y_t = C h_t, from h = 0: A is (n, n), B (n, m) and C (k, n)."""

    A: Array
    B: Array
    C: Array

    def __post_init__(self) -> None:
        A, B, C = (_take(self, name, dimensions=2) for name in "ABC")
        n = len(A)
        _check_shape("A", A, (n, n), "A state goes to a state: make it square")
        _check_shape("B", B, (n, B.shape[1]), "An input goes to the state: give B as many rows as A")
        _check_shape("C", C, (C.shape[0], n), "The state goes to an output: give C as many columns as A")

    def impulse_response(self, steps: int) -> Array:
        """C Aⁱ B for i < steps, (steps, k, m): what an impulse of the input at step 0 gives at step i."""
        response = np.empty((check_size("steps", steps), len(self.C), self.B.shape[1]))
        h = self.B
        for i in range(steps):
            response[i] = self.C @ h
            h = self.A @ h
        return response


@dataclass(frozen=True, eq=False)
class Varma:
    """y_t = Σ_{i=1…p} ar_i y_{t−i} + Σ_{j=0…q} ma_j x_{t−j}, from zeros: ar is (p, k, k) and ma (q+1, k, m).

    The x are the innovations. In statsmodels' VARMAX, m = k and ma_0 is the identity; here it may be any matrix.
    """

    ar: Array
    ma: Array

    def __post_init__(self) -> None:
        ar, ma = (_take(self, name, dimensions=3) for name in ("ar", "ma"))
        if not len(ma):
            raise ShapeError.of("ma", ma.shape, "has no matrix for the present", "Give ma of shape (q + 1, k, m)")
        k = ma.shape[1]
        _check_shape("ar", ar, (len(ar), k, k), f"ma gives {k} output(s), and these are what returns")

    def impulse_response(self, steps: int) -> Array:
        """Ψ_i for i < steps, (steps, k, m): Ψ_i = ma_i + Σ_j ar_j Ψ_{i−j}."""
        response = np.zeros((check_size("steps", steps), *self.ma.shape[1:]))
        for i in range(steps):
            if i < len(self.ma):
                response[i] = self.ma[i]
            for j, matrix in enumerate(self.ar[:i], start=1):
                response[i] += matrix @ response[i - j]
        return response


def to_varma(system: LinearSystem) -> Varma:
    """The VARMA process with the same response, with p = n and q = n − 1.

    y = C (I − A L)⁻¹ B x, and the inverse is the adjugate over the determinant. So det(I − A L) y = C adj(I − A L) B x,
    with both polynomials by Faddeev and LeVerrier's recursion. Their coefficients determine the response badly where
    many eigenvalues lie close together; a system that float64 cannot express so to 1e-6 is refused.
    """
    A, B, C = system.A, system.B, system.C
    n, eye = len(A), np.eye(len(A))
    ar, ma = np.empty((n, len(C), len(C))), np.empty((n, len(C), B.shape[1]))
    M = eye  # the coefficient of Lʲ in adj(I − A L)
    for j in range(n):
        ma[j] = C @ M @ B
        AM = A @ M
        c = -np.trace(AM) / (j + 1)  # the coefficient of Lʲ⁺¹ in det(I − A L)
        ar[j] = -c * np.eye(len(C))
        M = AM + c * eye
    varma = Varma(ar, ma)
    with np.errstate(over="ignore", invalid="ignore"):  # the response of an unstable system may leave the numbers
        response = system.impulse_response(10 * n)
        error = varma.impulse_response(10 * n) - response
    known = np.isfinite(error)
    if np.abs(error[known]).max(initial=0) > 1e-6 * np.abs(response[known]).max(initial=0):
        problem = f"has {n} eigenvalues too close together for a VARMA's coefficients in float64"
        raise ArgumentError.of("system", np.linalg.eigvals(A), problem, "Convert a system of fewer states")
    return varma


def from_varma(varma: Varma) -> LinearSystem:
    """The linear system with the same response, with n = k · max(p, q + 1): Harvey's form.

    Its state is made of blocks s¹ = y, s², …: sⁱ_t = ar_i y_{t−1} + sⁱ⁺¹_{t−1} + ma_{i−1} x_t, what is known at t of
    the output i − 1 steps later.
    """
    k, m = varma.ma.shape[1:]
    blocks = max(len(varma.ar), len(varma.ma))
    A, B = np.eye(k * blocks, k=k), np.zeros((k * blocks, m))
    A[: k * len(varma.ar), :k] = varma.ar.reshape(-1, k)
    B[: k * len(varma.ma)] = varma.ma.reshape(-1, m)
    return LinearSystem(A, B, np.eye(k, k * blocks))


def system_of(layer: Recurrent, readout: nn.Linear | None = None) -> LinearSystem:
    """The system that a layer of the "linear" cell is, read out by `readout` or, without one, as it stands."""
    if not isinstance(layer, Recurrent) or not isinstance(layer.cell, Linear):
        raise ArgumentTypeError.of("layer", layer, "is not linear", "Give a Recurrent of the cell 'linear'")
    if layer.reverse:
        raise ArgumentError.of("layer", layer, "runs backwards in time", "Take reverse=False, and flip its input")
    if layer.learn_initial:
        raise ArgumentError.of("layer", layer, "starts from a learned state", "A system starts from zeros")
    if readout is None:
        return LinearSystem(_numbers(layer.U_h), _numbers(layer.W_h), np.eye(layer.hidden_size))
    _check_readout(readout, layer.output_size)
    return LinearSystem(_numbers(layer.U_h), _numbers(layer.W_h), _numbers(readout.weight))


def _check_readout(readout: Any, width: int) -> None:
    if not isinstance(readout, nn.Linear):
        raise ArgumentTypeError.of("readout", readout, "is not a torch.nn.Linear", "Give one, or None")
    if readout.in_features != width:
        problem = f"reads {readout.in_features} where the layer gives {width}"
        raise ShapeError.of("readout", readout, problem, "Make them equal")
    if readout.bias is not None and bool((readout.bias != 0).any()):
        raise ArgumentError.of("readout", readout, "adds a bias, which no linear system has", "Take bias=False")


def layer_of(system: LinearSystem) -> tuple[Recurrent, nn.Linear]:
    """A layer of the "linear" cell and a linear head that are the system, in float64: y = readout(layer(x)[0])."""
    (k, n), m = system.C.shape, system.B.shape[1]
    layer = Recurrent("linear", m, n, dtype=torch.float64)
    layer.load_state_dict({"U_h": torch.tensor(system.A), "W_h": torch.tensor(system.B)})
    readout = nn.Linear(n, k, bias=False, dtype=torch.float64)
    readout.load_state_dict({"weight": torch.tensor(system.C)})
    return layer, readout


def _numbers(parameter: object) -> Array:
    assert isinstance(parameter, torch.Tensor)
    return np.asarray(parameter.detach().cpu().double().numpy())


def _take(owner: object, name: str, dimensions: int) -> Array:
    """The field as a finite float64 array of its own that cannot be changed, put in the place of what was given."""
    given = getattr(owner, name)
    try:
        array = np.asarray(given).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError.of(name, given, f"is not an array of numbers: {error}", "Give real numbers") from error
    if array.ndim != dimensions:
        raise ShapeError.of(name, array.shape, f"does not have {dimensions} dimensions", "See the class for its shape")
    if 0 in array.shape[dimensions - 2 :]:
        raise ShapeError.of(name, array.shape, "has a side of length 0", "Give at least one row and one column")
    if not np.isfinite(array).all():
        raise ArgumentError(f"`{name}` contains NaN or inf. Give finite numbers.")
    array.flags.writeable = False
    object.__setattr__(owner, name, array)
    return array


def _check_shape(name: str, array: Array, shape: tuple[int, ...], remedy: str) -> None:
    if array.shape != shape:
        raise ShapeError.of(name, array.shape, f"is not of shape {shape}", remedy)
