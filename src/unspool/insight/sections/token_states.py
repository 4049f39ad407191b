"""Token states in the report."""

from __future__ import annotations

from unspool.insight.figures.text import draw_dendrogram, draw_token_map
from unspool.insight.measure import Measure
from unspool.insight.measures.token_states import TokenStates, measure_token_states
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.language import Message


def tell(found: TokenStates) -> Section:
    """Which tokens the network treats alike."""
    return Section(
        "token_states",
        "Which tokens are alike",
        "What has the network learned about words?",
        "For every token, the states after it are averaged. Tokens that the network treats alike are close together. "
        "The tree joins the closest tokens first; the map projects the distances to a plane. Elman (1990) found that "
        "verbs and nouns separate in this way, although the network was told about neither.",
        "",
        lambda: (draw_dendrogram(found), draw_token_map(found)),
        (
            Message(
                "States of one token in different contexts are {same:.2f} apart (cosine distance), states of different "
                "tokens {other:.2f}.",
                same=found.same,
                other=found.other,
            ),
        ),
    )


TOKEN_STATES = Measure(
    key="token_states",
    measure=lambda specimen: measure_token_states(specimen.recording, specimen.text),
    tell=tell,
    applies=lambda specimen: specimen.tokens is not None,
    scalars=(
        Scalar("same", "distance of states of one token", rank=31),
        Scalar("other", "distance of states of other tokens", rank=32),
    ),
)
