"""Depth: accuracy by effective depth of stacks and of deep transitions, and the optimum of a fitted curve."""

from __future__ import annotations

import statistics

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool.cells import DeepTransition
from unspool.lab.data import teacher
from unspool.nn import Layer, Recurrent, Stack

KINDS = ("stacked", "deep transition")
CURVES = {"stacked": "stacked, A(N)", "deep transition": "deep transition, A(N)"}
UNITS, FEATURES, CLASSES = 16, 4, 4
#: The accuracy of guessing, and the highest one.
LOWEST, HIGHEST = 1 / CLASSES, 1.0


def build(kind: str, depth: int) -> Layer:
    """N_eff = L for a stack and D for a deep transition; the head is linear and adds nothing."""
    if kind == "stacked":
        return Stack("elman", FEATURES, UNITS, depth)
    return Recurrent(DeepTransition(depth), FEATURES, UNITS)


def train(kind: str, depth: int, steps: int, seed: int) -> float:
    """The accuracy on new sequences."""
    torch.manual_seed(seed)
    layer, head = build(kind, depth), nn.Linear(UNITS, CLASSES)

    def loss(step: int) -> Tensor:
        x, y = map(torch.as_tensor, teacher(12, 64, seed=seed * 100_000 + step))
        return cross_entropy(head(layer(x)[0]).flatten(0, 1), y.flatten())

    lab.fit(nn.ModuleList([layer, head]), loss, steps, lr=1e-2)
    x, y = map(torch.as_tensor, teacher(12, 1000, seed=seed * 100_000 + 99_999))
    with torch.no_grad():
        return lab.accuracy(head(layer(x)[0]), y)


def measure(study: lab.Study) -> lab.Found:
    depths = study.choose([1, 2, 3, 4, 6, 8], list(range(1, 9)))
    steps = study.choose(250, 500)
    runs: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for seed in study.seeds():
        for kind in KINDS:
            runs[kind].append([train(kind, depth, steps, seed) for depth in depths])
    return {"depths": depths, "accuracies": runs}


def fitted(found: lab.Found, kind: str) -> lab.Found:
    """The curve through the mean accuracies, the measured best depth, and the depth next to the fitted optimum."""
    depths, runs = found["depths"], found["accuracies"][kind]
    curve = lab.fit_depth(depths, np.mean(runs, axis=0), LOWEST, HIGHEST)
    near = min(range(len(depths)), key=lambda place: abs(depths[place] - curve.optimum))
    return {
        "b": curve.gain,
        "m": curve.kept,
        "N*": curve.optimum,
        "best": curve.effective,
        "curve": curve.accuracy(depths),
        "over shallow": [run[near] - run[0] for run in runs],
        "over deep": [run[near] - run[-1] for run in runs],
    }


def judge(found: lab.Found) -> lab.Verdict:
    stacked, deep = (fitted(found, kind) for kind in KINDS)
    return lab.all_of(
        lab.above("stacked: accuracy at the optimum, over depth 1", stacked["over shallow"]),
        lab.above("stacked: accuracy at the optimum, over depth 8", stacked["over deep"]),
        lab.above("deep transition: accuracy at the optimum, over depth 1", deep["over shallow"]),
        lab.above("deep transition: accuracy at the optimum, over depth 8", deep["over deep"]),
        lab.at_most("stacked: distance of the best depth from N*", abs(stacked["best"] - stacked["N*"]), 1.0),
        lab.at_most("deep transition: distance of the best depth from N*", abs(deep["best"] - deep["N*"]), 1.0),
    )


def show(found: lab.Found) -> lab.Shown:
    depths = found["depths"]
    rows, series = [], []
    for kind in KINDS:
        curve = fitted(found, kind)
        rows.append((kind, curve["b"], curve["m"], curve["N*"], curve["best"]))
        columns = list(zip(*found["accuracies"][kind], strict=True))
        mean = [statistics.fmean(column) for column in columns]
        series.append(
            lab.Series(kind, depths, mean, [min(column) for column in columns], [max(column) for column in columns])
        )
    curves = [lab.Series(CURVES[kind], depths, fitted(found, kind)["curve"]) for kind in KINDS]
    return lab.Shown(
        tables=(lab.Table(("kind of depth", "b", "m", "N* of the fit", "best depth measured"), rows),),
        figures=(lab.Lines("Accuracy by effective depth", "N_eff", "accuracy on new sequences", [*series, *curves]),),
    )


CHAPTER = lab.Chapter(
    claim="S0-3",
    equation="A(N) = A_{min} + (A_{max} − A_{min})(1 − e^{−bN}) m^{N}\nN* = ln(1 − b/ln m)/b",
    method=(
        "Stacks of 1 to 8 tanh layers, and single layers whose transition has 1 to 8 tanh layers, learn the classes "
        "that a random network gives to the last two inputs, with the same number of updates. b and m of A(N) are "
        "fitted to the mean accuracies, with A_min = 1/4 and A_max = 1. The claim holds if the depth nearest to N* is "
        "more accurate than depth 1 and than depth 8, and the best measured depth is within one of N*, in both kinds. "
        "The updates are few and the same for all, so that a depth that learns slowly is less accurate."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
