"""How many layers: stacks of one to six layers with equally many parameters, on nested brackets."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import dyck

DEPTHS = range(1, 7)
ENOUGH = (2, 3, 4)
PARAMETERS = 16_000
#: What more layers may gain for two to four to be enough, in accuracy.
GAIN = 0.01


class Model(nn.Module):
    """Says which of two brackets closes the innermost open one, by a stack of GRUs."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.embedding, self.stack = nn.Embedding(4, 8), unspool_nn.Stack("gru", 8, width, layers)
        self.head = nn.Linear(width, 2)
        unspool_nn.init.orthogonal_(self.stack)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.stack(self.embedding(tokens))[0])
        return logits

    def size(self) -> int:
        return sum(each.numel() for each in self.parameters())


def width_for(layers: int) -> int:
    """The units per layer with which a stack comes nearest to the number of parameters."""
    return min(range(16, 80), key=lambda width: abs(Model(layers, width).size() - PARAMETERS))


def answer(model: Model, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Logits and targets of all steps at which a bracket is open."""
    tokens, closing, _ = map(torch.as_tensor, dyck(30, count, depth=10, seed=seed))
    opened = closing >= 0
    return model(tokens)[opened], closing[opened] - 2


def train(layers: int, width: int, steps: int, seed: int) -> float:
    """The accuracy on new sequences."""
    torch.manual_seed(seed)
    model = Model(layers, width)
    lab.fit(model, lambda step: cross_entropy(*answer(model, 32, seed * 100_000 + step)), steps, lr=1e-2)
    with torch.no_grad():
        return lab.accuracy(*answer(model, 1000, 10**9))


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(160, 500)
    stacks: list[dict[str, Any]] = []
    for layers in DEPTHS:
        width = width_for(layers)
        size = Model(layers, width).size()
        stacks.append({"layers": layers, "width": width, "parameters": size, "accuracy": []})
    for seed in study.seeds():
        for stack in stacks:
            stack["accuracy"].append(train(stack["layers"], stack["width"], steps, seed))
    return {"steps": steps, "stacks": stacks}


def best(found: lab.Found, depths: tuple[int, ...]) -> list[float]:
    """The accuracies, one per seed, of the best stack with so many layers."""
    accuracies: list[list[float]] = [stack["accuracy"] for stack in found["stacks"] if stack["layers"] in depths]
    return max(accuracies, key=statistics.fmean)


def judge(found: lab.Found) -> lab.Verdict:
    gains = [deep - enough for deep, enough in zip(best(found, (5, 6)), best(found, ENOUGH), strict=True)]
    return lab.below("accuracy that 5 or 6 layers gain over 2 to 4", gains, GAIN)


def show(found: lab.Found) -> lab.Shown:
    intervals = [lab.interval_of(stack["accuracy"]) for stack in found["stacks"]]
    means = [interval.mean for interval in intervals]
    rows = [
        (stack["layers"], stack["width"], stack["parameters"], mean)
        for stack, mean in zip(found["stacks"], means, strict=True)
    ]
    low, high = [interval.low for interval in intervals], [min(1.0, interval.high) for interval in intervals]
    more = statistics.fmean(best(found, ENOUGH)) > statistics.fmean(best(found, (1,))) + GAIN
    remark = "Here, two to four layers are better than one." if more else "Here, one layer is enough as well."
    return lab.Shown(
        tables=(lab.Table(("layers", "units per layer", "parameters", "accuracy"), rows),),
        figures=(
            lab.Lines(
                "Accuracy on new sequences",
                "layers",
                "accuracy",
                [lab.Series("accuracy", list(DEPTHS), means, low, high)],
                marks=(lab.Mark("best", max(means)),),
            ),
        ),
        remarks=(remark,),
    )


CHAPTER = lab.Chapter(
    claim="S2-6",
    equation="h_t^{(ℓ)} = f(h_t^{(ℓ−1)}, h_{t−1}^{(ℓ)}), ℓ = 1, …, L",
    method=(
        "Stacks of one to six GRU layers, their widths chosen so that all have about 16,000 parameters, learn which of "
        "two kinds of brackets closes the innermost open one, with up to ten brackets open (Dyck-2). All see the same "
        "sequences and make as many updates. The claim holds if the better of five and six layers gains less than 0.01 "
        "of accuracy over the best of two to four. It is about this task and this budget; “usually” would need many."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
