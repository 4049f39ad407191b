"""Time scales: whether training makes lower layers fast and upper layers slow."""

from __future__ import annotations

import math
import statistics

import numpy as np
import torch
from torch import Tensor

from unspool import lab
from unspool.insight import measure_time_constants, record
from unspool.lab.data import two_scales
from unspool.nn import Stack

#: Time constants of the two processes of each signal; the one scale is the geometric mean of the two.
SIGNALS = {"two scales": (1.5, 40.0), "one scale": (math.sqrt(60), math.sqrt(60))}


def batch(signal: str, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The sum of two processes, and the processes, which the network must tell apart."""
    fast, slow = SIGNALS[signal]
    x, y = two_scales(80, count, fast=fast, slow=slow, seed=seed)
    return torch.as_tensor(x), torch.as_tensor(y)


def time_constants(stack: Stack, x: Tensor) -> list[float]:
    """The median over the units of each layer, from the forget gates, in steps."""
    recording = record(stack, lambda model: model(x)[0].sum())
    return [float(np.median(layer.tau)) for layer in measure_time_constants(recording).sets]


def train(signal: str, steps: int, seed: int) -> lab.Found:
    """The time constants of both layers before and after training."""
    torch.manual_seed(seed)
    stack, head = Stack("lstm", 1, 12, 2), torch.nn.Linear(12, 2)

    def loss(step: int) -> Tensor:
        x, y = batch(signal, 32, seed * 100_000 + step)
        error: Tensor = (head(stack(x)[0]) - y).square().mean()
        return error

    x, y = batch(signal, 64, seed * 100_000 + 99_999)
    before = time_constants(stack, x)
    lab.fit(torch.nn.ModuleList([stack, head]), loss, steps, lr=5e-3)
    with torch.no_grad():
        error = float((head(stack(x)[0]) - y).square().mean())
    return {"before": before, "after": time_constants(stack, x), "error": error}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(500, 1000)
    runs: dict[str, list[lab.Found]] = {signal: [] for signal in SIGNALS}
    for seed in study.seeds():
        for signal in SIGNALS:
            runs[signal].append(train(signal, steps, seed))
    return {"steps": steps, "runs": runs}


def separation(run: lab.Found, when: str) -> float:
    """How much slower the upper layer is, as the logarithm of the ratio of time constants."""
    lower, upper = run[when]
    return math.log(upper / lower)


def judge(found: lab.Found) -> lab.Verdict:
    two, one = (found["runs"][signal] for signal in SIGNALS)
    grown = [separation(run, "after") - separation(run, "before") for run in two]
    beyond = [separation(a, "after") - separation(b, "after") for a, b in zip(two, one, strict=True)]
    return lab.all_of(
        lab.above("two scales: growth of ln(τ_2/τ_1) by training", grown),
        lab.above("ln(τ_2/τ_1) of two scales, beyond that of one scale", beyond),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = []
    for signal, runs in found["runs"].items():
        for seed, run in enumerate(runs):
            rows.append((signal, seed, *run["before"], *run["after"], separation(run, "after"), run["error"]))
    layers = ["layer 1", "layer 2"]
    bars = [lab.Series("before training", layers, mean(found["runs"]["two scales"], "before"))]
    bars += [lab.Series(signal, layers, mean(found["runs"][signal], "after")) for signal in SIGNALS]
    heading = ("signal", "seed", "τ_1 before", "τ_2 before", "τ_1 after", "τ_2 after", "ln(τ_2/τ_1) after", "error")
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(lab.Bars("Time constants of the layers, mean over seeds", "τ, in steps", bars),),
    )


def mean(runs: list[lab.Found], when: str) -> list[float]:
    return [statistics.fmean(each) for each in zip(*(run[when] for run in runs), strict=True)]


CHAPTER = lab.Chapter(
    claim="S0-2",
    equation="x_t = z_t^{fast} + z_t^{slow} + noise\nτ = −1/ln f",
    method=(
        "Two-layer LSTMs are trained to tell the two processes apart of which a signal is the sum: with time constants "
        "of 1.5 and 40 steps, and, to compare, with 7.7 steps for both. The time constant of a layer is the median "
        "over its units, from the forget gates. The claim holds if training raises the ratio of the upper to the lower "
        "time constant on the signal of two scales, and above that of the signal of one scale."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
