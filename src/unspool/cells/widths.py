"""Widths: names of sizes, alone or several multiplied, as in "heads*head"; a value of width "one" fits any other.

A value of width "key*value" is a matrix, row after row. With more factors, those before the last two count matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The width of a single number per row of a batch.
ONE = "one"
#: The most factors of a width.
MOST_FACTORS = 4


def factors(width: str) -> tuple[str, ...]:
    """The sizes whose product a width is; none for "one".

    Example:
        >>> factors("heads*key*value")
        ('heads', 'key', 'value')
    """
    return () if width == ONE else tuple(width.split("*"))


def join(parts: Sequence[str]) -> str:
    """The width that is the product of these sizes.

    Example:
        >>> join(("heads", "key")), join(())
        ('heads*key', 'one')
    """
    return "*".join(parts) or ONE


def is_prefix(short: str, long: str) -> bool:
    """Whether a value of one width has a number for each part of a value of the other, as rows are parts of a matrix.

    Example:
        >>> is_prefix("heads", "heads*key"), is_prefix("key", "heads*key")
        (True, False)
    """
    first, all_ = factors(short), factors(long)
    return all_[: len(first)] == first


def all_but(width: str, place: int) -> tuple[int, ...]:
    """The places of a width's factors without the one at `place`, which counts from the end if it is negative."""
    count = len(factors(width))
    return tuple(at for at in range(count) if at != place % count)


def at_places(width: str, places: Sequence[int]) -> str:
    """The width of the factors at these places.

    Example:
        >>> at_places("heads*key*value", (0, 2))
        'heads*value'
    """
    parts = factors(width)
    return join([parts[place] for place in places])
