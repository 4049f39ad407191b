"""Opinion pools: two directions trained apart and pooled, beside one bidirectional network trained as a whole."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool import nn as unspool_nn
from unspool.lab import Bars, Chapter, Found, Series, Shown, Study, Table, Verdict, above, all_of, fit, interval_of

KINDS, T, UNITS = 4, 24, 16
STAY, RIGHT = 0.85, 0.55
MODELS = ("joint", "linear", "logarithmic", "forward", "backward")
TASKS = ("hidden state", "agreement")


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


def agreement(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The state two steps ago plus the symbol two steps ahead, modulo 4: the directions must be combined."""
    chance = np.random.default_rng(seed)
    seen = chance.integers(0, KINDS, (T + 4, count))
    rare = chance.random((T, count)) < 0.5
    y = np.where(rare, (seen[:T] + seen[4:]) % KINDS, seen[2:-2])
    x = functional.one_hot(torch.as_tensor(seen[2:-2]), KINDS).float()
    flags = torch.as_tensor(rare).float().unsqueeze(-1)
    return torch.cat((x, flags), -1), torch.as_tensor(y)


DRAW: dict[str, Callable[[int, int], tuple[Tensor, Tensor]]] = dict(zip(TASKS, (hidden_state, agreement), strict=True))


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

        fit(model, loss, steps, lr=5e-3)
    x, y = draw(1000, 10_000_000 + seed)
    with torch.no_grad():
        logits = {name: model(x) for name, model in models.items()}
        both = [logits["forward"], logits["backward"]]
        logits |= {"linear": unspool_nn.linear_pool(both), "logarithmic": unspool_nn.log_pool(both)}
        return {name: float(loss_of(logits[name], y)) for name in MODELS}


def measure(study: Study) -> Found:
    steps = study.choose(500, 1500)
    runs: dict[str, list[dict[str, float]]] = {task: [] for task in TASKS}
    for seed in study.seeds():
        for task in TASKS:
            runs[task].append(train(task, steps, seed))
    return {"steps": steps, "runs": runs}


def judge(found: Found) -> Verdict:
    parts = []
    for task, text in zip(TASKS, ("on the hidden state", "where directions must be combined"), strict=True):
        better = [min(run["linear"], run["logarithmic"]) - run["joint"] for run in found["runs"][task]]
        parts.append(above(f"loss of the better pool minus that of the joint network, {text}", better))
    return all_of(*parts)


def show(found: Found) -> Shown:
    means = {
        task: {name: statistics.fmean(run[name] for run in found["runs"][task]) for name in MODELS} for task in TASKS
    }
    rows = [(name, *(means[task][name] for task in TASKS)) for name in MODELS]
    series = []
    for task in TASKS:
        ends = [interval_of([run[name] for run in found["runs"][task]]) for name in MODELS]
        low, high = [max(0.0, one.low) for one in ends], [one.high for one in ends]
        series.append(Series(task, list(MODELS), [means[task][name] for name in MODELS], low, high))
    return Shown(
        tables=(Table(("model", "loss on the hidden state", "loss where directions must be combined"), rows),),
        figures=(Bars("Loss on new sequences, in nats", "loss", series),),
    )


CHAPTER = Chapter(
    claim="S3-8",
    equation="p_lin = (p_f + p_b)/2\np_log ∝ √(p_f · p_b)\np_joint = softmax(V [h_f; h_b])",
    method=(
        "A GRU that reads forward and one that reads backward are trained apart; their probabilities are pooled by the "
        "mean and by the geometric mean. A bidirectional network of the same cells is trained as a whole, on the same "
        "data. On the first task, a hidden Markov chain, past and future are independent given the answer, the best "
        "case for pools. On the second the answer at half of the steps is a sum modulo 4 of a past and a future "
        "symbol. The claim holds if the joint network has a smaller loss than the better pool on both."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
