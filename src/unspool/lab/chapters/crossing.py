"""The crossing: from which length on a recurrence takes less time than attention, measured on this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.language import Message

WIDTH, HEADS, BATCH_SIZE = 64, 4, 16
KINDS = ("compiled recurrence", "recurrence step by step")
#: Lengths double beyond the first ones until both recurrences have won, but not beyond this one.
LIMIT = 8192


class StepByStep(nn.Module):
    """An LSTM as a loop over time, in which every step is a call of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        states = [self.cell(x[0])]
        for step in x[1:]:
            states.append(self.cell(step, states[-1]))
        return torch.stack([h for h, _ in states])


class Fused(nn.Module):
    """A causal Transformer layer whose attention is fused: it never holds all T² weights at once."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        h = x.transpose(0, 1)
        q, k, v = self.project(self.norms[0](h)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).flatten(2))
        output: Tensor = h + self.feed(self.norms[1](h))
        return output


#: The smallest exponent of T that times of a recurrence on a quiet machine have.
LEAST = 0.7


def compare(layer: nn.Module, longest: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of a recurrence and of attention, at lengths to the longest one or until the recurrence has won."""
    while True:
        lengths = [2**power for power in range(4, longest.bit_length())]
        cost = lab.measure_cost(layer, Fused(), width=WIDTH, batch_size=BATCH_SIZE, steps=lengths, rounds=rounds)
        if longest >= LIMIT or cost.attention_seconds[-1] > cost.rnn_seconds[-1]:
            recurrence, attention = cost.rnn_seconds.tolist(), cost.attention_seconds.tolist()
            return {"lengths": lengths, "recurrence": recurrence, "attention": attention}
        longest *= 2


def measure(study: lab.Study) -> lab.Found:
    torch.manual_seed(study.first)
    layers = (unspool_nn.Recurrent("lstm", WIDTH, WIDTH), StepByStep())
    longest, rounds = study.choose(2048, 4096), study.choose(3, 5)
    found = {}
    for kind, layer in zip(KINDS, layers, strict=True):
        found[kind] = compare(layer, longest, rounds)
        study.tell(len(found) / len(KINDS))
    return {"seconds": found, "threads": torch.get_num_threads()}


def ratios(found: lab.Found, kind: str) -> list[float]:
    """Time of attention relative to that of the recurrence at each length."""
    seconds = found["seconds"][kind]
    return [a / r for a, r in zip(seconds["attention"], seconds["recurrence"], strict=True)]


def growth(seconds: Sequence[float]) -> float:
    """The exponent of T over the last doubling of the length."""
    return math.log2(seconds[-1] / seconds[-2])


def crossing(lengths: Sequence[int], relative: Sequence[float]) -> float | None:
    """The length from which on attention takes longer at every measured length; None if it does not at the longest."""
    below = [place for place, ratio in enumerate(relative) if ratio < 1]
    if not below:
        return float(lengths[0])
    if below[-1] == len(lengths) - 1:
        return None
    (a, low), (b, high) = ((math.log(lengths[n]), math.log(relative[n])) for n in (below[-1], below[-1] + 1))
    return math.exp(a + (b - a) * -low / (high - low))


def judge(found: lab.Found) -> lab.Verdict:
    seconds = found["seconds"]
    slowest = min(growth(seconds[kind]["recurrence"]) for kind in KINDS)
    if slowest < LEAST:  # no loop over T steps does that: the times are those of other programs
        reason = Message("the time of a recurrence grows as T^{exponent:.2g}: the machine was busy", exponent=slowest)
        return lab.Verdict("not decided", reason, slowest - LEAST)
    relative = [ratios(found, kind)[-1] for kind in KINDS]
    return lab.all_of(
        lab.at_least("time of attention relative to the compiled recurrence", relative[0], 1.0),
        lab.at_least("time of attention relative to the recurrence step by step", relative[1], 1.0),
        lab.at_most(
            "largest exponent of T of a recurrence", max(growth(seconds[k]["recurrence"]) for k in KINDS), 1.25
        ),
        lab.at_least("smallest exponent of T of attention", min(growth(seconds[k]["attention"]) for k in KINDS), 1.5),
    )


def show(found: lab.Found) -> lab.Shown:
    seconds = found["seconds"]
    wins = {kind: crossing(seconds[kind]["lengths"], ratios(found, kind)) for kind in KINDS}
    curves = {kind: (seconds[kind]["lengths"], seconds[kind]["recurrence"]) for kind in KINDS}
    curves["attention"] = seconds[KINDS[1]]["lengths"], seconds[KINDS[1]]["attention"]
    marks = [
        lab.Mark(Message("T_win = {T:.0f}", T=win), win, vertical=True) for win in wins.values() if win is not None
    ]
    rows = [(name, lengths[-1], each[-1], growth(each), wins.get(name)) for name, (lengths, each) in curves.items()]
    return lab.Shown(
        tables=(lab.Table(("layer", "longest T", "seconds at the longest T", "exponent of T", "T_win"), rows),),
        figures=(
            lab.Lines(
                "Time of one training step",
                "length T",
                "seconds",
                [lab.Series(name, lengths, each) for name, (lengths, each) in curves.items()],
                log_x=True,
                log_y=True,
                marks=marks,
            ),
        ),
        remarks=(
            Message("Measured with {threads} threads, batch size 16 and width 64.", threads=found["threads"]),
            "A T_win of 16, the shortest length, means that the recurrence takes less time at every measured length.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-12",
    equation="time_{RNN} ∝ T\ntime_{attention} ∝ T²\nT > T_{win}: time_{RNN} < time_{attention}",
    method=(
        "A forward and backward pass of an LSTM and of one Transformer layer of the same width is timed on this "
        "machine at lengths that double, in turns; the fastest of several rounds counts. The LSTM is one compiled "
        "loop, or a call per step; attention is fused, the strongest opponent. Lengths grow to 2,048 (4,096 in the "
        "full study), and then until the recurrence takes less time, up to 8,192: the crossing is measured and not "
        "extrapolated. The claim holds if both recurrences take less time than attention at the longest length; and "
        "if, over the last doubling, their times grow at most as T^1.25 and that of attention at least as T^1.5."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
