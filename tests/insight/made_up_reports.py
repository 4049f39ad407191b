"""Reports that never were: an ordinary one, and one in which every text that can come from data is hostile."""

from __future__ import annotations

import numpy as np
from plotly.graph_objects import Bar, Figure, Heatmap, Scatter

from unspool.insight.report.advice import Retrain
from unspool.insight.report.contract import Section, Verdict
from unspool.insight.report.report import Report
from unspool.insight.report.scalars import Scalar

EQUATION = (
    '<math display="block"><mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo><msub><mi>h</mi><mi>t</mi></msub>'
    "</mrow></mfrac><mo>=</mo><msup><mi>J</mi><mi>⊤</mi></msup><mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo>"
    "<msub><mi>h</mi><mrow><mi>t</mi><mo>+</mo><mn>1</mn></mrow></msub></mrow></mfrac></math>"
)
HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=1</script><!--",
    "\"'><svg onload=window.pwned=1>",
    "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1} \\u003cscript>",
    "🦜🏳️‍🌈 emoji",
    "\u202egnirts desrever\u200f\u2067",
    "\0\x1b[31m\ud800",
    "x" * 10_000,
)


def draw_curve(title: str, factor: float = 0.8) -> Figure:
    """A falling curve on a logarithmic axis."""
    lags = np.arange(40)
    figure = Figure(
        [Scatter(x=lags, y=factor**lags, name="layer 1", hovertemplate="lag %{x}: %{y:.3g}<extra></extra>")]
    )
    figure.add_trace(Scatter(x=lags, y=0.5 * factor**lags, name="layer 2", line_dash="dash"))
    figure.update_layout(title=title, xaxis_title="Steps back", yaxis_title="Fraction left", yaxis_type="log")
    return figure


def draw_map(title: str) -> Figure:
    """A heat map."""
    values = np.outer(np.linspace(0, 1, 12), np.sin(np.linspace(0, 9, 80)))
    figure = Figure(Heatmap(z=values, colorscale="Cividis", colorbar_title="log₁₀"))
    return figure.update_layout(title=title, xaxis_title="Time step", yaxis_title="Layer", height=320)


def make_report(name: str = "hamlet", factor: float = 0.8) -> Report:
    """An ordinary report."""
    return Report(
        title=name,
        subtitle="Two layers of LSTM with 128 units each, after 1,000 steps",
        facts=(
            ("Model", "2 × LSTM of 128"),
            ("Parameters", "214,272"),
            ("Data", "hamlet.txt, 180,000 characters"),
            ("Batch", "16 sequences of 200 steps"),
            ("Taken", "after step 1,000"),
        ),
        verdicts=(
            Verdict(
                "vanishing",
                "fault",
                "Gradients die within 9 steps",
                "Of the gradient's norm, 1 % is left after 9 steps in layer 1; the data's dependence reaches back 60.",
                "Let the forget gate begin open, so that the state is kept for longer.",
                {"forget_bias": 2.0},
                "flow",
            ),
            Verdict(
                "truncated",
                "warning",
                "The training window is too short",
                "A window of 20 steps loses 14 % of the gradient.",
                "Train with a window of 80 steps.",
                {"bptt": 80},
                "truncation",
            ),
            Verdict("units", "note", "A third of the units does nothing", "41 of 128 stay constant.", "Try 96 units."),
            Verdict("stable", "good", "No state explodes", "The largest Lyapunov exponent is −0.12 per step.", ""),
        ),
        sections=(
            Section(
                "flow",
                "Gradient flow",
                "How far back does the loss reach?",
                "The loss at one step changes the weights through every earlier step. Each step backwards multiplies "
                "the gradient by the step's Jacobian; where its singular values are below one, what comes from far "
                "away shrinks geometrically.\n\n"
                "A straight line on this logarithmic axis is a constant factor per step.",
                EQUATION,
                lambda: (
                    draw_curve("What is left of the gradient, by lag", factor),
                    draw_map("Gradient norm over time"),
                ),
                ("In layer 1, each step back keeps 60 % of the gradient.", "The horizon is 9 steps."),
            ),
            Section(
                "truncation",
                "Truncation",
                "How much does a short window lose?",
                "Truncated backpropagation cuts every path longer than the window.",
                "",
                lambda: (draw_curve("Lost by the window", 0.9),),
                ("A window of 80 steps keeps 99 %.",),
            ),
            Section(
                "units",
                "Units in use",
                "How many of the units carry anything?",
                "Each bar is the fraction of the variance of one unit.",
                "",
                lambda: (
                    Figure(Bar(x=list("abcdef"), y=[6, 5, 4, 2, 1, 1])).update_layout(title="Fraction of variance"),
                ),
            ),
        ),
        missing=("Surprise per token: the run's data are not here.",),
        numbers={
            "loss": 1.25 + factor,
            "flow": {
                "labels": ["layer 1", "layer 2"],
                "rate": [factor, 0.9],
                "horizon": [9, 40],
                "norms": [[1.0, None]],
            },
            "depth": {"optimum": "inf"},
        },
        scalars=(
            Scalar("flow · horizon", "gradient horizon (steps)", rank=0),
            Scalar("flow · rate", "gradient kept per step", rank=10),
        ),
        retrain=Retrain.of("runs/hamlet"),
    )


def make_hostile() -> Report:
    """A report in which every text that can come from data is hostile."""
    everything = " ".join(HOSTILE)
    figure = Figure(Scatter(x=list(HOSTILE[:4]), y=[1, 3, 2, 4], name=HOSTILE[0], text=list(HOSTILE[:4])))
    figure.update_layout(title=HOSTILE[1])
    return Report(
        title=HOSTILE[0],
        subtitle=HOSTILE[1],
        facts=tuple((text, text) for text in HOSTILE),
        verdicts=tuple(Verdict("key", "note", text, everything, text, {"cell": text}, "tokens") for text in HOSTILE),
        sections=(Section("tokens", HOSTILE[2], HOSTILE[3], everything, HOSTILE[0], lambda: (figure,), HOSTILE),),
        missing=HOSTILE,
        numbers={HOSTILE[0]: list(HOSTILE[:5]), HOSTILE[2]: 3.0, "labels": list(HOSTILE[:2]), "x": [1.0, 2.0]},
        scalars=(Scalar(HOSTILE[2], HOSTILE[3], rank=0),),
        retrain=Retrain(HOSTILE[0], HOSTILE[1]),
    )
