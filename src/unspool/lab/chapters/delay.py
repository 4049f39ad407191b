"""Time delay: an output that waits M steps has seen M steps of the future, and must remember M steps more."""

from __future__ import annotations

import math
import statistics

import torch
from torch import nn
from torch.nn import functional

from unspool import lab
from unspool import nn as unspool_nn

#: y_t is the majority of x_t … x_{t + AHEAD}.
AHEAD = 4
DELAYS = (0, 2, 3, 4, 5, 6, 10, 16, 30)
T, UNITS = 40, 24


def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random bits, and at each step whether most of the next ones are 1; zeros follow after the end."""
    chance = torch.Generator().manual_seed(seed)
    bits = torch.randint(0, 2, (T, count), generator=chance)
    later = torch.cat((bits, bits.new_zeros(AHEAD, count)))
    y = (later.unfold(0, AHEAD + 1, 1).sum(-1) > AHEAD // 2).long()
    return (2.0 * bits - 1).unsqueeze(-1), y


def optimum(delay: int) -> float:
    """The best accuracy of any model that sees `delay` steps ahead, away from the end of the sequence."""
    known = min(delay, AHEAD) + 1
    rest = AHEAD + 1 - known
    total = 0.0
    for ones in range(known + 1):
        more = sum(math.comb(rest, extra) for extra in range(rest + 1) if ones + extra > AHEAD // 2) / 2**rest
        total += math.comb(known, ones) / 2**known * max(more, 1 - more)
    return total


def train(delay: int, steps: int, seed: int) -> float:
    """The accuracy on new sequences."""
    torch.manual_seed(seed)
    layer = unspool_nn.TimeDelay(unspool_nn.Recurrent("elman", 1, UNITS), delay)
    head = nn.Linear(UNITS, 2)

    def loss(step: int) -> torch.Tensor:
        x, y = draw(32, seed * 100_000 + step)
        return functional.cross_entropy(head(layer(x)[0]).flatten(0, 1), y.flatten())

    lab.fit(nn.ModuleList([layer, head]), loss, steps, lr=3e-3)
    x, y = draw(300, 1_000_000_000 + seed)
    inside = slice(0, T - AHEAD)  # later targets can be told from fewer bits
    with torch.no_grad():
        return lab.accuracy(head(layer(x)[0])[inside], y[inside])


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(400, 1200)
    found: dict[str, list[float]] = {str(delay): [] for delay in DELAYS}
    for seed in study.seeds():
        for delay in DELAYS:
            found[str(delay)].append(train(delay, steps, seed))
    return {"steps": steps, "accuracy": found}


def judge(found: lab.Found) -> lab.Verdict:
    right = found["accuracy"][str(AHEAD)]
    less = [one - other for one, other in zip(right, found["accuracy"][str(AHEAD - 2)], strict=True)]
    more = [one - other for one, other in zip(right, found["accuracy"][str(DELAYS[-1])], strict=True)]
    return lab.all_of(
        lab.above("accuracy at M = 4, the true look-ahead, minus that at M = 2", less, 0.01),
        lab.above("accuracy at M = 4 minus that at M = 30", more, 0.01),
    )


def show(found: lab.Found) -> lab.Shown:
    means = [statistics.fmean(found["accuracy"][str(delay)]) for delay in DELAYS]
    rows = [(delay, mean, optimum(delay)) for delay, mean in zip(DELAYS, means, strict=True)]
    series = [
        lab.Series("network", list(DELAYS), means),
        lab.Series("best possible", list(DELAYS), [optimum(delay) for delay in DELAYS]),
    ]
    marks = (lab.Mark("true look-ahead", AHEAD, vertical=True),)
    return lab.Shown(
        tables=(lab.Table(("M", "accuracy", "best possible"), rows),),
        figures=(lab.Lines("Accuracy by the delay of the output", "delay M", "accuracy", series, marks=marks),),
    )


CHAPTER = lab.Chapter(
    claim="S3-7",
    equation="y_t = [x_t + … + x_{t+4} > 2]\nŷ_t = g(h_{t+M})",
    method=(
        "The target at each step is the majority of the current bit and the next four. Simple recurrent networks with "
        "24 units whose outputs are delayed by M = 0 … 30 steps are trained with equal effort. With M < 4 information "
        "is missing: the best accuracy that is possible is known. With M > 4 nothing is missing, but every bit must be "
        "remembered for longer. The claim holds if the accuracy at M = 4 is more than 0.01 above that at M = 2 and "
        "that at M = 30. A delay that is too large by a step or two costs little."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
