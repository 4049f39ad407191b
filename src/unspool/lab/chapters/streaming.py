"""Streaming: the memory of training by length, and the cost of one more step of a stream."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from unspool import lab
from unspool import nn as unspool_nn

WIDTH, HEADS = 64, 4
LENGTHS = (64, 128, 256, 512, 1024)
NEAR, CHUNK = 10, 10_000


def memory() -> dict[str, list[int]]:
    """Bytes that a training step keeps for its backward pass, by length."""
    layers = {
        "recurrence": unspool_nn.Recurrent("lstm", WIDTH, WIDTH),
        "attention": unspool_nn.DecoderTransformer(WIDTH, HEADS),
    }
    return {name: [lab.count_kept(layer, torch.randn(T, 1, WIDTH)) for T in LENGTHS] for name, layer in layers.items()}


def stream(layer: Any, steps: int, chunk: int) -> Any:
    """The state after some steps of random input."""
    state = None
    for begin in range(0, steps, chunk):
        state = layer(torch.randn(min(chunk, steps - begin), 1, WIDTH), state)[1]
    return state


def time_steps(layer: Any, states: Sequence[Any], rounds: int) -> list[float]:
    """The median time of one more step from each state; they take turns, so that a busy moment hits all."""
    x = torch.randn(1, 1, WIDTH)
    taken: list[list[float]] = [[] for _ in states]
    for _ in range(rounds):
        for state, times in zip(states, taken, strict=True):
            begun = time.perf_counter()
            layer(x, state)
            times.append(time.perf_counter() - begun)
    return [statistics.median(times) for times in taken]


@torch.no_grad()
def measure(study: lab.Study) -> lab.Found:
    torch.manual_seed(study.first)
    far, far_attention, rounds = study.choose((1_000_000, 2_000, 1000), (1_000_000, 8_000, 5000))
    recurrence = unspool_nn.Recurrent("lstm", WIDTH, WIDTH)
    attention = unspool_nn.DecoderTransformer(WIDTH, HEADS)
    with torch.enable_grad():
        kept = memory()
    study.tell(0.2)
    recurrent_states = [stream(recurrence, steps, CHUNK) for steps in (NEAR, far)]
    study.tell(0.6)
    attention_states = [stream(attention, steps, 500) for steps in (NEAR, far_attention)]
    return {
        "bytes": kept,
        "positions": {"recurrence": [NEAR, far], "attention": [NEAR, far_attention]},
        "seconds": {
            "recurrence": time_steps(recurrence, recurrent_states, rounds),
            "attention": time_steps(attention, attention_states, rounds // 5),
        },
    }


def growth(kept: Sequence[int]) -> float:
    """The exponent of T over the last doubling of the length."""
    return math.log2(kept[-1] / kept[-2])


def judge(found: lab.Found) -> lab.Verdict:
    near, far = found["seconds"]["recurrence"]
    return lab.all_of(
        lab.at_most("exponent of T of the recurrence's memory", growth(found["bytes"]["recurrence"]), 1.05),
        lab.at_least("exponent of T of attention's memory", growth(found["bytes"]["attention"]), 1.5),
        lab.at_most("change of the time of a step from step 10 to step 1,000,000", abs(far / near - 1), 0.15),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = [
        (name, position, seconds)
        for name in ("recurrence", "attention")
        for position, seconds in zip(found["positions"][name], found["seconds"][name], strict=True)
    ]
    kept = [(name, growth(values), values[0], values[-1]) for name, values in found["bytes"].items()]
    return lab.Shown(
        tables=(
            lab.Table(("layer", "steps before", "seconds for one more step"), rows),
            lab.Table(("layer", "exponent of T", "bytes at T = 64", "bytes at T = 1024"), kept),
        ),
        figures=(
            lab.Lines(
                "Memory kept for the backward pass",
                "length T",
                "bytes",
                [lab.Series(name, LENGTHS, values) for name, values in found["bytes"].items()],
                log_x=True,
                log_y=True,
            ),
        ),
        remarks=(
            "Attention is measured as it is written, with all T² weights. Fused implementations keep memory in "
            "proportion to T in training too, but a streamed step still reads all earlier keys and values.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-13",
    equation="memory_{RNN} ∝ T\nmemory_{attention} ∝ T²\nh_t = F(h_{t−1}, x_t) costs the same at every t",
    method=(
        "The tensors that a training step keeps for its backward pass are counted at lengths that double, for an LSTM "
        "and for one Transformer layer. Then the LSTM reads a stream of one million steps, and one more step is timed "
        "after 10 steps and after all of them, in turns; the medians count. The claim holds if, over the last "
        "doubling, the LSTM's memory grows at most as T^1.05 and attention's at least as T^1.5; and if the two "
        "medians differ by at most 15 %."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
