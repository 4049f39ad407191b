"""Elman against Jordan: what a network remembers that feeds back its state, and one that feeds back its output."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy

from unspool import lab
from unspool import nn as unspool_nn
from unspool.cells import Jordan

T, H = 20, 16
#: Inputs, targets, and the first step that has a target.
Batch = tuple[Tensor, Tensor, int]


def echo(delay: int) -> Callable[[int, int], Batch]:
    """Random bits; the target is the bit of some steps before."""

    def draw(count: int, seed: int) -> Batch:
        x = torch.randint(0, 2, (T, count, 1), generator=torch.Generator().manual_seed(seed)).float()
        return 2 * x - 1, x.roll(delay, 0), delay

    return draw


def latch(count: int, seed: int) -> Batch:
    """Rare pulses of 1 or −1; the target is the sign of the last pulse: all there is to remember is the output."""
    generator = torch.Generator().manual_seed(seed)
    signs = 2.0 * torch.randint(0, 2, (T, count, 1), generator=generator) - 1
    pulses = torch.rand(T, count, 1, generator=generator) < 0.3
    pulses[0] = True
    last = torch.where(pulses, torch.arange(T).view(T, 1, 1), 0).cummax(0).values
    return signs * pulses, (signs.gather(0, last) + 1) / 2, 0


#: Task → its generator. Only the echoes of 1 step and more need memory beyond the output.
TASKS = {"latch": latch, **{f"echo {delay}": echo(delay) for delay in (0, 1, 2, 3)}}
MEMORY = ("echo 2", "echo 3")


class Elman(nn.Module):
    """The state is fed back; the output is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = unspool_nn.Recurrent("elman", 1, H), nn.Linear(H, 1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.layer(x)[0]).sigmoid()
        return output


class JordanNetwork(nn.Module):
    """The output, a single number, is fed back, with as many hidden units."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = unspool_nn.Recurrent(Jordan(output_size=1), 1, H)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x)[0]
        return output


NETWORKS = {"Elman": Elman, "Jordan": JordanNetwork}


def train(network: str, task: str, steps: int, seed: int) -> float:
    """The accuracy on new sequences."""
    torch.manual_seed(seed)
    model, draw = NETWORKS[network](), TASKS[task]

    def loss(step: int) -> Tensor:
        x, y, first = draw(64, seed * 100_000 + step)
        return binary_cross_entropy(model(x)[first:], y[first:])

    lab.fit(model, loss, steps, lr=1e-2)
    x, y, first = draw(1000, 10**9)
    with torch.no_grad():
        return float(((model(x) > 0.5) == (y > 0.5))[first:].double().mean())


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(300, 1000)
    accuracies: dict[str, dict[str, list[float]]] = {network: {task: [] for task in TASKS} for network in NETWORKS}
    for seed in study.seeds():
        for network, by_task in accuracies.items():
            for task, found in by_task.items():
                found.append(train(network, task, steps, seed))
    return accuracies


def judge(found: lab.Found) -> lab.Verdict:
    worst = [min(each) for each in zip(*(found["Elman"][task] for task in MEMORY), strict=True)]
    best = [max(each) for each in zip(*(found["Jordan"][task] for task in MEMORY), strict=True)]
    return lab.all_of(
        lab.above("accuracy of Elman's network, echo of 2 or 3 steps", worst, 0.95),
        lab.below("accuracy of Jordan's network, echo of 2 or 3 steps", best, 0.75),
        lab.above("accuracy of Jordan's network, latch", found["Jordan"]["latch"], 0.95),
    )


def show(found: lab.Found) -> lab.Shown:
    means = {network: [statistics.fmean(each) for each in found[network].values()] for network in NETWORKS}
    rows = [(task, means["Elman"][place], means["Jordan"][place]) for place, task in enumerate(TASKS)]
    bars = [lab.Series(network, list(TASKS), means[network]) for network in NETWORKS]
    return lab.Shown(
        tables=(lab.Table(("task", "Elman", "Jordan"), rows),),
        figures=(lab.Bars("Accuracy on new sequences", "accuracy", bars, marks=(lab.Mark("chance", 0.5),)),),
        remarks=("Where the output is all that must be remembered, as for the latch, both succeed.",),
    )


CHAPTER = lab.Chapter(
    claim="S2-8",
    equation=(
        "Elman: h_t = tanh(W x_t + U h_{t−1} + b), y_t = σ(V h_t + c)\n"
        "Jordan: h_t = tanh(W x_t + U y_{t−1} + b), y_t = σ(V h_t + c)"
    ),
    method=(
        "Both networks have 16 hidden units and one output, and learn to give back a random bit after 0 to 3 steps. A "
        "network that feeds back its output alone has one number to keep several bits in. The latch, which repeats the "
        "last pulse, is a control: there the output is all that must be remembered. The claim holds if on echoes of 2 "
        "and 3 steps Elman's accuracy is above 0.95 and Jordan's below 0.75, and if Jordan's is above 0.95 on the "
        "latch."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
