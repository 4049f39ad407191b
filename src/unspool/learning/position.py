"""Where a run is: in numbers, and in tensors by name; what a checkpoint keeps."""

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
from unspool.learning.faults import find_misfit, leaves
from unspool.learning.optimisers import load_optimiser, optimiser_tensors


@dataclass
class Position:
    """Where a run is, in numbers."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    seconds: float = 0.0
    clipped: int = 0
    loss: float = 0.0  # summed over the units since the last evaluation
    units: int = 0
    training: list[float] = field(default_factory=list)  # at each evaluation
    validation: list[float] = field(default_factory=list)
    evaluated: list[int] = field(default_factory=list)  # at which steps
    best: float | None = None  # of the figure by which the best is chosen; the less the better
    best_loss: float = math.inf  # which decides among equals
    best_step: int = 0
    advice: str | None = None


class Parts(NamedTuple):
    """What a run changes as it goes on: tensors that have names in a checkpoint."""

    learner: nn.Module
    optimiser: Optimizer
    average: Average | None

    def pack(self, ranks: Sequence[Sequence[Tensor]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All tensors by name, and the optimiser's facts; `ranks` are what `own` gave in each process."""
        found, facts = optimiser_tensors(self.optimiser)
        average = {} if self.average is None else self.average.tensors()
        parts = {"model": self.learner.state_dict(), "optimiser": found, "average": average}
        tensors = {f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.items()}
        for rank, (random, *carried) in enumerate(ranks):
            tensors[f"random.{rank}"] = random
            tensors |= {f"carried.{rank}.{place}": tensor for place, tensor in enumerate(carried)}
        return tensors, facts

    def check(self, tensors: Mapping[str, Tensor]) -> None:
        """Refuse what another model gave."""
        if misfit := find_misfit(self.learner, _part(tensors, "model")):
            raise DataError(
                f"config.toml does not fit the checkpoint: {misfit}. Bring back the config.toml that the run was begun "
                "with, or begin a new run."
            )

    def unpack(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], carried: Any, rank: int) -> None:
        """Put what `pack` gave back to where it was, in the process `rank`."""
        self.learner.load_state_dict(_part(tensors, "model"))
        load_optimiser(self.optimiser, _part(tensors, "optimiser"), facts)
        if self.average is not None:
            self.average.load(_part(tensors, "average"))
        kept = _part(tensors, f"carried.{rank}")
        for place, leaf in enumerate(leaves(carried)):
            leaf.copy_(kept[str(place)])
        torch.set_rng_state(tensors[f"random.{rank}"])


def _part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key.removeprefix(name + "."): value for key, value in tensors.items() if key.startswith(name + ".")}


def own(carried: Any) -> list[Tensor]:
    """What each process has of its own: the state of torch's random numbers, and what is carried."""
    return [torch.get_rng_state(), *leaves(carried)]
