"""States of models as decoding sees them: any nesting of arrays, or of tensors, whose first axis is the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def take_rows(state: Any, rows: Rows) -> Any:
    """The given rows of every array of a nested state, in that order.

    Args:
        state: Tuples (named ones too), lists and dicts of arrays or tensors; anything else stays as it is.
        rows: Places in the batch.

    Returns:
        The same nesting.

    Example:
        >>> take_rows((h, [c, None]), np.array([2, 0]))  # the third sequence of the batch, then the first
    """
    if isinstance(state, dict):
        return {key: take_rows(part, rows) for key, part in state.items()}
    if isinstance(state, tuple | list):
        parts = [take_rows(part, rows) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    return state[rows] if hasattr(state, "shape") else state
