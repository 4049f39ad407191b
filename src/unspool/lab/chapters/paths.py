"""Paths: how many ways a gradient has through a stack with skips, and what is left of it in deep stacks."""

from __future__ import annotations

import math
import statistics

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool.insight import Recording, measure_streams, record
from unspool.lab.data import teacher
from unspool.nn import Stack

DEEPEST, TRAINED, UNITS, CLASSES = 10, 8, 16, 4
KINDS = ("without skips", "with skips")


def fibonacci(number: int) -> int:
    """F_1 = F_2 = 1, and each further one is the sum of the two before."""
    before, now = 0, 1
    for _ in range(number - 1):
        before, now = now, before + now
    return now


def recorded(stack: Stack, seed: int) -> Recording:
    """A stack with a random loss on the output of its top layer."""
    generator = torch.Generator().manual_seed(seed)
    like = next(stack.parameters())
    x = torch.randn(6, 4, 4, generator=generator).to(like)
    wanted = torch.randn(6, 4, UNITS, generator=generator).to(like)
    return record(stack, lambda model: (model(x)[0] * wanted).sum())


def what_is_left(layers: int, skip: bool, seed: int) -> float:
    """log₁₀ of the norm of the lowest layer's gradient over that of the top layer's, in a new stack."""
    torch.manual_seed(seed)
    stack = Stack("elman", 4, UNITS, layers, skip=skip, dtype=torch.float64)
    norms = [float(each.norm()) for each in recorded(stack, seed).gradient().states.values()]
    return math.log10(norms[0] / norms[-1])


def train(skip: bool, steps: int, seed: int) -> float:
    """The accuracy on new sequences of a stack of eight layers."""
    torch.manual_seed(seed)
    stack, head = Stack("elman", 4, UNITS, TRAINED, skip=skip), nn.Linear(UNITS, CLASSES)

    def loss(step: int) -> Tensor:
        x, y = map(torch.as_tensor, teacher(12, 64, seed=seed * 100_000 + step))
        return cross_entropy(head(stack(x)[0]).flatten(0, 1), y.flatten())

    lab.fit(nn.ModuleList([stack, head]), loss, steps, lr=1e-2)
    x, y = map(torch.as_tensor, teacher(12, 1000, seed=seed * 100_000 + 99_999))
    with torch.no_grad():
        return lab.accuracy(head(stack(x)[0]), y)


def measure(study: lab.Study) -> lab.Found:
    depths = list(range(1, DEEPEST + 1))
    counts = []
    for layers in depths:
        stack = Stack("elman", 4, UNITS, layers, skip=True, dtype=torch.float64)
        counts.append(measure_streams(recorded(stack, 0)).paths)
    steps = study.choose(300, 1000)
    left: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    accuracies: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for seed in study.seeds():
        for skip, kind in enumerate(KINDS):
            left[kind].append([what_is_left(layers, bool(skip), seed) for layers in depths])
            accuracies[kind].append(train(bool(skip), steps, seed))
    return {"depths": depths, "paths": counts, "left": left, "accuracies": accuracies}


def judge(found: lab.Found) -> lab.Verdict:
    expected = [fibonacci(layers) for layers in found["depths"]]
    wrong = sum(one != other for one, other in zip(found["paths"], expected, strict=True))
    plain, skips = (found["left"][kind] for kind in KINDS)
    fewer, more = (found["accuracies"][kind] for kind in KINDS)
    return lab.all_of(
        lab.at_most("depths at which the number of paths is not F_L", wrong, 0),
        lab.above(
            "10 layers: gain in log₁₀ of the gradient", [b[-1] - a[-1] for a, b in zip(plain, skips, strict=True)]
        ),
        lab.above("8 layers: gain in accuracy by skips", [b - a for a, b in zip(fewer, more, strict=True)]),
    )


def show(found: lab.Found) -> lab.Shown:
    depths = found["depths"]
    means = {kind: [statistics.fmean(each) for each in zip(*found["left"][kind], strict=True)] for kind in KINDS}
    rows = [(n, count, fibonacci(n)) for n, count in zip(depths, found["paths"], strict=True)]
    fractions = {kind: [10**value for value in means[kind]] for kind in KINDS}
    rows = [(*row, *values) for row, values in zip(rows, zip(*fractions.values(), strict=True), strict=True)]
    trained = [(kind, statistics.fmean(found["accuracies"][kind]), min(found["accuracies"][kind])) for kind in KINDS]
    return lab.Shown(
        tables=(
            lab.Table(("layers", "paths", "F_L", "gradient left, without skips", "gradient left, with skips"), rows),
            lab.Table(("8 layers", "accuracy, mean over seeds", "worst seed"), trained),
        ),
        figures=(
            lab.Lines(
                "Gradient of the lowest layer over that of the top layer",
                "layers",
                "fraction",
                [lab.Series(kind, depths, fractions[kind]) for kind in KINDS],
                log_y=True,
            ),
            lab.Lines(
                "Paths from the top layer to the lowest",
                "layers",
                "paths",
                [lab.Series("paths", depths, found["paths"])],
                log_y=True,
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-6",
    equation="N(L) = N(L−1) + N(L−2)\nN(L) = F_L ≈ φ^{L}/√5",
    method=(
        "Layer ℓ reads layers ℓ−1 and ℓ−2. The paths along which the gradient flows are counted for 1 to 10 layers. "
        "Its norm at the lowest layer is compared with that at the top at the initial weights, without and with skips. "
        "Then stacks of eight tanh layers are trained to learn the rule of a random network. The claim holds if "
        "all counts are Fibonacci numbers, and skips raise both the gradient that is left and the accuracy."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
