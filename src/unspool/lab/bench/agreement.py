"""Correctness before timing: contestants that compute different things are not compared."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unspool.errors import UnspoolError
from unspool.lab.bench.cases import Array
from unspool.lab.bench.contestants.contestant import Contestant

#: The largest difference allowed, in parts of the largest value: float32 sums of up to 50,000 terms, in any order.
OUTPUT, GRADIENT = 2e-5, 1e-3


class DisagreementError(UnspoolError):
    """Two contestants give different values for the same case."""


def check_agreement(case: object, contestants: Mapping[str, Contestant]) -> None:
    """Refuse the case unless all outputs and all gradients are those of the first contestant."""
    (reference, first), *others = contestants.items()
    output = first.output(first.infer())
    gradients = first.gradients(first.train()) if first.train else []
    for name, other in others:
        compare(case, "output", reference, output, name, other.output(other.infer()), OUTPUT)
        if first.train and other.train:
            found = other.gradients(other.train())
            for number, (mine, theirs) in enumerate(zip(gradients, found, strict=True)):
                compare(case, f"gradient {number}", reference, mine, name, theirs, GRADIENT)


def compare(case: object, what: str, name: str, mine: Array, other: str, theirs: Array, tolerance: float) -> None:
    """Refuse two arrays that differ by more than `tolerance` of the largest value."""
    if mine.shape != theirs.shape:
        raise DisagreementError(
            f"{case}: the {what} is {mine.shape} by {name}, {theirs.shape} by {other}; nothing is timed."
        )
    size = max(float(np.abs(mine).max()), 1e-30)
    difference = float(np.abs(mine - theirs).max()) / size
    if not difference <= tolerance:  # NaN is a difference too
        raise DisagreementError(
            f"{case}: the {what} differs between {name} and {other} by {difference:.1e} of its largest value, more "
            f"than {tolerance:.0e}; nothing is timed."
        )
