"""Forgetting: two texts that begin differently and go on alike lead to the same state."""

from __future__ import annotations

import numpy as np
import torch

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import measure_forgetting, record

TOLERANCE = 1e-10
PREFIX, STEPS, UNITS = 5, 80, 8
LINEAR = (0.5, 0.8, 0.95, 1.0)
CELLS = ("elman", "gru", "lstm")


def make(cell: str, gain: float | None = None) -> unspool_nn.Recurrent:
    torch.manual_seed(0)
    layer = unspool_nn.Recurrent(cell, 3, UNITS, dtype=torch.float64)
    return layer if gain is None else unspool_nn.init.orthogonal_(layer, gain)


def distances(layer: unspool_nn.Recurrent) -> list[float]:
    """How far apart the states are after each step of the common ending, relative to where it begins."""
    torch.manual_seed(1)
    x = torch.randn(PREFIX + STEPS, 2, 3, dtype=torch.float64)
    found = measure_forgetting(record(layer, lambda model: model(x)[0].sum()), prefix=PREFIX)
    row: list[float] = found.distance[0].tolist()
    return row


def free_matrix() -> dict[str, list[float]]:
    """A linear network with any matrix: the measured distances, and ‖W^s δ‖ by NumPy."""
    layer = make("linear")
    weights = layer.cell_parameters()
    with torch.no_grad():
        weights["U_h"].mul_(0.9 / torch.linalg.eigvals(weights["U_h"]).abs().max())
    torch.manual_seed(1)
    x = torch.randn(PREFIX + STEPS, 2, 3, dtype=torch.float64).numpy()
    W, V = weights["U_h"].detach().numpy(), weights["W_h"].detach().numpy()
    delta = np.zeros(UNITS)
    for t in range(PREFIX):
        delta = W @ delta + V @ (x[t, 0] - x[t, 1])
    formula = []
    for _ in range(STEPS + 1):
        formula.append(float(np.linalg.norm(delta)))
        delta = W @ delta
    return {"measured": distances(layer), "formula": [value / formula[0] for value in formula]}


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    return {
        "orthogonal": {str(gain): distances(make("linear", gain)) for gain in LINEAR},
        "matrix": free_matrix(),
        "tanh": distances(make("elman", 0.8)),
        "cells": {cell: distances(make(cell)) for cell in CELLS},
    }


def judge(found: lab.Found) -> lab.Verdict:
    powers = [
        max(abs(value - float(gain) ** step) for step, value in enumerate(row))
        for gain, row in found["orthogonal"].items()
    ]
    pairs = zip(found["matrix"]["measured"], found["matrix"]["formula"], strict=True)
    beyond = max(value - 0.8**step for step, value in enumerate(found["tanh"]))
    return lab.all_of(
        lab.at_most("distance from s^k in a linear network, W = s Q", max(powers), TOLERANCE),
        lab.at_most("distance from ‖W^k δ‖ with any W", max(abs(one - other) for one, other in pairs), TOLERANCE),
        lab.at_most("excess over the bound ‖W‖^k of a tanh network", beyond, TOLERANCE),
        lab.at_most("distance left after 80 steps, largest of three cells", left(found), 1e-3),
    )


def left(found: lab.Found) -> float:
    return max(float(row[-1]) for row in found["cells"].values())


def show(found: lab.Found) -> lab.Shown:
    steps = list(range(STEPS + 1))
    curves = {f"W = {gain} Q": row for gain, row in found["orthogonal"].items()}
    curves |= {"tanh, ‖W‖ = 0.8": found["tanh"]} | found["cells"]
    series = [lab.Series(name, steps, [max(value, 1e-17) for value in row]) for name, row in curves.items()]
    rows = [(name, row[10], row[-1]) for name, row in curves.items()]
    return lab.Shown(
        tables=(lab.Table(("network", "distance left after 10 steps", "after 80 steps"), rows),),
        figures=(lab.Lines("Distance of the states during a common ending", "steps", "distance", series, log_y=True),),
    )


CHAPTER = lab.Chapter(
    claim="S3-10",
    equation="δ_t = W δ_{t−1} ⇒ ‖δ_k‖ = ‖W^k δ_0‖\n‖δ_k‖ ≤ ‖W‖^k ‖δ_0‖ for tanh",
    method=(
        "Two sequences have different first 5 steps and the same 80 steps after them. The distance of their states "
        "must be s^k in a linear network with W = s Q, ‖W^k δ‖ with any matrix, and at most ‖W‖^k times the first "
        "distance in a tanh network. In Elman, GRU and LSTM networks with usual initial weights less than 1/1000 of "
        "the difference may be left at the end. A linear network with s = 1 is shown as a counterexample: it forgets "
        "nothing."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
