"""Scale: columns of numbers standardized to mean 0 and standard deviation 1 over training data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.errors import DataError, ShapeError

Floats = NDArray[np.float64]
#: Numbers below this have squares that are finite, and so have their sums.
LARGEST = 1e150


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of each column. A constant column is only shifted: its deviation counts as 1.

    Example:
        scale = Scale.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
        scale.standardize(np.array([[3.0, 6.0]]))  # [[1.0, 1.0]]
    """

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, values: Floats, name: str = "") -> Self:
        """The scale of the columns of (rows, columns); `name` says in an error message whose they are."""
        with np.errstate(over="ignore", invalid="ignore"):
            # The deviation of equal numbers is not always 0: their mean is rounded.
            mean, deviation = values.mean(0), np.where(values.max(0) > values.min(0), _deviations(values), 0.0)
        if not np.isfinite(mean + deviation).all():
            whose = f"{name}: " if name else ""
            largest = float(np.abs(values).max())
            raise DataError(
                f"{whose}numbers such as {largest:g} are too large to be averaged. Divide them by a constant."
            )
        return cls(mean, np.where(deviation > 0, deviation, 1.0))

    def standardize(self, values: Floats, columns: slice = slice(None)) -> Floats:
        """Values in deviations from the mean; `columns` are those of the scale that the values are."""
        return (values - self.mean[columns]) / self.deviation[columns]

    def apply(self, values: Floats) -> NDArray[np.float32]:
        """Standardized values as a model reads them; what is beyond float32 becomes infinite."""
        with np.errstate(over="ignore"):
            return self.standardize(values).astype(np.float32)

    def undo(self, values: ArrayLike) -> Floats:
        """Standardized values (…, columns) in their own units; the first columns of the scale are enough."""
        array = np.asarray(values, np.float64)
        if array.ndim == 0 or array.shape[-1] > len(self.mean):
            problem = f"does not have {len(self.mean)} columns at most along its last axis"
            raise ShapeError.of("values", array.shape, problem, "Give the scaled columns")
        width = array.shape[-1]
        return array * self.deviation[:width] + self.mean[:width]

    def dump(self) -> dict[str, list[float]]:
        """What `load` needs, as JSON has it."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}

    @classmethod
    def load(cls, document: Mapping[str, Any], columns: int | None = None) -> Self:
        """A scale from what `dump` gave; a DataError if it is anything else, or not of this many columns."""
        try:
            mean, deviation = (np.array(document[name], np.float64) for name in ("mean", "deviation"))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"`mean` and `deviation` cannot be read: {error!r}. Take the run's own.") from error
        count = len(mean) if columns is None and mean.ndim == 1 else columns
        if not _are_pairs(mean, deviation, count):
            of = "numbers in pairs" if columns is None else f"those of {columns} column(s)"
            raise DataError(f"`mean` and `deviation` are not {of}. Take the run's own.")
        return cls(mean, deviation)


def _are_pairs(mean: NDArray[np.float64], deviation: NDArray[np.float64], count: int | None) -> bool:
    """Whether there are so many means and deviations, one at least, all finite and no deviation zero or below."""
    if not mean.shape == deviation.shape == (count,) or not mean.size:
        return False
    return bool(np.isfinite(mean).all() and np.isfinite(deviation).all() and (deviation > 0).all())


def _deviations(values: Floats) -> Floats:
    """The standard deviation of each column, also of tiny numbers, whose squares would be 0."""
    exponents = np.minimum(np.frexp(np.abs(values).max(0))[1], 0)
    found: Floats = np.ldexp(np.ldexp(values, -exponents).std(0), exponents)
    return found
