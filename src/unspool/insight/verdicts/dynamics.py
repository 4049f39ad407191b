"""Rules about the dynamics of the state: chaos."""

from __future__ import annotations

import numpy as np

from unspool.insight.measures.lyapunov import CHAOS, Lyapunov
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case
from unspool.language import Message

#: States that grow by more than this factor from the first half to the second diverge, which is not chaos.
DIVERGING = 4.0


def chaotic(case: Case) -> Verdict | None:
    """States are bounded, and every small difference between them grows."""
    found = case.found.get(Lyapunov)
    if found is None or not is_chaotic(case):
        return None
    worst = int(np.nanargmax(found.largest))
    exponent = float(found.largest[worst])
    evidence = Message(
        "In {label}, two nearby states move apart by a factor of {factor:.2f} per step (largest Lyapunov exponent "
        "{exponent:+.3f}), while the states stay bounded. After {steps} steps a difference is a hundred times as "
        "large. Memory is lost in these differences, and gradients grow as fast.",
        label=found.labels[worst],
        factor=float(np.exp(exponent)),
        exponent=exponent,
        steps=max(1, round(np.log(100) / exponent)),
    )
    remedy = (
        'Start from orthogonal recurrent matrices with `init="orthogonal"`, or from smaller ones; `weight_decay=0.01` '
        "keeps them small. Gated cells (lstm, gru) rarely become chaotic."
    )
    settings = {"init": "orthogonal", "weight_decay": 0.01}
    return Verdict("chaotic", "fault", "The network is chaotic", evidence, remedy, settings, "lyapunov")


def is_chaotic(case: Case) -> bool:
    """Whether nearby states move apart although all states stay bounded."""
    found = case.found.get(Lyapunov)
    if found is None:
        return False
    layers = case.specimen.recording.layers
    return any(exponent > CHAOS and not _diverges(layer) for exponent, layer in zip(found.largest, layers, strict=True))


def _diverges(layer: RecordedLayer) -> bool:
    """Whether the states grow from the first half of the sequence to the second."""
    sizes = np.where(layer.live.numpy(), np.linalg.norm(layer.after.numpy(), axis=-1), np.nan)
    halves = np.split(sizes, [len(sizes) // 2])
    early, late = (np.nanmedian(half) if np.isfinite(half).any() else np.nan for half in halves)
    return bool((early / late if layer.reverse else late / early) > DIVERGING)
