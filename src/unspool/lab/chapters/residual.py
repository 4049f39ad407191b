"""Residual and skipping connections in time: the identity in the Jacobian, and shorter paths."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool import lab
from unspool import nn as unspool_nn
from unspool.cells import Skip
from unspool.insight import record

TOLERANCE = 1e-10
STEPS, UNITS, GAP = 20, 6, 40
CELLS = {"elman": "elman", "residual": "residual", "skip": "skip(span=8)"}


def identity() -> float:
    """∂h_{t+1}/∂h_t of a residual cell against I + diag(1 − f²) U."""
    torch.manual_seed(0)
    layer = unspool_nn.Recurrent("residual", 3, UNITS, dtype=torch.float64)
    x = torch.randn(STEPS, 1, 3, dtype=torch.float64)
    (seen,) = record(layer, lambda model: model(x)[0].sum()).layers
    slopes = (1 - seen.named["f"][:, 0].square()).diag_embed()
    formula = torch.eye(UNITS, dtype=torch.float64) + slopes @ layer.cell_parameters()["U_f"].detach()
    return float((seen.jacobians(seen.x[:, 0], seen.before[:, 0]) - formula).abs().max())


def paths(span: int) -> list[float]:
    """∂h_t/∂x_0 of a linear unit with edges of 1 and of `span` steps, all of weight 1: the number of paths."""
    layer = unspool_nn.Recurrent(Skip(span, activation="identity"), 1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(1.0)
    x = torch.zeros(STEPS + 1, 1, 1, dtype=torch.float64)
    x[0] = 1.0  # the response of a linear network to an impulse is its derivative
    counts: list[float] = layer(x)[0].detach().flatten().tolist()
    return counts


def count(span: int) -> list[int]:
    """The number of ways to write t as a sum of ones and spans."""
    ways = [1]
    for t in range(1, STEPS + 1):
        ways.append(ways[t - 1] + (ways[t - span] if t >= span else 0))
    return ways


def reach(cell: str) -> list[float]:
    """‖∂L/∂h_t‖ of a loss at the last step, by steps back, with usual initial weights."""
    torch.manual_seed(0)
    layer = unspool_nn.Recurrent(cell, 3, 32, dtype=torch.float64)
    x = torch.randn(GAP + 1, 8, 3, dtype=torch.float64)
    gradient = record(layer, lambda model: model(x)[0][-1].square().sum()).gradient()
    (states,) = gradient.states.values()
    norms = states[..., :32].flatten(1).norm(dim=-1).flip(0)
    relative: list[float] = (norms / norms[0]).tolist()
    return relative


def train(cell: str, steps: int, seed: int) -> float:
    """The accuracy of telling a bit that was shown 40 steps of noise ago."""
    torch.manual_seed(seed)
    layer, head = unspool_nn.Recurrent(cell, 2, 32), nn.Linear(32, 2)

    def loss(step: int) -> Tensor:
        x, y = draw(32, seed * 100_000 + step)
        return functional.cross_entropy(head(layer(x)[0][-1]), y)

    lab.fit(nn.ModuleList([layer, head]), loss, steps, lr=2e-3)
    x, y = draw(1000, 1_000_000_000 + seed)
    with torch.no_grad():
        return lab.accuracy(head(layer(x)[0][-1]), y)


def draw(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    x = torch.zeros(GAP + 1, rows, 2)
    x[..., 1] = torch.randn(GAP + 1, rows, generator=chance)
    y = torch.randint(0, 2, (rows,), generator=chance)
    x[0, :, 0] = 2.0 * y - 1
    return x, y


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(400, 1200)
    found: dict[str, list[float]] = {name: [] for name in CELLS}
    for seed in study.seeds():
        for name, cell in CELLS.items():
            found[name].append(train(cell, steps, seed))
    return {
        "identity": identity(),
        "paths": max(abs(a - b) for span in (2, 3, 5) for a, b in zip(paths(span), count(span), strict=True)),
        "reach": {name: reach(cell) for name, cell in CELLS.items()},
        "steps": steps,
        "accuracy": found,
    }


def judge(found: lab.Found) -> lab.Verdict:
    plain, residual, skip = (found["accuracy"][name] for name in CELLS)
    return lab.all_of(
        lab.at_most("distance of the Jacobian from I + ∂f/∂h", found["identity"], TOLERANCE),
        lab.at_most("distance of the gradient from the number of paths", found["paths"], TOLERANCE),
        lab.above("accuracy of the residual cell minus that of a simple RNN", differences(residual, plain), 0.05),
        lab.above("accuracy of the skipping cell minus that of a simple RNN", differences(skip, plain), 0.05),
    )


def differences(one: list[float], other: list[float]) -> list[float]:
    return [a - b for a, b in zip(one, other, strict=True)]


def show(found: lab.Found) -> lab.Shown:
    back = list(range(GAP + 1))
    series = [lab.Series(name, back, [max(value, 1e-20) for value in found["reach"][name]]) for name in CELLS]
    means = [statistics.fmean(found["accuracy"][name]) for name in CELLS]
    rows = [
        (name, found["reach"][name][-1], mean, min(found["accuracy"][name]))
        for name, mean in zip(CELLS, means, strict=True)
    ]
    return lab.Shown(
        tables=(
            lab.Table(("cell", "gradient 40 steps back, untrained", "accuracy, mean over seeds", "worst seed"), rows),
        ),
        figures=(
            lab.Lines("Gradient of the last step before training", "steps back", "relative norm", series, log_y=True),
            lab.Bars("Accuracy at a distance of 40 steps", "accuracy", [lab.Series("accuracy", list(CELLS), means)]),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S4-5",
    equation="h_{t+1} = h_t + f(h_t, x_t) ⇒ ∂h_{t+1}/∂h_t = I + ∂f/∂h_t\nn_t = n_{t−1} + n_{t−k} paths",
    method=(
        "The Jacobians of a residual cell must be I + ∂f/∂h. In a linear unit with edges of one and of k steps, all of "
        "weight 1, the gradient over t steps must be the number of paths. Then a simple RNN, a residual cell and a "
        "cell that also reads its state of 8 steps ago learn to tell a bit that was shown 40 steps of noise ago, with "
        "equal effort. The claim holds if both beat the simple RNN by more than 0.05 in accuracy."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
