"""How long a memory the training data of a task needs, in steps: the one place that says so, for plan and for X-ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measures.dependence import Dependence, measure_autocorrelation, measure_mutual_information
from unspool.tasks.contract import TrainingSequences


@dataclass(frozen=True, eq=False)
class DataMemory:
    """A memory, and how it is known."""

    steps: int  # as measured, or the longest sequence from which something is predicted; 0 if there is neither
    dependence: Dependence
    longest: int  # the longest sequence from which something is predicted; 0 where nothing is


def measure_memory(sequences: TrainingSequences, limit: int | None = None) -> DataMemory:
    """Measure the memory that sequences need.

    Args:
        sequences: What a task trains on.
        limit: The longest lag between two steps that is measured.

    Returns:
        The memory: at most what a prediction reads, and at least a sequence from which something is predicted.

    Example:
        measure_memory(task.sequences()).steps
    """
    dependence = max((_measure(side, sequences, limit) for side in sequences.sides), key=lambda one: one.memory)
    longest = max(map(len, sequences.sides[0])) if sequences.whole is not None else 0
    steps = max(dependence.memory, longest)
    if sequences.longest is not None:
        steps = min(steps, sequences.longest)
    return DataMemory(steps, dependence, longest)


def _measure(side: Sequence[NDArray[Any]], sequences: TrainingSequences, limit: int | None) -> Dependence:
    """Of tokens the mutual information, of numbers the autocorrelation."""
    if side[0].ndim == 1:
        return measure_mutual_information(side, limit)
    numbers = [np.asarray(one, np.float64) for one in side]
    return measure_autocorrelation(numbers, limit, detrend=sequences.detrend)
