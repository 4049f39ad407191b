"""Gradient flow in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.gradient import draw_gradient_map, draw_survival
from unspool.insight.measure import Measure
from unspool.insight.measures.flow import HORIZON, GradientFlow, measure_flow
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, product, row, sub
from unspool.language import Message, at_least

#: Lags at most: what is left of a gradient after more steps cannot be seen.
LAGS = 128


def tell(flow: GradientFlow) -> Section:
    """How far back gradients reach."""
    return Section(
        "flow",
        "Where gradients die",
        "How far back can this network learn?",
        "A weight learns from a step only if the gradient of the loss reaches that step. The curve shows which "
        "fraction of a gradient is left k steps before the loss. A straight falling line is a gradient that vanishes "
        "by the same factor per step; a rising line is a gradient that explodes. The horizon is the lag at which 1 % "
        "is left: the network hardly learns from what lies further back. The map shows the size of the gradient at "
        "every step of every layer. (s are all states of a layer: h, and in an LSTM also c.)",
        formula(
            frac(row("∂", "L"), row("∂", sub("s", "t-k"))),
            "=",
            frac(row("∂", "L"), row("∂", sub("s", "t"))),
            product("j<k"),
            frac(row("∂", sub("s", "t-j")), row("∂", sub("s", "t-j-1"))),
        ),
        lambda: (draw_survival(flow), draw_gradient_map(flow)),
        tuple(_findings(flow)),
    )


def _findings(flow: GradientFlow) -> list[str]:
    found: list[str] = []
    for place, label in enumerate(flow.labels):
        if not np.isfinite(flow.survival[place]).any():
            unknown = "{label}: the loss reaches it only through another layer's starting state; no lag is known."
            found.append(Message(unknown, label=label))
            continue
        found.append(_reach(flow, place))
    return found


def _reach(flow: GradientFlow, place: int) -> Message:
    rate = float(flow.rate[place])
    return Message(
        "{label}: above {part:.0%} for {least}{horizon} steps back{rate}.",
        label=flow.labels[place],
        part=HORIZON,
        least=at_least(flow.censored[place]),
        horizon=int(flow.horizon[place]),
        rate=Message(", a factor of {rate:.3g} per step", rate=rate) if np.isfinite(rate) else "",
    )


FLOW = Measure(
    key="flow",
    measure=lambda specimen: measure_flow(specimen.recording, specimen.gradient, LAGS),
    tell=tell,
    scalars=(
        Scalar("horizon", "gradient horizon (steps)", rank=0, bound="censored"),
        Scalar("rate", "gradient kept per step", rank=10),
    ),
    timeline="shown",
)
