"""The sizes that generators take: whole numbers from 1."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from unspool.errors import ArgumentError


def check_sizes(**sizes: Any) -> None:
    """Refuse a size that is not a whole number from 1."""
    for name, value in sizes.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < 1:
            raise ArgumentError.of(name, value, "is not a whole number from 1", f"Give such as {name}=100")
