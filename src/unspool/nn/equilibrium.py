"""Equilibrium: the fixed point of a cell on a constant input, and its gradient.

With F the cell's step and u the input, z* = F(z*, u). Where the spectral radius of J = ∂F/∂z is below 1, z* is the
limit of z ← F(z, u), and the Neumann series ΣJᵏ = (I − J)⁻¹ gives its gradient without going back through the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from unspool.cells import Cell
from unspool.cells.cell import check_size
from unspool.cells.evaluate import Evaluator
from unspool.errors import ArgumentError, ArgumentTypeError, ConvergenceError, ShapeError, UnspoolError
from unspool.nn.checks import check_like, check_state
from unspool.nn.fixed_point import FixedPoint, check_solver, solve_fixed_point
from unspool.nn.recording import refuse_if_recorded
from unspool.nn.recurrent import Recurrent
from unspool.nn.spectral import KRYLOV_STEPS, Linearized, estimate_radii, spectral_radius

NEAR = 0.9  # from here on an estimated spectral radius is replaced by the one of the eigenvalues


@dataclass(frozen=True, eq=False)
class _StepOn:
    """F: one step of a cell on a constant input u."""

    step: Evaluator
    parameters: Mapping[str, Tensor]
    u: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        (new,), _ = self.step(self.parameters, self.u, (z,))
        value: Tensor = new.expand(len(z), -1)
        return value

    def radii(self, z: Tensor, rows: Tensor) -> Tensor:
        """The spectral radius of the Jacobian at z of each of these examples, from its eigenvalues."""
        F = _StepOn(self.step, self.parameters, self.u[rows])
        return spectral_radius(Linearized(F, z[rows]).jacobian())


class _Implicit(torch.autograd.Function):
    """z* as a function of F(z*, u): the identity, whose gradient v becomes y = v + Jᵀv + Jᵀ²v + …, from y = Jᵀy + v.

    The graph of y is not recorded. With torch's `once_differentiable`, a second differentiation of, say, z*.sum() would
    silently miss this term; `_Once` makes it an error.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.solve = solve
        ctx.save_for_backward(value)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        with torch.no_grad():
            y = ctx.solve(gradients[0])
        if torch.is_grad_enabled():
            y = _Once.apply(y, gradients[0], *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return y, None


class _Once(torch.autograd.Function):
    """The identity on its first argument, which depends on the others in a way that cannot be differentiated."""

    @staticmethod
    def forward(_ctx: Any, y: Tensor, *_others: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(_ctx: Any, *_gradients: Tensor) -> Any:
        raise UnspoolError(
            "the gradient of an Equilibrium is found by the implicit function theorem and cannot be differentiated "
            "again. For second derivatives, run the cell for many steps with unspool.nn.Recurrent."
        )


class Equilibrium(nn.Module):
    """The fixed point z* = F(z*, u) of a cell's step F on a constant input u: a layer of unlimited depth.

    `z = layer(u)` takes u (…, input_size) to z (…, hidden_size). A fixed point where ρ(J) ≥ 1 is unstable and not
    accepted: a ConvergenceError states the spectral radius and the iterations.

    Args:
        cell: as in `Recurrent`, with a single state.
        input_size: the width of u.
        hidden_size: the number of units.
        bias: as in `Recurrent`.
        tolerance: of the relative residual; by default ε^¾ of the dtype: 6e-6 in float32, 2e-12 in float64.
        max_iterations: of Anderson acceleration, and of plain iteration where that fails.
        memory: how many earlier iterates Anderson acceleration mixes.
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> z = unspool.nn.Equilibrium("elman", 3, 4)(torch.randn(5, 3))
        >>> z.shape
        torch.Size([5, 4])
    """

    def __init__(
        self,
        cell: str | Cell | type[Cell],
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        tolerance: float | None = None,
        max_iterations: int = 3000,
        memory: int = 5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.layer = Recurrent(cell, input_size, hidden_size, bias=bias, device=device, dtype=dtype)
        _check_layer(self.layer)
        check_solver(1.0 if tolerance is None else tolerance, max_iterations, memory)
        self.input_size, self.hidden_size = self.layer.input_size, self.layer.hidden_size
        self.output_size = self.layer.output_size
        self.tolerance, self.max_iterations, self.memory = tolerance, max_iterations, memory

    def forward(self, u: Tensor, start: Tensor | None = None) -> Tensor:
        """Find the fixed point.

        Args:
            u: the input, (…, input_size).
            start: where the search begins, of z's shape; zeros by default. It gets no gradient.

        Returns:
            z*, (…, hidden_size).
        """
        refuse_if_recorded("Equilibrium", "Record the rest of the model without it")
        _check_layer(self.layer)
        shape = self._check(u, start)
        parameters = self.layer.cell_parameters()
        like = next(iter(parameters.values()), u)
        needed = torch.is_grad_enabled() and any(value.requires_grad for value in (u, *parameters.values()))
        # Inference mode does not allow the products with J, and autocast would lose the last digits of z.
        with torch.inference_mode(False), torch.autocast(u.device.type, enabled=False), torch.set_grad_enabled(needed):
            u, start = (_plain(v, like) for v in (u, u.new_zeros(shape) if start is None else start))
            F = _StepOn(self.layer.step, parameters, u.reshape(-1, self.input_size))
            z = start.detach().reshape(-1, self.output_size)
            self.layer.check_step(tuple(parameters.values()), F.u, (z,))
            at, radius = self._find(F, z) if len(z) else (Linearized(F, z), 0.0)
            if not needed:
                return at.value.detach().reshape(shape)
            found: Tensor = _Implicit.apply(at.value, lambda v: self._solve_back(at, v, radius))  # type: ignore[no-untyped-call]
            return found.reshape(shape)

    def extra_repr(self) -> str:
        return f"tolerance={self.tolerance}, max_iterations={self.max_iterations}, memory={self.memory}"

    def _find(self, F: _StepOn, start: Tensor) -> tuple[Linearized, float]:
        """F at its stable fixed point, and the largest spectral radius of its Jacobians."""
        bound = 1 - 10 * torch.finfo(start.dtype).eps  # eigenvalues have rounding errors
        point = self._solve(F, start, self.memory)
        if not point.converged:
            self._refuse(F, point, point.residual)
        at, radii = _linearize(F, point.value)
        if not bool((radii < bound).all()):
            # Anderson's step converges to unstable points too; plain iteration may find a stable one.
            plain = self._solve(F, torch.where((radii < bound).unsqueeze(-1), point.value, start), memory=0)
            if plain.converged:
                point, (at, radii) = plain, _linearize(F, plain.value)
        if not bool((radii < bound).all()):
            self._refuse(F, point, radii)
        return at, float(radii.max())

    def _solve(self, F: Callable[[Tensor], Tensor], start: Tensor, memory: int) -> FixedPoint:
        tolerance = torch.finfo(start.dtype).eps ** 0.75 if self.tolerance is None else self.tolerance
        return solve_fixed_point(F, start, tolerance, self.max_iterations, memory)

    def _solve_back(self, at: Linearized, v: Tensor, radius: float) -> Tensor:
        finite = torch.isfinite(v).all(-1, keepdim=True)  # a loss of NaN or inf has such a gradient
        known = v.masked_fill(~finite, 0.0)
        point = self._solve(lambda y: at.pull(y) + known, known, self.memory)
        if not point.converged:
            raise ConvergenceError(
                f"the gradient of an equilibrium was not found in {point.iterations} iterations: its relative residual "
                f"is {float(point.residual.max()):.3g}, the spectral radius about {radius:.6g}. Raise `max_iterations` "
                f"(={self.max_iterations}) or `tolerance` (={self.tolerance}), or scale the recurrent weights down.",
                radius,
                point.iterations,
            )
        return torch.where(finite, point.value, v)

    def _refuse(self, F: _StepOn, point: FixedPoint, badness: Tensor) -> NoReturn:
        worst = badness.nan_to_num(math.inf).argmax()
        radius = float(F.radii(point.value, worst.unsqueeze(0)))
        if point.converged:
            problem = f"the fixed point of example {int(worst)} is not stable"
        else:
            residual = float(point.residual[worst])
            problem = f"example {int(worst)} has reached no fixed point (its relative residual is {residual:.3g})"
        remedy = f"raise `max_iterations` (={self.max_iterations}) or `tolerance` (={self.tolerance})"
        if point.converged or not radius < 1:
            remedy = "the radius must be below 1; scale the recurrent weights down, or start nearer to a stable point"
        raise ConvergenceError(
            f"{problem}: after {point.iterations} iterations the Jacobian's spectral radius is {radius:.7g}. "
            f"{remedy[0].upper()}{remedy[1:]}.",
            radius,
            point.iterations,
        )

    def _check(self, u: Any, start: Any) -> torch.Size:
        """Check the arguments. Returns the shape of z."""
        if not isinstance(u, Tensor):
            raise ArgumentTypeError.of("u", u, "is not a torch tensor", "Convert it by torch.as_tensor")
        if u.dim() == 0 or u.shape[-1] != self.input_size:
            raise ShapeError.of("u", tuple(u.shape), f"is not (…, {self.input_size})", "Give u as wide as input_size")
        like = next(self.parameters(), u)
        check_like("u", u, like)
        shape = torch.Size((*u.shape[:-1], check_size("output_size", self.output_size)))
        if start is not None:
            check_state(start, shape, like, "start")
        _check_finite("u", u)
        if start is not None:
            _check_finite("start", start)
        return shape


def _check_finite(name: str, value: Tensor) -> None:
    if not bool(torch.isfinite(value).all()):
        raise ArgumentError(f"`{name}` contains NaN or inf, so no fixed point exists. Clean the data first.")


def _check_layer(layer: Any) -> None:
    """It is a cell over time, and the cell has one state."""
    if not isinstance(layer, Recurrent):
        raise ArgumentTypeError.of("layer", layer, "is not a Recurrent", "Make another Equilibrium")
    states = tuple(layer.equations.states)
    if len(states) > 1:
        problem = f"has {len(states)} states ({', '.join(states)})"
        raise ArgumentError.of("cell", layer.cell, problem, "Take one with a single state")


def _linearize(F: _StepOn, z: Tensor) -> tuple[Linearized, Tensor]:
    """F at z, and the spectral radius of each example's Jacobian: exact in narrow layers and near or above 1."""
    at = Linearized(F, z)
    if z.shape[1] <= KRYLOV_STEPS:
        return at, spectral_radius(at.jacobian())
    radii = estimate_radii(at)
    near = (~(radii < NEAR)).nonzero().squeeze(-1)
    if len(near):
        radii[near] = F.radii(z, near)
    return at, radii


def _plain(value: Tensor, like: Tensor) -> Tensor:
    """`value` in the layer's dtype, as a tensor that autograd can use."""
    value = value.to(like.dtype)
    return value.clone() if value.is_inference() else value
