"""Equilibrium layers: the gradient of infinitely many steps without going back through them."""

from __future__ import annotations

import torch
from torch import Tensor

from unspool import lab
from unspool import nn as unspool_nn
from unspool.errors import ConvergenceError

TOLERANCE = 1e-10
UNITS, STEPS = 6, 400
RADII = (0.3, 0.6, 0.9)
CELLS = ("elman", "gru")


def make(cell: str, radius: float) -> unspool_nn.Equilibrium:
    """An equilibrium layer whose recurrent matrices have this spectral radius."""
    torch.manual_seed(0)
    layer = unspool_nn.Equilibrium(cell, 3, UNITS, tolerance=1e-14, dtype=torch.float64)
    with torch.no_grad():
        for name, matrix in layer.layer.named_parameters():
            if name.startswith("U_"):
                matrix.mul_(radius / torch.linalg.eigvals(matrix).abs().max())
    return layer


def gradients(module: torch.nn.Module, z: Tensor, weights: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad((z * weights).sum(), list(module.parameters())))


def compare(cell: str, radius: float) -> dict[str, list[float] | float]:
    """The implicit gradient against that of the iteration, and against the Neumann sum with 0, 1, … terms."""
    implicit = make(cell, radius)
    torch.manual_seed(1)
    u, weights = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, UNITS, dtype=torch.float64)
    z = implicit(u)
    whole = gradients(implicit, z, weights)
    unrolled = implicit.layer(u.expand(STEPS, 2, 3))[0][-1]
    apart = zip(whole, gradients(implicit.layer, unrolled, weights), strict=True)
    return {
        "values": float((z - unrolled).detach().abs().max()),
        "unrolled": max(float((one - other).abs().max()) for one, other in apart),
        "neumann": neumann(implicit, u, z.detach(), weights, whole),
    }


def neumann(layer: unspool_nn.Equilibrium, u: Tensor, z: Tensor, weights: Tensor, whole: list[Tensor]) -> list[float]:
    """The relative distance of v Σ J^k ∂F/∂θ from the implicit gradient, by the number of terms."""
    old = z.clone().requires_grad_()
    (new,) = layer.layer.take_step(u, (old,))
    parameters = list(layer.layer.parameters())
    term, total, distances = weights, torch.zeros_like(weights), []
    size = torch.cat([one.flatten() for one in whole]).norm()
    for _ in range(STEPS):
        total = total + term
        found = torch.autograd.grad(new, parameters, total, retain_graph=True)
        apart = torch.cat([(one - other).flatten() for one, other in zip(found, whole, strict=True)])
        distances.append(float(apart.norm() / size))
        (term,) = torch.autograd.grad(new, old, term, retain_graph=True)
    return distances


def refusal(radius: float) -> float:
    """The spectral radius that a linear layer names as it refuses; 0 if it does not."""
    try:
        make("linear", radius)(torch.randn(2, 3, dtype=torch.float64))
    except ConvergenceError as error:
        return error.radius
    return 0.0


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    cases = {f"{cell}, ρ = {radius:g}": compare(cell, radius) for cell in CELLS for radius in RADII}
    return {"cases": cases, "refused": {str(radius): refusal(radius) for radius in (0.99, 1.0, 1.2)}}


def judge(found: lab.Found) -> lab.Verdict:
    cases, refused = found["cases"].values(), found["refused"]
    return lab.all_of(
        lab.at_most("implicit against unrolled gradient", max(one["unrolled"] for one in cases), TOLERANCE),
        lab.at_most("implicit gradient against the Neumann sum", max(one["neumann"][-1] for one in cases), TOLERANCE),
        lab.at_most("radius at which a stable layer is refused", refused["0.99"], 0.0),
        lab.at_least("radius named in the refusal at 1", refused["1.0"], 1 - 1e-12),
        lab.at_most("distance of the named radius from 1.2", abs(refused["1.2"] - 1.2), TOLERANCE),
    )


def show(found: lab.Found) -> lab.Shown:
    terms = list(range(1, 101))
    series = [
        lab.Series(name, terms, [max(value, 1e-17) for value in one["neumann"][:100]])
        for name, one in found["cases"].items()
    ]
    rows = [(name, one["values"], one["unrolled"], one["neumann"][-1]) for name, one in found["cases"].items()]
    refused = [(radius, named or "accepted") for radius, named in found["refused"].items()]
    return lab.Shown(
        tables=(
            lab.Table(("case", "fixed point", "unrolled gradient", "Neumann sum"), rows),
            lab.Table(("spectral radius of a linear layer", "refused with the radius"), refused),
        ),
        figures=(
            lab.Lines("Neumann sum against the implicit gradient", "terms", "relative distance", series, log_y=True),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S4-9",
    equation="z = F(z, u)\n∂z/∂θ = (I − J)^{−1} ∂F/∂θ = Σ_k J^k ∂F/∂θ, ρ(J) < 1",
    method=(
        "The fixed points of Elman and GRU cells, whose matrices have spectral radii 0.3 to 0.9, are found without "
        "keeping any step. The implicit gradient must equal that of 400 steps of the same recurrence, and the Neumann "
        "sum must converge to it, to 10⁻¹⁰. A linear layer must be accepted at radius 0.99, and refused at 1 and 1.2 "
        "with this radius in the error."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
