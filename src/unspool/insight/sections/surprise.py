"""Surprise in the report."""

from __future__ import annotations

from dataclasses import replace

from unspool.insight.figures.text import draw_surprise, draw_surprise_by_position
from unspool.insight.measure import Measure
from unspool.insight.measures.surprise import Surprise, measure_surprise
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, row, sub
from unspool.insight.specimen import Specimen
from unspool.language import Message


def applies(specimen: Specimen) -> bool:
    """For models that predict tokens."""
    return specimen.tokens is not None and specimen.surprise is not None


def measure(specimen: Specimen) -> Surprise:
    """The surprise of the tokens within their sequences.

    At each step the model predicts the token of the next one, so the surprise of step t belongs to token t + 1. The
    last prediction has no token here; it counts in the means.
    """
    assert specimen.surprise is not None
    live = specimen.recording.layers[-1].live.numpy()
    whole = measure_surprise(specimen.text, specimen.surprise, live)
    shown = measure_surprise(specimen.text[1:], specimen.surprise[:-1], live[1:])
    return replace(whole, tokens=shown.tokens, nats=shown.nats, worst=shown.worst)


def tell(found: Surprise) -> Section:
    """Which tokens the model did not expect."""
    worst = ", ".join(dict.fromkeys(repr(found.tokens[place])[:40] for place in found.worst))
    return Section(
        "surprise",
        "Surprise of each token",
        "Where in the text is the model wrong?",
        "The darker a token, the higher its surprise: minus the logarithm of the probability that the model gave it. "
        "Zero is a certain prediction. The curve shows the mean by position in the sequence. It falls while the model "
        "gathers context, and is flat where more context does not help.",
        formula("surprise = -ln p(", sub("x", "t+1"), "|", row(sub("x", "1"), ", …,"), sub("x", "t"), ")"),
        lambda: (draw_surprise(found), draw_surprise_by_position(found)),
        (
            Message(
                "The mean surprise is {mean:.2f} nats. The most surprising tokens are {worst}.",
                mean=found.mean,
                worst=worst,
            ),
        ),
    )


SURPRISE = Measure(
    key="surprise",
    measure=measure,
    tell=tell,
    applies=applies,
    scalars=(Scalar("mean", "mean surprise (nats)", rank=18),),
)
