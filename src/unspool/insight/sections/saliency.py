"""Saliency in the report: what one output rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unspool.insight.figures.saliency import draw_saliency, draw_saliency_text
from unspool.insight.measure import Measure
from unspool.insight.measures.saliency import Saliency, measure_saliency
from unspool.insight.recording import Recording
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, row, sub
from unspool.insight.specimen import Specimen
from unspool.language import Message, listed, words

#: Seconds that the runs without one step may take.
SECONDS = 1.0
#: Steps that are named.
NAMED = 3


@dataclass(frozen=True, eq=False)
class StepSaliency:
    """What one output depends on, and the text that it was computed from."""

    of: str  # the output
    saliency: Saliency
    tokens: tuple[str, ...]  # one per step; empty where steps are not tokens


def measure(specimen: Specimen) -> StepSaliency:
    """Of the last prediction where a model predicts step by step, else of the loss of the first sequence."""
    recording = specimen.recording if specimen.focus is None else specimen.focus()
    gradient = specimen.gradient if specimen.focus is None else None
    tokens = specimen.tokens
    shape = None if tokens is None or specimen.focus is not None else _find_shape(recording, tokens)
    found = measure_saliency(recording, seconds=SECONDS, gradient=gradient, shape=shape)
    steps = len(found.product)
    text = () if tokens is None or len(tokens) < steps else tuple(step[0] for step in tokens[:steps])
    of = "the loss, by the first sequence" if specimen.focus is None else "the surprise of the last prediction"
    return StepSaliency(words(of), found, text)


def _find_shape(recording: Recording, tokens: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Steps and sequences of the tokens, if a layer runs these: a lower one may read letters, word by word."""
    shape = len(tokens), len(tokens[0]) if tokens else 0
    return shape if any(tuple(layer.live.shape) == shape for layer in recording.layers) else None


def tell(found: StepSaliency) -> Section:
    """Which steps one output depends on."""
    return Section(
        "saliency",
        "What one output rests on",
        "Which steps of the input decide this output?",
        "One number is chosen: the surprise of the last prediction where the model predicts tokens, else the loss. A "
        "step matters if the number changes when the input of the step is replaced by zero: saliency by removal. "
        "Gradient × input estimates the same change to first order, for all steps at once. Where the two differ, the "
        "network is far from linear, and removal is right. `measure_saliency` explains any other output.",
        formula(
            row("(", sub("x", "t"), "- 0)"), "·", frac(row("∂", "y"), row("∂", sub("x", "t"))), "≈ y - y(",
            sub("x", "t"), "= 0)",
        ),
        lambda: tuple(_draw(found)),
        tuple(_findings(found)),
    )  # fmt: skip


def _draw(found: StepSaliency) -> Iterator[object]:
    if found.tokens:
        yield draw_saliency_text(found.saliency, found.tokens)
    yield draw_saliency(found.saliency)


def _findings(found: StepSaliency) -> Iterator[str]:
    saliency = found.saliency
    removed = np.flatnonzero(np.isfinite(saliency.removal))
    values = saliency.removal if len(removed) else saliency.product
    places = [int(place) for place in np.argsort(-np.abs(np.nan_to_num(values)))[:NAMED]]
    steps = len(saliency.product)
    yield Message(
        "The output is {of}, {value:.4g}. It depends most on {steps}.",
        of=found.of,
        value=saliency.output,
        steps=listed([_name(found, place) for place in places]),
    )
    if 0 < len(removed) < steps:
        yield Message(
            "Only the last {count} of {steps} steps were removed in the time given.", count=len(removed), steps=steps
        )


def _name(found: StepSaliency, place: int) -> str:
    """A step by its number, as on the figure's axis, and its token."""
    if not found.tokens:
        return Message("step {place}", place=place)
    return Message("step {place} ({token})", place=place, token=repr(found.tokens[place])[:24])


SALIENCY = Measure(
    key="saliency",
    measure=measure,
    tell=tell,
    shows=lambda found: bool(len(found.saliency.product)),
    scalars=(Scalar("saliency", None),),
    weight=3,
)
