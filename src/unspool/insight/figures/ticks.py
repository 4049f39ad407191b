"""Ticks of logarithmic axes: as many as can be read, at round numbers, and never fewer than two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

#: Decimal logarithms nearer than this have the same digits.
ALIKE = 1e-3
#: Fewest ticks from which a reader can tell the scale.
FEWEST = 3
#: Factors within a decade, from dense to sparse.
FACTORS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))


def find_ends(logs: ArrayLike) -> tuple[float, float] | None:
    """The smallest and the largest logarithm; the powers of ten around them if they are nearly equal."""
    array = np.asarray(logs, dtype=np.float64)
    finite = array[np.isfinite(array)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    around = float(np.floor(low))
    return (low, high) if high - low > ALIKE else (around, around + 1)


def choose_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Logarithms of round numbers between two logarithms: whole decades, parts of a decade, or equal steps."""
    decades = np.arange(np.ceil(low), np.floor(high) + 1)
    if len(decades) > FEWEST or len(decades) >= most:
        stride = -(-(len(decades) - 1) // (most - 1))
        return [float(tick) for tick in decades if tick % stride == 0]  # so that 1 is a tick where it can be
    for factors in FACTORS:
        ticks = [
            float(decade + np.log10(factor))
            for decade in np.arange(np.floor(low), np.floor(high) + 1)
            for factor in factors
            if low - ALIKE <= decade + np.log10(factor) <= high + ALIKE
        ]
        if FEWEST <= len(ticks) <= most + 1:
            return ticks
    steps = _equal_steps(low, high)
    return steps if len(steps) >= 2 else [low, high]


def _equal_steps(low: float, high: float) -> list[float]:
    """Logarithms of equally spaced round numbers, as few as tell the scale; none if the ends are too far apart."""
    if high - low > 1.5:
        return []
    first, last = 10**low, 10**high
    size = 10 ** np.floor(np.log10(last - first))
    for step in (size * factor for factor in (5, 2.5, 2, 1, 0.5, 0.25, 0.2)):
        numbers = range(int(np.ceil(first / step - ALIKE)), int(np.floor(last / step + ALIKE)) + 1)
        if len(numbers) >= FEWEST:
            return [float(np.log10(step * number)) for number in numbers if number]
    return []


def powers(logs: ArrayLike, most: int = 6) -> dict[str, Any]:
    """Ticks for an axis or color bar that shows logarithms."""
    ends = find_ends(logs)
    if ends is None:
        return {}
    ticks = choose_ticks(*ends, most)
    return {"tickvals": ticks, "ticktext": name_ticks(ticks)}


def log_ticks(low: float, high: float, most: int = 6) -> dict[str, Any]:
    """Ticks for an axis of type "log" between two logarithms; it takes the numbers themselves."""
    ticks = choose_ticks(low, high, most)
    return {"tickvals": [float(f"{10**tick:.6g}") for tick in ticks], "ticktext": name_ticks(ticks)}


def name_ticks(logs: Sequence[float]) -> list[str]:
    """The numbers, with as many digits as it takes to tell them apart, up to four."""
    names = [[_antilogarithm(log, digits) for log in logs] for digits in (2, 3, 4)]
    return next((some for some in names if len(set(some)) == len(some)), names[-1])


def _antilogarithm(log: float, digits: int) -> str:
    if -3 <= log < 4:
        return f"{float(f'{10**log:.{digits}g}'):g}"
    if abs(log - round(log)) < ALIKE:
        return f"10<sup>{round(log)}</sup>"
    factor, exponent = f"{10**log:.{digits - 1}e}".split("e")
    return f"{float(factor):g}·10<sup>{int(exponent)}</sup>"
