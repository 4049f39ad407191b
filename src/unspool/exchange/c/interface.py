"""Interface: what stands between a network and its users, such as a vocabulary and the units of numbers."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.data.scale import Scale
from unspool.data.vocabulary import Vocabulary
from unspool.runtime.network import Array


@dataclass(frozen=True, eq=False)
class Interface:
    """How raw inputs become those of a network, and its outputs become predictions.

    Attributes:
        vocabulary: Text to ids and back; of a tagger, its words. None where steps are numbers or ids.
        lowercase: Whether texts are lowercased first.
        letters: The characters of a tagger's words.
        target: The vocabulary of what a translator writes.
        inputs: The scale of features; None where the caller standardizes them.
        outputs: The scale of predicted numbers; None where they stay standardized.
        unit: The mean change of a forecaster's targets over a season, standardized.
        horizon: How many steps a forecaster was trained to forecast.
        lookback: How many steps of the past it was trained to read; 0: all.
        labels: Names of classes, tags or targets, by their numbers.
        allowed: Which tag may follow which, (tags + 2, tags + 2) with the borders last; None: all.
    """

    vocabulary: Vocabulary | None = None
    lowercase: bool = False
    letters: Vocabulary | None = None
    target: Vocabulary | None = None
    inputs: Scale | None = None
    outputs: Scale | None = None
    unit: Array | None = None
    horizon: int = 1
    lookback: int = 0
    labels: tuple[str, ...] = ()
    allowed: Array | None = None
