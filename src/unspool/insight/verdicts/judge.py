"""Judge: all rules in the order of their importance."""

from __future__ import annotations

import numpy as np

from unspool.insight.measurements import Measurements
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen
from unspool.insight.verdicts.dynamics import chaotic
from unspool.insight.verdicts.gradients import SHORTEST_SEQUENCE, exploding, truncated, vanishing
from unspool.insight.verdicts.rules import Case, Rule
from unspool.insight.verdicts.units import dead, idle, saturated, shut

#: What stops learning altogether comes first, then what limits it, then what is worth knowing.
RULES: tuple[Rule, ...] = (dead, chaotic, exploding, saturated, vanishing, truncated, shut, idle)
ORDER = ("fault", "warning", "note", "good")


def judge(specimen: Specimen, found: Measurements) -> tuple[Verdict, ...]:
    """What is wrong, the most important first; or that nothing was found."""
    case = Case(specimen, found)
    said = [verdict for rule in RULES if (verdict := rule(case)) is not None]
    said.sort(key=lambda verdict: ORDER.index(verdict.severity))
    if any(verdict.severity in ("fault", "warning") for verdict in said):
        return tuple(said)
    return (_nothing(case), *said)


def _nothing(case: Case) -> Verdict:
    found = case.found
    looked = [name.replace("_", " ") for name, value in vars(found).items() if name != "missing" and value is not None]
    evidence = f"Looked at: {', '.join(looked)}." if looked else "Nothing could be measured."
    if case.steps < SHORTEST_SEQUENCE:
        said = f"The longest sequence has {case.steps} step(s): memory does not show over so few."
        remedy = f"Give sequences of {SHORTEST_SEQUENCE} steps at least."
        return Verdict("short", "note", "Too short to judge", f"{said} {evidence}", remedy)
    if found.flow is not None and np.isfinite(found.flow.survival).any():
        best = int(found.flow.horizon.argmax())
        least = "at least " if found.flow.censored[best] else ""
        evidence = f"Gradients come back from {least}{int(found.flow.horizon[best])} steps. {evidence}"
    return Verdict("healthy", "good", "Nothing wrong found", evidence, "Nothing needs to be changed.")
