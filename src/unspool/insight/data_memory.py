"""How long a memory the training data of a task needs, in steps: the one place that says so, for plan and for X-ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measures.context import Context
from unspool.insight.measures.dependence import Dependence, measure_autocorrelation, measure_mutual_information
from unspool.insight.measures.number_memory import measure_numbers
from unspool.insight.measures.token_memory import measure_tokens, tells_more
from unspool.insight.probe import probe
from unspool.tasks.contract import TrainingSequences

#: A text is tried as lines if it has so many, of at most so many steps each in the mean.
LINES, LINE = 50, 200
#: A memory that may be longer counts as known from so many steps on: gates are as open then as for an unknown one.
CERTAIN = 64
#: Lags of the pairs by which lines are compared with the whole text.
LAGS = 100


@dataclass(frozen=True, eq=False)
class DataMemory:
    """A memory, and how it is known."""

    steps: int  # as measured, or the longest sequence from which something is predicted; 0 if there is neither
    dependence: Dependence  # of pairs of steps
    context: Context  # what the last steps tell of the next
    longest: int  # the longest sequence from which something is predicted; 0 where nothing is

    @property
    def known(self) -> int | None:
        """The steps, for settings that suit a memory of so many and no more; None where it may well be longer."""
        least = self.context.at_least and self.steps == self.context.memory
        return None if least and self.steps < CERTAIN else self.steps


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
    sides = (_measure(side, sequences, limit) for side in sequences.sides)
    dependence, context = max(sides, key=lambda one: one[1].memory)
    longest = max(map(len, sequences.sides[0])) if sequences.whole is not None else 0
    steps = max(context.memory, longest)
    if sequences.longest is not None:
        steps = min(steps, sequences.longest)
    return DataMemory(steps, dependence, context, longest)


def _measure(
    side: Sequence[NDArray[Any]], sequences: TrainingSequences, limit: int | None
) -> tuple[Dependence, Context]:
    """Of tokens the mutual information and counts of contexts, of numbers the total and the partial autocorrelation."""
    if side[0].ndim == 1:
        return _measure_tokens(side, sequences, limit)
    numbers = [np.asarray(one, np.float64) for one in side]
    pairs = measure_autocorrelation(numbers, limit, detrend=sequences.detrend)
    return pairs, measure_numbers(numbers, detrend=sequences.detrend, limit=limit)


def _measure_tokens(
    side: Sequence[NDArray[Any]], sequences: TrainingSequences, limit: int | None
) -> tuple[Dependence, Context]:
    """Each line by itself, if lines tell nothing of each other."""
    lines = _cut_lines(side, sequences.line_end)
    within = bool(lines) and not tells_more(side, lines, lambda some: measure_mutual_information(some, LAGS))
    parts = lines if within else side
    pairs = measure_mutual_information(parts, limit)
    asked = probe if sequences.whole is None else None  # the memory of a whole sequence is its length anyway
    return pairs, replace(measure_tokens(parts, pairs, limit=limit, probe=asked), lines=within)


def _cut_lines(side: Sequence[NDArray[Any]], line_end: int | None) -> list[NDArray[Any]]:
    """The lines with their ends; none where there are few, or long ones."""
    if line_end is None:
        return []
    lines = [line for one in side for line in np.split(one, np.flatnonzero(one == line_end) + 1) if len(line)]
    steps = sum(map(len, lines))
    return lines if len(lines) >= LINES and steps <= LINE * len(lines) else []
