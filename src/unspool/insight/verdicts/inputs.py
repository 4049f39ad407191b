"""The rule about the size of inputs, a cause of much that other rules find."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unspool.insight.measures.inputs import Inputs
from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case
from unspool.language import Message

#: A feature of this size drives gates and units to their limits, and a whole input of this size is not noticed.
LARGE, SMALL = 10.0, 0.05
#: Beside a feature that varies this many times as much, another is not noticed.
UNEQUAL = 300.0


def scaled(case: Case) -> Verdict | None:
    """Inputs that are far larger or smaller than initial weights are made for, or unlike each other."""
    found = case.found.get(Inputs)
    if found is None or not found.labels:
        return None
    evidence = next(_find_misfits(found), None)
    if evidence is None:
        return None
    remedy = (
        "Scale the data before the model reads it: subtract the mean of each feature and divide by its standard "
        "deviation, both of the training data."
    )
    return Verdict("scaled", "warning", "Inputs are badly scaled", evidence, remedy, {}, "input_sizes")


def _find_misfits(found: Inputs) -> Iterator[Message]:
    """What is wrong with the sizes, the worst kind first; each names the layer where it is worst."""
    largest = int(np.nanargmax(found.largest))
    if found.largest[largest] > LARGE:
        yield Message(
            "{label} reads a feature whose size (root mean square) is {size:.3g}. Weights are made for sizes near 1: "
            "larger ones drive gates and units to their limits.",
            label=found.labels[largest],
            size=float(found.largest[largest]),
        )
    least = int(np.nanargmin(found.norm))
    if 0 < found.norm[least] < SMALL:
        yield Message(
            "{label} reads inputs whose size (root mean square of all features together) is {size:.2g}. Weights are "
            "made for sizes near 1: smaller ones are not noticed.",
            label=found.labels[least],
            size=float(found.norm[least]),
        )
    unlike = int(np.nanargmax(found.unequal))
    if found.unequal[unlike] > UNEQUAL:
        yield Message(
            "{label} reads features of which one varies {times:.3g} times as much as another, which is not noticed "
            "beside it.",
            label=found.labels[unlike],
            times=float(found.unequal[unlike]),
        )
