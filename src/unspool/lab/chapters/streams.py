"""Streams: gradients that cross between the directions of a stacked bidirectional network."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unspool import lab
from unspool.insight import measure_streams, record
from unspool.nn import Stack

CELLS = ("elman", "gru", "lstm")
#: Factors of the weights by which a direction reads the other one.
SCALES = (0.0, 0.25, 0.5, 0.75, 1.0)
UNITS, STEPS, BATCH = 6, 12, 4
TOLERANCE = 1e-12


def build(cell: str, scale: float, seed: int) -> Stack:
    """Two bidirectional layers; the upper one's weights from the opposite direction below are scaled."""
    torch.manual_seed(seed)
    stack = Stack(cell, 3, UNITS, 2, bidirectional=True, dtype=torch.float64)
    opposite = {"ahead": slice(UNITS, None), "back": slice(UNITS)}
    with torch.no_grad():
        for name, weight in stack.layers[1].named_parameters():
            direction, _, parameter = name.partition(".")
            if parameter.startswith("W_"):
                weight[:, opposite[direction]] *= scale
    return stack


def by_autograd(stack: Stack, x: Tensor, loss_weights: Tensor) -> float:
    """The fraction of the gradient's energy that changes direction, from each direction's gradient on its own."""
    lower = stack.layers[0](x)[0].detach().requires_grad_()
    top = stack.layers[1](lower)[0] * loss_weights
    straight, crossed = 0.0, 0.0
    for own in (slice(UNITS), slice(UNITS, None)):
        (gradient,) = torch.autograd.grad(top[..., own].sum(), lower, retain_graph=True)
        energy = float(gradient.square().sum())
        kept = float(gradient[..., own].square().sum())
        straight, crossed = straight + kept, crossed + energy - kept
    return crossed / (straight + crossed)


def compare(cell: str, scale: float, seed: int) -> tuple[float, float]:
    """The fraction that crosses, by unspool's measure and by torch's autograd."""
    stack = build(cell, scale, seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(STEPS, BATCH, 3, dtype=torch.float64, generator=generator)
    weights = torch.randn(STEPS, BATCH, 2 * UNITS, dtype=torch.float64, generator=generator)
    recording = record(stack, lambda model: (model(x)[0] * weights).sum())
    cross = measure_streams(recording).cross
    return math.nan if cross is None else cross, by_autograd(stack, x, weights)


def measure(study: lab.Study) -> lab.Found:
    rows = []
    for cell in CELLS:
        for scale in SCALES:
            pairs = [compare(cell, scale, seed) for seed in range(study.choose(2, 3))]
            rows.append({"cell": cell, "scale": scale, "measured": pairs[0][0], "least": min(p[0] for p in pairs)})
            rows[-1]["most"] = max(p[0] for p in pairs)
            rows[-1]["difference"] = max(abs(one - other) for one, other in pairs)
    return {"rows": rows}


def judge(found: lab.Found) -> lab.Verdict:
    whole = [row["least"] for row in found["rows"] if row["scale"] == 1]
    without = [row["most"] for row in found["rows"] if row["scale"] == 0]
    return lab.all_of(
        lab.at_least("fraction that crosses, with cross weights, smallest", min(whole), 0.05),
        lab.at_most("fraction that crosses, without cross weights, largest", max(without), 0.0),
        lab.at_most("difference from autograd, largest", max(row["difference"] for row in found["rows"]), TOLERANCE),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = [(row["cell"], row["scale"], row["measured"], row["difference"]) for row in found["rows"]]
    series = [
        lab.Series(cell, list(SCALES), [row["measured"] for row in found["rows"] if row["cell"] == cell])
        for cell in CELLS
    ]
    return lab.Shown(
        tables=(
            lab.Table(("cell", "factor of cross weights", "fraction that crosses", "difference from autograd"), rows),
        ),
        figures=(
            lab.Lines(
                "Gradient that crosses between directions",
                "factor of the cross weights",
                "fraction of the energy",
                series,
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-11",
    equation="x_t^{(ℓ)} = [h⃗_t^{(ℓ−1)}; h⃖_t^{(ℓ−1)}]\ncross = Σ‖∂L/∂h, direction changed‖^{2} / Σ‖∂L/∂h‖^{2}",
    method=(
        "In two bidirectional layers of random weights, the weights by which each upper direction reads the opposite "
        "lower one are scaled from 1 to 0. The part of the gradient that changes direction between the layers is "
        "measured, and computed again by autograd. The claim holds if at least 5 % of the energy crosses with "
        "these weights, exactly none without them, and both computations agree to 1e-12."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
