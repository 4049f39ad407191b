"""What a run tells while it goes on: to the terminal, to metrics.jsonl, to whoever listens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Event:
    """Something that happened in a run. All fields are JSON's own types."""

    kind: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """The fields, after the event's kind; None for every number that JSON has not."""
        found: dict[str, Any] = finite({"event": self.kind, **asdict(self)})
        return found


@dataclass(frozen=True)
class Started(Event):
    """Training begins, or goes on."""

    kind = "started"
    run: str  # the run's folder
    task: str
    plan: Mapping[str, str]  # what is trained on what, and how, in words
    parameters: int
    unit: str  # what is counted: "characters", "words", …
    step: int  # above 0: resumed
    steps: int | None  # updates to come in all; None where time decides
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # name → figures on validation data


@dataclass(frozen=True)
class Stepped(Event):
    """Some updates were made."""

    kind = "stepped"
    step: int
    epoch: float  # how often the training data has been read
    fraction: float  # of the whole training, 0 to 1
    loss: float  # mean since the last such event, nats
    rate: float  # the learning rate now
    speed: float  # units a second
    seconds: float  # spent on training so far
    remaining: float  # seconds to go
    norm: float  # of the last gradient, before clipping
    clipped: float  # share of all updates that were clipped


@dataclass(frozen=True)
class Evaluated(Event):
    """The validation data was read."""

    kind = "evaluated"
    step: int
    epoch: float
    fraction: float
    seconds: float
    training: float | None  # mean training loss since the last evaluation
    validation: Mapping[str, float]  # "loss" and what the task makes of it
    best: bool
    sample: str  # what the model says now


@dataclass(frozen=True)
class Advised(Event):
    """A word about how it goes."""

    kind = "advised"
    step: int
    text: str


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint is on disk."""

    kind = "saved"
    step: int
    path: str


@dataclass(frozen=True)
class Finished(Event):
    """Training is over."""

    kind = "finished"
    step: int
    seconds: float
    reason: str  # "done", "stopped early" or "interrupted"
    run: str
    best_step: int
    validation: Mapping[str, float]  # of the best model, read once through
    test: Mapping[str, float]  # empty where there is no test data
    baselines: Mapping[str, Mapping[str, float]]
    sample: str
    task: str = "lm"
    chosen_by: str = "loss"  # the figure by which models are compared
    more_is_better: bool = False
    processes: int = 1  # that trained together, and must to go on


Listener = Callable[[Event], None]


def finite(value: Any) -> Any:
    """The value with None for every number that JSON has not: NaN and ∞."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
