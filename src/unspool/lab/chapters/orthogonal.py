"""Orthogonal recurrent matrices: in a linear network the gradient keeps its norm over any number of steps."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import record

TOLERANCE = 1e-10
STEPS, UNITS = 300, 12
GAINS = (0.97, 1.0, 1.03)


def backward_norms(layer: unspool_nn.Recurrent) -> list[float]:
    """‖∂L/∂h_t‖ for a loss at the last step, from that step back to the first; 1 at the loss."""
    x, weights = torch.randn(STEPS, 1, 3, dtype=torch.float64), torch.randn(UNITS, dtype=torch.float64)
    recording = record(layer, lambda model: (model(x)[0][-1] * weights).sum() / weights.norm())
    (gradient,) = recording.gradient().states.values()
    norms: list[float] = gradient[:, 0].norm(dim=-1).flip(0).tolist()
    return norms


def trained() -> dict[str, float]:
    """A matrix that is kept orthogonal, before and after training, and one that only began so."""
    found = {}
    for kept in (True, False):
        torch.manual_seed(1)
        layer = unspool_nn.init.orthogonal_(unspool_nn.Recurrent("linear", 3, UNITS, dtype=torch.float64))
        if kept:
            unspool_nn.init.keep_orthogonal(layer)
        x, target = torch.randn(20, 8, 3, dtype=torch.float64), torch.randn(8, UNITS, dtype=torch.float64)
        start = layer.cell_parameters()["U_h"].detach().clone()

        def loss(_: int, layer: Module = layer, x: Tensor = x, y: Tensor = target) -> Tensor:
            error: Tensor = (layer(x)[0][-1] - y).square().mean()
            return error

        lab.fit(layer, loss, steps=30, lr=0.01)
        U = layer.cell_parameters()["U_h"].detach()
        name = "kept" if kept else "free"
        found[f"{name} moved"] = float((U - start).norm())
        found[f"{name} distance"] = float((U.T @ U - torch.eye(UNITS, dtype=torch.float64)).abs().max())
    return found


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    norms = {}
    for gain in GAINS:
        torch.manual_seed(0)
        layer = unspool_nn.Recurrent("linear", 3, UNITS, dtype=torch.float64)
        norms[str(gain)] = backward_norms(unspool_nn.init.orthogonal_(layer, gain))
    return {"norms": norms, "trained": trained()}


def judge(found: lab.Found) -> lab.Verdict:
    differences = [
        max(abs(norm / float(gain) ** lag - 1) for lag, norm in enumerate(norms))
        for gain, norms in found["norms"].items()
    ]
    return lab.all_of(
        lab.at_most("largest relative distance from s^k", max(differences), TOLERANCE),
        lab.at_most(
            "distance from an orthogonal matrix after training that keeps it", trained_distance(found), TOLERANCE
        ),
    )


def trained_distance(found: lab.Found) -> float:
    """Infinite if training has not moved the matrix: then nothing was kept."""
    moved = found["trained"]["kept moved"]
    distance: float = found["trained"]["kept distance"]
    return distance if moved > 0.01 else float("inf")


def show(found: lab.Found) -> lab.Shown:
    lags = list(range(STEPS))
    series = [lab.Series(f"s = {gain}", lags, found["norms"][str(gain)]) for gain in GAINS]
    rows = [(gain, float(gain) ** (STEPS - 1), norms[-1]) for gain, norms in found["norms"].items()]
    after = found["trained"]
    kinds = [(name, after[f"{key} moved"], after[f"{key} distance"]) for name, key in (("yes", "kept"), ("no", "free"))]
    return lab.Shown(
        tables=(
            lab.Table(("s", "s^299", "gradient after 299 steps"), rows),
            lab.Table(
                ("kept orthogonal in training", "change of the matrix", "distance from an orthogonal one"), kinds
            ),
        ),
        figures=(lab.Lines("Gradient of a linear network, W = s · Q", "steps back", "norm", series, log_y=True),),
    )


CHAPTER = lab.Chapter(
    claim="S4-3",
    equation="h_t = W h_{t−1} + V x_t, W = s Q, Q^T Q = I\n‖(W^T)^k g‖ = s^k ‖g‖",
    method=(
        "The gradient of a loss at step 300 of a linear network is followed back to the first step, with an orthogonal "
        "matrix and with 0.97 and 1.03 times one. Its norm must be s^k after k steps to 10⁻¹⁰. A second network is "
        "trained with a parametrization that keeps the matrix orthogonal; it must still be so after the matrix moved."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
