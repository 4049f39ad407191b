"""The state of a run, in numbers and in named tensors: what a checkpoint holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unspool.errors import DataError
from unspool.learning.averaging import Average
from unspool.learning.device import random_state, set_random_state
from unspool.learning.files import find_mismatch
from unspool.learning.optimizer_state import load_optimizer, optimizer_tensors
from unspool.nn.leaves import leaves


@dataclass
class Position:
    """The state of a run in numbers."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    seconds: float = 0.0
    clipped: int = 0  # updates whose gradient was clipped
    loss: float = 0.0  # summed over the units since the last evaluation
    units: int = 0
    training: list[float] = field(default_factory=list)  # mean loss at each evaluation
    validation: list[float] = field(default_factory=list)  # loss at each evaluation
    evaluated: list[int] = field(default_factory=list)  # steps at which it was evaluated
    best: float | None = None  # the metric by which the best model is chosen; less is better
    best_loss: float = math.inf  # which decides among equals
    best_step: int = 0
    advised: list[str] = field(default_factory=list)  # kinds of advice that were given

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

    def check(self, tensors: Mapping[str, Tensor]) -> None:
        """Refuse the tensors of another model."""
        if mismatch := find_mismatch(self.learner, _part(tensors, "model")):
            raise DataError(
                f"config.toml does not fit the checkpoint: {mismatch}. Restore the config.toml that the run was "
                "started with, or start a new run."
            )

    def unpack(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], state: Any, rank: int) -> None:
        """Restore what `pack` gave, in the process `rank`; the carried state is copied into `state`."""
        self.learner.load_state_dict(_part(tensors, "model"))
        load_optimizer(self.optimizer, _part(tensors, "optimizer"), facts)
        if self.average is not None:
            self.average.load(_part(tensors, "average"))
        saved = _part(tensors, f"state.{rank}")
        for place, leaf in enumerate(leaves(state)):
            leaf.copy_(saved[str(place)])
        set_random_state(tensors[f"random.{rank}"], self.device)


def _part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key.removeprefix(name + "."): value for key, value in tensors.items() if key.startswith(name + ".")}
