"""Rules about the dynamics of the state: chaos."""

from __future__ import annotations

import numpy as np

from unspool.insight.measures.lyapunov import CHAOS, Lyapunov
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case
from unspool.language import Message

#: States that grow at this part of the rate at which differences do are running away, which is not chaos.
RUNAWAY = 0.5


def chaotic(case: Case) -> Verdict | None:
    """States are bounded, and every small difference between them grows."""
    found, layers = case.found.get(Lyapunov), chaotic_layers(case)
    if found is None or not layers:
        return None
    worst = max(layers, key=lambda layer: found.largest[layer])
    exponent, (low, high) = float(found.largest[worst]), map(float, found.interval[worst])
    evidence = Message(
        "In {label}, two nearby states move apart by a factor of {factor:.2f} per step (largest Lyapunov exponent "
        "{exponent:+.3f}, {low:+.3f} to {high:+.3f}), while the states stay bounded. After {steps} steps a difference "
        "is a hundred times as large. Memory is lost in these differences, and gradients grow as fast.",
        label=found.labels[worst],
        factor=float(np.exp(exponent)),
        exponent=exponent,
        low=low,
        high=high,
        steps=max(1, round(np.log(100) / exponent)),
    )
    remedy = (
        'Start from orthogonal recurrent matrices with `init="orthogonal"`, or from smaller ones; `weight_decay=0.01` '
        "keeps them small. Gated cells (lstm, gru) rarely become chaotic."
    )
    settings = {"init": "orthogonal", "weight_decay": 0.01}
    return Verdict("chaotic", "fault", "The network is chaotic", evidence, remedy, settings, "lyapunov")


def chaotic_layers(case: Case) -> list[int]:
    """The layers in which nearby states move apart, beyond the exponent's interval, although all are bounded."""
    found = case.found.get(Lyapunov)
    if found is None:
        return []
    layers = case.specimen.recording.layers
    return [
        number
        for number, (layer, (low, _)) in enumerate(zip(layers, found.interval, strict=True))
        if low > CHAOS and not _runs_away(layer, float(found.largest[number]))
    ]


def undecided_layers(case: Case) -> list[int]:
    """The layers of which the exponent does not decide whether they are chaotic."""
    found = case.found.get(Lyapunov)
    if found is None:
        return []
    with np.errstate(invalid="ignore"):
        doubtful = (found.largest > CHAOS) & ~(found.interval[:, 0] > CHAOS)
    return [int(number) for number in np.flatnonzero(doubtful)]


def _runs_away(layer: RecordedLayer, exponent: float) -> bool:
    """Whether the states grow with time, at about the rate at which their differences do."""
    sizes = np.where(layer.live.numpy(), np.linalg.norm(layer.after.numpy(), axis=-1), np.nan)
    sizes = sizes[::-1] if layer.reverse else sizes
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.array([np.nanmedian(step) for step in sizes if np.isfinite(step).any()]))
    second = logarithms[len(logarithms) // 2 :]  # the first half may lead away from a start at zero
    second = second[np.isfinite(second)]
    if len(second) < 2:
        return False
    return bool(np.polyfit(np.arange(len(second)), second, 1)[0] > RUNAWAY * exponent)
