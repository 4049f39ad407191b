"""The one rule by which weights become integers of 8 bits: for kernels, for NumPy and for exported C alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: A row whose largest number is below this is zero: its scale would be none that float32 divides by.
TINY = 1e-36


def quantize(values: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix as integers from −127 to 127 and a scale per row.

    Args:
        values: The matrix; it is rounded as float32.

    Returns:
        The integers and the scales; their product is near the matrix.

    Example:
        >>> quantize(np.array([[1.0, -0.5]]))[0].tolist()
        [[127, -64]]
    """
    exact = np.asarray(values, np.float32)
    largest = np.abs(exact).max(1, initial=0.0)
    scales = np.where(largest < TINY, 0, largest / np.float32(127)).astype(np.float32)
    steps = np.where(scales > 0, scales, np.inf)[:, None].astype(np.float64)
    return np.clip(np.rint(exact / steps), -127, 127).astype(np.int8), scales


def round_rows(values: Array) -> NDArray[np.float32]:
    """A matrix as it is after rounding: integers times the scale of their row.

    Example:
        >>> round_rows(np.array([[1.0, 0.001]])).tolist()
        [[1.0, 0.0]]
    """
    numbers, scales = quantize(values)
    return np.asarray(numbers * scales[:, None], np.float32)
