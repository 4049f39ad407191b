"""The latch: time constants of gates, and one bit that is held for thousands of steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import measure_time_constants, record
from unspool.lab.data import flip_flop

INTERVAL = 0.02  # Δt in seconds, as in the document
GATES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
CELLS = ("gru", "lstm")
LENGTHS = (100, 500, 1000, 5000)
UNITS, NOISE, TRAINED = 16, 0.1, 100


def decay(gate: float) -> tuple[float, float]:
    """The time constant of an LSTM whose forget gate has this value: from the decay of c, and from the gate."""
    layer = unspool_nn.Recurrent("lstm", 1, 1, dtype=torch.float64)
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    unspool_nn.init.forget_bias_(layer, math.log(gate / (1 - gate)))
    steps = 100
    start = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    x = torch.zeros(steps, 1, 1, dtype=torch.float64)
    left = float(layer(x, start)[1][1].detach())
    found = measure_time_constants(record(layer, lambda model: model(x)[0].sum()), dt=INTERVAL)
    return -steps * INTERVAL / math.log(left), float(found.sets[0].tau[0])


def train(cell: str, updates: int, seed: int) -> nn.ModuleList:
    """A network that learns to hold the latest of rare pulses among noise, in sequences of 100 steps."""
    torch.manual_seed(seed)
    layer, head = unspool_nn.Recurrent(cell, 1, UNITS), nn.Linear(UNITS, 1)
    unspool_nn.init.chrono_(layer, TRAINED)

    def loss(step: int) -> Tensor:
        x, y = map(torch.as_tensor, flip_flop(TRAINED, 32, 1, 0.02, seed * 1_000_000 + step))
        return nn.functional.soft_margin_loss(head(layer(x + NOISE * torch.randn_like(x))[0]), y)

    model = nn.ModuleList([layer, head])
    lab.fit(model, loss, updates, lr=0.01)
    return model


@torch.no_grad()
def hold(model: nn.ModuleList, seed: int) -> list[float]:
    """The fraction of first pulses that the network still tells after each number of steps of noise."""
    layer, head = model
    x, y = map(torch.as_tensor, flip_flop(max(LENGTHS), 200, 1, 0.0, seed * 1_000_000 + 999_999))
    told = head(layer(x + NOISE * torch.randn_like(x))[0])
    return [float((told[T - 1].sign() == y[T - 1]).double().mean()) for T in LENGTHS]


def longest(model: nn.ModuleList) -> float:
    """The largest time constant among the trained gates, in steps."""
    x = NOISE * torch.randn(TRAINED, 1, 1)
    found = measure_time_constants(record(model[0], lambda layer: layer(x)[0].sum()))
    return float(max(found.sets[0].tau))


def measure(study: lab.Study) -> lab.Found:
    held: dict[str, list[list[float]]] = {cell: [] for cell in CELLS}
    constants: dict[str, list[float]] = {cell: [] for cell in CELLS}
    for seed in study.seeds():
        for cell in CELLS:
            model = train(cell, study.choose(600, 1200), seed)
            held[cell].append(hold(model, seed))
            constants[cell].append(longest(model))
    taus = [decay(gate) for gate in GATES]
    return {
        "gates": GATES,
        "decay": [tau[0] for tau in taus],
        "gate": [tau[1] for tau in taus],
        "held": held,
        "longest": constants,
    }


def tau(gate: float) -> float:
    return -INTERVAL / math.log(gate)


def judge(found: lab.Found) -> lab.Verdict:
    measured = (*zip(GATES, found["decay"], strict=True), *zip(GATES, found["gate"], strict=True))
    return lab.all_of(
        lab.at_most("largest relative difference from −Δt/ln f", max(abs(t / tau(f) - 1) for f, t in measured), 1e-10),
        lab.above(
            "fraction that the LSTM still tells after 5,000 steps", [run[-1] for run in found["held"]["lstm"]], 0.9
        ),
        lab.above(
            "fraction that the GRU still tells after 5,000 steps", [run[-1] for run in found["held"]["gru"]], 0.9
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = [
        (gate, tau(gate), decayed, of_gate, tau(gate) / INTERVAL)
        for gate, decayed, of_gate in zip(found["gates"], found["decay"], found["gate"], strict=True)
    ]
    means = {cell: [lab.interval_of(each).mean for each in zip(*found["held"][cell], strict=True)] for cell in CELLS}
    held: list[tuple[float | str, ...]] = [
        (cell, *values, lab.interval_of(found["longest"][cell]).mean) for cell, values in means.items()
    ]
    return lab.Shown(
        tables=(
            lab.Table(("f", "−Δt/ln f (s)", "from the decay of c (s)", "from the gate (s)", "steps"), rows),
            lab.Table(("cell", *(f"T = {T}" for T in LENGTHS), "largest time constant (steps)"), held),
        ),
        figures=(
            lab.Lines(
                "One bit among noise",
                "steps since the pulse",
                "fraction that is still told",
                [lab.Series(cell, LENGTHS, values) for cell, values in means.items()],
                log_x=True,
                marks=(lab.Mark("chance", 0.5), lab.Mark("length in training", TRAINED, vertical=True)),
            ),
        ),
        remarks=(
            "A trained latch may last longer than the time constants of its gates: states that attract, which the "
            "recurrent matrices make, hold a bit for any time.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-7",
    equation="c_t = f c_{t−1}\nτ = −Δt / ln f",
    method=(
        "An LSTM with a fixed forget gate f starts with c = 1; τ follows from what is left after 100 steps, and from "
        "the gate itself. Both must equal −Δt/ln f to 10⁻¹⁰. Then an LSTM and a GRU learn to hold the latest of rare "
        "pulses among noise, in sequences of 100 steps. The claim holds if, after one pulse and 5,000 steps of noise, "
        "both still tell its sign in more than 0.9 of new sequences; chance is 0.5."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
