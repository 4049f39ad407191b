"""Deep supervision: a loss at every layer, for the gradients of lower layers and for the result."""

from __future__ import annotations

import math
import statistics

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool.lab.data import teacher
from unspool.learning import gradient_norm
from unspool.nn import Stack

LAYERS, UNITS, CLASSES = 4, 16, 4
#: λ, the weight of the losses of lower layers.
WEIGHTS = (0.0, 0.3, 1.0)


class Network(nn.Module):
    """Four tanh layers with a head each; the answer is that of the top one."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = Stack("elman", 4, UNITS, LAYERS)
        self.heads = nn.ModuleList([nn.Linear(UNITS, CLASSES) for _ in range(LAYERS)])

    def answers(self, x: Tensor) -> list[Tensor]:
        sequences, _ = self.stack(x, every_layer=True)
        return [head(sequence).flatten(0, 1) for head, sequence in zip(self.heads, sequences, strict=True)]

    def loss(self, x: Tensor, y: Tensor, weight: float) -> Tensor:
        *lower, top = [cross_entropy(answer, y.flatten()) for answer in self.answers(x)]
        return top + weight * torch.stack(lower).sum()


def batch(count: int, seed: int) -> tuple[Tensor, Tensor]:
    x, y = teacher(12, count, seed=seed)
    return torch.as_tensor(x), torch.as_tensor(y)


def lowest_share(network: Network, weight: float, seed: int) -> float:
    """The norm of the lowest layer's gradient over that of all layers."""
    network.zero_grad()
    network.loss(*batch(64, seed), weight).backward()
    lowest = gradient_norm(network.stack.layers[0].parameters())
    share = float(lowest) / float(gradient_norm(network.stack.parameters()))
    network.zero_grad()
    return share


def train(weight: float, steps: int, seed: int) -> lab.Found:
    torch.manual_seed(seed)
    network = Network()
    first = seed * 100_000
    shares = [lowest_share(network, weight, first + 99_998)]
    for part in range(4):
        begin = first + part * (steps // 4)

        def loss(step: int, begin: int = begin) -> Tensor:
            return network.loss(*batch(64, begin + step), weight)

        lab.fit(network, loss, steps // 4, lr=1e-2)
        shares.append(lowest_share(network, weight, first + 99_998))
    x, y = batch(1000, first + 99_999)
    with torch.no_grad():
        return {"shares": shares, "accuracy": lab.accuracy(network.answers(x)[-1], y.flatten())}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(320, 1000)
    runs: dict[str, list[lab.Found]] = {str(weight): [] for weight in WEIGHTS}
    for seed in study.seeds():
        for weight in WEIGHTS:
            runs[str(weight)].append(train(weight, steps, seed))
    return {"steps": steps, "runs": runs}


def mean_share(run: lab.Found) -> float:
    return statistics.fmean(math.log(share) for share in run["shares"])


def judge(found: lab.Found) -> lab.Verdict:
    none, some, full = (found["runs"][str(weight)] for weight in WEIGHTS)
    triples = list(zip(none, some, full, strict=True))
    shares = [(mean_share(b) + mean_share(c)) / 2 - mean_share(a) for a, b, c in triples]
    gains = [(b["accuracy"] + c["accuracy"]) / 2 - a["accuracy"] for a, b, c in triples]
    return lab.all_of(
        lab.above("growth of ln of the lowest layer's share of the gradient", shares),
        lab.above("gain in accuracy", gains),
    )


def show(found: lab.Found) -> lab.Shown:
    rows, curves = [], []
    each = found["steps"] // 4
    for weight, runs in found["runs"].items():
        shares = [statistics.fmean(values) for values in zip(*(run["shares"] for run in runs), strict=True)]
        accuracies = [run["accuracy"] for run in runs]
        rows.append((float(weight), statistics.fmean(shares), statistics.fmean(accuracies), min(accuracies)))
        curves.append(lab.Series(f"λ = {weight}", [each * part for part in range(5)], shares))
    names = [f"λ = {row[0]}" for row in rows]
    return lab.Shown(
        tables=(lab.Table(("λ", "lowest layer's share", "accuracy, mean over seeds", "worst seed"), rows),),
        figures=(
            lab.Lines("Share of the gradient that the lowest layer gets", "updates", "fraction of the norm", curves),
            lab.Bars(
                "Accuracy of the top layer",
                "accuracy on new sequences",
                [lab.Series("accuracy", names, [r[2] for r in rows])],
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-5",
    equation="L = L_{top} + λ Σ_{ℓ} L_{aux}^{(ℓ)}",
    method=(
        "Stacks of four tanh layers learn the classes that a random network gives to the last two inputs, with losses "
        "at the lower layers of weight λ = 0, 0.3 and 1. The lowest layer's share of the gradient is measured before, "
        "during and after training, relative to all layers, so that a larger loss alone does not raise it. The claim "
        "holds if λ > 0 raises this share, and the accuracy of the top layer on new sequences."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
