"""What counts as a number in an argument or a file: True and False do not, although Python's `bool` is an `int`."""

from __future__ import annotations

from typing import TypeGuard


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number, whole or not; NaN and infinity are numbers too."""
    return isinstance(value, int | float) and not isinstance(value, bool)
