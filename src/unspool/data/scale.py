"""Scale: columns of numbers with mean 0 and deviation 1, as training data has it, and back to their own units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of each column. A column that does not change is only shifted: its deviation counts as 1."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Of the columns of (rows, columns)."""
        with np.errstate(over="ignore", invalid="ignore"):
            # The deviation of equal numbers is not always 0: their mean is rounded.
            mean, deviation = values.mean(0), np.where(values.max(0) > values.min(0), values.std(0), 0.0)
        if not np.isfinite(mean + deviation).all():
            largest = float(np.abs(values).max())
            raise DataError(f"numbers such as {largest:g} are too large to be averaged. Divide them by a constant.")
        return cls(mean, np.where(deviation > 0, deviation, 1.0))

    def apply(self, values: Floats) -> NDArray[np.float32]:
        """In deviations from the mean; what is beyond float32 becomes infinite."""
        with np.errstate(over="ignore"):
            return ((values - self.mean) / self.deviation).astype(np.float32)

    def undo(self, values: Floats) -> Floats:
        """In the columns' own units."""
        return values * self.deviation + self.mean

    def dump(self) -> dict[str, list[float]]:
        """What `load` needs, as JSON has it."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}

    @classmethod
    def load(cls, document: Mapping[str, Any], columns: int) -> Self:
        """A scale of so many columns from what `dump` gave; a DataError if it is anything else."""
        try:
            mean, deviation = (np.array(document[name], np.float64) for name in ("mean", "deviation"))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"`mean` and `deviation` cannot be read: {error!r}. Take the run's own.") from error
        both = np.stack([mean, deviation]) if mean.shape == deviation.shape == (columns,) else np.empty((2, 0))
        if not both.size or not np.isfinite(both).all() or (deviation <= 0).any():
            raise DataError(f"`mean` and `deviation` are not those of {columns} column(s). Take the run's own.")
        return cls(mean, deviation)
