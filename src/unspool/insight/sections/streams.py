"""The gradient between layers in the report."""

from __future__ import annotations

from collections.abc import Iterator

from unspool.insight.figures.gradient import draw_streams
from unspool.insight.measure import Measure
from unspool.insight.measures.streams import Streams, measure_streams
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, norm, row, sub
from unspool.language import Message


def tell(found: Streams) -> Section:
    """Which layer's gradient flows to which."""
    return Section(
        "streams",
        "Gradients between layers",
        "Which layer teaches which?",
        "Between layers, gradients flow from the input of a layer to the layers that it reads. Each cell shows how "
        "much reaches one layer (column) directly through another (row). In bidirectional networks, the cells off the "
        "main blocks show how much the two directions teach each other. With skip connections there are several paths; "
        "their number is a Fibonacci number.",
        formula(
            sub("F", "ij"),
            "=",
            norm(row(frac(row("∂", sub("x", "i")), row("∂", sub("h", "j"))), frac("∂L", row("∂", sub("x", "i"))))),
        ),
        lambda: (draw_streams(found),),
        tuple(_findings(found)),
    )


def _findings(found: Streams) -> Iterator[str]:
    yield Message("{paths} path(s) lead from the top layer to the lowest.", paths=found.paths)
    if found.cross is not None:
        turned = "{cross:.0%} of the gradient between layers changes its direction of time."
        yield Message(turned, cross=found.cross)


STREAMS = Measure(
    key="streams",
    measure=lambda specimen: measure_streams(specimen.recording, specimen.gradient),
    tell=tell,
    shows=lambda found: bool(found.flows.any()),  # nothing for a single layer, or two directions side by side
    scalars=(
        Scalar("paths", "gradient paths through the layers", rank=19),
        Scalar("cross", "gradient that turns in time", rank=19),
    ),
)
