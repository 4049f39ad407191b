"""Fixed input: an MLP on padded or truncated sequences beside a network that reads them as they are."""

from __future__ import annotations

import statistics

import numpy as np
import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn

LONGEST, WINDOW = 20, 8
TASKS = ("parity", "majority")
MODELS = ("recurrent", "padded MLP", "truncated MLP")


def batch(task: str, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Signs (20, count) that end in zeros after their lengths, the lengths (1 to 20), and the class."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, LONGEST + 1, count)
    signs = chance.choice([-1.0, 1.0], (LONGEST, count)) * (np.arange(LONGEST)[:, None] < lengths)
    classes = (signs == 1).sum(0) % 2 if task == "parity" else signs.sum(0) > 0
    return torch.as_tensor(signs, dtype=torch.float32), torch.as_tensor(lengths), torch.as_tensor(classes).long()


class Recurrent(nn.Module):
    """A GRU over each sequence, whatever its length; the class is read from its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = unspool_nn.Recurrent("gru", 1, 32), nn.Linear(32, 2)

    def forward(self, signs: Tensor, lengths: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(signs.unsqueeze(-1), lengths=lengths)[1])
        return logits


class Perceptron(nn.Module):
    """An MLP on the last `window` steps of each sequence, with zeros where it has fewer."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window
        self.layers = nn.Sequential(
            nn.Linear(window, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
        )

    def forward(self, signs: Tensor, lengths: Tensor) -> Tensor:
        places = lengths - self.window + torch.arange(self.window).unsqueeze(1)  # the last step of all at the end
        seen = signs.gather(0, places.clamp(min=0)) * (places >= 0)
        logits: Tensor = self.layers(seen.T)
        return logits


def make(name: str) -> nn.Module:
    if name == "recurrent":
        return Recurrent()
    return Perceptron(LONGEST if name == "padded MLP" else WINDOW)


def score(name: str, task: str, updates: int, seed: int) -> float:
    """The accuracy on new sequences after training."""
    torch.manual_seed(seed)
    model = make(name)

    def loss(step: int) -> Tensor:
        signs, lengths, classes = batch(task, 64, seed * 1_000_000 + step)
        return nn.functional.cross_entropy(model(signs, lengths), classes)

    lab.fit(model, loss, updates, lr=0.01 if name == "recurrent" else 1e-3)
    signs, lengths, classes = batch(task, 4000, seed * 1_000_000 + 999_999)
    with torch.no_grad():
        return lab.accuracy(model(signs, lengths), classes)


def measure(study: lab.Study) -> lab.Found:
    updates = study.choose(700, 2000)
    scores: dict[str, dict[str, list[float]]] = {name: {task: [] for task in TASKS} for name in MODELS}
    for seed in study.seeds():
        for name in MODELS:
            for task in TASKS:
                scores[name][task].append(score(name, task, updates, seed))
    return {"accuracy": scores}


def mean_over_tasks(found: lab.Found, name: str) -> list[float]:
    return [statistics.fmean(each) for each in zip(*(found["accuracy"][name][task] for task in TASKS), strict=True)]


def judge(found: lab.Found) -> lab.Verdict:
    def gain(name: str) -> list[float]:
        pairs = zip(mean_over_tasks(found, "recurrent"), mean_over_tasks(found, name), strict=True)
        return [recurrent - other for recurrent, other in pairs]

    return lab.all_of(
        lab.above("accuracy of the recurrent network, mean of the tasks", mean_over_tasks(found, "recurrent"), 0.9),
        lab.above("its gain on the MLP with padding", gain("padded MLP"), 0.02),
        lab.above("its gain on the MLP with truncation", gain("truncated MLP"), 0.02),
    )


def show(found: lab.Found) -> lab.Shown:
    means = {name: [statistics.fmean(found["accuracy"][name][task]) for task in TASKS] for name in MODELS}
    return lab.Shown(
        tables=(lab.Table(("model", *TASKS), [(name, *values) for name, values in means.items()]),),
        figures=(
            lab.Bars(
                "Accuracy on new sequences of unequal length",
                "accuracy",
                [lab.Series(name, TASKS, values) for name, values in means.items()],
                marks=(lab.Mark("chance", 0.5),),
            ),
        ),
        remarks=(
            "An MLP with padding can learn the majority, which is a weighted sum of its inputs. It has to learn parity "
            "for each position and length apart.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-2",
    equation="y = MLP(x_1 … x_N), N fixed\nh_t = φ(W h_{t−1} + W_x x_t + b), y = V h_T, any T",
    method=(
        "Sequences of 1 to 20 signs are classified by the parity of their positive signs, and by their majority. A "
        "GRU reads each as it is. One MLP reads all 20 places, with zeros where a sequence is shorter; another reads "
        "the last 8 steps only. All are trained on the same sequences and never see one twice, except by chance. The "
        "claim holds if the GRU's accuracy, averaged over the two tasks, is above 0.9 and more than 0.02 above that "
        "of both."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
