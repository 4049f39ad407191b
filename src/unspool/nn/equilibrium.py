"""Equilibrium: the state in which a cell comes to rest on an input that stays, and its gradient.

With F the cell's step and u the input, z* = F(z*, u). Where the spectral radius of J = ∂F/∂z is below 1, z* is the
limit of z ← F(z, u), and the Neumann series ΣJᵏ = (I − J)⁻¹ gives its gradient without a walk back through the steps.
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
from unspool.nn.recurrent import Recurrent

NEAR = 0.9  # an estimated spectral radius from here on is not trusted: eigenvalues decide
POWER_STEPS, KRYLOV_STEPS = 32, 16


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """What `solve_fixed_point` came to. `residual` is ‖F(z) − z‖ / ‖F(z)‖ of each row of `value`."""

    value: Tensor
    iterations: int
    residual: Tensor
    converged: bool


def solve_fixed_point(
    F: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, max_iterations: int, memory: int = 5
) -> FixedPoint:
    """z = F(z) for F from (rows, width) to (rows, width) that treats each row alone.

    Anderson acceleration mixes the last iterate with up to `memory` earlier ones. Rows in which it fails start again
    and are iterated plainly; a `memory` of 0 does only that. Each has `max_iterations`.
    """
    _check_solver(tolerance, max_iterations, memory)
    with torch.no_grad():
        fast = _iterate(F, start, tolerance, max_iterations, memory)
        if fast.converged or memory == 0:
            return fast
        again = torch.where((fast.residual <= tolerance).unsqueeze(-1), fast.value, start)
        plain = _iterate(F, again, tolerance, max_iterations, memory=0)
        keep = fast.residual < plain.residual
        return FixedPoint(
            torch.where(keep.unsqueeze(-1), fast.value, plain.value),
            fast.iterations + plain.iterations,
            torch.where(keep, fast.residual, plain.residual),
            plain.converged,
        )


def _iterate(
    F: Callable[[Tensor], Tensor], z: Tensor, tolerance: float, max_iterations: int, memory: int
) -> FixedPoint:
    images: list[Tensor] = []  # F(z) and F(z) − z of the last iterates
    residuals: list[Tensor] = []
    floor = residual = z.new_zeros(len(z))
    resting = torch.zeros(len(z), dtype=torch.bool, device=z.device)  # arrived, or about to leave the finite numbers
    iterations = 0
    while iterations < max_iterations:
        iterations += 1
        image = F(z)
        difference = image - z
        if iterations == 1:  # lets a row whose limit is zero arrive
            floor = torch.finfo(z.dtype).eps * image.norm(dim=-1)
        size = difference.norm(dim=-1)
        residual = torch.where(size == 0, size, size / torch.maximum(image.norm(dim=-1), floor))
        new = image
        if memory:
            images, residuals = [*images[-memory:], image], [*residuals[-memory:], difference]
            new = _mix(images, residuals) if iterations > 1 else image
        resting = resting | (residual <= tolerance) | ~torch.isfinite(new).all(-1)
        if bool(resting.all()):
            break
        z = torch.where(resting.unsqueeze(-1), z, new)
    return FixedPoint(z, iterations, residual, bool((residual <= tolerance).all()))


def _mix(images: list[Tensor], residuals: list[Tensor]) -> Tensor:
    """Anderson's step: the affine combination of the images whose combined residual is least, row by row."""
    G, R = (_at_least_single(torch.stack(values, -1)).diff(dim=-1) for values in (images, residuals))
    scale = R.norm(dim=-2, keepdim=True).clamp_min(torch.finfo(R.dtype).tiny)
    G, R = G / scale, R / scale
    gram = R.mT @ R
    gram.diagonal(dim1=-2, dim2=-1).add_(10 * torch.finfo(R.dtype).eps)  # columns may be parallel
    weights, _ = torch.linalg.solve_ex(gram, R.mT @ residuals[-1].to(R.dtype).unsqueeze(-1))
    new: Tensor = images[-1] - (G @ weights).squeeze(-1).to(images[-1].dtype)
    return new


@dataclass(frozen=True, eq=False)
class _StepOn:
    """F: one step of a cell on an input u that stays."""

    step: Evaluator
    parameters: Mapping[str, Tensor]
    u: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        (new,), _ = self.step(self.parameters, self.u, (z,))
        value: Tensor = new.expand(len(z), -1)
        return value

    def radii(self, z: Tensor, rows: Tensor) -> Tensor:
        """The spectral radius of each of these rows' Jacobian at z, from its eigenvalues."""
        F = _StepOn(self.step, self.parameters, self.u[rows])
        return spectral_radius(Linearised(F, z[rows]).jacobian())


