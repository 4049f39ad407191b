"""What a bidirectional network does not solve: long distances, and answers before the end."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool import lab
from unspool import nn as unspool_nn

DISTANCES = (5, 80)
MODELS = ("elman", "elman, both directions", "lstm, both directions")
STEPS, UNITS = 16, 24


def waits() -> dict[str, list[float]]:
    """By step: how much the output changes if only the last input does, and if only the first does."""
    found = {}
    for name, kind in (("one direction", unspool_nn.Recurrent), ("both directions", unspool_nn.Bidirectional)):
        torch.manual_seed(0)
        layer = kind("gru", 3, 8, dtype=torch.float64)
        x = torch.randn(STEPS, 1, 3, dtype=torch.float64)
        changed = x.clone()
        changed[-1] += 1.0
        difference = (layer(x)[0] - layer(changed)[0]).detach()
        found[name] = difference[:-1, 0].abs().amax(-1).tolist()
    return found


def draw(distance: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noise with a bit in the middle, as far from the beginning as from the end."""
    chance = torch.Generator().manual_seed(seed)
    x = torch.zeros(2 * distance + 1, count, 2)
    x[..., 1] = 0.5 * torch.randn(len(x), count, generator=chance)
    y = torch.randint(0, 2, (count,), generator=chance)
    x[distance, :, 0] = 2.0 * y - 1
    return x, y


def train(model: str, distance: int, steps: int, seed: int) -> float:
    """The accuracy of telling the bit from the last states of all directions."""
    torch.manual_seed(seed)
    cell, _, both = model.partition(", ")
    layer = (unspool_nn.Bidirectional if both else unspool_nn.Recurrent)(cell, 2, UNITS)
    if cell == "lstm":
        unspool_nn.init.chrono_(layer, 2 * distance)
    last = unspool_nn.LastState(layer.output_size, bidirectional=bool(both))
    head = nn.Linear(layer.output_size, 2)

    def predict(x: Tensor) -> Tensor:
        logits: Tensor = head(last(layer(x)[0]))
        return logits

    def loss(step: int) -> Tensor:
        x, y = draw(distance, 32, seed * 100_000 + step)
        return functional.cross_entropy(predict(x), y)

    lab.fit(nn.ModuleList([layer, head]), loss, steps, lr=5e-3)
    x, y = draw(distance, 1000, 1_000_000_000 + seed)
    with torch.no_grad():
        return lab.accuracy(predict(x), y)


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(250, 700)
    found: dict[str, dict[str, list[float]]] = {name: {str(d): [] for d in DISTANCES} for name in MODELS}
    for seed in study.seeds():
        for name in MODELS:
            for distance in DISTANCES:
                found[name][str(distance)].append(train(name, distance, steps, seed))
    return {"waits": waits(), "steps": steps, "accuracy": found}


def judge(found: lab.Found) -> lab.Verdict:
    both, gated = (found["accuracy"][name] for name in MODELS[1:])
    short, long = map(str, DISTANCES)
    return lab.all_of(
        lab.at_most(
            "change of earlier outputs by the last input, one direction", max(found["waits"]["one direction"]), 0.0
        ),
        lab.at_least("the same in both directions, smallest over steps", min(found["waits"]["both directions"]), 1e-12),
        lab.above("accuracy of both directions at a distance of 5", both[short], 0.9),
        lab.below("accuracy of both directions at a distance of 80", both[long], 0.6),
        lab.above("accuracy of gates at a distance of 80, which shows that it can be learned", gated[long], 0.9),
    )


def show(found: lab.Found) -> lab.Shown:
    means = {name: [statistics.fmean(found["accuracy"][name][str(d)]) for d in DISTANCES] for name in MODELS}
    rows: list[tuple[str | float, ...]] = [(name, *means[name]) for name in MODELS]
    steps = list(range(1, STEPS))
    lines = [lab.Series(name, steps, values) for name, values in found["waits"].items()]
    return lab.Shown(
        tables=(lab.Table(("network", "accuracy at a distance of 5", "at a distance of 80"), rows),),
        figures=(
            lab.Lines("Change of the output if only the last input, at step 16, changes", "step", "change", lines),
            lab.Lines(
                "Accuracy by distance",
                "distance",
                "accuracy",
                [lab.Series(name, list(DISTANCES), means[name]) for name in MODELS],
                marks=(lab.Mark("chance", 0.5),),
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S3-9",
    equation="h_t = [h_t^f(x_1 … x_t); h_t^b(x_t … x_T)]",
    method=(
        "If only the last of 16 inputs changes, no earlier output of a forward network may change at all, and every "
        "output of a bidirectional one must: none of them is final before the end. Then networks learn to tell a bit "
        "in the middle of noise from the last states of all directions, 5 and 80 steps from both ends. The claim holds "
        "if the bidirectional simple RNN exceeds 0.9 at 5 steps and stays below 0.6 at 80, where an LSTM, whose gates "
        "start with biases for such distances, exceeds 0.9."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
