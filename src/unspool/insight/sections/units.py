"""Single units in the report: which ones the loss needs, and what these do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unspool.insight.figures.units import draw_ablation, draw_unit_course, draw_unit_text
from unspool.insight.measure import Measure
from unspool.insight.measures.ablation import Ablation, measure_ablation
from unspool.insight.measures.units import Unit, measure_unit
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, sub
from unspool.insight.specimen import Specimen
from unspool.language import Message

#: Units that are shown one by one.
SHOWN = 3
#: Seconds that the runs without one unit may take: so many, and one more for so many units; at most so many.
SECONDS, UNITS_PER_SECOND, MOST_SECONDS = 1.0, 512, 4.0
#: Tokens that explain less of a unit's variance do not tell what it does.
EXPLAINS = 0.1


@dataclass(frozen=True, eq=False)
class SingleUnits:
    """What the loss loses without each unit, and the units that it needs most."""

    ablation: Ablation
    needed: tuple[Unit, ...]
    lost: tuple[float, ...]  # without each of these


def measure(specimen: Specimen) -> SingleUnits:
    """Ablation for as many units as the time allows, and the course of the three that matter most."""
    every = sum(layer.output.shape[-1] for layer in specimen.recording.layers)
    seconds = min(MOST_SECONDS, SECONDS + every / UNITS_PER_SECOND)
    found = measure_ablation(specimen.recording, specimen.gradient, seconds=seconds)
    places = [
        (float(lost), layer, unit)
        for layer, one in enumerate(found.layers)
        for unit, lost in enumerate(one.lost)
        if np.isfinite(lost)
    ]
    best = sorted(places, key=lambda place: -abs(place[0]))[:SHOWN]
    units = tuple(measure_unit(specimen.recording, layer, unit, _tokens(specimen, layer)) for _, layer, unit in best)
    return SingleUnits(found, units, tuple(lost for lost, _, _ in best))


def _tokens(specimen: Specimen, layer: int) -> list[list[str]] | None:
    """The tokens, for layers that run over their steps."""
    live = specimen.recording.layers[layer].live
    if specimen.tokens is None or len(specimen.tokens) != len(live):
        return None
    return [list(step) for step in specimen.tokens]


def tell(found: SingleUnits) -> Section:
    """Which units the loss needs, and what they do."""
    return Section(
        "units",
        "One unit at a time",
        "Which units does the network need, and what do they do?",
        "Each unit is held at zero at every step, for its own layer and for everything that reads it, and the loss is "
        "computed again. A large change is a unit that the model needs. Many small ones mean that the work is shared, "
        "so that no unit has a meaning of its own. The units that matter most are shown over the data, with their "
        "gates. `measure_unit` shows any other.",
        formula(sub("Δ", "u"), "= L(", sub("h", "u"), "= 0) - L"),
        lambda: tuple(_draw(found)),
        tuple(_findings(found)),
    )


def _draw(found: SingleUnits) -> Iterator[object]:
    yield draw_ablation(found.ablation)
    for unit in found.needed:
        if unit.tokens:
            yield draw_unit_text(unit)
        yield draw_unit_course(unit)


def _findings(found: SingleUnits) -> Iterator[str]:
    ablation = found.ablation
    if ablation.ablated < ablation.units:
        yield Message(
            "{ablated} of {units} units were left out one by one in the time given, those that the gradient depends on "
            "most; the others were not.",
            ablated=ablation.ablated,
            units=ablation.units,
        )
    for unit, lost in zip(found.needed, found.lost, strict=True):
        yield Message(
            "{label}, unit {unit}: without it the loss changes from {loss:.4g} to {without:.4g}{does}.",
            label=unit.label,
            unit=unit.unit,
            loss=ablation.loss,
            without=ablation.loss + lost,
            does=_describe(unit),
        )


def _describe(unit: Unit) -> str:
    if unit.highest and unit.explained < EXPLAINS:
        return Message("; the token that was just read explains only {part:.0%} of its variance", part=unit.explained)
    if unit.highest:
        return Message(
            "; it is highest after {highest} and lowest after {lowest}, and the token explains {part:.0%} of its "
            "variance",
            highest=", ".join(repr(token)[:24] for token in unit.highest[:3]),
            lowest=", ".join(repr(token)[:24] for token in unit.lowest[:3]),
            part=unit.explained,
        )
    if unit.follows >= 0:
        return Message(
            "; it follows input {number} of its layer after {lag} step(s), with a correlation of {correlation:.2f}",
            number=unit.follows,
            lag=unit.lag,
            correlation=unit.correlation,
        )
    return ""


UNITS = Measure(
    key="units",
    measure=measure,
    tell=tell,
    shows=lambda found: found.ablation.ablated > 0,
    scalars=(Scalar("ablation", None),),
    weight=4,
)
