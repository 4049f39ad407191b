"""What a run reports: to the terminal, to metrics.jsonl, and to any other listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from unspool.storage.documents import finite


@dataclass(frozen=True)
class Event:
    """Something that happened in a run. All fields are types of JSON."""

    kind: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """The event's kind and its fields; None for every number that JSON does not have."""
        found: dict[str, Any] = finite({"event": self.kind, **asdict(self)})
        return found


@dataclass(frozen=True)
class Started(Event):
    """Training starts, or resumes."""

    kind = "started"
    run: str  # the run's folder
    task: str
    plan: Mapping[str, str]  # what is trained on what, and how, in words
    parameters: int
    unit: str  # what is counted: "characters", "words", …
    step: int  # above 0: resumed
    steps: int | None  # updates in all; None where time decides
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # name → metrics on validation data


@dataclass(frozen=True)
class Stepped(Event):
    """Some updates were made."""

    kind = "stepped"
    step: int
    epoch: float  # passes over the training data so far
    fraction: float  # of the whole training, 0 to 1
    loss: float  # mean since the last such event, nats
    lr: float  # the learning rate now
    speed: float  # units per second
    seconds: float  # spent on training so far
    remaining: float  # seconds
    norm: float  # of the last gradient, before clipping
    clipped: float  # fraction of all updates that were clipped


@dataclass(frozen=True)
class Evaluated(Event):
    """The model was evaluated on validation data."""

    kind = "evaluated"
    step: int
    epoch: float
    fraction: float
    seconds: float
    training: float | None  # mean training loss since the last evaluation
    validation: Mapping[str, float]  # the loss and the metrics of the task
    best: bool
    sample: str  # of the model's output


@dataclass(frozen=True)
class Advised(Event):
    """Advice on the course of training, or another note on it."""

    kind = "advised"
    step: int
    text: str
    is_note: bool = False  # it says what happens, and not what to do


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint is on disk."""

    kind = "saved"
    step: int
    path: str


@dataclass(frozen=True)
class Finished(Event):
    """Training has ended."""

    kind = "finished"
    step: int
    seconds: float
    reason: str  # "done", "stopped early" or "interrupted"
    run: str
    best_step: int
    validation: Mapping[str, float]  # metrics of the best model, on all of the validation data
    test: Mapping[str, float]  # empty where there is no test data
    baselines: Mapping[str, Mapping[str, float]]  # on validation data
    sample: str
    task: str = "lm"
    chosen_by: str = "loss"  # the metric by which the best model is chosen
    more_is_better: bool = False
    processes: int = 1  # that trained together, and must resume together
    prompt: str = ""  # the beginning of a text like the training data; empty if the task generates none
    advice: str = ""  # what the run shows, and why to try `proposal` next
    proposal: Mapping[str, Any] = field(default_factory=dict)  # settings for the next run
    flawed: bool = False  # whether something went wrong: overfitting, a stall, a baseline that is better
    behind: str = ""  # the baseline that the model does not beat
    test_baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # on test data, where there is any


Listener = Callable[[Event], None]
