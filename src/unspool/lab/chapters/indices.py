"""The indices of a step's Jacobian: an error in the document, and the right indices beside it."""

from __future__ import annotations

import torch
from torch import Tensor

from unspool import lab
from unspool import nn as unspool_nn

TOLERANCE = 1e-10
STEPS, INPUTS, UNITS = 12, 3, 5


def formula(layer: unspool_nn.Recurrent, h: Tensor, x: Tensor) -> Tensor:
    """diag(φ′(W h + W_x x + b)) W for tanh."""
    W, W_x, b = (layer.get_parameter(name) for name in ("U_h", "W_h", "b_h"))
    return torch.diag(1 - torch.tanh(W @ h + W_x @ x + b).square()) @ W


def compare(seed: int) -> tuple[list[float], list[float]]:
    """The largest differences from the true Jacobian at steps 2, 3, …: with the document's indices, the right ones."""
    torch.manual_seed(seed)
    layer = unspool_nn.Recurrent("elman", INPUTS, UNITS, dtype=torch.float64)
    unspool_nn.init.orthogonal_(layer)
    x = torch.randn(STEPS, INPUTS, dtype=torch.float64)
    states = torch.cat([torch.zeros(1, UNITS, dtype=torch.float64), layer(x)[0].detach()])  # h_0, h_1, …
    stated, right = [], []
    with torch.no_grad():
        for j in range(2, STEPS + 1):  # x_j is x[j − 1], as the first input is x_1
            true = torch.func.jacrev(lambda h, now=x[j - 1 : j]: layer(now, h)[1])(states[j - 1])
            stated.append(float((formula(layer, states[j - 2], x[j - 2]) - true).abs().max()))
            right.append(float((formula(layer, states[j - 1], x[j - 1]) - true).abs().max()))
    return stated, right


def measure(study: lab.Study) -> lab.Found:
    stated, right = compare(study.first)
    return {"steps": list(range(2, STEPS + 1)), "stated": stated, "right": right}


def judge(found: lab.Found) -> lab.Verdict:
    return lab.at_most("difference from the true Jacobian with the indices j−2, j−1", max(found["stated"]), TOLERANCE)


def show(found: lab.Found) -> lab.Shown:
    rows = [
        ("j−2, j−1 (the document)", min(found["stated"]), max(found["stated"])),
        ("j−1, j (right)", min(found["right"]), max(found["right"])),
    ]
    series = [
        lab.Series("indices j−2, j−1 (the document)", found["steps"], found["stated"]),
        lab.Series("indices j−1, j (right)", found["steps"], [max(error, 1e-18) for error in found["right"]]),
    ]
    return lab.Shown(
        tables=(lab.Table(("indices", "smallest difference", "largest difference"), rows),),
        figures=(
            lab.Lines(
                "Difference from the true Jacobian of the step",
                "step j",
                "largest difference of an entry",
                series,
                log_y=True,
                points=True,
                marks=(lab.Mark("tolerance", TOLERANCE),),
            ),
        ),
        remarks=("The conclusions that the document draws from the product do not depend on these indices.",),
    )


CHAPTER = lab.Chapter(
    claim="S1-e",
    equation=(
        "h_j = φ(W h_{j−1} + W_x x_j + b)\n"
        "stated: ∂h_j/∂h_{j−1} = diag(φ′(W h_{j−2} + W_x x_{j−1} + b)) W\n"
        "right: ∂h_j/∂h_{j−1} = diag(φ′(W h_{j−1} + W_x x_j + b)) W"
    ),
    method=(
        "The Jacobian of each step of a tanh network, as automatic differentiation has it, is compared with the "
        "formula with the document's indices and with the right ones. The claim would hold if the first agreed to "
        "10⁻¹⁰. It does not; the formula with the indices j−1 and j does."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