class Linearised:
    """F at a point: its value there and the products of its Jacobian's transpose."""

    def __init__(self, F: Callable[[Tensor], Tensor], z: Tensor) -> None:
        with torch.enable_grad():
            self.z = z.detach().requires_grad_()
            self.value = F(self.z)

    def pull(self, y: Tensor) -> Tensor:
        """Jᵀy, row by row; for y of shape (count, rows, width), `count` products at once."""
        if not self.value.requires_grad:
            return torch.zeros_like(y)
        (product,) = torch.autograd.grad(
            self.value, self.z, y, retain_graph=True, allow_unused=True, is_grads_batched=y.dim() == 3
        )
        return torch.zeros_like(y) if product is None else product

    def jacobian(self) -> Tensor:
        """J of every row: (rows, width, width)."""
        rows, width = self.z.shape
        basis = torch.eye(width, dtype=self.z.dtype, device=self.z.device)
        return self.pull(basis.unsqueeze(1).expand(width, rows, width)).transpose(0, 1)


def estimate_radii(at: Linearised) -> Tensor:
    """The spectral radius of J, roughly, for every row: the growth of a vector, or the largest Ritz value after it.

    Growth sees many eigenvalues of one modulus, as an orthogonal matrix has; Ritz values see a pair, which turns.
    """
    rows, width = at.z.shape
    tiny = torch.finfo(at.z.dtype).tiny
    generator = torch.Generator().manual_seed(0)  # the same for every row and call, and no other random numbers move
    v = torch.randn(width, generator=generator, dtype=torch.float64).to(at.z).expand(rows, width)
    v = v / v.norm(dim=-1, keepdim=True)
    growth = v.new_zeros(rows)
    for step in range(POWER_STEPS):
        v = at.pull(v)
        size = v.norm(dim=-1)
        v = v / size.clamp_min(tiny).unsqueeze(-1)
        if step >= POWER_STEPS // 2:
            growth = growth + size.log()
    growth = (growth / (POWER_STEPS - POWER_STEPS // 2)).exp()

    steps = min(KRYLOV_STEPS, width)
    Q = v.unsqueeze(-1)
    H = v.new_zeros(rows, steps, steps)
    for j in range(steps):
        w = at.pull(Q[..., j]).unsqueeze(-1)
        rounding = 100 * torch.finfo(w.dtype).eps * w.norm(dim=(-2, -1))
        for _ in range(2):  # once leaves rounding errors along Q
            h = Q.mT @ w
            w = w - Q @ h
            H[:, : j + 1, j] += h.squeeze(-1)
        if j + 1 < steps:
            size = w.norm(dim=(-2, -1))
            size = size.masked_fill(size <= rounding, 0.0)  # Q spans all that J makes of v: go on with zeros
            H[:, j + 1, j] = size
            Q = torch.cat((Q, torch.where(size > 0, 1 / size, 0.0).view(-1, 1, 1) * w), -1)
    return torch.maximum(growth, spectral_radius(H))


def spectral_radius(matrices: Tensor) -> Tensor:
    """The largest modulus of an eigenvalue of each matrix; NaN for one that is not finite."""
    finite = torch.isfinite(matrices).all(-1).all(-1)
    known = matrices.masked_fill(~finite.view(-1, 1, 1), 0.0)
    radii: Tensor = torch.linalg.eigvals(_at_least_single(known)).abs().amax(-1)
    return radii.to(matrices.dtype).masked_fill(~finite, math.nan)


class _Implicit(torch.autograd.Function):
    """z* as a function of F(z*, u): the identity, whose gradient v becomes y = v + Jᵀv + Jᵀ²v + …, from y = Jᵀy + v.

    What y depends on is not followed. torch's `once_differentiable` would leave the gradient of, say, z*.sum() without
    any mark of that, and a second differentiation without this term; so the mark is made here.
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
    """The fixed point z* = F(z*, u) of a cell's step F on an input u that stays: a layer of unlimited depth.

    `z = layer(u)` takes u (…, input_size) to z (…, hidden_size); `start`, of z's shape, is where the search begins
    (zeros, if not given) and gets no gradient. The cell must have a single state. z is found to a relative residual
    of `tolerance` (by default ε^¾ of the dtype: 6e-6 in float32, 2e-12 in float64) within `max_iterations` of Anderson
    acceleration over `memory` earlier iterates, or as many plain iterations. A point that plain iteration would run
    away from, one where ρ(J) ≥ 1, is no equilibrium: a ConvergenceError states the radius and the iterations.
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
        states = tuple(self.layer.equations.states)
        if len(states) > 1:
            problem = f"has {len(states)} states ({', '.join(states)})"
            raise ArgumentError.of("cell", self.layer.cell, problem, "Take one with a single state")
        _check_solver(1.0 if tolerance is None else tolerance, max_iterations, memory)
        self.input_size, self.hidden_size = self.layer.input_size, self.layer.hidden_size
        self.output_size = self.layer.output_size
        self.tolerance, self.max_iterations, self.memory = tolerance, max_iterations, memory

    def forward(self, u: Tensor, start: Tensor | None = None) -> Tensor:
        """z* of every row of u."""
        shape = self._check(u, start)
        parameters = self.layer.cell_parameters()
        like = next(iter(parameters.values()), u)
        needed = torch.is_grad_enabled() and any(value.requires_grad for value in (u, *parameters.values()))
        # Inference mode would forbid the products with J, and autocast would spoil the last digits of z.
        with torch.inference_mode(False), torch.autocast(u.device.type, enabled=False), torch.set_grad_enabled(needed):
            u, start = (_plain(v, like) for v in (u, u.new_zeros(shape) if start is None else start))
            F = _StepOn(self.layer.step, parameters, u.reshape(-1, self.input_size))
            z = start.detach().reshape(-1, self.output_size)
            at, radius = self._find(F, z) if len(z) else (Linearised(F, z), 0.0)
            if not needed:
                return at.value.detach().reshape(shape)
            found: Tensor = _Implicit.apply(at.value, lambda v: self._solve_back(at, v, radius))  # type: ignore[no-untyped-call]
            return found.reshape(shape)

    def extra_repr(self) -> str:
        return f"tolerance={self.tolerance}, max_iterations={self.max_iterations}, memory={self.memory}"

    def _find(self, F: _StepOn, start: Tensor) -> tuple[Linearised, float]:
        """F at its stable fixed point, and the largest spectral radius of its Jacobians."""
        bound = 1 - 10 * torch.finfo(start.dtype).eps  # eigenvalues are known up to rounding
        point = self._solve(F, start, self.memory)
        if not point.converged:
            self._refuse(F, point, point.residual)
        at, radii = _linearise(F, point.value)
        if not bool((radii < bound).all()):
            # Anderson's step is drawn to unstable points too; the cell itself may come to rest elsewhere.
            plain = self._solve(F, torch.where((radii < bound).unsqueeze(-1), point.value, start), memory=0)
            if plain.converged:
                point, (at, radii) = plain, _linearise(F, plain.value)
        if not bool((radii < bound).all()):
            self._refuse(F, point, radii)
        return at, float(radii.max())

    def _solve(self, F: Callable[[Tensor], Tensor], start: Tensor, memory: int) -> FixedPoint:
        tolerance = torch.finfo(start.dtype).eps ** 0.75 if self.tolerance is None else self.tolerance
        return solve_fixed_point(F, start, tolerance, self.max_iterations, memory)

    def _solve_back(self, at: Linearised, v: Tensor, radius: float) -> Tensor:
        finite = torch.isfinite(v).all(-1, keepdim=True)  # a loss that is NaN or inf has such a gradient
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
            problem = f"the fixed point of row {int(worst)} is not stable"
        else:
            residual = float(point.residual[worst])
            problem = f"row {int(worst)} comes to no fixed point (its relative residual is {residual:.3g})"
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
        """The shape of z for these arguments, if they can be used."""
        if not isinstance(u, Tensor):
            raise ArgumentTypeError.of("u", u, "is not a torch tensor", "Convert it by torch.as_tensor")
        if u.dim() == 0 or u.shape[-1] != self.input_size:
            raise ShapeError.of("u", tuple(u.shape), f"is not (…, {self.input_size})", "Give u as wide as input_size")
        like = next(self.parameters(), u)
        check_like("u", u, like)
        shape = torch.Size((*u.shape[:-1], self.output_size))
        if start is not None:
            check_state(start, shape, like, "start")
        for name, value in (("u", u), ("start", start)):
            if value is not None and not bool(torch.isfinite(value).all()):
                raise ArgumentError(f"`{name}` contains NaN or inf, so no fixed point exists. Clean the data first.")
        return shape


def _linearise(F: _StepOn, z: Tensor) -> tuple[Linearised, Tensor]:
    """F at z, and the spectral radius of each row's Jacobian: exact in narrow layers and near or above 1."""
    at = Linearised(F, z)
    if z.shape[1] <= KRYLOV_STEPS:
        return at, spectral_radius(at.jacobian())
    radii = estimate_radii(at)
    near = (~(radii < NEAR)).nonzero().squeeze(-1)
    if len(near):
        radii[near] = F.radii(z, near)
    return at, radii


def _at_least_single(value: Tensor) -> Tensor:
    """Half precision as float32: linear algebra knows no half."""
    return value.to(torch.promote_types(value.dtype, torch.float32))


def _plain(value: Tensor, like: Tensor) -> Tensor:
    """`value` in the layer's dtype, as a tensor that autograd knows."""
    value = value.to(like.dtype)
    return value.clone() if value.is_inference() else value


def _check_solver(tolerance: float, max_iterations: int, memory: int) -> None:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 < tolerance < math.inf:
        raise ArgumentError.of("tolerance", tolerance, "is not a positive number", "Give one such as 1e-6")
    check_size("max_iterations", max_iterations)
    if memory != 0:
        check_size("memory", memory)
