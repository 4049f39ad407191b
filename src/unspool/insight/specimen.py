"""Specimen: a recorded model with what is known about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.insight.recording import Recording


@dataclass(frozen=True, eq=False)
class Specimen:
    """What is looked into."""

    recording: Recording
    title: str
    facts: tuple[tuple[str, str], ...] = ()  # for people: name and value
    tokens: Sequence[Sequence[str]] | None = None  # [time][row]; "" beyond a row's length
    surprise: NDArray[np.float64] | None = None  # (time, rows): −log p of what came
    window: int | None = None  # steps that gradients went back in training; None: all, or unknown
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the run's model and training; {} without a run
    retrain: str | None = None  # the command that trained the run, to which a remedy's options are added
    missing: tuple[str, ...] = ()  # what is not there to be measured, and why

    @property
    def cells(self) -> tuple[str, ...]:
        """Titles of the cells, each once."""
        return tuple(dict.fromkeys(unit.equations.title for unit in self.recording.units))
