"""Opinion pools: two directions trained apart and pooled, beside one bidirectional network trained as a whole."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool import lab
from unspool import nn as unspool_nn

KINDS, T, UNITS = 4, 24, 16
STAY, RIGHT = 0.85, 0.55
POOLS = ("mean", "geometric mean", "product")
MODELS = ("joint", *POOLS, "forward", "backward")
TASKS = ("hidden state", "window", "agreement")


def hidden_state(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """A Markov chain seen through noise. Given the state, past and future are independent, which suits pools."""
    chance = np.random.default_rng(seed)
    states = np.zeros((T, count), np.int64)
    states[0] = chance.integers(0, KINDS, count)
    jumps = chance.random((T, count)) > STAY
    for t in range(1, T):
        states[t] = np.where(jumps[t], chance.integers(0, KINDS, count), states[t - 1])
    seen = np.where(chance.random((T, count)) < RIGHT, states, chance.integers(0, KINDS, (T, count)))
    return functional.one_hot(torch.as_tensor(seen), KINDS).float(), torch.as_tensor(states)


def window(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """How many of the bits from two steps ago to two steps ahead are 1, in four classes: their sum decides."""
    chance = np.random.default_rng(seed)
    bits = np.zeros((T + 4, count), np.int64)
    bits[2:-2] = chance.integers(0, 2, (T, count))
    ones = sum(bits[start : start + T] for start in range(5))
    signs = torch.as_tensor(2.0 * bits[2:-2] - 1, dtype=torch.float32).unsqueeze(-1)
    return signs, torch.as_tensor(np.array([0, 0, 1, 2, 3, 3])[ones])


def agreement(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Where a flag is set, the symbol two steps ago plus the one two steps ahead, modulo 4."""
    chance = np.random.default_rng(seed)
    seen = chance.integers(0, KINDS, (T + 4, count))
    flagged = chance.random((T, count)) < 0.5
    y = np.where(flagged, (seen[:T] + seen[4:]) % KINDS, seen[2:-2])
    x = functional.one_hot(torch.as_tensor(seen[2:-2]), KINDS).float()
    return torch.cat((x, torch.as_tensor(flagged).float().unsqueeze(-1)), -1), torch.as_tensor(y)


Draw = Callable[[int, int], tuple[Tensor, Tensor]]
DRAW: dict[str, Draw] = dict(zip(TASKS, (hidden_state, window, agreement), strict=True))


class Judge(nn.Module):
    """A layer with a head: logits at every step."""

    def __init__(self, layer: unspool_nn.Layer) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(layer.output_size, KINDS)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(x)[0])
        return logits


def loss_of(logits: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def train(task: str, steps: int, seed: int) -> dict[str, float]:
    """The mean −log P of the true class on new sequences, by model."""
    draw = DRAW[task]
    width = draw(1, 0)[0].shape[-1]
    torch.manual_seed(seed)
    models = {
        "forward": Judge(unspool_nn.Recurrent("gru", width, UNITS)),
        "backward": Judge(unspool_nn.Recurrent("gru", width, UNITS, reverse=True)),
        "joint": Judge(unspool_nn.Bidirectional("gru", width, UNITS)),
    }
    for model in models.values():

        def loss(step: int, model: nn.Module = model) -> Tensor:
            x, y = draw(32, seed * 100_000 + step)
            return loss_of(model(x), y)

        lab.fit(model, loss, steps, lr=5e-3)
    x, y = draw(1000, 1_000_000_000 + seed)
    with torch.no_grad():
        logits = {name: model(x) for name, model in models.items()}
        both = [logits["forward"], logits["backward"]]
        pooled = (unspool_nn.linear_pool(both), unspool_nn.log_pool(both), unspool_nn.log_pool(both, [1, 1]))
        logits |= dict(zip(POOLS, pooled, strict=True))
        return {name: float(loss_of(logits[name], y)) for name in MODELS}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(300, 1000)
    runs: dict[str, list[dict[str, float]]] = {task: [] for task in TASKS}
    for seed in study.seeds():
        for task in TASKS:
            runs[task].append(train(task, steps, seed))
    return {"steps": steps, "runs": runs}


TEXTS = {
    "hidden state": "loss of the best pool minus that of the joint network, on the hidden state",
    "window": "loss of the best pool minus that of the joint network, on the sum over a window",
    "agreement": "loss of the best pool minus that of the joint network, on the sum modulo 4",
}


def judge(found: lab.Found) -> lab.Verdict:
    parts = []
    for task, text in TEXTS.items():
        better = [min(run[name] for name in POOLS) - run["joint"] for run in found["runs"][task]]
        parts.append(lab.above(text, better))
    return lab.all_of(*parts)


def show(found: lab.Found) -> lab.Shown:
    means = {
        task: {name: statistics.fmean(run[name] for run in found["runs"][task]) for name in MODELS} for task in TASKS
    }
    rows: list[tuple[str | float, ...]] = [(name, *(means[task][name] for task in TASKS)) for name in MODELS]
    series = []
    for task in TASKS:
        ends = [lab.interval_of([run[name] for run in found["runs"][task]]) for name in MODELS]
        low, high = [max(0.0, one.low) for one in ends], [one.high for one in ends]
        series.append(lab.Series(task, list(MODELS), [means[task][name] for name in MODELS], low, high))
    return lab.Shown(
        tables=(
            lab.Table(
                ("model", "loss on the hidden state", "loss on the sum over a window", "loss on the sum modulo 4"), rows
            ),
        ),
        figures=(lab.Bars("Loss on new sequences, in nats", "loss", series),),
        remarks=(
            "With one linear head, the joint network is a logarithmic pool itself: its logits are those of a forward "
            "and of a backward part, added. What it gains, it gains from training both for their sum.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S3-8",
    equation="p_lin = (p_f + p_b)/2\np_log ∝ √(p_f · p_b) or p_f · p_b\np_joint = softmax(V [h_f; h_b])",
    method=(
        "A GRU that reads forward and one that reads backward are trained apart; their probabilities are pooled by the "
        "mean, by the geometric mean and by the product, scaled to a sum of 1. A bidirectional network of the same "
        "cells is trained as a whole, on the same data. On the first task, a hidden Markov chain, past and future are "
        "independent given the answer, the best case for pools. On the second the answer depends on a sum of two past, "
        "the present and two future bits, of which each direction sees three. On the third it is a sum modulo 4 of "
        "a past and a future symbol, which no sum of logits can be. The claim holds if the joint network has a "
        "smaller loss than the best pool on all three."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
