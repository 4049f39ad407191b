"""How far a stack of convolutions sees, and a recurrent network: what was said d steps before the end."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from unspool import lab
from unspool import nn as unspool_nn
from unspool.language import Message

DISTANCES = (2, 4, 5, 8, 9, 16, 17, 40)
#: (layers, kernel size) of the stacks.
STACKS = ((2, 3), (4, 3), (4, 5))
WIDTH = 16


class Convolutions(nn.Module):
    """A stack of convolutions over the present and past steps; the answer is read at the last step."""

    def __init__(self, layers: int, kernel: int) -> None:
        super().__init__()
        self.kernel, self.field = kernel, 1 + layers * (kernel - 1)
        widths = [2] + [WIDTH] * layers
        self.layers = nn.ModuleList(nn.Conv1d(a, b, kernel) for a, b in itertools.pairwise(widths))
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        z = x.permute(1, 2, 0)  # (batch, features, time)
        for layer in self.layers:
            z = layer(pad(z, (self.kernel - 1, 0))).relu()
        logits: Tensor = self.head(z[..., -1])
        return logits


class Recurrence(nn.Module):
    """A GRU; the answer is read at the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = unspool_nn.Recurrent("gru", 2, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(x)[0][-1])
        return logits


def draw(distance: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The first of distance + 1 steps has a sign, which is the target; all steps have noise in another feature."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (count,), generator=generator)
    x = torch.randn(distance + 1, count, 2, generator=generator)
    x[..., 0] = 0
    x[0, :, 0] = 2.0 * y - 1
    return x, y


def test(model: nn.Module, distance: int) -> float:
    x, y = draw(distance, 2000, seed=10**9)
    with torch.no_grad():
        return lab.accuracy(model(x), y)


def train(model: nn.Module, distances: Iterable[int], steps: int, seed: int) -> None:
    """Learn with these distances in turn."""
    chosen = list(distances)

    def loss(step: int) -> Tensor:
        x, y = draw(chosen[step % len(chosen)], 64, seed * 100_000 + step)
        return cross_entropy(model(x), y)

    lab.fit(model, loss, steps, lr=1e-2)


def convolutions_by_distance(layers: int, kernel: int, steps: int, seed: int) -> list[float]:
    """The accuracy of a stack at each distance, trained for this distance alone."""
    found = []
    for distance in DISTANCES:
        torch.manual_seed(seed)
        model = Convolutions(layers, kernel)
        train(model, [distance], steps, seed)
        found.append(test(model, distance))
    return found


def recurrence_by_distance(steps: int, seed: int) -> list[float]:
    """The accuracy of one recurrent network at each distance, trained with distances from 2 to 40."""
    torch.manual_seed(seed)
    model = Recurrence()
    train(model, torch.randint(2, 41, (steps,)).tolist(), steps, seed)
    return [test(model, distance) for distance in DISTANCES]


def steps_seen(layers: int, kernel: int) -> int:
    """How many steps have any influence on the answer, by the gradient."""
    torch.manual_seed(0)
    x = torch.randn(60, 64, 2, requires_grad=True)
    (slope,) = torch.autograd.grad(Convolutions(layers, kernel)(x).square().sum(), x)
    return int((slope.abs().amax((1, 2)) > 0).sum())


def order_seen() -> float:
    """How much the order of words changes the sum of a network that is applied to each word."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8)).double()
    words = torch.randn(10, 8, dtype=torch.float64)
    with torch.no_grad():
        return float((network(words).sum(0) - network(words.flip(0)).sum(0)).abs().max())


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(80, 200)
    stacks: list[dict[str, Any]] = [
        {"layers": L, "kernel": k, "field": 1 + L * (k - 1), "seen": steps_seen(L, k), "accuracy": []}
        for L, k in STACKS
    ]
    recurrence = []
    for seed in study.seeds():
        recurrence.append(recurrence_by_distance(8 * steps, seed))
        for stack in stacks:
            stack["accuracy"].append(convolutions_by_distance(stack["layers"], stack["kernel"], steps, seed))
    return {"stacks": stacks, "recurrence": recurrence, "order": order_seen()}


def by_seed(found: lab.Found, within: bool) -> list[list[float]]:
    """The accuracies of all stacks at distances within their field, or beyond it; one list per seed."""
    return [
        [
            value
            for stack in found["stacks"]
            for distance, value in zip(DISTANCES, stack["accuracy"][seed], strict=True)
            if (distance < stack["field"]) == within
        ]
        for seed in range(len(found["recurrence"]))
    ]


def judge(found: lab.Found) -> lab.Verdict:
    wrong = max(abs(stack["seen"] - stack["field"]) for stack in found["stacks"])
    return lab.all_of(
        lab.above(
            "accuracy of convolutions within the field, worst distance", [min(s) for s in by_seed(found, True)], 0.95
        ),
        lab.below(
            "accuracy of convolutions beyond the field, best distance", [max(s) for s in by_seed(found, False)], 0.55
        ),
        lab.at_most("difference between steps seen and 1 + layers·(k−1)", wrong, 0),
        lab.at_most("change by the order of words, network on each word and sum", found["order"], 1e-12),
    )


def show(found: lab.Found) -> lab.Shown:
    series = [
        lab.Series(
            Message("{layers} × convolution {kernel}", layers=stack["layers"], kernel=stack["kernel"]),
            DISTANCES,
            [statistics.fmean(values) for values in zip(*stack["accuracy"], strict=True)],
        )
        for stack in found["stacks"]
    ]
    recurrence = [statistics.fmean(values) for values in zip(*found["recurrence"], strict=True)]
    rows: list[tuple[Any, ...]] = [
        (stack["layers"], stack["kernel"], stack["field"], stack["seen"], *curve.y)
        for stack, curve in zip(found["stacks"], series, strict=True)
    ]
    rows.append(("GRU", "", "", "", *recurrence))
    heading = ("layers", "k", "1 + layers·(k−1)", "steps with a gradient", *(f"d = {d}" for d in DISTANCES))
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(
            lab.Lines(
                "Accuracy by the distance that must be bridged",
                "distance d",
                "accuracy",
                [*series, lab.Series("one GRU for all distances", DISTANCES, recurrence)],
                log_x=True,
                marks=(lab.Mark("chance", 0.5),),
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S3-2",
    equation="field = 1 + layers·(k − 1)\nv = Σ_t f(x_t) is the same for every order of the x_t",
    method=(
        "The sign of the first step is asked for at the last step, d steps later. Stacks of convolutions with fields "
        "of 5, 9 and 17 steps are trained at each distance by itself, up to the last step of the field, just beyond "
        "it, and far beyond. The claim holds if all accuracies within the field are above 0.95 and all beyond it below "
        "0.55, if the gradient reaches as many steps as the formula says, and if a network applied to each word and "
        "summed does not see the order. A GRU, trained with all distances from 2 to 40, is shown beside."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
