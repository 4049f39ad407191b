"""Directions: where the gradient of one step's loss goes in a bidirectional network."""

from __future__ import annotations

import torch
from torch import Tensor

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import record

TOLERANCE = 1e-10
STEPS, UNITS = 15, 6
CELLS = ("elman", "gru", "lstm")


def follow(cell: str, at: int) -> tuple[list[float], list[float], float]:
    """The gradient's norms at every step of both chains, and its distance from that of a chain alone."""
    torch.manual_seed(0)
    both = unspool_nn.Bidirectional(cell, 3, UNITS, dtype=torch.float64)
    x = torch.randn(STEPS, 1, 3, dtype=torch.float64)
    weights = torch.randn(2 * UNITS, dtype=torch.float64)
    gradient = record(both, lambda model: (model(x)[0][at, 0] * weights).sum()).gradient()
    ahead, back = (gradient.states[name] for name in ("ahead", "back"))
    alone = [
        gradient_alone(layer, x, at, part)
        for layer, part in zip((both.ahead, both.back), weights.chunk(2), strict=True)
    ]
    apart = max(float((one - other).abs().max()) for one, other in zip((ahead, back), alone, strict=True))
    return norms_of(ahead), norms_of(back), apart


def gradient_alone(layer: unspool_nn.Layer, x: Tensor, at: int, weights: Tensor) -> Tensor:
    (states,) = record(layer, lambda model: (model(x)[0][at, 0] * weights).sum()).gradient().states.values()
    return states


def norms_of(states: Tensor) -> list[float]:
    norms: list[float] = states[:, 0].norm(dim=-1).tolist()
    return norms


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    cells: dict[str, dict[str, list[list[float]] | float]] = {}
    for cell in CELLS:
        found = [follow(cell, at) for at in range(STEPS)]
        cells[cell] = {
            "ahead": [one[0] for one in found],
            "back": [one[1] for one in found],
            "apart": max(one[2] for one in found),
        }
    return {"cells": cells}


def split(maps: lab.Found) -> tuple[list[float], list[float]]:
    """What arrives where the claim lets gradients go, and what arrives elsewhere."""
    steps = range(STEPS)
    inside = [maps["ahead"][at][s] for at in steps for s in steps if s <= at]
    inside += [maps["back"][at][s] for at in steps for s in steps if s >= at]
    outside = [maps["ahead"][at][s] for at in steps for s in steps if s > at]
    outside += [maps["back"][at][s] for at in steps for s in steps if s < at]
    return inside, outside


def judge(found: lab.Found) -> lab.Verdict:
    parts = [split(maps) for maps in found["cells"].values()]
    return lab.all_of(
        lab.at_most("largest gradient in the wrong direction", max(max(outside) for _, outside in parts), 0.0),
        lab.at_least("smallest gradient in the right direction", min(min(inside) for inside, _ in parts), 1e-15),
        lab.at_most(
            "distance from each chain alone", max(maps["apart"] for maps in found["cells"].values()), TOLERANCE
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    middle, steps = STEPS // 2, list(range(1, STEPS + 1))
    maps = found["cells"]["gru"]
    rows = []
    for cell, each in found["cells"].items():
        inside, outside = split(each)
        rows.append((cell, min(inside), max(outside), each["apart"]))
    heading = ("cell", "smallest in the right direction", "largest in the wrong one", "distance from a chain alone")
    lines = [
        lab.Series(name, steps, maps[key][middle]) for name, key in (("forward chain", "ahead"), ("backward", "back"))
    ]
    total = [[a + b for a, b in zip(*rows_, strict=True)] for rows_ in zip(maps["ahead"], maps["back"], strict=True)]
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(
            lab.Lines("Gradient of the loss at step 8 of a GRU", "step", "norm", lines),
            lab.HeatMap(
                "Gradient by step of the loss and step of the state", "state", "loss", steps, steps, total, "norm"
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S4-7",
    equation="y_t = g(h_t^f, h_t^b)\n∂ℓ_t/∂h_s^f = 0 for s > t, ∂ℓ_t/∂h_s^b = 0 for s < t",
    method=(
        "For each of 15 steps a loss is put on that step alone, and its gradient is followed through both chains of a "
        "bidirectional Elman, GRU and LSTM network. It must be exactly 0 at later steps of the forward chain and at "
        "earlier steps of the backward chain, differ from 0 everywhere else, and be the same as in each chain alone."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
