"""The sizes of inputs in the report."""

from __future__ import annotations

from collections.abc import Iterator

from unspool.insight.figures.hidden_units import draw_inputs
from unspool.insight.measure import Measure
from unspool.insight.measures.inputs import Inputs, measure_inputs
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, sub
from unspool.language import Message, listed


def tell(found: Inputs) -> Section:
    """How large the numbers are that the lowest layers read."""
    return Section(
        "input_sizes",
        "What the network reads",
        "Are the inputs of a size that the network can use?",
        "Initial weights are drawn for inputs of a size near 1. Much larger inputs drive gates and units to their "
        "limits, where no gradient passes; much smaller ones are not noticed. Sizes are root mean squares over steps "
        "and sequences.",
        formula("a = W", sub("x", "t"), "+ U", sub("h", "t-1"), "+ b"),
        lambda: (draw_inputs(found),) if any(len(sizes) > 1 for sizes in found.sizes) else (),
        tuple(_findings(found)),
    )


def _findings(found: Inputs) -> Iterator[str]:
    for number, labels in found.shared().items():
        known: dict[str, str | float] = {"label": listed(labels), "largest": float(found.largest[number])}
        if len(found.sizes[number]) == 1:
            yield Message("{label} reads a single feature, of the size {largest:.3g}.", **known)
            continue
        yield Message(
            "{label}: the largest feature has a size of {largest:.3g}, all together {norm:.3g} per step; features vary "
            "by up to {unequal:.3g} times as much as others.",
            norm=float(found.norm[number]),
            unequal=float(found.unequal[number]),
            **known,
        )


INPUTS = Measure(
    key="input_sizes",
    measure=lambda specimen: measure_inputs(specimen.recording),
    tell=tell,
    shows=lambda found: bool(found.labels),  # an embedding is learned, so its size is not the data's
    scalars=(
        Scalar("largest", "size of the largest input feature", rank=30),
        Scalar("norm", "size of the input per step", rank=30),
        Scalar("unequal", "ratio of the variation of features", rank=30),
    ),
    timeline="measured",
)
