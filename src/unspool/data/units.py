"""Units of sequences in words: 1 step, 2 steps."""

from __future__ import annotations

#: Units that people count in; tokens of any other kind are called tokens.
COMMON = ("characters", "bytes", "words", "steps")


def common_unit(unit: str) -> str:
    """A unit that every reader knows: "words" for words, "tokens" for byte pairs or atoms."""
    return unit if unit in COMMON else "tokens"


def count_units(number: int, unit: str) -> str:
    """A number with its unit, which is given in the plural.

    Example:
        count_units(1, "steps"), count_units(1200, "words")  # "1 step", "1,200 words"
    """
    return f"{number:,} {unit.removesuffix('s') if number == 1 else unit}"
