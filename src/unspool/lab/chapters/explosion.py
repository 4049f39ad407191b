"""Explosion: the state of a relu network whose recurrent matrix is a multiple of the identity."""

from __future__ import annotations

import torch

from unspool import lab
from unspool import nn as unspool_nn

TOLERANCE = 1e-10
SCALES = (0.9, 1.0, 1.1, 1.3)
STEPS, UNITS = 100, 8


def run(scale: float, seed: int) -> tuple[list[float], list[float]]:
    """‖h_t‖ / ‖h_0‖ after each step without input, and ‖∂Σh_t/∂h_0‖ relative to that of the first state."""
    layer = unspool_nn.Recurrent("elman-relu", 1, UNITS, dtype=torch.float64)
    unspool_nn.init.identity_(layer, scale)
    start = torch.rand(1, UNITS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    states = layer(torch.zeros(STEPS, 1, 1, dtype=torch.float64), start)[0]
    sizes = [1.0, *(states.norm(dim=-1)[:, 0] / start.norm()).tolist()]
    gradients = [1.0]
    for state in states:
        (gradient,) = torch.autograd.grad(state.sum(), start, retain_graph=True)
        gradients.append(float(gradient.norm()) / UNITS**0.5)
    return sizes, gradients


def measure(study: lab.Study) -> lab.Found:
    found = {scale: run(scale, study.first) for scale in SCALES}
    return {
        "scales": SCALES,
        "states": [found[scale][0] for scale in SCALES],
        "gradients": [found[scale][1] for scale in SCALES],
    }


def largest_error(found: lab.Found, what: str) -> float:
    pairs = zip(found["scales"], found[what], strict=True)
    errors: list[float] = [abs(size / s**t - 1) for s, sizes in pairs for t, size in enumerate(sizes)]
    return max(errors)


def judge(found: lab.Found) -> lab.Verdict:
    worst = max(("states", "gradients"), key=lambda what: largest_error(found, what))
    return lab.at_most("largest relative difference from s^t", largest_error(found, worst), TOLERANCE)


def show(found: lab.Found) -> lab.Shown:
    rows = [
        (scale, scale**20, states[20], gradients[20], states[100])
        for scale, states, gradients in zip(found["scales"], found["states"], found["gradients"], strict=True)
    ]
    series = [
        lab.Series(f"s = {scale:g}", list(range(len(sizes))), sizes)
        for scale, sizes in zip(found["scales"], found["states"], strict=True)
    ]
    heading = ("s", "s^20", "state after 20 steps", "gradient after 20 steps", "state after 100 steps")
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(lab.Lines("Size of the state", "step t", "‖h_t‖ / ‖h_0‖", series, log_y=True),),
    )


CHAPTER = lab.Chapter(
    claim="S1-4",
    equation="h_t = relu(s h_{t−1})\n‖h_t‖ = s^{t} ‖h_0‖ for h_0 ≥ 0",
    method=(
        "A relu network with the recurrent matrix s·I starts from a random positive state and reads zeros. The claim "
        "holds if the norm of its state after t steps, and the norm of the gradient of that state, are s^t times "
        "those at the start, to 10⁻¹⁰, for 100 steps and four values of s. With s < 1 both vanish, with s > 1 both "
        "explode."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
