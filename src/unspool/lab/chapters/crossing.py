"""The crossing: from which length on a recurrence takes less time than attention, measured on this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unspool import nn as unspool_nn
from unspool.lab import (
    Chapter,
    Found,
    Lines,
    Mark,
    Series,
    Shown,
    Study,
    Table,
    Verdict,
    all_of,
    at_least,
    at_most,
    measure_cost,
)
from unspool.language import Message

WIDTH, HEADS = 64, 4
KINDS = ("attention", "fused attention")


class Fused(nn.Module):
    """A Transformer layer as above, whose attention never holds all T² weights at once."""

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


def measure(study: Study) -> Found:
    lengths = study.choose([64, 128, 256, 512, 1024, 2048], [64, 128, 256, 512, 1024, 2048, 4096])
    found: dict[str, list[float]] = {}
    for place, kind in enumerate(KINDS):
        torch.manual_seed(study.first)
        opponent = unspool_nn.DecoderTransformer(WIDTH, HEADS) if kind == "attention" else Fused()
        recurrence = unspool_nn.Recurrent("lstm", WIDTH, WIDTH)
        cost = measure_cost(recurrence, opponent, width=WIDTH, batch_size=1, steps=lengths, rounds=study.choose(3, 7))
        found[f"recurrence beside {kind}"] = cost.rnn_seconds.tolist()
        found[kind] = cost.attention_seconds.tolist()
        study.tell((place + 1) / len(KINDS))
    return {"lengths": lengths, "seconds": found, "threads": torch.get_num_threads()}


def ratios(found: Found, kind: str) -> list[float]:
    """Time of attention relative to that of the recurrence at each length."""
    seconds = found["seconds"]
    return [a / r for a, r in zip(seconds[kind], seconds[f"recurrence beside {kind}"], strict=True)]


def growth(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    """The exponent of T over the last two doublings of the length."""
    return math.log(seconds[-1] / seconds[-3]) / math.log(lengths[-1] / lengths[-3])


def crossing(lengths: Sequence[int], relative: Sequence[float]) -> float | None:
    """The length from which on attention takes longer at every measured length; None if it does not at the longest."""
    below = [place for place, ratio in enumerate(relative) if ratio < 1]
    if not below:
        return float(lengths[0])
    if below[-1] == len(lengths) - 1:
        return None
    (a, low), (b, high) = ((math.log(lengths[n]), math.log(relative[n])) for n in (below[-1], below[-1] + 1))
    return math.exp(a + (b - a) * -low / (high - low))


def judge(found: Found) -> Verdict:
    lengths, seconds = found["lengths"], found["seconds"]
    return all_of(
        at_least("time of attention relative to recurrence at the longest length", ratios(found, KINDS[0])[-1], 1.0),
        at_least("the same for fused attention", ratios(found, KINDS[1])[-1], 1.0),
        at_most("exponent of T of the recurrence", growth(lengths, seconds[f"recurrence beside {KINDS[0]}"]), 1.25),
        at_least("exponent of T of attention", growth(lengths, seconds[KINDS[0]]), 1.5),
    )


def show(found: Found) -> Shown:
    lengths, seconds = found["lengths"], found["seconds"]
    curves = {"recurrence": seconds[f"recurrence beside {KINDS[0]}"], **{kind: seconds[kind] for kind in KINDS}}
    wins = {kind: crossing(lengths, ratios(found, kind)) for kind in KINDS}
    marks = [Mark(Message("T_win = {T:.0f}", T=win), win, vertical=True) for win in wins.values() if win is not None]
    rows = [(name, growth(lengths, curve), curve[-1], wins.get(name)) for name, curve in curves.items()]
    return Shown(
        tables=(
            Table(("layer", "exponent of T", "seconds at the longest length", "T_win"), rows),
            Table(("T", *curves), [(T, *(curve[n] for curve in curves.values())) for n, T in enumerate(lengths)]),
        ),
        figures=(
            Lines(
                "Time of one training step",
                "length T",
                "seconds",
                [Series(name, lengths, curve) for name, curve in curves.items()],
                log_x=True,
                log_y=True,
                marks=marks,
            ),
        ),
        remarks=(Message("Measured with {threads} threads, batch size 1, width 64.", threads=found["threads"]),),
    )


CHAPTER = Chapter(
    claim="S1-12",
    equation="time_{RNN} ∝ T\ntime_{attention} ∝ T²\nT > T_{win}: time_{RNN} < time_{attention}",
    method=(
        "A forward and backward pass of an LSTM and of one Transformer layer of the same width is timed on this "
        "machine at lengths that double, in turns; the fastest of several rounds counts. Attention is measured as it "
        "is written, and fused, which is the strongest opponent on a CPU. The claim holds if both take longer than "
        "the LSTM at the longest length, so that the crossing is measured and not extrapolated; and if, over the last "
        "two doublings, the time of the LSTM grows at most as T^1.25 and that of attention at least as T^1.5."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
