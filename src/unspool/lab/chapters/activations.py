"""Activations: tanh shrinks gradients where the matrix alone would keep them, and relu units can die."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import measure_activations, measure_jacobians, record

TOLERANCE = 1e-10
LAGS, UNITS, DEAD = 24, 16, 4
GAINS = (0.0, 0.1, 0.5, 1.0)


def layer_of(cell: str) -> unspool_nn.Recurrent:
    """A layer whose recurrent matrix is orthogonal, so that its norm is 1; no biases."""
    torch.manual_seed(0)
    layer = unspool_nn.Recurrent(cell, UNITS, UNITS, bias=False, dtype=torch.float64)
    return unspool_nn.init.orthogonal_(layer)


def shrink(gain: float) -> dict[str, list[float] | float]:
    """Norms of products of Jacobians of a tanh network, by its X-ray and by the formula."""
    layer = layer_of("elman")
    x = gain * torch.randn(LAGS - 1, 1, UNITS, dtype=torch.float64)
    measured = measure_jacobians(record(layer, lambda model: model(x)[0].sum()), lags=LAGS, rows=1)
    product, formula = torch.eye(UNITS, dtype=torch.float64), [1.0]
    h = layer(x)[0].detach()
    for t in range(LAGS - 1):
        product = (1 - h[t, 0].square()).diag() @ layer.cell_parameters()["U_h"].detach() @ product
        formula.append(float(torch.linalg.matrix_norm(product, 2)))
    found = measured.products[0, :, -1].tolist()
    return {"measured": found, "difference": max(abs(a - b) for a, b in zip(found, formula, strict=True))}


def die() -> dict[str, float]:
    """A relu layer, some of whose units have a bias that no input overcomes."""
    torch.manual_seed(0)
    layer = unspool_nn.Recurrent("elman-relu", 3, UNITS, dtype=torch.float64)
    with torch.no_grad():
        layer.get_parameter("b_h")[:DEAD] = -100.0
    x = torch.randn(20, 8, 3, dtype=torch.float64)
    (activity,) = measure_activations(record(layer, lambda model: model(x)[0].sum())).values
    layer(x)[0].sum().backward()
    rows = torch.cat([gradient_of(layer, name).flatten(1) for name in ("W_h", "U_h")], 1).abs().amax(1)
    return {
        "bias": float(sum(share == 1 for share in activity.by_unit[:DEAD])),
        "others": float(rows[DEAD:].max()),
        "gradient": float(rows[:DEAD].max()),
        "dead": activity.dead,
    }


def gradient_of(layer: nn.Module, name: str) -> Tensor:
    gradient = layer.get_parameter(name).grad
    assert gradient is not None
    return gradient


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    return {"tanh": {str(gain): shrink(gain) for gain in GAINS}, "relu": die()}


def judge(found: lab.Found) -> lab.Verdict:
    silent, driven = found["tanh"][str(GAINS[0])], [found["tanh"][str(gain)] for gain in GAINS[1:]]
    every = [silent, *driven]
    return lab.all_of(
        lab.at_most("difference from the formula", max(one["difference"] for one in every), TOLERANCE),
        lab.at_most("distance from 1 where all states are 0", abs(silent["measured"][-1] - 1), TOLERANCE),
        lab.at_most("largest norm over 23 steps where they are not", max(one["measured"][-1] for one in driven), 0.99),
        lab.at_least("relu units that are 0 at every step", found["relu"]["bias"], DEAD),
        lab.at_most("largest gradient of their weights", found["relu"]["gradient"], 0.0),
    )


def show(found: lab.Found) -> lab.Shown:
    lags = list(range(LAGS))
    series = [lab.Series(f"{gain} · x", lags, found["tanh"][str(gain)]["measured"]) for gain in GAINS]
    rows = [
        (gain, one["measured"][-1], one["measured"][-1] ** (1 / (LAGS - 1)), one["difference"])
        for gain, one in found["tanh"].items()
    ]
    relu = found["relu"]
    return lab.Shown(
        tables=(
            lab.Table(("scale of the input", "norm over 23 steps", "factor per step", "distance from formula"), rows),
        ),
        figures=(
            lab.Lines("Products of Jacobians of a tanh network, ‖W‖ = 1", "steps", "spectral norm", series, log_y=True),
            lab.Bars(
                "Largest gradient of a relu unit's weights",
                "gradient",
                [lab.Series("gradient", ["dead units", "other units"], [relu["gradient"], relu["others"]])],
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S4-2",
    equation="∂h_t/∂h_{t−1} = diag(φ′(a_t)) W\ntanh′(a) = 1 − tanh²(a) ≤ 1",
    method=(
        "A tanh network has an orthogonal recurrent matrix, which alone would keep every norm. The spectral norms of "
        "products of its Jacobians are measured on inputs of four scales and compared with the formula. They must stay "
        "1 only where all states are 0. In a relu network four of 16 units get a bias of −100: they must be 0 at every "
        "step, and the gradient of their weights must be exactly 0, so that no training revives them."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
