"""Starving: which layers and steps of a stack get little gradient from a loss at the top and at the end."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from unspool import lab
from unspool.insight import measure_flow, record
from unspool.lab.data import two_scales
from unspool.nn import Stack

LAYERS, UNITS, STEPS = 3, 24, 40
NAMES = ("layer 1", "layer 2", "layer 3")
#: At the last step only, or at every step.
LOSSES = ("last", "all")
#: Starving: less than this fraction of the largest gradient of the map.
STARVED = 0.01


class Network(torch.nn.Module):
    """Three tanh layers that estimate the slow part of a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.stack, self.head = Stack("elman", 1, UNITS, LAYERS), torch.nn.Linear(UNITS, 1)

    def loss(self, x: Tensor, y: Tensor, where: str) -> Tensor:
        errors: Tensor = (self.head(self.stack(x)[0]) - y).square()
        return errors[-1].mean() if where == "last" else errors.mean()


def batch(count: int, seed: int) -> tuple[Tensor, Tensor]:
    x, y = two_scales(STEPS, count, fast=1.0, slow=20.0, seed=seed)
    return torch.as_tensor(x), torch.as_tensor(y)[..., 1:]


def gradient_map(network: Network, where: str, seed: int) -> list[list[float]]:
    """‖∂L/∂h_t‖ of every layer at every step."""
    x, y = batch(16, seed)
    recording = record(network, lambda model: model.loss(x, y, where))  # type: ignore[operator]
    return [[float(value) for value in layer] for layer in measure_flow(recording, limit=2).norms]


def train(where: str, steps: int, seed: int) -> lab.Found:
    torch.manual_seed(seed)
    network = Network()
    before = gradient_map(network, where, seed)
    lab.fit(network, lambda step: network.loss(*batch(32, seed * 100_000 + step), where), steps)
    return {"before": before, "after": gradient_map(network, where, seed)}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(300, 1000)
    runs: dict[str, list[lab.Found]] = {where: [] for where in LOSSES}
    for seed in study.seeds():
        for where in LOSSES:
            runs[where].append(train(where, steps, seed))
    return {"runs": runs}


def early(norms: list[list[float]]) -> float:
    """log₁₀ of the lowest layer's mean gradient in the first quarter of steps, relative to the largest of the map."""
    found = np.array(norms)
    return math.log10(found[0, : STEPS // 4].mean() / found.max())


def lowest(norms: list[list[float]]) -> float:
    """log₁₀ of the lowest layer's gradient over the top layer's, each summed in squares over all steps."""
    found = np.linalg.norm(np.array(norms), axis=1)
    return math.log10(found[0] / found[-1])


def judge(found: lab.Found) -> lab.Verdict:
    last, every = (found["runs"][where] for where in LOSSES)
    gains = [early(more["after"]) - early(less["after"]) for less, more in zip(last, every, strict=True)]
    return lab.all_of(
        lab.below(
            "loss at T: log₁₀ of what the lowest layer gets early",
            [early(run["after"]) for run in last],
            math.log10(STARVED),
        ),
        lab.below(
            "loss at T: log₁₀ of the lowest layer's gradient over the top's", [lowest(run["after"]) for run in last]
        ),
        lab.above("losses at all steps: log₁₀ of what the lowest layer gains early", gains),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = []
    for where, runs in found["runs"].items():
        for when in ("before", "after"):
            mean = np.mean([run[when] for run in runs], axis=0).tolist()
            rows.append((where, when, early(mean), lowest(mean)))
    maps = {where: np.mean([run["after"] for run in runs], axis=0) for where, runs in found["runs"].items()}
    times = list(range(1, STEPS + 1))
    heat = np.log10(maps["last"] / maps["last"].max())
    curves = [lab.Series(where, times, (norms[0] / norms.max()).tolist()) for where, norms in maps.items()]
    return lab.Shown(
        tables=(
            lab.Table(("loss at steps", "training", "lowest layer, early: log₁₀", "lowest over top: log₁₀"), rows),
        ),
        figures=(
            lab.HeatMap(
                "Gradient with the loss at T only",
                "step",
                "layer",
                times,
                NAMES[::-1],
                heat[::-1],
                "log₁₀ of the largest",
            ),
            lab.Lines(
                "Gradient of the lowest layer", "step", "fraction of the largest of all layers", curves, log_y=True
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-4",
    equation="L = L(h_T^{(3)})\n∂L/∂h_t^{(1)} = Σ_{paths} ∏ J",
    method=(
        "Stacks of three tanh layers are trained to estimate the slow part of a signal: with the loss at the last step "
        "only, and at all steps. Afterwards the gradient is measured at every layer and step. The claim holds if, with "
        "the loss at the last step, the lowest layer gets less than 1 % of the largest gradient in the first quarter "
        "of steps, and over all steps less than the top layer; and if losses at all steps give it more early on."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
