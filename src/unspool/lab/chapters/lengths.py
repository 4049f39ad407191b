"""Lengths: the same parameters at every length, and sequences ten times as long as any in training."""

from __future__ import annotations

import torch
from torch import nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import flip_flop, parity

LONGEST = 20
LENGTHS = (10, 20, 50, 100, 200)
UNITS = 32
TASKS = ("parity", "flip-flop")


def batch(task: str, T: int, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (T, count, 1) and the class at each step (T, count)."""
    if task == "parity":
        x, y = map(torch.as_tensor, parity(T, count, seed))
        return x.float().unsqueeze(-1), y
    x, y = map(torch.as_tensor, flip_flop(T, count, bits=1, probability=0.05, seed=seed))
    return x, (y.squeeze(-1) > 0).long()


class Reader(nn.Module):
    """A GRU with a head at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = unspool_nn.Recurrent("gru", 1, UNITS), nn.Linear(UNITS, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.layer(x)[0])
        return logits


def train(task: str, updates: int, seed: int) -> Reader:
    """Trained on sequences of 1 to 20 steps."""
    torch.manual_seed(seed)
    reader = Reader()

    def loss(step: int) -> torch.Tensor:
        x, y = batch(task, 1 + step % LONGEST, 64, seed * 1_000_000 + step)
        return nn.functional.cross_entropy(reader(x).flatten(0, 1), y.flatten())

    lab.fit(reader, loss, updates, lr=0.01)
    return reader


@torch.no_grad()
def score(reader: Reader, task: str, T: int, seed: int) -> float:
    """The accuracy at the last step of new sequences."""
    x, y = batch(task, T, 1000, seed * 1_000_000 + 999_999)
    return float((reader(x)[-1].argmax(-1) == y[-1]).double().mean())


@torch.no_grad()
def prefix_error(reader: Reader, seed: int) -> float:
    """The largest difference between a sequence's outputs at its first t steps and those of its first t steps alone."""
    x = torch.randn(200, 4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    reader.double()
    whole = reader(x)
    error = max(float((reader(x[:t]) - whole[:t]).abs().max()) for t in (1, 10, 50, 199))
    reader.float()
    return error


def measure(study: lab.Study) -> lab.Found:
    updates = study.choose(600, 1000)
    accuracy: dict[str, dict[str, list[float]]] = {task: {str(T): [] for T in LENGTHS} for task in TASKS}
    errors, sizes = [], set()
    for seed in study.seeds():
        for task in TASKS:
            reader = train(task, updates, seed)
            for T in LENGTHS:
                accuracy[task][str(T)].append(score(reader, task, T, seed))
            errors.append(prefix_error(reader, seed))
            sizes.add(sum(parameter.numel() for parameter in reader.parameters()))
    return {"accuracy": accuracy, "prefix_error": max(errors), "parameters": max(sizes)}


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.at_most("largest difference between a sequence and its beginning alone", found["prefix_error"], 1e-10),
        lab.above("accuracy of parity at 200 steps", found["accuracy"]["parity"]["200"], 0.9),
        lab.above("accuracy of the flip-flop at 200 steps", found["accuracy"]["flip-flop"]["200"], 0.9),
    )


def show(found: lab.Found) -> lab.Shown:
    means = {task: [lab.interval_of(found["accuracy"][task][str(T)]) for T in LENGTHS] for task in TASKS}
    rows = [(T, found["parameters"], *(means[task][place].mean for task in TASKS)) for place, T in enumerate(LENGTHS)]
    series = [
        lab.Series(
            task, LENGTHS, [each.mean for each in ends], [each.low for each in ends], [each.high for each in ends]
        )
        for task, ends in means.items()
    ]
    return lab.Shown(
        tables=(lab.Table(("length T", "parameters", "accuracy of parity", "accuracy of the flip-flop"), rows),),
        figures=(
            lab.Lines(
                "Accuracy at lengths that were never trained",
                "length T",
                "accuracy at the last step",
                series,
                log_x=True,
                marks=(lab.Mark("longest in training", LONGEST, vertical=True), lab.Mark("chance", 0.5)),
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-1",
    equation="h_t = φ(W h_{t−1} + W_x x_t + b), with the same W, W_x and b at every t",
    method=(
        "A GRU is trained on sequences of 1 to 20 steps, and then reads up to 200. Two tasks need a state that is "
        "kept to the end: the parity of all bits so far, and the latest of rare pulses. The claim holds if the "
        "outputs do not depend on what comes later or on the length, to 10⁻¹⁰, and if the accuracy at the last of 200 "
        "steps is above 0.9 in both tasks; chance is 0.5. It would fail if the network had learned to count up to 20 "
        "only."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
