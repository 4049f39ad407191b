"""The adding problem: where a simple recurrent network fails and gates succeed."""

from __future__ import annotations

import statistics

import torch
from torch import nn

from unspool import nn as unspool_nn
from unspool.lab import Chapter, Found, Lines, Mark, Series, Shown, Study, Table, Verdict, above, all_of, below, fit
from unspool.lab.data import adding

#: The mean squared error of always answering 1, the variance of a sum of two uniform numbers.
BASELINE = 1 / 6
SOLVED = 0.01
CELLS = ("elman", "gru", "lstm")


def train(cell: str, T: int, steps: int, seed: int) -> list[float]:
    """The error on new sequences after each hundredth of the updates."""
    torch.manual_seed(seed)
    layer = unspool_nn.Recurrent(cell, 2, 64)
    head = nn.Linear(64, 1)
    test_x, test_y = map(torch.as_tensor, adding(T, 500, seed=10_000 + seed))
    errors = []
    for part in range(20):

        def loss(step: int, part: int = part) -> torch.Tensor:
            x, y = map(torch.as_tensor, adding(T, 32, seed=(seed * 20 + part) * 100_000 + step))
            error: torch.Tensor = (head(layer(x)[0][-1]).squeeze(-1) - y).square().mean()
            return error

        fit(nn.ModuleList([layer, head]), loss, steps // 20, lr=3e-3)
        with torch.no_grad():
            errors.append(float((head(layer(test_x)[0][-1]).squeeze(-1) - test_y).square().mean()))
    return errors


def measure(study: Study) -> Found:
    T = 200
    steps = study.choose(2000, 4000)
    curves: dict[str, list[list[float]]] = {cell: [] for cell in CELLS}
    for seed in study.seeds():
        for cell in CELLS:
            curves[cell].append(train(cell, T, steps, seed))
    return {"T": T, "steps": steps, "curves": curves}


def final(found: Found, cell: str) -> list[float]:
    return [min(curve) for curve in found["curves"][cell]]


def judge(found: Found) -> Verdict:
    gated = min(("gru", "lstm"), key=lambda cell: statistics.fmean(final(found, cell)))
    return all_of(
        above("error of the simple RNN", final(found, "elman"), 0.9 * BASELINE),
        below("error of the gated cell", final(found, gated), SOLVED),
    )


def show(found: Found) -> Shown:
    each = found["steps"] // 20
    updates = [each * (place + 1) for place in range(20)]
    series = [
        Series(cell, updates, [statistics.fmean(errors) for errors in zip(*found["curves"][cell], strict=True)])
        for cell in CELLS
    ]
    rows = [(cell, statistics.fmean(final(found, cell)), max(final(found, cell))) for cell in CELLS]
    return Shown(
        tables=(Table(("cell", "smallest error, mean over seeds", "worst seed"), rows),),
        figures=(
            Lines(
                "Error on new sequences during training",
                "updates",
                "mean squared error",
                series,
                log_y=True,
                marks=(Mark("always answering 1", BASELINE), Mark("solved", SOLVED)),
            ),
        ),
    )


CHAPTER = Chapter(
    claim="S1-6",
    equation="y = x_i + x_j\nMSE(y = 1) = 1/6",
    method=(
        "Each sequence has 200 random numbers and two marks; the target is the sum of the two marked numbers. A simple "
        "RNN, a GRU and an LSTM with 64 units are trained on the same new sequences. The claim holds if the error of "
        "the simple RNN stays within 10 % of the baseline 1/6, and that of the better gated cell falls below 0.01."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
