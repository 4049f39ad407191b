"""Unfolding in time: a recurrence as a chain of layers, and a pendulum whose parameters are learned through it."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool import lab
from unspool import nn as unspool_nn
from unspool.cells import Cell, Symbol, sqrt

TOLERANCE = 1e-10
CELLS = ("elman", "gru", "lstm", "skip")
PULL, DRAG, DT, START = 9.81, 0.3, 0.02, 1.0


class Pendulum(Cell):
    """A damped pendulum: s and c are sine and cosine of its angle, v is its speed, x a torque."""

    input_width = "hidden"

    def step(self, x: Symbol, s: Symbol, c: Symbol, v: Symbol) -> tuple[Symbol, ...]:
        pull, drag = self.vector("pull", 5.0), self.vector("drag", 1.0)
        v = v + DT * (x - pull * s - drag * v)
        s, c = s + DT * v * c, c - DT * v * s
        radius = sqrt(s * s + c * c)
        return s / radius, c / radius, v


def simulate(steps: int) -> NDArray[np.float64]:
    """The same difference equation in plain Python: the sine of the angle at each step."""
    s, c, v = math.sin(START), math.cos(START), 0.0
    found = []
    for _ in range(steps):
        v += DT * (-PULL * s - DRAG * v)
        s, c = s + DT * v * c, c - DT * v * s
        radius = math.hypot(s, c)
        s, c = s / radius, c / radius
        found.append(s)
    return np.array(found)


def gradients(module: torch.nn.Module, x: Tensor, weights: Tensor) -> Tensor:
    """The output, after a loss that weighs every entry differently has been sent backward."""
    module.zero_grad(set_to_none=True)
    output: Tensor = module(x)[0]
    (output * weights).sum().backward()
    return output.detach()


def unfold(name: str, steps: int = 12) -> dict[str, float]:
    """How far an unfolded cell is from the recurrent one, in values and in gradients."""
    torch.manual_seed(0)
    layer = unspool_nn.Recurrent(name, 3, 4, dtype=torch.float64)
    x, weights = torch.randn(steps, 2, 3, dtype=torch.float64), torch.randn(steps, 2, 4, dtype=torch.float64)
    chain = unspool_nn.Unfolded(layer, steps, tied=False)
    apart = gradients(layer, x, weights) - gradients(chain, x, weights)
    shares = torch.stack([gradient_of(step) for step in chain.steps])
    difference = shares.sum(0) - gradient_of(layer)
    return {"values": float(apart.abs().max()), "gradients": float(difference.abs().max())}


def gradient_of(module: torch.nn.Module) -> Tensor:
    """Of all weights, in one vector."""
    found = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    return torch.cat([gradient.flatten() for gradient in found])


def learn(steps: int) -> dict[str, list[float] | float]:
    """The parameters of a pendulum from its trajectory, by backpropagation through all steps."""
    layer = unspool_nn.Recurrent(Pendulum, 1, 1, dtype=torch.float64)
    start = tuple(torch.full((1, 1), value, dtype=torch.float64) for value in (math.sin(START), math.cos(START), 0))
    x, truth = torch.zeros(steps, 1, 1, dtype=torch.float64), torch.as_tensor(simulate(steps)).reshape(-1, 1, 1)
    rule = torch.optim.LBFGS(layer.parameters(), max_iter=100, tolerance_change=1e-16, line_search_fn="strong_wolfe")
    before = layer(x, start)[0].detach().flatten().tolist()

    def loss() -> Tensor:
        rule.zero_grad()
        error: Tensor = (layer(x, start)[0] - truth).square().mean()
        error.backward()
        return error

    rule.step(loss)
    pull, drag = layer.get_parameter("pull"), layer.get_parameter("drag")
    found = (float(pull.detach()), float(drag.detach()))
    with torch.no_grad():
        pull.fill_(PULL)
        drag.fill_(DRAG)
        simulated = float((layer(x, start)[0] - truth).abs().max())
    return {
        "simulation": simulated,
        "pull": found[0],
        "drag": found[1],
        "error": max(abs(found[0] - PULL), abs(found[1] - DRAG)),
        "before": before,
        "truth": truth.flatten().tolist(),
    }


def measure(study: lab.Study) -> lab.Found:
    return {"cells": {name: unfold(name) for name in CELLS}, "pendulum": learn(study.choose(200, 400))}


def judge(found: lab.Found) -> lab.Verdict:
    cells, pendulum = found["cells"].values(), found["pendulum"]
    return lab.all_of(
        lab.at_most("largest difference of values", max(one["values"] for one in cells), TOLERANCE),
        lab.at_most("largest difference of gradients", max(one["gradients"] for one in cells), TOLERANCE),
        lab.at_most("largest difference of the pendulum's trajectories", pendulum["simulation"], TOLERANCE),
        lab.at_most("largest error of the pendulum's learned parameters", pendulum["error"], 1e-4),
    )


def show(found: lab.Found) -> lab.Shown:
    pendulum = found["pendulum"]
    steps = list(range(1, len(pendulum["truth"]) + 1))
    rows = [(name, one["values"], one["gradients"]) for name, one in found["cells"].items()]
    learned = [("pull", PULL, pendulum["pull"]), ("drag", DRAG, pendulum["drag"])]
    curves = [
        lab.Series("true parameters", steps, pendulum["truth"]),
        lab.Series("first guess", steps, pendulum["before"]),
    ]
    kinds = (("values", "output"), ("gradients", "gradient"))
    bars = [
        lab.Series(title, list(CELLS), [max(found["cells"][name][kind], 1e-18) for name in CELLS])
        for kind, title in kinds
    ]
    return lab.Shown(
        tables=(
            lab.Table(("cell", "difference of outputs", "difference of gradients"), rows),
            lab.Table(("parameter of the pendulum", "true", "learned"), learned),
        ),
        figures=(
            lab.Lines("A pendulum, simulated by its cell", "step", "sine of the angle", curves),
            lab.Bars("Recurrent and unfolded network", "largest difference", bars, log_y=True),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S4-1",
    equation="h_t = F(h_{t−1}, x_t; θ)\n∂L/∂θ = Σ_t ∂L/∂θ^{(t)}",
    method=(
        "Four cells run once as a recurrence and once as a chain of 12 modules, each with its own copy of the weights. "
        "The outputs must agree, and the gradients of the copies must add up to that of the shared weights. A pendulum "
        "written as a cell must follow the same difference equation in plain Python; then its two parameters are "
        "learned from the trajectory alone, starting from wrong values, by backpropagation through all steps."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
