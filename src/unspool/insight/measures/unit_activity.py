"""Unit activity: the outputs of the units that vary most, over a stretch of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: Units and tokens, so that the text can be read.
UNITS, TOKENS = 12, 80


@dataclass(frozen=True, eq=False)
class UnitActivity:
    """Some units of one layer over the beginning of the longest sequence."""

    label: str  # of the layer
    tokens: tuple[str, ...]
    units: tuple[int, ...]  # their numbers in the layer, the one that varies most first
    values: Array  # (tokens, units)


def measure_unit_activity(recording: Recording, tokens: Sequence[Sequence[str]]) -> UnitActivity:
    """The units that vary most in the highest layer that reads forward.

    Args:
        recording: the model, which has a layer that reads forward.
        tokens: [time][sequence], as the layer read them.

    Returns:
        The outputs of 12 units over at most 80 tokens.
    """
    layer = [layer for layer in recording.layers if not layer.reverse][-1]
    row = int(layer.live.sum(0).argmax())
    steps = min(int(layer.live[:, row].sum()), TOKENS)
    outputs = layer.output[:steps, row].numpy()
    liveliest = np.argsort(outputs.std(0))[::-1][:UNITS]
    return UnitActivity(
        label=layer.label,
        tokens=tuple(tokens[step][row] for step in range(steps)),
        units=tuple(map(int, liveliest)),
        values=outputs[:, liveliest],
    )
