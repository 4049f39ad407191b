"""Dropout by layer: rates that are solved for each layer, against their mean for all."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool.lab.data import teacher
from unspool.learning import best_dropout, measure_activity
from unspool.nn import Stack

LAYERS, UNITS, CLASSES = 3, 32, 4
NAMES = ("layer 1", "layer 2", "layer 3")
#: Sequences of 12 steps to train on: so few that a network learns them by heart.
EXAMPLES = 60
KINDS = ("none", "same for all", "solved per layer")


def data(count: int, seed: int) -> tuple[Tensor, Tensor]:
    x, y = teacher(12, count, seed=seed)
    return torch.as_tensor(x), torch.as_tensor(y)


def train(rates: list[float], steps: int, seed: int) -> tuple[Stack, float, float]:
    """A stack that is trained on few examples, with its accuracy on them and on new ones."""
    torch.manual_seed(seed)
    stack, head = Stack("elman", 4, UNITS, LAYERS, dropout=rates), nn.Linear(UNITS, CLASSES)
    x, y = data(EXAMPLES, seed)

    def loss(_: int) -> Tensor:
        return cross_entropy(head(stack(x)[0]).flatten(0, 1), y.flatten())

    lab.fit(nn.ModuleList([stack, head]), loss, steps, lr=5e-3)
    new_x, new_y = data(2000, 50_000 + seed)
    with torch.no_grad():
        return stack, lab.accuracy(head(stack(x)[0]), y), lab.accuracy(head(stack(new_x)[0]), new_y)


def solve(stack: Stack, seed: int) -> list[float]:
    """The best rate of each layer by the information and the co-adaptation of its activity."""
    with torch.no_grad():
        sequences, _ = stack(data(EXAMPLES, seed)[0], every_layer=True)
    return [best_dropout(*activity) if (activity := measure_activity(each)) else 0.0 for each in sequences]


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(600, 1200)
    runs = []
    for seed in study.seeds():
        stack, *none = train([0.0] * LAYERS, steps, seed)
        rates = solve(stack, seed)
        _, *same = train([statistics.fmean(rates)] * LAYERS, steps, seed)
        _, *solved = train(rates, steps, seed)
        runs.append({"rates": rates, "results": dict(zip(KINDS, (none, same, solved), strict=True))})
    return {"steps": steps, "runs": runs}


def on_new(found: lab.Found, kind: str) -> list[float]:
    return [run["results"][kind][1] for run in found["runs"]]


def judge(found: lab.Found) -> lab.Verdict:
    pairs = zip(on_new(found, KINDS[2]), on_new(found, KINDS[1]), strict=True)
    return lab.above("accuracy of solved rates, beyond that of one rate", [one - other for one, other in pairs])


def show(found: lab.Found) -> lab.Shown:
    runs = found["runs"]
    rows = []
    for kind in KINDS:
        known = statistics.fmean(run["results"][kind][0] for run in runs)
        rows.append((kind, known, statistics.fmean(on_new(found, kind)), min(on_new(found, kind))))
    rates = [(seed, *run["rates"], statistics.fmean(run["rates"])) for seed, run in enumerate(runs)]
    seeds = list(range(len(runs)))
    means = [statistics.fmean(each) for each in zip(*(run["rates"] for run in runs), strict=True)]
    curves = [lab.Series(kind, seeds, on_new(found, kind)) for kind in KINDS]
    return lab.Shown(
        tables=(
            lab.Table(("dropout", "accuracy, training", "accuracy, new sequences", "worst seed"), rows),
            lab.Table(("seed", "p of layer 1", "p of layer 2", "p of layer 3", "mean"), rates),
        ),
        figures=(
            lab.Lines("Accuracy on new sequences", "seed", "accuracy", curves, points=True),
            lab.Bars("Solved rates, mean over seeds", "p", [lab.Series("p", NAMES, means)]),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-12",
    equation="max Σ_ℓ (a_ℓ log(1 − p_ℓ) − b_ℓ/p_ℓ)\np_ℓ = (−b_ℓ + √(b_ℓ^{2} + 4 a_ℓ b_ℓ))/(2a_ℓ)",
    method=(
        "Stacks of three tanh layers learn the rule of a random network from 60 sequences. After training without "
        "dropout, information a and co-adaptation b of each layer's activity are measured, which gives its rate. New "
        "networks are trained with these rates, and with their mean for all layers. The claim holds if the first are "
        "more accurate on new sequences, seed by seed. It needs rates that differ enough between layers."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
