"""How many layers: character models of one to six layers with equally many parameters."""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch
from torch import Tensor, nn

from unspool import nn as unspool_nn
from unspool.lab import Chapter, Found, Lines, Mark, Series, Shown, Study, Table, Verdict, below, fit, interval_of
from unspool.lab.data import encode, python_reference, windows
from unspool.learning import linear_cross_entropy

DEPTHS = range(1, 7)
ENOUGH = (2, 3, 4)
PARAMETERS = 40_000
#: What more layers may gain for two to four to be enough, in nats per character.
GAIN = 0.02


class CharacterModel(nn.Module):
    """Predicts the next character by a stack of GRUs."""

    def __init__(self, V: int, layers: int, width: int) -> None:
        super().__init__()
        self.embedding, self.stack = nn.Embedding(V, 32), unspool_nn.Stack("gru", 32, width, layers)
        self.head = nn.Linear(width, V)

    def forward(self, pieces: Tensor) -> Tensor:
        output, _ = self.stack(self.embedding(pieces[:-1]))
        return linear_cross_entropy(output, self.head.weight, self.head.bias, pieces[1:])

    def size(self) -> int:
        return sum(each.numel() for each in self.parameters())


def width_for(V: int, layers: int) -> int:
    """The units per layer with which a stack comes nearest to the number of parameters."""
    return min(range(16, 128), key=lambda width: abs(CharacterModel(V, layers, width).size() - PARAMETERS))


def train(layers: int, width: int, steps: int, seed: int) -> float:
    """The loss on text that the model has not seen."""
    torch.manual_seed(seed)
    tokens, alphabet = encode(python_reference())
    known, new = tokens[: len(tokens) * 9 // 10], tokens[len(tokens) * 9 // 10 :]
    model = CharacterModel(len(alphabet), layers, width)
    fit(model, lambda step: model(torch.as_tensor(windows(known, 32, 16, seed * 10_000 + step))), steps, lr=1e-2)
    with torch.no_grad():
        return float(model(torch.as_tensor(windows(new, 100, 300, seed=1))))


def measure(study: Study) -> Found:
    steps = study.choose(300, 1000)
    V = len(set(python_reference()))
    widths = {layers: width_for(V, layers) for layers in DEPTHS}
    stacks: list[dict[str, Any]] = [
        {"layers": layers, "width": width, "parameters": CharacterModel(V, layers, width).size(), "losses": []}
        for layers, width in widths.items()
    ]
    for seed in study.seeds():
        for stack in stacks:
            stack["losses"].append(train(stack["layers"], stack["width"], steps, seed))
    return {"steps": steps, "stacks": stacks}


def best(found: Found, depths: tuple[int, ...]) -> dict[str, Any]:
    """The stack with the smallest mean loss among those with so many layers."""
    stacks = [stack for stack in found["stacks"] if stack["layers"] in depths]
    return min(stacks, key=lambda stack: statistics.fmean(stack["losses"]))


def judge(found: Found) -> Verdict:
    enough, deeper = best(found, ENOUGH)["losses"], best(found, (5, 6))["losses"]
    gains = [one - other for one, other in zip(enough, deeper, strict=True)]
    return below("what 5 or 6 layers gain over 2 to 4, nats per character", gains, GAIN)


def show(found: Found) -> Shown:
    intervals = [interval_of(stack["losses"]) for stack in found["stacks"]]
    means = [interval.mean for interval in intervals]
    rows = [
        (stack["layers"], stack["width"], stack["parameters"], mean, math.exp(mean))
        for stack, mean in zip(found["stacks"], means, strict=True)
    ]
    curve = Series(
        "loss", list(DEPTHS), means, [interval.low for interval in intervals], [interval.high for interval in intervals]
    )
    one = best(found, (1,))["losses"]
    gained = statistics.fmean(one) - statistics.fmean(best(found, ENOUGH)["losses"])
    remark = "Here, two to four layers are better than one." if gained > 0 else "Here, one layer is enough as well."
    return Shown(
        tables=(Table(("layers", "units per layer", "parameters", "loss, nats per character", "perplexity"), rows),),
        figures=(
            Lines("Loss on new text", "layers", "nats per character", [curve], marks=(Mark("best", min(means)),)),
        ),
        remarks=(remark,),
    )


CHAPTER = Chapter(
    claim="S2-6",
    equation="h_t^{(ℓ)} = f(h_t^{(ℓ−1)}, h_{t−1}^{(ℓ)}), ℓ = 1, …, L",
    method=(
        "Stacks of one to six GRU layers, their widths chosen so that all have about 40,000 parameters, learn to "
        "predict the characters of the Python reference, with the same windows of text and as many updates. The claim "
        "holds if the better of five and six layers gains less than 0.02 nats per character over the best of two to "
        "four. It is about this task and this budget; “usually” would need many tasks."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
