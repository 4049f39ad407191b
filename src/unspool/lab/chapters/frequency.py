"""Frequency: the gain of a linear layer, and of a stack, by sinusoids."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from unspool import lab, nn

Array = NDArray[np.float64]
#: The recurrent weights of the layers, from the lowest up.
STACKS = ((0.2,), (0.6,), (0.95,), (0.2, 0.6, 0.95), (0.95, 0.2, -0.5))
TOLERANCE = 1e-10
#: After this many steps 0.95^t is below rounding, and only the sinusoid is left.
STEPS, SETTLED = 2000, 1000


def gain(a: float, omega: Array) -> Array:
    """The formula of the claim."""
    found: Array = 1 / np.sqrt(1 - 2 * a * np.cos(omega) + a * a)
    return found


def measured(weights: tuple[float, ...], omega: Array) -> list[list[float]]:
    """Amplitude of every layer's output over that of the input, by frequency."""
    stack = nn.Stack("linear", 1, 1, len(weights), dtype=torch.float64)
    with torch.no_grad():
        for layer, a in zip(stack.layers, weights, strict=True):
            layer.get_parameter("W_h").fill_(1.0)
            layer.get_parameter("U_h").fill_(a)
        angles = np.arange(STEPS)[:, None] * omega
        sequences, _ = stack(torch.from_numpy(np.cos(angles))[..., None], every_layer=True)
    return [amplitudes(sequence[..., 0].numpy()[SETTLED:], angles[SETTLED:]) for sequence in sequences]


def amplitudes(signals: Array, angles: Array) -> list[float]:
    """The size of a cosine and a sine that fit each signal best."""
    found = []
    for signal, angle in zip(signals.T, angles.T, strict=True):
        waves = np.stack([np.cos(angle), np.sin(angle)], -1)
        parts, *_ = np.linalg.lstsq(waves, signal, rcond=1e-9)
        found.append(math.hypot(*parts))
    return found


def measure(study: lab.Study) -> lab.Found:
    omega = np.geomspace(0.02, math.pi, study.choose(16, 40))
    stacks = []
    for weights in STACKS:
        formula = np.cumprod([gain(a, omega) for a in weights], axis=0)
        stacks.append({"weights": weights, "measured": measured(weights, omega), "formula": formula})
    return {"omega": omega, "stacks": stacks}


def error(stack: lab.Found) -> float:
    """The largest relative difference between measurement and formula."""
    return float(np.max(np.abs(np.array(stack["measured"]) / np.array(stack["formula"]) - 1)))


def judge(found: lab.Found) -> lab.Verdict:
    single = [error(stack) for stack in found["stacks"] if len(stack["weights"]) == 1]
    stacked = [error(stack) for stack in found["stacks"] if len(stack["weights"]) > 1]
    return lab.all_of(
        lab.at_most("largest relative difference, single layers", max(single), TOLERANCE),
        lab.at_most("largest relative difference, stacks", max(stacked), TOLERANCE),
    )


def show(found: lab.Found) -> lab.Shown:
    names = [", ".join(map(str, stack["weights"])) for stack in found["stacks"]]
    rows = [
        (name, stack["measured"][-1][0], stack["measured"][-1][-1], error(stack))
        for name, stack in zip(names, found["stacks"], strict=True)
    ]
    tops = [stack["measured"][-1] for stack in found["stacks"]]
    return lab.Shown(
        tables=(lab.Table(("a of each layer", "gain, slowest", "gain, fastest", "largest relative difference"), rows),),
        figures=(
            lab.Lines(
                "Gain of the top layer by frequency, for each choice of a",
                "ω, radians per step",
                "gain",
                [lab.Series(name, found["omega"], top) for name, top in zip(names, tops, strict=True)],
                log_x=True,
                log_y=True,
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-1",
    equation="h_t = a h_{t−1} + x_t\ng(ω) = 1/√(1 − 2a cos ω + a^{2})\nG_ℓ(ω) = g_1(ω) ⋯ g_ℓ(ω)",
    method=(
        "Sinusoids of many frequencies run through linear layers with a = 0.2, 0.6 and 0.95, and through stacks of "
        "three layers. The amplitude of each layer's output is fitted after the transient has decayed. The claim holds "
        "if it is the formula's gain, and up a stack the product of gains, to a relative 1e-10."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
