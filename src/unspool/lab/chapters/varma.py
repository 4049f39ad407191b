"""A linear recurrent network and a VARMA process: each turned into the other, with the same response."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from unspool import lab
from unspool import nn as unspool_nn
from unspool.exchange import Varma, from_varma, layer_of, system_of, to_varma

TOLERANCE = 1e-10
STEPS = 50
#: States, inputs and outputs of the networks; orders p and q, inputs and outputs of the processes.
NETWORKS = ((1, 1, 1), (3, 1, 1), (4, 2, 2), (6, 3, 2))
PROCESSES = ((1, 0, 1, 1), (2, 1, 1, 1), (2, 3, 2, 2), (3, 1, 2, 3))


def forecast(process: Varma, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The process's own recursion over x (time, inputs)."""
    y = np.zeros((len(x), process.ma.shape[1]))
    for t in range(len(x)):
        for j, matrix in enumerate(process.ma[: t + 1]):
            y[t] += matrix @ x[t - j]
        for i, matrix in enumerate(process.ar[:t], start=1):
            y[t] += matrix @ y[t - i]
    return y


def network_case(states: int, inputs: int, outputs: int, seed: int) -> tuple[list[float], list[float], float]:
    """A network and the process made from it, on the same input: first outputs of both, and the largest difference."""
    torch.manual_seed(seed)
    layer = unspool_nn.Recurrent("linear", inputs, states, dtype=torch.float64)
    unspool_nn.init.orthogonal_(layer, 0.9)
    head = torch.nn.Linear(states, outputs, bias=False, dtype=torch.float64)
    x = torch.randn(STEPS, 1, inputs, dtype=torch.float64)
    network = head(layer(x)[0])[:, 0].detach().numpy()
    process = forecast(to_varma(system_of(layer, head)), x[:, 0].numpy())
    return network[:, 0].tolist(), process[:, 0].tolist(), float(np.abs(network - process).max())


def process_case(p: int, q: int, inputs: int, outputs: int, seed: int) -> float:
    """A process and the network made from it: the largest difference on the same input."""
    chance = np.random.default_rng(seed)
    ar = 0.3 / p * chance.standard_normal((p, outputs, outputs))
    process = Varma(ar, chance.standard_normal((q + 1, outputs, inputs)))
    x = chance.standard_normal((STEPS, inputs))
    layer, head = layer_of(from_varma(process))
    network = head(layer(torch.as_tensor(x).unsqueeze(1))[0])[:, 0].detach().numpy()
    return float(np.abs(network - forecast(process, x)).max())


def measure(study: lab.Study) -> lab.Found:
    networks = [network_case(*sizes, seed=study.first + place) for place, sizes in enumerate(NETWORKS)]
    return {
        "networks": NETWORKS,
        "network_errors": [case[2] for case in networks],
        "example": {"network": networks[1][0], "process": networks[1][1]},
        "processes": PROCESSES,
        "process_errors": [process_case(*orders, seed=study.first + n) for n, orders in enumerate(PROCESSES)],
    }


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.at_most("largest difference, network to process", max(found["network_errors"]), TOLERANCE),
        lab.at_most("largest difference, process to network", max(found["process_errors"]), TOLERANCE),
    )


def show(found: lab.Found) -> lab.Shown:
    to_rows = [(*sizes, error) for sizes, error in zip(found["networks"], found["network_errors"], strict=True)]
    from_rows = [(*orders, error) for orders, error in zip(found["processes"], found["process_errors"], strict=True)]
    example = found["example"]
    series = [lab.Series(name, list(range(len(curve))), curve) for name, curve in example.items()]
    return lab.Shown(
        tables=(
            lab.Table(("states", "inputs", "outputs", "difference as VARMA"), to_rows),
            lab.Table(("p", "q", "inputs", "outputs", "difference as network"), from_rows),
        ),
        figures=(lab.Lines("One input through a linear network and its VARMA process", "step", "output", series),),
    )


CHAPTER = lab.Chapter(
    claim="S1-11",
    equation=(
        "h_t = A h_{t−1} + B x_t, y_t = C h_t\n"
        "y_t = Σ_{i=1…p} Φ_i y_{t−i} + Σ_{j=0…q} Θ_j x_{t−j}\n"
        "det(I − A L) y = C adj(I − A L) B x"
    ),
    method=(
        "Linear networks with random weights become VARMA processes, and random VARMA processes become linear "
        "networks. Both read the same random input for 50 steps. The claim holds if their outputs agree to 10⁻¹⁰ both "
        "ways."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
