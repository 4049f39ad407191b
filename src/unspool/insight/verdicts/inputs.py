"""The rule about the size of inputs, a cause of much that other rules find."""

from __future__ import annotations

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
    evidence = _too_large(found) or _too_small(found) or _unequal(found)
    if evidence is None:
        return None
    remedy = (
        "Scale the data before the model reads it: subtract the mean of each feature and divide by its standard "
        "deviation, both of the training data."
    )
    return Verdict("scaled", "warning", "Inputs are badly scaled", evidence, remedy, {}, "input_sizes")


def _too_large(found: Inputs) -> Message | None:
    worst = int(np.nanargmax(found.largest))
    if not found.largest[worst] > LARGE:
        return None
    return Message(
        "{label} reads a feature whose size (root mean square) is {size:.3g}. Weights are made for sizes near 1: "
        "larger ones drive gates and units to their limits.",
        label=found.labels[worst],
        size=float(found.largest[worst]),
    )


def _too_small(found: Inputs) -> Message | None:
    worst = int(np.nanargmin(found.norm))
    if not 0 < found.norm[worst] < SMALL:
        return None
    return Message(
        "{label} reads inputs whose size (root mean square of all features together) is {size:.2g}. Weights are made "
        "for sizes near 1: smaller ones are not noticed.",
        label=found.labels[worst],
        size=float(found.norm[worst]),
    )


def _unequal(found: Inputs) -> Message | None:
    worst = int(np.nanargmax(found.unequal))
    if not found.unequal[worst] > UNEQUAL:
        return None
    return Message(
        "{label} reads features of which one varies {times:.3g} times as much as another, which is not noticed beside "
        "it.",
        label=found.labels[worst],
        times=float(found.unequal[worst]),
    )
