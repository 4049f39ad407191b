"""Specimen: a recorded model with what is known about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unspool.insight.recording import Gradient, Recording
from unspool.insight.report.advice import Retrain
from unspool.runs.follow_up import FollowUp


@dataclass(frozen=True, eq=False)
class Specimen:
    """What an X-ray looks into."""

    recording: Recording
    title: str
    facts: tuple[tuple[str, str], ...] = ()  # for people: name and value
    tokens: Sequence[Sequence[str]] | None = None  # [time][sequence]; "" beyond the end of a sequence
    surprise: NDArray[np.float64] | None = None  # (time, batch): −log p of the token that came
    bptt: int | None = None  # steps that gradients go back in training; None: all, or unknown
    retrain: Retrain | None = None  # how to train the run again; None without a run
    missing: tuple[str, ...] = ()  # what cannot be measured, and why
    course: FollowUp | None = None  # what the training of the run showed; None without a finished run
    forget_bias: float | None = None  # that the gates started with, where it is known
    engine: str = "kernel"  # of the run, whose settings depend on it
    focus: Callable[[], Recording] | None = None  # records one prediction; None: the loss of the first sequence
    stand_in: bool = False  # the loss is a random projection of the output: it needs nothing of the input
    find_memory: Callable[[], int | None] = lambda: None  # steps that the data needs remembered; None if not known

    @cached_property
    def memory(self) -> int | None:
        """The steps that the training data needs to be remembered, measured when a rule asks; None if not known."""
        return self.find_memory()

    @property
    def cells(self) -> tuple[str, ...]:
        """Titles of the cells, each once."""
        return tuple(dict.fromkeys(layer.equations.title for layer in self.recording.layers))

    @property
    def text(self) -> Sequence[Sequence[str]]:
        """The tokens, of a specimen that has them."""
        assert self.tokens is not None
        return self.tokens

    @cached_property
    def gradient(self) -> Gradient:
        """The whole gradient of the loss, which several measures need."""
        return self.recording.gradient()
