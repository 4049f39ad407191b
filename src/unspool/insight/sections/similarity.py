"""Similarity of layers in the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from unspool.insight.figures.similarity import draw_similarity
from unspool.insight.measure import Measure
from unspool.insight.measures.similarity import Array, Similarity, compare_states, measure_similarity
from unspool.insight.report.contract import Section
from unspool.insight.report.scalars import Scalar
from unspool.insight.sections.formula import formula, frac, norm, row, sup
from unspool.language import Message

#: From here on two neighboring layers represent the data nearly alike.
ALIKE = 0.95
#: Steps that are compared: of more, RSA would take seconds.
ROWS = 500
#: Moments of training that are compared.
MOMENTS = 24

FORMULA = formula(
    "CKA =",
    frac(
        sup(norm(row(sup("Y", "T"), "X")), "2"),
        row(norm(row(sup("X", "T"), "X")), norm(row(sup("Y", "T"), "Y"))),
    ),
)


def tell(found: Similarity) -> Section:
    """Which layers represent the data alike."""
    return Section(
        "similarity",
        "How alike the layers are",
        "Does each layer represent the data in a way of its own?",
        "Every step of the data is a point in the space of each layer. Two layers are alike if the same steps are far "
        "apart in both, whatever the directions: a rotation of the space changes neither number. CKA weighs large "
        "differences; RSA compares the order of all distances. Neighboring layers that are nearly alike do little of "
        "their own: fewer layers may be enough.",
        FORMULA,
        lambda: (draw_similarity(found),),
        tuple(_findings(found)),
    )


def _findings(found: Similarity) -> Iterator[str]:
    for place in range(1, len(found.first)):
        value, pair = found.cka[place - 1, place], found.first[place - 1 : place + 1]
        if np.isfinite(value) and len({label.rstrip(" ←→") for label in pair}) == 2:  # not two directions of one layer
            template = "{lower} and {upper}: CKA {cka:.2f}, RSA {rsa:.2f}{alike}."
            alike = Message("; they represent the data nearly alike") if value > ALIKE else ""
            yield Message(
                template,
                lower=pair[0],
                upper=pair[1],
                cka=float(value),
                rsa=float(found.rsa[place - 1, place]),
                alike=alike,
            )


def tell_pair(found: Similarity) -> Section:
    """How alike the layers of two runs are, A above B."""
    section = _of_both(
        (
            Message("The highest layers: CKA {cka:.2f}, RSA {rsa:.2f}.", cka=found.cka[-1, -1], rsa=found.rsa[-1, -1]),
            Message("{steps} steps of the data were compared.", steps=found.rows),
        )
    )
    title = "How alike the layers of A (rows) and B (columns) are"
    return replace(section, draw=lambda: (draw_similarity(found, title),), equation=FORMULA)


def tell_apart() -> Section:
    """Of two runs that read different data."""
    return _of_both(
        ("The runs read different data, so that their states cannot be compared. Give both the same data.",)
    )


def _of_both(findings: tuple[str, ...]) -> Section:
    return Section(
        "similarity-of-both",
        "How alike the two runs are",
        "Do both networks represent the data in the same way?",
        "Every step of the data is a point in the space of each layer. A layer of A and a layer of B are alike if the "
        "same steps are far apart in both, whatever the directions: a rotation of the space changes neither number, "
        "and the layers may have different widths.",
        findings=findings,
    )


def tell_moments(states: Mapping[str, Array]) -> tuple[Section, ...]:
    """How alike the states of the highest layer are at the moments of a training; none for a single moment.

    Of more than 24 moments, evenly spaced ones; a moment whose states are not finite is left out.
    """
    known = [name for name, value in states.items() if np.isfinite(value).all()]
    if len(known) < 2:
        return ()
    chosen = [known[place] for place in np.unique(np.linspace(0, len(known) - 1, MOMENTS).astype(np.int64))]
    found = compare_states({name: states[name] for name in chosen}, rows=ROWS)
    *_, before, last = found.first
    section = Section(
        "moments",
        "How the states settle",
        "When does the network find its way to represent the data?",
        "Each cell compares the states of the highest layer at two moments of the training, over the same data. A "
        "block of high values is a time in which the network changed little; an edge between blocks is a time in "
        "which it found another way.",
        FORMULA,
        lambda: (draw_similarity(found, "How alike the states of two moments are"),),
        (Message("{lower} and {upper}: CKA {cka:.2f}.", lower=before, upper=last, cka=float(found.cka[-2, -1])),),
    )
    return (section,)


SIMILARITY = Measure(
    key="similarity",
    measure=lambda specimen: measure_similarity(specimen.recording, rows=ROWS),
    tell=tell,
    shows=lambda found: len(found.first) > 2,  # nothing for a single layer
    scalars=(Scalar("rows", None),),
)
