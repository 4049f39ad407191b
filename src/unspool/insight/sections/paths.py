"""Paths of the states in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.paths import draw_paths
from unspool.insight.measure import Measure
from unspool.insight.measures.paths import Path, Paths, measure_paths
from unspool.insight.report.contract import Section
from unspool.language import Message


def tell(found: Paths) -> Section:
    """Where the states of the data go."""
    return Section(
        "paths",
        "Each state by itself",
        "What does the cell state do that the output does not show?",
        "A cell with several states, such as h and c of an LSTM, keeps them in different ways: c is the memory, h is "
        "what others read of it. Each plane shows the two directions in which one state varies most. A state whose "
        "first two directions have most of the variance moves in few dimensions.",
        "",
        lambda: (draw_paths(found),),
        tuple(_finding(path) for path in found.paths if np.isfinite(path.explained).all()),
    )


def _finding(path: Path) -> str:
    return Message(
        "{label}, {state}: two directions have {part:.0%} of the variance.",
        label=path.label,
        state=path.state,
        part=float(path.explained.sum()),
    )


PATHS = Measure(
    key="paths",
    measure=lambda specimen: measure_paths(specimen.recording),
    tell=tell,
    shows=lambda found: (
        len({path.state for path in found.paths}) > 1
    ),  # cells with one state are among the fixed points
)
