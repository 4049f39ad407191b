"""The adding problem: where a simple recurrent network fails and gates succeed."""

from __future__ import annotations

import statistics

import torch
from torch import nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import adding
from unspool.language import Message

#: The mean squared error of always answering 1, the variance of a sum of two uniform numbers.
BASELINE = 1 / 6
SOLVED = 0.01
UNITS, BATCH_SIZE, EVERY = 32, 32, 50
CELLS = ("elman", "gru", "lstm")
#: The length that decides, and how many seeds also sweep the others.
JUDGED, SWEPT = 200, 3
#: The seed of the sequences on which all errors are measured.
TEST = 999_999


def train(cell: str, T: int, updates: int, seed: int) -> list[float]:
    """The error on new sequences after every 50 updates, until it is well below 0.01."""
    torch.manual_seed(seed)
    layer, head = unspool_nn.Recurrent(cell, 2, UNITS), nn.Linear(UNITS, 1)
    if cell != "elman":
        unspool_nn.init.chrono_(layer, T)  # gates that keep for 1 to T steps; a simple network has no such thing

    def error(count: int, number: int) -> torch.Tensor:
        x, y = map(torch.as_tensor, adding(T, count, seed=number))
        found: torch.Tensor = (head(layer(x)[0][-1]).squeeze(-1) - y).square().mean()
        return found

    errors: list[float] = []

    @torch.no_grad()
    def solved(step: int) -> bool:
        if step % EVERY == 0:
            errors.append(float(error(1000, TEST)))
        return step % EVERY == 0 and errors[-1] < SOLVED / 2

    lab.fit(
        nn.ModuleList([layer, head]),
        lambda step: error(BATCH_SIZE, seed * 1_000_000 + step),
        updates,
        lr=0.01,
        stop=solved,
    )
    return errors


def measure(study: lab.Study) -> lab.Found:
    lengths = study.choose([JUDGED], [50, 100, JUDGED, 400])
    updates = study.choose(600, 1000)
    curves: dict[str, dict[str, list[list[float]]]] = {cell: {str(T): [] for T in lengths} for cell in CELLS}
    for place, seed in enumerate(study.seeds()):
        for T in lengths if place < SWEPT else [JUDGED]:
            for cell in CELLS:
                curves[cell][str(T)].append(train(cell, T, updates, seed))
    return {"T": JUDGED, "lengths": lengths, "updates": updates, "curves": curves}


def smallest(found: lab.Found, cell: str, T: int) -> list[float]:
    """The smallest error of each seed."""
    return [min(curve) for curve in found["curves"][cell][str(T)]]


def judge(found: lab.Found) -> lab.Verdict:
    T = found["T"]
    gated = min(("gru", "lstm"), key=lambda cell: statistics.fmean(smallest(found, cell, T)))
    return lab.all_of(
        lab.above("error of the simple RNN", smallest(found, "elman", T), 0.9 * BASELINE),
        lab.below("error of the better gated cell", smallest(found, gated, T), SOLVED),
    )


def updates_needed(found: lab.Found, cell: str, T: int) -> list[int | None]:
    """Updates to an error below 0.01, one per seed; None if it was not reached."""
    curves = found["curves"][cell][str(T)]
    return [next((EVERY * (n + 1) for n, error in enumerate(curve) if error < SOLVED), None) for curve in curves]


def typical(found: lab.Found, cell: str, T: int) -> float | str:
    """The median of the updates that are needed, where more than half of the seeds get there."""
    needed = sorted(float(value or "inf") for value in updates_needed(found, cell, T))
    middle = statistics.median_high(needed)
    return middle if middle < float("inf") else Message("more than {updates}", updates=found["updates"])


def mean_curve(curves: list[list[float]]) -> list[float]:
    """The mean over seeds after every 50 updates; a run that has ended keeps its last error."""
    longest = max(map(len, curves))
    return [statistics.fmean(curve[min(place, len(curve) - 1)] for curve in curves) for place in range(longest)]


def show(found: lab.Found) -> lab.Shown:
    T, curves = found["T"], found["curves"]
    means = {cell: mean_curve(curves[cell][str(T)]) for cell in CELLS}
    series = [
        lab.Series(cell, [EVERY * (place + 1) for place in range(len(mean))], mean) for cell, mean in means.items()
    ]
    errors = [(cell, statistics.fmean(smallest(found, cell, T)), max(smallest(found, cell, T))) for cell in CELLS]
    needed = [(T, *(typical(found, cell, T) for cell in CELLS)) for T in found["lengths"]]
    return lab.Shown(
        tables=(
            lab.Table(("cell", "smallest error at T = 200, mean over seeds", "worst seed"), errors),
            lab.Table(("T", *CELLS), needed),
        ),
        figures=(
            lab.Lines(
                "Error on new sequences during training",
                "updates",
                "mean squared error",
                series,
                log_y=True,
                marks=(lab.Mark("always answering 1", BASELINE), lab.Mark("solved", SOLVED)),
            ),
        ),
        remarks=("The second table has the updates to an error below 0.01, the median over seeds.",),
    )


CHAPTER = lab.Chapter(
    claim="S1-6",
    equation="y = x_i + x_j\nMSE(y = 1) = 1/6",
    method=(
        "Each sequence has T random numbers and two marks; the target is the sum of the two marked numbers. A simple "
        "RNN (tanh), a GRU and an LSTM with 32 units are trained on the same new sequences, the gates with chrono "
        "initialization. The claim holds if, at T = 200, the error of the simple RNN stays within 10 % of the "
        "baseline 1/6, and that of the better gated cell falls below 0.01. The full study also sweeps T from 50 to "
        "400."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
