"""Rules about units: dead, saturated, frozen, few directions in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unspool.insight.measures.activation import Activations, Activity
from unspool.insight.measures.participation import Participation
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.memory import latched
from unspool.insight.verdicts.rules import Case, percent
from unspool.language import Message, words

#: Fraction of relu units that are zero at every step, above which they are missed.
DEAD = 0.25
#: Fraction of a tanh's values that are so near ±1 that no gradient passes.
SATURATED = 0.5
#: The same of tanh(c) in a gated cell: trained cells that work hold many values near their limits, and gates let go.
SATURATED_STATE = 0.7
#: Fraction of units that do not move, above which a state is frozen.
STILL = 0.9
#: Directions of the state that are used, as a fraction of the units.
FEW = 0.05
#: Below this number of units a small fraction means nothing.
ENOUGH_UNITS = 32


def dead(case: Case) -> Verdict | None:
    """Relu units that never fire."""
    found = case.found.get(Activations)
    known = [one for one in found.values if one.function == "relu"] if found is not None else []
    worst = max(known, key=lambda one: one.dead, default=None)
    if worst is None or not worst.dead > DEAD:
        return None
    evidence = Message(
        "In {label}, {part} of the units of {name} are zero at every step of the data. No gradient passes through "
        "them, so training cannot bring them back.",
        label=worst.label,
        part=percent(worst.dead),
        name=worst.name,
    )
    remedy = (
        'Train again with a cell whose units cannot die: `cell="elman"` (tanh) or `cell="lstm"`. If it must be relu, '
        'use `init="orthogonal"` and a lower `lr`.'
    )
    return Verdict("dead", "fault", "Units are dead", evidence, remedy, {"cell": "elman"}, "activations")


def saturated(case: Case) -> Verdict | None:
    """Tanh values at their limits most of the time, unless they are a latch.

    In a cell whose gates carry the state only a tanh of the state itself counts, as tanh(c) of an LSTM: behind it
    everything that the gates do is lost. A candidate value at its limits does no harm there.
    """
    found = case.found.get(Activations)
    limits = {one: _limit(case, one) for one in _judged(case, found)} if found is not None else {}
    worst = max(limits, key=lambda one: one.saturated / limits[one], default=None)
    if worst is None or not worst.saturated > limits[worst]:
        return None
    evidence = Message(
        "In {label}, {part} of the values of {name} are beyond ±0.97, where the slope of tanh is below 0.06. Almost no "
        "gradient passes.",
        label=worst.label,
        part=percent(worst.saturated),
        name=worst.name,
    )
    title, section = "Units are saturated", "activations"
    if _layer(case, worst.label).cell.keeps:
        remedy = (
            "Let the cell forget what it has added up: `forget_bias=1.0`. Lower `lr`, and scale inputs whose size is "
        )
        remedy += "far from 1."
        return Verdict("saturated", "warning", title, evidence, words(remedy), {"forget_bias": 1.0}, section)
    remedy = (
        'Lower `lr`, or start from smaller weights with `init="orthogonal"`. Scale inputs whose size is far from 1.'
    )
    settings = {"init": "orthogonal"}
    return latched(case, evidence) or Verdict("saturated", "warning", title, evidence, remedy, settings, section)


def _judged(case: Case, found: Activations) -> Iterator[Activity]:
    """The tanh functions whose limits stop gradients."""
    for one in found.values:
        layer = _layer(case, one.label)
        if one.function == "tanh" and (
            not layer.cell.keeps or one.name in {f"tanh({state})" for state in layer.widths}
        ):
            yield one


def _limit(case: Case, one: Activity) -> float:
    """The fraction of values at their limits above which a tanh is saturated."""
    return SATURATED_STATE if _layer(case, one.label).cell.keeps else SATURATED


def _layer(case: Case, label: str) -> RecordedLayer:
    return next(layer for layer in case.specimen.recording.layers if layer.label == label)


def frozen(case: Case) -> Verdict | None:
    """A state that does not move although the input does."""
    found = case.found.get(Participation)
    if found is None or not np.isfinite(found.still).any():
        return None
    worst = int(np.nanargmax(found.still))
    if not found.still[worst] > STILL:
        return None
    evidence = Message(
        "In {label}, {part} of the units do not follow the input: with different inputs they differ by less than a "
        "thousandth of their size.",
        label=found.labels[worst],
        part=percent(float(found.still[worst])),
    )
    remedy = 'Start from other weights: `init="orthogonal"`. Look for inputs and weights of sizes far from 1.'
    settings = {"init": "orthogonal"}
    return Verdict("frozen", "fault", "The state is frozen", evidence, remedy, settings, "participation")


def idle(case: Case) -> Verdict | None:
    """A state that moves in few directions."""
    found = case.found.get(Participation)
    if found is None:
        return None
    for label, ratio, size in zip(found.labels, found.ratio, found.size, strict=True):
        if size >= ENOUGH_UNITS and ratio < FEW * size:
            smaller = int(max(16, size // 2))
            moves = "The {size} units of {label} move in about {ratio:.1f} directions on this data."
            evidence = Message(moves, size=int(size), label=label, ratio=float(ratio))
            remedy = Message(
                "Try `hidden={smaller}`: a smaller layer is faster and may do as well. Or the data is simpler than "
                "expected.",
                smaller=smaller,
            )
            title = "Few directions are used"
            return Verdict("idle", "note", title, evidence, remedy, {"hidden": smaller}, "participation")
    return None
