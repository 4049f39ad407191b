"""Gates in the report."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.gates import draw_gate_histograms, draw_gate_maps
from unspool.insight.measure import Measure
from unspool.insight.measures.gates import Gates, measure_gates
from unspool.insight.report.contract import Section
from unspool.insight.sections.formula import formula, sub
from unspool.language import Message

ROLES = {
    "keep": "{label}, gate {name}: {mean:.0%} open on average; it keeps the state.",
    "write": "{label}, gate {name}: {mean:.0%} open on average; it lets new values in.",
    "gate": "{label}, gate {name}: {mean:.0%} open on average.",
}


def tell(found: Gates) -> Section:
    """How open the gates are."""
    return Section(
        "gates",
        "What the gates do",
        "Which gates are open, and when?",
        "A gate is a number between 0 (closed) and 1 (open) for every unit and step. The maps show the mean over the "
        "sequences of the data. The histograms show how the values are distributed at each step. Gates that are always "
        "half open select nothing; gates that stay at 0 or 1 switch nothing.",
        formula("gate =", "σ(W", sub("x", "t"), "+ U", sub("h", "t-1"), "+ b)"),
        lambda: (draw_gate_maps(found), draw_gate_histograms(found)),
        tuple(
            Message(ROLES[gate.role], label=gate.label, name=gate.name, mean=float(np.nanmean(gate.mean)))
            for gate in found.gates
            if np.isfinite(gate.mean).any()
        ),
    )


GATES = Measure(
    key="gates",
    measure=lambda specimen: measure_gates(specimen.recording),
    tell=tell,
    shows=lambda found: bool(found.gates),  # nothing for cells without gates
    timeline="measured",
)
