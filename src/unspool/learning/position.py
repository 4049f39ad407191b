"""Where a run is, in numbers: what a checkpoint keeps beside tensors."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    best: float | None = None
    best_step: int = 0
    advice: str | None = None
