"""Gradient clipping: it tames gradients that explode, and cannot bring back those that vanish."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.language import Message
from unspool.learning import gradient_norm

T, UNITS = 30, 32
GAINS = (1.5, 0.7)
LIMITS = {"clipped": 1.0, "not clipped": None}


def batch(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noise (T, count, 1) after a first input of ±1, and its sign as a class."""
    chance = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (count,), generator=chance)
    x = 0.1 * torch.randn(T, count, 1, generator=chance)
    x[0, :, 0] += 2.0 * y - 1
    return x, y


def run(gain: float, limit: float | None, updates: int, seed: int) -> tuple[float, float, float]:
    """Accuracy after training, and before it the norms of the gradient: of all parameters, and of the first input."""
    torch.manual_seed(seed)
    layer, head = unspool_nn.Recurrent("elman-relu", 1, UNITS), nn.Linear(UNITS, 2)
    unspool_nn.init.orthogonal_(layer, gain)
    model = nn.ModuleList([layer, head])

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(head(layer(x)[0][-1]), y)

    x, y = batch(1000, 999_999)
    loss(x.requires_grad_(), y).backward()
    assert x.grad is not None
    first, norm = float(x.grad[0].norm()), gradient_norm(model.parameters())
    lab.fit(
        model,
        lambda step: loss(*batch(64, seed * 1_000_000 + step)),
        updates,
        lr=0.1,
        clip=limit,
        optimizer=torch.optim.SGD,  # an adaptive rule would rescale gradients itself
    )
    with torch.no_grad():
        return lab.accuracy(head(layer(x)[0][-1]), y), norm, first


def measure(study: lab.Study) -> lab.Found:
    updates = study.choose(300, 1000)
    scores: dict[str, dict[str, list[float]]] = {str(gain): {name: [] for name in LIMITS} for gain in GAINS}
    norms: dict[str, list[tuple[float, float]]] = {str(gain): [] for gain in GAINS}
    for seed in study.seeds():
        for gain in GAINS:
            for name, limit in LIMITS.items():
                score, *norm = run(gain, limit, updates, seed)
                scores[str(gain)][name].append(score)
            norms[str(gain)].append((norm[0], norm[1]))
    return {"accuracy": scores, "norms": norms, "updates": updates}


def judge(found: lab.Found) -> lab.Verdict:
    large, small = found["accuracy"]["1.5"], found["accuracy"]["0.7"]
    gain = [with_it - without for with_it, without in zip(large["clipped"], large["not clipped"], strict=True)]
    return lab.all_of(
        lab.above("accuracy at gain 1.5, clipped", large["clipped"], 0.9),
        lab.above("gain of accuracy by clipping at gain 1.5", gain, 0.2),
        lab.below("accuracy at gain 0.7, clipped", small["clipped"], 0.6),
    )


def show(found: lab.Found) -> lab.Shown:
    means = {name: [lab.interval_of(found["accuracy"][str(gain)][name]).mean for gain in GAINS] for name in LIMITS}
    norms = [[lab.interval_of(each).mean for each in zip(*found["norms"][str(gain)], strict=True)] for gain in GAINS]
    rows = [
        (gain, *norms[place], means["clipped"][place], means["not clipped"][place]) for place, gain in enumerate(GAINS)
    ]
    heading = ("gain", "norm of the gradient", "norm at the first input", "accuracy, clipped", "accuracy, not clipped")
    groups = [Message("gain {gain:g}", gain=gain) for gain in GAINS]
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(
            lab.Bars(
                "Recalling the first of 30 inputs",
                "accuracy",
                [lab.Series(name, groups, values) for name, values in means.items()],
                marks=(lab.Mark("chance", 0.5),),
            ),
        ),
        remarks=("The norms are those before training.",),
    )


CHAPTER = lab.Chapter(
    claim="S1-5",
    equation="g ← g · min(1, 1 / ‖g‖)",
    method=(
        "A relu network whose recurrent matrix is orthogonal times a gain has to recall the sign of its first input "
        "after 30 steps. Its gradient grows by about the gain at each step. It is trained by plain gradient descent, "
        "with the gradient clipped to a norm of 1 and without. The claim holds if, at gain 1.5, the accuracy with "
        "clipping is above 0.9 and more than 0.2 above that without; and if, at gain 0.7, it stays below 0.6 even "
        "with clipping. Chance is 0.5."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
