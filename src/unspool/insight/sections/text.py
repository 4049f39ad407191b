"""Sections about tokens: what surprised, what units do over a text, and which words are alike to the network."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.text import (
    draw_dendrogram,
    draw_ribbons,
    draw_surprise,
    draw_surprise_by_position,
    draw_token_map,
)
from unspool.insight.measures.surprise import Surprise
from unspool.insight.measures.token_states import TokenStates
from unspool.insight.report.contract import Section
from unspool.insight.sections.mathml import formula, row, sub
from unspool.insight.specimen import Specimen

#: Units and tokens of a ribbon, so that it can be read.
RIBBONS, TOKENS = 12, 80


def tell_surprise(found: Surprise) -> Section:
    """What the model did not expect."""
    shown = ", ".join(dict.fromkeys(repr(found.tokens[place])[:40] for place in found.worst))
    return Section(
        "surprise",
        "What surprised it",
        "Where in the text is the model wrong?",
        "The deeper a token's colour, the greater its surprise: minus the logarithm of the probability that the "
        "model gave to it before it came. Zero is a sure prediction. The second curve is the mean over the position "
        "in the sequence: it falls while the model gathers context, and is level from where more context does not "
        "help any more.",
        formula("surprise = -ln p(", sub("x", "t+1"), "|", row(sub("x", "1"), ", …,"), sub("x", "t"), ")"),
        (draw_surprise(found), draw_surprise_by_position(found)),
        (f"Mean surprise {found.mean:.2f} nats; most surprising: {shown}.",),
    )


def tell_token_states(found: TokenStates) -> Section:
    """Which tokens are alike to the network."""
    findings = [
        f"States of one token in different contexts lie {found.same:.2f} apart (cosine), those of different tokens "
        f"{found.other:.2f}."
    ]
    return Section(
        "token-states",
        "Which tokens are alike",
        "What has the network learned about words?",
        "For every token, the states after it are averaged; tokens that the network treats alike end up close "
        "together. The tree joins the closest first; in the map, distances are flattened to a plane. Elman saw in "
        "1990 that verbs part from nouns this way, though nobody told the network about either.",
        "",
        (draw_dendrogram(found), draw_token_map(found)),
        tuple(findings),
    )


def tell_ribbons(specimen: Specimen) -> Section:
    """Units over text: those that vary most."""
    assert specimen.tokens is not None
    unit = [unit for unit in specimen.recording.units if not unit.reverse][-1]
    row_ = int(unit.live.sum(0).argmax())
    steps = min(int(unit.live[:, row_].sum()), TOKENS)
    states = unit.output[:steps, row_].numpy()
    liveliest = np.argsort(states.std(0))[::-1][:RIBBONS]
    tokens = [specimen.tokens[t][row_] for t in range(steps)]
    names = [f"unit {number}" for number in liveliest]
    return Section(
        "ribbons",
        "Units over text",
        "What does a unit respond to?",
        f"Each ribbon is one unit of {unit.label} over a stretch of text: those that vary most there. Some units "
        "count, some wait for a quotation mark or the end of a line, most do nothing that has a name.",
        "",
        (draw_ribbons(tokens, states[:, liveliest], names),),
        (),
    )
