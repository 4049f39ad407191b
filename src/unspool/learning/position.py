"""The state of a run, in numbers and in named tensors: what a checkpoint holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn
from torch.optim import Optimizer

from unspool.errors import DataError
from unspool.learning.averaging import Average
from unspool.learning.device import random_state, set_random_state
from unspool.learning.files import forms_of
from unspool.learning.optimizer_state import load_optimizer, optimizer_tensors
from unspool.nn.leaves import leaves
from unspool.storage.tensors import Form, find_mismatch

T = TypeVar("T")
#: What to do where a checkpoint is not the run's.
REMEDY = "Restore the config.toml and the checkpoints that the run was started with, or start a new run"
#: Numbers that a checkpoint may hold: counts that no run exceeds, and finite numbers.
Count = Annotated[int, Field(strict=True, ge=0, lt=1 << 53)]
Number = Annotated[float, Field(strict=True)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass
class Position:
    """The state of a run in numbers."""

    #: How a checkpoint's facts are checked.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    step: Count = 0  # updates done
    epoch: Count = 0
    batch: Count = 0  # batches of this epoch that are done
    seconds: Seconds = 0.0
    clipped: Count = 0  # updates whose gradient was clipped
    loss: Finite = 0.0  # summed over the units since the last evaluation
    units: Count = 0
    first_loss: Finite | None = None  # of the first update, to which later ones are compared
    training: list[Number] = field(default_factory=list)  # mean loss at each evaluation; NaN where there was no update
    validation: list[Finite] = field(default_factory=list)  # loss at each evaluation
    evaluated: list[Count] = field(default_factory=list)  # steps at which it was evaluated
    best: Finite | None = None  # the metric by which the best model is chosen; less is better
    best_loss: Number = math.inf  # which decides among equals
    best_step: Count = 0
    advised: list[str] = field(default_factory=list)  # kinds of advice that were given

    def __post_init__(self) -> None:
        if not len(self.training) == len(self.validation) == len(self.evaluated):
            raise ValueError("does not have as many losses as evaluations")
        if max(self.evaluated, default=0) > self.step or self.best_step > self.step or self.clipped > self.step:
            raise ValueError("counts what comes after its step")

    def take_training_loss(self) -> float | None:
        """The mean training loss since the last evaluation; None if there was no update. Then it counts from 0."""
        mean = self.loss / self.units if self.units else None
        self.loss, self.units = 0.0, 0
        return mean

    def add_evaluation(self, training: float | None, validation: float, merit: float) -> bool:
        """Note an evaluation; returns whether the model is the best so far.

        Args:
            training: What `take_training_loss` gave.
            validation: The validation loss.
            merit: The metric by which the best model is chosen; less is better.
        """
        best = self.best is None or (merit, validation) < (self.best, self.best_loss)
        self.validation.append(validation)
        self.training.append(math.nan if training is None else training)
        self.evaluated.append(self.step)
        if best:
            self.best, self.best_loss, self.best_step = merit, validation, self.step
        return best

    @property
    def first_validation(self) -> float | None:
        """What a validation loss is compared with: the first one, or, before there is one, the first training loss."""
        return self.validation[0] if self.validation else self.first_loss

    @property
    def stale(self) -> int:
        """The number of evaluations since the best one."""
        return sum(step > self.best_step for step in self.evaluated)


class Parts(NamedTuple):
    """What training changes: tensors that have names in a checkpoint."""

    learner: nn.Module
    optimizer: Optimizer
    average: Average | None
    device: torch.device

    def own(self, state: Any) -> list[Tensor]:
        """What each process has of its own: the state of its random numbers, and the carried state."""
        return [random_state(self.device), *leaves(state)]

    def pack(self, ranks: Sequence[Sequence[Tensor]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All tensors by name, and the facts of the optimizer; `ranks` is what `own` gave in each process."""
        found, facts = optimizer_tensors(self.optimizer)
        average = {} if self.average is None else self.average.tensors()
        parts = {"model": self.learner.state_dict(), "optimizer": found, "average": average}
        tensors = {f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.items()}
        for rank, (random, *state) in enumerate(ranks):
            tensors[f"random.{rank}"] = random
            tensors |= {f"state.{rank}.{place}": tensor for place, tensor in enumerate(state)}
        return tensors, facts

    def check(self, tensors: Mapping[str, Tensor], state: Any, ranks: int) -> None:
        """Refuse the tensors of another model, and any that `pack` would not have given.

        Args:
            tensors: What a checkpoint holds; the parts of optimizer and average are checked when they are loaded.
            state: The carried state of this process, which is of the same form in all.
            ranks: The number of processes.
        """
        given = forms_of(tensors)
        check_model_forms(forms_of(self.learner.state_dict()), given)
        elsewhere = ("model", "optimizer") if self.average is None else ("model", "optimizer", "average")
        rest = {name: form for name, form in given.items() if name.partition(".")[0] not in elsewhere}
        expected: dict[str, Form] = {}
        for rank in range(ranks):
            expected[f"random.{rank}"] = _random_form(rest.get(f"random.{rank}"))
            expected |= forms_of({f"state.{rank}.{place}": leaf for place, leaf in enumerate(leaves(state))})
        if mismatch := find_mismatch(expected, rest):
            raise DataError(f"the checkpoint does not fit the run: {mismatch}. {REMEDY}.")

    def unpack(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], state: Any, rank: int) -> None:
        """Restore what `pack` gave, in the process `rank`; the carried state is copied into `state`."""
        self.learner.load_state_dict(_part(tensors, "model"))
        load_optimizer(self.optimizer, _part(tensors, "optimizer"), facts)
        if self.average is not None:
            self.average.load(_part(tensors, "average"))
        saved = _part(tensors, f"state.{rank}")
        for place, leaf in enumerate(leaves(state)):
            leaf.copy_(saved[str(place)])
        try:
            set_random_state(tensors[f"random.{rank}"], self.device)
        except RuntimeError as error:
            raise DataError(f"the checkpoint has no state of random numbers: {error}. {REMEDY}.") from error


def check_model_forms(expected: Mapping[str, Form], given: Mapping[str, Form]) -> None:
    """Refuse a checkpoint whose model has other tensors than expected.

    Args:
        expected: What the header of a file with the model would say.
        given: What the header of the checkpoint says.
    """
    if mismatch := find_mismatch(expected, _part(given, "model")):
        raise DataError(f"config.toml does not fit the checkpoint: {mismatch}. {REMEDY}.")


def _random_form(given: Form | None) -> Form:
    """The form of a state of random numbers, that of the CPU alone or with that of a device after it."""
    size = len(torch.get_rng_state())
    longer = given is not None and len(given.shape) == 1 and given.shape[0] > size
    return Form("U8", given.shape if given is not None and longer else (size,))


def _part(tensors: Mapping[str, T], name: str) -> dict[str, T]:
    return {key.removeprefix(name + "."): value for key, value in tensors.items() if key.startswith(name + ".")}
